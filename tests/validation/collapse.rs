//! Collapses of real logs against cases of the clinic that have the same shape. The logs are found
//! through `ROCESIM_REFERENCE`.

use std::fmt::Write as _;
use std::path::Path;

use validation::{Row, Table, read_tables};

use crate::common::{reference, report, say};
use crate::table::in_the_docs;

/// A size of a log, and what stands for it: size in MiB, loss in frames of 100000.
type Pair = (u64, u64, u32);

/// Sizes are an eighth of those of the log; the loss is always the same.
const PLATEAU: [Pair; 6] = [
    (16, 2, 800),
    (64, 8, 800),
    (128, 16, 800),
    (256, 32, 800),
    (1024, 128, 800),
    (2048, 256, 800),
];

/// Sizes are a sixteenth of those of the log; the loss grows with the size.
const FALLING: [Pair; 5] =
    [(512, 32, 50), (1024, 64, 100), (2048, 128, 200), (4096, 256, 400), (8192, 512, 800)];

fn row<'a>(tables: &'a [Table], op: &str, mib: u64) -> &'a Row {
    let table = tables.iter().find(|table| table.op.is_some_and(|known| known.name() == op));
    table.unwrap().rows.iter().find(|row| row.bytes == mib << 20).unwrap()
}

/// The rows, and the times simulated and measured, in seconds.
fn section(log: &Path, case: &str, op: &str, pairs: &[Pair]) -> (String, Vec<[f64; 2]>) {
    let tables = read_tables(log).unwrap();
    let (mut text, mut times) = (String::new(), Vec::new());
    for (mib, here_mib, loss) in pairs {
        let measured = row(&tables, op, *mib).out_of_place.unwrap();
        let bytes = format!("traffic.test.bytes={here_mib}MiB");
        let lost = format!("fault[0].loss={:.5}", f64::from(*loss) / 1e5);
        let report = report(case, &[&bytes, &lost], 1);
        let collective = &report.collectives[0];
        let (time_s, busbw) = (collective.time_s.unwrap(), collective.busbw_gbytes_per_s.unwrap());
        writeln!(
            text,
            "| {case} | {mib} MiB | {:.1} ms | {:.2} | {here_mib} MiB | {:.2} % | {:.1} ms | {busbw:.2} | {} |",
            measured.time_s * 1e3,
            measured.busbw_gbytes_per_s,
            f64::from(*loss) / 1e3,
            time_s * 1e3,
            report.totals.timeouts,
        )
        .unwrap();
        times.push([time_s, measured.time_s]);
    }
    (text, times)
}

#[test]
fn collapses_have_the_shapes_of_real_logs() {
    let Some(folder) = reference("nccl-logs") else { return };
    let mut text = String::from(
        "| case | size measured | time | busbw, GB/s | size simulated | loss | time | busbw, GB/s | time-outs |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    let log = folder.join("cx8-rtx6000d-2n16g-8x400g-alltoall-collapse-ar-off.log");
    let (rows, times) = section(&log, "alltoall-plateau", "alltoall", &PLATEAU);
    text += &rows;
    // 16 times the size takes at most 2.5 times as long, simulated and measured
    for side in [0, 1] {
        let range: Vec<f64> = times[2..].iter().map(|times| times[side]).collect();
        let most = range.iter().copied().fold(0.0, f64::max);
        let least = range.iter().copied().fold(f64::INFINITY, f64::min);
        assert!(most <= 2.5 * least, "{times:?}");
    }
    let log = folder.join("xxrjun-c00-h100-2n2g-slow-pair.log");
    let (rows, times) = section(&log, "pair-falls-with-size", "sendrecv", &FALLING);
    text += &rows;
    // sizes double: a time that more than doubles is a busbw that falls; in all by a factor of 5
    for side in [0, 1] {
        let growth = times[times.len() - 1][side] / times[0][side] / 16.0;
        assert!(growth >= 5.0, "{times:?}");
    }
    say(&format!("Collapse shapes\n{text}"));
    in_the_docs("Collapse shapes", &text);
}
