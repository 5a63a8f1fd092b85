//! One clock: what its readers and its driver share, and the fast path of every reading.
//!
//! The fast path is one call of [`SharedClock::read`] or of a similar method. If that refuses,
//! [`Engine::now_slow`] and its like take over (`engine/slow.rs`).

use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::sync::Arc;

use tickline_core::cell::LineCell;
use tickline_core::control::{DrivenBy, Iteration};
use tickline_core::counter::HardwareCounter;
use tickline_core::driver::DrivenClock;
use tickline_core::gate::{Gate, Trust};
use tickline_core::shared::{BoundedReading, SharedClock, SlowReading};
use tickline_core::try_lock::{LockGuard, TryLock};

use crate::backend::ClockBackend;
use crate::options::{DEFAULT_INTERVAL_NS, Driver, Probes, Settings};
use crate::per_cpu::LazyCpuLines;
use crate::sys::reference::{OsClock, ProbedOsClock};
use crate::sys::{self, COUNTER};
use crate::trust::facts::Collector;

mod gates;
mod slow;
mod status;

/// The engine of the global clock.
pub(crate) static GLOBAL: Engine = Engine::new(Driver::Reader);

/// What `read` returns of the clock behind the free functions: the global one, or a mock that is
/// active on this thread.
#[inline(always)]
pub(crate) fn current<T>(read: impl Fn(&Engine) -> T) -> T {
    #[cfg(feature = "mock")]
    if let Some(time) = crate::mock::active(&read) {
        return time;
    }
    read(&GLOBAL)
}

/// One clock. All of it is usable in static memory. The line comes first: then the global clock's
/// address is that of its state, and a reading needs no instruction that adds an offset.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Engine {
    pub(crate) clock: DrivenClock,
    /// The lines of the CPUs, where there is one for each. Next to the gate's keeper, which their
    /// readers ask.
    cpu_lines: LazyCpuLines,
    /// The facts that readers have collected for the next judgement.
    collector: TryLock<Collector>,
    /// Whether the program drives this clock, not its readers, while it has no thread.
    is_manual: bool,
    /// The token of the process in which the thread lives; 0 without one.
    thread_token: AtomicU64,
    /// A word that the kernel marks if the thread is killed.
    pub(crate) thread_futex: sys::RobustFutex,
    /// What the thread last stored, ns.
    recent_ns: AtomicI64,
    /// Whether somebody has asked for minimal probes.
    has_minimal_probes: AtomicBool,
    interval_ns: AtomicU64,
    /// Whose verdict counts, as a number, and whether the counter runs at one rate, whatever the
    /// processor says.
    trust: AtomicU8,
    assume_invariant: AtomicBool,
    /// Each gate's reason: its place in `Reason::ALL`, counted from 1; 0 for an open gate.
    verdicts: [AtomicU8; Gate::ALL.len()],
    /// What serves in this engine's place. The engine then has no line, and stays disabled.
    pub(crate) backend: Option<Arc<dyn ClockBackend>>,
    /// What the thread knows of UTC.
    #[cfg(feature = "utc")]
    pub(crate) utc: crate::utc::latch::ClaimLatch,
}

const _: () = assert!(
    core::mem::offset_of!(Engine, clock) == 0
        && core::mem::offset_of!(DrivenClock, shared) == 0
        && core::mem::offset_of!(SharedClock, cell) == 0,
    "a reading would add an offset"
);

impl Engine {
    /// With the default settings, but for the driver.
    pub(crate) const fn new(driver: Driver) -> Self {
        Self {
            clock: DrivenClock::new(SharedClock::new(LineCell::new())),
            cpu_lines: LazyCpuLines::new(),
            collector: TryLock::new(Collector::new()),
            is_manual: matches!(driver, Driver::Manual),
            thread_token: AtomicU64::new(0),
            thread_futex: sys::RobustFutex::new(),
            recent_ns: AtomicI64::new(0),
            has_minimal_probes: AtomicBool::new(false),
            interval_ns: AtomicU64::new(DEFAULT_INTERVAL_NS),
            trust: AtomicU8::new(Trust::Auto as u8),
            assume_invariant: AtomicBool::new(false),
            verdicts: [const { AtomicU8::new(0) }; Gate::ALL.len()],
            backend: None,
            #[cfg(feature = "utc")]
            utc: crate::utc::latch::ClaimLatch::new(),
        }
    }

