//! Comparisons of this machine's counters, and the reaction of clocks.

use std::iter;
use std::process::{Command, Stdio};

use tickline_core::comparison::{CounterDifference, MAX_DIFFERENCE_NS};
use tickline_core::gate::Reason;

use super::*;
use crate::engine::Engine;
use crate::testing::skip;
use crate::{Clock, ClockState, Driver, LinePerCpu, Status};

/// Two counters that are a thousand ticks apart.
const UNSYNCHRONISED: CounterComparison = CounterComparison::Unsynchronised {
    cpu: 0,
    other_cpu: 1,
    difference: CounterDifference {
        min_ticks: 900,
        max_ticks: 1_000,
    },
};

const SYNCHRONISED: CounterComparison = CounterComparison::Synchronised {
    cpus: 2,
    max_difference_ticks: 400,
};

/// The results below are of this host.
const MARKER: Option<u64> = None;

#[test]
fn the_counters_of_this_machine_are_compared() {
    if COUNTER.is_none() || !crate::sys::may_read_counter() {
        return skip("no counter that may be read");
    }
    let sleep = StoppableSleep::plain();
    let comparison = compare(&sleep).expect("not stopped");
    match sys::comparable_cpus().len() {
        0 => assert_eq!(comparison, CounterComparison::Impossible),
        1 => assert_eq!(comparison, CounterComparison::Single),
        // This machine's counters may be unsynchronised, and its CPUs too busy; but the comparison
        // must have ended.
        _ => assert!(
            !matches!(
                comparison,
                CounterComparison::Pending | CounterComparison::Single
            ),
            "{comparison:?}"
        ),
    }
}

/// The comparison is impossible only if the CPUs exchange too little, or too slowly.
#[test]
fn enough_exchanges_make_a_comparison() {
    let cpus = sys::comparable_cpus();
    let &[first, ref others @ ..] = cpus.as_slice() else {
        return skip("no CPU that is known");
    };
    if others.is_empty() {
        return skip("no second CPU that is known");
    }
    let Some(counter) = COUNTER else {
        return skip("no counter");
    };
    if !crate::sys::may_read_counter() {
        return skip("no counter that may be read");
    }
    // A busy machine may do both, only one or none of the two.
    for _ in 0..5 {
        let rate = RateOnCpu::begin(first, counter);
        let resolution_ticks = resolution_ticks(&counter);
        let between = |other: &u32| {
            let exchanges = exchange::between(first, *other);
            exchanges.synchronisation(resolution_ticks, rate.allowed_difference_ticks(counter))
        };
        let were_enough = others
            .iter()
            .all(|other| between(other) != Synchronisation::Unknown);
        let comparison = compare(&StoppableSleep::plain());
        if comparison != Some(CounterComparison::Impossible) {
            return;
        }
        if !were_enough {
            return skip("this machine is too busy or too slow");
        }
    }
    panic!("impossible in spite of enough exchanges");
}

/// A moment 10 s after the start of a counter of 2 GHz, and one after `ticks` and `ns` more.
fn moments(ticks: u64, ns: i64) -> (Moment, Moment) {
    let begin = Moment {
        ticks: 20_000_000_000,
        ns: 10_000_000_000,
        suspended_ns: Some(5),
    };
    let end = Moment {
        ticks: begin.ticks + ticks,
        ns: begin.ns + ns,
        ..begin
    };
    (begin, end)
}

#[test]
fn the_limit_is_by_the_ticks_and_the_time_that_have_passed() {
    let (begin, end) = moments(40_000_000, 20_000_000);
    assert_eq!(allowed_ticks_between(begin, end, 0), 2 * MAX_DIFFERENCE_NS);
}

/// An OS clock with a resolution of 10 ms may have moved by 20 ms in 30.
#[test]
fn a_coarse_os_clock_makes_the_limit_no_larger() {
    let (begin, end) = moments(60_000_000, 20_000_000);
    let max_ticks = allowed_ticks_between(begin, end, 10_000_000);
    assert_eq!(max_ticks, 2 * MAX_DIFFERENCE_NS);
}

/// Symptom, by reading: after an hour of suspend any difference passed.
#[test]
fn a_suspend_makes_the_limit_no_larger() {
    let (begin, mut end) = moments(40_000_000, 2_000_000);
    end.suspended_ns = Some(5 + 18_000_000);
    assert_eq!(allowed_ticks_between(begin, end, 0), 2 * MAX_DIFFERENCE_NS);
}

