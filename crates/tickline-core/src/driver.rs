//! A clock and its driver: the clock's lock, when the gates are judged, and when an iteration of
//! the control loop runs.
//!
//! A driver is a thread, the program or a reader. It asks what to do, and does it. No call here
//! calls back. A driver is a loop of this kind:
//!
//! ```
//! # use tickline_core::cell::StateCell;
//! # use tickline_core::control::{Cadence, Iteration};
//! # use tickline_core::counter::Counter;
//! # use tickline_core::driver::{DrivenClock, Next};
//! # use tickline_core::gate::{Facts, keeper::Decision};
//! # use tickline_core::reference::Reference;
//! # use tickline_core::try_lock::LockToken;
//! # fn collect(facts: &mut Facts) {}
//! # fn judge_all(facts: &Facts) -> Decision { Decision::Closed { retry_at_ns: None } }
//! # fn wait_until_due(iteration: Iteration) {}
//! # fn drive<S: StateCell>(
//! #     clock: &DrivenClock<S>, token: LockToken, counter: &impl Counter, reference: &impl Reference,
//! # ) {
//! let mut next = clock.ask(token, reference);
//! loop {
//!     next = match next {
//!         // The clock's lock is held, and a judgement has begun.
//!         Next::Judge(mut ticket) => {
//!             collect(ticket.facts_mut());
//!             let decision = judge_all(ticket.facts());
//!             ticket.settle(decision, Some(counter), reference)
//!         }
//!         // Every gate is open.
//!         Next::Iterate(permit) => {
//!             permit.iterate(500_000_000, Cadence::Scheduled, counter, reference)
//!         }
//!         // Each CPU has a line of its own: `tickline_core::per_cpu`.
//!         Next::CalibrateCpus(_permit) => break,
//!         Next::Rest(iteration) => break wait_until_due(iteration),
//!         // Another thread has the lock, or a gate is closed: the obstacle says when to ask again.
//!         Next::NoIteration(_obstacle) => break,
//!     };
//! }
//! # }
//! ```
//!
//! On a machine without a counter, `counter` is `None`. The clock then never has a line, so there is
//! nothing to bar; but its gates are judged like any other's, because a status needs their reason.
//!
//! Tickets and permits hold the clock's lock. So rule K2 of the [keeper](crate::gate::keeper) is a
//! matter of types: a driver unbars no clock without a [`Ticket`], which [`settle`](Ticket::settle)
//! consumes, and publishes no common line without a [`Permit`]. A [`DrivenClock`] owns its
//! [`SharedClock`], and gives out only the [`Readings`], which can neither unbar nor publish.

use crate::cell::{LineCell, StateCell};
use crate::clocksource::Clocksource;
use crate::control::{Cadence, Config, Control, INTERVAL_RANGE_NS, Iteration, Outcome};
use crate::counter::Counter;
use crate::gate::Facts;
use crate::gate::keeper::{BegunJudgement, Decision, Keeper, LineKind, Stage};
use crate::reference::{Reference, Resolutions};
use crate::shared::{Access, Readings, SharedClock, SlowReading};
use crate::try_lock::{LockGuard, LockToken, TryLock};

mod reader_schedule;
mod rest;

use reader_schedule::ReaderSchedule;
pub use reader_schedule::reader_may_judge_at;
pub(crate) use rest::LastIteration;

/// The memory of a clock's drivers, which the clock's lock protects.
#[derive(Debug)]
pub struct DriverMemory {
    /// The writer's memory. Only a ticket and a permit change it.
    control: Control,
    /// The facts of the last judgement. Only a ticket changes them.
    facts: Facts,
    /// Whether a thread has judged since the lock was taken over from a holder that is gone. A
    /// child that was forked while the lock was free goes on with its parent's judgement.
    is_judged_here: bool,
}

