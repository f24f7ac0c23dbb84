//! Runs what a study still lacks.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use models::report::{OutcomeKind, Report};
use rayon::prelude::*;

use super::Study;
use super::axis::Axis;
use super::config::Method;
use super::curves::Curves;
use super::design::{self, Point};
use super::journal::{Directory, Journal, Record, Records, RunId};
use super::judge;
use super::tpe::Search;
use crate::expect;
use crate::resolve::Complaint;
use crate::simulate::{self, How, Verdict};

/// A part of a study: the points whose number leaves this rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 0 on.
    pub index: u32,
    /// Of so many.
    pub count: u32,
}

impl Shard {
    /// The name of its file of results.
    pub fn name(self) -> String {
        format!("task-{}-of-{}", self.index, self.count)
    }

    /// The index of the part that has a point.
    pub(super) fn of(self, number: u32) -> u32 {
        number % self.count
    }

    fn has(self, point: &Point) -> bool {
        self.of(point.number) == self.index
    }
}

/// How far the work is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Points that are done, the base among them.
    pub points: usize,
    /// Of so many.
    pub of: usize,
    /// Those of them that break a requirement or could not be run.
    pub failed: usize,
}

/// Who watches: whether to go on, and what is told of the progress.
pub struct Owner<'a> {
    /// Asked now and then.
    pub verdict: &'a (dyn Fn() -> Verdict + Sync),
    /// Called after each point.
    pub told: &'a (dyn Fn(Progress) + Sync),
}

/// The outcome of a run that was stopped because it took too long beside the base.
const GIVEN_UP: &str = "given_up";
/// The outcome of a run that could not be built.
const REFUSED: &str = "refused";

/// Runs all points of a study, or those of a shard, that the directory does not have, `threads` at
/// a time. False if it was interrupted.
pub fn run(
    study: &Study,
    directory: &Directory,
    shard: Option<Shard>,
    threads: usize,
    owner: &Owner<'_>,
) -> Result<bool, Complaint> {
    if study.config.method == Method::Tpe && shard.is_some_and(|shard| shard.count > 1) {
        let message = "error: method `tpe` chooses points by the results of earlier ones: it \
                       cannot be split";
        return Err(Complaint(message.to_owned()));
    }
    let name = shard.map_or_else(|| "local".to_owned(), Shard::name);
    let journal = directory.journal(&name)?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|error| Complaint(format!("error: {error}")))?;
    let known = directory.read()?;
    let work = Work {
        study,
        shard,
        owner,
        known: Mutex::new(known),
        journal: Mutex::new(journal),
        failure: Mutex::new(None),
        interrupted: AtomicBool::new(false),
        progress: Mutex::new(Progress::default()),
    };
    pool.install(|| work.all())?;
    if let Ok(mut failure) = work.failure.lock()
        && let Some(failure) = failure.take()
    {
        return Err(failure);
    }
    Ok(!work.interrupted.load(Ordering::Relaxed))
}

struct Work<'a> {
    study: &'a Study,
    shard: Option<Shard>,
    owner: &'a Owner<'a>,
    known: Mutex<Records>,
    journal: Mutex<Journal>,
    /// Why results could not be written.
    failure: Mutex<Option<Complaint>>,
    interrupted: AtomicBool,
    progress: Mutex<Progress>,
}

