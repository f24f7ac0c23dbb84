#!/usr/bin/env python3
"""Opens reports as a reader would: no error, no request, a slider that plays, a table that sorts."""
import sys
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

chromium, folder = sys.argv[1], Path(sys.argv[2])
pages = {path.parent.name: path for path in sorted(folder.glob("*/report.html"))}
pages["comparison"] = folder / "comparison.html"
looks = [(1280, "light"), (1280, "dark"), (400, "light"), (400, "dark")]
failures = []


def check(what, fine, seen=""):
    print(f"{'ok' if fine else 'FAILED'}: {what} {seen}".rstrip())
    if not fine:
        failures.append(what)


def open_page(browser, path, width, scheme):
    """A page, and what it said and asked for."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.resolve().as_uri())
    return page, said, asked


OVERLAPS = """() => {
  const seen = [];
  for (const svg of document.querySelectorAll('figure svg, #map')) {
    if (!svg.getClientRects().length) continue;
    const texts = [...svg.querySelectorAll('text')].filter((one) => one.textContent.trim())
      .map((one) => [one.textContent.trim(), one.getBoundingClientRect()]);
    for (let i = 0; i < texts.length; i++) for (let j = 0; j < i; j++) {
      const [[a, p], [b, q]] = [texts[i], texts[j]];
      const wide = Math.min(p.right, q.right) - Math.max(p.left, q.left);
      const high = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
      // letters do not fill their line
      if (wide > 1 && high > 0.35 * Math.min(p.height, q.height, p.width, q.width)) seen.push(a + ' / ' + b);
    }
    const whole = svg.getBoundingClientRect();
    for (const [text, box] of texts) if (box.left < whole.left - 1 || box.right > whole.right + 1) seen.push(text + ' leaves the picture');
  }
  return seen;
}"""


def plays(page, name):
    """The slider changes what is drawn, and so does the button."""
    drawn = lambda: page.inner_html("#map")
    seen = {drawn()}
    for tick in (0, 20, 200, 400, 600, 800, 999):
        page.locator("#time").fill(str(tick))
        seen.add(drawn())
    check(f"{name}: the slider changes the drawing", len(seen) > 2, f"({len(seen)} pictures)")
    paused = page.locator("#map .now").count()
    check(f"{name}: some port is paused at some time", any("now" in one for one in seen), f"({paused} now)")
    page.locator("#time").fill("0")
    page.click("#play")
    page.wait_for_timeout(400)
    page.click("#play")
    check(f"{name}: it plays", int(page.input_value("#time")) > 0)
    page.locator("#time").fill("500")
    page.locator("#fabric").screenshot(path=folder / f"{name}-playing.png")
    page.click("#whole")


def sorts(page, name):
    """A click on a head sorts, another one turns the order around; the filter filters."""
    head = page.locator("#ports thead th").nth(4)
    cells = lambda: [float(text.replace(" ", "")) for text in page.locator("#ports tbody td:nth-child(5)").all_inner_texts()]
    head.locator("button").click()
    down = cells()
    check(f"{name}: sorts down", head.get_attribute("aria-sort") == "descending" and down == sorted(down, reverse=True))
    head.locator("button").click()
    up = cells()
    check(f"{name}: sorts up", head.get_attribute("aria-sort") == "ascending" and up == sorted(up))
    before = page.locator("#ports tbody tr").count()
    page.fill("#filter", page.locator("#ports tbody td").first.inner_text())
    after = page.locator("#ports tbody tr").count()
    check(f"{name}: filters", 0 < after < before, f"({before} to {after} rows)")
    page.fill("#filter", "")


def colours(page, name):
    """The choice of a measure changes the colours and their legend."""
    before = page.inner_html("#halves")
    page.select_option("#measure", "pauses")
    changed = page.inner_html("#halves") != before or name not in ("pauses", "collective")
    legend = page.locator(".legend:not([hidden])").get_attribute("data-measure")
    check(f"{name}: another measure, other colours", changed and legend == "pauses")


with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
    for name, path in pages.items():
        for width, scheme in looks:
            begin = time.monotonic()
            page, said, asked = open_page(browser, path, width, scheme)
            took = time.monotonic() - begin
            what = f"{name} {width} {scheme}"
            check(f"{what}: no error", not said, "; ".join(said))
            check(f"{what}: no request", asked == [path.resolve().as_uri()], f"(open after {took:.2f} s)")
            wide = page.evaluate("document.documentElement.scrollWidth")
            check(f"{what}: as wide as the screen", wide <= width, f"({wide})")
            overlaps = page.evaluate(OVERLAPS)
            check(f"{what}: no label over another", not overlaps, "; ".join(overlaps[:5]))
            page.screenshot(path=folder / f"{name}-{width}-{scheme}.png", full_page=True)
            if (width, scheme) == looks[0] and name != "comparison":
                sorts(page, name)
                if page.locator("#time").count():
                    plays(page, name)
                colours(page, name)
                check(f"{name}: still no error", not said, "; ".join(said))
            page.close()
    if "deadlock" in pages:
        stuck, _, _ = open_page(browser, pages["deadlock"], 1280, "light")
        check("deadlock: its circle is marked", stuck.locator("#map .stuck").count() >= 3)
    browser.close()
print(f"{len(failures)} failures")
sys.exit(1 if failures else 0)