impl DriverMemory {
    const fn new() -> Self {
        let resolutions = Clocksource::Unknown.resolutions(Clocksource::Unknown, 0);
        Self {
            // The first judgement begins another one, and a permit comes only after that.
            control: Control::new(resolutions, Config::new(*INTERVAL_RANGE_NS.start())),
            facts: Facts::UNKNOWN,
            is_judged_here: false,
        }
    }

    /// The control loop.
    #[must_use]
    pub const fn control(&self) -> &Control {
        &self.control
    }

    /// The facts of the last judgement.
    #[must_use]
    pub const fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Has the gates judged before the next iteration.
    fn discard_facts(&mut self) {
        self.facts = Facts::UNKNOWN;
        self.is_judged_here = false;
    }
}

/// A clock, and the state that its drivers share. Every call MUST get the counter and the reference
/// of the clock, as for a [`SharedClock`].
#[derive(Debug)]
#[repr(C)]
pub struct DrivenClock<S = LineCell> {
    /// The common line. It comes first, so that the clock and its state have one address. Not
    /// public, because whoever has it can unbar it, or run another control loop on it.
    pub(crate) shared: SharedClock<S>,
    /// The control loop behind its lock.
    memory: TryLock<DriverMemory>,
    /// The stage of the judgement, and the kind of lines. Not public, because it also begins and
    /// settles judgements, for which a driver needs the lock. Five methods of the clock only call
    /// it: a program thus finds [`enable`](Self::enable) beside [`disable`](Self::disable), which
    /// needs the line as well.
    pub(crate) keeper: Keeper,
    /// When a review of the facts is due, and whether a reader should run an iteration.
    reader_schedule: ReaderSchedule,
}

const _: () = assert!(
    core::mem::offset_of!(DrivenClock, shared) == 0,
    "a reading would add an offset"
);

/// What a driver does next. A driver must handle each case, so another one is a breaking change.
/// The head of this [module](self) has a loop that does.
#[derive(Debug)]
#[must_use = "a ticket or a permit holds the clock's lock"]
pub enum Next<'a, S = LineCell> {
    /// The gates must be judged: collect the facts, and settle the ticket.
    Judge(Ticket<'a, S>),
    /// Run an iteration of the common line's control loop.
    Iterate(Permit<'a, S>),
    /// Run iterations of the CPUs' control loops. A common line would be wrong on some CPUs.
    CalibrateCpus(CpusPermit<'a, S>),
    /// An iteration has run. It says when the next one is due.
    Rest(Iteration),
    /// No iteration may run now.
    NoIteration(Obstacle),
}

/// Why a driver may not run an iteration now.
///
/// ```
/// use tickline_core::driver::Obstacle;
///
/// /// The time until a driver asks again, ns. `held_times`: how often in a row it has met a held
/// /// lock.
/// fn wait_ns(obstacle: Obstacle, held_times: u32, interval_ns: u64) -> u64 {
///     match obstacle {
///         Obstacle::Unjudged => 0,
///         Obstacle::LockHeld => (50_000_u64 << held_times.min(20)).min(interval_ns),
///         _ => interval_ns,
///     }
/// }
/// assert_eq!(wait_ns(Obstacle::LockHeld, 2, 500_000_000), 200_000);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Obstacle {
    /// Another thread has the clock's lock, or another lock that the driver needs. That thread
    /// holds the lock for microseconds, but may be stopped. So a driver waits longer after each
    /// such answer.
    LockHeld,
    /// A gate is closed. A driver asks again once in each interval. A reason that passes by itself
    /// is then judged again when a judgement is due. Any other reason is judged again only after a
    /// call that asks for it.
    GateClosed,
    /// While this driver judged or iterated, another thread has asked for a judgement, or has
    /// barred the clock. The driver may ask again at once: it then gets a ticket.
    Unjudged,
}

/// The clock's lock, for a driver.
#[derive(Debug)]
struct Driving<'a, S> {
    clock: &'a DrivenClock<S>,
    memory: LockGuard<'a, DriverMemory>,
}

