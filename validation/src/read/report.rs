//! Run directories of rocesim: `report.json` or `seeds.json`, and `series/`.

use std::collections::BTreeMap;
use std::path::Path;

use models::report::{FlowReport, Report, SCHEMA};
use serde::Deserialize;

use super::series::{read_flow_series, read_port_series};
use super::text::{find, line_error, read_text};
use crate::error::ReadError;
use crate::run::{Collective, Flow, Port, Run, Totals, Writer};

/// Reads `report.json`, or that file in a run directory.
pub fn read_report(path: &Path) -> Result<Report, ReadError> {
    let mut file = path.to_owned();
    if path.is_dir() {
        file.push("report.json");
        if !file.exists() {
            return Err(ReadError::Missing { folder: path.to_owned(), expected: "report.json" });
        }
    }
    parse_report(&file, &read_text(&file)?)
}

/// The report that this text is.
pub(super) fn parse_report(file: &Path, text: &str) -> Result<Report, ReadError> {
    checked(file, from_json(file, text)?)
}

/// A report with the series beside it, or the means over the reports of several seeds.
pub(super) fn parse(file: &Path, text: &str) -> Result<Run, ReadError> {
    /// What `run --seeds` writes.
    #[derive(Deserialize)]
    struct Seeds {
        seeds: Vec<Report>,
    }
    // the reports themselves say what is wrong with them, so this asks for a key only
    #[derive(Deserialize)]
    struct Probe {
        seeds: Option<serde::de::IgnoredAny>,
    }
    if serde_json::from_str::<Probe>(text).is_ok_and(|probe| probe.seeds.is_some()) {
        let Seeds { seeds } = from_json(file, text)?;
        let runs = seeds.into_iter().map(|report| Ok(of_report(&checked(file, report)?)));
        let runs = runs.collect::<Result<Vec<Run>, ReadError>>()?;
        return mean(&runs)
            .ok_or_else(|| line_error(file, 1, "at least one seed was expected".to_owned()));
    }
    let report = parse_report(file, text)?;
    let mut run = of_report(&report);
    let folder = file.parent().unwrap_or(Path::new("")).join("series");
    if let Some(path) = find(&folder, &["ports.csv"]) {
        run.queues = Some(read_port_series(&path)?);
    }
    if let Some(path) = find(&folder, &["flows.csv"]) {
        let flows = run.flows.as_deref().unwrap_or_default();
        run.rates = Some(read_flow_series(&path, flows, &labels(flows))?);
    }
    Ok(run)
}

fn from_json<T: for<'a> Deserialize<'a>>(file: &Path, text: &str) -> Result<T, ReadError> {
    serde_json::from_str(text).map_err(|error| {
        let message = format!("a report of rocesim was expected: {error}");
        line_error(file, error.line() as u64, message)
    })
}

fn checked(file: &Path, report: Report) -> Result<Report, ReadError> {
    match report.schema == SCHEMA {
        true => Ok(report),
        false => {
            Err(ReadError::Schema { path: file.to_owned(), found: report.schema, expected: SCHEMA })
        }
    }
}

/// A report in the terms of comparisons.
pub(crate) fn of_report(report: &Report) -> Run {
    let flow = |flow: &FlowReport| Flow {
        source: flow.source.to_string(),
        target: flow.target.to_string(),
        source_port: flow.source_port,
        bytes: flow.bytes,
        start_s: flow.start_s.unwrap_or(f64::INFINITY),
        fct_s: flow.acked_s,
        standalone_s: flow.ideal_fct_s,
    };
    let flows: Vec<Flow> = report.flows.iter().map(flow).collect();
    let collectives = report.collectives.iter().map(|collective| Collective {
        name: collective.name.clone(),
        bytes: collective.bytes,
        time_s: collective.time_s,
    });
    let ports = report.ports.iter().map(|port| Port {
        name: port.port.to_string(),
        pauses: port.rx_pause_frames as f64,
        paused_s: port.paused_s,
    });
    Run {
        first_start_s: flows.iter().map(|flow| flow.start_s).min_by(f64::total_cmp),
        flows: Some(flows),
        collectives: collectives.collect(),
        totals: totals(report),
        ports: Some(ports.collect()),
        ..Run::empty(Writer::Rocesim)
    }
}

