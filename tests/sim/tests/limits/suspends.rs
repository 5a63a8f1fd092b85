//! Suspends, and counters that start again.

use tickline_sim::Scenario;
use tickline_sim::named::{STEADY_PPB, sleep, steady, suspend};
use tickline_sim::scenario::{CounterInSuspend, Fault, Machine, Suspend};

use crate::run::runs;

const SECOND: u64 = 1_000_000_000;

/// The counter runs on, CLOCK_MONOTONIC does not. The clock is ahead by the rest of a window at
/// most, and slews that down at half rate. From 100 ms after the machine woke up, the bounds hold
/// again, but for some ns: other tests check bounds exactly, this one only distinguishes a lead of
/// milliseconds from none.
#[track_caller]
fn assert_ahead_by_a_window_at_most(for_ms: u64) {
    for run in runs(&suspend(for_ms)) {
        let all = run.part_ms(..);
        all.error_at_most_ns(1_000_000_000).error_at_least_ns(1);
        let woken_ms = 5_100 + for_ms;
        run.part_ms(woken_ms + 100..).outside_at_most_ns(100);
        let settled = run.part_ms(woken_ms + 11_000..);
        settled.error_at_most_ns(10).slow_permille_in(0..=1);
    }
}

#[test]
fn a_suspend_of_10_s_puts_the_clock_ahead_by_a_window_at_most() {
    assert_ahead_by_a_window_at_most(10_000);
}

#[test]
fn a_suspend_of_1_s_puts_the_clock_ahead_by_a_window_at_most() {
    assert_ahead_by_a_window_at_most(1_000);
}

#[test]
fn a_suspend_of_half_a_second_puts_the_clock_ahead_by_a_window_at_most() {
    assert_ahead_by_a_window_at_most(500);
}

#[test]
fn a_suspend_of_a_quarter_second_puts_the_clock_ahead_by_a_window_at_most() {
    assert_ahead_by_a_window_at_most(250);
}

/// Several sleeps within one window, while the thread is stopped; the last one is this.
fn sleeps_within_a_window(last: Fault) -> Scenario {
    let for_ns = 3 * SECOND;
    Scenario {
        duration_ns: 18 * SECOND,
        think_ns: 40_000_000,
        readers: 4,
        faults: vec![
            Fault::Starve { for_ns }.at_ms(5_100),
            sleep(200).at_ms(5_150),
            sleep(300).at_ms(5_400),
            last.at_ms(5_750),
        ],
        ..steady()
    }
}

/// Each sleep puts readings ahead by its length, up to the rest of the window; none steps back. The
/// rest is short in 1 of 1,000 seeds: the thread has not learnt the range of the dither by then, so
/// its intervals are still short
/// (`samples_that_were_narrower_at_first_do_not_keep_intervals_short`).
#[test]
fn sleeps_within_a_window_add_up_to_the_window_at_most() {
    for run in runs(&sleeps_within_a_window(sleep(10_000))) {
        let all = run.part_ms(..);
        all.error_at_most_ns(1_000_000_000)
            .error_at_least_ns(30_000_000);
    }
}

#[test]
fn a_reset_in_the_last_of_several_sleeps_changes_nothing() {
    let resets = Fault::Suspend(Suspend {
        for_ns: 10 * SECOND,
        counter: CounterInSuspend::Resets,
        reference_runs: false,
    });
    for run in runs(&sleeps_within_a_window(resets)) {
        let all = run.part_ms(..);
        all.error_at_most_ns(1_000_000_000)
            .error_at_least_ns(30_000_000);
    }
}

/// A counter that starts again at `reset_ms`, without a suspend, after the kernel has changed its
/// rate at 8.1 s from the first of these to the second. The run itself checks the order.
#[track_caller]
fn assert_a_reset_keeps_the_order(
    origin_ppb: i64,
    [before_ppb, after_ppb]: [i64; 2],
    reset_ms: u64,
) {
    let steady = steady();
    let rate = |ppb| Fault::Rate {
        ppb,
        announced: true,
    };
    let reset = Fault::Suspend(Suspend {
        for_ns: 0,
        counter: CounterInSuspend::Resets,
        reference_runs: false,
    });
    let scenario = Scenario {
        duration_ns: 9 * SECOND,
        think_ns: 20_000_000,
        machine: Machine {
            rate_ppb: origin_ppb,
            ..steady.machine
        },
        faults: vec![
            rate(before_ppb).at_ms(1_000),
            rate(after_ppb).at_ms(8_100),
            reset.at_ms(reset_ms),
        ],
        ..steady
    };
    for run in runs(&scenario) {
        assert_eq!(run.counts().faults, 3, "every fault has happened");
    }
}

#[test]
fn a_reset_after_a_slew_by_a_tenth_keeps_the_order() {
    for reset_ms in [8_100, 8_300] {
        assert_a_reset_keeps_the_order(STEADY_PPB, [STEADY_PPB, -100_000_000], reset_ms);
    }
}

/// The kernel slews as strongly as it can, down from as strongly up: by 45 %.
#[test]
fn a_reset_after_the_strongest_slew_keeps_the_order() {
    for reset_ms in [8_100, 8_200, 8_300, 8_400] {
        assert_a_reset_keeps_the_order(100_000_000, [226_000_000, -226_000_000], reset_ms);
    }
}