/// A judgement that has begun, under the clock's lock. A driver that can't collect the facts now
/// drops the ticket; the next one then judges.
#[derive(Debug)]
pub struct Ticket<'a, S = LineCell> {
    driving: Driving<'a, S>,
    begun: BegunJudgement,
}

/// The right to run an iteration of the common line's control loop, under the clock's lock.
#[derive(Debug)]
pub struct Permit<'a, S = LineCell> {
    driving: Driving<'a, S>,
    last: LastIteration,
}

/// The right to run iterations of the CPUs' control loops, under the clock's lock.
#[derive(Debug)]
pub struct CpusPermit<'a, S = LineCell> {
    driving: Driving<'a, S>,
}

impl<S> DrivenClock<S> {
    /// A clock whose gates are not judged yet.
    #[must_use]
    pub const fn new(shared: SharedClock<S>) -> Self {
        let memory = TryLock::new(DriverMemory::new());
        let keeper = Keeper::new();
        let reader_schedule = ReaderSchedule::new();
        Self {
            shared,
            memory,
            keeper,
            reader_schedule,
        }
    }

    /// The readings of the common line. The line and its cell stay inside, so none of these
    /// compiles:
    ///
    /// ```compile_fail,E0616
    /// # use tickline_core::{counter::Counter, driver::DrivenClock, reference::Reference};
    /// fn unbar(clock: &DrivenClock, counter: &impl Counter, reference: &impl Reference) {
    ///     clock.shared.unbar(counter, reference);
    /// }
    /// ```
    ///
    /// ```compile_fail,E0599
    /// # use tickline_core::{cell::{NextLine, StateCell}, driver::DrivenClock};
    /// fn publish(clock: &DrivenClock, next: &NextLine) {
    ///     clock.readings().cell().publish(clock.readings().state(), next);
    /// }
    /// ```
    ///
    /// ```compile_fail,E0616
    /// # use tickline_core::{cell::{NextLine, StateCell}, driver::DrivenClock};
    /// fn publish(clock: &DrivenClock, next: &NextLine) {
    ///     clock.readings().cell.publish(clock.readings().state(), next);
    /// }
    /// ```
    ///
    /// ```compile_fail,E0599
    /// # use tickline_core::{counter::Counter, driver::DrivenClock, reference::Reference};
    /// fn unbar(clock: &DrivenClock, counter: &impl Counter, reference: &impl Reference) {
    ///     clock.readings().unbar(counter, reference);
    /// }
    /// ```
    #[inline(always)]
    #[must_use]
    pub const fn readings(&self) -> &Readings<S> {
        self.shared.readings()
    }