    /// Leaves all readings to `backend`, for good.
    #[allow(dead_code, reason = "mocks and pages are features")]
    pub(crate) fn set_backend(&mut self, backend: Arc<dyn ClockBackend>) {
        self.disable();
        self.backend = Some(backend);
    }

    // ---- readings -----------------------------------------------------------------------------

    #[inline(always)]
    pub(crate) fn now_ns(&self) -> u64 {
        self.read(|counter| self.clock.shared.read(counter), Self::now_slow)
    }

    #[inline(always)]
    pub(crate) fn now_ordered_ns(&self) -> u64 {
        self.read(|counter| self.clock.shared.read_ordered(counter), Self::now_ordered_slow)
    }

    #[inline(always)]
    pub(crate) fn unix_ns(&self) -> u64 {
        self.read(|counter| self.clock.shared.read_unix(counter), Self::unix_slow)
    }

    /// A time by the common line, or else what `slow_path` returns. That function is not generic,
    /// so it is compiled once, in this crate. It never unwinds, which `extern "C"` says, so a
    /// caller jumps there, and the fast path touches no stack.
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

    /// A reading with bounds; `None` if the fast path refuses.
    #[inline]
    pub(crate) fn read_bounds(&self) -> Option<BoundedReading> {
        COUNTER.and_then(|counter| self.clock.shared.read_bounds(&counter))
    }

    /// As [`read_bounds`](Self::read_bounds), as long as the line is valid.
    fn read_bounds_while_valid(&self) -> Option<BoundedReading> {
        self.clock.shared.read_bounds_while_valid(&COUNTER?, &self.probed_os_clock())
    }

    /// The coarse time that the thread last stored; without a thread in this process, the present
    /// time.
    #[inline]
    pub(crate) fn recent_ns(&self) -> u64 {
        if !self.has_thread() {
            return self.now_ns();
        }
        // ORDERING: Relaxed, a value on its own; coherence makes it non-decreasing for each
        // reader.
        to_unsigned(self.recent_ns.load(Ordering::Relaxed))
    }

    pub(crate) fn store_recent(&self, ns: u64) {
        // The maximum, because the lines of two CPUs may differ by their bounds.
        // ORDERING: Relaxed, pairs with the load in `recent_ns`.
        self.recent_ns.fetch_max(ns.cast_signed(), Ordering::Relaxed);
    }

    // ---- drivers ------------------------------------------------------------------------------

    /// Whether this clock's thread lives in this process: a forked child has none, and a thread may
    /// have been killed.
    pub(crate) fn has_thread(&self) -> bool {
        // ORDERING: Acquire, pairs with the Release store in `attach_thread`.
        let thread_token = self.thread_token.load(Ordering::Acquire);
        thread_token != 0 && thread_token == sys::token() && !self.thread_futex.owner_died()
    }

    /// The thread will run from now on, and stores the coarse time. This call stores the first
    /// coarse time.
    pub(crate) fn attach_thread(&self) {
        self.store_recent(self.now_ordered_ns());
        self.thread_futex.clear();
        // ORDERING: Release, pairs with the Acquire load in `has_thread`: a reader that sees
        // the token sees the time above.
        self.thread_token.store(sys::token(), Ordering::Release);
    }

    /// The thread will not run any more.
    pub(crate) fn detach_thread(&self) {
        // ORDERING: Relaxed, says nothing of other memory.
        self.thread_token.store(0, Ordering::Relaxed);
    }

