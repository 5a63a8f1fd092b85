//! Forked children: the clocks and guards that they inherit, and may use. A program that a child
//! executes is in `life.rs`.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use tickline::{Clock, ClockState, CounterComparison, Driver, Probes, Trust};

use crate::common::procfs::{await_tickline_threads, threads_named, tickline_threads, timers};
use crate::common::{read_in_order, read_until, run_in_fork, skip, wait_until, wait_until_fast};

// Tests: the functions of these names.
in_processes! { run_in_child_of_a_kernel:
    a_forked_child_goes_on_without_its_parents_thread,
    a_forked_child_drops_what_it_inherited_with_the_descriptors,
    an_inherited_guard_does_not_stop_the_childs_own_thread,
    a_child_forked_during_a_comparison_compares_for_itself,
    a_forked_child_that_waits_for_a_clock_drives_it,
}

fn a_forked_child_goes_on_without_its_parents_thread() {
    let clock = Clock::builder()
        .interval(Duration::from_millis(5))
        .build()
        .unwrap();
    wait_until_fast(&clock);
    for _ in 0..5 {
        let mut last = clock.now_ordered().as_nanos();
        run_in_fork(|| {
            read_in_order(&clock, &mut last);
            assert_eq!(
                (clock.status().driver, tickline_threads().len()),
                (Some(Driver::Reader), 0)
            );
            // Longer than any line of the parent is valid, so that the child makes its own.
            let end = clock.recent().as_nanos() + 300_000_000;
            while last < end {
                read_in_order(&clock, &mut last);
            }
            assert!(
                clock.recent().as_nanos() >= end,
                "the recent time of a thread that does not exist here"
            );
            // On a busy machine a thread may be preempted for longer than a line lasts, so this
            // asks for the state again and again.
            read_until(&clock, Clock::now_ordered, |status| {
                status.state != ClockState::Calibrating
            });
        });
    }
}

/// The parent keeps its own descriptors.
fn a_forked_child_drops_what_it_inherited_with_the_descriptors() {
    let guard = RefCell::new(Some(tickline::start().unwrap()));
    let clock = RefCell::new(Some(Clock::builder().build().unwrap()));
    assert_eq!(timers().len(), 2);
    run_in_fork(|| {
        drop(clock.take());
        assert_eq!(timers().len(), 1);
        drop(guard.take());
        assert_eq!(timers().len(), 0);
    });
    assert_eq!(timers().len(), 2);
}

fn an_inherited_guard_does_not_stop_the_childs_own_thread() {
    let guard = RefCell::new(Some(tickline::start().unwrap()));
    run_in_fork(|| {
        let _own = tickline::start().unwrap(); // forgets the inherited thread
        await_tickline_threads(1);
        assert_eq!(timers().len(), 1);
        drop(guard.take());
        // This waits, because a thread that is created for a comparison has this name at first.
        await_tickline_threads(1);
        assert_eq!(
            (Clock::global().status().driver, timers().len()),
            (Some(Driver::Thread), 1)
        );
    });
}

/// Without a fork token, a child can't take over most locks of its parent's threads. It takes over
/// the lock of a comparison, which is held for long: otherwise it would never compare.
fn a_child_forked_during_a_comparison_compares_for_itself() {
    drop(Clock::builder().probes(Probes::Minimal).build().unwrap()); // so there is no fork token
    let start = || Clock::builder().trust(Trust::Measured).build().unwrap();
    let clock = start();
    let begun = Instant::now();
    while threads_named("tickline-cmp").is_empty() {
        if clock.status().comparison != CounterComparison::Pending || begun.elapsed().as_secs() > 5
        {
            return skip("no comparison to fork in");
        }
    }
    run_in_fork(|| {
        let own = start();
        wait_until(&own, || {
            own.status().comparison != CounterComparison::Pending
        });
    });
}

/// The thread that would have judged the gates is the parent's.
fn a_forked_child_that_waits_for_a_clock_drives_it() {
    let clock = Clock::builder().build().unwrap();
    clock.disable();
    run_in_fork(|| {
        clock.enable();
        let status = clock.wait_until_decided(Duration::from_secs(20));
        assert!(status.is_judged, "{status}");
        assert_ne!(status.state, ClockState::Calibrating);
    });
}
