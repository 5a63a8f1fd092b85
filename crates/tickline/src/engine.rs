//! One clock: what its readers and its driver share, and the fast path of every reading.
//!
//! The fast path is one call of [`SharedClock::read`] or of a similar method. If that refuses,
//! [`Engine::now_slow`] and its like take over (`engine/slow.rs`).

use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::sync::Arc;

use tickline_core::cell::LineCell;
use tickline_core::control::{Config, Control, DrivenBy, Iteration, Outcome};
use tickline_core::counter::HardwareCounter;
use tickline_core::gate::keeper::{GateKeeper, Lines};
use tickline_core::gate::{Facts, Gate, Trust};
use tickline_core::sample::{Reference, Resolutions};
use tickline_core::shared::{BoundedReading, SharedClock, SlowReading};
use tickline_core::try_lock::{LockGuard, TryLock};

use crate::options::{DEFAULT_INTERVAL_NS, Driver, Probes, Settings};
use crate::per_cpu::LazyTable;
use crate::substitute::Substitute;
use crate::sys::reference::{self, Followed, OsClock};
use crate::sys::{self, COUNTER};
use crate::trust::facts::Collector;

mod gates;
mod slow;
mod status;

/// The engine of the global clock.
pub(crate) static GLOBAL: Engine = Engine::new(Driver::Reader, DEFAULT_INTERVAL_NS);

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

/// What a control loop is made with before the gates are judged. Each iteration sets interval and
/// driver.
const UNJUDGED: Config = Config {
    interval_ns: DEFAULT_INTERVAL_NS,
    resolutions: Resolutions { counter_ticks: 0, reference_ns: 0, same_counter_ticks: 0 },
    driven_by: DrivenBy::Readers,
};

/// The control loop, under the clock's lock.
#[derive(Debug)]
struct ControlLoop {
    control: Control,
    /// Whether the loop was begun since the gates were judged, in this process.
    is_begun: bool,
    /// The facts of the last judgement.
    facts: Facts,
}

impl ControlLoop {
    const NEW: Self = Self { control: Control::new(UNJUDGED), is_begun: false, facts: Facts::UNKNOWN };
}

/// One clock. All of it is usable in static memory. The lines come first: then the global clock's
/// address is that of its state, and a reading needs no instruction that adds an offset.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Engine {
    pub(crate) shared: SharedClock,
    /// How far the judgement of the gates has come, `disable()`, and the kind of lines.
    keeper: GateKeeper,
    /// The lines of the CPUs, where there is one for each. Next to the keeper, which their readers
    /// ask.
    cpu_lines: LazyTable,
    control_loop: TryLock<ControlLoop>,
    /// The facts that readers have collected for the next judgement.
    collector: TryLock<Collector>,
    /// Whether the program drives this clock, not its readers, while it has no thread.
    is_manual: bool,
    /// The token of the process in which the thread lives; 0 without one.
    thread_token: AtomicU64,
    /// Whether the thread was killed.
    pub(crate) thread_mark: sys::ThreadMark,
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
    pub(crate) substitute: Option<Arc<dyn Substitute>>,
    /// What the thread knows of UTC.
    #[cfg(feature = "utc")]
    pub(crate) utc: crate::utc::published::Published,
}

const _: () = assert!(
    core::mem::offset_of!(Engine, shared) == 0 && core::mem::offset_of!(SharedClock, cell) == 0,
    "a reading would add an offset"
);

impl Engine {
    pub(crate) const fn new(driver: Driver, interval_ns: u64) -> Self {
        Self {
            shared: SharedClock::new(LineCell::new()),
            keeper: GateKeeper::new(),
            cpu_lines: LazyTable::new(),
            control_loop: TryLock::new(ControlLoop::NEW),
            collector: TryLock::new(Collector::new()),
            is_manual: matches!(driver, Driver::Manual),
            thread_token: AtomicU64::new(0),
            thread_mark: sys::ThreadMark::new(),
            recent_ns: AtomicI64::new(0),
            has_minimal_probes: AtomicBool::new(false),
            interval_ns: AtomicU64::new(interval_ns),
            trust: AtomicU8::new(Trust::Auto as u8),
            assume_invariant: AtomicBool::new(false),
            verdicts: [const { AtomicU8::new(0) }; Gate::ALL.len()],
            substitute: None,
            #[cfg(feature = "utc")]
            utc: crate::utc::published::Published::new(),
        }
    }

