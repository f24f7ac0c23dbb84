//! The table that nccl-tests prints, and the way it writes sizes.
//!
//! The layout is that of nccl-tests 2.13 to 2.16: 13 fields a row, two blanks between columns.
//! Every parser of it splits at blanks, so that one is read by all of them. A size that was
//! extrapolated has a `~` after its 13 fields.

use std::fmt::Write;

use models::collective::Step;
use models::report::CollectiveReport;

/// One rank, a GPU: a line below `# Using devices`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rank {
    /// Number, from 0.
    pub rank: u32,
    /// Process.
    pub pid: u32,
    /// Host.
    pub host: String,
    /// Number of the GPU in its host.
    pub device: u32,
    /// PCI bus, as `0x0f`.
    pub bus_id: String,
    /// Model of the GPU.
    pub gpu: String,
}

/// What stands above the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// First size.
    pub min_bytes: u64,
    /// No size is beyond this.
    pub max_bytes: u64,
    /// From one size to the next.
    pub step: Step,
    /// Iterations before those that are timed.
    pub warmup: u32,
    /// Iterations that are timed.
    pub iters: u32,
    /// GPUs of one process.
    pub n_gpus: u32,
    /// Whether results count as checked: `#wrong` is 0, or else `N/A`.
    pub check: bool,
}

/// One size. It is simulated once: both groups of columns show it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Bytes.
    pub size: u64,
    /// Elements.
    pub count: u64,
    /// Type of an element.
    pub dtype: String,
    /// `sum` and the like; `none` where nothing is reduced.
    pub redop: &'static str,
    /// Rank of the root; -1 where there is none.
    pub root: i32,
    /// Microseconds of one iteration; absent if it did not finish: `N/A` is shown.
    pub time_us: Option<f64>,
    /// Bytes over time, in GB/s.
    pub algbw: f64,
    /// That times the factor of the operation, in GB/s: what hardware sees of it.
    pub busbw: f64,
    /// Only a part was simulated: the row ends in `~`.
    pub extrapolated: bool,
}

impl Row {
    /// The row of a collective.
    pub fn new(report: &CollectiveReport, redop: &'static str) -> Row {
        Row {
            size: report.bytes,
            count: report.count,
            dtype: report.dtype.clone(),
            redop,
            root: report.root.map_or(-1, |root| root as i32),
            time_us: report.time_s.map(|seconds| seconds * 1e6),
            algbw: report.algbw_gbytes_per_s.unwrap_or(0.0),
            busbw: report.busbw_gbytes_per_s.unwrap_or(0.0),
            extrapolated: report.extrapolated,
        }
    }
}

/// Header, ranks, rows and footer, as nccl-tests prints them.
pub fn table(header: &Header, ranks: &[Rank], rows: &[Row]) -> String {
    let wrong = header.check.then_some(0);
    let lines: String = rows.iter().map(|row| row_line(row, wrong)).collect();
    head(header, ranks) + &lines + &foot(rows, 0)
}

/// What stands above the rows.
pub fn head(header: &Header, ranks: &[Rank]) -> String {
    let Header { min_bytes, max_bytes, step, warmup, iters, n_gpus, check } = *header;
    let (step, unit) = match step {
        Step::Factor(factor) => (factor, "factor"),
        Step::Bytes(bytes) => (bytes.get(), "bytes"),
    };
    let mut text = format!(
        "# nThread 1 nGpus {n_gpus} minBytes {min_bytes} maxBytes {max_bytes} step: {step}({unit}) \
         warmup iters: {warmup} iters: {iters} agg iters: 1 validation: {} graph: 0\n#\n\
         # Using devices\n",
        u8::from(check)
    );
    for Rank { rank, pid, host, device, bus_id, gpu } in ranks {
        let _ = writeln!(
            text,
            "#  Rank {rank:2} Group  0 Pid {pid:6} on {host:>10} device {device:2} [{bus_id}] {gpu}"
        );
    }
    text + &column_names()
}

/// One row, and how many elements of the result were wrong, if that was checked.
pub fn row_line(row: &Row, wrong: Option<u64>) -> String {
    let wrong = wrong.map(|count| count as f64);
    let group = Group { time_us: row.time_us, algbw: row.algbw, busbw: row.busbw, wrong };
    line(row, [group; 2])
}

