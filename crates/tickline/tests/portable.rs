//! The calls of every program, and times as values. A program of its own, because it also runs
//! under Miri, where std's clock serves: `cargo +nightly miri test -p tickline --test portable`.
//!
//! Unix time is left out under Miri, which refuses `CLOCK_REALTIME` to every isolated program.

mod common;

use std::collections::HashSet;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant as StdInstant, SystemTime, UNIX_EPOCH};

use common::{read_in_order, wait_until_fast};
use tickline::{Clock, ClockState, Driver, Instant, Reason, UnixTime};

#[test]
fn a_program_measures_a_time_as_std_does() {
    let outer = StdInstant::now();
    let start = Instant::now();
    let inner = StdInstant::now();
    std::thread::sleep(Duration::from_millis(20));
    let inner = inner.elapsed();
    let spent = start.elapsed();
    let outer = outer.elapsed();
    // The time is between the two, within errors of microseconds.
    let error = Duration::from_millis(1);
    assert!(
        inner <= spent + error && spent <= outer + error,
        "{inner:?}, {spent:?}, {outer:?}"
    );
}

#[test]
fn an_ordered_time_is_not_below_an_earlier_time() {
    let start = Instant::now();
    assert!(Instant::now_ordered() >= start);
}

#[test]
fn a_recent_time_is_not_above_a_later_time() {
    let recent = Instant::recent();
    assert!(recent <= Instant::now_ordered());
}

/// With a thread, a recent time is as old as the thread's last store.
#[test]
fn a_recent_time_without_a_thread_is_not_below_an_earlier_time() {
    let clock = Clock::builder().driver(Driver::Reader).build().unwrap();
    let start = clock.now();
    assert!(clock.recent() >= start);
}

#[test]
fn a_reading_is_between_its_bounds() {
    let reading = Clock::global().reading();
    assert!(reading.earliest() <= reading.time() && reading.time() <= reading.latest());
}

/// For a moment after a pause of the machine, the two may differ by the length of the pause.
#[test]
#[cfg_attr(miri, ignore = "it refuses CLOCK_REALTIME to an isolated program")]
fn unix_time_is_near_the_systems_time() {
    const NEAR: Duration = Duration::from_secs(1);
    let before = SystemTime::now();
    let unix = UnixTime::now();
    let after = SystemTime::now();
    let unix = SystemTime::from(unix);
    assert!(
        before - NEAR <= unix && unix <= after + NEAR,
        "{before:?}, {unix:?}, {after:?}"
    );
}