    /// Takes the lock; `None` while another thread has it. A forked child takes the lock over from
    /// a thread of its parent, and any thread takes it over from one that has ended
    /// ([`LockToken::of_thread`]). The control loop may then be half changed, until a judgement
    /// begins it anew.
    #[must_use]
    pub fn lock(&self, token: LockToken) -> Option<LockGuard<'_, DriverMemory>> {
        self.memory.try_lock(token, DriverMemory::discard_facts)
    }

    /// Whether a thread holds the lock, for display. A thread holds it for microseconds. A thread
    /// that calibrates CPUs holds it for a [`Pass`](crate::per_cpu::Pass): less than a second,
    /// unless the moves to busy CPUs take longer. If the lock stays held, its holder is stopped, or
    /// was killed where the token does not show it.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.memory.is_locked()
    }

    /// The stage of the judgement.
    #[must_use]
    pub fn stage(&self) -> Stage {
        self.keeper.stage()
    }

    /// The kind of line that a reading may use now; `None` while the gates are not all open. A
    /// thread that finds a line for each CPU sees all stores before
    /// [`set_line_kind`](Self::set_line_kind).
    #[must_use]
    #[inline(always)]
    pub fn usable_line_kind(&self) -> Option<LineKind> {
        self.keeper.usable_line_kind()
    }

    /// The number of changes of the keeper's word. A judgement after a change needs facts from
    /// after that change.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.keeper.changes()
    }

    /// Switches the counter on again, and has the gates judged before the next line. If every gate
    /// is open, the gates stay open; another judgement follows only if a thread is just reviewing
    /// them, and finds one closed.
    pub fn enable(&self) {
        self.keeper.enable();
    }

    /// Sets the kind of lines, and has the gates judged for it before the first such line. Changes
    /// nothing if the clock has this kind already. After a change to the common line, no reader
    /// finds the CPUs' lines any more. After a change to the CPUs' lines, the holder of the ticket
    /// ends the common line before readers find them.
    pub fn set_line_kind(&self, kind: LineKind) {
        self.keeper.set_line_kind(kind);
    }

    /// Counts a reading by the slow path while an iteration is due. Returns whether the reader
    /// should run it, because calls are frequent: 256 or more in an interval.
    #[must_use]
    pub fn count_slow_reading(&self, reading: &SlowReading, interval_ns: u64) -> bool {
        self.reader_schedule
            .count_slow_reading(&self.keeper, reading, interval_ns)
    }

    /// Counts an iteration that a reader or the program has run. Returns whether a review of the
    /// facts is due ([`ask_review`](Self::ask_review)). A clock's thread needs no count: it reviews
    /// the facts at each interval.
    #[must_use]
    pub fn count_iteration(&self) -> bool {
        self.reader_schedule.count_iteration()
    }

    /// Takes the lock, and returns what its holder does next. Waits for no thread.
    pub fn ask(&self, token: LockToken, reference: &impl Reference) -> Next<'_, S> {
        let Some(memory) = self.lock(token) else {
            return Next::NoIteration(Obstacle::LockHeld);
        };
        let driving = Driving {
            clock: self,
            memory,
        };
        // A thread that has taken the lock over judges for itself.
        if driving.memory.is_judged_here
            && let Some(kind) = self.keeper.usable_line_kind()
        {
            return driving.permit(kind);
        }
        match self.keeper.begin_if_due(reference) {
            Some(begun) => Next::Judge(Ticket { driving, begun }),
            None => Next::NoIteration(Obstacle::GateClosed),
        }
    }

    /// Takes the lock, and begins another judgement, because facts may have changed since the last
    /// one. Settling it ends the present line; if nothing has changed, drop the ticket. `None` if
    /// another thread has the lock, if a first judgement is still to come, or if the counter is
    /// switched off.
    #[must_use]
    pub fn ask_review(&self, token: LockToken) -> Option<Ticket<'_, S>> {
        let memory = self.lock(token)?;
        let begun = self.keeper.begin_review()?;
        let driving = Driving {
            clock: self,
            memory,
        };
        Some(Ticket { driving, begun })
    }
}

impl<S: StateCell> DrivenClock<S> {
    /// Ends the present line, and has the gates judged again before the next one.
    pub fn request_judgement(&self, counter: Option<&impl Counter>, reference: &impl Reference) {
        self.keeper
            .request_judgement(self.access(counter, reference).as_ref());
    }

    /// Switches the counter off: no reading that begins after this has returned uses it, until
    /// [`enable`](Self::enable). An iteration or a judgement that another thread has begun before
    /// may still read it, but leads to no line.
    pub fn disable(&self, counter: Option<&impl Counter>, reference: &impl Reference) {
        self.keeper
            .disable(self.access(counter, reference).as_ref());
    }

    /// The access to the common line; `None` without a counter, as at the head of this file.
    fn access<'a, C, R>(
        &'a self,
        counter: Option<&'a C>,
        reference: &'a R,
    ) -> Option<Access<'a, S, C, R>> {
        Some(Access {
            shared: &self.shared,
            counter: counter?,
            reference,
        })
    }
}

