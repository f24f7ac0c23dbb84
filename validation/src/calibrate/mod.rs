//! `rocesim calibrate`: fits keys of a scenario to what was measured on the cluster that it
//! describes.
//!
//! What is compared are times of one iteration, size by size, as logarithms: an error of 10 % is one
//! at every size. Some sizes are held out and never seen by the fit. Keys become free one after the
//! other, as long as each pays for itself; what the sizes cannot tell apart is named.
//! docs/calibration.md describes the method.

mod cache;
mod fit;
mod keys;
mod known;
mod objective;
mod points;
mod result;
mod rules;
mod runs;
mod select;
mod text;
mod write;

use std::path::Path;

use models::collective::Link;
use models::fabric::Plan;
use models::traffic::TrafficConfig;
use scenarios::resolve::{Complaint, Loaded};
use scenarios::simulate;
use sim_core::{Fingerprint, Rate};

use self::cache::Cache;
use self::fit::{Model, slopes};
use self::keys::{Job, named, usual};
use self::known::{Doubt, Slopes};
use self::objective::times;
use self::points::Shape;
use self::runs::{Ask, Runs};
use self::select::{Choice, Search};
use crate::curve::Table;

pub use self::cache::EVALUATIONS;
pub use self::keys::{Key, Unit};
pub use self::known::Known;
pub use self::points::Point;
pub use self::result::{Calibration, Errors, FittedKey, Measured, SizeRow};
pub use self::runs::{Owner, Way};
pub use self::write::{calibrated_scenario, write};

/// What is asked.
#[derive(Clone, Debug)]
pub struct Request {
    /// The keys that may be fitted; the usual ones if absent.
    pub free: Option<Vec<String>>,
    /// The share of the sizes of each table that is held out: 0 to 0.9.
    pub holdout: f64,
    /// Simulations at a time.
    pub threads: usize,
}

/// Fits `loaded` to `tables`. Simulations are kept in `folder`, if there is one.
pub fn calibrate(
    loaded: &Loaded,
    tables: &[Table],
    request: &Request,
    folder: Option<&Path>,
    owner: &Owner<'_>,
) -> Result<Calibration, Complaint> {
    let (section, plan) = collective(loaded)?;
    let (shape, job) = shape_of(loaded, &plan, tables)?;
    let (all, mut notes) = points::points(tables, shape, request.holdout)?;
    let candidates = match &request.free {
        Some(paths) => named(loaded, &job, paths)?,
        None => usual(loaded, &job)?,
    };
    let cache = match folder {
        Some(folder) => {
            let mut digest = Fingerprint::default();
            loaded.resolved.bytes().for_each(|byte| digest.add(byte.into()));
            let (cache, known, note) = Cache::open(folder, &digest.hex())?;
            notes.extend(note);
            Some((cache, known))
        }
        None => None,
    };
    let runs = Runs::new(loaded, section, request.threads, cache, owner)?;
    let searched = thinned(&runs, &all)?;
    let decisions = match request.free {
        Some(_) => Vec::new(),
        None => decisions(&plan, &job),
    };
    let search = Search {
        runs: &runs,
        points: &searched,
        count: all.iter().filter(|point| !point.held_out).count(),
        candidates: &candidates,
        decisions: &decisions,
        ways: request.free.is_none() && loaded.scenario.nccl.tuner.is_empty(),
    };
    let (mut choice, together) = certain(&search, search.best()?)?;
    let set = search.objective(&choice).settings(&choice.fitted.at);
    choice.set.extend(rules::between(&runs, &searched, &set, search.ways)?);
    let mut keys = result::fitted_keys(&search, &choice, &together)?;
    keys.sort_by_key(|key| !matches!(key.known, Known::Fitted { .. }));
    let set = search.objective(&choice).settings(&choice.fitted.at);
    let found = times(&runs, &all, &[Vec::new(), set.clone()])?;
    let rows = result::rows(&all, &found);
    notes.extend(result::remarks(&rows));
    Ok(Calibration::new(loaded, tables, request, set, keys, rows, notes))
}

/// Errors of busbw over all sizes of `tables`, as the scenario is and with these keys set: what a
/// calibration to other tables predicts.
pub fn predict(
    loaded: &Loaded,
    tables: &[Table],
    set: &[String],
    threads: usize,
) -> Result<Errors, Complaint> {
    let (section, plan) = collective(loaded)?;
    let (shape, _) = shape_of(loaded, &plan, tables)?;
    let (points, _) = points::points(tables, shape, 0.0)?;
    let owner = Owner { verdict: &|| true, told: &|_, _| {} };
    let runs = Runs::new(loaded, section, threads, None, &owner)?;
    let found = times(&runs, &points, &[Vec::new(), set.to_vec()])?;
    let errors = Errors::of(&result::rows(&points, &found), |_| true);
    errors.ok_or_else(|| Complaint("error: there is no size to predict".to_owned()))
}

