//! The simulations behind a calibration: each is run once, side by side with others, and kept in a
//! file, so that a calibration that was stopped goes on where it was.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use models::collective::{Algorithm, CollectiveAlgorithm, Op, Protocol, TunerRule};
use models::fabric::{self, Plan, Running, Shards, Spec};
use rayon::prelude::*;
use scenarios::quick::{self, Quick};
use scenarios::resolve::{Complaint, Loaded};
use scenarios::simulate::{self, Verdict};
use serde::{Deserialize, Serialize};

use super::cache::Cache;

/// Runs that would move more frames than this are cut short: rings by `--quick`, all others by two
/// smaller sizes.
const HOPS_MAX: f64 = 1.5e6;
/// Rings that cannot be run quickly are run whole up to this.
const RING_HOPS_MAX: f64 = 8e6;

/// What NCCL's model expects to take so many times as long as the best is not taken in truth.
const FAR: f64 = 4.0;

/// A way to do a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Way {
    /// Algorithm.
    pub algorithm: Algorithm,
    /// Protocol.
    pub protocol: Protocol,
}

/// One simulation: these keys set, this operation, this size, and perhaps a way that is forced.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Ask {
    pub set: Vec<String>,
    pub op: Op,
    pub bytes: u64,
    pub way: Option<Way>,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Answer {
    /// Time of one iteration; absent if it did not end.
    pub time_s: Option<f64>,
    /// What was taken; absent for what has no algorithm.
    pub way: Option<Way>,
}

/// Who watches.
pub struct Owner<'a> {
    /// Whether to go on.
    pub verdict: &'a (dyn Fn() -> bool + Sync),
    /// So many simulations are done, of so many about.
    pub told: &'a (dyn Fn(usize, usize) + Sync),
}

/// Runs the collective of a scenario.
pub(super) struct Runs<'a> {
    pub loaded: &'a Loaded,
    /// The traffic section that is the collective.
    pub section: usize,
    pool: rayon::ThreadPool,
    known: Mutex<BTreeMap<Ask, Answer>>,
    cache: Option<Cache>,
    done: AtomicUsize,
    /// Simulations that are expected in all.
    expected: AtomicUsize,
    owner: &'a Owner<'a>,
}

/// What a stopped calibration says.
pub(super) const STOPPED: &str = "interrupted";