#[test]
fn a_suspend_that_may_be_unknown_leaves_no_difference_possible() {
    let (begin, mut end) = moments(40_000_000, 20_000_000);
    end.suspended_ns = None;
    assert_eq!(allowed_ticks_between(begin, end, 0), 0);
}

#[test]
fn clocks_that_have_gone_back_leave_no_difference_possible() {
    let (begin, end) = moments(1, 1);
    assert_eq!(allowed_ticks_between(end, begin, 0), 0);
}

#[test]
fn a_cpu_that_cannot_be_reached_leaves_no_difference_possible() {
    let Some(counter) = COUNTER else {
        return skip("no counter on this target");
    };
    let rate = RateOnCpu::begin(u32::MAX, counter);
    assert_eq!(rate.allowed_difference_ticks(counter), 0);
}

#[test]
fn a_comparison_states_the_largest_difference_that_it_leaves_possible() {
    if COUNTER.is_none() || !crate::sys::may_read_counter() {
        return skip("no counter that may be read");
    }
    let Some(CounterComparison::Synchronised {
        max_difference_ticks,
        ..
    }) = compare(&StoppableSleep::plain())
    else {
        return skip("no synchronised counters, or too busy");
    };
    assert!(
        (1..1 << 32).contains(&max_difference_ticks),
        "{max_difference_ticks}"
    );
}

#[test]
fn a_comparison_that_is_stopped_has_no_result() {
    let sleep = StoppableSleep::plain();
    sleep.stop();
    if COUNTER.is_none() || sys::comparable_cpus().len() < 2 {
        return skip("no two counters to compare");
    }
    assert_eq!(compare(&sleep), None);
}

#[test]
fn a_dropped_comparison_wakes_its_thread() {
    let endless = Arc::new(StoppableSleep::plain());
    let inside = Arc::clone(&endless);
    let wait = move || _ = inside.wait(Duration::from_secs(3_600));
    let thread = Thread::spawn(None, wait).expect("a thread");
    drop(ComparisonThread(Some(Comparison {
        thread,
        sleep: endless,
    })));
}