/// Threads call `read` while the clock recalibrates, and a gate closes and opens. `read` also gets
/// the number of the turn. In odd turns the gate is closed: `disable()` has returned, and
/// `enable()` has not been called.
fn read_while_switched(read: impl Fn(&Clock, &AtomicU64) + Sync) {
    const THREADS: usize = if cfg!(miri) { 3 } else { 8 };
    const ROUNDS: u64 = if cfg!(miri) { 4 } else { 60 };
    const MAX_ROUNDS: u64 = 100 * ROUNDS;
    let clock = Clock::builder().interval(Duration::from_millis(2)).build();
    let clock = clock.expect("a clock with a thread");
    let is_usable = wait_until_fast(&clock).is_some();
    let turn = AtomicU64::new(0);
    let is_over = AtomicBool::new(false);
    let by_line = AtomicU64::new(0);
    let by_os = AtomicU64::new(0);
    // On a busy machine the clock's thread may come too late for a line in all of the rounds.
    let lacks_line = || is_usable && by_line.load(Ordering::Relaxed) == 0;
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                // At least one reading: under Miri the rounds may be over before a thread begins.
                loop {
                    read(&clock, &turn);
                    let is_by_line = clock.reading().is_from_counter();
                    let count = if is_by_line { &by_line } else { &by_os };
                    count.fetch_add(1, Ordering::Relaxed);
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        let mut round = 0;
        while round < ROUNDS || (round < MAX_ROUNDS && lacks_line()) {
            round += 1;
            std::thread::sleep(Duration::from_millis(5));
            clock.disable();
            // ORDERING: Release, pairs with the Acquire load of a reader: its next reading begins
            // after the return of `disable()`.
            turn.fetch_add(1, Ordering::Release);
            assert_eq!(
                clock.status().state,
                ClockState::Fallback(Reason::DisabledByProgram),
                "round {round}"
            );
            std::thread::sleep(Duration::from_millis(2));
            // ORDERING: Relaxed. A reader that finds a line of the time after `enable()` also sees
            // the new turn, by the Release of that line.
            turn.fetch_add(1, Ordering::Relaxed);
            clock.enable();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(by_os.into_inner() > 0, "no reading was by the OS clock");
    assert!(
        by_line.into_inner() > 0 || !is_usable,
        "no reading was by a line"
    );
}

#[test]
fn ordered_readings_never_decrease_between_threads() {
    let largest = AtomicU64::new(0);
    read_while_switched(|clock, _| {
        // ORDERING: Acquire, pairs with the Release below: the reading of `earlier` was complete
        // before this one begins.
        let earlier = largest.load(Ordering::Acquire);
        let ns = clock.now_ordered().as_nanos();
        // ORDERING: Release, pairs with the Acquire above.
        largest.fetch_max(ns, Ordering::Release);
        assert!(ns >= earlier, "{} ns back", earlier - ns);
    });
}

/// How far a reading may be from the OS clock around it, ns. A gate that closes leaves a high-water
/// mark one margin ahead of the line. A first line waits for a mark that is ahead of it by less
/// than three margins. The rest is room for the line's own slope.
const NEAR_NS: u64 = 10 * tickline_core::control::MEETING_MARGIN_NS;

#[test]
fn ordered_readings_are_near_the_os_clock_while_a_clock_is_switched() {
    let os = Clock::builder().driver(Driver::Manual).build().unwrap(); // never maintained
    let os_ns = || os.now_ordered().as_nanos();
    read_while_switched(|clock, _| {
        let before = os_ns();
        let ns = clock.now_ordered().as_nanos();
        let after = os_ns();
        assert!(
            ns + NEAR_NS >= before,
            "{} ns behind the OS clock",
            before - ns
        );
        assert!(
            ns <= after + NEAR_NS,
            "{} ns ahead of the OS clock",
            ns - after
        );
    });
}

#[test]
fn a_reading_that_begins_after_disable_is_not_by_a_line() {
    let closed = AtomicU64::new(0);
    read_while_switched(|clock, turn| {
        // ORDERING: Acquire, pairs with the Release after `disable()`.
        let before = turn.load(Ordering::Acquire);
        let is_by_line = clock.reading().is_from_counter();
        if before % 2 == 1 && turn.load(Ordering::Relaxed) == before {
            assert!(!is_by_line, "a line behind a closed gate");
            closed.fetch_add(1, Ordering::Relaxed);
        }
    });
    assert!(
        closed.into_inner() > 0,
        "no reading was made behind the closed gate"
    );
}

#[test]
fn every_driver_reads_in_order_while_a_clock_is_switched() {
    for driver in [Driver::Reader, Driver::Manual, Driver::Thread] {
        let clock = Clock::builder()
            .driver(driver)
            .interval(Duration::from_millis(1))
            .build()
            .unwrap();
        let mut last = 0;
        for turn in 0..if cfg!(miri) { 20 } else { 2_000 } {
            read_in_order(&clock, &mut last);
            match turn {
                5 => clock.disable(),
                10 => clock.enable(),
                15 => assert!(!clock.maintain().is_zero()),
                _ => {}
            }
        }
        if !cfg!(miri) {
            assert!(clock.unix_now().as_nanos() > 0);
        }
        assert_eq!(clock.status().driver, Some(driver));
    }
}

#[test]
fn the_global_clock_has_a_thread_until_its_last_guard_is_dropped() {
    let first = tickline::start().unwrap();
    let second = tickline::start().unwrap();
    assert!(tickline::recent_ns() > 0);
    drop(first);
    assert_eq!(Clock::global().status().driver, Some(Driver::Thread));
    drop(second);
    assert_eq!(Clock::global().status().driver, Some(Driver::Reader));
}

// ---- times as values --------------------------------------------------------------------------

const SECOND: Duration = Duration::from_secs(1);

/// Two instants, and the time between them.
const EARLY: Instant = Instant::from_nanos(5);
const LATE: Instant = Instant::from_nanos(1_000_000_007);
const BETWEEN: Duration = Duration::new(1, 2);

#[test]
fn the_time_since_an_earlier_instant_is_their_difference() {
    assert_eq!(LATE - EARLY, BETWEEN);
    assert_eq!(LATE.duration_since(EARLY), BETWEEN);
    assert_eq!(LATE.checked_duration_since(EARLY), Some(BETWEEN));
}

#[test]
fn the_time_since_a_later_instant_is_zero() {
    assert_eq!(EARLY - LATE, Duration::ZERO);
    assert_eq!(EARLY.saturating_duration_since(LATE), Duration::ZERO);
}

#[test]
fn the_checked_time_since_a_later_instant_is_none() {
    assert_eq!(EARLY.checked_duration_since(LATE), None);
}

#[test]
fn a_duration_is_added_and_subtracted() {
    assert_eq!(EARLY + SECOND, Instant::from_nanos(1_000_000_005));
    assert_eq!((EARLY + SECOND) - SECOND, EARLY);
}

#[test]
fn a_duration_is_added_and_subtracted_in_place() {
    let mut moving = EARLY;
    moving += SECOND;
    moving -= Duration::from_nanos(5);
    assert_eq!(moving.as_nanos(), 1_000_000_000);
}

#[test]
fn a_checked_sum_is_none_beyond_the_range() {
    assert_eq!(Instant::MIN.checked_sub(Duration::from_nanos(1)), None);
    assert_eq!(EARLY.checked_add(Duration::MAX), None);
}

#[test]
fn instants_are_ordered_by_time() {
    assert!(EARLY < LATE);
}

#[test]
fn equal_instants_have_equal_hashes() {
    assert_eq!(HashSet::from([EARLY, LATE, EARLY]).len(), 2);
}

#[test]
fn the_text_of_an_instant_is_its_seconds() {
    assert_eq!(format!("{LATE:?}"), "Instant(1.000000007s)");
}

#[test]
fn an_instant_may_be_before_the_zero_of_its_clock() {
    let second_after_zero = Instant::from_nanos(1_000_000_000);
    let an_hour_earlier = second_after_zero - Duration::from_secs(3_600);
    assert_eq!(an_hour_earlier.as_signed_nanos(), -3_599_000_000_000);
    assert_eq!(
        second_after_zero - an_hour_earlier,
        Duration::from_secs(3_600)
    );
}

#[test]
fn an_instant_before_zero_is_zero_as_an_unsigned_number() {
    assert_eq!((Instant::ZERO - SECOND).as_nanos(), 0);
}

#[test]
fn an_instant_before_zero_has_a_sign_in_its_text() {
    assert_eq!(format!("{:?}", Instant::ZERO - SECOND), "Instant(-1s)");
}

#[test]
fn adding_too_much_to_an_instant_ends_at_the_last_one() {
    assert_eq!(Instant::from_nanos(1) + Duration::MAX, Instant::MAX);
}

#[test]
fn subtracting_too_much_from_an_instant_ends_at_the_first_one() {
    assert_eq!(Instant::from_nanos(1) - Duration::MAX, Instant::MIN);
}

#[test]
fn a_number_beyond_the_last_instant_is_the_last_instant() {
    assert_eq!(Instant::from_nanos(u64::MAX), Instant::MAX);
}

#[test]
fn adding_too_much_to_a_unix_time_ends_at_the_last_one() {
    assert_eq!(UnixTime::from_secs(1) + Duration::MAX, UnixTime::MAX);
}

#[test]
fn subtracting_too_much_from_a_unix_time_ends_at_1970() {
    let time = UnixTime::from_secs(1) - Duration::from_secs(2);
    assert_eq!(time, UnixTime::UNIX_EPOCH);
}

/// Two Unix times that are [`BETWEEN`] apart, and not in whole units of Windows' `SystemTime`.
const EARLY_UNIX: UnixTime = UnixTime::from_nanos(99);
const LATE_UNIX: UnixTime = UnixTime::from_nanos(1_000_000_101);

#[test]
fn the_time_since_an_earlier_unix_time_is_exact() {
    assert_eq!(LATE_UNIX.checked_duration_since(EARLY_UNIX), Some(BETWEEN));
    assert_eq!(LATE_UNIX.saturating_duration_since(EARLY_UNIX), BETWEEN);
}

#[test]
fn the_saturating_time_since_a_later_unix_time_is_zero() {
    assert_eq!(
        EARLY_UNIX.saturating_duration_since(LATE_UNIX),
        Duration::ZERO
    );
}

#[test]
fn the_checked_time_since_a_later_unix_time_is_none() {
    assert_eq!(EARLY_UNIX.checked_duration_since(LATE_UNIX), None);
}

#[test]
fn unix_time_converts_to_system_time_and_back() {
    let time = UnixTime::from_nanos(1_767_225_600_123_456_789);
    // `SystemTime` counts units of 100 ns on Windows.
    let lost_ns = if cfg!(windows) { 89 } else { 0 };
    let system = SystemTime::from(time);
    let since_epoch = system.duration_since(UNIX_EPOCH).unwrap();
    assert_eq!(
        since_epoch,
        Duration::new(1_767_225_600, 123_456_789 - lost_ns)
    );
    let back = UnixTime::try_from(system).unwrap();
    assert_eq!(back + Duration::from_nanos(lost_ns.into()), time);
}

#[test]
fn the_default_of_a_unix_time_is_the_epoch() {
    assert_eq!(UnixTime::default(), UnixTime::UNIX_EPOCH);
    assert_eq!(UnixTime::UNIX_EPOCH.as_nanos(), 0);
}

#[test]
fn a_system_time_after_the_limit_is_named_with_the_limit() {
    let after = UnixTime::try_from(UNIX_EPOCH + Duration::from_secs(20_000_000_000))
        .unwrap_err()
        .to_string();
    assert_eq!(
        after,
        "20000000000 s after 1970 is out of range: a UnixTime ends 18446744073.709551615 s after 1970"
    );
}

/// No method of a clock panics, so a panic of the caller leaves no clock half changed, and a
/// reference to a clock may go into `catch_unwind`.
const _: () = {
    const fn assert_safe<T: UnwindSafe + RefUnwindSafe + Send + Sync>() {}
    assert_safe::<tickline::Clock>();
    assert_safe::<tickline::ClockGuard>();
    assert_safe::<tickline::ClockBuilder>();
    assert_safe::<tickline::Status>();
    assert_safe::<tickline::Reading<Instant>>();
    assert_safe::<tickline::Reading<UnixTime>>();
    assert_safe::<Instant>();
    assert_safe::<UnixTime>();
};
