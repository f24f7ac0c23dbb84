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
        rename_senders(rates, &senders(here));
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

/// `n7, port 10000` -> its flows, `host7 -> host8, port 10000`.
fn senders(here: &Run) -> BTreeMap<String, Vec<String>> {
    let flows = here.flows.as_deref().unwrap_or_default();
    let mut by_sender = BTreeMap::<String, Vec<String>>::new();
    for (flow, label) in flows.iter().zip(labels(flows)) {
        if let Some(number) = number(&flow.source) {
            let sender = sender_name(&format!("n{number}"), flow.source_port);
            by_sender.entry(sender).or_default().push(label);
        }
    }
    by_sender
}

/// A sender uses the same source port towards each target. At an instant with a row for each of
/// these flows the rows are in the order of the flows; which ones are left later, nobody says.
fn rename_senders(series: &mut Series, senders: &BTreeMap<String, Vec<String>>) {
    let mut places = BTreeMap::<String, Vec<(f64, f64)>>::new();
    for (name, samples) in std::mem::take(&mut series.places) {
        let Some(flows) = senders.get(&name) else {
            places.insert(name, samples);
            continue;
        };
        let instants = samples.chunk_by(|a, b| a.0 == b.0);
        for rows in instants.filter(|rows| rows.len() == flows.len()) {
            for (flow, sample) in flows.iter().zip(rows) {
                places.entry(flow.clone()).or_default().push(*sample);
            }
        }
    }
    series.places = places;
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

    #[test]
    fn flows_of_one_sender() {
        let flows = ["n8 -> n0, port 1", "n8 -> n1, port 1"].map(String::from);
        let senders = [("n8, port 1".to_owned(), flows.to_vec())].into();
        let samples = vec![(1.0, 5.0), (1.0, 6.0), (2.0, 7.0)];
        let places = [("n8, port 1".to_owned(), samples)].into();
        let mut series = Series { places, ..Series::default() };
        rename_senders(&mut series, &senders);
        // at 2.0 one has finished
        assert_eq!(series.places[&flows[0]], [(1.0, 5.0)]);
        assert_eq!(series.places[&flows[1]], [(1.0, 6.0)]);
    }
}