impl<'a> Runs<'a> {
    pub(super) fn new(
        loaded: &'a Loaded,
        section: usize,
        threads: usize,
        cache: Option<(Cache, BTreeMap<Ask, Answer>)>,
        owner: &'a Owner<'a>,
    ) -> Result<Self, Complaint> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.map_err(|error| Complaint(format!("error: {error}")))?;
        let (cache, known) = match cache {
            Some((cache, known)) => (Some(cache), known),
            None => (None, BTreeMap::new()),
        };
        let known = Mutex::new(known);
        let (done, expected) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Ok(Runs { loaded, section, pool, known, cache, done, expected, owner })
    }

    /// So many simulations more are expected.
    pub(super) fn expect(&self, more: usize) {
        let done = self.done.load(Ordering::Relaxed);
        self.expected.store(done + more, Ordering::Relaxed);
    }

    /// The answers, in the order of what is asked.
    pub(super) fn answers(&self, asks: &[Ask]) -> Result<Vec<Answer>, Complaint> {
        let mut new: Vec<&Ask> = {
            let known = self.lock();
            asks.iter().filter(|ask| !known.contains_key(ask)).collect()
        };
        new.sort();
        new.dedup();
        // large ones first, so that none is left alone at the end
        new.sort_by_key(|ask| std::cmp::Reverse(ask.bytes));
        let loads = self.loads(&new)?;
        let stop = AtomicBool::new(false);
        let found: Vec<Result<(), Complaint>> = self.pool.install(|| {
            let asked = new.par_iter().with_max_len(1);
            asked
                .map(|ask| {
                    if stop.load(Ordering::Relaxed) || !(self.owner.verdict)() {
                        stop.store(true, Ordering::Relaxed);
                        return Err(Complaint(STOPPED.to_owned()));
                    }
                    let answer = self.simulate(&loads[&(ask.set.clone(), ask.op)], ask)?;
                    if let Some(cache) = &self.cache {
                        cache.append(ask, &answer)?;
                    }
                    self.lock().insert((*ask).clone(), answer);
                    let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
                    (self.owner.told)(done, self.expected.load(Ordering::Relaxed).max(done));
                    Ok(())
                })
                .collect()
        });
        found.into_iter().collect::<Result<Vec<()>, Complaint>>()?;
        let known = self.lock();
        Ok(asks.iter().map(|ask| known[ask]).collect())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Ask, Answer>> {
        self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The scenario for each set of keys and each operation.
    #[allow(clippy::type_complexity)]
    fn loads(&self, asks: &[&Ask]) -> Result<BTreeMap<(Vec<String>, Op), Loaded>, Complaint> {
        let mut wanted: Vec<(Vec<String>, Op)> =
            asks.iter().map(|ask| (ask.set.clone(), ask.op)).collect();
        wanted.sort();
        wanted.dedup();
        let load = |(set, op): (Vec<String>, Op)| {
            let mut set_all = set.clone();
            set_all.push(format!("traffic[{}].op={}", self.section, op.name()));
            let loaded = self.loaded.with(&set_all)?;
            Ok(((set, op), loaded))
        };
        let loads: Vec<_> = self.pool.install(|| wanted.into_par_iter().map(load).collect());
        loads.into_iter().collect()
    }

    fn simulate(&self, loaded: &Loaded, ask: &Ask) -> Result<Answer, Complaint> {
        let plan = self.plan(loaded, ask.bytes, ask.way)?;
        let way = way_of(&plan);
        let hops = simulate::estimate(&plan).packet_hops;
        if hops <= HOPS_MAX {
            return Ok(Answer { time_s: time(&self.whole(loaded, plan)?), way });
        }
        let mut watch = |_: &Running| self.verdict();
        if let Quick::Done(run) = quick::attempt(loaded, &plan, 1.0, &mut watch)? {
            self.check()?;
            return Ok(Answer { time_s: time(&run), way });
        }
        let ring = plan.wiring.jobs.first().is_some_and(|job| job.is_ring());
        if ring && hops <= RING_HOPS_MAX {
            return Ok(Answer { time_s: time(&self.whole(loaded, plan)?), way });
        }
        // what is pipelined grows with its size: two sizes that are halves of it tell how
        let halvings = (hops / HOPS_MAX).log2().ceil().clamp(1.0, 40.0) as u32;
        let sizes = [ask.bytes >> (halvings + 1), ask.bytes >> halvings];
        let mut times = [0.0; 2];
        for (time_s, bytes) in times.iter_mut().zip(sizes) {
            let plan = self.plan(loaded, bytes, way)?;
            match time(&self.whole(loaded, plan)?) {
                Some(found) => *time_s = found,
                None => return Ok(Answer { time_s: None, way }),
            }
        }
        let slope = (times[1] - times[0]) / (sizes[1] - sizes[0]) as f64;
        let time_s = times[1] + slope * (ask.bytes - sizes[1]) as f64;
        Ok(Answer { time_s: Some(time_s), way })
    }

    fn plan(&self, loaded: &Loaded, bytes: u64, way: Option<Way>) -> Result<Plan, Complaint> {
        let mut spec = Spec::clone(&loaded.spec);
        if let Some(collective) = spec.collectives.first_mut() {
            collective.bytes = bytes;
        }
        if let Some(Way { algorithm, protocol }) = way {
            let rule = TunerRule {
                algorithm: Some(algorithm),
                protocol: Some(protocol),
                ..TunerRule::default()
            };
            spec.nccl.tuner.insert(0, rule);
        }
        fabric::plan(spec, Shards::Exactly(1)).map_err(|error| loaded.complaint(error))
    }

    fn whole(&self, loaded: &Loaded, plan: Plan) -> Result<simulate::Run, Complaint> {
        let run = simulate::run(loaded, plan, |_: &Running| self.verdict())?;
        self.check()?;
        Ok(run)
    }

    fn verdict(&self) -> Verdict {
        if (self.owner.verdict)() { Verdict::GoOn } else { Verdict::Interrupt }
    }

    fn check(&self) -> Result<(), Complaint> {
        if (self.owner.verdict)() { Ok(()) } else { Err(Complaint(STOPPED.to_owned())) }
    }

    /// Frames that a simulation will move, about.
    pub(super) fn price(&self, ask: &Ask) -> Result<f64, Complaint> {
        let loads = self.loads(&[ask])?;
        let plan = self.plan(&loads[&(ask.set.clone(), ask.op)], ask.bytes, ask.way)?;
        let hops = simulate::estimate(&plan).packet_hops;
        Ok(match quick::first_share(&plan) {
            _ if hops <= HOPS_MAX => hops,
            Some(share) => hops * share,
            None => hops.min(2.0 * HOPS_MAX),
        })
    }

    /// What NCCL could take for an operation and a size, as its tuning model sees it.
    pub(super) fn ways(&self, set: &[String], op: Op, bytes: u64) -> Result<Vec<Way>, Complaint> {
        let ask = Ask { set: set.to_vec(), op, bytes, way: None };
        let loads = self.loads(&[&ask])?;
        let plan = self.plan(&loads[&(ask.set.clone(), op)], bytes, None)?;
        let choice = plan.wiring.jobs.first().map(|job| &job.choice);
        let mut ways: Vec<Way> = choice.map_or(Vec::new(), |choice| {
            let way = |candidate: &models::collective::Candidate| Way {
                algorithm: candidate.algorithm,
                protocol: candidate.protocol,
            };
            let least = choice.candidates.first().map_or(0.0, |first| first.time_us);
            let near = choice.candidates.iter().filter(|one| one.time_us <= FAR * least);
            near.map(way).collect()
        });
        ways.sort();
        Ok(ways)
    }
}

fn time(run: &simulate::Run) -> Option<f64> {
    run.report.collectives.first().and_then(|collective| collective.time_s)
}

fn way_of(plan: &Plan) -> Option<Way> {
    let job = plan.wiring.jobs.first()?;
    if job.config.op.is_p2p() || job.choice.candidates.is_empty() {
        return None;
    }
    let algorithm = match job.choice.algorithm {
        CollectiveAlgorithm::Ring => Algorithm::Ring,
        CollectiveAlgorithm::Tree => Algorithm::Tree,
        CollectiveAlgorithm::NvlsTree if job.nodes == 1 => Algorithm::Nvls,
        CollectiveAlgorithm::NvlsTree => Algorithm::NvlsTree,
        _ => return None,
    };
    Some(Way { algorithm, protocol: job.protocol() })
}
