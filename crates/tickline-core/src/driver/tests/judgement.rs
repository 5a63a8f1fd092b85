//! When the gates are judged, and what a ticket does.

use super::*;

#[test]
fn a_review_of_the_same_facts_has_no_judgement() {
    let process = Process::new();
    process.run_until_published();
    assert!(!process.review());
    assert_eq!(process.judgements.get(), 1);
}

/// A program tells by the count whether its facts are from after the last change.
#[test]
fn each_switch_of_the_counter_is_a_counted_change() {
    let process = Process::new();
    process.run_until_published();
    let before = process.clock.changes();
    process.disable();
    let disabled = process.clock.changes();
    process.clock.enable();
    let changes = [disabled - before, process.clock.changes() - disabled];
    assert_eq!(changes, [1, 1]);
}

/// A process whose gate was closed while it had a line.
fn process_with_a_closed_gate() -> Process {
    let process = Process::new();
    process.run_until_published();
    process.is_open.set(false);
    assert!(process.review());
    process
}

#[test]
fn a_gate_that_closes_ends_the_line() {
    let process = process_with_a_closed_gate();
    assert!(!process.clock.shared.cell().load().is_published());
    assert_eq!((process.iterate(), process.judgements.get()), (None, 2));
}

#[test]
fn a_gate_that_opens_again_lets_lines_be_published() {
    let process = process_with_a_closed_gate();
    process.is_open.set(true);
    assert!(process.review());
    process.run_until_published();
    assert_eq!(process.judgements.get(), 3);
}

/// A thread of the parent never releases the lock.
#[test]
fn a_forked_child_takes_the_lock_over_and_judges_for_itself() {
    let process = Process::new();
    process.run_until_published();
    core::mem::forget(process.clock.lock(process.token()));
    assert_eq!(process.iterate(), None);
    process.number.set(2);
    process.run_until_published();
    assert_eq!(process.judgements.get(), 2);
}

/// Rule K3: an iteration finds the clock barred.
#[test]
fn rule_k3_a_clock_that_is_barred_late_is_judged_again() {
    let process = Process::new();
    process.run_until_published();
    process.clock.shared.bar_clock();
    assert_eq!(process.iterate(), None);
    process.run_until_published();
    assert_eq!(process.judgements.get(), 2);
}

/// Why the driver may not run an iteration.
fn obstacle(next: Next<'_, HookedCell>) -> Obstacle {
    let Next::NoIteration(obstacle) = next else {
        panic!("an iteration may run, or has run");
    };
    obstacle
}

/// The ticket of a judgement that is due.
fn ticket(process: &Process) -> Ticket<'_, HookedCell> {
    let Next::Judge(ticket) = process.ask() else {
        panic!("a judgement is due");
    };
    ticket
}

#[test]
fn rule_k2_nobody_else_judges_while_a_ticket_is_held() {
    let process = Process::new();
    let _ticket = ticket(&process);
    assert_eq!(obstacle(process.ask()), Obstacle::LockHeld);
    assert!(process.clock.ask_review(process.token()).is_none());
}

/// A process in which a thread has switched the counter off while the facts were collected, or
/// before the ticket was settled.
fn process_with_a_voided_ticket() -> Process {
    let process = Process::new();
    let ticket = ticket(&process);
    process.disable();
    assert_eq!(obstacle(process.settle(ticket)), Obstacle::GateClosed);
    process
}

#[test]
fn a_driver_learns_that_a_gate_is_closed() {
    let process = process_with_a_closed_gate();
    assert_eq!(obstacle(process.ask()), Obstacle::GateClosed);
}

#[test]
fn a_driver_whose_judgement_is_void_learns_that_it_may_judge_again() {
    let process = Process::new();
    let ticket = ticket(&process);
    process
        .clock
        .request_judgement(Some(process.machine()), process.machine());
    assert_eq!(obstacle(process.settle(ticket)), Obstacle::Unjudged);
    assert!(matches!(process.ask(), Next::Judge(_)));
}

#[test]
fn a_driver_that_finds_the_clock_barred_learns_that_it_may_judge_again() {
    let process = Process::new();
    process.run_until_published();
    let Next::Iterate(permit) = process.ask() else {
        panic!("every gate is open");
    };
    process.clock.shared.bar_clock();
    let machine = process.machine();
    let cadence = Cadence::Scheduled;
    let next = permit.iterate(CONFIG.interval_ns, cadence, machine, machine);
    assert_eq!(obstacle(next), Obstacle::Unjudged);
    assert!(matches!(process.ask(), Next::Judge(_)));
}

