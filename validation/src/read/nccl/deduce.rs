//! What a table does not say, but follows from its rows: the operation, and the number of ranks.

use std::collections::{BTreeMap, BTreeSet};

use models::collective::Op;

use crate::curve::{Row, Table, Timing, Warning};

/// No fabric has more ranks.
const RANKS_MAX: u32 = 1 << 20;

/// Fills in ranks, hosts and operation. `mentioned` is the test that a command line named.
pub(super) fn complete(
    table: &mut Table,
    ranks: &BTreeMap<u32, (String, u32)>,
    mentioned: Option<&str>,
) {
    if let Some(last) = ranks.keys().next_back().filter(|last| **last < RANKS_MAX) {
        let hosts: BTreeSet<&str> = ranks.values().map(|(host, _)| host.as_str()).collect();
        match ranks.len() as u32 == last + 1 {
            true => {
                table.ranks = Some(last + 1);
                table.hosts = Some(hosts.len() as u32);
            }
            // whoever left lines out may have left out the last ones, too
            false => warn(
                table,
                format!(
                    "{} lines of ranks are there, and the last one is of rank {last}: ranks and \
                     hosts are not known",
                    ranks.len()
                ),
            ),
        }
    }
    let factor = factor(table);
    match table.name.clone() {
        Some(name) => match op_of_name(&name) {
            Some(op) => {
                table.op = Some(op);
                check(table, op, factor);
            }
            None => warn(table, format!("`{name}` is no operation that is known here")),
        },
        None if !table.rows.is_empty() => deduce_op(table, factor, mentioned),
        None => {}
    }
    if table.ranks.is_none()
        && let Some((op, factor)) = table.op.zip(factor)
        && let Some(ranks) = ranks_of(op, factor)
        && factors(table).all(|factor| factor.is(op.bus_factor(ranks)))
    {
        table.ranks = Some(ranks);
        warn(table, format!("{ranks} ranks follow from busbw / algbw = {:.4}", factor.value));
    }
}

fn warn(table: &mut Table, message: String) {
    table.warnings.push(Warning { line: table.line, message });
}

/// `all_reduce_perf`, `AllReduce`, `alltoall`.
pub(super) fn op_of_name(name: &str) -> Option<Op> {
    let plain = |name: &str| {
        let name = name.trim_end_matches("_perf").to_ascii_lowercase();
        name.replace(['_', '-'], "")
    };
    let wanted = plain(name.rsplit('/').next().unwrap_or(name));
    Op::ALL.into_iter().find(|op| plain(op.name()) == wanted)
}

/// `2.28.7` of 22807, `2.7.8` of 2708: NCCL 2.9 made room for two digits.
pub(super) fn version(code: &str) -> String {
    let Ok(number) = code.parse::<u32>() else { return code.to_owned() };
    let parts = match number {
        10_000.. => [number / 10_000, number / 100 % 100, number % 100],
        _ => [number / 1000, number / 100 % 10, number % 100],
    };
    parts.map(|part| part.to_string()).join(".")
}

/// busbw / algbw, and how well it is known.
#[derive(Clone, Copy)]
struct Factor {
    value: f64,
    error: f64,
}

impl Factor {
    fn is(self, value: f64) -> bool {
        (self.value - value).abs() <= self.error
    }
}

/// From the row with the largest bandwidth, in which two decimals say most.
fn factor(table: &Table) -> Option<Factor> {
    factors(table).min_by(|a, b| a.error.total_cmp(&b.error))
}

/// Of all rows.
fn factors(table: &Table) -> impl Iterator<Item = Factor> {
    let timings = table.rows.iter().flat_map(|row| [row.out_of_place, row.in_place]).flatten();
    // half of the last of two decimals, of one from 1000 on, and of none from 10000 on
    let half = |value: f64| match value {
        10_000.0.. => 0.51,
        1000.0.. => 0.051,
        _ => 0.0051,
    };
    timings.filter_map(move |timing| {
        let Timing { algbw_gbytes_per_s: algbw, busbw_gbytes_per_s: busbw, .. } = timing;
        let value = busbw / algbw;
        let error = value * (half(algbw) / algbw + half(busbw) / busbw.max(1e-9));
        (algbw > 0.0 && busbw > 0.0).then_some(Factor { value, error })
    })
}

/// Says if the bandwidths are not those of this operation.
fn check(table: &mut Table, op: Op, factor: Option<Factor>) {
    let Some((factor, ranks)) = factor.zip(table.ranks) else { return };
    let expected = op.bus_factor(ranks);
    if !factor.is(expected) {
        let (name, value) = (op.name(), factor.value);
        let message = format!(
            "busbw / algbw is {value:.4}, but {expected:.4} was expected of {name} by {ranks} ranks"
        );
        warn(table, message);
    }
}

fn deduce_op(table: &mut Table, factor: Option<Factor>, mentioned: Option<&str>) {
    let fits: Vec<Op> = Op::ALL.into_iter().filter(|op| may_be(table, *op, factor)).collect();
    if let Some(op) = mentioned.and_then(op_of_name).filter(|op| fits.contains(op)) {
        table.op = Some(op);
        table.name = mentioned.map(str::to_owned);
        return;
    }
    match fits.as_slice() {
        [op] => {
            table.op = Some(*op);
            warn(table, format!("the operation is not told: {} by its columns", op.name()));
        }
        [] => warn(table, "the operation is not told, and its columns fit none".to_owned()),
        several => {
            let names: Vec<&str> = several.iter().map(|op| op.name()).collect();
            let names = names.join(", ");
            warn(table, format!("the operation is not told: it may be one of {names}"));
        }
    }
}