impl<'a, S> Driving<'a, S> {
    const fn permit(self, kind: LineKind) -> Next<'a, S> {
        match kind {
            LineKind::Common => Next::Iterate(Permit {
                driving: self,
                last: LastIteration::Rested,
            }),
            LineKind::PerCpu => Next::CalibrateCpus(CpusPermit { driving: self }),
        }
    }
}

impl<S> Ticket<'_, S> {
    /// The kind of lines for which the gates are judged.
    #[must_use]
    pub const fn line_kind(&self) -> LineKind {
        self.begun.line_kind()
    }

    /// The facts of the last judgement, or those that the driver has put in their place.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.driving.memory.facts
    }

    /// The facts of the last judgement, which the driver replaces.
    #[must_use]
    pub fn facts_mut(&mut self) -> &mut Facts {
        &mut self.driving.memory.facts
    }
}

impl<'a, S: StateCell> Ticket<'a, S> {
    /// Bars or unbars the clock as `decision` says, and returns what is next. If every gate is
    /// open, the control loop begins anew. If a thread has changed the keeper's word since the
    /// judgement began, the judgement is void, and the clock is barred (rule K2).
    pub fn settle(
        self,
        decision: Decision,
        counter: Option<&impl Counter>,
        reference: &impl Reference,
    ) -> Next<'a, S> {
        let Self { mut driving, begun } = self;
        let DriverMemory {
            control,
            is_judged_here,
            ..
        } = &mut *driving.memory;
        *is_judged_here = true;
        if let Decision::Open {
            resolutions,
            serves_unix_time,
        } = decision
        {
            let config = Config {
                serves_unix_time,
                ..control.config
            };
            *control = Control::new(resolutions, config);
        }
        let clock = driving.clock;
        let access = clock.access(counter, reference);
        match clock.keeper.settle(begun, decision, access.as_ref()) {
            Some(kind) => driving.permit(kind),
            // The judgement is void.
            None if clock.stage() == Stage::Unjudged => Next::NoIteration(Obstacle::Unjudged),
            None => Next::NoIteration(Obstacle::GateClosed),
        }
    }
}

impl<'a, S: StateCell> Permit<'a, S> {
    /// One iteration. Returns what is next: a second iteration after a first publication, whose
    /// line is short; else a rest.
    pub fn iterate(
        mut self,
        interval_ns: u64,
        cadence: Cadence,
        counter: &impl Counter,
        reference: &impl Reference,
    ) -> Next<'a, S> {
        let DrivenClock { shared, keeper, .. } = self.driving.clock;
        let control = &mut self.driving.memory.control;
        control.config.cadence = cadence;
        control.config.interval_ns = interval_ns;
        let iteration = control.iterate(shared, counter, reference);
        if iteration.outcome == Outcome::Barred && keeper.request_judgement_if_open() {
            return Next::NoIteration(Obstacle::Unjudged); // rule K3
        }
        if self.last.take_immediate_repeat(&iteration) {
            return Next::Iterate(self);
        }
        let iteration = iteration.with_least_rest();
        keeper.set_due(
            reference
                .monotonic_ns()
                .saturating_add(iteration.next_in_ns.cast_signed()),
        );
        Next::Rest(iteration)
    }
}

impl<S> Permit<'_, S> {
    /// The control loop.
    #[must_use]
    pub fn control(&self) -> &Control {
        &self.driving.memory.control
    }
}

impl<S> CpusPermit<'_, S> {
    /// The resolutions that the judgement has found, for
    /// [`Pass::begin`](crate::per_cpu::Pass::begin).
    #[must_use]
    pub fn resolutions(&self) -> Resolutions {
        self.driving.memory.control.resolutions
    }
}

// Clocks become steady here, which takes Miri minutes. Only the lock has unsafe code, and tests of
// its own.
#[cfg(all(test, not(miri)))]
mod tests;
