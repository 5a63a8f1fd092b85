//! Tests of a calibration without a counter: when it is due, and how long the thread stays on its
//! CPU.

use super::super::*;
use crate::testing::{FnClock, INTERVAL_NS, RESOLUTIONS};

/// A calibration that has begun, of a clock with this interval.
fn begun_calibration(interval_ns: u64) -> CpuControl {
    CpuControl::new(&Pass::begin(RESOLUTIONS, interval_ns, &FnClock(|| 0)))
}

#[test]
fn a_calibration_has_the_cadence_of_a_pinned_thread() {
    let cadence = begun_calibration(INTERVAL_NS).control().config.cadence;
    assert_eq!(cadence, Cadence::Pinned);
}

/// A calibration that was begun by one pass, and again by a later one with a longer interval.
fn calibration_begun_again() -> (CpuControl, Pass) {
    let mut calibration = begun_calibration(INTERVAL_NS);
    let later = Pass::begin(
        RESOLUTIONS,
        2 * INTERVAL_NS,
        &FnClock(|| 3 * INTERVAL_NS.cast_signed()),
    );
    calibration.begin(&later);
    (calibration, later)
}

#[test]
fn a_calibration_has_the_interval_of_the_last_pass() {
    let (calibration, _) = calibration_begun_again();
    assert_eq!(calibration.control().config.interval_ns, 2 * INTERVAL_NS);
}

#[test]
fn a_thread_waits_as_long_as_the_last_pass_allows() {
    let (calibration, later) = calibration_begun_again();
    assert_eq!(calibration.waits_until_ns, later.waits_until_ns);
}

/// Whether a reading uses it may change between two calibrations.
#[test]
fn the_cpus_lines_have_unix_time() {
    let calibration = begun_calibration(INTERVAL_NS);
    assert!(calibration.control().config.serves_unix_time);
}

/// A first line is short, and is replaced before anything is waited for. If another first line
/// follows, the thread waits for the shortest interval.
#[test]
fn a_first_line_is_replaced_at_once_but_not_twice_in_a_row() {
    let mut calibration = begun_calibration(INTERVAL_NS);
    let published_first = Iteration {
        outcome: crate::control::Outcome::PublishedFirst,
        next_in_ns: 0,
    };
    let rested = Iteration {
        next_in_ns: 50_000,
        ..published_first
    };
    let now = |ns| FnClock(move || ns);
    for _ in 0..2 {
        assert_eq!(
            calibration.after(Some(published_first), &now(500)),
            CpuIteration::new(Some(published_first), Stay::Again)
        );
        assert_eq!(
            calibration.after(Some(published_first), &now(1_000)),
            CpuIteration::new(Some(rested), Stay::Wait { ns: 50_000 })
        );
        assert_eq!(calibration.due_ns(), 51_000);
    }
}

/// A calibration that could not reach its CPU at the time 0.
fn calibration_without_its_cpu() -> CpuControl {
    let mut calibration = begun_calibration(INTERVAL_NS);
    let after = calibration.after(None, &FnClock(|| 0));
    assert_eq!(after, CpuIteration::new(None, Stay::Leave));
    calibration
}

#[test]
fn a_cpu_that_cannot_be_reached_is_due_after_an_interval() {
    let interval_ns = INTERVAL_NS.cast_signed();
    assert_eq!(calibration_without_its_cpu().due_ns(), interval_ns);
}

#[test]
fn a_calibration_is_ready_a_quarter_of_an_interval_before_it_is_due() {
    let calibration = calibration_without_its_cpu();
    let interval_ns = INTERVAL_NS.cast_signed();
    assert!(calibration.is_ready(interval_ns - interval_ns / 4));
    assert!(!calibration.is_ready(interval_ns / 2));
}

#[test]
fn a_calibration_that_is_forced_is_ready_at_once() {
    let mut calibration = calibration_without_its_cpu();
    calibration.force_due();
    assert!(calibration.is_ready(i64::MIN));
    assert_eq!(calibration.due_ns(), i64::MIN);
}

