//! The engine of one clock: the data that its readers and its driver share, and the fast path of
//! every reading.
//!
//! The fast path is one call of [`SharedClock::read_ns`] or of a similar method. If that call
//! returns `None`, the slow path takes over: [`Engine::now_slow`] and similar functions
//! (`engine/slow.rs`).

use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::sync::Arc;

use once_cell::race::OnceBox;
use tickline_core::cell::LineCell;
use tickline_core::control::{Cadence, Iteration};
use tickline_core::counter::HardwareCounter;
use tickline_core::driver::{DrivenClock, Next};
use tickline_core::gate::{Gate, Trust};
use tickline_core::reference::Reference;
use tickline_core::shared::{BoundedReading, SharedClock, SlowReading};
use tickline_core::try_lock::{LockGuard, TryLock};

use crate::backend::Backend;
use crate::per_cpu::CpuLines;
use crate::settings::{DEFAULT_INTERVAL_NS, Driver, Probes, Settings};
use crate::sys::reference::{OsClock, ProbedOsClock};
use crate::sys::{self, COUNTER};
use crate::trust::facts::Collector;

mod environment;
mod gates;
mod per_cpu;
mod registration;
mod slow;
mod status;

pub(crate) use environment::learn_environment;
use registration::Registration;

/// The engine of the global clock.
pub(crate) static GLOBAL: Engine = Engine::new(Driver::Reader);

/// The time of something that has not happened, ns.
const NEVER: i64 = i64::MIN;

/// The time after which a driver that holds a lock counts as stopped, ns. It holds it for
/// microseconds, and for milliseconds while it is preempted or calibrates CPUs.
const STOPPED_AFTER_NS: i64 = 1_000_000_000;

/// The engine of one clock, which may be in static memory. The line comes first: the address of the
/// global engine is then that of its state, and a reading adds no offset.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Engine {
    pub(crate) clock: DrivenClock,
    /// The lines of the CPUs, once a thread has wanted one for each. They are next to the keeper,
    /// which their readers also load. Not a std `OnceLock`: a child that is forked while a thread
    /// initialises it would wait for that thread, which does not exist in the child.
    cpu_lines: OnceBox<CpuLines>,
    /// The facts that readers have collected for the next judgement.
    collector: TryLock<Collector>,
    /// The time since which every driver was refused an iteration, although no gate was closed, ns;
    /// [`NEVER`] if the last one was not.
    refused_since_ns: AtomicI64,
    /// Whether the program drives this clock while it has no thread; otherwise readers do.
    is_manual: bool,
    /// The clock's thread.
    pub(crate) registration: Registration,
    /// Whether the program has asked for minimal probes.
    has_minimal_probes: AtomicBool,
    interval_ns: AtomicU64,
    /// The settings `trust`, as a number, and `assume_invariant`.
    trust: AtomicU8,
    assume_invariant: AtomicBool,
    /// The reason of each gate: its index in `Reason::ALL` plus 1, and `WARNING` if the gate is open
    /// and warns; 0 for an open gate.
    verdicts: [AtomicU8; Gate::ALL.len()],
    /// The costs in the facts of the last judgement: the fields of `Cost`, ps; 0 if unknown.
    costs_ps: [AtomicU64; 3],
    /// The backend that serves readings. With one, the engine has no line, and stays disabled.
    pub(crate) backend: Option<Arc<dyn Backend>>,
}

const _: () = assert!(
    core::mem::offset_of!(Engine, clock) == 0
        && core::mem::offset_of!(DrivenClock, shared) == 0
        && core::mem::offset_of!(SharedClock, cell) == 0,
    "a reading would add an offset"
);

impl Engine {
    /// An engine with the default settings, except for the driver.
    pub(crate) const fn new(driver: Driver) -> Self {
        Self {
            clock: DrivenClock::new(SharedClock::new(LineCell::with_high_water_mark(0))),
            cpu_lines: OnceBox::new(),
            collector: TryLock::new(Collector::new()),
            refused_since_ns: AtomicI64::new(NEVER),
            is_manual: matches!(driver, Driver::Manual),
            registration: Registration::new(),
            has_minimal_probes: AtomicBool::new(false),
            interval_ns: AtomicU64::new(DEFAULT_INTERVAL_NS),
            trust: AtomicU8::new(Trust::Auto as u8),
            assume_invariant: AtomicBool::new(false),
            verdicts: [const { AtomicU8::new(0) }; Gate::ALL.len()],
            costs_ps: [const { AtomicU64::new(0) }; 3],
            backend: None,
        }
    }

    /// Lets `backend` serve all readings from now on.
    pub(crate) fn set_backend(&mut self, backend: Arc<dyn Backend>) {
        self.disable();
        self.backend = Some(backend);
    }

