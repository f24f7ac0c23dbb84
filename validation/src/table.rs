//! A comparison as a table for a terminal.

use std::fmt;

use crate::compare::{Comparison, Pair, SizeBin, Summary};

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} matched; {} only in ns-3 or unfinished in rocesim, {} only in rocesim",
            count(self.matched),
            self.missing_here,
            self.missing_there,
        )?;
        if self.different_size > 0 {
            let flows = count(self.different_size);
            writeln!(f, "warning: {flows} of another size: the inputs differ")?;
        }
        if let Some(summary) = &self.summary {
            writeln!(f)?;
            write_summary(f, summary)?;
        }
        if !self.bins.is_empty() {
            writeln!(f)?;
            write_bins(f, &self.bins)?;
        }
        Ok(())
    }
}

fn count(flows: usize) -> String {
    format!("{flows} flow{}", if flows == 1 { "" } else { "s" })
}

fn write_summary(f: &mut fmt::Formatter<'_>, summary: &Summary) -> fmt::Result {
    writeln!(f, "{:<13}  {:>14}  {:>14}  {:>10}", "", "rocesim", "ns-3", "error")?;
    let (size, unit) = unit(summary.max_fct_s);
    let time = |seconds: f64| format!("{:.3} {unit}", seconds / size);
    let ratio = |value: f64| format!("{value:.3}");
    let rows = [
        ("mean FCT", summary.mean_fct_s, &time as &dyn Fn(f64) -> String),
        ("last FCT", summary.max_fct_s, &time),
        ("mean slowdown", summary.mean_slowdown, &ratio),
    ];
    for (name, pair, text) in rows {
        let (here, there) = (text(pair.here), text(pair.there));
        writeln!(f, "{name:<13}  {here:>14}  {there:>14}  {:>10}", signed(pair.error(), 3))?;
    }
    let mean = format!("{:.3} %", summary.mean_abs_error * 100.0);
    writeln!(f, "{:<13}  {:>14}  {:>14}  {mean:>10}", "mean |error|", "", "")?;
    let worst = &summary.worst;
    let (here, there) = (time(worst.fct_s.here), time(worst.fct_s.there));
    let error = format!("{:.3} %", worst.error.abs() * 100.0);
    writeln!(
        f,
        "{:<13}  {here:>14}  {there:>14}  {error:>10}  n{} -> n{}, port {}",
        "max |error|", worst.source, worst.target, worst.source_port,
    )
}

fn write_bins(f: &mut fmt::Formatter<'_>, bins: &[SizeBin]) -> fmt::Result {
    writeln!(f, "slowdown by size  flows        rocesim            ns-3       error")?;
    for bin in bins {
        let SizeBin { label, flows, here, there } = bin;
        let rows = [
            ("p50", here.p50, there.p50),
            ("p95", here.p95, there.p95),
            ("p99", here.p99, there.p99),
        ];
        for (row, (name, here, there)) in rows.into_iter().enumerate() {
            match row {
                0 => write!(f, "{label:<13}  {flows:>8}")?,
                _ => write!(f, "{:<13}  {:>8}", "", "")?,
            }
            let error = signed(Pair { here, there }.error(), 3);
            writeln!(f, "  {name} {here:>9.3}  {there:>14.3}  {error:>10}")?;
        }
    }
    Ok(())
}

/// The unit in which times up to this one are readable.
fn unit(greatest: Pair) -> (f64, &'static str) {
    match greatest.here.max(greatest.there) {
        seconds if seconds >= 1.0 => (1.0, "s"),
        seconds if seconds >= 10e-3 => (1e-3, "ms"),
        _ => (1e-6, "us"),
    }
}

/// `+0.12 %`; no sign where the digits shown are all 0.
fn signed(error: f64, digits: usize) -> String {
    let text = format!("{:+.digits$}", error * 100.0);
    match text.contains(|c: char| ('1'..='9').contains(&c)) || !error.is_finite() {
        true => format!("{text} %"),
        false => format!("{} %", &text[1..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::compare_flows;
    use crate::compare::tests::{example, report};

    #[test]
    fn table() {
        let expected = "\
3 flows matched; 2 only in ns-3 or unfinished in rocesim, 1 only in rocesim

                      rocesim            ns-3       error
mean FCT             4.000 us        4.000 us     0.000 %
last FCT             6.000 us        6.000 us     0.000 %
mean slowdown           2.367           2.333    +1.429 %
mean |error|                                      5.000 %
max |error|          2.200 us        2.000 us    10.000 %  n0 -> n8, port 10000

slowdown by size  flows        rocesim            ns-3       error
0-1 KB                1  p50     2.200           2.000   +10.000 %
                         p95     2.200           2.000   +10.000 %
                         p99     2.200           2.000   +10.000 %
1-10 KB               2  p50     1.900           2.000    -5.000 %
                         p95     3.000           3.000     0.000 %
                         p99     3.000           3.000     0.000 %
";
        assert_eq!(example().to_string(), expected);
    }

    #[test]
    fn nothing_matched() {
        let text = compare_flows(&report(vec![]), &[]).to_string();
        assert_eq!(
            text,
            "0 flows matched; 0 only in ns-3 or unfinished in rocesim, 0 only in rocesim\n"
        );
    }

    #[test]
    fn signs() {
        assert_eq!(signed(0.00004, 2), "0.00 %");
        assert_eq!(signed(-0.00004, 2), "0.00 %");
        assert_eq!(signed(-0.0123, 2), "-1.23 %");
        assert_eq!(signed(f64::INFINITY, 2), "+inf %");
    }
}
