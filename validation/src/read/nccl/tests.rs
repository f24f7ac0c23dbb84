//! One log of each kind, small; the numbers are made up so that size / time is algbw.

use models::collective::Op;

use super::*;
use crate::curve::Row;

const HEADER: &str = "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n";
const ROW: &str = "  1000000000     250000000     float     sum      -1    20000   50.00   50.00      0    25000   40.00   40.00      0\n";

fn one(text: &str) -> Table {
    assert!(is(text), "{text}");
    let mut tables = parse("log", text);
    assert_eq!(tables.len(), 1, "{tables:?}");
    tables.remove(0)
}

fn times(row: &Row) -> [Option<f64>; 2] {
    [row.out_of_place, row.in_place].map(|timing| timing.map(|timing| timing.time_s * 1e6))
}

fn messages(table: &Table) -> Vec<(u64, &str)> {
    table.warnings.iter().map(|warning| (warning.line, warning.message.as_str())).collect()
}

#[test]
fn all_eras() {
    let rank = |number: u32, host: &str, group: &str| {
        format!("#  Rank {number:2} {group}Pid 7 on {host:>10} device  0 [0x0f] H100\n")
    };
    // 2017: milliseconds, no redop; 1 GB in 20 ms by 4 ranks: 50 GB/s, x 3/4
    let old = "#      bytes             N    type     time  algbw  busbw      res     time  algbw  busbw      res\n  1000000000      62500000   float   20.000  50.00  37.50    2e-07   25.000  40.00  30.00    2e-07\n Out of bounds values : 0 OK\n Avg bus bandwidth    : 33.75 \n";
    let ranks: String = (0..4).map(|number| rank(number, "a", "")).collect();
    let table = one(&(ranks + old));
    assert_eq!((table.ranks, table.hosts, table.average_busbw), (Some(4), Some(1), Some(33.75)));
    assert_eq!(times(&table.rows[0]), [Some(20000.0), Some(25000.0)]);
    // parts of 62500000 floats by 4 ranks, not reduced, and checked in place
    assert_eq!((table.op, table.mean_busbw()), (Some(Op::AllGather), Some(33.75)));
    // 2019: an error, no root
    let row = "  1000000000     250000000   float     sum    20000   50.00   50.00  4e-07    25000   40.00   40.00    N/A\n";
    let table = one(&format!("{}{}{row}", rank(0, "a", ""), rank(1, "b", "")));
    assert_eq!(table.rows[0].out_of_place.unwrap().wrong, Some(4e-7));
    assert_eq!((table.rows[0].root, table.hosts), (None, Some(2)));
    // lines of ranks left out, the last ones too: 16 ranks say 93.75 / 50 = 2 x 15 / 16
    let row = "  1000000000     250000000   float     sum    20000   50.00   93.75  4e-07    20000   50.00   93.75  4e-07\n";
    let table = one(&format!("{}{}{row}", rank(0, "a", ""), rank(8, "b", "")));
    assert_eq!((table.ranks, table.hosts), (Some(16), None));
    // 2026: iterations, cputime, timestamp
    let wide = "# nccl-tests version 2.19.6 nccl-headers=23003 nccl-library=22903\n# Collective test starting: all_reduce_perf\n# nThread 1 nGpus 1 minBytes 1 maxBytes 1 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0 unalign: 0\n#       size         count      type   redop    root  cputime   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv%  cputime   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv%           timestamp\n  1000000000     250000000     float     sum      -1  20000.0   50.00   50.00       0  19000.0  21000.0  21000.0     1.00  25000.0   40.00   40.00     N/A  1.00  2.00  3.00  4.00  2026-06-01 12:00:00\n# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 45 \n#\n# Collective test concluded: all_reduce_perf\n";
    let table = one(wide);
    assert_eq!(times(&table.rows[0]), [Some(20000.0), Some(25000.0)]);
    assert_eq!((table.warmup, table.iterations), (Some(5), Some(20)));
    let versions = (table.tests_version.as_deref(), table.nccl_version.as_deref());
    assert_eq!(versions, (Some("2.19.6"), Some("2.29.3")));
    assert_eq!((table.op, table.ranks), (Some(Op::AllReduce), Some(2)));
    assert_eq!(messages(&table), [(4, "2 ranks follow from busbw / algbw = 1.0000")]);
}

#[test]
fn tags_and_other_output_within_rows() {
    let pieces: Vec<&str> = ROW.trim_end().split("  -1").collect();
    let tagged =
        format!("[0]{}  -1[0]{}", pieces[0], pieces[1].replacen("0    25", "0[0]    25", 1));
    let text = format!(
        "[1,0]<stdout>:{HEADER}{tagged}\nhost:1 NCCL INFO 5 of 6\n{}  -1host:12 NCCL INFO x\n{}\n",
        pieces[0], pieces[1]
    );
    let table = one(&text);
    assert_eq!(table.rows.len(), 2, "{table:?}");
    for row in &table.rows {
        assert_eq!((times(row), row.root), ([Some(20000.0), Some(25000.0)], Some(-1)));
    }
}

#[test]
fn what_is_damaged_is_said() {
    let cut = &ROW[..ROW.len() - 30];
    let table = one(&format!("{HEADER}{ROW}{cut}"));
    assert_eq!(times(&table.rows[1]), [Some(20000.0), None]);
    let expected = (3, "the row is cut short: 5 of 9 numbers are there");
    assert!(messages(&table).contains(&expected), "{table:?}");
    let text = format!(
        "{HEADER}  -5 250000000 float sum -1 1 2 3 4\n{}host: Test NCCL failure common.cu:1279\n",
        ROW.replacen("20000", "  N/A", 1)
            .replacen("50.00   50.00", "N/A N/A", 1)
            .replace("0\n", "3\n")
    );
    let table = one(&text);
    assert_eq!(times(&table.rows[0]), [None, Some(25000.0)]);
    let expected = [
        (2, "`-5`: a whole number was expected: the row is left out"),
        (3, "in place: 3 wrong values"),
        (4, "host: Test NCCL failure common.cu:1279"),
        (4, "the table ends without its averages"),
    ];
    assert_eq!(messages(&table)[..4], expected);
    let table = one(&format!("{HEADER}{}", ROW.replace("50.00   50.00", "60.00   60.00")));
    let expected = "out of place: algbw is 60, but size over time is 50.00 GB/s";
    assert_eq!(messages(&table)[0], (2, expected));
    let hung = "# Collective test starting: sendrecv_perf\n#  Rank  0 Group  0 Pid 7 on a device  0 [0x0f] H100\n";
    let table = one(&format!("{hung}{HEADER}"));
    assert_eq!((table.op, table.rows.len()), (Some(Op::SendRecv), 0));
    assert_eq!(messages(&table), [(3, "no row follows: the test did not finish its first size")]);
}

#[test]
fn every_cut_of_a_file_is_read() {
    let footer = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 45 \n#\n";
    let text = format!("# Collective test starting: a_perf\n{HEADER}{ROW}{footer}{HEADER}{ROW}");
    assert_eq!(parse("log", &text).len(), 2);
    for end in 0..text.len() {
        let rows: usize = parse("log", &text[..end]).iter().map(|table| table.rows.len()).sum();
        assert!(rows <= 2);
    }
}
