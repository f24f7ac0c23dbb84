//! The table of ports: the script sorts and filters it, and shows as many rows as one can read.

use std::fmt::Write;

use models::report::Report;
use serde_json::{Value, json};

use super::{data, escape, rounded};
use crate::link::{Link, links};

/// Rows that stand in the page; all of them are in its data.
const ROWS: usize = 200;

/// Heads of the columns.
const HEADS: [&str; 12] = [
    "port",
    "peer",
    "rate (Gb/s)",
    "utilisation (%)",
    "sent (MB)",
    "paused (us)",
    "paused (%)",
    "pauses",
    "ECN marks (frames)",
    "dropped by the peer (frames)",
    "deepest queue (KB)",
    "mean queue (KB)",
];
/// Columns that say that something happened: pauses, marks, drops.
const EVENTFUL: [usize; 3] = [7, 8, 9];

/// A number of a cell: what is below half of the last digit that one reads is nothing.
fn cell(value: f64) -> f64 {
    if value.abs() < 5e-4 { 0.0 } else { rounded((value * 1e3).round() / 1e3) }
}

/// The cells of a row.
fn cells(link: &Link<'_>) -> Vec<Value> {
    let port = link.port;
    let drops: u64 = link.drops.iter().map(|(_, count)| *count).sum();
    vec![
        json!(port.port),
        json!(port.peer),
        json!(cell(port.rate_bps as f64 / 1e9)),
        json!(cell(link.utilisation * 100.0)),
        json!(cell(port.tx_bytes as f64 / 1e6)),
        json!(cell(port.paused_s * 1e6)),
        json!(cell(link.paused * 100.0)),
        json!(port.pause_episodes),
        json!(port.ecn_marked_packets),
        json!(drops),
        json!(cell(port.max_queue_bytes as f64 / 1e3)),
        json!(cell(port.mean_queue_bytes / 1e3)),
    ]
}

pub(super) fn section(html: &mut String, report: &Report) {
    let mut links = links(report);
    let paused = links.iter().any(|link| link.paused > 0.0);
    if paused {
        links.sort_by(|a, b| b.paused.total_cmp(&a.paused));
    }
    let sorted = if paused { 6 } else { 3 };
    html.push_str(
        "<section id=\"ports-part\"><h2>Ports</h2><div class=\"bar\"><label>Filter: <input \
         id=\"filter\" type=\"search\" placeholder=\"leaf0 or host3\"></label><label><input \
         id=\"eventful\" type=\"checkbox\"> only with pauses, marks or drops</label><span \
         id=\"count\" class=\"sub\" role=\"status\"></span></div><div class=\"card scroll\"><table \
         id=\"ports\"><thead><tr>",
    );
    for (column, head) in HEADS.iter().enumerate() {
        let sort = if column == sorted { " aria-sort=\"descending\"" } else { "" };
        let class = if column < 2 { " class=\"w\"" } else { "" };
        let _ = write!(
            html,
            "<th scope=\"col\"{class}{sort}><button type=\"button\">{head}</button></th>"
        );
    }
    html.push_str("</tr></thead><tbody>");
    let rows: Vec<Value> = links.iter().map(|link| Value::Array(cells(link))).collect();
    for row in rows.iter().take(ROWS) {
        html.push_str("<tr>");
        for cell in row.as_array().into_iter().flatten() {
            match cell.as_str() {
                Some(text) => {
                    let _ = write!(html, "<td class=\"w\">{}</td>", escape(text));
                }
                None => {
                    let _ = write!(html, "<td>{cell}</td>");
                }
            }
        }
        html.push_str("</tr>");
    }
    html.push_str(
        "</tbody></table></div><p><button id=\"more\" type=\"button\" hidden>Show more</button></p>\
         </section>",
    );
    data(html, "port-data", &json!({ "sorted": sorted, "eventful": EVENTFUL, "rows": rows }));
}