    // ---- readings -----------------------------------------------------------------------------

    #[inline(always)]
    pub(crate) fn now_ns(&self) -> u64 {
        self.read(|counter| self.clock.shared.read_ns(counter), Self::now_slow)
    }

    #[inline(always)]
    pub(crate) fn now_ordered_ns(&self) -> u64 {
        self.read(
            |counter| self.clock.shared.read_ordered_ns(counter),
            Self::now_ordered_slow,
        )
    }

    #[inline(always)]
    pub(crate) fn unix_ns(&self) -> u64 {
        self.read(
            |counter| self.clock.shared.read_unix_ns(counter),
            Self::unix_slow,
        )
    }

    /// The time by the common line, or by `slow_path` if the fast path returns `None`. `slow_path`
    /// is not generic, so it is compiled once, in this crate. It never unwinds, which `extern "C"`
    /// declares, so the call is a jump, and the fast path touches no stack.
    #[inline(always)]
    fn read(
        &self,
        fast_path: impl FnOnce(&HardwareCounter) -> Option<i64>,
        slow_path: extern "C" fn(&Self) -> u64,
    ) -> u64 {
        match COUNTER.and_then(|counter| fast_path(&counter)) {
            Some(ns) => to_unsigned(ns),
            None => slow_path(self),
        }
    }

    /// An ordered read of the counter, ticks; `None` if the fast path can't serve a reading.
    #[inline]
    pub(crate) fn ticks_ordered(&self) -> Option<u64> {
        COUNTER.and_then(|counter| self.clock.shared.read_ordered_ticks(&counter))
    }

    /// A reading with bounds by the fast path; `None` if the fast path can't serve it.
    #[inline]
    pub(crate) fn read_bounded(&self) -> Option<BoundedReading> {
        COUNTER.and_then(|counter| self.clock.shared.read_bounded(&counter))
    }

    /// Like [`read_bounded`](Self::read_bounded), but for the whole validity of the line.
    fn read_bounded_while_valid(&self) -> Option<BoundedReading> {
        self.clock
            .shared
            .read_bounded_while_valid(&COUNTER?, &self.probed_os_clock())
    }

    /// The recent time that the thread last stored; without a thread in this process, the current
    /// time.
    #[inline]
    pub(crate) fn recent_ns(&self) -> u64 {
        if !self.has_thread() {
            return self.now_ns();
        }
        self.registration.recent_ns()
    }

    // ---- drivers ------------------------------------------------------------------------------

    /// Whether this clock's thread runs in this process.
    pub(crate) fn has_thread(&self) -> bool {
        self.registration.is_running()
    }

    /// The driver of this clock in this process.
    pub(crate) fn driver(&self) -> Driver {
        if self.has_thread() {
            Driver::Thread
        } else if self.is_manual {
            Driver::Manual
        } else {
            Driver::Reader
        }
    }

    pub(crate) fn interval_ns(&self) -> u64 {
        // ORDERING: Relaxed, a single setting.
        self.interval_ns.load(Ordering::Relaxed)
    }

    /// Applies the settings of the control loop.
    pub(crate) fn apply(&self, settings: &Settings) {
        let trust = settings.trust as u8;
        let assume_invariant = settings.assume_invariant;
        // ORDERING: Relaxed for all three, settings. `request_judgement` publishes the last two.
        let order = Ordering::Relaxed;
        self.interval_ns.store(settings.interval_ns(), order);
        let had_trust = self.trust.swap(trust, order);
        let assumed_invariant = self.assume_invariant.swap(assume_invariant, order);
        if had_trust != trust || assumed_invariant != assume_invariant {
            self.request_judgement(); // also before the first judgement, which may be in progress
        }
    }

    /// Switches to minimal probes if `probes` asks for them. They stay in force, because a seccomp
    /// filter that the program installs stays in force, too.
    pub(crate) fn restrict_probes(&self, probes: Probes) {
        if probes == Probes::Full {
            return;
        }
        sys::disable_fork_token();
        sys::forbid_reading_files();
        OsClock::choose_libc();
        // ORDERING: Relaxed, pairs with the load in `probes`. A thread that sees the flag, but not
        // yet the effects of the calls above, runs before any filter that is installed later.
        self.has_minimal_probes.store(true, Ordering::Relaxed);
    }

    /// The probes that this clock may make.
    pub(crate) fn probes(&self) -> Probes {
        // ORDERING: Relaxed, a setting.
        if self.has_minimal_probes.load(Ordering::Relaxed) {
            Probes::Minimal
        } else {
            Probes::Full
        }
    }

    /// The OS clock, restricted to this clock's probes.
    fn probed_os_clock(&self) -> ProbedOsClock {
        ProbedOsClock(self.probes())
    }