    /// Who drives this clock in this process.
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
        // ORDERING: Relaxed, a setting on its own.
        self.interval_ns.load(Ordering::Relaxed)
    }

    /// Puts the settings into force that concern the control loop.
    pub(crate) fn apply(&self, settings: &Settings) {
        let (trust, assume_invariant) = (settings.trust as u8, settings.assume_invariant);
        // ORDERING: Relaxed for all three, settings. `request_judgement` below publishes the last two.
        let order = Ordering::Relaxed;
        self.interval_ns.store(settings.interval_ns(), order);
        let before = (self.trust.swap(trust, order), self.assume_invariant.swap(assume_invariant, order));
        if before != (trust, assume_invariant) {
            self.request_judgement(); // even if nobody has judged: somebody may be about to
        }
    }

    /// Minimal probes stay, once they are asked for: the program may have installed a seccomp
    /// filter, which stays, too.
    pub(crate) fn restrict_probes(&self, probes: Probes) {
        if probes == Probes::Full {
            return;
        }
        sys::disable_fork_token();
        OsClock::trust_libc();
        // ORDERING: Relaxed, pairs with the load in `probes`. A thread that sees this and not yet
        // the two above runs before a filter that is installed after this call.
        self.has_minimal_probes.store(true, Ordering::Relaxed);
    }

    /// What this clock may ask the system.
    pub(crate) fn probes(&self) -> Probes {
        // ORDERING: Relaxed, a setting.
        if self.has_minimal_probes.load(Ordering::Relaxed) { Probes::Minimal } else { Probes::Full }
    }

    /// The OS clock, as far as this clock's probes go.
    fn probed_os_clock(&self) -> ProbedOsClock {
        ProbedOsClock(self.probes())
    }

    /// Runs an iteration if this reader should do so now. Returns whether it did.
    fn maintain_as_reader(&self, reading: &SlowReading) -> bool {
        let wanted = self.clock.keeper.wants_iteration(reading, self.interval_ns());
        let _errno = if wanted { sys::PreserveErrno::new() } else { return false };
        let iterated = self.driver() == Driver::Reader
            && self.is_prepared()
            && self.clock.maintain(self, DrivenBy::Readers).is_some();
        if iterated && self.clock.keeper.count_iteration() {
            self.review();
        }
        iterated
    }

    /// An iteration that a program asks for. Where it drives the clock, every eighth one asks for
    /// the facts again.
    pub(crate) fn maintain_by_hand(&self) -> Option<Iteration> {
        let iteration = self.maintain(DrivenBy::Timer);
        let is_driver = iteration.is_some() && self.driver() == Driver::Manual;
        if is_driver && self.clock.keeper.count_iteration() && self.review() {
            return self.maintain(DrivenBy::Timer);
        }
        iteration
    }

    /// As [`DrivenClock::maintain`], without a trace in `errno`.
    pub(crate) fn maintain(&self, driven_by: DrivenBy) -> Option<Iteration> {
        let _errno = sys::PreserveErrno::new();
        self.clock.maintain(self, driven_by)
    }

    /// The lock on the collected facts; `None` while another thread has it.
    pub(crate) fn collector(&self) -> Option<LockGuard<'_, Collector>> {
        // SAFETY: as for `impl Platform`.
        unsafe { self.collector.try_lock(sys::lock_token(), Collector::begin_anew) }
    }
}

/// A reading by the fast path, or a stored one. It does not test the sign, which would take an
/// instruction in each reading.
///
/// Monotonic time is not negative: the first line is at no tick below its high-water mark of 0, and
/// no later line is below its predecessor. Unix time is not negative either where it follows
/// `CLOCK_REALTIME`, for Linux refuses to set that below `CLOCK_MONOTONIC`. On a system that
/// accepts a year before 1970 the fast path returns a time beyond the year 2554, and every other
/// path 0.
#[inline(always)]
fn to_unsigned(ns: i64) -> u64 {
    ns.cast_unsigned()
}

/// A reading by any other path: by an OS clock, or by a line at a moment when it was not in use.
/// 0 if it is negative.
#[inline]
pub(crate) fn saturating_unsigned(ns: i64) -> u64 {
    u64::try_from(ns).unwrap_or(0)
}

#[cfg(test)]
mod tests;
