//! Where NCCL has chosen otherwise than its tuning model here: sizes, operation by operation, are cut
//! into ranges with one way each.

use std::collections::BTreeMap;

use models::collective::Op;
use scenarios::resolve::Complaint;

use super::fit::robust;
use super::objective::error;
use super::points::Point;
use super::runs::{Answer, Ask, Runs, Way};
use super::select::worth;

/// Most ranges of an operation.
pub(super) const RANGES: usize = 4;
/// The size at which two ways take as long is found by so many halvings.
const HALVINGS: usize = 4;
/// A way that takes so many times as long as another is not what NCCL would take.
const SLOWER: f64 = 1.1;
/// The key.
pub(super) const TUNER: &str = "nccl.tuner";

/// Ways by size: each up to its size, the last one for all that is larger.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ranges(Vec<(Option<u64>, Way)>);

/// The rules that explain the points better with these keys set, if they pay beside so many keys
/// (at so many points), and how many they are: at most so many for each operation.
pub(super) fn rules(
    runs: &Runs<'_>,
    points: &[Point],
    set: &[String],
    [count, keys, most]: [usize; 3],
) -> Result<Option<(String, usize)>, Complaint> {
    let ops = ops(points);
    let own = losses(runs, points, set, None)?;
    let mut left: f64 = own.iter().flatten().sum();
    let mut best: BTreeMap<Op, Ranges> = BTreeMap::new();
    let mut decided = 0;
    for op in &ops {
        let of_op: Vec<usize> = (0..points.len()).filter(|at| points[*at].op == *op).collect();
        let chosen: Vec<Point> = of_op.iter().map(|index| points[*index].clone()).collect();
        let now: f64 = of_op.iter().filter_map(|index| own[*index]).sum();
        let table = table(runs, &chosen, set, *op)?;
        let sizes: Vec<u64> = chosen.iter().map(|point| point.bytes).collect();
        let ways: Vec<Way> = table.keys().copied().collect();
        let losses: Vec<Vec<Option<f64>>> = table.into_values().collect();
        let found = cuts(&sizes, &ways, &losses, most).into_iter().min_by(|a, b| {
            let of = |(ranges, loss): &(Ranges, f64)| {
                worth(left - now + loss, count, keys + decided + ranges.0.len())
            };
            of(a).total_cmp(&of(b))
        });
        let Some((ranges, loss)) = found else { continue };
        let number = ranges.0.len();
        let with = worth(left - now + loss, count, keys + decided + number);
        if with < worth(left, count, keys + decided) {
            best.insert(*op, crossed(runs, set, *op, &sizes, ranges)?);
            decided += number;
            left += loss - now;
        }
    }
    Ok((!best.is_empty()).then(|| (text(&best, ops.len()), decided)))
}

fn ops(points: &[Point]) -> Vec<Op> {
    let mut ops: Vec<Op> = points.iter().map(|point| point.op).filter(|op| !op.is_p2p()).collect();
    ops.sort();
    ops.dedup();
    ops
}

/// By way: the loss of each point, where NCCL could take it.
fn table(
    runs: &Runs<'_>,
    points: &[Point],
    set: &[String],
    op: Op,
) -> Result<BTreeMap<Way, Vec<Option<f64>>>, Complaint> {
    let mut asked: Vec<(usize, Way)> = Vec::new();
    for (index, point) in points.iter().enumerate() {
        asked.extend(runs.ways(set, op, point.bytes)?.into_iter().map(|way| (index, way)));
    }
    let ask = |(index, way): &(usize, Way)| {
        let bytes = points[*index].bytes;
        Ask { set: set.to_vec(), op, bytes, way: Some(*way) }
    };
    let answers = runs.answers(&asked.iter().map(ask).collect::<Vec<Ask>>())?;
    let mut table: BTreeMap<Way, Vec<Option<f64>>> = BTreeMap::new();
    for ((index, way), answer) in asked.into_iter().zip(answers) {
        let losses = table.entry(way).or_insert_with(|| vec![None; points.len()]);
        losses[index] = loss(&points[index], &answer, Some(way));
    }
    Ok(table)
}

