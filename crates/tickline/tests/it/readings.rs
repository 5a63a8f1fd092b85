//! Each way to read a clock agrees with the OS clock.

use std::time::Duration;

use tickline::{Clock, Driver, Instant};

use crate::clock::fast_clock;
use crate::common::wait_until_fast;

#[derive(Debug, Clone, Copy)]
enum Timescale {
    Monotonic,
    Unix,
}

impl Timescale {
    /// Reads the time, ns.
    fn now_ns(self, clock: &Clock) -> u64 {
        match self {
            Self::Monotonic => clock.now_ordered().as_nanos(),
            Self::Unix => clock.unix_now().as_nanos(),
        }
    }

    /// The width of a reading's range, ns.
    fn width_ns(self, clock: &Clock) -> u64 {
        let width = match self {
            Self::Monotonic => clock.reading().width(),
            Self::Unix => clock.unix_reading().width(),
        };
        u64::try_from(width.as_nanos()).expect("less than 500 years")
    }

    /// How far a line may be from the OS clock because of the OS clock's resolution, ns.
    const fn resolution_error_ns(self) -> u64 {
        match self {
            // On Windows, Unix time has a resolution of 100 ns, and a line is fitted to several
            // samples.
            Self::Unix if cfg!(windows) => 1_000,
            Self::Monotonic | Self::Unix => 0,
        }
    }
}

/// How many clocks a way reads, one after the other.
enum Clocks {
    One,
    Two,
}

/// A way to read a clock.
struct Way {
    /// For messages.
    name: &'static str,
    timescale: Timescale,
    clocks: Clocks,
    /// Returns the time, ns.
    read: fn(&Clock) -> u64,
}

const fn way(
    name: &'static str,
    timescale: Timescale,
    clocks: Clocks,
    read: fn(&Clock) -> u64,
) -> Way {
    Way {
        name,
        timescale,
        clocks,
        read,
    }
}

/// Every way to read a clock.
const READINGS: [Way; 9] = {
    use Clocks::{One, Two};
    use Timescale::{Monotonic, Unix};
    [
        way("now", Monotonic, One, |clock| clock.now().as_nanos()),
        way("elapsed", Monotonic, One, |clock| {
            let since_zero = clock.elapsed(Instant::ZERO);
            u64::try_from(since_zero.as_nanos()).expect("the time since boot")
        }),
        way("now_ordered", Monotonic, One, |clock| {
            clock.now_ordered().as_nanos()
        }),
        way("recent", Monotonic, One, |clock| clock.recent().as_nanos()),
        way("reading", Monotonic, One, |clock| {
            clock.reading().time().as_nanos()
        }),
        way("unix_now", Unix, One, |clock| clock.unix_now().as_nanos()),
        way("unix_reading", Unix, One, |clock| {
            clock.unix_reading().time().as_nanos()
        }),
        way("unix_anchor", Unix, Two, |clock| {
            let anchor = clock.unix_anchor();
            anchor.to_unix(clock.now()).as_nanos()
        }),
        way("std_anchor", Monotonic, Two, |clock| {
            let anchor = clock.std_anchor();
            let now = clock.now();
            anchor.to_instant(anchor.to_std(now)).as_nanos()
        }),
    ]
};

/// A reading, and the OS clock of its timescale before and after it, ns.
#[derive(Debug)]
struct Bracketed {
    before_ns: u64,
    ns: u64,
    after_ns: u64,
    /// How far the reading may be outside of the bracket, ns.
    bound_ns: u64,
    /// Whether the clock used the counter at that time.
    is_from_counter: bool,
}

impl Bracketed {
    /// Reads the clock. `os` is a clock that reads the OS clock.
    fn around(clock: &Clock, os: &Clock, way: &Way) -> Self {
        let timescale = way.timescale;
        let earlier_width_ns = timescale.width_ns(clock);
        let before_ns = timescale.now_ns(os);
        let ns = (way.read)(clock);
        let after_ns = timescale.now_ns(os);
        let width_ns = earlier_width_ns.max(timescale.width_ns(clock));
        let between_reads_ns = match way.clocks {
            Clocks::One => 0,
            Clocks::Two => after_ns.saturating_sub(before_ns),
        };
        Self {
            before_ns,
            ns,
            after_ns,
            bound_ns: width_ns + timescale.resolution_error_ns() + between_reads_ns,
            is_from_counter: clock.reading().is_from_counter(),
        }
    }

    fn agrees(&self) -> bool {
        self.before_ns <= self.ns + self.bound_ns && self.ns <= self.after_ns + self.bound_ns
    }
}

/// Waits until ten of each kind of reading, a millisecond and more apart, agree with the OS clock,
/// and `wanted` accepts one of them. A jump of the OS clock or of the counter voids the bounds for
/// a window or two.
fn wait_until_each_reading_agrees_with_the_os_clock(
    clock: &Clock,
    wanted: impl Fn(&Bracketed) -> bool,
) {
    // A manual clock that nobody maintains reads the OS clock.
    let os = Clock::builder().driver(Driver::Manual).build();
    let os = os.expect("a clock");
    for way in &READINGS {
        let start = std::time::Instant::now();
        loop {
            let ten = [(); 10].map(|()| {
                std::thread::sleep(Duration::from_millis(1));
                Bracketed::around(clock, &os, way)
            });
            if ten.iter().all(Bracketed::agrees) && ten.iter().any(&wanted) {
                break;
            }
            let patient = start.elapsed() < Duration::from_secs(20);
            assert!(patient, "{}: {ten:#?}", way.name);
        }
    }
}

#[test]
fn each_reading_agrees_with_the_os_clock_while_the_counter_serves() {
    let Some(clock) = fast_clock() else { return };
    wait_until_each_reading_agrees_with_the_os_clock(&clock, |reading| reading.is_from_counter);
}

/// Also on a machine without a usable counter.
#[test]
fn each_reading_agrees_with_the_os_clock_after_disable() {
    let clock = Clock::builder().driver(Driver::Reader).build().unwrap();
    wait_until_fast(&clock);
    clock.disable();
    wait_until_each_reading_agrees_with_the_os_clock(&clock, |reading| !reading.is_from_counter);
}