/// What stands below the rows, of which so many had wrong elements.
pub fn foot(rows: &[Row], wrong: u64) -> String {
    let finished = rows.iter().filter(|row| row.time_us.is_some());
    let busbw: Vec<f64> = finished.flat_map(|row| [row.busbw; 2]).collect();
    footer(&busbw, wrong)
}

fn column_names() -> String {
    let blank = format!("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", "", "", "", "", "");
    let name =
        format!("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", "size", "count", "type", "redop", "root");
    let unit = format!("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", "(B)", "(elements)", "", "", "");
    let names = format!("  {:>7}  {:>6}  {:>6} {:>6}", "time", "algbw", "busbw", "#wrong");
    let units = format!("  {:>7}  {:>6}  {:>6}  {:>5}", "(us)", "(GB/s)", "(GB/s)", "");
    format!(
        "#\n{blank}           out-of-place                       in-place          \n\
         {name}{names}{names}\n{unit}{units}{units}\n"
    )
}

/// One of the two groups of columns.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Group {
    time_us: Option<f64>,
    algbw: f64,
    busbw: f64,
    wrong: Option<f64>,
}

fn line(row: &Row, groups: [Group; 2]) -> String {
    let Row { size, count, dtype, redop, root, .. } = row;
    let mut text = format!("{size:12}  {count:12}  {dtype:>8}  {redop:>6}  {root:>6}");
    for Group { time_us, algbw, busbw, wrong } in groups {
        let wrong = wrong.filter(|_| time_us.is_some()).map_or("N/A".to_owned(), general);
        let [time, algbw, busbw] = match time_us {
            Some(us) => [time(us), format!("{algbw:.2}"), format!("{busbw:.2}")],
            None => ["N/A"; 3].map(str::to_owned),
        };
        let _ = write!(text, "  {time:>7}  {algbw:>6}  {busbw:>6}  {wrong:>5}");
    }
    text + if row.extrapolated { "  ~\n" } else { "\n" }
}

fn footer(busbw: &[f64], wrong: u64) -> String {
    let mean = match busbw.len() {
        0 => 0.0,
        count => busbw.iter().sum::<f64>() / count as f64,
    };
    let verdict = if wrong == 0 { "OK" } else { "FAILED" };
    format!(
        "# Out of bounds values : {wrong} {verdict}\n# Avg bus bandwidth    : {} \n#\n",
        general(mean)
    )
}

/// Five digits at most while they fit: the fewer decimals, the longer it is.
fn time(us: f64) -> String {
    let decimals = match us {
        10_000.0.. => 0,
        100.0.. => 1,
        _ => 2,
    };
    format!("{us:.decimals$}")
}