#[test]
fn rule_k2_a_ticket_that_a_change_has_voided_unbars_no_clock() {
    let process = process_with_a_voided_ticket();
    assert!(process.clock.shared.cell().load().is_barred());
}

#[test]
fn after_a_voided_ticket_enabling_asks_for_another_judgement() {
    let process = process_with_a_voided_ticket();
    process.clock.enable();
    process.run_until_published();
    assert_eq!(process.judgements.get(), 2);
}

#[test]
fn after_a_ticket_that_was_dropped_the_next_driver_judges() {
    let process = process_with_a_voided_ticket();
    process.clock.enable();
    drop(ticket(&process));
    process.run_until_published();
    assert_eq!(process.judgements.get(), 2);
}

/// Other facts may mean another reference, about which the earlier samples say nothing.
#[test]
fn a_judgement_begins_the_loop_anew_with_its_settings() {
    let process = Process::new();
    process.run_until_published();
    let samples = || {
        let memory = process.clock.lock(process.token()).unwrap();
        memory.control().oldest_sample_ticks()
    };
    assert!(samples().is_some());
    let ticket = process.clock.ask_review(process.token()).unwrap();
    let decision = Decision::Open {
        resolutions: Resolutions {
            reference_ns: 1_000,
            ..RESOLUTIONS
        },
        serves_unix_time: false,
    };
    let next = ticket.settle(decision, Some(process.machine()), process.machine());
    let Next::Iterate(permit) = next else {
        panic!("every gate is open");
    };
    assert_eq!(permit.control().oldest_sample_ticks(), None);
    assert_eq!(permit.control().resolutions.reference_ns, 1_000);
    assert!(!permit.control().config.serves_unix_time);
}

#[test]
fn the_cpus_loops_get_the_resolutions_of_the_judgement() {
    let process = Process::new();
    process.clock.set_line_kind(LineKind::PerCpu);
    let Next::Judge(ticket) = process.ask() else {
        panic!("a first judgement is due");
    };
    let resolutions = Resolutions {
        reference_ns: 1_000,
        ..RESOLUTIONS
    };
    let decision = Decision::Open {
        resolutions,
        serves_unix_time: true,
    };
    let next = ticket.settle(decision, Some(process.machine()), process.machine());
    let Next::CalibrateCpus(permit) = next else {
        panic!("every gate is open");
    };
    assert_eq!(permit.resolutions(), resolutions);
}

#[test]
fn a_collector_that_panics_unbars_no_clock() {
    let process = Process::new();
    process.clock.shared.bar_clock();
    let panicked = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
        ticket(&process).facts_mut().has_counter = true;
        std::panic::resume_unwind(Box::new("no facts"));
    }));
    assert!(panicked.is_err());
    assert!(process.clock.shared.cell().load().is_barred());
    assert_eq!(process.clock.stage(), Stage::Unjudged);
    assert!(matches!(process.ask(), Next::Judge(_)), "the lock is free");
}

/// A process whose driver has forgotten the ticket of a judgement.
fn process_with_a_forgotten_ticket() -> Process {
    let process = Process::new();
    process.clock.shared.bar_clock();
    core::mem::forget(ticket(&process));
    process
}

#[test]
fn a_driver_that_forgets_its_ticket_keeps_the_lock() {
    let process = process_with_a_forgotten_ticket();
    assert!((0..100).all(|_| process.iterate().is_none()));
    assert!(process.clock.shared.cell().load().is_barred());
}

#[test]
fn a_forked_child_judges_without_the_ticket_that_its_parent_forgot() {
    let process = process_with_a_forgotten_ticket();
    process.number.set(2);
    process.run_until_published();
    assert_eq!(process.judgements.get(), 1);
}

/// A review in a child that has taken the lock over is a judgement of its own. Until one is
/// settled, the child publishes nothing with its parent's control loop.
#[test]
fn a_childs_first_judgement_may_be_a_review() {
    for settles in [true, false] {
        let process = Process::new();
        process.run_until_published();
        core::mem::forget(process.ask());
        process.number.set(2);
        let ticket = process.clock.ask_review(process.token()).unwrap();
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
        assert_eq!(matches!(process.ask(), Next::Iterate(_)), settles);
        process.run_until_published();
        assert_eq!(process.judgements.get(), 2);
    }
}

#[test]
fn a_judgement_that_is_requested_comes_before_the_next_line() {
    let process = Process::new();
    process.run_until_published();
    let machine = process.machine();
    process.clock.request_judgement(Some(machine), machine);
    assert!(!process.clock.shared.cell().load().is_published());
    process.run_until_published();
    assert_eq!(process.judgements.get(), 2);
}
