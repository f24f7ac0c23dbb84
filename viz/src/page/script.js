"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const read = (id) => { const at = $(id); return at ? JSON.parse(at.textContent) : null; };
  const short = (value) => value === 0 ? "0" : Math.abs(value) >= 100 ? String(Math.round(value)) : String(Number(value.toPrecision(3)));
  const time = (s) => s >= 1 ? short(s) + " s" : s >= 1e-3 ? short(s * 1e3) + " ms" : short(s * 1e6) + " us";

  // the fabric
  const map = $("map"), data = read("map-data");
  if (map && data) {
    const paths = data.halves.map((_, i) => $("h" + i));
    const choose = $("measure");
    const legend = (id) => document.querySelectorAll(".legend[data-measure]").forEach((one) => { one.hidden = one.dataset.measure !== id; });
    const colour = () => {
      const m = data.measures.findIndex((one) => one.id === choose.value);
      data.halves.forEach((half, i) => {
        const level = half.levels[m];
        paths[i].setAttribute("class", "h q" + level + (half.stuck ? " stuck" : ""));
      });
      legend(choose.value);
    };
    choose.addEventListener("change", () => { stop(); map.classList.remove("playing"); $("arrows").replaceChildren(); colour(); });
    const tell = (i) => {
      const half = data.halves[i], [u, p, m, d] = half.values;
      $("hint").textContent = half.name + ": sent " + short(u * 100) + " % of the time, paused " + short(p * 100) + " %, marked " + short(m * 100) + " % of frames, " + d + " dropped";
    };
    map.addEventListener("pointerover", (event) => {
      const id = event.target.id;
      if (/^h\d+$/.test(id)) tell(Number(id.slice(1)));
    });

    // pauses
    const played = read("pause-data");
    let timer = null;
    const stop = () => { if (timer) { clearInterval(timer); timer = null; $("play").textContent = "▶ Play"; } };
    if (played) {
      const slider = $("time"), ns = map.namespaceURI;
      const element = (name, attributes) => {
        const made = document.createElementNS(ns, name);
        for (const key in attributes) made.setAttribute(key, attributes[key]);
        return made;
      };
      const at = (tick) => played.from + (played.to - played.from) * tick / played.ticks;
      const arrow = (cause, half, root) => {
        const [x1, y1] = data.halves[cause].at, [x2, y2] = data.halves[half].at;
        const group = element("g", {});
        if (root) group.append(element("circle", { class: "root", cx: x1, cy: y1, r: 7 }));
        const dx = x2 - x1, dy = y2 - y1, length = Math.hypot(dx, dy);
        if (length > 4) {
          // a bow, so that arrows there and back are two
          const bow = Math.min(0.12, 36 / length), cx = (x1 + x2) / 2 - dy * bow, cy = (y1 + y2) / 2 + dx * bow;
          const tx = x2 - cx, ty = y2 - cy, t = Math.hypot(tx, ty) || 1, ux = tx / t, uy = ty / t;
          group.append(element("path", { class: "arrow", d: `M${x1} ${y1}Q${cx} ${cy} ${x2} ${y2}` }));
          group.append(element("path", { class: "head", d: `M${x2} ${y2}L${x2 - 10 * ux - 5 * uy} ${y2 - 10 * uy + 5 * ux}L${x2 - 10 * ux + 5 * uy} ${y2 - 10 * uy - 5 * ux}Z` }));
        }
        return group;
      };
      const show = () => {
        const tick = Number(slider.value);
        const now = played.stretches.filter((one) => one[0] <= tick && tick <= one[1]);
        const halves = new Set(now.map((one) => one[2]));
        map.classList.add("playing");
        legend("playing");
        paths.forEach((path, i) => path.classList.toggle("now", halves.has(i)));
        const drawn = now.slice(0, 400).map((one) => arrow(one[3], one[2], one[4]));
        $("arrows").replaceChildren(...drawn);
        $("now").textContent = time(at(tick));
        slider.setAttribute("aria-valuetext", time(at(tick)));
        const x = tick / played.ticks * 1000, cursor = $("cursor");
        cursor.setAttribute("x1", x); cursor.setAttribute("x2", x);
        const list = document.createElement("ul");
        for (const one of now.slice(0, 6)) {
          const item = document.createElement("li");
          item.textContent = data.halves[one[2]].name + (one[3] === one[2] ? "" : ", because of what waits at " + data.halves[one[3]].name) + (one[4] ? " (there it began)" : "");
          list.append(item);
        }
        const head = document.createElement("span");
        head.textContent = halves.size === 0 ? "Nothing is paused." : halves.size + (halves.size === 1 ? " direction of a cable is" : " directions of cables are") + " paused" + (now.length > 6 ? ", such as" : ":");
        $("told").replaceChildren(head, list);
      };
      slider.addEventListener("input", () => { stop(); show(); });
      $("play").addEventListener("click", () => {
        if (timer) return stop();
        $("play").textContent = "❚❚ Pause";
        if (Number(slider.value) >= played.ticks - 1) slider.value = 0;
        show();
        timer = setInterval(() => {
          const next = Number(slider.value) + 2;
          if (next >= played.ticks) return stop();
          slider.value = next;
          show();
        }, 40);
      });
      $("whole").addEventListener("click", () => { stop(); map.classList.remove("playing"); $("arrows").replaceChildren(); $("told").replaceChildren(); colour(); });
    }
  }

  // tables
  const ports = read("port-data");
  if (ports) {
    const body = $("ports").tBodies[0], heads = [...$("ports").tHead.rows[0].cells], step = 200;
    let sort = { column: ports.sorted, up: false }, shown = step;
    const compare = (a, b) => typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true });
    const render = () => {
      const text = $("filter").value.trim().toLowerCase(), marked = $("eventful").checked;
      let rows = ports.rows.filter((row) => (!text || row[0].toLowerCase().includes(text) || row[1].toLowerCase().includes(text)) && (!marked || ports.eventful.some((column) => row[column] > 0)));
      rows = rows.slice().sort((a, b) => compare(a[sort.column], b[sort.column]) * (sort.up ? 1 : -1));
      const made = rows.slice(0, shown).map((row) => {
        const line = document.createElement("tr");
        row.forEach((value) => { const cell = document.createElement("td"); cell.textContent = typeof value === "number" ? value.toLocaleString("en", { maximumSignificantDigits: value < 100 ? 3 : 21, maximumFractionDigits: 0, roundingPriority: "morePrecision" }).replaceAll(",", " ") : value; if (typeof value !== "number") cell.className = "w"; line.append(cell); });
        return line;
      });
      body.replaceChildren(...made);
      $("count").textContent = Math.min(shown, rows.length) + " of " + rows.length + " ports";
      $("more").hidden = rows.length <= shown;
      heads.forEach((head, i) => { if (i === sort.column) head.setAttribute("aria-sort", sort.up ? "ascending" : "descending"); else head.removeAttribute("aria-sort"); });
    };
    heads.forEach((head, i) => head.querySelector("button").addEventListener("click", () => {
      sort = { column: i, up: sort.column === i ? !sort.up : typeof ports.rows[0][i] !== "number" };
      shown = step; render();
    }));
    $("filter").addEventListener("input", () => { shown = step; render(); });
    $("eventful").addEventListener("change", () => { shown = step; render(); });
    $("more").addEventListener("click", () => { shown += 1000; render(); });
    render();
  }
})();
