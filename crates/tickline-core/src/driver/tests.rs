use core::cell::Cell;

use super::*;
use crate::cell::StateCell as _;
use crate::counter::Counter as _;
use crate::testing::{CONFIG, HookedCell, Machine};

/// A process with its clock, and the verdict that its facts lead to. One thread plays all parts.
struct Process {
    clock: DrivenClock<HookedCell>,
    token: Cell<u64>,
    judgements: Cell<u32>,
    is_open: Cell<bool>,
    was_open: Cell<bool>,
}

impl Process {
    fn new() -> Self {
        Self {
            clock: DrivenClock::new(SharedClock::new(HookedCell::new(Machine::new()))),
            token: Cell::new(1),
            judgements: Cell::new(0),
            is_open: Cell::new(true),
            was_open: Cell::new(true),
        }
    }

    fn machine(&self) -> &'static Machine {
        self.clock.shared.cell.machine
    }

    /// An iteration when it is due.
    fn maintain(&self) -> Option<Outcome> {
        let iteration = self.clock.maintain(self, Cadence::Scheduled)?;
        self.machine().pass(iteration.next_in_ns);
        Some(iteration.outcome)
    }

    fn until_published(&self) {
        assert!((0..100).any(|_| self.maintain() == Some(Outcome::Published)));
    }
}

impl LineGate for Process {
    fn close(&self) {
        self.clock.shared.close_gate(self.machine(), self.machine());
    }

    fn open(&self) {
        self.clock.shared.open_gate(self.machine(), self.machine());
    }
}

// SAFETY: no guard is used after the token has changed.
unsafe impl Platform for Process {
    fn lock_token(&self) -> u64 {
        self.token.get()
    }

    fn monotonic_ns(&self) -> i64 {
        self.machine().now().cast_signed()
    }

    fn interval_ns(&self) -> u64 {
        CONFIG.interval_ns * 2
    }

    fn judge(&self, _: LineKind, locked: &mut DriverMemory) -> Option<Judgement> {
        self.judgements.set(self.judgements.get() + 1);
        self.was_open.set(self.is_open.get());
        locked.control.begin_anew(CONFIG);
        Some(if self.is_open.get() {
            Judgement::Open
        } else {
            Judgement::Closed { retry_at_ns: None }
        })
    }

    fn judge_if_changed(&self, kind: LineKind, locked: &mut DriverMemory) -> Option<Judgement> {
        if self.is_open == self.was_open {
            None
        } else {
            self.judge(kind, locked)
        }
    }

    fn iterate(&self, control: &mut Control) -> Option<Iteration> {
        Some(control.maintain(&self.clock.shared, self.machine(), self.machine()))
    }
}

#[test]
fn the_gates_are_judged_once_and_after_a_change_of_facts() {
    let process = Process::new();
    process.until_published();
    assert!(!process.clock.review(&process));
    assert_eq!(process.judgements.get(), 1);
    process.is_open.set(false);
    assert!(process.clock.review(&process));
    assert!(!process.clock.shared.cell.load().is_published());
    assert_eq!((process.maintain(), process.judgements.get()), (None, 2));
    process.is_open.set(true);
    assert!(process.clock.review(&process));
    process.until_published();
    assert_eq!(process.judgements.get(), 3);
}

/// A thread of the parent never releases the lock.
#[test]
fn a_forked_child_takes_the_lock_over_and_judges_for_itself() {
    let process = Process::new();
    process.until_published();
    core::mem::forget(process.clock.lock(&process));
    assert_eq!(process.maintain(), None);
    process.token.set(2);
    process.until_published();
    assert_eq!(process.judgements.get(), 2);
}

/// Rule K3: an iteration finds the gate closed.
#[test]
fn rule_k3_a_gate_that_is_closed_late_is_judged_again() {
    let process = Process::new();
    process.until_published();
    process.close();
    assert_eq!(process.maintain(), None);
    process.until_published();
    assert_eq!(process.judgements.get(), 2);
}

/// A recovery's line is short, so an iteration must follow.
#[test]
fn a_recovery_is_followed_by_another_iteration_at_once() {
    let process = Process::new();
    let first = core::iter::repeat_with(|| process.maintain())
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
        process.maintain().is_none()
    }));
    assert!(!process.clock.shared.cell.load().is_published());
}

/// The judge has begun the loop with another interval and cadence.
#[test]
fn an_iteration_has_the_interval_and_the_cadence_of_its_caller() {
    let process = Process::new();
    let _ = process.clock.maintain(&process, Cadence::OnDemand);
    let config = process.clock.lock(&process).unwrap().control.config;
    assert_eq!(
        (config.interval_ns, config.cadence),
        (2 * CONFIG.interval_ns, Cadence::OnDemand)
    );
}
