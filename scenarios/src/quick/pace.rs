//! From two parts of a collective, one twice as long as the other, to the time of the whole and
//! what it may be off by.

use models::collective::{Job, MARKS, Program};
use models::fabric::{Plan, Role};
use models::report::Report;

use crate::simulate::Run;

/// Windows and lengths repeat if they agree within this.
const REPEATS_WITHIN: f64 = 0.005;
/// An answer that may be off by more is not given.
const ERROR_MAX: f64 = 0.02;
/// Where congestion control has acted, windows are at least so long: it recovers over milliseconds.
const CONTROL_WINDOW_S: f64 = 3e-3;
/// The windows that are compared, between these marks of the longer part: its second and third
/// quarter. The last one holds the end of the part.
const WINDOWS: [[u32; 2]; 2] = [[MARKS / 4 - 1, MARKS / 2 - 1], [MARKS / 2 - 1, MARKS * 3 / 4 - 1]];

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
        let Run { plan, outcome, report } = run;
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

    /// Time of a step that sends, in a window of a stretch: of each rank.
    fn periods(&self, stretch: usize, [from, to]: [u32; 2]) -> Vec<f64> {
        let sends = self.to_mark[stretch][to as usize] - self.to_mark[stretch][from as usize];
        let at = |mark: u32| (stretch as u32 * MARKS + mark) as usize;
        self.marks.iter().map(|marks| (marks[at(to)] - marks[at(from)]) / sends.max(1.0)).collect()
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

/// The time of the whole, if both windows of all ranks of the longer part, and the two lengths,
/// agree.
pub(super) fn estimate(short: &Part, long: &Part, whole: Whole) -> Option<Estimate> {
    let cut: Vec<usize> = (0..2).filter(|i| long.sends[*i] < whole.sends[*i]).collect();
    let windows = |stretch: usize| WINDOWS.map(|window| long.periods(stretch, window));
    let period = |stretch: usize| mean(&windows(stretch)[1]);
    // what the longer one takes more than the shorter one, over what its last window says
    let expected: f64 = cut.iter().map(|i| (long.sends[*i] - short.sends[*i]) * period(*i)).sum();
    let ratio = (long.time_s - short.time_s) / expected;
    if !ratio.is_finite() || ratio <= 0.0 {
        return None;
    }
    let (mut spread, mut repeats, mut drift): (f64, f64, f64) = (0.0, 0.0, 0.0);
    let (mut rest_s, mut wandered_s, mut step_s): (f64, f64, f64) = (0.0, 0.0, 0.0);
    for i in cut {
        let step = period(i) * ratio;
        let [before, after] = windows(i);
        let off = |period: f64| (period / step - 1.0).abs();
        // over both windows: how far a rank is ahead at a mark counts less
        let both = long.periods(i, [WINDOWS[0][0], WINDOWS[1][1]]);
        spread = both.into_iter().map(off).fold(spread, f64::max);
        repeats = repeats.max(off(mean(&before))).max(off(mean(&after)));
        drift = drift.max((mean(&after) / mean(&before) - 1.0).abs());
        let rest = whole.sends[i] - long.sends[i];
        let begin = long.marks.iter().map(|marks| marks[i * MARKS as usize + 3]);
        if long.others_start_s > begin.fold(f64::INFINITY, f64::min) {
            return None;
        }
        if long.controlled {
            if long.sends[i] / 4.0 * step < CONTROL_WINDOW_S {
                return None;
            }
            // should it go on so from window to window
            wandered_s += rest * step * drift * (1.0 + rest / (long.sends[i] / 4.0)) / 2.0;
        }
        // the end of a part and that of the whole may differ by a step, and where the part is
        // within a loop, so may each beginning of a further one
        let further =
            if long.sends[i] < whole.of_loop { whole.sends[i] / whole.of_loop } else { 1.0 };
        step_s += step * further;
        rest_s += rest * step;
    }
    let time_s = long.time_s + rest_s;
    let error = (rest_s * spread.max(repeats) + wandered_s + step_s) / time_s;

    let settled = repeats <= REPEATS_WITHIN && error <= ERROR_MAX;
    settled.then_some(Estimate { time_s, error })
}
