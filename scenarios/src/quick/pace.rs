//! From a part of a collective to the time of the whole and what it may be off by.

use models::collective::{Job, MARKS, Program};
use models::fabric::{Plan, Role};
use models::report::Report;

use crate::simulate::Run;

/// Windows repeat if they agree within this, or within what they vary by.
const REPEATS_WITHIN: f64 = 0.005;
/// An answer that may be off by more is not given.
const ERROR_MAX: f64 = 0.02;
/// Where congestion control has acted, windows are at least so long: it recovers over milliseconds.
const CONTROL_WINDOW_S: f64 = 3e-3;
/// The windows that are compared, a quarter of the part each, between these marks. The first quarter
/// holds its start, the last sixteenth its end; so the first two windows overlap.
const WINDOWS: [[usize; 2]; 3] = [[3, 7], [6, 10], [10, 14]];
/// What is extrapolated is the pace between these marks: the last two of the windows.
const STEADY: [usize; 2] = [6, 14];
/// So many standard deviations are stated.
const DEVIATIONS: f64 = 3.0;

/// The time of a whole collective.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    /// Time of one repetition.
    pub time_s: f64,
    /// What it may be off by, as a share.
    pub error: f64,
}

/// What a run of a part shows.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// Steps that send, by stretch of the program.
    sends: [f64; 2],
    /// Time of one repetition.
    time_s: f64,
    /// By rank: when it was at each mark.
    marks: Vec<Vec<f64>>,
    /// Steps that send up to each mark.
    to_mark: [Vec<f64>; 2],
    /// Congestion control of some QP has acted.
    controlled: bool,
    /// When the last of all flows beside it started.
    others_start_s: f64,
}

/// What is known of the whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whole {
    /// Steps that send, by stretch.
    sends: [f64; 2],
    /// Steps that send in a loop.
    of_loop: f64,
}

impl Whole {
    pub(super) fn new(job: &Job) -> Self {
        let programs = (0..job.channels).map(|channel| job.program(channel, 0));
        let most = programs.map(|program| program.sends());
        let most = most.fold([0; 2], |a, b| [a[0].max(b[0]), a[1].max(b[1])]);
        let of_loop = job.program(0, 0).loop_steps() - 1;
        Whole { sends: most.map(|sends| sends as f64), of_loop: of_loop as f64 }
    }
}

impl Part {
    /// The part that `run` has simulated; `None` if it has not ended.
    pub(super) fn new(run: &Run) -> Option<Self> {
        let Run { plan, outcome, report, .. } = run;
        let job = &plan.wiring.jobs[0];
        let programs: Vec<Program> = (0..job.channels).map(|c| job.program(c, 0)).collect();
        let longest = programs.iter().max_by_key(|program| program.len())?;
        let to_mark = |stretch: usize| {
            (0..MARKS).map(|mark| longest.sends_to_mark(stretch, mark) as f64).collect()
        };
        let seconds = |times: &[sim_core::Time]| times.iter().map(|time| time.as_secs()).collect();
        Some(Part {
            sends: longest.sends_run().map(|sends| sends as f64),
            time_s: report.collectives[0].time_s?,
            marks: outcome.marks(0).into_iter().map(seconds).collect(),
            to_mark: [to_mark(0), to_mark(1)],
            controlled: control_acted(report),
            others_start_s: others_start_s(plan),
        })
    }

    /// When `rank` was at a mark of a stretch.
    fn at(rank: &[f64], stretch: usize, mark: usize) -> f64 {
        rank[stretch * MARKS as usize + mark]
    }

    /// Steps that send between two marks of a stretch.
    fn sends_between(&self, stretch: usize, [from, to]: [usize; 2]) -> f64 {
        (self.to_mark[stretch][to] - self.to_mark[stretch][from]).max(1.0)
    }

    /// Time of a step that sends, in a window of a stretch: of each rank.
    fn paces(&self, stretch: usize, window: [usize; 2]) -> Vec<f64> {
        let sends = self.sends_between(stretch, window);
        let between = |rank: &Vec<f64>| {
            Part::at(rank, stretch, window[1]) - Part::at(rank, stretch, window[0])
        };
        self.marks.iter().map(|rank| between(rank) / sends).collect()
    }

