//! Output of perftest, as text or from `--out_json`. The formats are those of its
//! `src/perftest_parameters.{h,c}`: a block of settings, a line of column names, a row for each
//! size.

use std::path::Path;

use serde_json::{Map, Value};

use super::text::{head, line_error};
use crate::curve::Warning;
use crate::error::ReadError;
use crate::perftest::{Bandwidth, Latency, Perftest, PerftestRow, Speed};

/// More of a line is not looked at.
const LINE_MAX: usize = 1024;
/// Lines of trouble that are repeated in full.
const TROUBLE_MAX: usize = 10;

/// Whether a line names the columns of a table of perftest.
pub(super) fn is(text: &str) -> bool {
    text.lines().any(|line| Columns::of(line).is_some())
}

/// All runs in the file.
pub(super) fn parse(source: &str, text: &str) -> Vec<Perftest> {
    let mut reader = Reader { source: source.to_owned(), ..Reader::default() };
    for (line, number) in text.lines().zip(1..) {
        reader.line(number, head(line, LINE_MAX));
    }
    reader.close();
    reader.runs
}

#[derive(Default)]
struct Reader {
    source: String,
    runs: Vec<Perftest>,
    run: Perftest,
    columns: Option<Columns>,
    /// Lines that say that the clock of the CPU moved.
    clock: u64,
    troubles: usize,
}

/// What a column has.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Column {
    Bytes,
    Iterations,
    /// Unit in bit/s.
    Peak(f64),
    Average(f64),
    Rate,
    Min,
    Max,
    Typical,
    Mean,
    Deviation,
    P99,
    P999,
    Other,
}

struct Columns(Vec<Column>);

impl Columns {
    fn of(line: &str) -> Option<Columns> {
        let line = head(line, LINE_MAX);
        let start = line.find("#bytes")?;
        let mut names = line[start..].replace(" [", "[").replace("% percentile", "%");
        for first in ["BW", "MsgRate", "tps"] {
            names = names.replace(&format!("{first} "), &format!("{first}_"));
        }
        let columns: Vec<Column> = names.split_whitespace().map(column).collect();
        let is_whole = columns.contains(&Column::Iterations) && columns.len() >= 3;
        is_whole.then_some(Columns(columns))
    }

    /// Whether times are in microseconds, not in cycles.
    fn value(&self, wanted: Column, numbers: &[f64]) -> Option<f64> {
        let place = self.0.iter().position(|column| *column == wanted)?;
        numbers.get(place).copied()
    }

    /// The speed that a row of these columns says.
    fn speed(&self, numbers: &[f64]) -> Option<Speed> {
        for (column, number) in self.0.iter().zip(numbers) {
            if let Column::Average(unit) = column {
                let peak = self.value(Column::Peak(*unit), numbers);
                return Some(Speed::Bandwidth(Bandwidth {
                    // 0 where it was not asked for
                    peak_bps: peak.filter(|peak| *peak > 0.0).map(|peak| peak * unit),
                    average_bps: number * unit,
                    messages_per_s: self.value(Column::Rate, numbers).map(|rate| rate * 1e6),
                }));
            }
        }
        let us = |column: Column| self.value(column, numbers).map(|us| us / 1e6);
        let latency = Latency {
            min_s: us(Column::Min),
            max_s: us(Column::Max),
            typical_s: us(Column::Typical),
            average_s: us(Column::Mean),
            stdev_s: us(Column::Deviation),
            p99_s: us(Column::P99),
            p999_s: us(Column::P999),
        };
        (latency != Latency::default()).then_some(Speed::Latency(latency))
    }
}

fn column(name: &str) -> Column {
    // what older versions call MB is 2^20 bytes too
    let unit = match name.split_once('[').map(|(_, unit)| unit.trim_end_matches(']')) {
        Some("Gb/sec") => 1e9,
        Some("MB/sec" | "MiB/sec") => 8.0 * f64::from(1 << 20),
        _ => 1.0,
    };
    let bandwidth = unit > 1.0;
    match name {
        "#bytes" => Column::Bytes,
        "#iterations" => Column::Iterations,
        _ if name.starts_with("BW_peak") && bandwidth => Column::Peak(unit),
        _ if name.starts_with("BW_average") && bandwidth => Column::Average(unit),
        "MsgRate[Mpps]" => Column::Rate,
        "t_min[usec]" => Column::Min,
        "t_max[usec]" => Column::Max,
        "t_typical[usec]" => Column::Typical,
        "t_avg[usec]" => Column::Mean,
        "t_stdev[usec]" => Column::Deviation,
        "99%[usec]" => Column::P99,
        "99.9%[usec]" => Column::P999,
        _ => Column::Other,
    }
}