/// The same ranges, cut where both ways take as long: NCCL means to take the faster one.
fn crossed(
    runs: &Runs<'_>,
    set: &[String],
    op: Op,
    sizes: &[u64],
    Ranges(mut ranges): Ranges,
) -> Result<Ranges, Complaint> {
    for index in 0..ranges.len().saturating_sub(1) {
        let (Some(cut), ways) = (ranges[index].0, [ranges[index].1, ranges[index + 1].1]) else {
            continue;
        };
        let after = sizes.partition_point(|size| *size <= cut);
        let (mut low, mut high) = (sizes[after - 1], sizes[after]);
        for _ in 0..HALVINGS {
            let bytes = middle(low, high);
            let ask = |way| Ask { set: set.to_vec(), op, bytes, way: Some(way) };
            let answers = runs.answers(&ways.map(ask))?;
            let [first, second] = [0, 1].map(|side| answers[side].time_s.unwrap_or(f64::INFINITY));
            if first <= second { low = bytes } else { high = bytes }
        }
        ranges[index].0 = Some(middle(low, high));
    }
    Ok(Ranges(ranges))
}

/// Where ways change between two fitted sizes, and the one that the tuning model takes in their
/// middle is much slower than the other: rules with what was taken at the fitted sizes, cut where
/// both take as long.
pub(super) fn between(
    runs: &Runs<'_>,
    points: &[Point],
    set: &[String],
    allowed: bool,
) -> Result<Option<String>, Complaint> {
    let ruled = set.iter().any(|set| set.starts_with(TUNER));
    let mut best: BTreeMap<Op, Ranges> = BTreeMap::new();
    let ops = if allowed && !ruled { ops(points) } else { Vec::new() };
    for op in &ops {
        let sizes: Vec<u64> =
            points.iter().filter(|point| point.op == *op).map(|point| point.bytes).collect();
        let ask = |bytes: u64, way| Ask { set: set.to_vec(), op: *op, bytes, way };
        let taken = runs.answers(&sizes.iter().map(|size| ask(*size, None)).collect::<Vec<_>>())?;
        let Some(ways) = taken.iter().map(|answer| answer.way).collect::<Option<Vec<Way>>>() else {
            continue;
        };
        let (mut ranges, mut slower): (Vec<(Option<u64>, Way)>, bool) = (Vec::new(), false);
        for index in 0..sizes.len().saturating_sub(1) {
            if ways[index] == ways[index + 1] {
                continue;
            }
            let bytes = middle(sizes[index], sizes[index + 1]);
            let asks = [None, Some(ways[index]), Some(ways[index + 1])].map(|way| ask(bytes, way));
            let times = runs.answers(&asks)?;
            let time = |answer: usize| times[answer].time_s.unwrap_or(f64::INFINITY);
            slower |= time(0) > SLOWER * time(1).min(time(2));
            ranges.push((Some(bytes), ways[index]));
        }
        if let (true, Some(last)) = (slower && ranges.len() < RANGES, ways.last()) {
            ranges.push((None, *last));
            best.insert(*op, crossed(runs, set, *op, &sizes, Ranges(ranges))?);
        }
    }
    Ok((!best.is_empty()).then(|| text(&best, 0)))
}

/// The loss of each point, taken this way; none where it cannot be.
fn losses(
    runs: &Runs<'_>,
    points: &[Point],
    set: &[String],
    way: Option<Way>,
) -> Result<Vec<Option<f64>>, Complaint> {
    let ask = |point: &Point| Ask { set: set.to_vec(), op: point.op, bytes: point.bytes, way };
    let answers = runs.answers(&points.iter().map(ask).collect::<Vec<Ask>>())?;
    Ok(points.iter().zip(&answers).map(|(point, answer)| loss(point, answer, way)).collect())
}

fn loss(point: &Point, answer: &Answer, way: Option<Way>) -> Option<f64> {
    let possible = way.is_none() || answer.way == way;
    possible.then(|| robust(error(point, answer.time_s), point.weight).powi(2))
}

