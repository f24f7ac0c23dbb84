//! `<graphs>`: the channels that NCCL's search found. It says nothing of what a server is built of.

use super::super::ImportError;
use super::super::text::{TextFile, counted};
use super::super::xml::Element;

/// The error that says what such a file is.
pub(super) fn refuse(file: &TextFile, root: &Element) -> ImportError {
    let mut text =
        "this is a graph (NCCL_GRAPH_FILE), no topology: it has the channels that NCCL's \
                    search found, not what the server is built of; <system> is expected, as \
                    NCCL_TOPO_DUMP_FILE writes it. This one has:"
            .to_owned();
    let graphs: Vec<&Element> =
        root.children.iter().filter(|child| child.name == "graph").collect();
    for graph in &graphs {
        text += &describe(graph);
    }
    if graphs.is_empty() {
        text += " nothing";
    }
    file.error_at(root.line, text)
}

fn describe(graph: &Element) -> String {
    let said = |key: &str| graph.get(key).unwrap_or("?").to_owned();
    let word = |key: &str, words: &[&str]| {
        let number = graph.get(key).and_then(|text| text.parse::<usize>().ok());
        let word = number.and_then(|number| words.get(number)).copied();
        word.filter(|word| !word.is_empty())
            .map_or_else(|| format!("{key} {}", said(key)), str::to_owned)
    };
    // NCCL_ALGO_* and NCCL_TOPO_PATTERN_*
    let algorithm =
        word("id", &["ring", "tree", "CollNet chain", "CollNet direct", "NVLS", "NVLSTree", "PAT"]);
    let pattern = word(
        "pattern",
        &["", "balanced tree", "split tree", "tree", "ring", "NVLS", "CollNet direct"],
    );
    let channels: Vec<&Element> =
        graph.children.iter().filter(|child| child.name == "channel").collect();
    let mut text = format!(
        "\n  {algorithm} (id {}, pattern {}: {pattern}): {} of {} GB/s, {} between servers\n    paths: {} \
         between GPUs, {} to NICs; crossnic {}",
        said("id"),
        said("pattern"),
        counted(channels.len(), "channel"),
        said("speedintra"),
        said("speedinter"),
        said("typeintra"),
        said("typeinter"),
        said("crossnic"),
    );
    for (number, channel) in channels.iter().enumerate() {
        text += &format!("\n    channel {number}: {}", way(channel));
    }
    text
}

/// `NET 0, GPU 0 1 2 3, NET 0`
fn way(channel: &Element) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut last = "";
    for child in &channel.children {
        let number = child.get("dev").or(child.get("rank")).unwrap_or("?");
        match parts.last_mut() {
            Some(part) if last == child.name => *part += &format!(" {number}"),
            _ => parts.push(format!("{} {number}", child.name.to_uppercase())),
        }
        last = &child.name;
    }
    parts.join(", ")
}
