//! The drivers of the control loop: the clock's thread, and readers that run an iteration.

use tickline_core::control::{Cadence, Iteration, MIN_INTERVAL_NS, Outcome};
use tickline_core::driver::{Next, Permit, Ticket};
use tickline_core::gate::keeper::{self, Stage};
use tickline_core::shared::SlowReading;
use tickline_core::try_lock::LockToken;

use super::{Clock, Context, MAX_LATE_PS, Unguarded, has_ended};
use crate::check::ONE_LINE;
use crate::limits::valid_intervals;
use crate::machine::PS;
use crate::scenario::Decision;
use crate::world::{Step, SteppedCell};

impl Context {
    /// The token of the running thread.
    fn lock_token(&self) -> LockToken {
        // SAFETY: all actors of a process have the same number, and a forked process gets another.
        let process = unsafe { LockToken::new(self.clock.token_number.get()) };
        // SAFETY: an id belongs to one actor, and an actor that has ended makes no step. All run on
        // one thread.
        unsafe { process.of_thread(self.world.me().id.get(), has_ended) }
    }

    /// The thread that drives the clock.
    pub(crate) fn drive(&self) {
        loop {
            let iteration = self.iterate(Cadence::Scheduled);
            let closed = self.clock.driven.stage().is_closed();
            self.check.judge_bounds();
            if !self.may_lack_line() {
                self.check
                    .check_line_is_back(self.world.cells[ONE_LINE].state.get());
            }
            let wait_ns = match iteration {
                Some(iteration) => iteration.next_in_ns,
                None if closed => self.clock.config.interval_ns,
                None => MIN_INTERVAL_NS,
            };
            if !self.review() {
                self.world
                    .step(Step::Sleep(wait_ns * PS + self.random_ps(MAX_LATE_PS)));
            }
        }
    }

    /// Does what the clock says, as `tickline`'s engine does, and checks afterwards whether the
    /// clock is barred.
    fn iterate(&self, cadence: Cadence) -> Option<Iteration> {
        let token = self.lock_token();
        drop(self.clock.driven.lock(token)?);
        let me = self.world.me();
        me.holds_lock.set(true);
        me.steps_left.set(u64::MAX);
        let iteration = match &self.clock.unguarded {
            Some(unguarded) => Some(self.iterate_unguarded(unguarded)),
            None => self.drive_once(cadence),
        };
        me.holds_lock.set(false);
        // If readers drive, a judgement against the counter may stay, because they collect the
        // facts only after an iteration.
        let is_excused = self.clock.readers_drive.get() || self.check.acts_under_way.get() != 0;
        let may_stay_barred = is_excused || self.may_lack_line();
        match iteration.map(|iteration| iteration.outcome) {
            None | Some(Outcome::Barred) if !may_stay_barred => self.check.count_barred_iteration(),
            _ => self.check.barred.set(0),
        }
        iteration
    }

    fn drive_once(&self, cadence: Cadence) -> Option<Iteration> {
        let access = self.access();
        let mut next = self.clock.driven.ask(self.lock_token(), &access);
        loop {
            next = match next {
                Next::Judge(ticket) => self.judge(ticket),
                Next::Iterate(permit) => self.iterate_permitted(permit, cadence),
                Next::CalibrateCpus(_) => unreachable!("a table has no keeper of its own"),
                Next::Rest(iteration) => return Some(iteration),
                Next::NoIteration(_) => return None,
            };
        }
    }

