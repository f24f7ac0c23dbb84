//! What is shown while a run takes its time.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use models::fabric::{Plan, Running};
use scenarios::simulate::Estimate;

/// Packet-hops per second that an estimate assumes.
const ASSUMED_RATE: f64 = 3e6;
/// Runs that are expected to take less show nothing.
const WORTH_SHOWING: Duration = Duration::from_secs(2);

/// A progress bar with the time that is left, on stderr.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    quiet: bool,
    begin: Instant,
    shown: Instant,
    payload_bytes: f64,
    end_s: f64,
}

impl Progress {
    /// Announces a long run.
    pub(super) fn new(plan: &Plan, estimate: &Estimate, quiet: bool) -> Self {
        let seconds = estimate.packet_hops / ASSUMED_RATE;
        if !quiet && seconds > WORTH_SHOWING.as_secs_f64() {
            let millions = estimate.packet_hops / 1e6;
            eprintln!("about {millions:.0} M packet-hops, {seconds:.0} s");
        }
        let now = Instant::now();
        let endless = plan.spec.flows.iter().any(|flow| flow.bytes.is_none());
        let stop = plan.spec.stop;
        let end = if endless { stop.after.or(stop.limit) } else { None };
        Progress {
            bar: None,
            quiet,
            begin: now,
            shown: now,
            payload_bytes: estimate.payload_bytes,
            end_s: end.map_or(0.0, |end| end.as_secs()),
        }
    }

    /// Shows how far the run is, at most ten times a second and only if it takes long.
    pub(super) fn show(&mut self, running: &Running) {
        let now = Instant::now();
        let soon = now - self.begin < WORTH_SHOWING;
        if self.quiet || soon || now - self.shown < Duration::from_millis(100) {
            return;
        }
        self.shown = now;
        if !std::io::stderr().is_terminal() {
            return;
        }
        let share = if self.end_s > 0.0 {
            running.now.as_secs() / self.end_s
        } else {
            running.tally.delivered_bytes as f64 / self.payload_bytes.max(1.0)
        };
        let bar = self.bar.get_or_insert_with(|| {
            let style = "{bar:40} {percent:>3} %  {msg}  {eta} left";
            let style = ProgressStyle::with_template(style);
            let bar = ProgressBar::new(1000);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.with_elapsed(now - self.begin)
        });
        bar.set_message(format!("{} simulated", running.now));
        bar.set_position((share.clamp(0.0, 1.0) * 1000.0) as u64);
    }

    /// Takes the bar away.
    pub(super) fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// The same for work in equal steps.
pub(super) struct Steps {
    bar: Option<ProgressBar>,
    what: &'static str,
    begin: Instant,
}

impl Steps {
    /// Steps through `what`, such as `cables`.
    pub(super) fn new(what: &'static str) -> Self {
        Steps { bar: None, what, begin: Instant::now() }
    }

    /// So many of so many are done.
    pub(super) fn show(&mut self, done: usize, all: usize) {
        self.show_with(done, all, "");
    }

    /// The same with a remark.
    pub(super) fn show_with(&mut self, done: usize, all: usize, remark: &str) {
        if self.begin.elapsed() < WORTH_SHOWING || !std::io::stderr().is_terminal() {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("{bar:40} {pos} of {len} {msg}  {eta} left");
            let bar = ProgressBar::new(all as u64).with_message(self.what);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.with_elapsed(self.begin.elapsed())
        });
        bar.set_message(format!("{}{remark}", self.what));
        bar.set_position(done as u64);
    }

    /// Takes the bar away.
    pub(super) fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// The same for work whose amount is not known before: what is done, and of how much about.
pub(super) struct Count {
    steps: Steps,
    quiet: bool,
    expected: usize,
}

impl Count {
    /// Counts `what`, such as `simulations`.
    pub(super) fn new(what: &'static str, quiet: bool) -> Self {
        Count { steps: Steps::new(what), quiet, expected: 0 }
    }

    /// So many are done, of so many about.
    pub(super) fn show(&mut self, done: usize, expected: usize) {
        if self.quiet {
            return;
        }
        self.expected = self.expected.max(expected).max(done);
        self.steps.show(done, self.expected);
        if let Some(bar) = &self.steps.bar {
            bar.set_length(self.expected as u64);
        }
    }

    /// Takes the bar away.
    pub(super) fn finish(&mut self) {
        self.steps.finish();
    }
}
