//! A clock and its driver: the clock's lock, when the gates are judged, and when an iteration of
//! the control loop runs.
//!
//! A driver is a thread, the program or a reader. Each calls [`DrivenClock::maintain`]. This call
//! takes the clock's lock, and has the gates judged if a judgement is due. Then it runs an
//! iteration, and records when the next one is due. A [`Platform`] is the driver's interface to the
//! system and the program: `tickline`'s engine is one, the simulator has another.

use crate::cell::LineCell;
use crate::control::{Cadence, Config, Control, INTERVAL_RANGE_NS, Iteration, Outcome};
use crate::gate::keeper::{GateKeeper, Judgement, LineGate, LineKind};
use crate::gate::{Clocksource, Facts};
use crate::shared::SharedClock;
use crate::try_lock::{LockGuard, TryLock};

mod reader_schedule;

pub use reader_schedule::ReaderSchedule;

/// The memory of a clock's drivers, which the clock's lock protects.
#[derive(Debug)]
pub struct DriverMemory {
    /// The writer's memory.
    pub control: Control,
    /// The facts of the last judgement.
    pub facts: Facts,
    /// Whether a thread has judged since a forked child took the lock over. A child that was forked
    /// while the lock was free goes on with its parent's judgement.
    is_judged_here: bool,
}

impl DriverMemory {
    const fn new() -> Self {
        // A placeholder: a judgement sets the resolutions, and each iteration sets the rest.
        let config = Config {
            interval_ns: *INTERVAL_RANGE_NS.start(),
            resolutions: Clocksource::Unknown.resolutions(Clocksource::Unknown, 0),
            cadence: Cadence::OnDemand,
        };
        Self {
            control: Control::new(config),
            facts: Facts::UNKNOWN,
            is_judged_here: false,
        }
    }

    /// Has the gates judged before the next iteration.
    fn discard_facts(&mut self) {
        (self.facts, self.is_judged_here) = (Facts::UNKNOWN, false);
    }
}

/// The operations that a clock needs from the system and the program. As a [`LineGate`], a platform
/// closes and opens the gate of the common line.
///
/// # Safety
///
/// All platforms that are ever used with one [`DrivenClock`] return tokens that fulfil the contract
/// of [`TryLock::try_lock`].
pub unsafe trait Platform: LineGate {
    /// The token of this process.
    fn lock_token(&self) -> u64;

    /// The time by the reference, ns.
    fn monotonic_ns(&self) -> i64;

    /// The interval of the next iteration, ns.
    fn interval_ns(&self) -> u64;

    /// Judges the gates for lines of this kind. If all are open, begins the control loop anew.
    /// `None` if another thread collects the facts.
    fn judge(&self, kind: LineKind, locked: &mut DriverMemory) -> Option<Judgement>;

    /// Judges the gates as [`judge`](Self::judge) does, if a fact that concerns the present line
    /// has changed; else `None`.
    fn judge_if_changed(&self, kind: LineKind, locked: &mut DriverMemory) -> Option<Judgement>;

    /// One iteration of the common line's control loop. `None` without a counter.
    fn iterate(&self, control: &mut Control) -> Option<Iteration>;
}

/// A clock, and the state that its drivers share.
#[derive(Debug)]
#[repr(C)]
pub struct DrivenClock<S = LineCell> {
    /// The common line. It comes first, so that the clock's address is that of its state.
    pub shared: SharedClock<S>,
    /// The control loop behind its lock, which [`lock`](Self::lock) takes.
    pub memory: TryLock<DriverMemory>,
    /// The stage of the judgement, and the kind of lines.
    pub keeper: GateKeeper,
    /// Whether a reader should run an iteration, and whether a review of the facts is due.
    pub reader_schedule: ReaderSchedule,
}

impl<S> DrivenClock<S> {
    /// A clock whose gates are not judged yet.
    pub const fn new(shared: SharedClock<S>) -> Self {
        let memory = TryLock::new(DriverMemory::new());
        let keeper = GateKeeper::new();
        let reader_schedule = ReaderSchedule::new();
        Self {
            shared,
            memory,
            keeper,
            reader_schedule,
        }
    }

    /// Takes the lock; `None` while another thread has it. A forked child takes the lock over from
    /// a thread of its parent. The control loop may then be half changed, until a judgement begins
    /// it anew.
    pub fn lock(&self, platform: &impl Platform) -> Option<LockGuard<'_, DriverMemory>> {
        // SAFETY: every `Platform` promises that its token fulfils the contract. Other code that
        // takes this lock must call the unsafe `try_lock` as well, and so makes the same promise.
        unsafe {
            self.memory
                .try_lock(platform.lock_token(), DriverMemory::discard_facts)
        }
    }

    /// Takes the lock and has the gates judged if that is due. Returns the lock and the kind of
    /// line for which the control loop may iterate. `None` if another thread has the lock, or a
    /// gate is closed.
    pub fn lock_judged(
        &self,
        platform: &impl Platform,
    ) -> Option<(LockGuard<'_, DriverMemory>, LineKind)> {
        let mut locked = self.lock(platform)?;
        let known = self.keeper.line_kind().filter(|_| locked.is_judged_here);
        let judge = |kind| {
            let judgement = platform.judge(kind, &mut locked)?;
            locked.is_judged_here = true;
            Some(judgement)
        };
        let judge_if_due = || {
            self.keeper
                .judge_if_due(|| platform.monotonic_ns(), platform, judge)
        };
        let kind = known.or_else(judge_if_due)?;
        Some((locked, kind))
    }

    /// Runs an iteration of the common line's control loop, and a second one after a recovery.
    /// `None` if another thread has the lock, or if a gate is closed or must be judged first. Also
    /// `None` if each CPU has a line, because a common line would be wrong on some CPUs. Waits for
    /// no thread.
    pub fn maintain(&self, platform: &impl Platform, cadence: Cadence) -> Option<Iteration> {
        let (mut locked, kind) = self.lock_judged(platform)?;
        match kind {
            LineKind::PerCpu => None,
            LineKind::Common => self.iterate_and_set_due(&mut locked.control, platform, cadence),
        }
    }

    #[inline(never)]
    fn iterate_and_set_due(
        &self,
        control: &mut Control,
        platform: &impl Platform,
        cadence: Cadence,
    ) -> Option<Iteration> {
        (control.config.cadence, control.config.interval_ns) = (cadence, platform.interval_ns());
        let iteration = Iteration::once_or_twice(|| platform.iterate(control))?;
        if iteration.outcome == Outcome::GateClosed && self.keeper.request_judgement_if_open() {
            return None; // the next iteration judges the gates first
        }
        self.keeper.set_due(
            platform
                .monotonic_ns()
                .saturating_add(iteration.next_in_ns.cast_signed()),
        );
        Some(iteration)
    }

    /// Judges the gates again if facts have changed since the last judgement. A judgement ends the
    /// present line. Returns whether the gates were judged; the next iteration is then due now.
    pub fn review(&self, platform: &impl Platform) -> bool {
        let Some(mut locked) = self.lock(platform) else {
            return false;
        };
        self.keeper.review(platform, |kind| {
            platform.judge_if_changed(kind, &mut locked)
        })
    }
}

// Clocks settle here, which takes Miri minutes. Only the lock has unsafe code, and tests of its
// own.
#[cfg(all(test, not(miri)))]
mod tests;
