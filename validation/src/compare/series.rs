//! Samples at the reference's instants.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::measure::{Item, Measure, Pair, relative};
use crate::run::{Series, Writer};

/// How far samples are apart. Only instants that both sides have are compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SeriesComparison {
    /// Instants that are compared.
    pub instants: usize,
    /// Time between two samples of the reference, in seconds.
    pub interval_s: f64,
    /// By place, the mean over time.
    pub means: Measure,
    /// By place, the greatest sample.
    pub maxima: Measure,
    /// Mean over all samples of the difference's absolute value, relative to the reference's mean;
    /// absent if that is 0 and differs.
    pub mean_abs_error: Option<f64>,
    /// The sample with the greatest difference; absent if there are no samples.
    pub worst: Option<Sample>,
}

/// One place at one instant.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// The place.
    pub name: String,
    /// When, on the clock of rocesim.
    pub time_s: f64,
    /// Its values.
    pub value: Pair,
}

/// Times that differ by less, relative to the interval, are the same instant.
const SAME: f64 = 0.01;

/// Compares two series of the same places; `ahead_s` is what the reference's clock is ahead. If
/// that cannot be done although the reference has a series, a note says why.
pub(super) fn compare(
    what: &str,
    writer: Writer,
    [here, there]: [&Option<Series>; 2],
    ahead_s: Option<f64>,
    notes: &mut Vec<String>,
) -> Option<SeriesComparison> {
    let there = there.as_ref().filter(|series| !series.places.is_empty())?;
    let interval = time_text(there.interval_s);
    let Some(here) = here else {
        notes.push(format!(
            "{what} over time are not compared: run with --set sample.interval={interval}, or \
             interval = \"{interval}\" in [sample]"
        ));
        return None;
    };
    let Some(ahead_s) = ahead_s else {
        notes.push(format!(
            "{what} over time are not compared: neither a flow that finished in both nor flow.txt \
             says how the clocks differ"
        ));
        return None;
    };
    let mut found = Found::new(here, there, ahead_s);
    found.places(writer);
    if found.samples == 0 {
        notes.push(format!(
            "{what} over time are not compared: no sample is of the same instant. The \
             reference's interval is {interval}; set sample.interval to that"
        ));
        return None;
    }
    found.notes(what, &interval, notes);
    Some(found.finish())
}

/// What is found on the way.
struct Found<'a> {
    here: &'a Series,
    there: &'a Series,
    ahead_s: f64,
    samples: usize,
    /// Instants compared, as bits of their time.
    instants: BTreeSet<u64>,
    /// Instants within the run here that have no sample here.
    skipped: BTreeSet<u64>,
    not_sampled: usize,
    means: Vec<Item>,
    maxima: Vec<Item>,
    gap: f64,
    sum_there: f64,
    worst: Option<Sample>,
}

impl<'a> Found<'a> {
    fn new(here: &'a Series, there: &'a Series, ahead_s: f64) -> Self {
        Found {
            here,
            there,
            ahead_s,
            samples: 0,
            instants: BTreeSet::new(),
            skipped: BTreeSet::new(),
            not_sampled: 0,
            means: Vec::new(),
            maxima: Vec::new(),
            gap: 0.0,
            sum_there: 0.0,
            worst: None,
        }
    }

    /// Goes through all places of either side. Where there are instants, a place that the
    /// reference does not list has 0; ns-3 lists switches only.
    fn places(&mut self, writer: Writer) {
        let (here, there) = (self.here, self.there);
        let dense = !there.instants_s.is_empty();
        let mut names: BTreeSet<&String> = there.places.keys().collect();
        if dense {
            let listed = |name: &&String| writer != Writer::Ns3 || !name.contains('/');
            names.extend(here.places.keys().filter(listed));
        }
        for name in names {
            let Some(ours) = here.places.get(name) else {
                self.not_sampled += 1;
                continue;
            };
            let theirs = there.places.get(name).map(Vec::as_slice).unwrap_or_default();
            match dense {
                true => {
                    let theirs = filled(&there.instants_s, theirs);
                    self.place(name, ours, &theirs);
                }
                false => self.place(name, ours, theirs),
            }
        }
    }

    fn place(&mut self, name: &str, ours: &[(f64, f64)], theirs: &[(f64, f64)]) {
        let step = [self.here.interval_s, self.there.interval_s];
        let near = SAME * step.into_iter().filter(|step| *step > 0.0).fold(1e-6, f64::min);
        let (mut count, mut sum, mut max) = (0, Pair::default(), Pair::default());
        for (time, there) in theirs {
            let time_s = time - self.ahead_s;
            let Some(here) = at(ours, time_s, near) else {
                if ours.last().is_some_and(|last| time_s <= last.0 + near) {
                    self.skipped.insert(time.to_bits());
                }
                continue;
            };
            let value = Pair { here, there: *there };
            count += 1;
            self.instants.insert(time.to_bits());
            sum = Pair { here: sum.here + here, there: sum.there + there };
            max = Pair { here: max.here.max(here), there: max.there.max(*there) };
            self.gap += value.gap();
            if self.worst.as_ref().is_none_or(|worst| value.gap() > worst.value.gap()) {
                self.worst = Some(Sample { name: name.to_owned(), time_s, value });
            }
        }
        if count > 0 {
            self.samples += count;
            self.sum_there += sum.there;
            let count = count as f64;
            let mean = Pair { here: sum.here / count, there: sum.there / count };
            self.means.push(Item { name: name.to_owned(), value: mean });
            self.maxima.push(Item { name: name.to_owned(), value: max });
        }
    }