/// What the thread does after an iteration that is followed by another one in `next_in_ns`.
fn stay_after(calibration: &mut CpuControl, next_in_ns: u64) -> Stay {
    let iteration = Iteration {
        outcome: crate::control::Outcome::Published,
        next_in_ns,
    };
    calibration.after(Some(iteration), &FnClock(|| 0)).stay
}

#[test]
fn a_thread_waits_on_the_cpu_for_an_iteration_that_is_due_soon() {
    let mut calibration = begun_calibration(INTERVAL_NS);
    assert_eq!(
        stay_after(&mut calibration, STAY_NS),
        Stay::Wait { ns: STAY_NS }
    );
}

#[test]
fn a_thread_leaves_a_cpu_whose_next_iteration_is_not_due_soon() {
    let mut calibration = begun_calibration(INTERVAL_NS);
    assert_eq!(stay_after(&mut calibration, STAY_NS + 1), Stay::Leave);
}

/// Else a clock with a short interval would never leave its first CPU.
#[test]
fn a_thread_waits_on_the_cpu_for_at_most_half_of_the_interval() {
    let mut calibration = begun_calibration(STAY_NS);
    let half_ns = STAY_NS / 2;
    assert_eq!(
        stay_after(&mut calibration, half_ns),
        Stay::Wait { ns: half_ns }
    );
    assert_eq!(stay_after(&mut calibration, half_ns + 1), Stay::Leave);
}

#[test]
fn a_thread_leaves_a_cpu_after_fifteen_waits() {
    let mut calibration = begun_calibration(INTERVAL_NS);
    for _ in 0..STAY_WAITS {
        assert_eq!(
            stay_after(&mut calibration, STAY_NS),
            Stay::Wait { ns: STAY_NS }
        );
    }
    assert_eq!(stay_after(&mut calibration, STAY_NS), Stay::Leave);
}

#[test]
fn a_calibration_counts_its_waits_anew() {
    let mut calibration = begun_calibration(INTERVAL_NS);
    (0..=STAY_WAITS).for_each(|_| _ = stay_after(&mut calibration, STAY_NS));
    calibration.begin(&Pass::begin(RESOLUTIONS, INTERVAL_NS, &FnClock(|| 0)));
    assert_eq!(
        stay_after(&mut calibration, STAY_NS),
        Stay::Wait { ns: STAY_NS }
    );
}

/// What the thread does after an iteration that is followed by another one in a millisecond, which
/// is due `due_in_ns` after the beginning of a pass with this interval.
fn stay_until(interval_ns: u64, due_in_ns: u64) -> Stay {
    let mut calibration = begun_calibration(interval_ns);
    let next_in_ns = 1_000_000;
    let iteration = Iteration {
        outcome: crate::control::Outcome::Published,
        next_in_ns,
    };
    let now_ns = (due_in_ns - next_in_ns).cast_signed();
    calibration.after(Some(iteration), &FnClock(|| now_ns)).stay
}

#[test]
fn a_pass_waits_on_cpus_for_one_interval() {
    let interval_ns = 10_000_000;
    assert_eq!(
        stay_until(interval_ns, interval_ns),
        Stay::Wait { ns: 1_000_000 }
    );
    assert_eq!(stay_until(interval_ns, interval_ns + 1), Stay::Leave);
}

/// Else its thread would count as stopped, because it holds the clock's lock.
#[test]
fn a_pass_waits_on_cpus_for_at_most_half_a_second() {
    let interval_ns = 10_000_000_000;
    assert_eq!(
        stay_until(interval_ns, MAX_WAITS_NS),
        Stay::Wait { ns: 1_000_000 }
    );
    assert_eq!(stay_until(interval_ns, MAX_WAITS_NS + 1), Stay::Leave);
}
