//! The loop that runs a model, whole or split into shards that run in parallel.
//!
//! Time advances in windows. Within a window each shard handles its own events; messages between
//! shards take at least the *lookahead*, so none can be due before the window ends. At a window's
//! edge the shards exchange messages and statuses, and the [`Conductor`] says what comes next.
//! Because `(Time, Event)` is a total order and shards meet only through messages, results are
//! bit-identical for every number of shards; one shard runs the same code without threads.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};

use crate::agenda::{Agenda, Code};
use crate::time::{Delta, Time};

/// One shard of a simulated system.
pub trait Model: Send {
    /// Names a component and what happens to it. The order of its codes breaks ties.
    type Event: Code + Send;
    /// What travels between shards, at least the lookahead ahead of its effect.
    type Message: Send;
    /// What a shard reports at the end of a window; merged over all shards.
    type Status: Clone + Send + Default;

    /// Handles one event at `agenda.now()`.
    fn handle(&mut self, event: Self::Event, agenda: &mut Agenda<Self::Event, Self::Message>);
    /// True if thousands of events will be pending at a time: [`Model::foresee`] is called then.
    fn crowded(&self) -> bool {
        false
    }
    /// `event` will be handled soon: asks for the memory that it will need, first for what can be
    /// found at once (3 calls to go), then for what that leads to (2, 1).
    #[inline]
    fn foresee(&self, _event: Self::Event, _calls: usize) {}
    /// When a message has its first effect.
    fn due(message: &Self::Message) -> Time;
    /// Takes a message from another shard.
    fn accept(&mut self, message: Self::Message, agenda: &mut Agenda<Self::Event, Self::Message>);
    /// Does what the timeline holds for `time`; every earlier event has been handled.
    fn global(&mut self, time: Time, agenda: &mut Agenda<Self::Event, Self::Message>);
    /// Brings the state up to `time`, before somebody looks: every earlier event has been handled.
    fn settle(&mut self, _time: Time, _agenda: &mut Agenda<Self::Event, Self::Message>) {}
    /// The state of this shard.
    fn status(&self) -> Self::Status;
}

/// Decides, at the edge of each window, what the shards do next.
///
/// Every shard asks its own clone, so the answer must depend on nothing but the arguments.
pub trait Conductor<S>: Clone + Send {
    /// The status of all shards from those of two parts.
    fn merge(&self, a: S, b: S) -> S;
    /// The next step, where every event before `limits.now` has been handled.
    fn step(&mut self, status: &S, limits: Limits) -> Step;
}

/// What a [`Conductor`] may look at beside the status.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Every event before this instant has been handled.
    pub now: Time,
    /// The earliest pending event, if any.
    pub next_event: Option<Time>,
}

/// What the shards do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Handle events before `end`, at most `span` beyond the next event, then ask again.
    Run {
        /// Exclusive.
        end: Time,
        /// How far beyond the next event the window may reach.
        span: Delta,
    },
    /// Call [`Model::global`] for this instant on every shard, then ask again.
    Global(Time),
    /// End the run, for this reason.
    Stop(u32),
}

/// What the run's owner sees from time to time.
#[derive(Clone, Debug)]
pub struct Control<S> {
    /// Simulated time reached.
    pub now: Time,
    /// Events handled so far by all shards.
    pub events: u64,
    /// The merged status.
    pub status: S,
}

/// Why [`Engine::run`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The conductor said so, for this reason.
    Conductor(u32),
    /// The run's owner said so.
    Owner,
}

/// The shards of a model, and how far apart they are.
pub struct Engine<M: Model> {
    shards: Vec<Shard<M>>,
    lookahead: Delta,
}

struct Shard<M: Model> {
    model: M,
    /// What [`Model::crowded`] says.
    crowded: bool,
    agenda: Agenda<M::Event, M::Message>,
    events: u64,
}

/// Events that a lone shard handles between two looks at its owner.
const BATCH: u64 = 1 << 16;