    fn notes(&self, what: &str, interval: &str, notes: &mut Vec<String>) {
        if !self.skipped.is_empty() {
            let all = self.skipped.len() + self.instants.len();
            notes.push(format!(
                "{what}: of {all} instants of the reference {} have a sample here; \
                 sample.interval = \"{interval}\" has them all",
                self.instants.len()
            ));
        }
        if self.not_sampled > 0 {
            let keys = match what {
                "rates" => "sample.flows (64 unless it is set) says how many are",
                _ => "without sample.ports all are",
            };
            let all = self.not_sampled + self.means.len();
            notes.push(format!(
                "{what}: {} of {all} are not there to compare; {keys}",
                self.not_sampled
            ));
        }
    }

    fn finish(self) -> SeriesComparison {
        let measure = |mut items: Vec<Item>| {
            items.retain(|item| item.value != Pair::default());
            Measure::of(items)
        };
        SeriesComparison {
            instants: self.instants.len(),
            interval_s: self.there.interval_s,
            means: measure(self.means),
            maxima: measure(self.maxima),
            mean_abs_error: relative(self.gap, self.sum_there),
            worst: self.worst,
        }
    }
}

/// A value at each instant: 0 where there is no sample.
fn filled(instants_s: &[f64], samples: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let values: BTreeMap<u64, f64> =
        samples.iter().map(|(time, value)| (time.to_bits(), *value)).collect();
    let at = |time: &f64| (*time, values.get(&time.to_bits()).copied().unwrap_or(0.0));
    instants_s.iter().map(at).collect()
}

/// The sample at a time.
fn at(samples: &[(f64, f64)], time_s: f64, near: f64) -> Option<f64> {
    let next = samples.partition_point(|sample| sample.0 < time_s - near);
    samples.get(next).filter(|sample| sample.0 <= time_s + near).map(|sample| sample.1)
}

/// As a key of a scenario has it.
fn time_text(seconds: f64) -> String {
    let ns = (seconds * 1e9).round();
    match ns % 1000.0 == 0.0 && ns > 0.0 {
        true => format!("{}us", ns / 1000.0),
        false => format!("{ns}ns"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(interval_s: f64, instants_s: &[f64], places: &[(&str, &[(f64, f64)])]) -> Series {
        let places = places.iter().map(|(name, samples)| ((*name).to_owned(), samples.to_vec()));
        Series { interval_s, instants_s: instants_s.to_vec(), places: places.collect() }
    }

    #[test]
    fn places_that_the_reference_does_not_list_are_0_at_its_instants() {
        let here = series(
            1.0,
            &[],
            &[
                ("a", &[(0.0, 0.0), (1.0, 4.0), (2.0, 6.0)]),
                ("b", &[(0.0, 0.0), (1.0, 0.0), (2.0, 3.0)]),
            ],
        );
        // 10 s ahead; a has nothing at 12, b nothing at all
        let there = series(1.0, &[11.0, 12.0, 13.0], &[("a", &[(11.0, 5.0), (13.0, 9.0)])]);
        let mut notes = Vec::new();
        let found =
            compare("queues", Writer::Ns3, [&Some(here), &Some(there)], Some(10.0), &mut notes)
                .unwrap();
        assert_eq!((found.instants, notes.len()), (2, 0)); // 13 is beyond the run here
        // a: 4, 6 against 5, 0; b: 0, 3 against 0, 0
        assert_eq!(found.means.sum, Pair { here: 5.0 + 1.5, there: 2.5 });
        assert_eq!(found.maxima.sum, Pair { here: 6.0 + 3.0, there: 5.0 });
        assert_eq!(found.mean_abs_error, Some((1.0 + 6.0 + 3.0) / 5.0));
        let worst = found.worst.unwrap();
        assert_eq!((&*worst.name, worst.time_s), ("a", 2.0));
    }

    #[test]
    fn only_what_both_have() {
        let here = series(2e-6, &[], &[("a", &[(0.0, 8.0), (2e-6, 8.0)])]);
        let a = [(0.0, 10.0), (1e-6, 10.0), (2e-6, 4.0)];
        let there = series(1e-6, &[], &[("a", &a), ("z", &[(0.0, 1.0)])]);
        let mut notes = Vec::new();
        let there = Some(there);
        let found =
            compare("rates", Writer::Ns3, [&Some(here), &there], Some(0.0), &mut notes).unwrap();
        // 8, 8 against 10, 4
        assert_eq!(found.means.sum, Pair { here: 8.0, there: 7.0 });
        assert_eq!(found.mean_abs_error, Some(6.0 / 14.0));
        assert!(notes[0].contains("of 3 instants of the reference 2 have a sample"), "{notes:?}");
        assert!(notes[1].contains("1 of 2 are not there to compare; sample.flows"), "{notes:?}");
        let other = series(5e-6, &[], &[("a", &[(0.3e-6, 8.0)])]);
        let mut notes = Vec::new();
        assert_eq!(
            compare("rates", Writer::Ns3, [&Some(other), &there], Some(0.0), &mut notes),
            None
        );
        assert!(notes[0].ends_with("interval is 1us; set sample.interval to that"), "{notes:?}");
        let mut notes = Vec::new();
        assert_eq!(compare("rates", Writer::Ns3, [&None, &there], Some(0.0), &mut notes), None);
        assert!(notes[0].contains("--set sample.interval=1us"), "{notes:?}");
        assert_eq!(compare("rates", Writer::Ns3, [&there, &there], None, &mut notes), None);
        assert_eq!(compare("rates", Writer::Ns3, [&None, &None], None, &mut notes), None);
        assert_eq!(notes.len(), 2);
    }
}
