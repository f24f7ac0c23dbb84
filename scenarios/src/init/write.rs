//! The scenario as TOML, with a comment on each key.

use serde::Serialize;
use sim_core::{Bytes, Rate};

use super::numbers::Numbers;
use super::shape::Fabric;
use super::{Pattern, Sizes};

/// A quantity with its unit, as it stands in TOML.
pub(super) fn exact(value: impl Serialize) -> String {
    serde_json::to_string(&value).unwrap_or_default()
}

/// The whole file.
pub(super) fn to_toml(numbers: &Numbers, fabric: &Fabric) -> String {
    let mut page = Page::default();
    page.text += "# A start: change what differs. `rocesim check FILE` says what is wrong with it,\n\
                  # `rocesim run FILE` simulates it, `rocesim schema` lists all keys.\n";
    let what = match numbers.pattern {
        Pattern::Allreduce => {
            format!("All-reduce over {} GPUs", numbers.hosts * numbers.gpus.unwrap_or(0))
        }
        Pattern::Incast => format!("{}-to-1 incast", numbers.hosts - 1),
        Pattern::Permutation => "Permutation".to_owned(),
    };
    let title = format!("{what} on {}, {} NICs", fabric.place, numbers.rate);
    page.text += &format!("title = {}\n", exact(title));
    page.key("seed = 1", "of all random choices; the same seed gives the same result");
    page.section("[topology]", "");
    for (line, comment) in &fabric.keys {
        page.key(line, comment);
    }
    host(&mut page, numbers, fabric);
    switch(&mut page, numbers, fabric);
    nic(&mut page, numbers);
    traffic(&mut page, numbers);
    page.section("[expect]", "checked after the run; a failure exits 1");
    page.key("outcome = \"completed\"", "all flows finish: no deadlock, no QP in error");
    page.key("lossless_drops = 0", "PFC and headroom keep their promise");
    page.text += "\n";
    page.key("# [sample]", "for `rocesim run FILE --plot`: take out the marks");
    page.key("# interval = \"10us\"", "one sample of queues and rates each");
    page.text
}

/// The text so far.
#[derive(Default)]
struct Page {
    text: String,
}

/// Comments begin here if they can.
const COLUMN: usize = 27;
const WIDTH: usize = 100;

impl Page {
    fn section(&mut self, header: &str, comment: &str) {
        self.text += "\n";
        self.key(header, comment);
    }

    /// A line and its comment, which stands above a line that is too long.
    fn key(&mut self, line: &str, comment: &str) {
        let width = COLUMN - 1;
        self.text += &match (comment, line.len().max(width) + 3 + comment.len()) {
            ("", _) => format!("{line}\n"),
            (_, total) if total <= WIDTH => format!("{line:<width$} # {comment}\n"),
            _ => format!("# {comment}\n{line}\n"),
        };
    }
}

fn host(page: &mut Page, numbers: &Numbers, fabric: &Fabric) {
    let Some(gpus) = numbers.gpus else { return };
    page.section("[host]", "a server: GPUs, NVLink, PCIe, NICs");
    if let Some(node) = &numbers.node {
        page.key(&format!("preset = {}", exact(node)), "its speeds; the keys here override it");
    }
    page.key(&format!("gpus = {gpus}"), "of each server");
    page.text += "# one entry a NIC. ports: each has a port of the topology; mode: what several\n\
                  # ports of a NIC are to NCCL (rails, merged or bond); affinity: the GPUs on the\n\
                  # same PCIe switch\n";
    page.text += "nics = [\n";
    let each = gpus / numbers.nics;
    for nic in 0..numbers.nics {
        let near: Vec<String> = (nic * each..(nic + 1) * each).map(|gpu| gpu.to_string()).collect();
        let near = near.join(", ");
        page.text += &format!("  {{ ports = 1, mode = \"rails\", affinity = [{near}] }},\n");
    }
    page.text += "]\n";
    if numbers.pattern == Pattern::Allreduce {
        page.section("[nccl]", "NCCL's environment variables, without NCCL_");
        page.key("IB_TC = 106", "DSCP 26 x 4 + 2 (ECN-capable): the lossless class below");
        // by default odd hosts swap the rails of a ring, which an odd number of hosts cannot close
        if fabric.islands && numbers.hosts % 2 == 1 {
            page.key("CROSS_NIC = 0", "each ring stays on its rail: rails do not meet");
        }
    }
}

