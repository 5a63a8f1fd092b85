use core::cell::Cell;

use super::*;
use crate::reference::Resolutions;
use crate::shared::{ReadingSource, SlowReading};
use crate::testing::{CONFIG, HookedCell, Machine};

/// A process with its clock, and the verdict that its facts lead to. One thread plays all parts.
struct Process {
    clock: DrivenClock<HookedCell>,
    /// The number of its token.
    number: Cell<u64>,
    judgements: Cell<u32>,
    is_open: Cell<bool>,
    was_open: Cell<bool>,
}

impl Process {
    fn new() -> Self {
        Self {
            clock: DrivenClock::new(SharedClock::new(HookedCell::new(Machine::new()))),
            number: Cell::new(1),
            judgements: Cell::new(0),
            is_open: Cell::new(true),
            was_open: Cell::new(true),
        }
    }

    fn machine(&self) -> &'static Machine {
        self.clock.shared.cell.machine
    }

    /// The token of the process.
    fn token(&self) -> LockToken {
        // SAFETY: no guard, ticket or permit is used after the number has changed.
        unsafe { LockToken::new(self.number.get()) }
    }

    fn ask(&self) -> Step<'_, HookedCell> {
        self.clock.ask(self.token(), self.machine())
    }

    /// Judges by the present facts.
    fn settle<'a>(&self, ticket: Ticket<'a, HookedCell>) -> Step<'a, HookedCell> {
        self.judgements.set(self.judgements.get() + 1);
        self.was_open.set(self.is_open.get());
        let judgement = if self.is_open.get() {
            OPEN
        } else {
            Judgement::Closed { retry_at_ns: None }
        };
        ticket.settle(judgement, Some(self.machine()), self.machine())
    }

    /// Does what the clock says, until it says to rest or to calibrate the CPUs.
    fn drive(&self, cadence: Cadence) -> Option<Iteration> {
        let mut step = self.ask();
        loop {
            step = match step {
                Step::Judge(ticket) => self.settle(ticket),
                Step::Iterate(permit) => {
                    let interval_ns = CONFIG.interval_ns * 2;
                    permit.iterate(interval_ns, cadence, self.machine(), self.machine())
                }
                Step::CalibrateCpus(_) => return None,
                Step::Rest(iteration) => return iteration,
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
        let ticket = self.clock.ask_review(self.token());
        let Some(ticket) = ticket.filter(|_| self.is_open != self.was_open) else {
            return false;
        };
        _ = self.settle(ticket);
        true
    }

    fn until_published(&self) {
        assert!((0..100).any(|_| self.iterate() == Some(Outcome::Published)));
    }
}

const OPEN: Judgement = Judgement::Open {
    resolutions: CONFIG.resolutions,
    serves_unix_time: true,
};

#[test]
fn the_gates_are_judged_once_and_after_a_change_of_facts() {
    let process = Process::new();
    process.until_published();
    assert!(!process.review());
    assert_eq!(process.judgements.get(), 1);
    process.is_open.set(false);
    assert!(process.review());
    assert!(!process.clock.shared.cell.load().is_published());
    assert_eq!((process.iterate(), process.judgements.get()), (None, 2));
    process.is_open.set(true);
    assert!(process.review());
    process.until_published();
    assert_eq!(process.judgements.get(), 3);
}

/// A thread of the parent never releases the lock.
#[test]
fn a_forked_child_takes_the_lock_over_and_judges_for_itself() {
    let process = Process::new();
    process.until_published();
    core::mem::forget(process.clock.lock(process.token()));
    assert_eq!(process.iterate(), None);
    process.number.set(2);
    process.until_published();
    assert_eq!(process.judgements.get(), 2);
}

/// Rule K3: an iteration finds the gate closed.
#[test]
fn rule_k3_a_gate_that_is_closed_late_is_judged_again() {
    let process = Process::new();
    process.until_published();
    process.clock.shared.close();
    assert_eq!(process.iterate(), None);
    process.until_published();
    assert_eq!(process.judgements.get(), 2);
}

/// A recovery's line is short, so an iteration must follow.
#[test]
fn a_recovery_is_followed_by_another_iteration_at_once() {
    let process = Process::new();
    let first = core::iter::repeat_with(|| process.iterate())
        .find(|outcome| *outcome != Some(Outcome::Calibrating));
    assert_eq!(first, Some(Some(Outcome::Published)));
}

/// A common line would be wrong on some CPUs.
#[test]
fn no_common_line_comes_beside_those_of_the_cpus() {
    let process = Process::new();
    process.until_published();
    process.clock.keeper.set_line_kind(LineKind::PerCpu);
    assert!((0..100).all(|_| {
        process.machine().pass(CONFIG.interval_ns);
        process.iterate().is_none()
    }));
    assert!(!process.clock.shared.cell.load().is_published());
}

/// Other facts may mean another reference, about which the earlier samples say nothing.
#[test]
fn a_judgement_begins_the_loop_anew_with_its_settings() {
    let process = Process::new();
    process.until_published();
    let samples = || {
        let memory = process.clock.lock(process.token()).unwrap();
        memory.control().oldest_sample_ticks()
    };
    assert!(samples().is_some());
    let ticket = process.clock.ask_review(process.token()).unwrap();
    let judgement = Judgement::Open {
        resolutions: Resolutions {
            reference_ns: 1_000,
            ..CONFIG.resolutions
        },
        serves_unix_time: false,
    };
    let step = ticket.settle(judgement, Some(process.machine()), process.machine());
    let Step::Iterate(permit) = step else {
        panic!("every gate is open");
    };
    assert_eq!(permit.control().oldest_sample_ticks(), None);
    assert_eq!(permit.control().config.resolutions.reference_ns, 1_000);
    assert!(!permit.control().serves_unix_time);
}

/// Rule K2: a thread that switches the counter off while the facts are collected, or before the
/// ticket is settled, voids the judgement. Nobody else can judge meanwhile.
#[test]
fn rule_k2_a_ticket_holds_the_lock_and_a_change_voids_it() {
    let process = Process::new();
    let Step::Judge(ticket) = process.ask() else {
        panic!("a judgement is due");
    };
    assert!(matches!(process.ask(), Step::Rest(None)));
    assert!(process.clock.ask_review(process.token()).is_none());
    process
        .clock
        .disable(Some(process.machine()), process.machine());
    assert!(matches!(process.settle(ticket), Step::Rest(None)));
    assert!(process.clock.shared.cell.load().is_gate_closed());

    process.clock.keeper.enable();
    let Step::Judge(ticket) = process.ask() else {
        panic!("enable() asks for a judgement");
    };
    drop(ticket);
    process.until_published();
    assert_eq!(process.judgements.get(), 2, "the next driver judges");
}

/// The judge has begun the loop with another interval and cadence.
#[test]
fn an_iteration_has_the_interval_and_the_cadence_of_its_caller() {
    let process = Process::new();
    process.drive(Cadence::OnDemand);
    let config = process.clock.lock(process.token()).unwrap().control.config;
    assert_eq!(
        (config.interval_ns, config.cadence),
        (2 * CONFIG.interval_ns, Cadence::OnDemand)
    );
}

/// A reader finds no line, for example because the first, short one has just ended.
#[test]
fn an_iteration_that_is_not_due_is_not_wanted() {
    let process = Process::new();
    process.until_published();
    let now_ns = process.machine().truth_ns();
    let due_ns = now_ns + 1_000_000;
    process.clock.keeper.set_due(due_ns);
    // Calls that are frequent enough for a streak.
    let wants = |reference_ns| {
        let reading = SlowReading {
            ns: reference_ns,
            source: ReadingSource::Reference { reference_ns },
        };
        let DrivenClock {
            keeper,
            reader_schedule,
            ..
        } = &process.clock;
        (0..100).any(|_| reader_schedule.wants_iteration(keeper, &reading, CONFIG.interval_ns))
    };
    assert!(!wants(now_ns) && !wants(due_ns - 1));
    assert!(wants(due_ns));
    process
        .clock
        .disable(Some(process.machine()), process.machine());
    assert!(!wants(due_ns), "a gate is closed");
}
