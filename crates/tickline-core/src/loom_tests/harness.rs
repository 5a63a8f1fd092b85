//! The harness of the models, here and in `machine/tickline-page/src/lease/loom_tests.rs`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use loom::thread;

use super::{Counter, Reference};
use crate::primitive::{AtomicI64, AtomicU64, Ordering};

/// What the executions of a model have seen, and how often. A model in which an event never happens
/// does not check this event.
#[derive(Default)]
pub(super) struct Coverage(Mutex<BTreeMap<String, u64>>);

impl Coverage {
    pub(super) fn saw(&self, event: impl Into<String>) {
        *self.0.lock().unwrap().entry(event.into()).or_default() += 1;
    }
}

/// Runs a model with at most this many preemptions in an execution, or with all of them. Voluntary
/// switches, and switches at a thread's end, do not count. `LOOM_MAX_PREEMPTIONS` overrides the
/// limit. Each event in `wanted` must have happened.
pub(super) fn check(
    preemptions: Option<usize>,
    wanted: &[&str],
    model: impl Fn(&'static Coverage) + Sync + Send + 'static,
) {
    let mut builder = loom::model::Builder::new();
    // The limit of steps in one execution: the longest model has some hundred, most of them before
    // its threads start.
    builder.max_branches = 20_000;
    builder.preemption_bound = builder.preemption_bound.or(preemptions);
    let seen: &'static Coverage = Box::leak(Box::default());
    builder.check(move || {
        seen.saw("execution");
        model(seen);
    });
    let seen = seen.0.lock().unwrap();
    println!("{seen:?}");
    for wanted in wanted {
        assert!(
            seen.contains_key(*wanted),
            "'{wanted}' never happened, so it was not checked: {seen:?}"
        );
    }
}

/// Creates all atomics in `value` (see `primitive.rs`), and shares it. Call this before any thread
/// starts.
pub(super) fn new_shared<T: core::fmt::Debug>(value: T) -> Arc<T> {
    drop(format!("{value:?}"));
    Arc::new(value)
}

/// Starts a thread that runs `action` on the scene, which the threads of a model share.
pub(super) fn spawn<S: Clone + 'static, T: 'static>(
    scene: &S,
    action: impl FnOnce(&S) -> T + 'static,
) -> thread::JoinHandle<T> {
    let scene = scene.clone();
    thread::spawn(move || action(&scene))
}

/// Time: a counter of 1 GHz, and a reference that returns its ticks plus a lead.
///
/// Each read takes time, and sees all effects from before an earlier read returned: this is the
/// meaning of "current when the counter was read". All reads in a model are in one modification
/// order, so AcqRel expresses exactly this.
#[derive(Debug)]
pub(super) struct Time {
    pub(super) ticks: AtomicU64,
    lead_ns: AtomicI64,
}

/// One thread's view of the time, in which each read takes the same number of ticks.
pub(super) struct View<'a> {
    time: &'a Time,
    ticks: u64,
}

impl Time {
    pub(super) const fn new(ticks: u64, lead_ns: i64) -> Self {
        Self {
            ticks: AtomicU64::new(ticks),
            lead_ns: AtomicI64::new(lead_ns),
        }
    }

    /// A view in which each read takes `ticks`.
    pub(super) const fn view(&self, ticks: u64) -> View<'_> {
        View { time: self, ticks }
    }

    /// Lets time pass.
    pub(super) fn pass(&self, ticks: u64) {
        // ORDERING: AcqRel, pairs with all reads.
        self.ticks.fetch_add(ticks, Ordering::AcqRel);
    }

    /// The reference jumps ahead. Only one thread changes the lead.
    pub(super) fn jump(&self, ns: i64) {
        // ORDERING: Relaxed: only this thread changes the value.
        let lead_ns = self.lead_ns.load(Ordering::Relaxed);
        // ORDERING: Release, pairs with the Acquire load in `monotonic_ns`.
        self.lead_ns.store(lead_ns + ns, Ordering::Release);
    }

    /// Lets the counter run on while the reference stands still, so that a line is then ahead. Call
    /// this only before threads start.
    pub(super) fn suspend(&self, ticks: u64) {
        self.pass(ticks);
        self.jump(-i64::try_from(ticks).unwrap());
    }
}

impl Reference for View<'_> {
    fn monotonic_ns(&self) -> i64 {
        let ticks = i64::try_from(self.now_ordered()).unwrap();
        // ORDERING: Acquire, pairs with the Release store in `jump`.
        ticks + self.time.lead_ns.load(Ordering::Acquire)
    }
    fn unix_ns(&self) -> i64 {
        self.monotonic_ns() + 1_000_000
    }
}

impl Counter for View<'_> {
    fn now(&self) -> u64 {
        // ORDERING: AcqRel, pairs with all other reads.
        self.time.ticks.fetch_add(self.ticks, Ordering::AcqRel) + self.ticks
    }
    fn barrier(&self) {}
}
