//! A clock and its driver: who holds the lock, when the gates are judged, and when an iteration of
//! the control loop runs.
//!
//! A driver is a thread, the program or a reader. Each calls [`DrivenClock::maintain`]. That call
//! takes the clock's lock, and has the gates judged if a judgement is due. Then it runs an
//! iteration, and notes when the next one is due. [`Platform`] is what a driver needs for that from
//! the system and the program: `tickline`'s engine is one, the simulator has another.

use crate::cell::LineCell;
use crate::control::{Config, Control, DrivenBy, INTERVAL_RANGE_NS, Iteration, Outcome};
use crate::gate::Facts;
use crate::gate::keeper::{Closable, Closed, GateKeeper, Lines};
use crate::sample::Resolutions;
use crate::shared::SharedClock;
use crate::try_lock::{LockGuard, TryLock};

/// What the clock's lock protects.
#[derive(Debug)]
pub struct LockedState {
    /// The writer's memory.
    pub control: Control,
    /// The facts of the last judgement.
    pub facts: Facts,
    /// Whether somebody has judged since a forked child took the lock over. A child that was forked
    /// while nobody had the lock goes on with its parent's judgement.
    is_judged_here: bool,
}

impl LockedState {
    const fn new() -> Self {
        // A place-holder: a judgement sets the resolutions, and each iteration the rest.
        let config = Config {
            interval_ns: *INTERVAL_RANGE_NS.start(),
            resolutions: Resolutions { counter_ticks: 0, reference_ns: 0, same_counter_ticks: 0 },
            driven_by: DrivenBy::Readers,
        };
        Self { control: Control::new(config), facts: Facts::UNKNOWN, is_judged_here: false }
    }

    /// Has the gates judged before the next iteration.
    fn discard_facts(&mut self) {
        (self.facts, self.is_judged_here) = (Facts::UNKNOWN, false);
    }
}

/// What a clock needs from the system and the program. It closes and opens the gate of the common
/// line, too.
///
/// # Safety
///
/// All platforms that are ever used with one [`DrivenClock`] return tokens by the contract of
/// [`TryLock::try_lock`].
pub unsafe trait Platform: Closable {
    /// The token of this process.
    fn lock_token(&self) -> u64;

    /// The time by the reference, ns.
    fn monotonic_ns(&self) -> i64;

    /// The interval of the next iteration, ns.
    fn interval_ns(&self) -> u64;

    /// Judges the gates for `lines`. If all are open, begins the control loop anew. `None` if
    /// another thread collects the facts.
    fn judge(&self, lines: Lines, locked: &mut LockedState) -> Option<Result<(), Closed>>;

    /// As [`judge`](Self::judge). `None` also if nothing has changed that concerns the present
    /// line.
    fn rejudge(&self, lines: Lines, locked: &mut LockedState) -> Option<Result<(), Closed>>;

    /// One iteration of the common line's control loop. `None` without a counter.
    fn iterate(&self, control: &mut Control) -> Option<Iteration>;
}

/// A clock with what its drivers share.
#[derive(Debug)]
#[repr(C)]
pub struct DrivenClock<S = LineCell> {
    /// The common line. It comes first: then the clock's address is that of its state.
    pub shared: SharedClock<S>,
    /// The control loop behind its lock, which [`lock`](Self::lock) takes.
    pub locked: TryLock<LockedState>,
    /// How far the judgement of the gates has come, and the kind of lines.
    pub keeper: GateKeeper,
}

impl<S> DrivenClock<S> {
    /// A clock whose gates are not judged yet.
    pub const fn new(shared: SharedClock<S>) -> Self {
        Self { shared, locked: TryLock::new(LockedState::new()), keeper: GateKeeper::new() }
    }

    /// The lock; `None` while another thread has it. A forked child takes it over from a thread of
    /// its parent. The control loop may be half changed then, until a judgement begins it anew.
    pub fn lock(&self, platform: &impl Platform) -> Option<LockGuard<'_, LockedState>> {
        // SAFETY: the platform promises that the token is by the contract. So does whoever takes
        // this lock otherwise.
        unsafe { self.locked.try_lock(platform.lock_token(), LockedState::discard_facts) }
    }

    /// The lock, with the gates judged and a control loop that may iterate, and the lines for which
    /// they were judged. `None` if another thread has the lock, or a gate is closed.
    pub fn lock_judged(&self, platform: &impl Platform) -> Option<(LockGuard<'_, LockedState>, Lines)> {
        let mut locked = self.lock(platform)?;
        let known = self.keeper.lines().filter(|_| locked.is_judged_here);
        let judge = |lines| {
            let judged = platform.judge(lines, &mut locked)?;
            locked.is_judged_here = true;
            Some(judged)
        };
        let judge_if_due = || self.keeper.judge_if_due(|| platform.monotonic_ns(), platform, judge);
        let lines = known.or_else(judge_if_due)?;
        Some((locked, lines))
    }

    /// An iteration of the common line's control loop, and a second one after a recovery. `None` if
    /// another thread has the lock, or if a gate is closed or is to be judged next. Also `None` if
    /// each CPU has a line: a common line would be wrong on some CPUs. Waits for nobody.
    pub fn maintain(&self, platform: &impl Platform, driven_by: DrivenBy) -> Option<Iteration> {
        let (mut locked, lines) = self.lock_judged(platform)?;
        match lines {
            Lines::PerCpu => None,
            Lines::Common => self.iterate(&mut locked.control, platform, driven_by),
        }
    }

    #[inline(never)]
    fn iterate(
        &self,
        control: &mut Control,
        platform: &impl Platform,
        driven_by: DrivenBy,
    ) -> Option<Iteration> {
        (control.config.driven_by, control.config.interval_ns) = (driven_by, platform.interval_ns());
        let mut iteration = platform.iterate(control)?;
        if iteration.outcome == Outcome::Recovered {
            iteration = platform.iterate(control)?;
        }
        if iteration.outcome == Outcome::GateClosed && self.keeper.request_judgement_if_open() {
            return None; // the next iteration judges the gates first
        }
        self.keeper.set_due(platform.monotonic_ns().saturating_add(iteration.next_in_ns.cast_signed()));
        Some(iteration)
    }

    /// Judges the gates again if facts have changed since the last judgement. If the present line
    /// can't go on then, it ends. `true` says that the gates were judged, and that the next iteration
    /// should be now.
    pub fn review(&self, platform: &impl Platform) -> bool {
        let Some(mut locked) = self.lock(platform) else { return false };
        self.keeper.rejudge(platform, |lines| platform.rejudge(lines, &mut locked))
    }
}

// As `control::tests`: clocks that settle, and no unsafe code but the lock's.
#[cfg(all(test, not(miri)))]
mod tests;
