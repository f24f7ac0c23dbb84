//! `queue.csv` and `rate.csv` of ns-3, `series/*.csv` of rocesim.

use std::collections::BTreeMap;
use std::path::Path;

use super::pfc::port_name;
use super::text::{Layout, Row, read_text, rows};
use crate::error::ReadError;
use crate::run::{Flow, Series};

/// Columns of `queue.csv`, which has no header.
const QUEUE: [&str; 9] = [
    "time_ns",
    "switch",
    "port",
    "egress_bytes",
    "ingress_bytes",
    "headroom_bytes",
    "paused_sent",
    "switch_shared_used",
    "pfc_threshold",
];

/// Columns of `rate.csv`, which has no header.
const RATE: [&str; 9] = [
    "time_ns",
    "host",
    "sport",
    "rate_bps",
    "target_bps",
    "alpha",
    "increase_stage",
    "snd_nxt",
    "snd_una",
];

/// `queue.csv`: ports of which everything is 0 have no row. So the instants are the multiples of
/// the interval from the first row on, to the last one, or to before `end_ns` if that is known.
pub(super) fn parse_queues(
    path: &Path,
    text: &str,
    interval_ns: Option<u64>,
    end_ns: Option<u64>,
) -> Result<Series, ReadError> {
    let port = |row: &Row<'_>| Ok(port_name(row.whole(1)?, row.whole(2)?));
    let (mut series, times, interval_ns) = parse(path, text, &QUEUE, interval_ns, port)?;
    if let (Some(first), Some(last)) = (times.first(), times.last())
        && interval_ns > 0
    {
        let last = end_ns.map_or(*last, |end| end.saturating_sub(1)).max(*last);
        // as many as the rows could be at most, should the interval be too small to be true
        let instants = (*first..=last).step_by(interval_ns as usize).take(10_000_000);
        series.instants_s = instants.map(|ns| ns as f64 / 1e9).collect();
    }
    Ok(series)
}

/// `rate.csv`: one row for each QP that is alive.
pub(super) fn parse_rates(
    path: &Path,
    text: &str,
    interval_ns: Option<u64>,
) -> Result<Series, ReadError> {
    let sender = |row: &Row<'_>| {
        let (host, port): (u32, u16) = (row.whole(1)?, row.whole(2)?);
        Ok(sender_name(&format!("n{host}"), port))
    };
    Ok(parse(path, text, &RATE, interval_ns, sender)?.0)
}

/// A file of ns-3: time in the first column, value in the fourth, `place` in between. Also returns
/// the times and the interval in ns, which is that of the times if it is not known.
fn parse(
    path: &Path,
    text: &str,
    columns: &'static [&'static str],
    interval_ns: Option<u64>,
    place: impl Fn(&Row<'_>) -> Result<String, ReadError>,
) -> Result<(Series, Vec<u64>, u64), ReadError> {
    let mut places = BTreeMap::<String, Vec<(f64, f64)>>::new();
    let mut times = Vec::new();
    rows(path, text, Layout::Bare, columns, |row| {
        let time: u64 = row.whole(0)?;
        times.push(time);
        places.entry(place(row)?).or_default().push((time as f64 / 1e9, row.number(3)?));
        Ok(())
    })?;
    times.sort_unstable();
    times.dedup();
    let interval_ns = interval_ns.filter(|ns| *ns > 0).unwrap_or_else(|| common_step(&times));
    let mut series = Series { interval_s: interval_ns as f64 / 1e9, places, ..Series::default() };
    series.sort();
    Ok((series, times, interval_ns))
}

/// A QP as ns-3's `rate.csv` names it.
pub(crate) fn sender_name(host: &str, source_port: u16) -> String {
    format!("{host}, port {source_port}")
}

