use core::cell::Cell;

use super::*;
use crate::control::MIN_INTERVAL_NS;
use crate::gate::keeper::Stage;
use crate::reference::Resolutions;
use crate::shared::{ReadingSource, SlowReading};
use crate::testing::{CONFIG, HookedCell, Machine, leak};

/// The ids of threads: one that lives, and two that end while they hold the lock.
const LIVING: u32 = 21;
const ENDED: [u32; 2] = [22, 23];

/// A process with its clock, and the verdict that its facts lead to. One thread plays all parts.
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
        self.clock.shared.cell.machine
    }

    /// The token of the process, for the thread that drives now.
    fn token(&self) -> LockToken {
        // SAFETY: no guard, ticket or permit is used after the number has changed.
        let token = unsafe { LockToken::new(self.number.get()) };
        // SAFETY: nor after a thread has ended.
        unsafe { token.of_thread(self.thread.get(), |thread| ENDED.contains(&thread)) }
    }

    fn ask(&self) -> Step<'_, HookedCell> {
        self.clock.ask(self.token(), self.machine())
    }

    /// Judges by the present facts.
    fn settle<'a>(&self, mut ticket: Ticket<'a, HookedCell>) -> Step<'a, HookedCell> {
        ticket.facts().has_counter = true;
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

/// Rule K3: an iteration finds the clock barred.
#[test]
fn rule_k3_a_clock_that_is_barred_late_is_judged_again() {
    let process = Process::new();
    process.until_published();
    process.clock.shared.bar_clock();
    assert_eq!(process.iterate(), None);
    process.until_published();
    assert_eq!(process.judgements.get(), 2);
}

/// A first line is short, so an iteration must follow.
#[test]
fn a_first_publication_is_followed_by_another_iteration_at_once() {
    let process = Process::new();
    let first = core::iter::repeat_with(|| process.iterate())
        .find(|outcome| *outcome != Some(Outcome::Calibrating));
    assert_eq!(first, Some(Some(Outcome::Published)));
}

/// Other threads may end each first line, and would else keep a reader in its call.
#[test]
fn two_iterations_in_a_row_are_followed_by_a_rest() {
    let process = leak(Process::new());
    let (machine, interval_ns) = (process.machine(), CONFIG.interval_ns);
    let iterate = |step: Step<'static, HookedCell>| {
        let step = match step {
            Step::Judge(ticket) => process.settle(ticket),
            step => step,
        };
        let Step::Iterate(permit) = step else {
            panic!("every gate is open");
        };
        permit.iterate(interval_ns, Cadence::Scheduled, machine, machine)
    };
    let second = loop {
        match iterate(process.ask()) {
            Step::Rest(Some(iteration)) => machine.pass(iteration.next_in_ns),
            step => break step,
        }
    };
    process.clock.shared.end_line();
    let Step::Rest(Some(iteration)) = iterate(second) else {
        panic!("a third iteration in a row");
    };
    assert_eq!(iteration.outcome, Outcome::PublishedFirst);
    assert!(iteration.next_in_ns >= MIN_INTERVAL_NS);
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
    assert!(process.clock.shared.cell.load().is_barred());

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