/// The best cuts into one, two ... ranges, with what is lost; the most worth of them first.
fn cuts(
    sizes: &[u64],
    ways: &[Way],
    table: &[Vec<Option<f64>>],
    most: usize,
) -> Vec<(Ranges, f64)> {
    let n = sizes.len();
    let loss = |way: usize, begin: usize, end: usize| {
        table[way][begin..end].iter().map(|loss| loss.unwrap_or(f64::INFINITY)).sum::<f64>()
    };
    // best[m][end][way]: sizes before `end` in m + 1 ranges, the last of which goes this way; where
    // it begins, and the way before
    let none = (f64::INFINITY, 0, 0);
    let mut best = vec![vec![vec![none; ways.len()]; n + 1]; most.min(RANGES)];
    for m in 0..best.len() {
        for (end, way) in (1..=n).flat_map(|end| (0..ways.len()).map(move |way| (end, way))) {
            let mut found = if m == 0 { (loss(way, 0, end), 0, way) } else { none };
            for begin in if m == 0 { 1..1 } else { 1..end } {
                for before in (0..ways.len()).filter(|before| follows(ways[*before], ways[way])) {
                    let with = best[m - 1][begin][before].0 + loss(way, begin, end);
                    if with < found.0 {
                        found = (with, begin, before);
                    }
                }
            }
            best[m][end][way] = found;
        }
    }
    let trace = |(m, way): (usize, usize)| {
        let (mut ranges, mut end, mut way) = (Vec::new(), n, way);
        for m in (0..=m).rev() {
            let (_, begin, before) = best[m][end][way];
            // half way to the next size, in octaves
            let most = sizes.get(end).map(|next| middle(sizes[end - 1], *next));
            ranges.push((most, ways[way]));
            (end, way) = (begin, before);
        }
        ranges.reverse();
        Ranges(ranges)
    };
    let mut found: Vec<(Ranges, f64)> = Vec::new();
    for (m, of_m) in best.iter().enumerate() {
        let last = (0..ways.len()).min_by(|a, b| of_m[n][*a].0.total_cmp(&of_m[n][*b].0));
        if let Some(way) = last.filter(|way| of_m[n][*way].0.is_finite()) {
            found.push((trace((m, way)), of_m[n][way].0));
        }
    }
    let criterion = |(ranges, loss): &(Ranges, f64)| worth(*loss, n, ranges.0.len());
    found.sort_by(|a, b| criterion(a).total_cmp(&criterion(b)));
    found
}

/// A range may follow another if its protocol has more bandwidth and more latency: LL, LL128, Simple.
fn follows(before: Way, way: Way) -> bool {
    before != way && before.protocol <= way.protocol
}

fn middle(low: u64, high: u64) -> u64 {
    ((low as f64 * high as f64).sqrt().round() as u64).clamp(low, high)
}

/// As `--set` takes it. What holds for all sizes of the only operation holds for others too.
fn text(best: &BTreeMap<Op, Ranges>, ops: usize) -> String {
    let mut rules = Vec::new();
    for (op, Ranges(ranges)) in best {
        for (most, Way { algorithm, protocol }) in ranges {
            let of = match ops == 1 && ranges.len() == 1 {
                true => String::new(),
                false => format!("op = \"{}\", ", op.name()),
            };
            let most = most.map_or(String::new(), |bytes| format!("max_bytes = \"{bytes}B\", "));
            let (algorithm, protocol) = (algorithm.name(), protocol.name());
            rules.push(format!(
                "{{ {of}{most}algorithm = \"{algorithm}\", protocol = \"{protocol}\" }}"
            ));
        }
    }
    format!("{TUNER}=[{}]", rules.join(", "))
}

#[cfg(test)]
mod tests {
    use models::collective::{Algorithm, Protocol};

    use super::*;

    #[test]
    fn sizes_are_cut_where_the_better_way_changes() {
        let way = |protocol| Way { algorithm: Algorithm::Ring, protocol };
        let ways = [way(Protocol::Ll), way(Protocol::Simple)];
        let sizes = [1 << 10, 1 << 12, 1 << 20, 1 << 24];
        // LL is right for the first two, Simple for the others
        let table = [
            vec![Some(1e-5), Some(1e-5), Some(0.5), Some(0.5)],
            vec![Some(0.4), Some(0.4), Some(1e-5), Some(1e-5)],
        ];
        let (Ranges(ranges), loss) = cuts(&sizes, &ways, &table, RANGES).swap_remove(0);
        // between 4 KiB and 1 MiB: 64 KiB
        assert_eq!(ranges, [(Some(1 << 16), ways[0]), (None, ways[1])]);
        assert!((loss - 4e-5).abs() < 1e-12);
        let best = BTreeMap::from([(Op::AllGather, Ranges(ranges))]);
        assert_eq!(
            text(&best, 1),
            "nccl.tuner=[{ op = \"all_gather\", max_bytes = \"65536B\", algorithm = \"Ring\", \
             protocol = \"LL\" }, { op = \"all_gather\", algorithm = \"Ring\", protocol = \
             \"Simple\" }]"
        );
    }
}
