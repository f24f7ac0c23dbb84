//! What was read, for people.

use super::super::text::counted;
use super::server::{Joined, Server};
use super::write;

/// GPUs, NICs, how far they are from each other, and what was passed over.
pub(super) fn of(server: &Server) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: String| text += &format!("{name:<9} {value}\n");
    row("GPUs", gpus(server));
    row("between", joined(&server.joined));
    row("NICs", nics(server));
    if let Some(told) = server.gdr.as_ref().filter(|told| !told.value) {
        row("GPUDirect", format!("off: {}", told.from));
    }
    if !server.cpus.is_empty() {
        row("CPUs", server.cpus.clone());
    }
    for (number, (what, count)) in server.ignored.iter().enumerate() {
        row(if number == 0 { "ignored" } else { "" }, format!("{count} x {what}"));
    }
    text += &matrix(server);
    if !server.nics.is_empty() {
        text += &format!("{}\n", write::cabling(server));
    }
    text
}

fn gpus(server: &Server) -> String {
    let what = match (&server.model, &server.architecture) {
        (Some(model), _) => model.value.gpu.to_owned(),
        (None, Some(architecture)) => architecture.value.to_owned(),
        (None, None) => "GPUs, of a kind that is not said".to_owned(),
    };
    let links = links(server.gpus.iter().map(|gpu| gpu.link.map(|link| link.to_string())));
    format!("{} x {what}{links}; preset {}", server.gpus.len(), server.preset())
}

fn joined(joined: &Joined) -> String {
    match joined {
        Joined::Unknown => "not said: as the preset".to_owned(),
        Joined::Alone => "one GPU".to_owned(),
        Joined::Switch { links, rate, .. } => {
            format!("{} to switches: {rate} of a GPU each way", counted(*links as usize, "link"))
        }
        Joined::Mesh { links, rate, .. } => {
            format!("{} to other GPUs: {rate} of a GPU each way", counted(*links as usize, "link"))
        }
        Joined::Pcie { rate, from } => format!("{from}: {rate} each way"),
    }
}

fn nics(server: &Server) -> String {
    let nics = &server.nics;
    let Some(first) = nics.first() else { return "none".to_owned() };
    let ports = match nics.iter().all(|nic| nic.ports == first.ports) {
        true => format!("{} x {}", nics.len(), counted(first.ports as usize, "port")),
        false => format!("{}, {} ports together", nics.len(), server.ports()),
    };
    let links = links(nics.iter().map(|nic| nic.link.map(|link| link.to_string())));
    format!("{ports}{links}")
}

/// `, PCIe Gen4 x16`, if something is known.
fn links(all: impl Iterator<Item = Option<String>>) -> String {
    let mut kinds: Vec<String> = all.flatten().collect();
    kinds.sort();
    kinds.dedup();
    if kinds.is_empty() { String::new() } else { format!(", PCIe {}", kinds.join(", ")) }
}

/// Columns of a terminal.
const WIDTH: usize = 99;

/// NICs by GPUs; nothing if it does not fit a terminal.
fn matrix(server: &Server) -> String {
    if server.nics.is_empty() {
        return String::new();
    }
    let names: Vec<String> = server.nics.iter().map(write::name).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(4);
    let numa: Vec<&str> = server.gpus.iter().map(|gpu| gpu.numa.as_deref().unwrap_or("")).collect();
    let cell = numa.iter().map(|numa| numa.len()).max().unwrap_or(0).max(5) + 1;
    if width + cell * server.gpus.len() > WIDTH {
        return String::new();
    }
    let mut text = format!("\n{:width$}", "");
    let line = |text: &mut String, cells: &mut dyn Iterator<Item = String>| {
        for value in cells {
            *text += &format!("{value:>cell$}");
        }
        text.truncate(text.trim_end_matches(' ').len());
        text.push('\n');
    };
    line(&mut text, &mut (0..server.gpus.len()).map(|gpu| format!("GPU{gpu}")));
    for (name, nic) in names.iter().zip(&server.nics) {
        text += &format!("{name:width$}");
        line(&mut text, &mut nic.paths.iter().map(|path| path.name().to_owned()));
    }
    if numa.iter().any(|numa| !numa.is_empty()) {
        text += &format!("{:width$}", "NUMA");
        line(&mut text, &mut numa.iter().map(|numa| (*numa).to_owned()));
    }
    text + "\n"
}