impl Reader {
    fn line(&mut self, number: u64, line: &str) {
        if let Some(columns) = Columns::of(line) {
            self.columns = Some(columns);
            self.begins(number);
        } else if line.contains("Conflicting CPU frequency") {
            self.clock += 1;
            if self.clock == 1 {
                self.warn(number, "the clock of the CPU moved: times may be off".to_owned());
            }
        } else if let Some(name) = title(line) {
            if !self.run.rows.is_empty() {
                self.close();
            }
            self.begins(number);
            self.run.bidirectional = name.contains("Bidirectional");
            self.run.test = Some(name.to_owned());
        } else if !self.row(number, line) {
            self.setting(number, line);
        }
    }

    fn begins(&mut self, number: u64) {
        if self.run.line == 0 {
            self.run.line = number;
        }
    }

    fn warn(&mut self, line: u64, message: String) {
        self.run.warnings.push(Warning { line, message });
    }

    /// Whether this was a row.
    fn row(&mut self, number: u64, line: &str) -> bool {
        let Some(columns) = &self.columns else { return false };
        let words: Vec<&str> = line.split_whitespace().collect();
        let numbers: Vec<f64> = words.iter().map_while(|word| word.parse().ok()).collect();
        if numbers.len() < words.len() || words.is_empty() {
            return false;
        }
        let valid = numbers.iter().all(|number| number.is_finite() && *number >= 0.0);
        if numbers.len() != columns.0.len() || !valid {
            let message = match valid {
                true => format!(
                    "{} numbers, but {} as there are columns were expected: left out",
                    numbers.len(),
                    columns.0.len()
                ),
                false => "a number below 0, or none: left out".to_owned(),
            };
            self.warn(number, message);
            return true;
        }
        let whole = |column: Column| {
            let place = columns.0.iter().position(|known| *known == column)?;
            words[place].parse::<u64>().ok()
        };
        let found = whole(Column::Bytes).zip(whole(Column::Iterations));
        match found.zip(columns.speed(&numbers)) {
            Some(((bytes, iterations), measured)) => {
                self.run.rows.push(PerftestRow { line: number, bytes, iterations, measured });
            }
            None => self.warn(number, "a row whose columns are not known: left out".to_owned()),
        }
        true
    }

    fn setting(&mut self, number: u64, line: &str) {
        const TROUBLE: [&str; 6] =
            ["Completion with error", "Couldn't", "Failed", "Unable to", "ERROR", "WARNING"];
        if TROUBLE.iter().any(|sign| line.contains(sign)) {
            self.troubles += 1;
            if self.troubles <= TROUBLE_MAX {
                let text = line.trim();
                self.warn(number, head(text, 160).to_owned());
            }
            return;
        }
        if let Some(dual) = value(line, "Dual-port") {
            if !self.run.rows.is_empty() {
                self.close();
            }
            self.begins(number);
            self.run.dual_port = Some(dual == "ON");
        }
        let text = |key: &str| value(line, key).map(str::to_owned);
        let count = |key: &str| {
            let value = value(line, key)?;
            let digits = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
            value[..digits].parse::<u32>().ok()
        };
        let run = &mut self.run;
        run.device = text("Device").or(run.device.take());
        run.qps = count("Number of qps").or(run.qps);
        run.connection = text("Connection type").or(run.connection.take());
        run.mtu_bytes = count("Mtu").map(u64::from).or(run.mtu_bytes);
        run.link_type = text("Link type").or(run.link_type.take());
        run.gid_index = count("GID index").or(run.gid_index);
        run.tx_depth = count("TX depth").or(run.tx_depth);
    }

    fn close(&mut self) {
        let mut run = std::mem::take(&mut self.run);
        let had_columns = self.columns.take().is_some();
        if run.rows.is_empty() && !had_columns && run.test.is_none() && run.dual_port.is_none() {
            return;
        }
        if run.rows.is_empty() {
            let message = "no row: it did not finish its first size".to_owned();
            run.warnings.push(Warning { line: run.line.max(1), message });
        }
        run.source = self.source.clone();
        self.clock = 0;
        self.runs.push(run);
    }
}

/// `RDMA_Write BW` of the line `RDMA_Write BW Test`.
fn title(line: &str) -> Option<&str> {
    let name = line.trim().strip_suffix("Test")?.trim_end();
    let known = ["Send", "RDMA_Write", "RDMA_Read", "Atomic"];
    let is_known = known.iter().any(|verb| name.starts_with(verb));
    (is_known && (name.contains("BW") || name.contains("Latency"))).then_some(name)
}