fn totals(report: &Report) -> Totals {
    let totals = &report.totals;
    // the ports of a host show the same counters
    let nodes: BTreeMap<&str, &str> =
        report.ports.iter().map(|port| (port.port.as_str(), port.node.as_str())).collect();
    let naks = report.nics.iter().map(|nic| {
        let node = nodes.get(nic.port.as_str()).copied().unwrap_or(&nic.port);
        (node, nic.counters.get("packet_seq_err").copied().unwrap_or(0))
    });
    let naks: BTreeMap<&str, u64> = naks.collect();
    Totals {
        packet_hops: Some(report.packet_hops as f64),
        ce_marks: Some(totals.ecn_marked_packets as f64),
        cnps: Some(totals.cnp_handled as f64),
        pfc_frames: Some((totals.pfc_xoff_frames + totals.pfc_xon_frames) as f64),
        drops: Some(totals.drops.values().sum::<u64>() as f64),
        naks: Some(naks.values().sum::<u64>() as f64),
    }
}

/// A name for each flow; where several would have the same, the later ones are numbered.
pub(crate) fn labels(flows: &[Flow]) -> Vec<String> {
    let mut seen = BTreeMap::<(&str, &str, u16), u32>::new();
    let label = |flow: &Flow| {
        let Flow { source, target, source_port, .. } = flow;
        format!("{source} -> {target}, port {source_port}")
    };
    let named = flows.iter().map(|flow| {
        let count = seen.entry((&flow.source, &flow.target, flow.source_port)).or_default();
        *count += 1;
        match *count {
            1 => label(flow),
            count => format!("{} ({count})", label(flow)),
        }
    });
    named.collect()
}

