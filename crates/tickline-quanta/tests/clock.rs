//! Clocks, instants and mocks.

use std::collections::HashSet;
use std::time::Duration;

use quanta::{Clock, Instant};

const fn assert_shareable<T: Send + Sync>() {}

const _: () = {
    assert_shareable::<Clock>();
    assert_shareable::<Instant>();
    assert_shareable::<quanta::Handle>();
    assert_shareable::<quanta::Upkeep>();
    const fn assert_unwind_safe<T: std::panic::UnwindSafe>() {}
    assert_unwind_safe::<Clock>();
    assert_unwind_safe::<Instant>();
    const fn assert_error<T: std::error::Error + Send + Sync + 'static>() {}
    assert_error::<quanta::Error>();
    assert!(size_of::<Instant>() == 8);
};

fn ns(instant: Instant) -> u64 {
    tickline::Instant::from(instant).as_nanos()
}

#[test]
fn readings_are_in_order_within_a_thread_by_every_method() {
    let (clock, other) = (Clock::new(), Clock::default());
    let mut last = 0;
    for _ in 0..10_000 {
        for now in [
            clock.raw(),
            ns(other.now()),
            ns(Instant::now()),
            tickline::now_ns(),
            ns(clock.clone().scaled(clock.raw())),
        ] {
            assert!(now >= last, "{now} after {last}");
            last = now;
        }
    }
}

#[test]
fn an_instant_converts_to_one_of_tickline_and_back() {
    let before = tickline::Instant::now();
    let now = Instant::now();
    assert!(tickline::Instant::from(now) >= before);
    for ns in [0, 1, u64::MAX / 2] {
        let instant = tickline::Instant::from_nanos(ns);
        assert_eq!(tickline::Instant::from(Instant::from(instant)), instant);
    }
    assert!(Instant::from(tickline::Instant::now_ordered()) >= now);
}

/// Governor stores no start, and takes the time since 0. Other programs keep one raw value for as
/// long as they run.
#[test]
fn a_difference_of_raw_values_saturates_at_zero() {
    let clock = Clock::new();
    for (start, end, ns) in [
        (0, 7, 7),
        (7, 7, 0),
        (7, 0, 0),
        (u64::MAX, 0, 0),
        (0, u64::MAX, u64::MAX),
    ] {
        assert_eq!(
            clock.delta_as_nanos(start, end),
            ns,
            "from {start} to {end}"
        );
        assert_eq!(
            clock.delta(start, end),
            Duration::from_nanos(ns),
            "from {start} to {end}"
        );
    }
}

#[test]
fn a_difference_of_scaled_values_saturates_at_zero() {
    let clock = Clock::new();
    let (early, late) = (clock.scaled(7), clock.scaled(9));
    assert_eq!(late - early, Duration::from_nanos(2));
    assert_eq!(early - late, Duration::ZERO);
}

#[test]
fn time_passes_as_for_the_os() {
    let (clock, os) = (Clock::new(), std::time::Instant::now());
    let (start, raw) = (clock.now(), clock.raw());
    std::thread::sleep(Duration::from_millis(20));
    let (spent, by_raw) = (start.elapsed(), clock.delta(raw, clock.raw()));
    let at_most = os.elapsed() + Duration::from_millis(1);
    for spent in [spent, by_raw] {
        assert!(
            spent >= Duration::from_millis(19) && spent <= at_most,
            "{spent:?}, not {at_most:?}"
        );
    }
}

fn at(ns: u64) -> Instant {
    Instant::from(tickline::Instant::from_nanos(ns))
}

const SECOND: Duration = Duration::from_secs(1);

/// Two instants that are a second apart.
fn early_and_late() -> (Instant, Instant) {
    (at(0), at(1_000_000_000))
}

#[test]
fn an_instant_plus_or_minus_a_second_is_a_second_away() {
    let (early, late) = early_and_late();
    assert_eq!((early + SECOND, late - SECOND), (late, early));
}