/// C's `%g`: six significant digits, no trailing zeros, an exponent below -4 and from 6 on.
fn general(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let scientific = format!("{value:.5e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |digits: &str| match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => digits.to_owned(),
    };
    if (-4..6).contains(&exponent) {
        return trim(&format!("{value:.*}", (5 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trim(mantissa), exponent.unsigned_abs())
}

/// `# ` before every line, as nccl-tests marks what is no row; an empty line becomes `#`.
pub fn commented(text: &str) -> String {
    let comment = |line: &str| match line {
        "" => "#\n".to_owned(),
        line => format!("# {line}\n"),
    };
    text.lines().map(comment).collect()
}

/// A size as nccl-tests reads it: a number, then K, M or G, which are powers of 1024.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let complaint =
        || format!("{text:?} is no size: a number is expected, with K, M or G for powers of 1024");
    let lower = text.trim().to_ascii_lowercase();
    let number_end = lower.find(['k', 'm', 'g']).unwrap_or(lower.len());
    let (number, unit) = lower.split_at(number_end);
    // nccl-tests looks at the first letter only: 8GB and 8GiB are 8G
    let unit = unit.strip_suffix("ib").or(unit.strip_suffix('b')).unwrap_or(unit);
    let unit = match unit {
        "" => 1.0,
        "k" => 1024.0,
        "m" => 1024.0 * 1024.0,
        "g" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err(complaint()),
    };
    let number: f64 = number.trim().parse().map_err(|_| complaint())?;
    let bytes = number * unit;
    match bytes {
        0.0..=1e18 => Ok(bytes as u64),
        _ if bytes > 1e18 => Err(format!("{text:?} is too much: at most 10^18 bytes are expected")),
        _ => Err(complaint()),
    }
}

#[cfg(test)]
mod tests {
    use models::collective::MessageSizes;
    use sim_core::Bytes;

    use super::*;

    fn header() -> Header {
        let step = Step::Factor(2);
        let (min_bytes, max_bytes) = (1 << 27, 1 << 28);
        Header { min_bytes, max_bytes, step, warmup: 0, iters: 1, n_gpus: 1, check: true }
    }

    fn rank(rank: u32) -> Rank {
        let (pid, device, bus_id) = (1000 + rank, rank, format!("0x{:02x}", rank + 15));
        Rank { rank, pid, host: format!("host{rank}"), device, bus_id, gpu: "NVIDIA H100".into() }
    }

    #[test]
    fn a_table_has_the_layout_of_nccl_tests() {
        // 128 MiB over 4 ranks in 5 ms: 134217728 / 5e-3 = 26.84 GB/s, x 1.5 = 40.27;
        // mean of the finished rows, 134217728 / 5e-3 x 1.5 / 1e9 = 40.2653184
        let row = |size: u64, time_s: Option<f64>| Row {
            size,
            count: size / 4,
            dtype: "float".to_owned(),
            redop: "sum",
            root: -1,
            time_us: time_s.map(|time| time * 1e6),
            algbw: time_s.map_or(0.0, |time| size as f64 / time / 1e9),
            busbw: time_s.map_or(0.0, |time| size as f64 / time / 1e9 * 1.5),
            extrapolated: false,
        };
        let rows = [row(1 << 27, Some(5e-3)), row(1 << 28, None)];
        let text = table(&header(), &[rank(0), rank(1)], &rows);
        let lines: Vec<&str> = text.lines().collect();
        let expected = [
            "# nThread 1 nGpus 1 minBytes 134217728 maxBytes 268435456 step: 2(factor) warmup \
             iters: 0 iters: 1 agg iters: 1 validation: 1 graph: 0",
            "#",
            "# Using devices",
            "#  Rank  0 Group  0 Pid   1000 on      host0 device  0 [0x0f] NVIDIA H100",
            "#  Rank  1 Group  0 Pid   1001 on      host1 device  1 [0x10] NVIDIA H100",
            "#",
            "#                                                              out-of-place             \
             \x20         in-place          ",
            "#       size         count      type   redop    root     time   algbw   busbw #wrong    \
             \x20time   algbw   busbw #wrong",
            "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)           \
             \x20(us)  (GB/s)  (GB/s)       ",
            "   134217728      33554432     float     sum      -1   5000.0   26.84   40.27      0   \
             5000.0   26.84   40.27      0",
            "   268435456      67108864     float     sum      -1      N/A     N/A     N/A    N/A      \
             N/A     N/A     N/A    N/A",
            "# Out of bounds values : 0 OK",
            "# Avg bus bandwidth    : 40.2653 ",
            "#",
        ];
        assert_eq!(lines, expected);
        let marked = Row { extrapolated: true, ..row(1 << 27, Some(5e-3)) };
        let text = table(&header(), &[], &[marked]);
        assert!(text.contains("40.27      0  ~\n"), "{text}");
    }

    #[test]
    fn numbers_are_written_as_c_does() {
        // what printf("%g") writes
        let cases = [
            (0.0, "0"),
            (41.696_66, "41.6967"),
            (100.0, "100"),
            (123_456.0, "123456"),
            (999_999.5, "1e+06"),
            (1_234_567.0, "1.23457e+06"),
            (0.000_123_456_7, "0.000123457"),
            (0.000_012, "1.2e-05"),
            (-0.5, "-0.5"),
        ];
        for (value, text) in cases {
            assert_eq!(general(value), text);
        }
        let times = [(0.784, "0.78"), (99.999, "100.00"), (100.0, "100.0"), (24_942.4, "24942")];
        for (value, text) in times {
            assert_eq!(time(value), text);
        }
    }

    #[test]
    fn sizes_are_read_as_nccl_tests_does() {
        let cases = [("8", 8), ("1K", 1024), ("32M", 1 << 25), ("8G", 8 << 30), ("1.5k", 1536)];
        for (text, bytes) in cases.into_iter().chain([("8GB", 8 << 30), ("2 MiB", 2 << 20)]) {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "K", "8T", "-1", "12MG", "1e3x", "nan", "8B8"] {
            assert!(parse_size(text).unwrap_err().contains("K, M or G"), "{text}");
        }
        assert!(parse_size("9e9G").unwrap_err().contains("at most"));
    }

    #[test]
    fn a_comment_is_marked_on_every_line() {
        assert_eq!(commented("one\n\n  two\n"), "# one\n#\n#   two\n");
    }

    /// A row of a log of 2.13 to 2.16, as what it was printed from.
    fn parsed(line: &str) -> Option<(Row, [Group; 2])> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [size, count, dtype, redop, root, measured @ ..] = fields.as_slice() else {
            return None;
        };
        let group = |fields: &[&str]| {
            let [time_us, algbw, busbw, wrong] = fields else { return None };
            let number = |text: &str| text.parse::<f64>().ok();
            let (algbw, busbw) = (number(algbw)?, number(busbw)?);
            Some(Group { time_us: Some(number(time_us)?), algbw, busbw, wrong: number(wrong) })
        };
        let (first, second) = measured.split_at_checked(4)?;
        let row = Row {
            size: size.parse().ok()?,
            count: count.parse().ok()?,
            dtype: (*dtype).to_owned(),
            redop: ["sum", "none"].into_iter().find(|known| known == redop)?,
            root: root.parse().ok()?,
            time_us: None,
            algbw: 0.0,
            busbw: 0.0,
            extrapolated: false,
        };
        Some((row, [group(first)?, group(second)?]))
    }

    #[test]
    fn rows_of_real_logs_are_printed_again_as_they_were() {
        let Some(folder) = std::env::var_os("ROCESIM_REFERENCE") else {
            eprintln!("SKIPPED: ROCESIM_REFERENCE names no folder with nccl-logs/");
            return;
        };
        let folder = std::path::Path::new(&folder).join("nccl-logs");
        let (mut logs, mut rows, mut means) = (0, 0, 0);
        for entry in std::fs::read_dir(folder).unwrap() {
            let text = std::fs::read_to_string(entry.unwrap().path()).unwrap_or_default();
            // 2.17 puts one blank more before #wrong, and other decimals
            if !text.lines().any(|line| line.contains("busbw #wrong     time")) {
                continue;
            }
            logs += 1;
            let names = column_names();
            let head = |text: &str| -> Vec<String> {
                let lines = text.lines().skip_while(|line| !line.contains("out-of-place"));
                lines.take(3).map(|line| line.trim_end().to_owned()).collect()
            };
            if text.contains("out-of-place") {
                assert_eq!(head(&text), head(&names));
            }
            for original in text.lines().filter(|line| line.starts_with(' ')) {
                let Some((row, groups)) = parsed(original) else { continue };
                let ours = line(&row, groups);
                // one log was published without its first blank
                let ours = ours.get(usize::from(original.len() < ours.len() - 1)..).unwrap();
                assert_eq!(ours.trim_end(), original.trim_end());
                rows += 1;
            }
            means += u32::from(check_footer(&text));
        }
        eprintln!("{rows} rows of {logs} logs are printed again as they were, and {means} means");
        assert!(logs >= 5 && rows >= 50 && means >= 3, "{logs} logs, {rows} rows, {means} means");
    }

    /// The mean of the rows is the one that a log states, within its rounding; false if the log
    /// has not all its rows.
    fn check_footer(text: &str) -> bool {
        let after = |name: &str| -> Option<&str> {
            let (_, rest) = text.split_once(name)?;
            rest.split([' ', '(', '\n']).find(|word| !word.is_empty())
        };
        let number = |name: &str| after(name)?.parse().ok();
        let stated = after("Avg bus bandwidth    :").and_then(|word| word.parse::<f64>().ok());
        let (Some(min_bytes), Some(max_bytes), Some(factor), Some(stated)) =
            (number("minBytes"), number("maxBytes"), number("step:"), stated)
        else {
            return false;
        };
        let step = if text.contains("(factor)") {
            Step::Factor(factor)
        } else {
            Step::Bytes(Bytes::new(factor))
        };
        let rows: Vec<_> = text.lines().filter_map(parsed).collect();
        let sizes = MessageSizes::Sweep(Bytes::new(min_bytes), Bytes::new(max_bytes), step);
        if !sizes.list("").is_ok_and(|sizes| sizes.len() == rows.len()) {
            return false;
        }
        let busbw: Vec<f64> =
            rows.iter().flat_map(|(_, groups)| groups.map(|group| group.busbw)).collect();
        let footer = footer(&busbw, 0);
        let (_, ours) = footer.split_once("bandwidth    : ").unwrap();
        let ours: f64 = ours.trim_end_matches(['#', '\n', ' ']).parse().unwrap();
        assert!((ours - stated).abs() <= 0.006, "{ours} {stated}");
        true
    }
}