type NamedAct = (&'static str, fn(&Process));

/// What another thread, or a signal handler on this one, may do at any moment.
const ACTS: [NamedAct; 6] = [
    ("disable", Process::disable),
    ("enable", |process| process.clock.keeper.enable()),
    ("request_judgement", |process| {
        let machine = process.machine();
        process.clock.request_judgement(Some(machine), machine);
    }),
    ("to the CPUs' lines", |process| {
        process.clock.keeper.set_line_kind(LineKind::PerCpu);
    }),
    ("disable, enable", |process| {
        process.disable();
        process.clock.keeper.enable();
    }),
    ("to the CPUs' lines and back", |process| {
        process.clock.keeper.set_line_kind(LineKind::PerCpu);
        process.clock.keeper.set_line_kind(LineKind::Common);
    }),
];

/// Runs `work`, and runs `act` before its step number `step`. Returns whether it took that many.
fn act_at_step(
    process: &'static Process,
    step: u32,
    act: impl Fn() + 'static,
    work: impl FnOnce(),
) -> bool {
    let taken = leak(Cell::new(0));
    process.machine().hooks.set(move |_| {
        let now = taken.replace(taken.get() + 1);
        if now == step {
            act();
        }
    });
    work();
    process.machine().hooks.clear();
    taken.get() > step
}

/// The clock before its first judgement, after a judgement that another one must follow, and with a
/// line.
const BEFORE: [fn(&Process); 3] = [
    |_| (),
    |process| {
        process.until_published();
        process.disable();
        process.clock.keeper.enable();
    },
    Process::until_published,
];

/// Before any step of a judgement, of a review and of an iteration, the lock refuses a signal
/// handler, and a thread may change the keeper's word. Readings stay in order. When the driver
/// comes again, the line and the bar agree with the last change, and no line outlives a
/// `disable()`.
#[test]
fn a_change_before_any_step_of_a_driver_counts() {
    for (before, (name, act)) in BEFORE
        .into_iter()
        .flat_map(|before| ACTS.map(|act| (before, act)))
    {
        let mut step = 0;
        loop {
            let process = leak(Process::new());
            before(process);
            let last_ns = leak(Cell::new(process.clock.shared.slow().ns));
            let interrupt = move || {
                assert!(
                    matches!(process.ask(), Step::Rest(None)),
                    "a deadlock, or two drivers"
                );
                assert!(process.clock.ask_review(process.token()).is_none());
                act(process);
                let now = process.clock.shared.slow();
                assert!(now.ns >= last_ns.replace(now.ns), "{name}, step {step}");
                let is_off = process.clock.keeper.stage() == Stage::Disabled;
                assert!(!is_off || process.clock.shared.by_line().is_none());
            };
            let work = || {
                process.drive(Cadence::Scheduled);
                // The facts have changed, but the result is the same.
                if let Some(ticket) = process.clock.ask_review(process.token()) {
                    _ = process.settle(ticket);
                }
            };
            if !act_at_step(process, step, interrupt, work) {
                break;
            }
            assert!(
                process.clock.shared.slow().ns >= last_ns.get(),
                "{name}, step {step}"
            );
            match name {
                "disable" => {
                    assert!((0..20).all(|_| process.iterate() != Some(Outcome::Published)));
                    assert_eq!(process.clock.keeper.stage(), Stage::Disabled);
                    assert!(process.clock.shared.cell.load().is_barred());
                    process.clock.keeper.enable();
                }
                "to the CPUs' lines" => {
                    assert_eq!(process.drive(Cadence::Scheduled), None);
                    assert_eq!(process.clock.keeper.line_kind(), Some(LineKind::PerCpu));
                    assert!(!process.clock.shared.cell.load().is_published());
                    process.clock.keeper.set_line_kind(LineKind::Common);
                }
                _ => {}
            }
            process.until_published();
            assert!(
                process.clock.shared.slow().ns >= last_ns.get(),
                "{name}, step {step}"
            );
            step += 1;
        }
        assert!(step > 20, "{name}: {step}");
    }
}

/// The end of a driver that holds the lock, and the next one.
#[derive(Debug, Clone, Copy)]
enum Gone {
    /// Another thread forks. The driver does not exist in the child, which goes on.
    Forked,
    /// The driver's thread is killed. Another thread goes on.
    Killed,
}

impl Gone {
    /// Lets the driver be gone. The next one takes the lock over, and forgets the guard: that keeps
    /// the unwinding driver from releasing the lock.
    fn strike(self, process: &Process) {
        match self {
            Self::Forked => process.number.set(2),
            Self::Killed => process.thread.set(ENDED[1]),
        }
        core::mem::forget(process.clock.lock(process.token()).expect("a takeover"));
    }

    /// Plays the release of the forgotten guard, by another takeover.
    fn release(self, process: &Process) {
        match self {
            Self::Forked => process.number.set(3),
            Self::Killed => process.thread.set(LIVING),
        }
    }
}

/// A driver is gone before any step of a judgement, of a review and of an iteration. The next one
/// takes the lock over, judges for itself, and its readings are in order.
#[test]
fn a_driver_that_is_gone_before_any_step_has_a_successor() {
    for (before, gone) in BEFORE
        .into_iter()
        .flat_map(|before| [Gone::Forked, Gone::Killed].map(|gone| (before, gone)))
    {
        let mut step = 0;
        loop {
            let process = leak(Process::new());
            before(process);
            process.thread.set(ENDED[0]);
            let judgements = process.judgements.get();
            let last_ns = process.clock.shared.slow().ns;
            let strike = move || {
                gone.strike(process);
                std::panic::resume_unwind(Box::new("the driver's stack is gone"));
            };
            let taken = leak(Cell::new(false));
            let driven = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
                taken.set(act_at_step(process, step, strike, || {
                    process.drive(Cadence::Scheduled);
                    if let Some(ticket) = process.clock.ask_review(process.token()) {
                        _ = process.settle(ticket);
                    }
                }));
            }));
            if driven.is_ok() {
                assert!(!taken.get());
                break;
            }
            process.machine().hooks.clear();
            let judged = process.judgements.get() - judgements;
            gone.release(process);
            assert!(process.clock.shared.slow().ns >= last_ns, "step {step}");
            process.until_published();
            assert_eq!(
                process.judgements.get() - judgements,
                judged + 1,
                "{gone:?}, step {step}"
            );
            assert!(process.clock.shared.slow().ns >= last_ns, "step {step}");
            step += 1;
        }
        assert!(step > 20, "{step}");
    }
}

