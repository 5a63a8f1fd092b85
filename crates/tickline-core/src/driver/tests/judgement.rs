//! When the gates are judged, and what a ticket does.

use super::*;

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

/// Rule K2: a thread that switches the counter off while the facts are collected, or before the
/// ticket is settled, voids the judgement. Nobody else can judge meanwhile.
#[test]
fn rule_k2_a_ticket_holds_the_lock_and_a_change_voids_it() {
    let process = Process::new();
    let Next::Judge(ticket) = process.ask() else {
        panic!("a judgement is due");
    };
    assert!(matches!(process.ask(), Next::Rest(None)));
    assert!(process.clock.ask_review(process.token()).is_none());
    process
        .clock
        .disable(Some(process.machine()), process.machine());
    assert!(matches!(process.settle(ticket), Next::Rest(None)));
    assert!(process.clock.shared.cell.load().is_barred());

    process.clock.enable();
    let Next::Judge(ticket) = process.ask() else {
        panic!("enable() asks for a judgement");
    };
    drop(ticket);
    process.until_published();
    assert_eq!(process.judgements.get(), 2, "the next driver judges");
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
    let decision = Decision::Open {
        resolutions: Resolutions {
            reference_ns: 1_000,
            ..CONFIG.resolutions
        },
        serves_unix_time: false,
    };
    let next = ticket.settle(decision, Some(process.machine()), process.machine());
    let Next::Iterate(permit) = next else {
        panic!("every gate is open");
    };
    assert_eq!(permit.control().oldest_sample_ticks(), None);
    assert_eq!(permit.control().config.resolutions.reference_ns, 1_000);
    assert!(!permit.control().config.serves_unix_time);
}

/// Whether a reading uses it may change between two calibrations.
#[test]
fn the_cpus_lines_have_unix_time_also_while_the_os_serves_it() {
    let process = Process::new();
    process.clock.set_line_kind(LineKind::PerCpu);
    let Next::Judge(ticket) = process.ask() else {
        panic!("a first judgement is due");
    };
    let decision = Decision::Open {
        resolutions: CONFIG.resolutions,
        serves_unix_time: false,
    };
    let next = ticket.settle(decision, Some(process.machine()), process.machine());
    let Next::CalibrateCpus(permit) = next else {
        panic!("every gate is open");
    };
    assert!(permit.config().serves_unix_time);
}

/// The collector of the facts panics: the lock is free again, and the next driver judges. A driver
/// that forgets its ticket keeps the lock, but not in a forked child.
#[test]
fn a_ticket_that_is_never_settled_unbars_no_clock() {
    let process = Process::new();
    process.clock.shared.bar_clock();
    let panicked = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
        let Next::Judge(mut ticket) = process.ask() else {
            panic!("a judgement is due");
        };
        ticket.facts().has_counter = true;
        std::panic::resume_unwind(Box::new("no facts"));
    }));
    assert!(panicked.is_err());
    assert!(process.clock.shared.cell.load().is_barred());
    assert_eq!(process.clock.stage(), Stage::Unjudged);
    let next = process.ask();
    assert!(matches!(next, Next::Judge(_)));
    core::mem::forget(next);
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
        assert_eq!(matches!(process.ask(), Next::Iterate(_)), settles);
        process.until_published();
        assert_eq!(process.judgements.get(), 2);
    }
}

#[test]
fn a_judgement_that_is_requested_comes_before_the_next_line() {
    let process = Process::new();
    process.until_published();
    let machine = process.machine();
    process.clock.request_judgement(Some(machine), machine);
    assert!(!process.clock.shared.cell.load().is_published());
    process.until_published();
    assert_eq!(process.judgements.get(), 2);
}
