//! A folder of an ns-3 run.

use std::path::Path;

use super::fct::{self, FCT_FILES};
use super::text::{find, line_error, read_text};
use super::{Ns3Flow, pfc, series, stats};
use crate::error::ReadError;
use crate::run::{Flow, Run, Writer};

/// Files of which a folder must have one to be taken for a run of ns-3.
const EXPECTED: &str =
    "report.json, seeds.json, fct.csv, fct.txt, stats.txt, pfc.txt, queue.csv or rate.csv";

/// Reads what there is of `fct.csv` (or `fct.txt`), `flow.txt`, `config.txt`, `stats.txt`,
/// `pfc_summary.csv`, `pfc.txt`, `queue.csv` and `rate.csv`, each perhaps as `.gz`.
pub(super) fn read_folder(folder: &Path) -> Result<Run, ReadError> {
    let mut run = Run::empty(Writer::Ns3);
    let mut found = false;
    // gives the named file, if it is there, to `take`
    let with = |names: &[&str], take: &mut dyn FnMut(&Path, &str) -> Result<(), ReadError>| {
        let Some(path) = find(folder, names) else { return Ok(false) };
        take(&path, &read_text(&path)?)?;
        Ok::<bool, ReadError>(true)
    };
    let mut monitors = Monitors::default();
    with(&["config.txt"], &mut |path, text| {
        monitors = Monitors::parse(path, text)?;
        Ok(())
    })?;
    with(&["flow.txt"], &mut |path, text| {
        run.first_start_s = first_start(path, text)?;
        Ok(())
    })?;
    found |= with(&FCT_FILES, &mut |path, text| {
        run.flows = Some(flows(&fct::parse(path, text)?));
        Ok(())
    })?;
    let mut end_ns = None;
    found |= with(&["stats.txt"], &mut |path, text| {
        let stats = stats::parse(path, text)?;
        (run.totals, end_ns) = (stats.totals, stats.end_ns);
        Ok(())
    })?;
    found |= with(&["pfc.txt"], &mut |path, text| {
        let pfc = pfc::parse_frames(path, text, end_ns)?;
        run.totals.pfc_frames.get_or_insert(pfc.frames as f64);
        run.ports = Some(pfc.ports);
        Ok(())
    })?;
    found |= with(&["pfc_summary.csv"], &mut |path, text| {
        run.ports = Some(pfc::parse_summary(path, text)?);
        Ok(())
    })?;
    if run.totals.pfc_frames == Some(0.0) {
        run.ports.get_or_insert_default();
    }
    let monitor_end_ns = [end_ns, monitors.end_ns].into_iter().flatten().min();
    found |= with(&["queue.csv"], &mut |path, text| {
        let queues = series::parse_queues(path, text, monitors.queue_ns, monitor_end_ns)?;
        run.queues = Some(queues);
        Ok(())
    })?;
    found |= with(&["rate.csv"], &mut |path, text| {
        run.rates = Some(series::parse_rates(path, text, monitors.rate_ns)?);
        Ok(())
    })?;
    match found {
        true => Ok(run),
        false => Err(ReadError::Missing { folder: folder.to_owned(), expected: EXPECTED }),
    }
}

/// A bare file of flow completion times.
pub(super) fn read_fct_file(path: &Path, text: &str) -> Result<Run, ReadError> {
    let writer = if fct::is_native(text) { Writer::Ns3 } else { Writer::Unknown };
    let flows = flows(&fct::parse(path, text)?);
    Ok(Run { flows: Some(flows), ..Run::empty(writer) })
}

/// Flows that finished, their nodes named `n7`.
pub(crate) fn flows(finished: &[Ns3Flow]) -> Vec<Flow> {
    let flow = |flow: &Ns3Flow| Flow {
        source: format!("n{}", flow.source),
        target: format!("n{}", flow.target),
        source_port: flow.source_port,
        bytes: Some(flow.bytes),
        start_s: flow.start_ns as f64 / 1e9,
        fct_s: Some(flow.fct_ns as f64 / 1e9),
        standalone_s: Some(flow.standalone_ns as f64 / 1e9),
    };
    finished.iter().map(flow).collect()
}

/// Lines with something on them, their number and words; a word with `#` begins a comment.
fn words(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    let lines = text.lines().enumerate();
    let words = lines.map(|(index, line)| {
        let words = line.split_whitespace();
        (index, words.take_while(|word| !word.starts_with('#')).collect::<Vec<_>>())
    });
    words.filter(|(_, words)| !words.is_empty())
}