#[test]
fn a_second_is_added_and_subtracted_in_place() {
    let (early, late) = early_and_late();
    let mut moved = early;
    moved += SECOND;
    assert_eq!(moved, late);
    moved -= SECOND;
    assert_eq!(moved, early);
}

#[test]
fn the_time_since_an_earlier_instant_is_their_difference() {
    let (early, late) = early_and_late();
    assert_eq!(late - early, SECOND);
    assert_eq!(late.checked_duration_since(early), Some(SECOND));
}

#[test]
fn the_time_since_a_later_instant_is_zero() {
    let (early, late) = early_and_late();
    assert_eq!(early - late, Duration::ZERO);
    assert_eq!(early.duration_since(late), Duration::ZERO);
    assert_eq!(early.saturating_duration_since(late), Duration::ZERO);
}

#[test]
fn the_checked_time_since_a_later_instant_is_none() {
    let (early, late) = early_and_late();
    assert_eq!(early.checked_duration_since(late), None);
}

#[test]
fn a_checked_sum_is_none_beyond_the_range() {
    let (early, late) = early_and_late();
    assert_eq!(early.checked_add(SECOND), Some(late));
    assert_eq!(late.checked_sub(SECOND), Some(early));
    assert_eq!(at(u64::MAX).checked_add(SECOND), None);
}

/// Truncated to 64 bits, this duration would be 0.
#[test]
fn a_checked_sum_with_a_duration_beyond_64_bits_is_none() {
    let beyond = Duration::from_nanos(u64::MAX) + Duration::from_nanos(1);
    assert_eq!(at(0).checked_add(beyond), None);
    assert_eq!(at(u64::MAX).checked_sub(beyond), None);
}

#[test]
fn the_text_of_an_instant_is_its_nanoseconds() {
    assert_eq!(format!("{:?}", at(1_000_000_000)), "1000000000");
}

#[test]
fn instants_are_ordered_by_time() {
    let (early, late) = early_and_late();
    assert!(late > early);
    assert_eq!(early.max(late), late);
}

#[test]
fn equal_instants_have_equal_hashes() {
    let (early, late) = early_and_late();
    assert_eq!(HashSet::from([early, late, late]).len(), 2);
}

#[test]
fn an_hour_before_the_machine_started_is_an_instant() {
    let hour = Duration::from_secs(3_600);
    let start = Instant::from(tickline::Instant::ZERO);
    assert_eq!(start - (start - hour), hour);
}

#[test]
fn an_instant_before_zero_has_a_sign_in_its_text() {
    let start = Instant::from(tickline::Instant::ZERO);
    assert_eq!(format!("{:?}", start - Duration::from_nanos(5)), "-5");
}

#[test]
fn a_sum_ends_at_the_last_instant() {
    let end = Instant::from(tickline::Instant::MAX);
    assert_eq!(end + Duration::from_nanos(1), end);
}

#[test]
fn a_difference_ends_at_the_first_instant() {
    let first = Instant::from(tickline::Instant::MIN);
    assert_eq!(first - Duration::from_nanos(1), first);
}

#[cfg(feature = "mock")]
mod mocks {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc;
    use std::thread;

    use quanta::{IntoNanoseconds, with_clock};

    use super::*;

    /// The time of a mock clock by each of its readings.
    fn readings(clock: &Clock) -> [u64; 3] {
        [clock.raw(), ns(clock.now()), ns(clock.recent())]
    }

    #[test]
    fn a_mock_clock_stands_until_it_is_moved() {
        let (clock, mock) = Clock::mock();
        assert_eq!((readings(&clock), mock.value()), ([0; 3], 0));
        mock.increment(42_u64);
        mock.increment(Duration::from_micros(1));
        mock.decrement(Duration::from_nanos(2));
        assert_eq!((readings(&clock), mock.value()), ([1_040; 3], 1_040));
    }

    #[test]
    fn a_raw_time_of_a_mock_is_in_nanoseconds_whatever_its_time_is() {
        let (clock, mock) = Clock::mock();
        mock.increment(1_040_u64);
        assert_eq!((ns(clock.scaled(7)), clock.delta_as_nanos(7, 9)), (7, 2));
    }