/// Symptom: a comparison whose thread was killed before it began counted as running for ever.
#[test]
#[cfg(all(target_os = "linux", not(miri)))]
fn a_comparison_whose_thread_has_ended_at_once_does_not_run() {
    let sleep = Arc::new(StoppableSleep::plain());
    let inside = Arc::clone(&sleep);
    let end = move || {
        let _kept = inside;
        // SAFETY: ends this thread as if it were killed; it holds nothing.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    };
    let thread = Thread::spawn(None, end).expect("a thread");
    let comparison = ComparisonThread(Some(Comparison { thread, sleep }));
    let begun = std::time::Instant::now();
    while comparison.is_running() {
        assert!(begun.elapsed().as_secs() < 60, "its end is not seen");
        std::thread::yield_now();
    }
    drop(comparison); // joins no thread that was killed
}

/// Symptom, by reading: a judgement took the result for pending while a preempted thread held it.
/// Where the kernel does not use the counter, that closed the gates of a clock without a thread for
/// good.
#[test]
fn a_judgement_that_cannot_read_the_result_leaves_it_to_the_next() {
    if COUNTER.is_none() {
        return skip("no counter on this target");
    }
    let engine = Engine::new(Driver::Manual);
    let result = iter::repeat_with(locked_result).flatten().next();
    engine.iterate_for_program();
    assert!(!engine.is_judged());
    drop(result);
    while !engine.is_judged() {
        engine.iterate_for_program();
    }
}

/// The reaction to a comparison's result of two clocks: one that may have a line for each CPU, and
/// one that may not. The test needs a process of its own, because the result belongs to the
/// process: clocks of other tests would follow it, or publish another one.
#[test]
fn unsynchronised_counters_get_a_line_for_each_cpu() {
    const ALONE: &str = "TICKLINE_TEST_ALONE";
    if let Some(reason) = crate::per_cpu::Requirements::of_this_machine().err() {
        return skip(reason);
    }
    if std::env::var_os(ALONE).is_none() {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child
            .args([
                "--nocapture",
                "unsynchronised_counters_get_a_line_for_each_cpu",
            ])
            .env(ALONE, "1");
        return assert!(child.stdout(Stdio::null()).status().unwrap().success());
    }
    let until = |what: &str, clock: &Clock, done: fn(&Status) -> bool| {
        let start = std::time::Instant::now();
        loop {
            let status = clock.status();
            match status.reason() {
                _ if done(&status) => return true,
                None | Some(Reason::Unsynchronised | Reason::Untested) => {}
                Some(other) => {
                    skip(other);
                    return false;
                }
            }
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "{what}: {status:?}"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let builder = || Clock::builder().interval(Duration::from_millis(5));
    publish(SYNCHRONISED, MARKER);
    let mut thread = ComparisonThread::default();
    thread.start_if_due();
    assert!(!thread.is_running(), "the result is fresh");
    let auto = builder().build().unwrap();
    let off = builder().line_per_cpu(LinePerCpu::Off).build().unwrap();
    let one = |status: &Status| status.state == ClockState::Fast && status.per_cpu.is_empty();
    if !until("one line", &auto, one) || !until("one line", &off, one) {
        return;
    }
    publish(UNSYNCHRONISED, MARKER);
    until("the OS", &off, |status| {
        status.state == ClockState::Fallback(Reason::Unsynchronised)
    });
    until("a line each", &auto, |status| {
        status.state == ClockState::Fast && !status.per_cpu.is_empty()
    });
    publish(SYNCHRONISED, MARKER);
    assert!(until("one line again", &auto, one) && until("one line again", &off, one));
}

/// The last result after comparisons with these results, one after the other, at 0 ns.
fn after(comparisons: impl IntoIterator<Item = CounterComparison>) -> LastResult {
    let results = comparisons.into_iter().fold(None, |last, comparison| {
        Some(LastResult::after(last, comparison, MARKER, 0))
    });
    results.expect("a comparison")
}

#[test]
fn without_a_result_an_impossible_comparison_counts() {
    for tries in [1, 2] {
        let last = after(vec![CounterComparison::Impossible; tries]);
        assert_eq!(last.comparison, CounterComparison::Impossible);
    }
}

#[test]
fn an_impossible_comparison_is_tried_again_ever_later() {
    let due_ns = [1, 2].map(|tries| after(vec![CounterComparison::Impossible; tries]).due_ns);
    assert_eq!(due_ns, [RETRY_NS, 2 * RETRY_NS]);
}

#[test]
fn an_impossible_comparison_is_tried_again_no_later_than_a_result_lasts() {
    for tries in 1..=100 {
        let due_ns = after(vec![CounterComparison::Impossible; tries]).due_ns;
        assert!((RETRY_NS..=RESULT_LASTS_NS).contains(&due_ns), "{tries}");
    }
}

#[test]
fn a_result_ends_the_row_of_impossible_comparisons() {
    let found = after([CounterComparison::Impossible, SYNCHRONISED]);
    let expected = (SYNCHRONISED, 0, RESULT_LASTS_NS);
    assert_eq!((found.comparison, found.failures, found.due_ns), expected);
}

#[test]
fn a_result_outlives_impossible_comparisons() {
    for tries in 1..=100 {
        let impossible = vec![CounterComparison::Impossible; tries];
        let last = after([SYNCHRONISED].into_iter().chain(impossible));
        assert_eq!(last.comparison, SYNCHRONISED, "after {tries}");
    }
}

#[test]
fn a_later_result_replaces_the_earlier_one() {
    let impossible = CounterComparison::Impossible;
    let last = after([SYNCHRONISED, impossible, UNSYNCHRONISED]);
    assert_eq!(last.comparison, UNSYNCHRONISED);
}

/// The comparison by which the counters agreed, on the host with `marker`, as seen on the host with
/// `present`.
fn seen_on_host(marker: Option<u64>, present: Option<u64>) -> CounterComparison {
    LastResult::on_host(
        Some(LastResult::after(None, SYNCHRONISED, marker, 0)),
        present,
    )
}

#[test]
fn a_result_counts_on_its_host() {
    assert_eq!(seen_on_host(Some(7), Some(7)), SYNCHRONISED);
}

/// Another host's counters may differ.
#[test]
fn a_result_from_before_a_move_counts_no_more() {
    assert_eq!(seen_on_host(Some(7), Some(8)), CounterComparison::Pending);
}

/// The machine has no device that tells of moves.
#[test]
fn a_result_without_a_marker_counts_while_there_is_none() {
    assert_eq!(seen_on_host(None, None), SYNCHRONISED);
}

/// Symptom, by reading: such a result counted after each later move, too.
#[test]
fn a_result_from_before_a_marker_was_known_counts_no_more() {
    assert_eq!(seen_on_host(None, Some(8)), CounterComparison::Pending);
}

#[test]
fn a_result_from_before_a_move_does_not_outlive_an_impossible_comparison() {
    let earlier = LastResult::after(None, SYNCHRONISED, Some(7), 0);
    let later = LastResult::after(Some(earlier), CounterComparison::Impossible, Some(8), 0);
    assert_eq!(later.comparison, CounterComparison::Impossible);
}
