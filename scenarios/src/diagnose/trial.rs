//! Tries the remedies that findings propose, by simulating them, and ranks findings by what their
//! remedies bring. A remedy that does not help is not offered.

use std::collections::BTreeSet;

use models::fabric::{self, Running, Spec};
use models::report::{Finding, OutcomeKind, Severity};
use sim_core::Bytes;

use crate::resolve::{Complaint, Loaded};
use crate::simulate::{self, Finished, Verdict};
use crate::text;

/// Remedies that are tried at most, and the share of a run's cost that they may take.
const TRIALS_MAX: usize = 8;
const SHARE_MAX: f64 = 0.4;
/// Runs of so few packet-hops are tried whatever their share.
const CHEAP: f64 = 5e6;
/// A remedy that brings less than this is not offered.
const GAIN_MIN: f64 = 1.02;

/// A remedy to be tried for a finding.
struct Candidate {
    finding: usize,
    set: Vec<String>,
    /// Instead of the finding's own words.
    words: Option<String>,
}

/// How a remedy is measured: at which run of the sweep, and with how much less data.
#[derive(Clone, Copy, Debug)]
struct Scale {
    run: usize,
    divisor: u64,
}

/// Tries the remedies of `finished`; `hops` is the cost of each run of the sweep.
pub fn try_remedies(
    loaded: &Loaded,
    finished: &mut Finished,
    hops: &[f64],
    owner: &(dyn Fn(&Running) -> Verdict + Sync),
) -> Result<(), Complaint> {
    let report = &finished.report;
    let per_run = (report.collectives.len() / loaded.sweep.runs()).max(1);
    let first_of_last = report.collectives.len().checked_sub(per_run);
    let measured = first_of_last.and_then(|index| report.collectives[index].busbw_gbytes_per_s);
    let candidates = candidates(loaded, finished);
    let Some(measured) = measured
        .filter(|_| report.outcome == OutcomeKind::Completed && loaded.sweep.has_collectives())
    else {
        return Ok(());
    };
    if candidates.is_empty() {
        return Ok(());
    }
    let scale = scale(hops, candidates.len());
    let baseline = match scale.divisor {
        1 => report.collectives[scale.run * per_run].busbw_gbytes_per_s,
        _ => measure(loaded, scale, owner)?.map(|trial| trial.busbw),
    };
    let Some(baseline) = baseline else { return Ok(()) };
    let mut cost = 0.0;
    let mut best: Vec<Option<(f64, usize, Bytes)>> = vec![None; report.findings.len()];
    for (index, candidate) in candidates.iter().enumerate() {
        // a remedy that cannot be set here is none
        let Ok(changed) = loaded.with(&candidate.set) else { continue };
        let Some(trial) = measure(&changed, scale, owner)? else { continue };
        let Trial { busbw, bytes, cpu_time_s } = trial;
        cost += cpu_time_s;
        let slot = &mut best[candidate.finding];
        if slot.is_none_or(|(most, ..)| busbw > most * 1.01) {
            *slot = Some((busbw, index, bytes));
        }
    }
    finished.report.performance.remedies_cpu_time_s = cost;
    let tried: BTreeSet<usize> = candidates.iter().map(|candidate| candidate.finding).collect();
    for number in tried {
        let finding = &mut finished.report.findings[number];
        let helps = best[number].filter(|(busbw, ..)| *busbw > baseline * GAIN_MIN);
        match helps {
            Some((busbw, index, bytes)) => {
                let promised = measured * busbw / baseline;
                offer(finding, &candidates[index], [baseline, busbw], promised, bytes);
            }
            None => {
                finding.set.clear();
                finding.remedy = None;
                if best[number].is_some() {
                    finding.text += " (the usual remedy was tried, and does not raise busbw)";
                }
            }
        }
    }
    rank(&mut finished.report.findings);
    Ok(())
}

fn offer(
    finding: &mut Finding,
    candidate: &Candidate,
    [before, after]: [f64; 2],
    promised: f64,
    bytes: Bytes,
) {
    let words = candidate.words.clone().or(finding.remedy.take()).unwrap_or_default();
    let set: Vec<String> = candidate.set.iter().map(|set| format!("--set '{set}'")).collect();
    finding.remedy = Some(format!(
        "{words}\n             tried at {}: busbw {before:.2} -> {after:.2} GB/s with {}",
        text::binary(bytes.get()),
        set.join(" ")
    ));
    finding.set.clone_from(&candidate.set);
    finding.promised_busbw_gbytes_per_s = Some(promised);
}