/// `series/ports.csv` of a run directory.
pub(super) fn read_port_series(path: &Path) -> Result<Series, ReadError> {
    let mut places = BTreeMap::<String, Vec<(f64, f64)>>::new();
    rows(path, &read_text(path)?, Layout::Header, &["time_s", "port", "queue_bytes"], |row| {
        let sample = (row.number(0)?, row.number(2)?);
        let name = row.text(1);
        match places.get_mut(name) {
            Some(samples) => samples.push(sample),
            None => {
                places.insert(name.to_owned(), vec![sample]);
            }
        }
        Ok(())
    })?;
    Ok(regular(places))
}

/// `series/flows.csv` of a run directory, whose flows are numbered as in its report.
pub(super) fn read_flow_series(
    path: &Path,
    flows: &[Flow],
    labels: &[String],
) -> Result<Series, ReadError> {
    let mut by_flow = BTreeMap::<usize, Vec<(f64, f64)>>::new();
    rows(path, &read_text(path)?, Layout::Header, &["time_s", "flow", "rate_bps"], |row| {
        let flow: usize = row.whole(1)?;
        if flow >= flows.len() {
            let expected = format!("the number of one of the {} flows of the report", flows.len());
            return Err(row.error(1, &expected));
        }
        by_flow.entry(flow).or_default().push((row.number(0)?, row.number(2)?));
        Ok(())
    })?;
    let named = by_flow.into_iter().map(|(flow, samples)| (labels[flow].clone(), samples));
    Ok(regular(named.collect()))
}

/// Places that are all sampled at the same instants.
fn regular(places: BTreeMap<String, Vec<(f64, f64)>>) -> Series {
    let mut series = Series { places, ..Series::default() };
    series.sort();
    if let Some(samples) = series.places.values().next() {
        series.instants_s = samples.iter().map(|sample| sample.0).collect();
    }
    if let [first, second, ..] = series.instants_s.as_slice() {
        series.interval_s = second - first;
    }
    series
}

impl Series {
    fn sort(&mut self) {
        for samples in self.places.values_mut() {
            samples.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
    }
}

/// The greatest step of which all differences are multiples; 0 for fewer than two times.
fn common_step(times: &[u64]) -> u64 {
    let divisor = |mut a: u64, mut b: u64| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    times.windows(2).fold(0, |step, pair| divisor(step, pair[1] - pair[0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues() {
        // samples each 5 us; nothing at 20 us
        let text = "10000,9,1,100,0,0,0,0,0\n15000,9,1,50,0,0,0,0,0\n15000,9,2,7,0,0,0,0,0\n\
                    25000,9,1,3,0,0,0,0,0\n";
        let found = parse_queues(Path::new("q"), text, None, None).unwrap();
        assert_eq!(found.interval_s, 5e-6);
        assert_eq!(found.instants_s, [10e-6, 15e-6, 20e-6, 25e-6]);
        assert_eq!(found.places["n9:0"], [(10e-6, 100.0), (15e-6, 50.0), (25e-6, 3.0)]);
        assert_eq!(found.places["n9:1"], [(15e-6, 7.0)]);
        let longer = parse_queues(Path::new("q"), text, Some(5000), Some(37_000)).unwrap();
        assert_eq!(longer.instants_s.last(), Some(&35e-6));
        let none = parse_queues(Path::new("q"), "", None, None).unwrap();
        assert_eq!(none, Series::default());
        let error = parse_queues(Path::new("q"), "1,9,1,x,0,0,0,0,0", None, None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "q, line 1: column 4: egress_bytes is `x`: a number from 0 on was expected"
        );
    }

    #[test]
    fn rates() {
        let text = "5000,0,10000,1e9,2,1.0,0,0,0\n10000,0,10000,500,2,1.0,0,0,0\n";
        let found = parse_rates(Path::new("r"), text, None).unwrap();
        assert_eq!(found.interval_s, 5e-6);
        assert_eq!(found.places["n0, port 10000"], [(5e-6, 1e9), (10e-6, 500.0)]);
        assert!(found.instants_s.is_empty());
        let error = parse_rates(Path::new("r"), "5000,0,10000\n", None).unwrap_err().to_string();
        assert!(error.starts_with("r, line 1: 3 columns, but 9 were expected"), "{error}");
    }
}