/// What follows a key and its colon; two settings stand on a line, with tabs between.
fn value<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let mut parts = line.split('\t').filter_map(|part| part.split_once(':'));
    let found = parts.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim());
    // blanks instead of tabs, where the text went through another program
    let spaced = || {
        let (_, rest) = line.split_once(key)?;
        let value = rest.trim_start().strip_prefix(':')?.trim_start();
        Some(value.split("  ").next().unwrap_or(value).trim())
    };
    found.filter(|value| !value.contains(':')).or_else(spaced).filter(|value| !value.is_empty())
}

/// Whether this is what `--out_json` writes.
pub(super) fn is_json(text: &str) -> bool {
    let begin = head(text, 4096);
    begin.trim_start().starts_with('{') && begin.contains("\"test_info\"")
}

/// The one run of a JSON file, which has one size.
pub(super) fn parse_json(file: &Path, text: &str) -> Result<Vec<Perftest>, ReadError> {
    let top: Map<String, Value> = serde_json::from_str(text).map_err(|error| {
        let message = format!("JSON of perftest was expected: {error}");
        line_error(file, error.line() as u64, message)
    })?;
    let object = |key: &str| {
        let message = || format!("there is no object `{key}`, as perftest writes it");
        top.get(key).and_then(Value::as_object).ok_or_else(|| line_error(file, 1, message()))
    };
    let (info, results) = (object("test_info")?, object("results")?);
    let text = |key: &str| info.get(key).and_then(Value::as_str).map(str::to_owned);
    let whole = |key: &str| info.get(key).and_then(Value::as_u64);
    let small = |key: &str| whole(key).and_then(|value| u32::try_from(value).ok());
    let test = text("test").map(|name| name.trim_end_matches("_Test").to_owned());
    let mut run = Perftest {
        source: file.display().to_string(),
        line: 1,
        bidirectional: test.as_ref().is_some_and(|name| name.contains("Bidirectional")),
        test,
        device: text("Device"),
        qps: small("Number_of_qps"),
        connection: text("Connection_type"),
        mtu_bytes: whole("Mtu"),
        link_type: text("Link_type"),
        gid_index: small("GID_index"),
        dual_port: text("Dual_port").map(|value| value == "ON"),
        tx_depth: small("TX_depth"),
        ..Perftest::default()
    };
    match json_row(results) {
        Some(row) => run.rows.push(row),
        None => run.warnings.push(Warning {
            line: 1,
            message: "`results` has no size with a bandwidth or a latency".to_owned(),
        }),
    }
    Ok(vec![run])
}

