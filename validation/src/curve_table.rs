//! Curves and runs of perftest as tables for a terminal.

use std::fmt;

use crate::curve::{Table, Timing, Warning};
use crate::perftest::{Latency, Perftest, Speed};
use crate::symptoms::wrapped;

/// Of the highest busbw: a row with as much is on the plateau.
const PLATEAU: f64 = 0.9;

impl Table {
    /// The plateau of busbw, in GB/s, and the size from which on it holds: the median over the
    /// largest sizes, as far down as they have nine tenths of the highest. Out of place, or in place
    /// if that is all there is. None if the largest size has less.
    pub fn plateau(&self) -> Option<(u64, f64)> {
        let busbw = |timing: Timing| timing.busbw_gbytes_per_s;
        let rows = self.rows.iter().filter_map(|row| Some((row.bytes, busbw(row.timing()?))));
        let mut rows: Vec<(u64, f64)> = rows.collect();
        rows.sort_by_key(|row| row.0);
        let highest = rows.iter().map(|row| row.1).max_by(f64::total_cmp)?;
        let on = rows.iter().rev().take_while(|row| row.1 >= PLATEAU * highest);
        let on: Vec<(u64, f64)> = on.copied().collect();
        let from = on.last().filter(|_| highest > 0.0)?.0;
        let mut values: Vec<f64> = on.iter().map(|row| row.1).collect();
        values.sort_by(f64::total_cmp);
        Some((from, values[values.len() / 2]))
    }

    /// What it is about, in a line.
    fn title(&self) -> String {
        let op = self.op.map(|op| op.name()).or(self.name.as_deref());
        let mut parts = vec![op.unwrap_or("operation not known").to_owned()];
        match (self.ranks, self.hosts) {
            (Some(ranks), Some(hosts)) => {
                parts.push(format!("{ranks} ranks on {}", hosts_text(hosts)))
            }
            (Some(ranks), None) => parts.push(format!("{ranks} ranks")),
            _ => {}
        }
        parts.extend(self.nccl_version.as_ref().map(|version| format!("NCCL {version}")));
        parts.extend(self.tests_version.as_ref().map(|version| format!("nccl-tests {version}")));
        parts.extend(self.iterations.map(|iterations| format!("{iterations} iterations")));
        format!("{}, line {}:\n  {}", self.source, self.line, parts.join(", "))
    }
}

fn hosts_text(hosts: u32) -> String {
    format!("{hosts} host{}", if hosts == 1 { "" } else { "s" })
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title())?;
        if !self.rows.is_empty() {
            let group = format!("{:>12}{:>8}{:>8}{:>9}", "time", "algbw", "busbw", "#wrong");
            writeln!(f, "{:>14}{:>37}{:>37}", "", "out of place", "in place")?;
            writeln!(f, "{:>14}{group}{group}", "size")?;
        }
        for row in &self.rows {
            let size = size(row.bytes);
            let cells = [row.out_of_place, row.in_place].map(cells).concat();
            let mark = if row.extrapolated { "  ~" } else { "" };
            writeln!(f, "{}", format!("{size:>14}{cells}{mark}").trim_end())?;
        }
        if let Some((from, busbw)) = self.plateau() {
            writeln!(f, "  plateau {busbw:.2} GB/s busbw from {} on", size(from))?;
        } else if !self.rows.is_empty() {
            writeln!(
                f,
                "  no plateau: the largest size has less than nine tenths of the best busbw"
            )?;
        }
        if let Some(mean) = self.mean_busbw() {
            let stated = self.average_busbw.map(|stated| format!("{stated:.2} stated, "));
            let stated = stated.unwrap_or_default();
            writeln!(f, "  average busbw {stated}{mean:.2} GB/s of these rows")?;
        }
        write_warnings(f, &self.warnings)
    }
}

/// Time, algbw, busbw and what was wrong, 37 wide.
fn cells(timing: Option<Timing>) -> String {
    let Some(Timing { time_s, algbw_gbytes_per_s, busbw_gbytes_per_s, wrong }) = timing else {
        return format!("{:>12}{:>8}{:>8}{:>9}", "-", "-", "-", "-");
    };
    let wrong = wrong.map_or("-".to_owned(), |wrong| match wrong {
        wrong if wrong == 0.0 || (1.0..1e6).contains(&wrong) => format!("{wrong:.0}"),
        wrong => format!("{wrong:.0e}"),
    });
    let time = time(time_s);
    format!("{time:>12}{algbw_gbytes_per_s:>8.2}{busbw_gbytes_per_s:>8.2}{wrong:>9}")
}