    #[test]
    fn clones_share_a_clock_and_new_mocks_do_not() {
        let (clock, mock) = Clock::mock();
        let (clone, also) = (clock.clone(), (*mock).clone());
        also.increment(5_u64);
        assert_eq!((clock.raw(), clone.raw(), Clock::mock().0.raw()), (5, 5, 0));
    }

    #[test]
    fn an_amount_of_time_is_a_number_of_nanoseconds() {
        assert_eq!(7_u64.into_nanos(), 7);
        assert_eq!(Duration::from_secs(1).into_nanos(), 1_000_000_000);
    }

    #[test]
    fn an_amount_of_time_beyond_64_bits_saturates() {
        assert_eq!(Duration::MAX.into_nanos(), u64::MAX);
    }

    #[test]
    fn a_mock_that_is_moved_below_zero_panics_and_stays_at_its_time() {
        let (clock, mock) = Clock::mock();
        mock.increment(5_u64);
        assert!(catch_unwind(AssertUnwindSafe(|| mock.decrement(6_u64))).is_err());
        assert_eq!((clock.raw(), mock.value()), (5, 5));
    }

    #[test]
    fn a_mock_that_is_moved_beyond_64_bits_panics_and_stays_at_the_end() {
        let (clock, mock) = Clock::mock();
        mock.increment(u64::MAX);
        assert!(catch_unwind(AssertUnwindSafe(|| mock.increment(1_u64))).is_err());
        assert_eq!(clock.raw(), u64::MAX);
    }

    #[test]
    fn a_mock_clock_is_moved_and_read_on_any_thread() {
        const EACH: u64 = 10_000;
        let (clock, mock) = Clock::mock();
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        mock.increment(1_u64);
                    }
                });
            }
            let clock = clock.clone();
            scope.spawn(move || {
                let mut last = 0;
                while last < 2 * EACH {
                    let now = clock.raw();
                    assert!(now >= last);
                    last = now;
                }
            });
        });
        assert_eq!(clock.raw(), 2 * EACH);
    }

    #[test]
    fn a_replacement_is_for_instants_of_this_thread_alone() {
        let (clock, mock) = Clock::mock();
        mock.increment(1_u64);
        let (started, told) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let replaced = thread::spawn(move || {
            with_clock(&clock, || {
                started.send(()).unwrap();
                released.recv().unwrap();
                let start = Instant::now();
                mock.increment(Duration::from_secs(5));
                (ns(start), start.elapsed(), Clock::new().raw())
            })
        });
        told.recv().unwrap();
        assert!(ns(Instant::now()) > 1); // This thread still has tickline's clock.
        release.send(()).unwrap();
        let (start, elapsed, raw) = replaced.join().unwrap();
        assert_eq!((start, elapsed), (1, Duration::from_secs(5)));
        assert!(raw > 1, "a clock as a value is not replaced");
    }

    #[test]
    fn replacements_nest_and_end_with_a_panic() {
        let (outer, outer_mock) = Clock::mock();
        let (inner, inner_mock) = Clock::mock();
        outer_mock.increment(1_u64);
        inner_mock.increment(2_u64);
        with_clock(&outer, || {
            assert_eq!(with_clock(&inner, || ns(Instant::now())), 2);
            assert_eq!(ns(Instant::now()), 1);
            let panicked = catch_unwind(|| with_clock(&inner, || panic!("a test may fail")));
            assert!(panicked.is_err());
            assert_eq!(ns(Instant::now()), 1);
            // A real clock may take a mock's place.
            assert!(with_clock(&Clock::new(), || ns(Instant::now())) > 1);
        });
        assert!(ns(Instant::now()) > 2);
    }
}

#[cfg(not(feature = "mock"))]
#[test]
fn without_mocks_a_clock_is_not_replaced() {
    let before = Instant::now();
    assert!(quanta::with_clock(&Clock::new(), Instant::now) >= before);
}
