//! Anchors of clocks with a line and without.

use core::cell::Cell;

use super::*;
use crate::Clock;
use crate::settings::Driver;

/// A clock with a line, and a clock without.
fn clocks() -> [Clock; 2] {
    let [serving, disabled] = [(); 2].map(|()| {
        Clock::builder()
            .driver(Driver::Manual)
            .build()
            .expect("a clock")
    });
    for _ in 0..100 {
        serving.maintain();
    }
    disabled.disable();
    [serving, disabled]
}

/// A reading between two readings of std is between them after its conversion, within the stated
/// errors. A thread that is preempted in a bracket states a large error.
#[test]
fn a_converted_instant_is_within_its_error() {
    for clock in clocks() {
        for _ in 0..1_000 {
            let anchor = clock.std_anchor();
            let bound = clock.reading().width();
            let before = StdInstant::now();
            let now = clock.now_ordered();
            let after = StdInstant::now();
            let error = anchor.error() + bound + bound;
            let converted = anchor.to_std(now);
            assert!(
                before <= converted + error,
                "{:?} too early, {anchor:?}",
                before - converted
            );
            assert!(
                converted <= after + error,
                "{:?} too late, {anchor:?}",
                converted - after
            );
        }
    }
}

/// A converted instant is the clock's Unix time, within the bounds of the reading and the anchor.
#[test]
fn an_instant_as_unix_time_is_the_unix_time() {
    for clock in clocks() {
        for _ in 0..1_000 {
            let before = clock.unix_reading();
            let now = clock.now_ordered();
            let after = clock.unix_reading();
            let bound_ns = || {
                clock
                    .engine()
                    .read_ordered_bounded()
                    .map(|read| read.bounds.unix_bound_ns + 1)
            };
            let bound_before = bound_ns();
            let anchor = clock.unix_anchor();
            let bound_after = bound_ns();
            assert!(
                bound_before != bound_after || bound_after.is_none_or(|ns| ns == anchor.error_ns)
            );
            let time = anchor.to_unix(now);
            let error = anchor.error() + clock.reading().width();
            assert!(
                time + error >= before.earliest(),
                "{time:?} + {error:?} is before {before:?}"
            );
            assert!(
                time <= after.latest() + error,
                "{time:?} is after {after:?} + {error:?}"
            );
        }
    }
}

/// Symptom: spans of all threads were created 4 ms too late, because the thread that compared the
/// clocks lost its CPU for 8 ms.
#[test]
fn a_preemption_between_two_clocks_is_in_no_anchor() {
    for late in [1, 2, 4] {
        let count = Cell::new(0);
        let now_ns = Cell::new(0);
        let read = || {
            count.set(count.get() + 1);
            now_ns.set(now_ns.get() + if count.get() <= late { 8_000_000 } else { 30 });
            Instant::from_nanos(now_ns.get())
        };
        let Anchor {
            instant,
            other,
            error_ns,
        } = Anchor::from_bracket(read, read);
        assert!(error_ns > 30, "half of the bracket, and the resolution");
        assert!(
            instant.as_nanos().abs_diff(other.as_nanos()) <= 15,
            "{instant:?} {other:?}"
        );
    }
}

/// An anchor that pairs these times.
fn pairing(instant: Instant, other: UnixTime) -> Anchor<UnixTime> {
    Anchor {
        instant,
        other,
        error_ns: 0,
    }
}

#[test]
fn an_instant_before_1970_becomes_1970() {
    let anchor = pairing(Instant::ZERO, UnixTime::from_secs(1));
    assert_eq!(anchor.to_unix(Instant::MIN), UnixTime::UNIX_EPOCH);
}

#[test]
fn an_instant_after_2554_becomes_the_last_unix_time() {
    let anchor = pairing(Instant::ZERO, UnixTime::MAX);
    assert_eq!(anchor.to_unix(Instant::MAX), UnixTime::MAX);
}

#[test]
fn a_unix_time_before_the_first_instant_becomes_that_instant() {
    let anchor = pairing(Instant::MIN, UnixTime::MAX);
    assert_eq!(anchor.to_instant(UnixTime::UNIX_EPOCH), Instant::MIN);
}

#[test]
fn a_unix_time_after_the_last_instant_becomes_that_instant() {
    let anchor = pairing(Instant::MAX, UnixTime::UNIX_EPOCH);
    assert_eq!(anchor.to_instant(UnixTime::MAX), Instant::MAX);
}
