//! Tries the remedies that findings propose, by simulating them, and ranks findings by what their
//! remedies bring. A remedy that does not help is not offered.

use std::collections::BTreeSet;

use models::fabric::{self, Running, Spec};
use models::report::{Finding, OutcomeKind, Severity};
use sim_core::Bytes;

use crate::quick::{self, Quick};
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
    let busbw_of = |run: usize| -> Vec<Option<f64>> {
        let collectives = report.collectives.iter().skip(run * per_run).take(per_run);
        collectives.map(|collective| collective.busbw_gbytes_per_s).collect()
    };
    let measured = busbw_of(loaded.sweep.runs() - 1);
    let candidates = candidates(loaded, finished);
    let completed = report.outcome == OutcomeKind::Completed && loaded.sweep.has_collectives();
    if !completed || candidates.is_empty() {
        return Ok(());
    }
    let scale = scale(hops, candidates.len());
    let quick = report.collectives.get(scale.run * per_run).and_then(|c| c.simulated_share);
    let baseline = match scale.divisor {
        1 => Some(busbw_of(scale.run)),
        _ => measure(loaded, scale, quick, owner)?.map(|trial| trial.busbw),
    };
    let Some(baseline) = baseline else { return Ok(()) };
    let mut cost = 0.0;
    let mut best: Vec<Option<(f64, usize, Bytes)>> = vec![None; report.findings.len()];
    for (index, candidate) in candidates.iter().enumerate() {
        // a remedy that cannot be set here is none
        let Ok(changed) = loaded.with(&candidate.set) else { continue };
        let Some(trial) = measure(&changed, scale, quick, owner)? else { continue };
        cost += trial.cpu_time_s;
        // one that changes nothing at all is overruled by another key
        if trial.busbw == baseline {
            continue;
        }
        let job = job_of(&report.findings[candidate.finding]);
        let Some(Some(busbw)) = trial.busbw.get(job).copied() else { continue };
        let bytes = trial.bytes;
        let slot = &mut best[candidate.finding];
        if slot.is_none_or(|(most, ..)| busbw > most * 1.01) {
            *slot = Some((busbw, index, bytes));
        }
    }
    finished.report.performance.remedies_cpu_time_s = cost;
    let tried: BTreeSet<usize> = candidates.iter().map(|candidate| candidate.finding).collect();
    for number in tried {
        let finding = &mut finished.report.findings[number];
        let job = job_of(finding);
        let before = baseline.get(job).copied().flatten();
        let measured = measured.get(job).copied().flatten();
        let (Some(before), Some(measured)) = (before, measured) else { continue };
        match best[number] {
            Some((busbw, index, bytes)) if busbw > before * GAIN_MIN => {
                let promised = measured * busbw / before;
                offer(finding, &candidates[index], [before, busbw], promised, bytes);
            }
            Some((.., bytes)) => {
                finding.set.clear();
                finding.remedy = None;
                finding.text += &format!(
                    " (the usual remedy was tried at {}, and does not raise busbw)",
                    text::binary(bytes.get())
                );
            }
            None => {}
        }
    }
    rank(&mut finished.report.findings);
    Ok(())
}

/// The collective that a finding is about.
fn job_of(finding: &Finding) -> usize {
    finding.collective.unwrap_or(0) as usize
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
        "{words}; tried at {}: busbw {before:.2} -> {after:.2} GB/s with {}",
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
            _ if !finding.set.is_empty() => add(finding.set.clone(), None),
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
            _ => {}
        }
    }
    candidates.truncate(TRIALS_MAX);
    candidates
}

/// ECN thresholds that are usual at the rate of the deepest queue.
fn usual_thresholds(finished: &Finished) -> Option<(Vec<String>, String)> {
    let wires = &finished.plan.wiring.wires;
    let configs = &finished.plan.spec.switch_ports;
    let ports = finished.report.ports.iter().zip(wires).zip(configs);
    let lossless = ports.filter(|((_, wire), _)| wire.is_switch).flat_map(|((port, _), config)| {
        let paused = config.as_ref().map_or(&[][..], |config| &config.pfc.priorities);
        let queues = port.priorities.iter().filter(|queue| paused.contains(&queue.priority));
        queues.map(move |queue| (port, queue))
    });
    let (deepest, queue) = lossless.max_by_key(|(_, queue)| queue.max_queue_bytes)?;
    let queue = queue.priority;
    let [kmin, kmax] = super::usual_ecn(deepest.rate_bps);
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

/// What a trial shows: busbw of each collective, the size of the first, and the cost.
struct Trial {
    busbw: Vec<Option<f64>>,
    bytes: Bytes,
    cpu_time_s: f64,
}

/// Runs a scenario at a scale: all of it, or quickly with at most this share of its steps.
fn measure(
    loaded: &Loaded,
    scale: Scale,
    quick: Option<f64>,
    owner: &(dyn Fn(&Running) -> Verdict + Sync),
) -> Result<Option<Trial>, Complaint> {
    let mut spec: Spec = loaded.spec_of(scale.run);
    if scale.divisor > 1 {
        for collective in &mut spec.collectives {
            let least = collective.bytes.min(1 << 20);
            collective.bytes = (collective.bytes / scale.divisor).max(least);
        }
    }
    let Ok(plan) = fabric::plan(spec, fabric::Shards::Exactly(1)) else { return Ok(None) };
    let mut owner = |running: &Running| owner(running);
    let run = match quick {
        Some(share) => match quick::attempt(loaded, &plan, share, &mut owner)? {
            Quick::Done(run) => *run,
            _ if simulate::estimate(&plan).packet_hops > CHEAP => return Ok(None),
            Quick::Not { .. } => simulate::run(loaded, plan, owner)?,
        },
        None => simulate::run(loaded, plan, owner)?,
    };
    let report = &run.report;
    let busbw = report.collectives.iter().map(|collective| collective.busbw_gbytes_per_s);
    let first = report.collectives.first().filter(|_| report.outcome == OutcomeKind::Completed);
    Ok(first.map(|first| Trial {
        busbw: busbw.collect(),
        bytes: Bytes::new(first.bytes),
        cpu_time_s: report.performance.cpu_time_s,
    }))
}
