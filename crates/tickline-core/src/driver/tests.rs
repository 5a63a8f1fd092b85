//! Tests of the drivers, with a real clock. One thread plays all parts.

use core::cell::Cell;
use core::num::NonZeroU32;

use super::*;
use crate::control::MIN_INTERVAL_NS;
use crate::gate::keeper::Stage;
use crate::reference::Resolutions;
use crate::shared::{ReadingSource, SlowReading};
use crate::testing::{CONFIG, HookedCell, Machine, RESOLUTIONS, leak};

mod each_step;
mod iteration;
mod judgement;

/// The ids of threads: one that lives, and two that end while they hold the lock.
const LIVING: u32 = 21;
const ENDED: [u32; 2] = [22, 23];

/// A process with its clock, and the verdict that its facts lead to.
struct Process {
    clock: DrivenClock<HookedCell>,
    /// The number of its token.
    number: Cell<u32>,
    /// The thread that drives now.
    thread: Cell<u32>,
    judgements: Cell<u32>,
    is_open: Cell<bool>,
    was_open: Cell<bool>,
}

impl Process {
    fn new() -> Self {
        Self {
            clock: DrivenClock::new(SharedClock::new(HookedCell::new(Machine::new()))),
            number: Cell::new(1),
            thread: Cell::new(LIVING),
            judgements: Cell::new(0),
            is_open: Cell::new(true),
            was_open: Cell::new(true),
        }
    }

    fn machine(&self) -> &'static Machine {
        self.clock.shared.cell().machine
    }

    /// The token of the process, for the thread that drives now.
    fn token(&self) -> LockToken {
        let number = NonZeroU32::new(self.number.get()).expect("the number of a process");
        // SAFETY: no guard, ticket or permit is used after the number has changed.
        let token = unsafe { LockToken::new(number) };
        // SAFETY: nor after a thread has ended.
        unsafe { token.of_thread(self.thread.get(), |thread| ENDED.contains(&thread)) }
    }

    fn ask(&self) -> Next<'_, HookedCell> {
        self.clock.ask(self.token(), self.machine())
    }

    /// Judges by the present facts.
    fn settle<'a>(&self, mut ticket: Ticket<'a, HookedCell>) -> Next<'a, HookedCell> {
        ticket.facts_mut().has_counter = true;
        self.judgements.set(self.judgements.get() + 1);
        self.was_open.set(self.is_open.get());
        let decision = if self.is_open.get() {
            OPEN
        } else {
            Decision::Closed { retry_at_ns: None }
        };
        ticket.settle(decision, Some(self.machine()), self.machine())
    }

    /// Does what the clock says, until it says to rest or to calibrate the CPUs.
    fn drive(&self, cadence: Cadence) -> Option<Iteration> {
        let mut next = self.ask();
        loop {
            next = match next {
                Next::Judge(ticket) => self.settle(ticket),
                Next::Iterate(permit) => {
                    let interval_ns = CONFIG.interval_ns * 2;
                    permit.iterate(interval_ns, cadence, self.machine(), self.machine())
                }
                Next::CalibrateCpus(_) | Next::NoIteration(_) => return None,
                Next::Rest(iteration) => return Some(iteration),
            };
        }
    }

    /// An iteration when it is due.
    fn iterate(&self) -> Option<Outcome> {
        let iteration = self.drive(Cadence::Scheduled)?;
        self.machine().pass(iteration.next_in_ns);
        Some(iteration.outcome)
    }

    /// Judges again if the facts have changed. Returns whether they have.
    fn review(&self) -> bool {
        let Some(ticket) = self.clock.ask_review(self.token()) else {
            return false;
        };
        if self.is_open == self.was_open {
            return false;
        }
        _ = self.settle(ticket);
        true
    }

    fn disable(&self) {
        self.clock.disable(Some(self.machine()), self.machine());
    }

    fn run_until_published(&self) {
        assert!((0..100).any(|_| self.iterate() == Some(Outcome::Published)));
    }
}

const OPEN: Decision = Decision::Open {
    resolutions: RESOLUTIONS,
    serves_unix_time: true,
};