impl<M: Model> Engine<M> {
    /// An engine over `models`, one a shard. No message may arrive sooner than `lookahead`
    /// (which is not used, and may be zero, with one shard) after it was sent.
    pub fn new(models: Vec<M>, lookahead: Delta) -> Self {
        assert!(models.len() == 1 || !lookahead.is_zero(), "shards need a lookahead");
        let shards = models
            .into_iter()
            .map(|model| {
                let crowded = model.crowded();
                Shard { model, crowded, agenda: Agenda::new(crowded), events: 0 }
            })
            .collect();
        Engine { shards, lookahead }
    }

    /// Lets `plant` schedule the first events of every shard.
    pub fn plant(&mut self, plant: impl Fn(&mut M, &mut Agenda<M::Event, M::Message>)) {
        for shard in &mut self.shards {
            plant(&mut shard.model, &mut shard.agenda);
        }
    }

    /// Events handled so far.
    pub fn events(&self) -> u64 {
        self.shards.iter().map(|shard| shard.events).sum()
    }

    /// The models, in the order in which they were given.
    pub fn into_models(self) -> Vec<M> {
        self.shards.into_iter().map(|shard| shard.model).collect()
    }

    /// Runs until `conductor` stops it, or `owner` returns false; also returns the conductor as it is
    /// then, which is the same for every number of shards.
    pub fn run<C, F>(&mut self, conductor: &C, owner: F) -> (Stop, C)
    where
        C: Conductor<M::Status>,
        F: FnMut(&Control<M::Status>) -> bool + Send,
    {
        if self.shards.len() == 1 {
            run_alone(&mut self.shards[0], conductor.clone(), owner)
        } else {
            run_together(&mut self.shards, self.lookahead, conductor, owner)
        }
    }
}

impl<M: Model> Shard<M> {
    /// Handles up to `count` events before `end`; true if there may be more.
    fn handle(&mut self, end: Time, count: u64) -> bool {
        let limit = self.events.saturating_add(count);
        while self.events < limit {
            let Some(event) = self.agenda.pop_before(end) else { return false };
            if self.crowded {
                self.foresee();
            }
            self.model.handle(event, &mut self.agenda);
            self.events += 1;
        }
        true
    }

    /// Lets the model ask for the memory of what comes next.
    #[inline]
    fn foresee(&self) {
        if let Some(event) = self.agenda.ahead(3) {
            self.model.foresee(event, 1);
            if let Some(event) = self.agenda.ahead(7) {
                self.model.foresee(event, 2);
            }
            if let Some(event) = self.agenda.ahead(11) {
                self.model.foresee(event, 3);
            }
        }
    }
}

fn run_alone<M, C, F>(shard: &mut Shard<M>, mut conductor: C, mut owner: F) -> (Stop, C)
where
    M: Model,
    C: Conductor<M::Status>,
    F: FnMut(&Control<M::Status>) -> bool,
{
    let mut now = Time::ZERO;
    let mut seen = 0;
    loop {
        let status = shard.model.status();
        let limits = Limits { now, next_event: shard.agenda.next_time() };
        match conductor.step(&status, limits) {
            Step::Stop(reason) => {
                shard.model.settle(now, &mut shard.agenda);
                return (Stop::Conductor(reason), conductor);
            }
            Step::Global(time) => shard.model.global(time, &mut shard.agenda),
            Step::Run { end, span } => {
                let end = window_end(limits.next_event, end, span);
                while shard.handle(end, BATCH) {
                    seen = shard.events;
                    let status = shard.model.status();
                    let now = shard.agenda.now();
                    if !owner(&Control { now, events: shard.events, status }) {
                        shard.model.settle(now, &mut shard.agenda);
                        return (Stop::Owner, conductor);
                    }
                }
                shard.agenda.advance(end.min(Time::MAX));
                now = end;
                if shard.events - seen >= BATCH {
                    seen = shard.events;
                    let status = shard.model.status();
                    if !owner(&Control { now, events: shard.events, status }) {
                        shard.model.settle(now, &mut shard.agenda);
                        return (Stop::Owner, conductor);
                    }
                }
            }
        }
    }
}