    /// Judges the gates in a few steps. Other threads run between them, as they do while `tickline`
    /// collects one fact after the other, and before it settles the ticket.
    fn judge<'a>(&self, ticket: Ticket<'a, SteppedCell>) -> Next<'a, SteppedCell> {
        self.world.step(Step::Load);
        let decision = self.clock.decision.get();
        self.clock.last_decision.set(decision);
        self.world.step(Step::Load);
        let retry_at_ns = self
            .world
            .returned_ns()
            .saturating_add_unsigned(self.clock.config.interval_ns);
        let decision = match decision {
            Decision::Open => keeper::Decision::Open {
                resolutions: self.clock.resolutions,
                serves_unix_time: true,
            },
            Decision::Passing => keeper::Decision::Closed {
                retry_at_ns: Some(retry_at_ns),
            },
            Decision::Closed => keeper::Decision::Closed { retry_at_ns: None },
        };
        self.world.step(Step::Load);
        let access = self.access();
        ticket.settle(decision, Some(&access), &access)
    }

    fn iterate_permitted<'a>(
        &self,
        permit: Permit<'a, SteppedCell>,
        cadence: Cadence,
    ) -> Next<'a, SteppedCell> {
        let access = self.access();
        let interval_ns = self.clock.config.interval_ns;
        self.run_watched(ONE_LINE, || {
            let next = permit.iterate(interval_ns, cadence, &access, &access);
            let oldest_ticks = match &next {
                Next::Iterate(permit) => permit.control().oldest_sample_ticks(),
                _ => {
                    let memory = self.clock.driven.lock(self.lock_token());
                    memory.and_then(|memory| memory.control().oldest_sample_ticks())
                }
            };
            (next, true, oldest_ticks)
        })
    }

    /// An iteration of a clock that other threads bar and unbar all the time. It replaces no
    /// first line, and judges no gate.
    fn iterate_unguarded(&self, unguarded: &Unguarded) -> Iteration {
        let access = self.access();
        let mut control = unguarded.control.borrow_mut();
        let mut iteration = self.run_watched(ONE_LINE, || {
            let iteration = control.iterate(&unguarded.clock, &access, &access);
            (iteration, true, control.oldest_sample_ticks())
        });
        iteration.outcome = Outcome::RetrySoon;
        iteration.next_in_ns = iteration.next_in_ns.max(MIN_INTERVAL_NS);
        iteration
    }

    /// Judges the gates again if the result would be another one. Returns whether they were judged.
    fn review(&self) -> bool {
        let me = self.world.me();
        me.holds_lock.set(true);
        let ticket = self.clock.driven.ask_review(self.lock_token());
        let mut is_judged = false;
        if let Some(ticket) = ticket
            && self.clock.decision != self.clock.last_decision
        {
            _ = self.judge(ticket);
            is_judged = true;
        }
        me.holds_lock.set(false);
        is_judged
    }

    /// Whether the clock is allowed to be without a line.
    fn may_lack_line(&self) -> bool {
        self.clock.decision.get() != Decision::Open || self.clock.driven.stage() == Stage::Disabled
    }

    /// Runs an iteration for a cell, and records what it does. `iterate` returns its result,
    /// whether it took place, and the tick of the oldest sample after it.
    pub(crate) fn run_watched<T>(
        &self,
        cell: usize,
        iterate: impl FnOnce() -> (T, bool, Option<u64>),
    ) -> T {
        let now_ps = self.world.now_ps.get();
        let record = &self.world.cells[cell];
        let last_ps = record.iteration_began_ps.replace(now_ps);
        if now_ps - last_ps > 2 * self.clock.config.interval_ns * PS {
            self.check.record_disturbance(now_ps); // no iteration took place for a while
        }
        let valid_ns = valid_intervals(&self.world.scenario) * self.clock.config.interval_ns;
        if self.world.clocks.borrow().has_no_line(now_ps, valid_ns) {
            self.check.record_disturbance(now_ps);
        }
        let last = record.newest_start_ticks.get();
        let (result, took_place, oldest_ticks) = iterate();
        let mut counts = self.world.counts.borrow_mut();
        counts.iterations += 1;
        // A thread that was moved away afterwards may have published a line, too.
        if record.newest_start_ticks.get() != last {
            counts.publications += 1;
            let oldest_ticks = oldest_ticks.expect("a line has evidence");
            let since_ps = record.time_ps(&self.world.clocks.borrow(), oldest_ticks);
            record
                .evidence
                .borrow_mut()
                .insert(record.newest_start_ticks.get(), since_ps);
        } else if !took_place {
            record.iteration_began_ps.set(last_ps);
        }
        result
    }

    /// Runs an iteration if the reader should, as `tickline`'s engine does: readers that call often
    /// renew a line past its window, and start a line when an iteration is due.
    pub(super) fn iterate_as_reader(&self, reading: &SlowReading) -> bool {
        let Clock { driven, config, .. } = &*self.clock;
        let wanted = !self.is_per_cpu() && driven.count_slow_reading(reading, config.interval_ns);
        let served =
            wanted && self.clock.readers_drive.get() && self.iterate(Cadence::OnDemand).is_some();
        if served && driven.count_iteration() {
            self.review();
        }
        served
    }
}