fn json_row(results: &Map<String, Value>) -> Option<PerftestRow> {
    let number = |key: &str| {
        let value = results.get(key)?.as_f64()?;
        (value.is_finite() && value >= 0.0).then_some(value)
    };
    let bytes = results.get("MsgSize")?.as_u64()?;
    let iterations = results.get("n_iterations").and_then(Value::as_u64).unwrap_or(0);
    let measured = match number("BW_average") {
        Some(average) => {
            // the unit is not told: of both that which fits size and messages per second
            let rate = number("MsgRate").map(|rate| rate * 1e6);
            let told = rate.map_or(f64::NAN, |rate| rate * bytes as f64 * 8.0 / average);
            let unit = if told > 9e7 { 1e9 } else { 8.0 * f64::from(1 << 20) };
            Speed::Bandwidth(Bandwidth {
                peak_bps: number("BW_peak").filter(|peak| *peak > 0.0).map(|peak| peak * unit),
                average_bps: average * unit,
                messages_per_s: rate,
            })
        }
        None => {
            let us = |key: &str| number(key).map(|us| us / 1e6);
            Speed::Latency(Latency {
                min_s: us("t_min"),
                max_s: us("t_max"),
                typical_s: us("t_typical"),
                average_s: Some(us("t_avg")?),
                stdev_s: us("t_stdev"),
                p99_s: us("percentile_99"),
                p999_s: us("percentile_99.9"),
            })
        }
    };
    Some(PerftestRow { line: 1, bytes, iterations, measured })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "---\n                    RDMA_Write Bidirectional BW Test\n Dual-port       : OFF\t\tDevice         : mlx5_0\n Number of qps   : 4\t\tTransport type : IB\n Connection type : RC\t\tUsing SRQ      : OFF\n TX depth        : 128\n Mtu             : 4096[B]\n Link type       : Ethernet\n GID index       : 3\n local address: LID 0000 QPN 0x0127\n---\n";

    #[test]
    fn bandwidths_of_several_sizes() {
        // 97.5 Gb/s of 64 KiB: 97.5e9 / 8 / 65536 = 185966 messages a second
        let rows = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n 2          5000       0.05            0.04\t\t     2.500000\nConflicting CPU frequency values detected: 800.0 != 2600.0. CPU Frequency is not max.\n 65536      5000       0.00            97.50\t\t     0.185966\n 131072     50";
        let text = format!("{HEAD}{rows}\n---\n");
        assert!(is(&text));
        let runs = parse("p", &text);
        let [run] = runs.as_slice() else { panic!("{runs:?}") };
        assert_eq!(run.test.as_deref(), Some("RDMA_Write Bidirectional BW"));
        assert_eq!((run.device.as_deref(), run.qps), (Some("mlx5_0"), Some(4)));
        assert_eq!(
            (run.mtu_bytes, run.gid_index, run.dual_port),
            (Some(4096), Some(3), Some(false))
        );
        assert_eq!((run.link_type.as_deref(), run.tx_depth), (Some("Ethernet"), Some(128)));
        assert_eq!((run.connection.as_deref(), run.bidirectional), (Some("RC"), true));
        let expected =
            Bandwidth { peak_bps: None, average_bps: 97.5e9, messages_per_s: Some(185_966.0) };
        assert_eq!(run.best_bandwidth(), Some((65536, expected)));
        let lines: Vec<u64> = run.warnings.iter().map(|warning| warning.line).collect();
        assert_eq!((run.rows.len(), lines), (2, vec![14, 16]));
        // 11000 MiB/s = 11000 * 2^20 * 8 = 92.27 Gb/s
        let rows = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n 65536 5000 11500.00 11000.00 0.176000\n";
        let run = parse("p", rows).remove(0);
        let average = run.best_bandwidth().unwrap().1.average_bps;
        assert_eq!(average, 11000.0 * 1_048_576.0 * 8.0);
    }

    #[test]
    fn latencies_of_old_and_new_versions() {
        let new = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n 2       1000          1.50           9.25         1.75     \t       1.80     \t0.25\t\t2.50 \t\t9.00\n";
        let run = parse("p", new).remove(0);
        let expected = Latency {
            min_s: Some(1.5e-6),
            max_s: Some(9.25e-6),
            typical_s: Some(1.75e-6),
            average_s: Some(1.8 / 1e6),
            stdev_s: Some(0.25e-6),
            p99_s: Some(2.5e-6),
            p999_s: Some(9e-6),
        };
        assert_eq!(run.rows[0].measured, Speed::Latency(expected));
        let duration = " #bytes        #iterations       t_avg[usec]    tps average\n 2 566000 1.77 283000.00\n";
        let run = parse("p", duration).remove(0);
        let expected = Latency { average_s: Some(1.77e-6), ..Latency::default() };
        assert_eq!(run.rows[0].measured, Speed::Latency(expected));
        let old = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]\n 2 1000 1.50 9.25 1.75\n";
        assert_eq!(parse("p", old)[0].rows.len(), 1);
        let cycles = old.replace("usec", "cycles");
        assert_eq!(
            (parse("p", &cycles)[0].rows.len(), parse("p", &cycles)[0].warnings.len()),
            (0, 2)
        );
    }

    #[test]
    fn json_of_one_size() {
        // 11000 MiB/s of 64 KiB are 0.176 million messages a second
        let text = r#"{"test_info": {"test": "RDMA_Write_BW_Test", "Device": "mlx5_0", "Number_of_qps": 1, "Mtu": 4096},
            "results": {"MsgSize": 65536, "n_iterations": 5000, "BW_peak": 0.00, "BW_average": 11000.00, "MsgRate": 0.176000}}"#;
        assert!(is_json(text));
        let run = parse_json(Path::new("j"), text).unwrap().remove(0);
        assert_eq!(run.best_bandwidth().unwrap().1.average_bps, 11000.0 * 1_048_576.0 * 8.0);
        let text = text.replace("11000.00", "92.27");
        let run = parse_json(Path::new("j"), &text).unwrap().remove(0);
        assert_eq!(run.best_bandwidth().unwrap().1.average_bps, 92.27e9);
        let error = parse_json(Path::new("j"), "{\"test_info\": {}}").unwrap_err().to_string();
        assert_eq!(error, "j, line 1: there is no object `results`, as perftest writes it");
    }
}
