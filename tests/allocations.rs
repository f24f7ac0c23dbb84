//! Once a run is under way, the packet path asks for no memory, but where a queue outgrows its room.

// a global allocator is unsafe by its nature; this one counts and passes on
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use models::fabric;
use scenarios::resolve::{LoadOptions, Loaded, load};
use scenarios::simulate;

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

thread_local! {
    /// Allocations of this thread.
    static COUNT: Cell<u64> = const { Cell::new(0) };
    /// Whether it is noted where they happen.
    static WATCHED: Cell<bool> = const { Cell::new(false) };
    /// Where the first of them happened.
    static PLACES: RefCell<Vec<Backtrace>> = const { RefCell::new(Vec::new()) };
}

/// So many are noted.
const PLACES_MAX: usize = 500;

fn count() {
    // a thread that ends has no counter any more
    let Ok(before) = COUNT.try_with(|count| count.replace(count.get() + 1)) else { return };
    if WATCHED.get() {
        WATCHED.set(false);
        PLACES.with_borrow_mut(|places| {
            if places.len() < PLACES_MAX {
                places.push(Backtrace::force_capture());
            }
        });
        WATCHED.set(true);
        // what the noting itself took does not count
        COUNT.set(before + 1);
    }
}

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn counted() -> u64 {
    COUNT.get()
}

/// The lines of our own code that asked, with how often, of the allocations that were noted.
fn places() -> String {
    let mut found = BTreeMap::<String, u32>::new();
    for place in PLACES.take() {
        let place = place.to_string();
        let lines = place.lines().filter_map(|line| line.trim().strip_prefix("at "));
        let ours = lines.filter(|line| OURS.iter().any(|folder| line.contains(folder)));
        let ours: Vec<&str> = ours.take(3).collect();
        *found.entry(ours.join(" <- ")).or_default() += 1;
    }
    let lines = found.iter().map(|(place, times)| format!("{times} at {place}\n"));
    lines.collect()
}

/// Folders of the code that runs.
const OURS: [&str; 2] = ["models/src/", "sim-core/src/"];

/// Runs a scenario and counts the allocations in the middle third of its events: how many of so
/// many events, and where.
fn in_the_middle(loaded: &Loaded) -> (u64, u64, String) {
    let plan = simulate::plan(loaded, 1).unwrap();
    // the same events again: a run is deterministic
    let events = fabric::run(&plan, |_| true).unwrap().events;
    let (mut first, mut last) = (None, None);
    let outcome = fabric::run(&plan, |running| {
        // a look at the run, every 65,536 events
        if (events / 3..=2 * events / 3).contains(&running.events) {
            WATCHED.set(true);
            let seen = (running.events, counted());
            first.get_or_insert(seen);
            last = Some(seen);
        } else {
            WATCHED.set(false);
        }
        true
    });
    WATCHED.set(false);
    assert_eq!(outcome.unwrap().events, events);
    let ((from, before), (to, after)) = (first.unwrap(), last.unwrap());
    assert!(to - from >= events / 8, "{from} to {to} of {events} events are too few");
    (after - before, to - from, places())
}

fn library(name: &str) -> Loaded {
    load(name, &LoadOptions::default()).unwrap()
}

#[test]
fn a_collective_under_way_asks_for_no_memory() {
    let (allocations, events, places) = in_the_middle(&library("allreduce-4x8-a100"));
    assert_eq!(allocations, 0, "in {events} events\n{places}");
}

/// Permutation of 2 MB flows on a fat tree of 128 hosts; many paths are shared.
const PERMUTATION: &str = "[topology]\nkind = \"fat-tree\"\nk = 8\n\
    link = { rate = \"100Gbps\", delay = \"1us\" }\n\
    [[traffic]]\nkind = \"permutation\"\nbytes = \"2MB\"\n";

/// Queues and the agenda need room when they become longer than ever, which doubles and stays, and so
/// does the log of pauses; nothing else does.
fn only_longer_queues_ask(loaded: &Loaded) {
    let (allocations, events, places) = in_the_middle(loaded);
    let grows = |place: &str| {
        let files = ["models/src/fifo.rs", "sim-core/src/wheel.rs", "models/src/fabric/pauses.rs"];
        files.iter().any(|file| place.contains(file))
    };
    let other = places.lines().find(|place| !grows(place));
    assert!(other.is_none(), "{places}");
    assert!(allocations * 1000 < events, "{allocations} allocations in {events} events\n{places}");
}

fn scenario(text: &str) -> Loaded {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scenario.toml");
    std::fs::write(&path, text).unwrap();
    load(path.to_str().unwrap(), &LoadOptions::default()).unwrap()
}

#[test]
fn under_pfc_only_longer_queues_ask_for_memory() {
    only_longer_queues_ask(&scenario(&format!("preset = \"htsim\"\n{PERMUTATION}")));
}

#[test]
fn so_it_is_with_ecn_and_dcqcn() {
    let nic = "[switch.ecn.3]\nkmin = \"400KB\"\nkmax = \"1600KB\"\npmax = 0.2\n\
               [nic]\npreset = \"connectx-6-dx\"\n[nic.transport]\nack_every = 1\n";
    only_longer_queues_ask(&scenario(&format!("{PERMUTATION}{nic}")));
    only_longer_queues_ask(&library("allreduce-4x8-a100-congested"));
}

#[test]
fn what_asks_for_memory_is_counted() {
    let before = counted();
    let text = std::hint::black_box(vec![1u8; 100]);
    assert_eq!(counted(), before + 1);
    let more = std::hint::black_box([text, vec![2; 1000]].concat());
    assert_eq!((counted(), more.len()), (before + 3, 1100));
}