/// The only collective of a scenario, and its plan.
fn collective(loaded: &Loaded) -> Result<(usize, Plan), Complaint> {
    let sections = loaded.scenario.traffic.iter().enumerate();
    let found = sections.filter(|(_, section)| matches!(section, TrafficConfig::Collective(_)));
    let found: Vec<usize> = found.map(|(index, _)| index).collect();
    let plan = simulate::plan(loaded, 1)?;
    match found[..] {
        [section] if plan.wiring.jobs.len() == 1 => Ok((section, plan)),
        [] => Err(Complaint(format!(
            "error: {}: it has no collective; a [[traffic]] section of kind = \"collective\" is \
             expected, which is then run with the operations and sizes that were measured",
            loaded.name
        ))),
        _ => Err(Complaint(format!(
            "error: {}: it has {} collectives; one is expected, as measurements are of one at a time",
            loaded.name,
            plan.wiring.jobs.len()
        ))),
    }
}

fn shape_of(loaded: &Loaded, plan: &Plan, tables: &[Table]) -> Result<(Shape, Job), Complaint> {
    let of_plan = &plan.wiring.jobs[0];
    let op = of_plan.config.op;
    let shape = Shape { op, ranks: of_plan.ranks.len() as u32, hosts: of_plan.nodes };
    let host = plan.spec.hosts.iter().flatten().next();
    let gdr = of_plan.connections.iter().all(|connection| match &connection.link {
        Link::Remote { gdr, .. } => gdr[0] && gdr[1],
        Link::Local => true,
    });
    let ports = plan.wiring.topology.ports();
    let mut ops: Vec<_> = tables.iter().map(|table| table.op.unwrap_or(op)).collect();
    ops.sort();
    ops.dedup();
    let job = Job {
        sockets: loaded.scenario.nccl.sockets().is_some(),
        across: of_plan.nodes > 1,
        within: shape.ranks > shape.hosts,
        gdr,
        ops,
        port: ports.iter().map(|port| port.rate).min().unwrap_or(Rate::from_gbps(100)),
        nvls: host.is_some_and(|host| host.has_nvswitch_sums()),
    };
    Ok((shape, job))
}

/// What is searched with: the fitted sizes, of each plateau only the one that costs least, which
/// stands for the others.
fn thinned(runs: &Runs<'_>, all: &[Point]) -> Result<Vec<Point>, Complaint> {
    let mut kept: Vec<Point> = Vec::new();
    let mut plateaus: Vec<Vec<Point>> = Vec::new();
    for point in all.iter().filter(|point| !point.held_out) {
        if !point.plateau {
            kept.push(point.clone());
            continue;
        }
        match plateaus.iter_mut().find(|plateau| plateau[0].table == point.table) {
            Some(plateau) => plateau.push(point.clone()),
            None => plateaus.push(vec![point.clone()]),
        }
    }
    for plateau in plateaus {
        let ask =
            |point: &Point| Ask { set: Vec::new(), op: point.op, bytes: point.bytes, way: None };
        let mut cheapest: Option<(f64, &Point)> = None;
        for point in &plateau {
            let price = runs.price(&ask(point))?;
            if cheapest.is_none_or(|(least, _)| price < least) {
                cheapest = Some((price, point));
            }
        }
        let weight = plateau.iter().map(|point| point.weight).sum();
        kept.extend(cheapest.map(|(_, point)| Point { weight, ..point.clone() }));
    }
    kept.sort_by_key(|point| (point.table, point.bytes));
    Ok(kept)
}

/// What NCCL may have decided otherwise: how many channels.
fn decisions(plan: &Plan, job: &Job) -> Vec<String> {
    let nccl = &plan.spec.nccl;
    let channels = plan.wiring.jobs[0].channels.max(1);
    let mut decisions = Vec::new();
    let reduced = job.ops.iter().any(|op| !op.is_p2p());
    if reduced && nccl.min_nchannels.is_none() && nccl.max_nchannels.is_none() {
        let fewer = [channels / 2, channels * 3 / 4].into_iter().filter(|count| *count > 0);
        decisions.extend(fewer.map(|count| format!("nccl.MAX_NCHANNELS={count}")));
        let more = [channels * 3 / 2, channels * 2, channels * 4];
        let more = more.into_iter().filter(|count| (channels + 1..=64).contains(count));
        decisions.extend(more.map(|count| format!("nccl.MIN_NCHANNELS={count}")));
    }
    if job.across && job.ops.iter().any(|op| op.is_p2p()) && nccl.nchannels_per_net_peer.is_none() {
        decisions.extend([1, 2, 4, 8].map(|count| format!("nccl.NCHANNELS_PER_NET_PEER={count}")));
    }
    decisions
}

/// Without keys that the sizes do not tell; and those, with the ones that stand for them.
fn certain(
    search: &Search<'_>,
    mut choice: Choice,
) -> Result<(Choice, Vec<(String, String)>), Complaint> {
    let mut together = Vec::new();
    loop {
        let objective = search.objective(&choice);
        let found = slopes(&objective, &choice.fitted.at, 0.05)?;
        let slopes = Slopes::new(&found, objective.weights());
        let dropped = match slopes.doubt(choice.fitted.loss, search.count) {
            None => return Ok((choice, together)),
            Some(Doubt::Unknown(key)) => key,
            Some(Doubt::Together(with, key)) => {
                let name = |key: usize| choice.keys[key].path.clone();
                together.push((name(key), name(with)));
                key
            }
        };
        let (mut keys, mut start) = (choice.keys.clone(), choice.fitted.at.clone());
        keys.remove(dropped);
        start.remove(dropped);
        choice = search.fit(choice.set.clone(), [choice.decided, choice.rules], keys, &start)?;
    }
}

#[cfg(test)]
mod tests;
