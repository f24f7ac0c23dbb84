//! Ctrl-C: the first asks for an end, the second ends at once.

use std::sync::atomic::{AtomicBool, Ordering};

use scenarios::simulate::Verdict;

use super::INTERRUPTED;

static ASKED: AtomicBool = AtomicBool::new(false);

/// Watches for Ctrl-C from now on.
pub(super) fn watch() {
    let _ = ctrlc::set_handler(|| {
        if ASKED.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(INTERRUPTED));
        }
    });
}

/// What to do.
pub(super) fn verdict() -> Verdict {
    match ASKED.load(Ordering::Relaxed) {
        true => Verdict::Interrupt,
        false => Verdict::GoOn,
    }
}