/// A thread that is stopped may go on at any moment, and write: it keeps the lock.
#[test]
fn a_driver_that_is_only_stopped_keeps_the_lock() {
    let process = Process::new();
    process.until_published();
    let stopped = process.ask();
    assert!(process.clock.is_locked());
    assert!((0..100).all(|_| {
        process.machine().pass(CONFIG.interval_ns);
        process.iterate().is_none()
    }));
    drop(stopped);
    process.until_published();
    assert_eq!(process.judgements.get(), 1, "the control loop goes on");
    assert!(!process.clock.is_locked());
}

/// The collector of the facts panics: the lock is free again, and the next driver judges. A driver
/// that forgets its ticket keeps the lock, but not in a forked child.
#[test]
fn a_ticket_that_is_never_settled_unbars_no_clock() {
    let process = Process::new();
    process.clock.shared.bar_clock();
    let panicked = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
        let Step::Judge(mut ticket) = process.ask() else {
            panic!("a judgement is due");
        };
        ticket.facts().has_counter = true;
        std::panic::resume_unwind(Box::new("no facts"));
    }));
    assert!(panicked.is_err());
    assert!(process.clock.shared.cell.load().is_barred());
    assert_eq!(process.clock.keeper.stage(), Stage::Unjudged);
    let step = process.ask();
    assert!(matches!(step, Step::Judge(_)));
    core::mem::forget(step);
    assert!((0..100).all(|_| process.iterate().is_none()));
    assert!(process.clock.shared.cell.load().is_barred());
    process.number.set(2);
    process.until_published();
    assert_eq!(process.judgements.get(), 1);
}

/// A review in a child that has taken the lock over is a judgement of its own. Until one is
/// settled, the child publishes nothing with its parent's control loop.
#[test]
fn a_childs_first_judgement_may_be_a_review() {
    for settles in [true, false] {
        let process = Process::new();
        process.until_published();
        core::mem::forget(process.ask());
        process.number.set(2);
        let mut ticket = process.clock.ask_review(process.token()).unwrap();
        assert_eq!(
            *ticket.facts(),
            Facts::UNKNOWN,
            "the parent's are half changed"
        );
        if settles {
            _ = process.settle(ticket);
        } else {
            drop(ticket);
        }
        assert_eq!(matches!(process.ask(), Step::Iterate(_)), settles);
        process.until_published();
        assert_eq!(process.judgements.get(), 2);
    }
}

/// When readers next run an iteration. An iteration sets the time, and so does a judgement that
/// waits for a reason to pass. After every other judgement and change, an iteration is due at once.
///
/// Symptom: after a review that found every gate open again, readers had no line for an interval.
#[test]
fn an_iteration_is_due_when_the_driver_says() {
    let process = Process::new();
    let keeper = &process.clock.keeper;
    let is_due_in = |ns| keeper.is_due(keeper.stage(), process.machine().truth_ns() + ns);
    let is_due = || is_due_in(0);
    assert!(is_due());
    process.until_published();
    assert!(is_due(), "`until_published` has let the time pass");
    drop(process.ask());
    assert!(is_due(), "the driver has made no use of its permit");
    let next_ns = process
        .drive(Cadence::Scheduled)
        .unwrap()
        .next_in_ns
        .cast_signed();
    assert!(!is_due_in(next_ns - 1_000) && is_due_in(next_ns));

    let ticket = process.clock.ask_review(process.token()).unwrap();
    let Step::Iterate(permit) = process.settle(ticket) else {
        panic!("every gate is open");
    };
    drop(permit);
    assert!(is_due(), "the review has ended the line");
    process.until_published();

    _ = process.drive(Cadence::Scheduled);
    process.clock.shared.bar_clock();
    assert_eq!(process.drive(Cadence::Scheduled), None);
    assert!(is_due(), "a clock that was barred late is judged at once");
    process.until_published();

    let ticket = process.clock.ask_review(process.token()).unwrap();
    let retry_at_ns = Some(process.machine().truth_ns() + 5_000_000);
    let (machine, judgement) = (process.machine(), Judgement::Closed { retry_at_ns });
    _ = ticket.settle(judgement, Some(machine), machine);
    assert!(!is_due_in(4_000_000) && is_due_in(5_000_000));
    assert_eq!(process.iterate(), None);
    assert_eq!(keeper.stage(), Stage::Waiting, "not due yet");
    process.machine().pass(5_000_000);
    process.until_published();

    process.disable();
    assert!(!is_due_in(i64::MAX / 2));
    keeper.enable();
    assert!(is_due());
}
