//! Measurements. `diagnose` interprets them.

pub(crate) mod calls;
pub(crate) mod changes;
// For `run`.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(crate) mod cheaper;
pub(crate) mod costs;
pub(crate) mod latency;
// For the status of a page.
#[cfg(target_os = "linux")]
pub(crate) mod line_lead;
pub(crate) mod resolution;
pub(crate) mod served_by;
pub(crate) mod skew;
pub(crate) mod standstill;
pub(crate) mod stopwatch;
pub(crate) mod track;
pub(crate) mod utc;
pub(crate) mod warp;
pub(crate) mod watch;
pub(crate) mod who;

use std::thread;
use std::time::Duration;

use tickline::backend::{OsClock, Reference};
use tickline::{Clock, Gate, Status};
use tickline_core::counter::HardwareCounter;

/// Waits until the global clock's status satisfies `condition`, but sleeps no more than `patience`
/// in all. Returns the status. It counts sleeps of 1 ms instead of reading a clock: tickline's
/// clock may stand still, and std's clock raises SIGSEGV in the vDSO if the process may not read
/// the counter.
pub(crate) fn status_when(condition: impl Fn(&Status) -> bool, patience: Duration) -> Status {
    for _ in 0..patience.as_millis() {
        let status = Clock::global().status();
        if condition(&status) {
            return status;
        }
        thread::sleep(Duration::from_millis(1));
    }
    Clock::global().status()
}

/// As [`status_when`], but also ends when the OS clock has advanced by `patience`: on a busy
/// machine, or with a coarse timer, a sleep of 1 ms takes longer. `OsClock` also answers a process
/// that may not read the counter.
pub(crate) fn status_within(condition: impl Fn(&Status) -> bool, patience: Duration) -> Status {
    let start_ns = OsClock.monotonic_ns();
    let is_over = || {
        let waited_ns = OsClock.monotonic_ns().saturating_sub(start_ns);
        u64::try_from(waited_ns).is_ok_and(|ns| Duration::from_nanos(ns) >= patience)
    };
    status_when(|status| condition(status) || is_over(), patience)
}

/// The counter, if the gates found one that this process may read. The error is the gate's reason.
pub(crate) fn admitted_counter() -> Result<HardwareCounter, String> {
    let status = Clock::global().status();
    let closed_by = |gate| status.verdict(gate).closed_by();
    match (
        closed_by(Gate::Supported).or(closed_by(Gate::Readable)),
        HardwareCounter::if_present(),
    ) {
        (Some(reason), _) => Err(reason.to_string()),
        (None, Some(counter)) if status.is_judged => Ok(counter),
        (None, _) => Err("the clock has not judged its gates yet".to_owned()),
    }
}

/// The narrowest of some brackets: a call of `inner` between two reads of `outer`. An interruption
/// widens a bracket.
pub(crate) fn narrowest<T>(
    brackets: u32,
    outer: impl Fn() -> u64,
    inner: impl Fn() -> T,
) -> (u64, T, u64) {
    let bracket = || (outer(), inner(), outer());
    let width = |(before, _, after): &(u64, T, u64)| after.wrapping_sub(*before);
    let narrower = |a, b| if width(&b) < width(&a) { b } else { a };
    (1..brackets).map(|_| bracket()).fold(bracket(), narrower)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_wait_for_a_status_goes_on_until_the_condition_holds() {
        let asked = Cell::new(0);
        status_when(|_| asked.replace(asked.get() + 1) == 3, Duration::MAX);
        assert_eq!(asked.get(), 4);
    }

    #[test]
    fn a_wait_for_a_status_ends_with_the_patience() {
        const PATIENCE: Duration = Duration::from_millis(3);
        let start = Instant::now();
        status_when(|_| false, PATIENCE);
        assert!(start.elapsed() >= PATIENCE);
    }

    /// Symptom: it counted sleeps, and a monitoring system's timeout ended the program.
    #[test]
    fn a_wait_by_the_os_clock_ends_however_long_each_look_takes() {
        let asked = Cell::new(0);
        let slow = |_: &Status| {
            asked.set(asked.get() + 1);
            thread::sleep(Duration::from_millis(10));
            false
        };
        status_within(slow, Duration::from_millis(50));
        assert!(asked.get() <= 6, "{asked:?}");
    }

    #[test]
    fn the_counter_is_admitted_if_the_gates_about_it_are_open() {
        Clock::global().maintain();
        let status = status_when(|status| status.is_judged, Duration::from_secs(10));
        let closed_by =
            [Gate::Supported, Gate::Readable].map(|gate| status.verdict(gate).closed_by());
        assert_eq!(admitted_counter().is_ok(), closed_by == [None, None]);
    }

    /// The narrowest of brackets that end at these times. Each begins at the end of the one before,
    /// the first at 0, and contains its number.
    fn narrowest_of<const N: usize>(ends: [u64; N]) -> (u64, usize, u64) {
        let (reads, calls) = (Cell::new(0), Cell::new(0));
        let outer = || {
            let read = reads.replace(reads.get() + 1);
            match (read / 2, read % 2) {
                (0, 0) => 0,
                (bracket, 0) => ends[bracket - 1],
                (bracket, _) => ends[bracket],
            }
        };
        let inner = || calls.replace(calls.get() + 1);
        narrowest(u32::try_from(N).unwrap(), outer, inner)
    }

    #[test]
    fn the_narrowest_bracket_counts_wherever_it_is() {
        assert_eq!(narrowest_of([3, 13, 23]), (0, 0, 3));
        assert_eq!(narrowest_of([10, 13, 23]), (10, 1, 13));
        assert_eq!(narrowest_of([10, 20, 23]), (20, 2, 23));
    }

    #[test]
    fn the_first_of_equal_brackets_counts() {
        assert_eq!(narrowest_of([10, 20, 30]), (0, 0, 10));
    }
}
