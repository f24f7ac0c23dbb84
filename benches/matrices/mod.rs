//! Matrices for benches and comparisons, in htsim's format: the same file can be given to htsim.
//!
//! The numbers beside this file are those of public generators (a shuffle of all hosts); what
//! follows from them by rule is computed.

use std::fmt::Write;

/// Messages of permutations and incasts.
const MESSAGE: u64 = 2_000_000;
/// Chunks of rings.
const CHUNK: u64 = 65_536;

/// A matrix.
pub(crate) struct Matrix {
    /// `permutation-128`
    pub(crate) name: &'static str,
    /// The text of its file.
    pub(crate) text: String,
}

/// All that there are.
pub(crate) fn all() -> Vec<Matrix> {
    let numbers: [(&str, &str); 5] = [
        ("permutation-128", include_str!("permutation-128.txt")),
        ("permutation-1024", include_str!("permutation-1024.txt")),
        ("incast-32", include_str!("incast-32.txt")),
        ("incast-128", include_str!("incast-128.txt")),
        ("ring-128", include_str!("ring-128.txt")),
    ];
    let matrix = |(name, text)| {
        let numbers = numbers_of(text);
        let text = match name {
            "incast-32" => incast(128, &numbers),
            "incast-128" => incast(1024, &numbers),
            "ring-128" => rings(&numbers, numbers.len(), CHUNK),
            _ => permutation(&numbers),
        };
        Matrix { name, text }
    };
    numbers.into_iter().map(matrix).collect()
}

/// The order of hosts in the ring of 128.
#[allow(dead_code)] // the benches take what is made of it
pub(crate) fn ring_order() -> Vec<u32> {
    numbers_of(include_str!("ring-128.txt"))
}

fn numbers_of(text: &str) -> Vec<u32> {
    text.split_whitespace().map(|word| word.parse().expect("a number")).collect()
}

/// Host i sends to the i-th target.
fn permutation(targets: &[u32]) -> String {
    let ends: Vec<_> = targets.iter().zip(0..).map(|(target, source)| [source, *target]).collect();
    independent(targets.len(), &ends)
}

/// All send to host 0.
fn incast(hosts: usize, sources: &[u32]) -> String {
    let ends: Vec<_> = sources.iter().map(|source| [*source, 0]).collect();
    independent(hosts, &ends)
}

fn independent(hosts: usize, ends: &[[u32; 2]]) -> String {
    let mut text = format!("Nodes {hosts}\nConnections {}\n", ends.len());
    for ([source, target], id) in ends.iter().zip(1..) {
        writeln!(text, "{source}->{target} id {id} start 0 size {MESSAGE}").expect("into memory");
    }
    text
}

/// Ring AllReduce over each `size` hosts of `order`: a chunk begins at each host, and is passed on
/// 2 `size` - 1 times (once more than it must), each time when the last one is acknowledged.
pub(crate) fn rings(order: &[u32], size: usize, chunk: u64) -> String {
    let steps = 2 * size - 1;
    let (flows, triggers) = (order.len() * steps, order.len() * (steps - 1));
    let mut text = format!("Nodes {}\nConnections {flows}\nTriggers {triggers}\n", order.len());
    let (mut id, mut trigger) = (0, 0);
    for ring in order.chunks(size) {
        for first in 0..size {
            for step in 0..steps {
                id += 1;
                let [source, target] = [0, 1].map(|next| ring[(first + step + next) % size]);
                let start = match step {
                    0 => "start 0".to_owned(),
                    _ => format!("trigger {trigger}"),
                };
                write!(text, "{source}->{target} id {id} {start} size {chunk}")
                    .expect("into memory");
                if step + 1 < steps {
                    trigger += 1;
                    write!(text, " send_done_trigger {trigger}").expect("into memory");
                }
                text.push('\n');
            }
        }
    }
    for trigger in 1..=triggers {
        writeln!(text, "trigger id {trigger} oneshot").expect("into memory");
    }
    text
}