/// The end of a window that may reach `span` beyond the next event, and `end`.
fn window_end(next_event: Option<Time>, end: Time, span: Delta) -> Time {
    next_event.map_or(end, |next| next.saturating_add(span).min(end))
}

/// What one shard publishes at a window's edge, and what it has for the others.
struct Edge<M: Model> {
    status: M::Status,
    /// The earliest event here or message from here.
    next_event: Option<Time>,
    events: u64,
    /// The run's owner has had enough.
    stopped: bool,
    /// By shard.
    messages: Vec<Vec<M::Message>>,
}

/// Edges by window parity and shard. A shard that writes the next window's edge does not disturb
/// those that still read this one's, and cannot be further ahead, so one barrier a window is enough.
struct Shared<M: Model> {
    barrier: Barrier,
    edges: [Vec<Mutex<Edge<M>>>; 2],
}

impl<M: Model> Shared<M> {
    fn new(count: usize) -> Self {
        let edge = || Edge {
            status: M::Status::default(),
            next_event: None,
            events: 0,
            stopped: false,
            messages: (0..count).map(|_| Vec::new()).collect(),
        };
        let edges = || (0..count).map(|_| Mutex::new(edge())).collect();
        Shared { barrier: Barrier::new(count), edges: [edges(), edges()] }
    }
}

/// All edges of a window together.
#[derive(Clone, Default)]
struct Merged<S> {
    status: S,
    next_event: Option<Time>,
    events: u64,
    stopped: bool,
}