/// Errors first, then what brings most.
fn rank(findings: &mut [Finding]) {
    findings.sort_by(|a, b| {
        let gain = |finding: &Finding| finding.promised_busbw_gbytes_per_s.unwrap_or(0.0);
        let error = |finding: &Finding| finding.severity == Severity::Error;
        let by_error = error(b).cmp(&error(a));
        by_error.then(gain(b).total_cmp(&gain(a))).then(b.severity.cmp(&a.severity))
    });
}

/// What can be tried for the findings of a run.
fn candidates(loaded: &Loaded, finished: &Finished) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for (number, finding) in finished.report.findings.iter().enumerate() {
        let mut add = |set: Vec<String>, words: Option<String>| {
            candidates.push(Candidate { finding: number, set, words });
        };
        match finding.kind.as_str() {
            "ecmp_imbalance" => {
                let qps = loaded.scenario.nccl.ib_qps_per_connection;
                for times in [4, 8] {
                    let qps = (qps * times).min(128);
                    let words =
                        format!("give the hash more flows: NCCL_IB_QPS_PER_CONNECTION={qps}");
                    add(vec![format!("nccl.IB_QPS_PER_CONNECTION={qps}")], Some(words));
                }
            }
            "ecn_after_pfc" => {
                if let Some((set, words)) = usual_thresholds(finished) {
                    add(set, Some(words));
                }
            }
            _ if !finding.set.is_empty() => add(finding.set.clone(), None),
            _ => {}
        }
    }
    candidates.truncate(TRIALS_MAX);
    candidates
}

/// ECN thresholds that are usual at the rate of the deepest queue: 8 us and 32 us of it.
fn usual_thresholds(finished: &Finished) -> Option<(Vec<String>, String)> {
    let ports = finished.report.ports.iter().filter(|port| !port.port.contains("/nic"));
    let deepest = ports.max_by_key(|port| port.max_queue_bytes)?;
    let queue = deepest.priorities.iter().max_by_key(|p| p.max_queue_bytes)?.priority;
    let kmin = Bytes::new(deepest.rate_bps / 1_000_000);
    let kmax = Bytes::new(deepest.rate_bps / 250_000);
    let set =
        vec![format!("switch.ecn.{queue}={{ kmin = \"{kmin}\", kmax = \"{kmax}\", pmax = 0.2 }}")];
    let words =
        format!("ECN thresholds below XOFF, as usual at this rate: kmin {kmin}, kmax {kmax}");
    Some((set, words))
}

/// The largest run of the sweep that is cheap enough to be tried `count` times, or less data.
fn scale(hops: &[f64], count: usize) -> Scale {
    let total: f64 = hops.iter().sum();
    let affordable = (total * SHARE_MAX / count as f64).max(CHEAP);
    let fits = hops.iter().rposition(|hops| *hops <= affordable);
    match fits {
        Some(run) => Scale { run, divisor: 1 },
        None => {
            let divisor = (hops[0] * 1.25 / affordable).ceil().max(2.0) as u64;
            Scale { run: 0, divisor }
        }
    }
}

/// What a trial shows: busbw of the first collective, its size, and the cost.
struct Trial {
    busbw: f64,
    bytes: Bytes,
    cpu_time_s: f64,
}

/// Runs a scenario at a scale.
fn measure(
    loaded: &Loaded,
    scale: Scale,
    owner: &(dyn Fn(&Running) -> Verdict + Sync),
) -> Result<Option<Trial>, Complaint> {
    let mut spec: Spec = loaded.spec_of(scale.run);
    for collective in &mut spec.collectives {
        collective.bytes = (collective.bytes / scale.divisor).max(1 << 20);
    }
    let Ok(plan) = fabric::plan(spec, 1) else { return Ok(None) };
    let run = simulate::run(loaded, plan, |running| owner(running))?;
    let first = run.report.collectives.first();
    Ok(first.and_then(|collective| {
        Some(Trial {
            busbw: collective.busbw_gbytes_per_s?,
            bytes: Bytes::new(collective.bytes),
            cpu_time_s: run.report.performance.cpu_time_s,
        })
    }))
}