/// When the first flow of `flow.txt` starts: the last column, in seconds. The first line says how
/// many flows there are, what follows these is not read.
fn first_start(path: &Path, text: &str) -> Result<Option<f64>, ReadError> {
    let mut first: Option<f64> = None;
    let mut lines = words(text);
    let announced = lines.next().and_then(|(_, fields)| fields.first()?.parse().ok());
    for (index, fields) in lines.take(announced.unwrap_or(usize::MAX)) {
        let Some(last) = fields.last() else { continue };
        let start = last.parse().ok().filter(|start: &f64| start.is_finite());
        let start = start.ok_or_else(|| {
            let message =
                format!("column {}: start is `{last}`: seconds were expected", fields.len());
            line_error(path, index as u64 + 1, message)
        })?;
        first = Some(first.map_or(start, |first| first.min(start)));
    }
    Ok(first)
}

/// What `config.txt` says of samples.
#[derive(Debug, Default, PartialEq)]
struct Monitors {
    queue_ns: Option<u64>,
    rate_ns: Option<u64>,
    end_ns: Option<u64>,
}

impl Monitors {
    fn parse(path: &Path, text: &str) -> Result<Self, ReadError> {
        let mut monitors = Monitors::default();
        for (index, line) in text.lines().enumerate() {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (place, column) = match fields.as_slice() {
                ["QSER", _, ..] => (&mut monitors.queue_ns, 2),
                ["RATESER", _, ..] => (&mut monitors.rate_ns, 2),
                ["MON_END", ..] => (&mut monitors.end_ns, 1),
                _ => continue,
            };
            let value = fields.get(column).copied().unwrap_or_default();
            let number = value.parse().map_err(|_| {
                let message = format!(
                    "column {}: {} is `{value}`: whole nanoseconds were expected",
                    column + 1,
                    fields[0]
                );
                line_error(path, index as u64 + 1, message)
            })?;
            *place = Some(number);
        }
        Ok(monitors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monitors() {
        let text = "QSER queue.csv 5000\nRATESER rate.csv 1000\nMON_END 2020000000\nX 1\n";
        let expected =
            Monitors { queue_ns: Some(5000), rate_ns: Some(1000), end_ns: Some(2_020_000_000) };
        assert_eq!(Monitors::parse(Path::new("c"), text).unwrap(), expected);
        let error = Monitors::parse(Path::new("c"), "\nQSER q 5us").unwrap_err().to_string();
        assert_eq!(error, "c, line 2: column 3: QSER is `5us`: whole nanoseconds were expected");
    }

    #[test]
    fn starts() {
        let text = "2\n0 8 3 100 1000 2.5\n1 8 3 100 1000 2.25\n";
        assert_eq!(first_start(Path::new("f"), text).unwrap(), Some(2.25));
        assert_eq!(first_start(Path::new("f"), "0\n").unwrap(), None);
        let text = "# flows\n\n1\n0 8 3 100 1000 2.5 # one\n1 8 3 100 1000 2.25\n";
        assert_eq!(first_start(Path::new("f"), text).unwrap(), Some(2.5));
        let error = first_start(Path::new("f"), "1\n0 8 x\n").unwrap_err().to_string();
        assert_eq!(error, "f, line 2: column 3: start is `x`: seconds were expected");
    }

    #[test]
    fn a_folder_of_each_kind() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).unwrap();
        };
        let error = read_folder(folder.path()).unwrap_err().to_string();
        assert!(error.ends_with(&format!("has no {EXPECTED}")), "{error}");
        write("pfc.txt", "100 3 0 1 1\n300 3 0 1 0\n");
        let run = read_folder(folder.path()).unwrap();
        assert_eq!(run.totals.pfc_frames, Some(2.0));
        assert_eq!(run.ports.unwrap().len(), 1);
        // the summary comes first
        write("pfc_summary.csv", "node,port,pause_rx,paused_ns\n3,1,7,9\n4,1,7,9\n");
        write("stats.txt", "STATS end_ns=20000 pfc_sent=5\n");
        write("queue.csv", "5000,9,1,100,0,0,0,0,0\n");
        write("config.txt", "QSER queue.csv 5000\n");
        let run = read_folder(folder.path()).unwrap();
        assert_eq!(run.totals.pfc_frames, Some(5.0));
        assert_eq!(run.ports.unwrap().len(), 2);
        assert_eq!(run.queues.unwrap().instants_s, [5e-6, 10e-6, 15e-6]);
        assert_eq!(run.flows, None);
    }
}