impl Work<'_> {
    fn all(&self) -> Result<(), Complaint> {
        let study = self.study;
        let seeds: Vec<u64> = study.seeds().collect();
        let base = design::base();
        let mine = |point: &Point| self.shard.is_none_or(|shard| shard.has(point));
        if study.config.method != Method::Tpe {
            let points: Vec<Point> = design::points(study)?.into_iter().filter(&mine).collect();
            self.announce(points.len() + usize::from(mine(&base)));
            let limit = self.base(&base, &seeds);
            self.points(&points, &seeds, limit);
            return Ok(());
        }
        self.announce(study.config.samples.unwrap_or(0) as usize + 1);
        let limit = self.base(&base, &seeds);
        let samples = study.config.samples.unwrap_or(0) as usize;
        let mut search = Search::new(&study.axes, samples, study.config.seed);
        loop {
            let batch = search.next_batch();
            if batch.is_empty() || self.stopped() {
                return Ok(());
            }
            self.points(&batch, &seeds, limit);
            let Ok(known) = self.known.lock() else { return Ok(()) };
            batch.iter().for_each(|point| search.tell(point, judge::score(study, &known, point)));
        }
    }

    fn announce(&self, of: usize) {
        if let Ok(mut progress) = self.progress.lock() {
            progress.of = of;
        }
    }

    /// Runs the base; returns the simulated time after which others are hopeless.
    fn base(&self, base: &Point, seeds: &[u64]) -> Option<f64> {
        let mine = self.shard.is_none_or(|shard| shard.has(base));
        if mine {
            seeds.par_iter().for_each(|seed| {
                self.one(base, None, *seed, None);
            });
            self.point_done(base);
        }
        let times = self.study.config.give_up?;
        let first = self.one(base, None, seeds[0], None)?;
        let column = self.study.columns.iter().position(|c| c.key == "simulated_time")?;
        Some(times * first.values[column]?)
    }

    /// Runs points: first each with one seed, then those that are not hopeless with the others.
    fn points(&self, points: &[Point], seeds: &[u64], limit: Option<f64>) {
        if let Some(ladder) = self.study.axes.iter().find_map(Axis::ladder) {
            points.par_iter().with_max_len(1).for_each(|point| {
                let good = |rung| self.rung(point, rung, seeds, limit);
                if climb(ladder.last, good).is_some() {
                    self.point_done(point);
                }
            });
            return;
        }
        let (first, rest) = (seeds[0], &seeds[1..]);
        let stays: Vec<&Point> = points
            .par_iter()
            .with_max_len(1)
            .filter(|point| {
                let Some(record) = self.one(point, None, first, limit) else { return false };
                let goes_on = record.is_good() || !self.study.config.early_stop;
                if rest.is_empty() || !goes_on {
                    self.point_done(point);
                    return false;
                }
                true
            })
            .collect();
        let pairs: Vec<(&Point, u64)> =
            stays.iter().flat_map(|point| rest.iter().map(|seed| (*point, *seed))).collect();
        pairs.par_iter().with_max_len(1).for_each(|(point, seed)| {
            if self.one(point, None, *seed, limit).is_some() && Some(seed) == rest.last() {
                self.point_done(point);
            }
        });
    }

    /// Whether all seeds are good on a rung; `None` if the work was stopped.
    fn rung(&self, point: &Point, rung: u32, seeds: &[u64], limit: Option<f64>) -> Option<bool> {
        for seed in seeds {
            if !self.one(point, Some(rung), *seed, limit)?.is_good() {
                return Some(false);
            }
        }
        Some(true)
    }

    /// The record of a run, which is run if it is not known; `None` if the work was stopped.
    fn one(
        &self,
        point: &Point,
        rung: Option<u32>,
        seed: u64,
        limit: Option<f64>,
    ) -> Option<Record> {
        let id = RunId { point: point.number, rung, seed };
        if let Ok(known) = self.known.lock()
            && let Some(record) = known.get(&id)
        {
            return Some(record.clone());
        }
        if self.stopped() {
            return None;
        }
        let record = self.simulate(point, id, limit)?;
        let written = self.journal.lock().map(|mut journal| journal.append(&record));
        if let Ok(Err(complaint)) = written {
            if let Ok(mut failure) = self.failure.lock() {
                failure.get_or_insert(complaint);
            }
            self.interrupted.store(true, Ordering::Relaxed);
            return None;
        }
        if let Ok(mut known) = self.known.lock() {
            known.insert(id, record.clone());
        }
        Some(record)
    }

    fn stopped(&self) -> bool {
        if (self.owner.verdict)() != Verdict::GoOn {
            self.interrupted.store(true, Ordering::Relaxed);
        }
        self.interrupted.load(Ordering::Relaxed)
    }

    fn point_done(&self, point: &Point) {
        let failed = self.known.lock().is_ok_and(|known| {
            let id = |rung, seed| RunId { point: point.number, rung, seed };
            let mut runs = known.range(id(None, 0)..=id(Some(u32::MAX), u64::MAX));
            // rungs that are too low are no failures
            self.study.axes.iter().all(|axis| axis.ladder().is_none())
                && runs.any(|(_, record)| !record.is_good())
        });
        if let Ok(mut progress) = self.progress.lock() {
            progress.points += 1;
            progress.failed += usize::from(failed);
            (self.owner.told)(*progress);
        }
    }

    /// Runs a point once; `None` if it was interrupted.
    fn simulate(&self, point: &Point, id: RunId, limit: Option<f64>) -> Option<Record> {
        let record = |outcome: &str| Record {
            point: id.point,
            rung: id.rung,
            seed: id.seed,
            outcome: outcome.to_owned(),
            error: None,
            broken: Vec::new(),
            values: vec![None; self.study.columns.len()],
            curves: Curves::default(),
            fingerprint: None,
        };
        let refused = |Complaint(why): Complaint| Record { error: Some(why), ..record(REFUSED) };
        let late = AtomicBool::new(false);
        let run = || {
            let loaded = self.study.load_point(point, id.rung, id.seed)?;
            let plans = simulate::plans(&loaded, 1)?;
            let owner = |running: &models::fabric::Running| {
                if self.stopped() {
                    return Verdict::Interrupt;
                }
                if limit.is_some_and(|limit| running.now.as_secs() > limit) {
                    late.store(true, Ordering::Relaxed);
                    return Verdict::TimeLimit;
                }
                Verdict::GoOn
            };
            let how = How { remedies: false, quick: self.study.config.quick };
            simulate::run_all(&loaded, plans, 1, how, &owner)
        };
        // a bug that one point shows should not cost the others
        let finished = match panic::catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(finished)) => finished,
            Ok(Err(complaint)) => return Some(refused(complaint)),
            Err(_) => return Some(refused(Complaint("error: the run panicked; a bug".to_owned()))),
        };
        let report = &finished.report;
        if report.outcome == OutcomeKind::Interrupted {
            return None;
        }
        let beyond = limit.is_some_and(|limit| report.simulated_time_s > limit);
        if late.load(Ordering::Relaxed) || beyond {
            return Some(Record { broken: vec!["give_up".to_owned()], ..record(GIVEN_UP) });
        }
        let columns = &self.study.columns;
        Some(Record {
            broken: broken(self.study, report),
            values: columns.iter().map(|column| expect::number(report, &column.key)).collect(),
            curves: Curves::new(report),
            fingerprint: Some(report.fingerprint.clone()),
            ..record(&outcome_name(report.outcome))
        })
    }
}

