//! A comparison as tables for a terminal.

use std::fmt;

use crate::compare::{
    Comparison, Item, Measure, Pair, RunComparison, SeriesComparison, SizeBin, Summary,
};

impl fmt::Display for RunComparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(flows) = &self.flows {
            write!(f, "{flows}")?;
        }
        if self.totals.len() + self.collectives.len() > 0 || self.pauses.is_some() {
            writeln!(f)?;
            head(f, "", self.reference)?;
        }
        for Item { name, value } in &self.collectives {
            line(f, name, &time(*value), *value, "")?;
        }
        for Item { name, value } in &self.totals {
            line(f, name, &count, *value, "")?;
        }
        if let Some(pauses) = &self.pauses {
            write_measure(f, "pauses received", "port", &count, pauses)?;
        }
        if let Some(paused) = &self.paused_s {
            write_measure(f, "paused", "port", &time(paused.sum), paused)?;
        }
        if let Some(queues) = &self.queues {
            write_series(f, "queue", "port", &bytes, queues)?;
        }
        if let Some(rates) = &self.rates {
            write_series(f, "rate", "flow", &rate, rates)?;
        }
        for (index, note) in self.notes.iter().enumerate() {
            let gap = if index == 0 { "\n" } else { "" };
            writeln!(f, "{gap}note: {note}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Comparison { reference, matched, missing_here, missing_there, .. } = self;
        if (*matched, *missing_here, *missing_there) == (0, 0, 0) {
            return writeln!(f, "no flow finished in either");
        }
        write!(f, "{} matched", counted(*matched, "flow"))?;
        if missing_here + missing_there > 0 {
            write!(f, "; {missing_here} finished only in {reference}")?;
            write!(f, ", {missing_there} only in rocesim")?;
        }
        writeln!(f)?;
        if self.different_size > 0 {
            let flows = counted(self.different_size, "flow");
            writeln!(f, "warning: {flows} of another size: the inputs differ")?;
        }
        if let Some(summary) = &self.summary {
            writeln!(f)?;
            write_summary(f, reference, summary)?;
        }
        if !self.bins.is_empty() {
            writeln!(f)?;
            write_bins(f, reference, &self.bins)?;
        }
        Ok(())
    }
}

/// How a value is written.
type Text<'a> = &'a dyn Fn(f64) -> String;

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn head(f: &mut fmt::Formatter<'_>, title: &str, reference: &str) -> fmt::Result {
    writeln!(f, "{title:<28}{:>14}  {reference:>14}  {:>11}", "rocesim", "error")
}

/// One row, with the error of its values.
fn line(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    text: Text<'_>,
    value: Pair,
    remark: &str,
) -> fmt::Result {
    let error = match value.there == 0.0 && value.here != 0.0 {
        true => format!("+{}", text(value.here)),
        false => signed(value.error(), 3),
    };
    let (here, there) = (text(value.here), text(value.there));
    let row = format!("{name:<28}{here:>14}  {there:>14}  {error:>11}  {remark}");
    writeln!(f, "{}", row.trim_end())
}

/// A row with nothing but an error that has no sign.
fn error_line(f: &mut fmt::Formatter<'_>, name: &str, error: Option<f64>) -> fmt::Result {
    let error = error.map_or("-".to_owned(), |error| format!("{:.3} %", error * 100.0));
    writeln!(f, "{name:<28}{:>14}  {:>14}  {error:>11}", "", "")
}

fn write_summary(f: &mut fmt::Formatter<'_>, reference: &str, summary: &Summary) -> fmt::Result {
    head(f, "", reference)?;
    let time = time(summary.max_fct_s);
    line(f, "mean FCT", &time, summary.mean_fct_s, "")?;
    line(f, "last FCT", &time, summary.max_fct_s, "")?;
    if summary.mean_slowdown.there > 0.0 {
        line(f, "mean slowdown", &|value| format!("{value:.3}"), summary.mean_slowdown, "")?;
    }
    error_line(f, "  mean |error| of flows", Some(summary.mean_abs_error))?;
    let worst = &summary.worst;
    let flow = format!("{} -> {}, port {}", worst.source, worst.target, worst.source_port);
    line(f, "  furthest off", &time, worst.fct_s, &flow)
}

fn write_bins(f: &mut fmt::Formatter<'_>, reference: &str, bins: &[SizeBin]) -> fmt::Result {
    head(f, "slowdown by size", reference)?;
    for bin in bins {
        let SizeBin { label, flows, here, there } = bin;
        let rows = [
            ("p50", here.p50, there.p50),
            ("p95", here.p95, there.p95),
            ("p99", here.p99, there.p99),
        ];
        for (row, (name, here, there)) in rows.into_iter().enumerate() {
            let name = match row {
                0 => format!("{:<24}{name}", format!("{label}, {}", counted(*flows, "flow"))),
                _ => format!("{:<24}{name}", ""),
            };
            line(f, &name, &|value| format!("{value:.3}"), Pair { here, there }, "")?;
        }
    }
    Ok(())
}