    /// The same of the slowest: from when all ranks were at the first mark until all were at the
    /// second.
    fn pace_of_last(&self, stretch: usize, window: [usize; 2]) -> f64 {
        let [from, to] = window.map(|mark| self.all_at(stretch, mark));
        (to - from) / self.sends_between(stretch, window)
    }

    /// When the last rank was at a mark of a stretch.
    fn all_at(&self, stretch: usize, mark: usize) -> f64 {
        self.marks.iter().map(|rank| Part::at(rank, stretch, mark)).fold(0.0, f64::max)
    }

    /// When the first rank was.
    fn any_at(&self, stretch: usize, mark: usize) -> f64 {
        self.marks.iter().map(|rank| Part::at(rank, stretch, mark)).fold(f64::INFINITY, f64::min)
    }
}

fn control_acted(report: &Report) -> bool {
    report.totals.cnp_handled > 0
}

fn others_start_s(plan: &Plan) -> f64 {
    let flows = plan.wiring.qps.iter().filter(|qp| matches!(qp.role, Role::Flow { .. }));
    flows.map(|qp| qp.start.as_secs()).fold(0.0, f64::max)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// What is known of a stretch that is cut.
#[derive(Clone, Copy, Debug)]
struct Steady {
    /// Time of a step that sends.
    step_s: f64,
    /// The farthest pace of a window from it, as a share: of the mean of the ranks,
    repeats: f64,
    /// and of one rank over the last two.
    spread: f64,
    /// Standard deviation of the pace of a quarter of the part, as a share.
    noise: f64,
    /// Of the last windows, what one differs from the one before, as a share.
    drift: f64,
    /// What the end takes more than such steps, or less.
    end_s: f64,
}

impl Steady {
    fn new(part: &Part, stretch: usize) -> Self {
        let step_s = part.pace_of_last(stretch, STEADY);
        let windows = WINDOWS.map(|window| mean(&part.paces(stretch, window)) / step_s);
        let ranks = part.paces(stretch, STEADY);
        let off = |pace: f64| (pace - 1.0).abs();
        // what is left after the last window, less what it would take at this pace
        let left = part.sends[stretch] - part.to_mark[stretch][STEADY[1]];
        let end = part.all_at(stretch, MARKS as usize - 1) - part.all_at(stretch, STEADY[1]);
        Steady {
            step_s,
            repeats: windows.into_iter().map(off).fold(0.0, f64::max),
            spread: ranks.into_iter().map(|pace| off(pace / step_s)).fold(0.0, f64::max),
            noise: noise(part, stretch, windows) / mean(&windows),
            drift: (windows[2] / windows[1] - 1.0).abs(),
            end_s: end - left * step_s,
        }
    }

    /// The mean of the steady windows is known within so much, and so is that of `rest` quarters.
    fn deviation(&self, rest: f64) -> f64 {
        let quarters = (WINDOWS.len() - 1) as f64;
        self.noise * (1.0 / quarters + 1.0 / rest.max(1.0)).sqrt()
    }
}

/// Standard deviation of the pace of a window, in paces: from the windows themselves, or from what
/// sixteenths differ from the same ones of the window before, whichever is more.
fn noise(part: &Part, stretch: usize, windows: [f64; 3]) -> f64 {
    let deviation = |values: &[f64]| {
        let squares: f64 = values.iter().map(|value| (value - mean(values)).powi(2)).sum();
        (squares / (values.len() - 1) as f64).sqrt()
    };
    let step_s = part.pace_of_last(stretch, STEADY);
    let sixteenth = |mark: usize| mean(&part.paces(stretch, [mark, mark + 1])) / step_s;
    // loops begin at the same places of each window, and what happens there is no noise
    let differences: Vec<f64> =
        (WINDOWS[1][0]..STEADY[1]).map(|mark| sixteenth(mark) - sixteenth(mark - 4)).collect();
    // a difference has twice the variance, the mean of four a quarter of it
    deviation(&windows).max(deviation(&differences) / 8f64.sqrt())
}

/// The time of the whole, if the windows of all ranks agree.
pub(super) fn estimate(part: &Part, whole: Whole) -> Option<Estimate> {
    let (mut rest_s, mut off_s): (f64, f64) = (0.0, 0.0);
    let mut settled = true;
    for i in (0..2).filter(|i| part.sends[*i] < whole.sends[*i]) {
        let steady = Steady::new(part, i);
        let quarter = part.sends[i] / 4.0;
        let rest = whole.sends[i] - part.sends[i];
        if part.others_start_s > part.any_at(i, WINDOWS[0][0]) {
            return None;
        }
        let rest_of_i_s = rest * steady.step_s;
        let mut off = steady.repeats.max(steady.spread);
        let mut within = REPEATS_WITHIN;
        if part.controlled {
            if quarter * steady.step_s < CONTROL_WINDOW_S {
                return None;
            }
            // rates that swing for ever: what they average to is known the better the longer
            let deviation = DEVIATIONS * steady.deviation(rest / quarter);
            off = off.max(deviation);
            within = within.max(DEVIATIONS * steady.noise);
            // should it go on so from window to window
            if steady.drift > DEVIATIONS * 2f64.sqrt() * steady.noise {
                off += steady.drift * (1.0 + rest / quarter) / 2.0;
            }
        }
        settled &= steady.repeats <= within;
        // the end of a part and that of the whole may differ by a step, or by what that end is
        // off; and where the part is within a loop, so may each beginning of a further one
        let further =
            if part.sends[i] < whole.of_loop { whole.sends[i] / whole.of_loop } else { 1.0 };
        off_s += rest_of_i_s * off + (steady.step_s * further).max(steady.end_s.abs());
        rest_s += rest_of_i_s;
    }
    let time_s = part.time_s + rest_s;
    let error = off_s / time_s;
    (settled && error.is_finite() && error <= ERROR_MAX).then_some(Estimate { time_s, error })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two ranks, 160 of 1600 steps, each of 1 ms and what `more` adds by sixteenth.
    fn part(controlled: bool, more: impl Fn(usize) -> f64) -> Part {
        let mut now = 0.0;
        let marks: Vec<f64> = (0..MARKS as usize)
            .map(|mark| {
                now += 10.0 * (1e-3 + more(mark));
                now
            })
            .collect();
        let to_mark = (1..=MARKS).map(|mark| f64::from(mark) * 10.0).collect();
        Part {
            sends: [160.0, 0.0],
            time_s: now,
            marks: vec![marks; 2],
            to_mark: [to_mark, vec![0.0; MARKS as usize]],
            controlled,
            others_start_s: 0.0,
        }
    }

    const WHOLE: Whole = Whole { sends: [1600.0, 0.0], of_loop: 20.0 };

    #[test]
    fn an_even_pace_goes_on() {
        let Estimate { time_s, error } = estimate(&part(false, |_| 0.0), WHOLE).unwrap();
        // off by a step at most
        assert!((time_s - 1.6).abs() < 1e-9 && (error - 1e-3 / 1.6).abs() < 1e-9, "{error}");
        // what recurs in each window is no noise
        let loops = part(true, |mark| if mark % 4 == 0 { 4e-4 } else { 0.0 });
        let Estimate { time_s, error } = estimate(&loops, WHOLE).unwrap();
        assert!((time_s - 1.76).abs() < 1e-9 && error < 3e-3, "{time_s} {error}");
    }

    #[test]
    fn what_becomes_slower_has_not_settled() {
        assert_eq!(estimate(&part(false, |mark| 1e-5 * mark as f64), WHOLE), None);
        assert_eq!(estimate(&part(true, |mark| 1e-5 * mark as f64), WHOLE), None);
        let late = Part { others_start_s: 0.1, ..part(false, |_| 0.0) };
        assert_eq!(estimate(&late, WHOLE), None);
    }

    #[test]
    fn what_swings_is_stated() {
        // up and down by 1 % from sixteenth to sixteenth, with no pattern within a window
        let up = [0, 3, 4, 6, 9, 11, 12, 14];
        let swings =
            |controlled| part(controlled, |mark| if up.contains(&mark) { 1e-5 } else { -1e-5 });
        let error = estimate(&swings(true), WHOLE).unwrap().error;
        let without = estimate(&swings(false), WHOLE).map_or(0.0, |estimate| estimate.error);
        assert!(error > 8e-3 && error > without, "{error} {without}");
        // windows that are too short for congestion control say nothing
        let fast = Part { marks: vec![vec![0.0; 16]; 2], ..swings(true) };
        assert_eq!(estimate(&fast, WHOLE), None);
    }
}
