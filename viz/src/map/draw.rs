//! The picture of a fabric as SVG.

use std::fmt::Write;

use plotters::style::FontStyle;

use super::layout::{Turn, labels};
use super::{MEASURES, Map, Measure, WIDTH};
use crate::font;
use crate::style::{INK, printable, text, width};

/// What a picture is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Picture {
    /// A page, whose style sheet and script colour it.
    Page,
    /// A file of its own, coloured by the measure of this number.
    File(usize),
}

/// Colours of levels, for files: see `page/style.css`.
const LEVELS: [&str; 5] = ["#b9c4cc", "#56b4e9", "#0072b2", "#e69f00", "#b2182b"];
/// Longer lists of cables have no titles: the page's script tells of each.
const TITLES: usize = 600;
/// With more, lines of which there is nothing to say are thin.
const DENSE: usize = 400;

/// The picture.
pub(crate) fn svg(map: &Map, title: &str, picture: Picture) -> String {
    font::register();
    let labels = labels(map);
    let mut svg = String::new();
    let (above, measure) = match picture {
        Picture::Page => (0.0, 0),
        Picture::File(measure) => (64.0, measure),
    };
    let height = map.height + above;
    let namespace = match picture {
        Picture::Page => {
            let dense = if map.halves.len() > DENSE { " class=\"dense\"" } else { "" };
            format!("id=\"map\"{dense} role=\"img\" aria-label=\"The fabric\"")
        }
        Picture::File(_) => {
            format!("xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height:.0}\"")
        }
    };
    let _ = write!(
        svg,
        "<svg {namespace} viewBox=\"0 {:.0} {WIDTH} {height:.0}\" font-family=\"sans-serif\">",
        -above
    );
    if let Picture::File(_) = picture {
        file_head(&mut svg, title, &MEASURES[measure], [height, above], map.halves.len() > DENSE);
    }
    tiers(&mut svg, map);
    halves(&mut svg, map, measure);
    svg.push_str("<g id=\"arrows\"></g>");
    for (index, spot) in map.spots.iter().enumerate() {
        spot_svg(&mut svg, spot, labels.get(&index).copied());
    }
    svg.push_str("</svg>\n");
    svg
}

fn file_head(
    svg: &mut String,
    title: &str,
    measure: &Measure,
    [height, above]: [f64; 2],
    dense: bool,
) {
    svg.push_str("<style>.h{fill:none;stroke-width:2.2}.box{fill:#fff;stroke:#555}.host{fill:#eef2f5;stroke:#777}.n{font-size:11.5px;fill:#222;stroke:#fff;stroke-width:3;paint-order:stroke}.t{font-size:12px;fill:#666}.tier{stroke:#e6e6e6}.stuck{stroke:#000;stroke-width:5;stroke-dasharray:7 4}");
    if dense {
        svg.push_str(".h.q0{stroke-width:.7}");
    }
    for (level, color) in LEVELS.iter().enumerate() {
        let _ = write!(svg, ".q{level}{{stroke:{color}}}.f{level}{{fill:{color}}}");
    }
    let _ = write!(
        svg,
        "</style><rect x=\"0\" y=\"{:.0}\" width=\"{WIDTH}\" height=\"{height:.0}\" fill=\"#fff\"/>\
         <text x=\"12\" y=\"-40\" font-size=\"16\" font-weight=\"bold\" fill=\"#222\">{}</text>\
         <text x=\"12\" y=\"-18\" class=\"t\">{} of each direction of a cable, at the end that sends:</text>",
        -above,
        escape(title),
        measure.name,
    );
    let style = text(15.0, INK, FontStyle::Normal);
    let lead = format!("{} of each direction of a cable, at the end that sends:", measure.name);
    let mut x = 24.0 + f64::from(width(&lead, &style));
    for (level, words) in measure.words.iter().enumerate() {
        let _ = write!(
            svg,
            "<rect x=\"{x:.0}\" y=\"-28\" width=\"14\" height=\"12\" class=\"f{level}\"/>\
             <text x=\"{:.0}\" y=\"-18\" class=\"t\">{words}</text>",
            x + 19.0
        );
        x += 40.0 + f64::from(width(words, &style));
    }
}

fn tiers(svg: &mut String, map: &Map) {
    for (name, y) in &map.tiers {
        let _ = write!(
            svg,
            "<line class=\"tier\" x1=\"0\" x2=\"{WIDTH}\" y1=\"{y:.0}\" y2=\"{y:.0}\"/>\
             <text class=\"t\" x=\"2\" y=\"{:.0}\">{}</text>",
            y - 5.0,
            escape(name)
        );
    }
}