/// Whether the rows may be of this operation.
fn may_be(table: &Table, op: Op, factor: Option<Factor>) -> bool {
    if let Some(factor) = factor {
        let fits = match table.ranks {
            Some(ranks) => factor.is(op.bus_factor(ranks)),
            None => factor.is(op.bus_factor(2)) || ranks_of(op, factor).is_some(),
        };
        if !fits {
            return false;
        }
    }
    table.rows.iter().all(|row| row_may_be(row, op, table.ranks))
}

fn row_may_be(row: &Row, op: Op, ranks: Option<u32>) -> bool {
    // the tests of SendRecv print the operator that is set
    let redop = match row.redop.as_deref() {
        // in the oldest tables only what reduces has the column
        None | Some("") => !op.reduces(),
        Some("none") => !op.reduces() && op != Op::SendRecv,
        Some(_) => op.reduces() || op == Op::SendRecv,
    };
    let root = match row.root {
        None => true,
        Some(root) => (root >= 0) == op.has_root(),
    };
    // where out of place is checked, in place is not for what is made of SENDs
    let wrong = |timing: Option<Timing>| timing.map(|timing| timing.wrong.is_some());
    let checked = match (wrong(row.out_of_place), wrong(row.in_place)) {
        (Some(true), Some(in_place)) => in_place != op.is_p2p(),
        _ => true,
    };
    // `count` is that of a part where the buffer is made of parts
    let counted = match (row.dtype.as_deref().and_then(size_of_type), ranks) {
        (Some(size), Some(ranks)) if row.bytes > 0 => {
            let elements = row.count.checked_mul(size).and_then(|n| n.checked_mul(op.parts(ranks)));
            elements == Some(row.bytes)
        }
        _ => true,
    };
    redop && root && checked && counted
}

/// Bytes of an element; none for types that have meant several things.
fn size_of_type(name: &str) -> Option<u64> {
    match name {
        "int8" | "uint8" | "char" | "f8e4m3" | "f8e5m2" | "fp8_e4m3" | "fp8_e5m2" => Some(1),
        "half" | "bfloat16" | "float16" | "bf16" | "fp16" => Some(2),
        "int32" | "uint32" | "int" | "float" | "float32" => Some(4),
        "int64" | "uint64" | "double" | "float64" => Some(8),
        _ => None,
    }
}

/// The number of ranks with this factor, where it is one: n = 2 / (2 - f) for AllReduce,
/// n = 1 / (1 - f) for what has (n - 1)/n.
fn ranks_of(op: Op, factor: Factor) -> Option<u32> {
    let steps = match op {
        Op::AllReduce => 2.0,
        Op::AllGather | Op::ReduceScatter | Op::AllToAll => 1.0,
        _ => return None,
    };
    let ranks = (steps / (steps - factor.value)).round();
    let is_near = ranks >= 2.0 && ranks < f64::from(RANKS_MAX);
    let ranks = if is_near { ranks as u32 } else { return None };
    // the next number is told apart
    let sure = factor.is(op.bus_factor(ranks)) && !factor.is(op.bus_factor(ranks + 1));
    (sure && (ranks == 2 || !factor.is(op.bus_factor(ranks - 1)))).then_some(ranks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_versions() {
        assert_eq!(op_of_name("/opt/build/alltoall_perf"), Some(Op::AllToAll));
        assert_eq!(op_of_name("AllReduce"), Some(Op::AllReduce));
        assert_eq!(op_of_name("all_reduce_perf_mpi"), None);
        assert_eq!(op_of_name("gather_perf"), None);
        assert_eq!(["22807", "2708", "x"].map(version), ["2.28.7", "2.7.8", "x"]);
    }

    #[test]
    fn ranks_follow_from_the_factor_where_it_is_sharp() {
        // 766.54 / 408.82 = 1.87501: 2 * 15/16 = 1.875, and 2 * 16/17 = 1.882 is further than the
        // error, 1.875 * (0.0051 / 408.82 + 0.0051 / 766.54) = 0.00004
        let factor = |algbw: f64, busbw: f64| {
            let timing = Timing {
                algbw_gbytes_per_s: algbw,
                busbw_gbytes_per_s: busbw,
                ..Default::default()
            };
            let row = Row { out_of_place: Some(timing), ..Row::default() };
            super::factor(&Table { rows: vec![row], ..Table::default() }).unwrap()
        };
        assert_eq!(ranks_of(Op::AllReduce, factor(408.82, 766.54)), Some(16));
        assert_eq!(ranks_of(Op::AllGather, factor(1.00, 0.50)), Some(2));
        // 0.02 / 0.02 is anything from 0.6 to 1.7
        assert_eq!(ranks_of(Op::AllReduce, factor(0.02, 0.02)), None);
        assert_eq!(ranks_of(Op::Broadcast, factor(1.0, 1.0)), None);
    }
}
