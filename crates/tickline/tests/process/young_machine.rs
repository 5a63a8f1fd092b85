//! A machine that has started a second ago. A time namespace stands for it, whose
//! `CLOCK_MONOTONIC` begins there. A fresh container or virtual machine is as young.

use std::time::Duration;

use tickline::{Clock, Instant};
use tickline_observe::monotonic_ns;

use crate::common::{assert_right_if_possible, wait_until_fast};
use tickline_observe::fork::code_in_time_namespace;

// Tests: the functions of these names.
in_processes! { run_in_child_of_a_kernel:
    an_hour_is_subtracted_as_by_std,
    an_hour_is_subtracted_with_a_check_as_by_std,
    the_time_since_an_hour_ago_is_as_by_std,
    an_hour_ago_has_a_text,
}

const SECOND_NS: i64 = 1_000_000_000;
const HOUR: Duration = Duration::from_secs(3_600);

/// Runs `body` a second after the zero of `CLOCK_MONOTONIC`: at once, by the OS clock, and again by
/// the counter, where it can be used.
fn run_after_a_second(body: fn()) {
    // Not by tickline, whose readings would then not go back in the child.
    let up_ns = monotonic_ns().cast_signed();
    let code = code_in_time_namespace(SECOND_NS - up_ns, || {
        let now = Instant::now();
        assert!(now < Instant::ZERO + HOUR, "not young: {now:?}");
        body();
        if wait_until_fast(Clock::global()).is_some() {
            body();
        }
        0
    });
    assert_right_if_possible("no time namespace can be made here", code);
}

/// Symptom: `-` panicked in the first hour of a machine, and std's does not.
fn an_hour_is_subtracted_as_by_std() {
    run_after_a_second(|| {
        let now = Instant::now();
        let std_now = std::time::Instant::now();
        let ago = now - HOUR;
        let std_ago = std_now - HOUR;
        assert_eq!(now - ago, std_now - std_ago);
        assert!(ago < now && std_ago < std_now);
        assert!(ago + HOUR == now && std_ago + HOUR == std_now);
    });
}

fn an_hour_is_subtracted_with_a_check_as_by_std() {
    run_after_a_second(|| {
        let now = Instant::now();
        let std_now = std::time::Instant::now();
        assert_eq!(now.checked_sub(HOUR), Some(now - HOUR));
        assert_eq!(std_now.checked_sub(HOUR), Some(std_now - HOUR));
    });
}

fn the_time_since_an_hour_ago_is_as_by_std() {
    run_after_a_second(|| {
        let now = Instant::now();
        let std_now = std::time::Instant::now();
        let ago = now - HOUR;
        let std_ago = std_now - HOUR;
        assert_eq!(now.duration_since(ago), std_now.duration_since(std_ago));
        assert_eq!(ago.duration_since(now), std_ago.duration_since(std_now));
        assert_eq!(
            ago.checked_duration_since(now),
            std_ago.checked_duration_since(std_now)
        );
        assert!(ago.elapsed() >= HOUR && std_ago.elapsed() >= HOUR);
    });
}

fn an_hour_ago_has_a_text() {
    run_after_a_second(|| {
        let ago = Instant::now() - HOUR;
        let before_zero = Instant::ZERO - ago;
        assert_eq!(format!("{ago:?}"), format!("Instant(-{before_zero:?})"));
    });
}

#[cfg(feature = "serde")]
#[test]
fn an_hour_ago_is_stored_and_read() {
    crate::common::run_in_child_of_a_kernel(&[], || {
        run_after_a_second(|| {
            let ago = Instant::now() - HOUR;
            let text = serde_json::to_string(&ago).unwrap();
            let read: Instant = serde_json::from_str(&text).unwrap();
            assert_eq!(read, ago, "{text}");
        });
    });
}