    /// Leaves all readings to `substitute`, for good.
    #[cfg(any(feature = "mock", all(feature = "page", target_os = "linux", not(miri))))]
    pub(crate) fn leave_to(&mut self, substitute: Arc<dyn Substitute>) {
        self.disable();
        self.substitute = Some(substitute);
    }

    // ---- readings -----------------------------------------------------------------------------

    #[inline(always)]
    pub(crate) fn now_ns(&self) -> u64 {
        self.read(|counter| self.shared.read(counter), Self::now_slow)
    }

    #[inline(always)]
    pub(crate) fn now_ordered_ns(&self) -> u64 {
        self.read(|counter| self.shared.read_ordered(counter), Self::now_ordered_slow)
    }

    #[inline(always)]
    pub(crate) fn unix_ns(&self) -> u64 {
        self.read(|counter| self.shared.read_unix(counter), Self::unix_slow)
    }

    /// A time by the common line, or else what `otherwise` returns. That function is not generic,
    /// so it is compiled once, in this crate. It never unwinds, which `extern "C"` says, so a
    /// caller jumps there, and the fast path touches no stack.
    #[inline(always)]
    fn read(
        &self,
        by_line: impl FnOnce(&HardwareCounter) -> Option<i64>,
        otherwise: extern "C" fn(&Self) -> u64,
    ) -> u64 {
        match COUNTER.and_then(|counter| by_line(&counter)) {
            Some(ns) => to_unsigned(ns),
            None => otherwise(self),
        }
    }

    /// The counter of the common line, after every earlier load; `None` if that does not serve.
    #[cfg(feature = "utc")]
    #[inline]
    pub(crate) fn read_ticks(&self) -> Option<u64> {
        COUNTER.and_then(|counter| self.shared.read_ticks(&counter))
    }

    /// A reading with bounds; `None` if the fast path refuses.
    #[inline]
    pub(crate) fn read_bounds(&self) -> Option<BoundedReading> {
        COUNTER.and_then(|counter| self.shared.read_bounds(&counter))
    }

    /// As [`read_bounds`](Self::read_bounds), as long as the line is valid.
    fn read_bounds_while_valid(&self) -> Option<BoundedReading> {
        self.shared.read_bounds_while_valid(&COUNTER?, &self.followed())
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
        thread_token != 0 && thread_token == sys::token() && !self.thread_mark.thread_died()
    }

    /// The thread will run from now on, and stores the coarse time. This stores the first one.
    pub(crate) fn attach_thread(&self) {
        self.store_recent(self.now_ordered_ns());
        self.thread_mark.clear();
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
        match self.is_manual {
            _ if self.has_thread() => Driver::Thread,
            true => Driver::Manual,
            false => Driver::Reader,
        }
    }

    pub(crate) fn interval_ns(&self) -> u64 {
        // ORDERING: Relaxed, a setting on its own.
        self.interval_ns.load(Ordering::Relaxed)
    }

    /// Puts the settings into force that concern the control loop.
    pub(crate) fn apply(&self, settings: &Settings) {
        // ORDERING: Relaxed, a setting on its own.
        self.interval_ns.store(settings.interval_ns(), Ordering::Relaxed);
        self.set_policy(settings.trust, settings.assume_invariant);
    }

