//! When an iteration runs, and when the next one is due.

use super::*;

/// A first line is short, so an iteration must follow.
#[test]
fn a_first_publication_is_followed_by_another_iteration_at_once() {
    let process = Process::new();
    let first = core::iter::repeat_with(|| process.iterate())
        .find(|outcome| *outcome != Some(Outcome::Calibrating));
    assert_eq!(first.flatten(), Some(Outcome::Published));
}

/// Other threads may end each first line, and would else keep a reader in its call.
#[test]
fn two_iterations_in_a_row_are_followed_by_a_rest() {
    let process = leak(Process::new());
    let machine = process.machine();
    let interval_ns = CONFIG.interval_ns;
    let iterate = |next: Next<'static, HookedCell>| {
        let next = match next {
            Next::Judge(ticket) => process.settle(ticket),
            next => next,
        };
        let Next::Iterate(permit) = next else {
            panic!("every gate is open");
        };
        permit.iterate(interval_ns, Cadence::Scheduled, machine, machine)
    };
    let second = loop {
        match iterate(process.ask()) {
            Next::Rest(iteration) => machine.pass(iteration.next_in_ns),
            next => break next,
        }
    };
    process.clock.shared.end_line();
    let Next::Rest(iteration) = iterate(second) else {
        panic!("a third iteration in a row");
    };
    assert_eq!(iteration.outcome, Outcome::PublishedFirst);
    assert!(iteration.next_in_ns >= MIN_INTERVAL_NS);
}

/// A common line would be wrong on some CPUs.
#[test]
fn no_common_line_comes_beside_those_of_the_cpus() {
    let process = Process::new();
    process.run_until_published();
    process.clock.set_line_kind(LineKind::PerCpu);
    assert!((0..100).all(|_| {
        process.machine().pass(CONFIG.interval_ns);
        process.iterate().is_none()
    }));
    assert!(!process.clock.shared.cell().load().is_published());
}

/// The judgement has begun the loop with another interval and cadence.
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

/// A process whose next iteration is due at this time, ns.
fn due_later() -> (Process, i64) {
    let process = Process::new();
    process.run_until_published();
    let due_ns = process.machine().truth_ns() + 1_000_000;
    process.clock.keeper.set_due(due_ns);
    (process, due_ns)
}

/// Whether a reader wants an iteration that finds no line at this time, for example because the
/// first, short one has just ended. Its calls are frequent enough for a streak.
fn wants(process: &Process, reference_ns: i64) -> bool {
    let reading = SlowReading {
        ns: reference_ns,
        source: ReadingSource::Reference { reference_ns },
    };
    (0..100).any(|_| {
        process
            .clock
            .count_slow_reading(&reading, CONFIG.interval_ns)
    })
}

#[test]
fn an_iteration_that_is_not_due_is_not_wanted() {
    let (process, due_ns) = due_later();
    assert!(!wants(&process, process.machine().truth_ns()));
    assert!(!wants(&process, due_ns - 1));
}

#[test]
fn an_iteration_that_is_due_is_wanted() {
    let (process, due_ns) = due_later();
    assert!(wants(&process, due_ns));
}

#[test]
fn no_iteration_is_wanted_while_a_gate_is_closed() {
    let (process, due_ns) = due_later();
    process.disable();
    assert!(!wants(&process, due_ns));
}

// When readers next run an iteration. An iteration sets the time, and so does a judgement that
// waits for a reason to pass. After every other judgement and change, an iteration is due at once.

fn is_due_in(process: &Process, ns: i64) -> bool {
    let keeper = &process.clock.keeper;
    keeper.is_due(keeper.stage(), process.machine().truth_ns() + ns)
}

#[test]
fn an_iteration_is_due_on_a_new_clock() {
    assert!(is_due_in(&Process::new(), 0));
}

#[test]
fn an_iteration_stays_due_if_a_driver_makes_no_use_of_its_permit() {
    let process = Process::new();
    process.run_until_published();
    assert!(
        is_due_in(&process, 0),
        "`run_until_published` lets the time pass"
    );
    drop(process.ask());
    assert!(is_due_in(&process, 0));
}

#[test]
fn an_iteration_is_due_when_the_last_one_has_said() {
    let process = Process::new();
    process.run_until_published();
    let iteration = process.drive(Cadence::Scheduled).expect("it is due");
    let next_ns = iteration.next_in_ns.cast_signed();
    assert!(!is_due_in(&process, next_ns - 1_000));
    assert!(is_due_in(&process, next_ns));
}