/// Means over runs of the same scenario; none of no run. Flows that are not the same in all of
/// them are left out.
fn mean(runs: &[Run]) -> Option<Run> {
    let count = runs.len() as f64;
    let mut mean = runs.first()?.clone();
    let mut notes = vec![format!("means over {} seeds", runs.len())];
    let average = |of: &dyn Fn(&Run) -> Option<f64>| -> Option<f64> {
        runs.iter().map(of).sum::<Option<f64>>().map(|sum| sum / count)
    };
    mean.totals = Totals {
        packet_hops: average(&|run| run.totals.packet_hops),
        ce_marks: average(&|run| run.totals.ce_marks),
        cnps: average(&|run| run.totals.cnps),
        pfc_frames: average(&|run| run.totals.pfc_frames),
        drops: average(&|run| run.totals.drops),
        naks: average(&|run| run.totals.naks),
    };
    for (index, port) in mean.ports.iter_mut().flatten().enumerate() {
        let of = |run: &Run| run.ports.as_ref()?.get(index).cloned();
        port.pauses = average(&|run| Some(of(run)?.pauses)).unwrap_or(0.0);
        port.paused_s = average(&|run| Some(of(run)?.paused_s)).unwrap_or(0.0);
    }
    for (index, collective) in mean.collectives.iter_mut().enumerate() {
        collective.time_s = average(&|run| run.collectives.get(index)?.time_s);
    }
    let same = |run: &Run| run.flows.as_deref().map(labels);
    let sizes = |run: &Run| -> Vec<Option<u64>> {
        run.flows.iter().flatten().map(|flow| flow.bytes).collect()
    };
    if runs.iter().all(|run| same(run) == same(&mean) && sizes(run) == sizes(&mean)) {
        for (index, flow) in mean.flows.iter_mut().flatten().enumerate() {
            flow.fct_s = average(&|run| run.flows.as_ref()?.get(index)?.fct_s);
        }
    } else {
        mean.flows = None;
        notes.push("the seeds differ in their flows, which are not compared".to_owned());
    }
    mean.notes = notes;
    Some(mean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::flows::tests::{flow, report};

    #[test]
    fn file_and_folder() {
        let folder = tempfile::tempdir().unwrap();
        let error = read_report(folder.path()).unwrap_err().to_string();
        assert!(error.ends_with("has no report.json"), "{error}");
        let file = folder.path().join("report.json");
        let written = report(vec![flow("n0", "n1", 10000, 1000, Some(2e-6))]);
        std::fs::write(&file, serde_json::to_string(&written).unwrap()).unwrap();
        assert_eq!(read_report(&file).unwrap(), written);
        assert_eq!(read_report(folder.path()).unwrap(), written);
    }

    #[test]
    fn what_is_no_report() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("other.json");
        let error = read_report(&file).unwrap_err().to_string();
        assert!(error.contains("cannot read") && error.contains("other.json"), "{error}");
        std::fs::write(&file, "{\n  \"flows\": 3\n}").unwrap();
        let error = read_report(&file).unwrap_err().to_string();
        assert!(error.contains("other.json, line 2: a report of rocesim was expected"), "{error}");
        let mut newer = report(vec![]);
        newer.schema = 99;
        std::fs::write(&file, serde_json::to_string(&newer).unwrap()).unwrap();
        let error = read_report(&file).unwrap_err().to_string();
        assert!(error.contains("has schema 99"), "{error}");
    }

    #[test]
    fn means_over_seeds() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("seeds.json");
        let mut first = report(vec![flow("n0", "n1", 10000, 1000, Some(2e-6))]);
        let mut second = report(vec![flow("n0", "n1", 10000, 1000, Some(4e-6))]);
        (first.packet_hops, second.packet_hops) = (10, 11);
        let write = |reports: &[Report]| {
            std::fs::write(&file, serde_json::json!({ "seeds": reports }).to_string()).unwrap();
            crate::read_run(folder.path())
        };
        let run = write(&[first.clone(), second.clone()]).unwrap();
        assert_eq!(run.totals.packet_hops, Some(10.5));
        assert!((run.flows.unwrap()[0].fct_s.unwrap() - 3e-6).abs() < 1e-15);
        assert_eq!(run.notes, ["means over 2 seeds"]);
        second.flows[0].bytes = Some(7);
        let run = write(&[first, second]).unwrap();
        assert_eq!((run.flows, run.notes.len()), (None, 2));
        let error = write(&[]).unwrap_err().to_string();
        assert!(error.ends_with("at least one seed was expected"), "{error}");
    }

    #[test]
    fn series_of_a_run_directory() {
        let folder = tempfile::tempdir().unwrap();
        let written = report(vec![flow("n0", "n1", 10000, 1000, Some(2e-6))]);
        let json = serde_json::to_string(&written).unwrap();
        std::fs::write(folder.path().join("report.json"), json).unwrap();
        let series = folder.path().join("series");
        std::fs::create_dir(&series).unwrap();
        std::fs::write(
            series.join("ports.csv"),
            "time_s,port,queue_bytes,tx_bps,paused_share\n0,n9:0,0,0,0\n0.000005,n9:0,7,0,0\n",
        )
        .unwrap();
        let columns = "time_s,flow,rate_bps,target_rate_bps,alpha,goodput_bps\n";
        std::fs::write(series.join("flows.csv"), format!("{columns}0,0,5,5,1,0\n")).unwrap();
        let run = crate::read_run(folder.path()).unwrap();
        let queues = run.queues.unwrap();
        assert_eq!((queues.interval_s, queues.instants_s.len()), (5e-6, 2));
        assert_eq!(queues.places["n9:0"], [(0.0, 0.0), (5e-6, 7.0)]);
        assert_eq!(run.rates.unwrap().places["n0 -> n1, port 10000"], [(0.0, 5.0)]);
        std::fs::write(series.join("flows.csv"), format!("{columns}0,1,5,5,1,0\n")).unwrap();
        let error = crate::read_run(folder.path()).unwrap_err().to_string();
        let expected = "line 2: column 2: flow is `1`: the number of one of the 1 flows of the \
                        report was expected";
        assert!(error.ends_with(expected), "{error}");
    }
}