/// As in `report.json`.
fn outcome_name(outcome: OutcomeKind) -> String {
    let value = serde_json::to_value(outcome).unwrap_or_default();
    value.as_str().unwrap_or("").to_owned()
}

/// The requirements that a run breaks.
fn broken(study: &Study, report: &Report) -> Vec<String> {
    let require = &study.config.require;
    let verdicts = expect::judge(require, report);
    let failed = verdicts.into_iter().filter(|verdict| !verdict.passed);
    let mut broken: Vec<String> = failed.map(|verdict| verdict.key).collect();
    if report.outcome != OutcomeKind::Completed && !require.contains_key("outcome") {
        broken.insert(0, "outcome".to_owned());
    }
    broken
}

/// The lowest good rung of a ladder from 0 to `last`, all rungs above a good one being good too;
/// none if the last is not. `good` answers nothing once the work was stopped, and so does this.
pub(super) fn climb(last: u32, mut good: impl FnMut(u32) -> Option<bool>) -> Option<Option<u32>> {
    if !good(last)? {
        return Some(None);
    }
    let (mut low, mut high) = (0, last);
    while low < high {
        let middle = low + (high - low) / 2;
        match good(middle)? {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    Some(Some(high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ladder_is_climbed_by_halves() {
        for last in [0, 1, 6, 100] {
            for lowest in 0..=last + 1 {
                let mut tries = 0;
                let found = climb(last, |rung| {
                    tries += 1;
                    Some(rung >= lowest)
                });
                assert_eq!(found, Some((lowest <= last).then_some(lowest)));
                assert!(tries <= 2 + (last + 1).ilog2(), "{tries} tries for {last}");
            }
        }
        assert_eq!(climb(5, |_| None), None);
    }
}