/// A process whose clock has a line, and whose next iteration is not due yet.
fn driven() -> Process {
    let process = Process::new();
    process.run_until_published();
    let iteration = process.drive(Cadence::Scheduled);
    _ = iteration.expect("an iteration");
    assert!(!is_due_in(&process, 0));
    process
}

/// A process whose review has found every gate open, and has ended the line.
fn reviewed() -> Process {
    let process = driven();
    let ticket = process.clock.ask_review(process.token());
    let Next::Iterate(permit) = process.settle(ticket.expect("a judged clock")) else {
        panic!("every gate is open");
    };
    drop(permit);
    process
}

/// Symptom: after a review that found every gate open again, readers had no line for an interval.
#[test]
fn an_iteration_is_due_at_once_after_a_review_that_finds_every_gate_open() {
    assert!(is_due_in(&reviewed(), 0));
}

#[test]
fn a_clock_has_a_line_again_after_a_review_that_finds_every_gate_open() {
    reviewed().run_until_published();
}

/// A process whose clock was barred after the judgement. The driver has come by since.
fn barred_late() -> Process {
    let process = driven();
    process.clock.shared.bar_clock();
    assert_eq!(process.drive(Cadence::Scheduled), None);
    process
}

#[test]
fn a_clock_that_was_barred_late_is_judged_at_once() {
    assert!(is_due_in(&barred_late(), 0));
}

#[test]
fn a_clock_that_was_barred_late_has_a_line_again() {
    barred_late().run_until_published();
}

/// A clock whose gate is closed for a reason that may have passed in 5 ms.
fn waiting() -> Process {
    let process = Process::new();
    process.run_until_published();
    let ticket = process.clock.ask_review(process.token());
    let ticket = ticket.expect("a judged clock");
    let retry_at_ns = Some(process.machine().truth_ns() + 5_000_000);
    let machine = process.machine();
    let decision = Decision::Closed { retry_at_ns };
    _ = ticket.settle(decision, Some(machine), machine);
    process
}

#[test]
fn a_judgement_is_due_when_the_reason_of_a_closed_gate_may_have_passed() {
    let process = waiting();
    assert!(!is_due_in(&process, 4_000_000));
    assert!(is_due_in(&process, 5_000_000));
}

#[test]
fn a_clock_is_not_judged_before_the_reason_of_its_closed_gate_may_have_passed() {
    let process = waiting();
    assert_eq!(process.iterate(), None);
    assert_eq!(process.clock.stage(), Stage::Waiting);
}

#[test]
fn a_clock_has_a_line_again_once_the_reason_of_its_closed_gate_has_passed() {
    let process = waiting();
    process.machine().pass(5_000_000);
    process.run_until_published();
}

#[test]
fn nothing_is_due_while_the_counter_is_switched_off() {
    let process = Process::new();
    process.run_until_published();
    process.disable();
    assert!(!is_due_in(&process, i64::MAX / 2));
}

#[test]
fn a_judgement_is_due_once_the_counter_is_switched_on() {
    let process = Process::new();
    process.run_until_published();
    process.disable();
    process.clock.enable();
    assert!(is_due_in(&process, 0));
}

/// A thread that is stopped may go on at any moment, and write: it keeps the lock.
#[test]
fn a_driver_that_is_only_stopped_keeps_the_lock() {
    let process = Process::new();
    process.run_until_published();
    let _stopped = process.ask();
    assert!((0..100).all(|_| {
        process.machine().pass(CONFIG.interval_ns);
        process.iterate().is_none()
    }));
}

#[test]
fn a_clock_is_locked_while_its_driver_is_at_work() {
    let process = Process::new();
    let is_locked = || process.clock.is_locked();
    let driver = process.ask();
    let is_locked_meanwhile = is_locked();
    drop(driver);
    assert_eq!((is_locked_meanwhile, is_locked()), (true, false));
}

/// A judgement would begin with a new one.
#[test]
fn the_control_loop_goes_on_after_its_driver_was_stopped() {
    let process = Process::new();
    process.run_until_published();
    let stopped = process.ask();
    process.machine().pass(100 * CONFIG.interval_ns);
    assert_eq!(process.iterate(), None);
    drop(stopped);
    process.run_until_published();
    assert_eq!(process.judgements.get(), 1);
}
