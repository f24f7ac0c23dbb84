//! The fabric, coloured by what its ports did; pauses are played on it.

use std::fmt::Write;

use models::report::Report;
use serde_json::{Value, json};
use sim_core::units::grouped;

use super::{data, escape, rounded};
use crate::map::{self, MEASURES, Map, Picture, Played};
use crate::scale::{percent, time};
use crate::{Run, map::played};

pub(super) fn section(html: &mut String, run: &Run<'_>) {
    let map = map::build(run.report);
    if map.spots.is_empty() {
        return;
    }
    let played = played(&map, run.report, run.pauses);
    html.push_str("<section id=\"fabric\"><h2>Fabric</h2>");
    circles(html, run.report);
    html.push_str("<div class=\"card\"><div class=\"bar\"><label>Colour: <select id=\"measure\">");
    for measure in &MEASURES {
        let _ = write!(html, "<option value=\"{}\">{}</option>", measure.id, measure.name);
    }
    let _ = write!(html, "</select></label>{}</div>", map::legends());
    let _ = write!(
        html,
        "<div class=\"scroll\">{}</div><p id=\"hint\" class=\"hint\">Half of each cable has the colour \
         of the port that sends there. Point at one for its numbers.</p>",
        map::svg(&map, "", Picture::Page)
    );
    if let Some(played) = &played {
        player(html, run.report, played);
    }
    html.push_str("</div>");
    if map.grouped {
        html.push_str(
            "<p class=\"note\">Hosts that are on the same switches stand together: a line of a group \
             shows the greatest value of its ports.</p>",
        );
    }
    html.push_str("</section>");
    data(html, "map-data", &halves(&map, run.report));
    if let Some(played) = &played {
        data(html, "pause-data", &stretches(played));
    }
}

/// Circles of pauses, in words.
fn circles(html: &mut String, report: &Report) {
    for deadlock in &report.deadlocks {
        let chain = if deadlock.chain.is_empty() { &deadlock.cycle } else { &deadlock.chain };
        let around: Vec<&str> = chain.iter().chain(chain.first()).map(String::as_str).collect();
        let _ = write!(
            html,
            "<article class=\"card finding error\"><p><span class=\"badge error\">Deadlock</span> \
             noticed at {}{}: {} flows and {} B are stuck. Dashed in the picture, each waits for the \
             next:</p><p><code>{}</code></p></article>",
            time(deadlock.time_s),
            deadlock.closed_s.map_or(String::new(), |at| format!(", closed at {}", time(at))),
            grouped(deadlock.flows.len() as u64),
            grouped(deadlock.bytes_stuck),
            escape(&around.join(" → "))
        );
    }
}

fn player(html: &mut String, report: &Report, played: &Played) {
    let most = played.counts.iter().copied().max().unwrap_or(0);
    let mut area = String::from("M0 100");
    for (tick, count) in played.counts.iter().enumerate() {
        let y = 100.0 - f64::from(*count) / f64::from(most.max(1)) * 92.0;
        let _ = write!(area, "V{y:.0}H{}", tick + 1);
    }
    let ticks = map::TICKS;
    let step = (played.range[1] - played.range[0]) / f64::from(ticks);
    let _ = write!(
        html,
        "<h3>Pauses over time</h3><svg id=\"strip\" role=\"img\" aria-label=\"Paused directions of \
         cables over time, at most {most}\" viewBox=\"0 0 1000 100\" preserveAspectRatio=\"none\">\
         <path class=\"area\" d=\"{area}V100Z\"/><line id=\"cursor\" class=\"cursor\" x1=\"0\" x2=\"0\" \
         y1=\"0\" y2=\"100\"/></svg><div class=\"play\"><button id=\"play\" type=\"button\">▶ Play\
         </button><input id=\"time\" type=\"range\" min=\"0\" max=\"{}\" value=\"0\" aria-label=\"Time\">\
         <output id=\"now\" for=\"time\">{}</output><button id=\"whole\" type=\"button\">Whole run\
         </button></div><div id=\"told\"></div>",
        ticks - 1,
        time(played.range[0]),
    );
    let kept = match played.stretches.len() < played.made {
        true => format!(
            " Of {} stretches the {} longest are played, with {} of the time paused.",
            grouped(played.made as u64),
            grouped(played.stretches.len() as u64),
            percent(played.share)
        ),
        false => String::new(),
    };
    let truncated = report.pauses.truncated_at_s.map_or(String::new(), |at| {
        format!(" From {} on pauses were too many to be noted.", time(at))
    });
    let _ = write!(
        html,
        "<p class=\"note\">The strip shows how many directions of cables are paused, at most {most}, \
         from {} to {}. Arrows lead from where frames wait to the port that is paused because of them; \
         a ring is where that began. {} pauses; those of a port that follow each other within {} are \
         one.{kept}{truncated}</p>",
        time(played.range[0]),
        time(played.range[1]),
        grouped(played.pauses as u64),
        time(step),
    );
}

fn halves(map: &Map, report: &Report) -> Value {
    let half = |half: &map::Half| {
        let first = half.ports.first().map(|port| &report.ports[*port]);
        let name = match (first, half.ports.len()) {
            (Some(port), 1) => format!("{} to {}", port.port, port.peer),
            (Some(_), count) => {
                let [from, to] = half.ends.map(|end| map.spots[end].name.as_str());
                format!("{from} to {to} ({count} ports)")
            }
            (None, _) => String::new(),
        };
        let (x, y) = half.middle();
        let round = |value: f64| (value * 10.0).round() / 10.0;
        let levels: Vec<usize> =
            MEASURES.iter().zip(half.values).map(|(measure, value)| measure.level(value)).collect();
        json!({
            "name": name,
            "at": [round(x), round(y)],
            "values": half.values.map(rounded),
            "levels": levels,
            "stuck": half.stuck,
        })
    };
    let measures: Vec<Value> =
        MEASURES.iter().map(|measure| json!({ "id": measure.id, "name": measure.name })).collect();
    json!({ "measures": measures, "halves": map.halves.iter().map(half).collect::<Vec<Value>>() })
}

fn stretches(played: &Played) -> Value {
    let all = played
        .stretches
        .iter()
        .map(|one| json!([one.ticks[0], one.ticks[1], one.half, one.cause, u8::from(one.root)]));
    json!({
        "from": played.range[0],
        "to": played.range[1],
        "ticks": map::TICKS,
        "stretches": all.collect::<Vec<Value>>(),
    })
}