fn run_together<M, C, F>(
    shards: &mut [Shard<M>],
    lookahead: Delta,
    conductor: &C,
    owner: F,
) -> (Stop, C)
where
    M: Model,
    C: Conductor<M::Status>,
    F: FnMut(&Control<M::Status>) -> bool + Send,
{
    let shared: Shared<M> = Shared::new(shards.len());
    std::thread::scope(|scope| {
        let mut owner = Some(owner);
        let mut threads = Vec::new();
        for (index, shard) in shards.iter_mut().enumerate() {
            let (shared, conductor, owner) = (&shared, conductor.clone(), owner.take());
            threads.push(
                scope.spawn(move || run_shard(index, shard, lookahead, conductor, owner, shared)),
            );
        }
        let stops = threads.into_iter().map(|thread| match thread.join() {
            Ok(stop) => stop,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        stops.last().expect("there are shards")
    })
}

/// One shard's thread; only the first has the owner's ear.
fn run_shard<M, C, F>(
    index: usize,
    shard: &mut Shard<M>,
    lookahead: Delta,
    mut conductor: C,
    mut owner: Option<F>,
    shared: &Shared<M>,
) -> (Stop, C)
where
    M: Model,
    C: Conductor<M::Status>,
    F: FnMut(&Control<M::Status>) -> bool,
{
    let _poison = PoisonOnPanic(&shared.barrier);
    let mut now = Time::ZERO;
    let mut heard = 0;
    let mut stopped = false;
    for edges in shared.edges.iter().cycle() {
        shard.publish(&mut lock(&edges[index]), stopped);
        shared.barrier.wait();
        let edge = merge(&conductor, edges);
        for sender in edges {
            let mut sender = lock(sender);
            for message in sender.messages[index].drain(..) {
                shard.model.accept(message, &mut shard.agenda);
            }
        }
        if edge.stopped {
            shard.model.settle(now, &mut shard.agenda);
            return (Stop::Owner, conductor);
        }
        if let Some(owner) = &mut owner
            && edge.events - heard >= BATCH
        {
            heard = edge.events;
            let status = edge.status.clone();
            stopped = !owner(&Control { now, events: edge.events, status });
        }
        let limits = Limits { now, next_event: edge.next_event };
        match conductor.step(&edge.status, limits) {
            Step::Run { end, span } => {
                let end = window_end(edge.next_event, end, span.min(lookahead));
                shard.handle(end, u64::MAX);
                shard.agenda.advance(end);
                now = end;
            }
            Step::Stop(reason) => {
                shard.model.settle(now, &mut shard.agenda);
                return (Stop::Conductor(reason), conductor);
            }
            Step::Global(time) => shard.model.global(time, &mut shard.agenda),
        }
    }
    unreachable!("windows follow each other until one of them is the last")
}

impl<M: Model> Shard<M> {
    /// Fills in this shard's edge of a window.
    fn publish(&mut self, edge: &mut Edge<M>, stopped: bool) {
        let mut next_event = self.agenda.next_time();
        for (target, message) in self.agenda.drain_outbox() {
            let due = M::due(&message);
            next_event = Some(next_event.map_or(due, |next| next.min(due)));
            edge.messages[target].push(message);
        }
        edge.status = self.model.status();
        (edge.next_event, edge.events, edge.stopped) = (next_event, self.events, stopped);
    }
}

fn merge<M: Model, C: Conductor<M::Status>>(c: &C, edges: &[Mutex<Edge<M>>]) -> Merged<M::Status> {
    let edges = edges.iter().map(|edge| {
        let edge = lock(edge);
        let Edge { next_event, events, stopped, .. } = *edge;
        Merged { status: edge.status.clone(), next_event, events, stopped }
    });
    let earliest = |a: Option<Time>, b: Option<Time>| a.into_iter().chain(b).min();
    edges
        .reduce(|a, b| Merged {
            status: c.merge(a.status, b.status),
            next_event: earliest(a.next_event, b.next_event),
            events: a.events + b.events,
            stopped: a.stopped || b.stopped,
        })
        .unwrap_or_default()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("no shard panics while it holds a lock")
}

/// A barrier that spins, for windows are short, then yields and sleeps, for pure spinning is
/// ruinous on a busy machine.
struct Barrier {
    count: usize,
    arrived: AtomicUsize,
    generation: AtomicUsize,
    poisoned: AtomicBool,
    /// How many sleep.
    sleepers: Mutex<usize>,
    wake: Condvar,
}

const SPINS: u32 = 4000;
const YIELDS: u32 = 20;

impl Barrier {
    fn new(count: usize) -> Self {
        Barrier {
            count,
            arrived: AtomicUsize::new(0),
            generation: AtomicUsize::new(0),
            poisoned: AtomicBool::new(false),
            sleepers: Mutex::new(0),
            wake: Condvar::new(),
        }
    }

    fn wait(&self) {
        let generation = self.generation.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.count {
            self.arrived.store(0, Ordering::Relaxed);
            let sleepers = lock(&self.sleepers);
            self.generation.store(generation.wrapping_add(1), Ordering::Release);
            if *sleepers > 0 {
                self.wake.notify_all();
            }
            return;
        }
        for turn in 0..SPINS + YIELDS {
            if self.passed(generation) {
                return;
            }
            if turn < SPINS {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
        let mut sleepers = lock(&self.sleepers);
        *sleepers += 1;
        while !self.passed(generation) {
            sleepers = self.wake.wait(sleepers).expect("no shard panics while it holds a lock");
        }
        *sleepers -= 1;
    }

    fn passed(&self, generation: usize) -> bool {
        assert!(!self.poisoned.load(Ordering::Relaxed), "another shard panicked");
        self.generation.load(Ordering::Acquire) != generation
    }

    fn poison(&self) {
        self.poisoned.store(true, Ordering::Relaxed);
        // nobody may fall asleep after this without having seen it
        drop(self.sleepers.lock());
        self.wake.notify_all();
    }
}

/// Wakes the other shards if this one panics.
struct PoisonOnPanic<'a>(&'a Barrier);

impl Drop for PoisonOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.poison();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes on a circle pass tokens on; each node folds what it saw into a digest.
    struct Circle {
        first: u32,
        digests: Vec<u64>,
        total: u32,
        inbox: Vec<Vec<(Time, u64)>>,
        shards: u32,
    }

    const HOP: Delta = Delta::from_ns(7);

    impl Circle {
        fn shard_of(&self, node: u32) -> u32 {
            node * self.shards / self.total
        }
    }

    impl Model for Circle {
        type Event = u32;
        type Message = (u32, Time, u64);
        type Status = ();

        fn handle(&mut self, node: u32, agenda: &mut Agenda<u32, Self::Message>) {
            let now = agenda.now();
            let slot = (node - self.first) as usize;
            let due: Vec<u64> = {
                let inbox = &mut self.inbox[slot];
                let due = inbox.iter().filter(|m| m.0 == now).map(|m| m.1).collect();
                inbox.retain(|m| m.0 != now);
                due
            };
            for token in due {
                let digest = &mut self.digests[slot];
                *digest = digest.rotate_left(5) ^ token ^ now.ps();
                let next = (node + 1 + (token % 3) as u32) % self.total;
                let message = (next, now + HOP + Delta::from_ps(*digest % 50), token + 1);
                if self.shard_of(next) == self.shard_of(node) {
                    self.accept(message, agenda);
                } else {
                    agenda.send(self.shard_of(next) as usize, message);
                }
            }
        }

        fn due(message: &Self::Message) -> Time {
            message.1
        }

        fn accept(&mut self, message: Self::Message, agenda: &mut Agenda<u32, Self::Message>) {
            let (node, time, token) = message;
            let inbox = &mut self.inbox[(node - self.first) as usize];
            if !inbox.iter().any(|m| m.0 == time) {
                agenda.at(time, node);
            }
            inbox.push((time, token));
            inbox.sort();
        }

        fn global(&mut self, time: Time, _: &mut Agenda<u32, Self::Message>) {
            for digest in &mut self.digests {
                *digest = digest.wrapping_mul(31) ^ time.ps();
            }
        }

        fn status(&self) {}
    }

    #[derive(Clone)]
    struct Until {
        end: Time,
        global: Option<Time>,
    }

    impl Conductor<()> for Until {
        fn merge(&self, (): (), (): ()) {}
        fn step(&mut self, (): &(), limits: Limits) -> Step {
            match self.global {
                Some(time) if limits.now == time => {
                    self.global = None;
                    Step::Global(time)
                }
                _ if limits.now >= self.end => Step::Stop(7),
                global => Step::Run { end: global.unwrap_or(self.end), span: Delta::MAX },
            }
        }
    }

    fn digests(shards: u32) -> (Vec<u64>, u64) {
        let total = 12;
        let owned = |shard| (0..total).filter(move |node| node * shards / total == shard);
        let models = (0..shards)
            .map(|shard| {
                let nodes: Vec<u32> = owned(shard).collect();
                let empty = vec![Vec::new(); nodes.len()];
                Circle {
                    first: nodes[0],
                    digests: vec![1; nodes.len()],
                    total,
                    inbox: empty,
                    shards,
                }
            })
            .collect();
        let mut engine = Engine::new(models, HOP);
        engine.plant(|circle, agenda| {
            for node in circle.first..circle.first + circle.digests.len() as u32 {
                circle.accept((node, Time::from_ps(u64::from(node)), u64::from(node)), agenda);
            }
        });
        let until = Until { end: Time::from_ps(3_000_000), global: Some(Time::from_ps(999_999)) };
        assert_eq!(engine.run(&until, |_| true).0, Stop::Conductor(7));
        let events = engine.events();
        (engine.into_models().into_iter().flat_map(|circle| circle.digests).collect(), events)
    }

    #[test]
    fn any_number_of_shards_gives_the_same_result() {
        let alone = digests(1);
        assert!(alone.1 > 4_000, "{}", alone.1);
        for shards in [2, 3, 4] {
            assert_eq!(digests(shards), alone, "{shards} shards");
        }
    }

    #[test]
    fn the_owner_can_stop_a_run() {
        let circle =
            Circle { first: 0, digests: vec![1], total: 1, inbox: vec![vec![]], shards: 1 };
        let mut engine = Engine::new(vec![circle], HOP);
        engine.plant(|circle, agenda| circle.accept((0, Time::ZERO, 0), agenda));
        let until = Until { end: Time::MAX, global: None };
        assert_eq!(engine.run(&until, |control| control.events < 200_000).0, Stop::Owner);
    }
}