fn write_measure(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    place: &str,
    text: Text<'_>,
    measure: &Measure,
) -> fmt::Result {
    let name = match measure.items.len() {
        0 => name.to_owned(),
        places => format!("{name}, {}", counted(places, place)),
    };
    line(f, &name, text, measure.sum, "")?;
    write_places(f, place, text, measure)
}

/// The error of single places, unless there is none.
fn write_places(
    f: &mut fmt::Formatter<'_>,
    place: &str,
    text: Text<'_>,
    measure: &Measure,
) -> fmt::Result {
    let Some(worst) = measure.worst.as_ref().filter(|worst| differs(worst.value)) else {
        return Ok(());
    };
    error_line(f, &format!("  mean |error| of {place}s"), measure.mean_abs_error)?;
    line(f, "  furthest off", text, worst.value, &worst.name)
}

/// By more than what sums of floats are off.
fn differs(value: Pair) -> bool {
    value.gap() > 1e-9 * value.here.abs().max(value.there.abs())
}

fn write_series(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    place: &str,
    text: Text<'_>,
    series: &SeriesComparison,
) -> fmt::Result {
    let SeriesComparison { instants, interval_s, means, maxima, mean_abs_error, worst } = series;
    let every = time(Pair { here: *interval_s, there: 0.0 })(*interval_s);
    if means.items.is_empty() {
        return writeln!(f, "\n{name} over time: 0 in both, {instants} samples {every} apart");
    }
    let places = counted(means.items.len(), place);
    writeln!(f, "\n{name} over time: average of {places}, {instants} samples {every} apart")?;
    let of_places = |measure: &Measure| {
        let count = measure.items.len().max(1) as f64;
        Pair { here: measure.sum.here / count, there: measure.sum.there / count }
    };
    for (kind, measure) in [("mean", means), ("max", maxima)] {
        line(f, kind, text, of_places(measure), "")?;
        write_places(f, place, text, measure)?;
    }
    error_line(f, "mean |error| of samples", *mean_abs_error)?;
    match worst {
        Some(worst) if differs(worst.value) => {
            let at = time(Pair { here: worst.time_s, there: 0.0 })(worst.time_s);
            line(f, "  furthest off", text, worst.value, &format!("{} at {at}", worst.name))
        }
        _ => Ok(()),
    }
}

/// Times in the unit in which the greatest of them is readable.
fn time(greatest: Pair) -> impl Fn(f64) -> String {
    let (size, unit) = match greatest.here.max(greatest.there) {
        seconds if seconds >= 1.0 => (1.0, "s"),
        seconds if seconds >= 10e-3 => (1e-3, "ms"),
        _ => (1e-6, "us"),
    };
    move |seconds| format!("{:.3} {unit}", seconds / size)
}

/// Digits in groups of three; a decimal only where there is one, as in means over seeds.
fn count(value: f64) -> String {
    let value = (value * 10.0).round() / 10.0;
    let whole = format!("{:.0}", value.trunc());
    let mut text = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    match value.fract() {
        0.0 => text,
        fraction => format!("{text}{}", &format!("{fraction:.1}")[1..]),
    }
}

fn bytes(value: f64) -> String {
    format!("{:.3} KB", value / 1e3)
}

fn rate(value: f64) -> String {
    format!("{:.3} Gbps", value / 1e9)
}

/// `+0.12 %`; no sign where the digits shown are all 0.
pub(crate) fn signed(error: f64, digits: usize) -> String {
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
    use crate::compare::flows::tests::{example, report};

    #[test]
    fn table() {
        let expected = "\
3 flows matched; 2 finished only in ns-3, 1 only in rocesim

                                   rocesim            ns-3        error
mean FCT                          4.000 us        4.000 us      0.000 %
last FCT                          6.000 us        6.000 us      0.000 %
mean slowdown                        2.367           2.333     +1.429 %
  mean |error| of flows                                         5.000 %
  furthest off                    2.200 us        2.000 us    +10.000 %  n0 -> n8, port 10000

slowdown by size                   rocesim            ns-3        error
0-1 KB, 1 flow          p50          2.200           2.000    +10.000 %
                        p95          2.200           2.000    +10.000 %
                        p99          2.200           2.000    +10.000 %
1-10 KB, 2 flows        p50          1.900           2.000     -5.000 %
                        p95          3.000           3.000      0.000 %
                        p99          3.000           3.000      0.000 %
";
        assert_eq!(example().to_string(), expected);
    }

    #[test]
    fn nothing_matched() {
        let text = compare_flows(&report(vec![]), &[]).to_string();
        assert_eq!(text, "no flow finished in either\n");
    }

    #[test]
    fn counts() {
        assert_eq!(count(0.0), "0");
        assert_eq!(count(32384.0), "32 384");
        assert_eq!(count(879_056.5), "879 056.5");
        assert_eq!(count(100.0), "100");
        assert_eq!(count(999.96), "1 000");
    }

    #[test]
    fn signs() {
        assert_eq!(signed(0.00004, 2), "0.00 %");
        assert_eq!(signed(-0.00004, 2), "0.00 %");
        assert_eq!(signed(-0.0123, 2), "-1.23 %");
        assert_eq!(signed(f64::INFINITY, 2), "+inf %");
    }
}