fn halves(svg: &mut String, map: &Map, measure: usize) {
    svg.push_str("<g id=\"halves\">");
    let titled = map.halves.len() <= TITLES;
    // the worst on top; scripts find each by its number
    let mut order: Vec<usize> = (0..map.halves.len()).collect();
    order.sort_by(|a, b| map.halves[*a].values[measure].total_cmp(&map.halves[*b].values[measure]));
    for index in order {
        let half = &map.halves[index];
        let [from, control, to] = half.line;
        let level = MEASURES[measure].level(half.values[measure]);
        let straight = (from.0 + to.0 - 2.0 * control.0).abs() < 0.01;
        let way = match straight {
            true => format!("L{:.1} {:.1}", to.0, to.1),
            false => format!("Q{:.1} {:.1} {:.1} {:.1}", control.0, control.1, to.0, to.1),
        };
        let stuck = if half.stuck { " stuck" } else { "" };
        let _ = write!(
            svg,
            "<path id=\"h{index}\" class=\"h q{level}{stuck}\" d=\"M{:.1} {:.1}{way}\"",
            from.0, from.1
        );
        match titled {
            true => {
                let [from, to] = half.ends.map(|end| escape(&map.spots[end].name));
                let _ = write!(svg, "><title>{from} → {to}</title></path>");
            }
            false => svg.push_str("/>"),
        }
    }
    svg.push_str("</g>");
}

fn spot_svg(svg: &mut String, spot: &super::Spot, label: Option<Turn>) {
    let ((x, y), (wide, high)) = (spot.at, spot.size);
    let class = if spot.hosts > 0 { "host" } else { "box" };
    let _ = write!(
        svg,
        "<g><title>{}{}</title><rect class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{wide:.1}\" \
         height=\"{high:.0}\" rx=\"3\"/>",
        escape(&spot.name),
        if spot.detail.is_empty() { String::new() } else { format!(", {}", escape(&spot.detail)) },
        x - wide / 2.0,
        y - high / 2.0
    );
    let name = escape(&spot.name);
    match label {
        // below hosts, in the boxes of switches
        Some(Turn::Flat) if spot.hosts > 0 => {
            let _ = write!(
                svg,
                "<text class=\"n\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{name}</text>",
                y + high / 2.0 + 14.0
            );
            if !spot.detail.is_empty() {
                let _ = write!(
                    svg,
                    "<text class=\"t\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                    y + high / 2.0 + 29.0,
                    escape(&spot.detail)
                );
            }
        }
        Some(Turn::Flat) => {
            let _ = write!(
                svg,
                "<text class=\"n\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{name}</text>",
                y + 4.0
            );
            if !spot.detail.is_empty() {
                let _ = write!(
                    svg,
                    "<text class=\"t\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                    y - high / 2.0 - 5.0,
                    escape(&spot.detail)
                );
            }
        }
        Some(Turn::Up) if spot.hosts > 0 => {
            let (x, y) = (x + 4.0, y + high / 2.0 + 5.0);
            let _ = write!(
                svg,
                "<text class=\"n\" transform=\"translate({x:.1} {y:.1}) rotate(-90)\" text-anchor=\"end\">{name}</text>"
            );
        }
        Some(Turn::Up) => {
            let x = x + 4.0;
            let _ = write!(
                svg,
                "<text class=\"n\" transform=\"translate({x:.1} {y:.1}) rotate(-90)\" text-anchor=\"middle\">{name}</text>"
            );
        }
        None => {}
    }
    svg.push_str("</g>");
}

/// What the colours of each measure mean, as HTML.
pub(crate) fn legends() -> String {
    let mut html = String::new();
    for (index, measure) in MEASURES.iter().enumerate() {
        let hidden = if index == 0 { "" } else { " hidden" };
        let _ = write!(html, "<span class=\"legend\" data-measure=\"{}\"{hidden}>", measure.id);
        for (level, words) in measure.words.iter().enumerate() {
            let _ = write!(html, "<span><i class=\"b{level}\"></i>{words}</span>");
        }
        html.push_str("</span>");
    }
    html.push_str(
        "<span class=\"legend\" data-measure=\"playing\" hidden><span><i class=\"b4\"></i>paused now\
         </span><span><i class=\"b3\"></i>because of what waits where the arrow begins</span><span>\
         <b>◯</b> where it began</span></span>",
    );
    html
}

fn escape(text: &str) -> String {
    crate::page::escape(&printable(text))
}