    /// Minimal probes stay, once they are asked for: the program may have installed a seccomp
    /// filter, which stays, too.
    pub(crate) fn restrict_probes(&self, probes: Probes) {
        if probes == Probes::Full {
            return;
        }
        sys::forgo_page();
        reference::trust_libc();
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
    fn followed(&self) -> Followed {
        Followed(self.probes())
    }

    /// Runs an iteration if this reader should do so now. Returns whether it did.
    fn maintain_as_reader(&self, reading: &SlowReading) -> bool {
        let wanted = self.keeper.wants_iteration(reading, self.interval_ns());
        let _errno = if wanted { sys::PreserveErrno::new() } else { return false };
        let iterated = self.driver() == Driver::Reader
            && self.is_prepared()
            && self.maintain(DrivenBy::Readers).is_some();
        if iterated && self.keeper.count_iteration() {
            self.review();
        }
        iterated
    }

    /// An iteration that a program asks for. Where it drives the clock, every eighth one asks for
    /// the facts again.
    pub(crate) fn maintain_by_hand(&self) -> Option<Iteration> {
        let iteration = self.maintain(DrivenBy::Timer);
        let is_driver = iteration.is_some() && self.driver() == Driver::Manual;
        if is_driver && self.keeper.count_iteration() && self.review() {
            return self.maintain(DrivenBy::Timer);
        }
        iteration
    }

    /// An iteration of the control loop, with the gates judged before the first one, and a second
    /// iteration after a recovery. `None` if another thread has the lock, or a gate is closed.
    /// Never waits, allocates or panics.
    pub(crate) fn maintain(&self, driven_by: DrivenBy) -> Option<Iteration> {
        let _errno = sys::PreserveErrno::new();
        let (mut control_loop, lines) = self.lock_judged()?;
        // With a line for each CPU a common one would be wrong on some, and only the clock's thread
        // calibrates them.
        if lines == Lines::PerCpu { None } else { self.iterate(&mut control_loop, driven_by) }
    }

    /// An iteration by the holder of the lock, and a second one after a recovery.
    #[inline(never)]
    fn iterate(&self, control_loop: &mut ControlLoop, driven_by: DrivenBy) -> Option<Iteration> {
        let counter = COUNTER?;
        let control = &mut control_loop.control;
        control.config = Config { driven_by, interval_ns: self.interval_ns(), ..control.config };
        let followed = self.followed();
        let mut iteration = control.maintain(&self.shared, &counter, &followed);
        if iteration.outcome == Outcome::Recovered {
            iteration = control.maintain(&self.shared, &counter, &followed);
        }
        if iteration.outcome == Outcome::GateClosed && self.keeper.gate_was_closed() {
            return None; // the next iteration judges the gates first
        }
        self.keeper.set_due(OsClock.monotonic_ns().saturating_add(iteration.next_in_ns.cast_signed()));
        Some(iteration)
    }

    /// The lock; `None` while another thread has it. A forked child takes it over from a thread of
    /// its parent, and judges the gates, which begins the control loop anew.
    fn lock(&self) -> Option<LockGuard<'_, ControlLoop>> {
        // SAFETY: the token is the same for all processes that share this memory, and differs from
        // that of each process whose copy this memory is; where that cannot be known, it is the
        // same for all. POSIX forbids a program to fork in a signal handler and to return from it
        // in the child.
        unsafe {
            self.control_loop.try_lock(sys::lock_token(), |control_loop| {
                (control_loop.is_begun, control_loop.facts) = (false, Facts::UNKNOWN);
            })
        }
    }

    /// Leaves the lock held, as a forked child finds it that its parent's thread held.
    #[cfg(test)]
    pub(crate) fn play_fork(&self) {
        // SAFETY: the guard is not used any more, as if its holder were in another process.
        let held = unsafe { self.control_loop.try_lock(sys::lock_token() ^ 2, |_| ()) };
        core::mem::forget(held.expect("nobody has it"));
    }

    /// The lock on the collected facts; `None` while another thread has it.
    pub(crate) fn collector(&self) -> Option<LockGuard<'_, Collector>> {
        // SAFETY: as in `lock`.
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
