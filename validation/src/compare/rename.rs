//! The names of a reference whose nodes are numbers, as the run here has them.

use std::collections::{BTreeMap, BTreeSet};

use crate::read::report::labels;
use crate::read::series::sender_name;
use crate::run::{Run, Series, Writer};

/// Gives nodes, ports and flows of `there` the names that they have here. A node's number is the
/// digits at the end of its name, a port's the digits at the end of its name.
pub(super) fn rename(there: &mut Run, here: &Run) {
    if there.writer == Writer::Rocesim {
        return;
    }
    let nodes = nodes(here);
    let ports = ports(here);
    for flow in there.flows.iter_mut().flatten() {
        for name in [&mut flow.source, &mut flow.target] {
            replace(name, &nodes);
        }
    }
    for port in there.ports.iter_mut().flatten() {
        replace(&mut port.name, &ports);
    }
    if let Some(queues) = &mut there.queues {
        rename_places(queues, &ports);
    }
    if let Some(rates) = &mut there.rates {
        rename_places(rates, &senders(here));
    }
}

fn replace(name: &mut String, names: &BTreeMap<String, String>) {
    if let Some(known) = names.get(name) {
        name.clone_from(known);
    }
}

fn rename_places(series: &mut Series, names: &BTreeMap<String, String>) {
    let places = std::mem::take(&mut series.places).into_iter();
    series.places = places
        .map(|(mut name, samples)| {
            replace(&mut name, names);
            (name, samples)
        })
        .collect();
}

/// `n7` -> `host7`
fn nodes(here: &Run) -> BTreeMap<String, String> {
    let flows = here.flows.iter().flatten();
    let names: BTreeSet<&String> = flows.flat_map(|flow| [&flow.source, &flow.target]).collect();
    let numbered = names.into_iter().filter_map(|name| {
        let number = number(name)?;
        Some((format!("n{number}"), name.clone()))
    });
    numbered.collect()
}

/// `n7:0` -> `host7/nic0`
fn ports(here: &Run) -> BTreeMap<String, String> {
    let ports = here.ports.iter().flatten();
    let numbered = ports.filter_map(|port| {
        let (node, index) = port.name.split_once(['/', ':'])?;
        Some((format!("n{}:{}", number(node)?, number(index)?), port.name.clone()))
    });
    numbered.collect()
}

/// `n7, port 10000` -> `host7 -> host8, port 10000`, where only one flow fits.
fn senders(here: &Run) -> BTreeMap<String, String> {
    let flows = here.flows.as_deref().unwrap_or_default();
    let mut by_sender = BTreeMap::<String, Vec<String>>::new();
    for (flow, label) in flows.iter().zip(labels(flows)) {
        if let Some(number) = number(&flow.source) {
            let sender = sender_name(&format!("n{number}"), flow.source_port);
            by_sender.entry(sender).or_default().push(label);
        }
    }
    let mut single = BTreeMap::new();
    for (sender, mut labels) in by_sender {
        if let (Some(label), true) = (labels.pop(), labels.is_empty()) {
            single.insert(sender, label);
        }
    }
    single
}

/// The digits at the end of a name.
fn number(name: &str) -> Option<u32> {
    let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
    name[prefix.len()..].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_nodes() {
        assert_eq!(number("n7"), Some(7));
        assert_eq!(number("host0012"), Some(12));
        assert_eq!(number("rack1-host3"), Some(3));
        assert_eq!(number("storage"), None);
        assert_eq!(number("n99999999999"), None);
    }
}