    /// Runs an iteration if this reader should do so now. Returns whether it did.
    fn iterate_as_reader(&self, reading: &SlowReading) -> bool {
        if !self.clock.reader_schedule.wants_iteration(
            &self.clock.keeper,
            reading,
            self.interval_ns(),
        ) {
            return false;
        }
        let _errno = sys::PreserveErrno::new();
        let iterated = self.driver() == Driver::Reader
            && self.prepare_one_task()
            && self.iterate(Cadence::OnDemand).is_some();
        if iterated && self.clock.reader_schedule.count_iteration() {
            self.review();
        }
        iterated
    }

    /// Runs an iteration for the program. Returns the time until the next one is due, ns: the
    /// interval if none ran. If the program drives the clock, every eighth iteration collects the
    /// facts again.
    pub(crate) fn iterate_for_program(&self) -> u64 {
        if self.backend.is_some() {
            return self.interval_ns(); // there is no control loop
        }
        let mut iteration = self.iterate(Cadence::Scheduled);
        let is_driver = iteration.is_some() && self.driver() == Driver::Manual;
        if is_driver && self.clock.reader_schedule.count_iteration() && self.review() {
            iteration = self.iterate(Cadence::Scheduled);
        }
        iteration.map_or(self.interval_ns(), |iteration| iteration.next_in_ns)
    }

    /// Runs an iteration of the common line's control loop, and a second one after a first
    /// publication. `None` if another thread has the lock, if a gate is closed, or if each CPU has
    /// a line. Waits for no thread, and preserves `errno`.
    pub(crate) fn iterate(&self, cadence: Cadence) -> Option<Iteration> {
        let _errno = sys::PreserveErrno::new();
        let mut next = self.ask();
        while let Next::Iterate(permit) = next {
            let os_clock = self.probed_os_clock();
            next = permit.iterate(self.interval_ns(), cadence, &COUNTER?, &os_clock);
        }
        let iteration = match next {
            Next::Rest(iteration) => iteration,
            Next::Judge(_) | Next::Iterate(_) | Next::CalibrateCpus(_) => None,
        };
        if iteration.is_some() {
            self.end_refusals();
        } else {
            self.record_refusal();
        }
        iteration
    }

    /// Asks what to do now. Judges the gates first, if they must be.
    fn ask(&self) -> Next<'_> {
        match self.clock.ask(sys::lock_token(), &OsClock) {
            Next::Judge(ticket) => self.collect_and_settle(ticket),
            next => next,
        }
    }

    /// The lock on the collected facts; `None` while another thread has it.
    #[inline(never)]
    pub(crate) fn collector(&self) -> Option<LockGuard<'_, Collector>> {
        self.collector
            .try_lock(sys::lock_token(), Collector::discard_facts)
    }

    /// Records that a driver has not got what it needs for an iteration. The first refusal in a row
    /// stores the time. A closed gate is not a refusal.
    fn record_refusal(&self) {
        if self.clock.keeper.stage().is_closed() {
            return self.end_refusals();
        }
        // ORDERING: Relaxed for both, for display. The load comes first: a store each time would
        // take the cache line from readers.
        if self.refused_since_ns.load(Ordering::Relaxed) == NEVER {
            self.refused_since_ns
                .store(OsClock.monotonic_ns(), Ordering::Relaxed);
        }
    }

    /// Ends a row of refusals: a driver has got what it needs.
    fn end_refusals(&self) {
        // ORDERING: Relaxed for both, as in `record_refusal`.
        if self.refused_since_ns.load(Ordering::Relaxed) != NEVER {
            self.refused_since_ns.store(NEVER, Ordering::Relaxed);
        }
    }

    /// Whether a thread has stopped while it held a lock that every driver needs, for display.
    fn has_stopped_driver(&self) -> bool {
        // ORDERING: Relaxed, for display.
        let since_ns = self.refused_since_ns.load(Ordering::Relaxed);
        since_ns != NEVER
            && OsClock.monotonic_ns().saturating_sub(since_ns) > STOPPED_AFTER_NS
            && (self.clock.is_locked() || self.collector.is_held())
    }
}

/// Converts a reading by a line, or a stored one. The function does not test the sign, which would
/// take an instruction in each reading.
///
/// Monotonic time is not negative: the first line is at no tick below its high-water mark of 0, and
/// no later line is below its predecessor. Unix time on Linux is not negative either, because Linux
/// refuses to set `CLOCK_REALTIME` below `CLOCK_MONOTONIC`. If another system accepts a year before
/// 1970, a line returns a time between the years 2262 and 2554, which looks valid, and the OS clock
/// returns 0.
#[inline(always)]
fn to_unsigned(ns: i64) -> u64 {
    ns.cast_unsigned()
}

#[cfg(test)]
mod tests;