fn write_warnings(f: &mut fmt::Formatter<'_>, warnings: &[Warning]) -> fmt::Result {
    let mut warnings: Vec<&Warning> = warnings.iter().collect();
    warnings.sort_by_key(|warning| warning.line);
    for Warning { line, message } in warnings {
        write!(f, "{}", wrapped(&format!("  line {line}: "), message))?;
    }
    Ok(())
}

/// `32 MiB` where it is even, else bytes.
pub(crate) fn size(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let even = |(shift, _): &&(u32, &str)| bytes > 0 && bytes.trailing_zeros() >= *shift;
    match units.iter().find(even) {
        Some((shift, unit)) => format!("{} {unit}", bytes >> shift),
        None => format!("{bytes} B"),
    }
}

/// In the unit in which it is readable.
pub(crate) fn time(seconds: f64) -> String {
    let magnitude = seconds.abs();
    match () {
        () if magnitude >= 1.0 => format!("{seconds:.3} s"),
        () if magnitude >= 10e-3 => format!("{:.2} ms", seconds * 1e3),
        () => format!("{:.2} us", seconds * 1e6),
    }
}

impl fmt::Display for Perftest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = vec![self.test.clone().unwrap_or_else(|| "perftest".to_owned())];
        parts.extend(self.device.clone());
        parts.extend(self.qps.map(|qps| format!("{qps} QP{}", if qps == 1 { "" } else { "s" })));
        parts.extend(self.connection.clone());
        parts.extend(self.mtu_bytes.map(|mtu| format!("MTU {mtu}")));
        parts.extend(self.link_type.clone());
        parts.extend(self.gid_index.map(|index| format!("GID {index}")));
        parts.extend((self.dual_port == Some(true)).then(|| "two ports".to_owned()));
        writeln!(f, "{}, line {}:\n  {}", self.source, self.line, parts.join(", "))?;
        let mut headed = None;
        for row in &self.rows {
            let (size, iterations) = (size(row.bytes), row.iterations);
            let kind = matches!(row.measured, Speed::Latency(_));
            if headed != Some(kind) {
                let names: &[&str] = match kind {
                    true => &["min", "typical", "mean", "99 %", "99.9 %", "max"],
                    false => &["peak", "average", "messages/s"],
                };
                let names: String = names.iter().map(|name| format!("{name:>13}")).collect();
                writeln!(f, "{:>14}{:>10}{names}", "size", "iters")?;
                headed = Some(kind);
            }
            let cells = match row.measured {
                Speed::Bandwidth(of) => {
                    let gbps = |bps: f64| format!("{:.2} Gbps", bps / 1e9);
                    let cells = [
                        of.peak_bps.map(gbps),
                        Some(gbps(of.average_bps)),
                        of.messages_per_s.map(|rate| format!("{rate:.0}")),
                    ];
                    cells.to_vec()
                }
                Speed::Latency(Latency {
                    min_s,
                    max_s,
                    typical_s,
                    average_s,
                    p99_s,
                    p999_s,
                    ..
                }) => {
                    let cells = [min_s, typical_s, average_s, p99_s, p999_s, max_s];
                    cells.map(|seconds| seconds.map(time)).to_vec()
                }
            };
            let cell = |cell: Option<String>| format!("{:>13}", cell.unwrap_or("-".to_owned()));
            let cells: String = cells.into_iter().map(cell).collect();
            writeln!(f, "{size:>14}{iterations:>10}{cells}")?;
        }
        if self.bidirectional {
            writeln!(f, "  both ways together")?;
        }
        write_warnings(f, &self.warnings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::Row;

    #[test]
    fn a_plateau_is_what_the_largest_sizes_have() {
        let table = |busbw: &[f64]| {
            let row = |(index, busbw): (usize, &f64)| {
                let timing = Timing { busbw_gbytes_per_s: *busbw, ..Timing::default() };
                Row { bytes: 1 << (20 + index), out_of_place: Some(timing), ..Row::default() }
            };
            Table { rows: busbw.iter().enumerate().map(row).collect(), ..Table::default() }
        };
        // from the third on at least 0.9 * 50 = 45; of 46, 48, 50 the median is 48
        assert_eq!(table(&[10.0, 44.0, 46.0, 50.0, 48.0]).plateau(), Some((4 << 20, 48.0)));
        assert_eq!(table(&[50.0, 10.0]).plateau(), None);
        assert_eq!(table(&[]).plateau(), None);
    }

    #[test]
    fn sizes_and_times_are_short() {
        assert_eq!(
            [32 << 20, 1 << 33, 33_553_920, 0, 8].map(size),
            ["32 MiB", "8 GiB", "33553920 B", "0 B", "8 B"]
        );
        assert_eq!([2.0, 0.0123, -0.000_012].map(time), ["2.000 s", "12.30 ms", "-12.00 us"]);
    }
}