fn switch(page: &mut Page, numbers: &Numbers, fabric: &Fabric) {
    page.section("[switch]", "");
    let name = numbers.switch.as_deref().unwrap_or("generic-32mb");
    page.key(
        &format!("preset = {}", exact(name)),
        &format!("all that is not said here: `rocesim show {name}`"),
    );
    if let (None, Some((size, why))) = (&numbers.switch, larger_buffer(numbers, fabric)) {
        page.section("[switch.buffer]", "");
        page.key(&format!("size = \"{size}MiB\""), &why);
    }
    page.section("[switch.qos]", "");
    page.key("dscp_to_tc = { 26 = 3, 48 = 6 }", "data in class 3, CNPs in class 6, the rest in 0");
    page.section("[switch.pfc]", "");
    page.key("priorities = [3]", "class 3 is lossless: PFC stops the sender before a drop");
    page.key("headroom = \"auto\"", "for what still arrives then: from rate and cable length");
    page.section("[switch.ecn.3]", "marks class 3, by the length of its queue");
    let times = match numbers.rate.bps() as f64 / 1e11 {
        1.0 => "at 100 Gbps".to_owned(),
        factor => format!("at 100 Gbps, times {factor} at {}", numbers.rate),
    };
    for (line, comment) in [
        (scaled("kmin", 100_000, numbers.rate), format!("no mark below 100 KB {times}")),
        (scaled("kmax", 400_000, numbers.rate), format!("every frame above 400 KB {times}")),
        ("pmax = 0.2".to_owned(), "share of frames marked as the queue nears kmax".to_owned()),
    ] {
        page.key(&line, &comment);
    }
}

/// A threshold for 100 Gb/s, at another rate: the same time to drain.
fn scaled(name: &str, bytes: u64, rate: Rate) -> String {
    let scaled = u128::from(bytes) * u128::from(rate.bps()) / 100_000_000_000;
    format!("{name} = {}", exact(Bytes::new(scaled as u64)))
}

/// MiB, if 32 of them are too few, and why: what chips of this bandwidth have, or twice the headroom
/// of these cables.
fn larger_buffer(numbers: &Numbers, fabric: &Fabric) -> Option<(u64, String)> {
    let (rate, delay) = (u128::from(numbers.rate.bps()), u128::from(numbers.cable.delay().ps()));
    let ports = u128::from(fabric.ports);
    let usual = ports * rate * 32 / 10_000_000_000_000;
    // both ways on the cable and two frames under way, in cells of which a small frame fills a third
    let headroom = 4 * (2 * delay * rate / 8_000_000_000_000 + 2 * 4400);
    let needed = (2 * ports * headroom) >> 20;
    let size = usual.max(needed).next_multiple_of(4) as u64;
    let why = match usual < needed {
        true => format!(
            "twice the PFC headroom of {} ports with {} of cable",
            fabric.ports, numbers.cable
        ),
        false => format!("{} ports: 3.2 MiB for each Tb/s, as chips have it", fabric.ports),
    };
    (size > 32).then_some((size, why))
}

fn nic(page: &mut Page, numbers: &Numbers) {
    page.section("[nic]", "");
    let name = &numbers.nic_preset;
    let comment = format!("MTU, pacing, congestion control: `rocesim show {name}`");
    page.key(&format!("preset = {}", exact(name)), &comment);
    page.section("[nic.qos]", "");
    page.key("dscp = 26", "of data: class 3 at the switches");
    page.key("dscp_to_priority = { 26 = 3, 48 = 6 }", "the same classes at the NICs");
    page.section("[nic.pfc]", "");
    page.key("priorities = [3]", "NICs obey PFC for it, as the switches do");
}

fn traffic(page: &mut Page, numbers: &Numbers) {
    let (last, noun) = (numbers.hosts - 1, numbers.noun());
    page.section("[[traffic]]", "");
    let name = numbers.pattern.name();
    page.key(&format!("name = {name:?}"), &format!("as in --set traffic.{name}.bytes=..."));
    let bytes = match numbers.sizes {
        Sizes::One(bytes) => format!("bytes = {}", exact(bytes)),
        Sizes::Sweep(from, to) => {
            format!("bytes = {{ from = {}, to = {}, factor = 2 }}", exact(from), exact(to))
        }
    };
    match numbers.pattern {
        Pattern::Allreduce => {
            page.key("kind = \"collective\"", "over all GPUs of all servers");
            page.key("op = \"all_reduce\"", "each gets the sum of all");
            let comment = match numbers.sizes {
                Sizes::One(_) => "or { from = \"128MiB\", to = \"8GiB\", factor = 2 }",
                Sizes::Sweep(..) => "one after the other, each twice the one before",
            };
            page.key(&bytes, comment);
        }
        Pattern::Incast => {
            page.key("kind = \"incast\"", &format!("all {noun} but the last send to the last"));
            page.key(&format!("senders = \"0..{last}\""), &format!("{noun} 0 to {}", last - 1));
            page.key(&format!("receiver = {last}"), "its link is the bottleneck");
            page.key(&bytes, "from each sender");
        }
        Pattern::Permutation => {
            let comment = format!("the {noun} send to one another, each to one and from one");
            page.key("kind = \"permutation\"", &comment);
            page.key(&bytes, "from each sender");
        }
    }
}
