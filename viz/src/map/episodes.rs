//! Pauses as a page plays them: few enough, whatever the run.

use std::collections::BTreeMap;

use models::report::{PauseRow, Report};

use super::Map;

/// The time that is played has so many instants.
pub(crate) const TICKS: u32 = 1000;
/// Stretches that are kept.
const STRETCHES: usize = 6000;

/// Pauses to be played.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Played {
    /// From the first pause to the end of the last, with a margin, in seconds.
    pub(crate) range: [f64; 2],
    /// Stretches in the order of time.
    pub(crate) stretches: Vec<Stretch>,
    /// Pauses that there were,
    pub(crate) pauses: usize,
    /// stretches that were made of them,
    pub(crate) made: usize,
    /// and the share of time paused that those which are kept have.
    pub(crate) share: f64,
    /// By tick: halves that were paused at some time of it.
    pub(crate) counts: Vec<u32>,
}

/// A half is paused, without a gap of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// First and last tick.
    pub(crate) ticks: [u32; 2],
    /// The half,
    pub(crate) half: u32,
    /// and the one in whose queue the frames waited that made it so.
    pub(crate) cause: u32,
    /// Pauses began at that one, for most of the time.
    pub(crate) root: bool,
}

/// What is played of the pauses of a run; nothing if there were none.
pub(crate) fn played(map: &Map, report: &Report, pauses: &[PauseRow]) -> Option<Played> {
    let end = report.simulated_time_s;
    let to_s = |row: &PauseRow| row.to_s.unwrap_or(end).max(row.from_s);
    let first = pauses.iter().map(|row| row.from_s).fold(f64::INFINITY, f64::min);
    let last = pauses.iter().map(to_s).fold(0.0, f64::max);
    if pauses.is_empty() || last < first {
        return None;
    }
    // where all stands still in the end one sees how it came to that
    let begun = pauses.iter().map(|row| row.from_s).fold(first, f64::max);
    let shortly = begun + ((begun - first) * 0.25).max(1e-6);
    let last = if report.deadlocks.is_empty() { last } else { last.min(shortly) };
    let margin = ((last - first) * 0.03).max(1e-9);
    let range = [(first - margin).max(0.0), (last + margin).min(end.max(last))];
    let shown: Vec<&PauseRow> = pauses.iter().filter(|row| row.from_s <= range[1]).collect();
    let width = ((range[1] - range[0]) / f64::from(TICKS)).max(1e-12);
    let tick = |time: f64| (((time - range[0]) / width) as u32).min(TICKS - 1);
    let mut by_way: BTreeMap<(u32, u32, bool), Vec<[u32; 2]>> = BTreeMap::new();
    let mut by_half: BTreeMap<usize, Vec<[u32; 2]>> = BTreeMap::new();
    for row in &shown {
        let Some(half) = map.of_port.get(row.port.as_str()) else { continue };
        let cause = row.cause.as_ref().map_or(row.by.as_str(), |(port, _)| port.as_str());
        let cause = map.of_port.get(cause).copied().unwrap_or(*half);
        let root = map.of_port.get(row.root.as_str()) == Some(&cause);
        let ticks = [tick(row.from_s), tick(to_s(row))];
        by_way.entry((*half as u32, cause as u32, root)).or_default().push(ticks);
        by_half.entry(*half).or_default().push(ticks);
    }
    let mut stretches: Vec<Stretch> = Vec::new();
    for ((half, cause, root), spans) in by_way {
        let spans = merged(spans);
        stretches.extend(spans.into_iter().map(|ticks| Stretch { ticks, half, cause, root }));
    }
    let made = stretches.len();
    let length = |stretch: &Stretch| u64::from(stretch.ticks[1] - stretch.ticks[0]) + 1;
    let all: u64 = stretches.iter().map(length).sum();
    stretches
        .sort_by_key(|stretch| (std::cmp::Reverse(length(stretch)), stretch.ticks, stretch.half));
    stretches.truncate(STRETCHES);
    let kept: u64 = stretches.iter().map(length).sum();
    stretches.sort_by_key(|stretch| (stretch.ticks, stretch.half, stretch.cause));
    Some(Played {
        range,
        stretches,
        pauses: shown.len(),
        made,
        share: kept as f64 / all.max(1) as f64,
        counts: counts(by_half.into_values()),
    })
}

/// Spans in their order; those that meet or follow each other at once are one.
fn merged(mut spans: Vec<[u32; 2]>) -> Vec<[u32; 2]> {
    spans.sort_unstable();
    let mut merged: Vec<[u32; 2]> = Vec::new();
    for span in spans {
        match merged.last_mut() {
            Some(last) if span[0] <= last[1] + 1 => last[1] = last[1].max(span[1]),
            _ => merged.push(span),
        }
    }
    merged
}

/// By tick: how many have a span there.
fn counts(all: impl Iterator<Item = Vec<[u32; 2]>>) -> Vec<u32> {
    let mut changes = vec![0_i64; TICKS as usize + 1];
    for [from, to] in all.flat_map(merged) {
        changes[from as usize] += 1;
        changes[to as usize + 1] -= 1;
    }
    let mut count = 0;
    let step = |change: &i64| {
        count += change;
        count as u32
    };
    changes[..TICKS as usize].iter().map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_that_follow_each_other_are_one() {
        assert_eq!(merged(vec![[5, 6], [0, 2], [3, 3], [8, 9], [5, 5]]), [[0, 3], [5, 6], [8, 9]]);
        let counts = counts([vec![[0, 1], [1, 2]], vec![[2, 4]]].into_iter());
        assert_eq!(counts[..6], [1, 1, 2, 1, 1, 0]);
        assert_eq!(counts.len(), TICKS as usize);
    }
}
