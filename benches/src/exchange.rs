//! Searches for backward steps between threads. Each thread loads the largest reading so far, reads
//! the clock, and stores the larger of the two.
//!
//! One thread is pinned to each CPU that the process may use. Sometimes a thread sleeps for a
//! random time, between two exchanges or in the middle of one. The threads therefore meet at
//! different steps. Meanwhile a publisher replaces the line every millisecond by a line with
//! another slope. The reference is CLOCK_MONOTONIC, bent by a rate that changes its sign. Sometimes
//! the publisher sleeps past the end of the window, or bars the clock. Readers then fall back to
//! the reference, and a first line must follow. The control loop, the cell and the counter are the
//! real ones.
//!
//! Two control runs of `order` show that the threads would detect a backward step. One uses
//! counters that are unsynchronised on purpose. The other reads the counter without a fence.
//!
//! These runs show how the CPU executes the instructions, which no model shows. They do not show
//! that a thread may be stopped in the middle of a reading just when the line changes. This is too
//! rare: readings without their second load of the state have passed. tickline-core's tests stop
//! threads there on purpose: see `xtask/mutants.toml`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde::Serialize;
use tickline::{Clock, Driver};
use tickline_core::cell::LineCell;
use tickline_core::cell::StateCell;
use tickline_core::control::{Config, Control};
use tickline_core::counter::{HardwareCounter, resolution_ticks};
use tickline_core::reference::{Reference, ReferenceKind, Resolutions};
use tickline_core::shared::Event;
use tickline_core::shared::SharedClock;
use tickline_observe::{Count, monotonic_ns};

/// The rate by which the reference is bent to either side, ppm. Two bends in opposite directions
/// add up, to 200 ppm. The high-water mark after a reset of the counter allows for a change of rate
/// by 36.9 % (`UNNOTICED_SLEW_PPB` in core's `shared/high_water.rs`).
const BENT_PPM: u64 = 100;

/// The time between two bends, ns. It is not a multiple of the time between two lines, so that
/// lines have all rates between the two bends.
const BEND_NS: u64 = 1_370_000;

/// The time between two lines, ns.
const INTERVAL_NS: u64 = 1_000_000;

/// The largest number of exchanges between two sleeps of a thread: about a millisecond, the time
/// between two lines.
pub const MAX_READINGS: u64 = 40_000;

/// The longest sleep of a thread between, or in the middle of, exchanges, us: a tenth of the time
/// between two lines.
pub const MAX_NAP_US: u64 = 100;

/// The longest sleep of a publisher, us: about three times the longest validity of lines that are
/// published every millisecond.
pub const MAX_LONG_NAP_US: u64 = 20_000;

/// One iteration of the publisher in this many is followed by a long sleep. Another one is followed
/// by barring and unbarring the clock. So either happens about four times a second.
const RARELY: u64 = 256;

/// The results of a run with a publisher.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The threads' results, in ns.
    pub count: Count,
    /// The clock's events, for example new lines.
    pub events: BTreeMap<&'static str, u64>,
}

/// The counter of this machine, if tickline would use it, and if there are two CPUs.
///
/// # Errors
///
/// The reason as a text.
pub fn usable_counter() -> Result<HardwareCounter, String> {
    if cpus().len() < 2 {
        return Err("one CPU can't be ahead of another".into());
    }
    let clock = Clock::builder()
        .driver(Driver::Manual)
        .build()
        .map_err(|error| error.to_string())?;
    clock.maintain(); // judges the gates
    match (HardwareCounter::if_present(), clock.status().reason()) {
        (Some(counter), None) => Ok(counter),
        (_, Some(reason)) => Err(format!("no usable counter: {reason}")),
        (None, None) => Err("this target has no counter".into()),
    }
}

/// The CPUs that this process may use.
#[must_use]
pub fn cpus() -> Vec<core_affinity::CoreId> {
    core_affinity::get_core_ids().unwrap_or_default()
}

/// Pins the calling thread to the CPU of this index, modulo the number of [`cpus`].
pub fn pin(index: usize) {
    let cpus = cpus();
    if let Some(cpu) = cpus.get(index % cpus.len().max(1)) {
        core_affinity::set_for_current(*cpu);
    }
}

/// Exchanges ordered readings for `time`, while the line changes.
///
/// # Panics
///
/// If a thread panics.
#[must_use]
pub fn exchange_ordered(counter: HardwareCounter, time: Duration) -> Report {
    let clock = SharedClock::new(LineCell::new());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| publish(counter, &clock, &stop));
        while !clock.cell().load().is_published() {
            std::thread::yield_now();
        }
        let readings = clock.readings();
        let count = exchange(time, |_| {
            readings.now_ordered_ns(&counter, &Bent).unsigned_abs()
        });
        // ORDERING: Relaxed: the flag orders no memory.
        stop.store(true, Ordering::Relaxed);
        let events = Event::ALL
            .iter()
            .map(|event| (event.code(), readings.event_count(*event)));
        let events = events.filter(|(_, times)| *times > 0).collect();
        Report { count, events }
    })
}

/// Exchanges the largest reading between threads for `time`, in the clock's own unit. `read` gets
/// the thread's number.
///
/// # Panics
///
/// If a thread panics.
#[must_use]
pub fn exchange(time: Duration, read: impl Fn(usize) -> u64 + Sync) -> Count {
    let largest = AtomicU64::new(0);
    let thread = &|index: usize| {
        pin(index);
        let mut random = Rng::with_seed(index as u64); // the same in every run
        let mut count = Count::default();
        let read = || read(index);
        let start = Instant::now();
        while start.elapsed() < time {
            for _ in 0..random.u64(0..MAX_READINGS) {
                count.exchange(&largest, read);
            }
            nap(&mut count, &largest, &mut random, MAX_NAP_US, read);
        }
        count
    };
    let mut sum = Count::default();
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..cpus().len().max(2))
            .map(|index| scope.spawn(move || thread(index)))
            .collect();
        running
            .into_iter()
            .for_each(|thread| sum.add(&thread.join().expect("a reader")));
    });
    sum
}

/// Sleeps for up to `most_us`, between two exchanges, or in the middle of one before or after the
/// reading.
pub fn nap(
    count: &mut Count,
    largest: &AtomicU64,
    random: &mut Rng,
    most_us: u64,
    read: impl FnOnce() -> u64,
) {
    let time = up_to_us(random, most_us);
    let step = random.u64(0..3);
    if step == 0 {
        return sleep(time);
    }
    count.exchange(largest, || {
        if step == 1 {
            sleep(time);
        }
        let now = read();
        if step == 2 {
            sleep(time);
        }
        now
    });
}

/// Publishes a line about every millisecond.
fn publish(counter: HardwareCounter, clock: &SharedClock, stop: &AtomicBool) {
    let reference_ns = 2;
    let kind = ReferenceKind::Independent;
    let resolutions = Resolutions::new(resolution_ticks(&counter), reference_ns, kind);
    let mut control = Control::new(resolutions, Config::new(INTERVAL_NS));
    let mut random = Rng::with_seed(u64::MAX);
    // ORDERING: Relaxed: the flag orders no memory.
    while !stop.load(Ordering::Relaxed) {
        let iteration = control.iterate(clock, &counter, &Bent);
        match random.u64(0..RARELY) {
            0 => sleep(up_to_us(&mut random, MAX_LONG_NAP_US)),
            1 => {
                clock.bar(&counter, &Bent);
                sleep(up_to_us(&mut random, MAX_NAP_US));
                clock.unbar(&counter, &Bent);
            }
            _ => sleep(Duration::from_nanos(iteration.next_in_ns.min(INTERVAL_NS))),
        }
    }
}

/// A bent CLOCK_MONOTONIC: alternately too fast and too slow by [`BENT_PPM`], for [`BEND_NS`] each.
#[derive(Debug)]
struct Bent;

impl Reference for Bent {
    fn monotonic_ns(&self) -> i64 {
        let ns = monotonic_ns();
        let since_ns = ns % (2 * BEND_NS);
        let ahead_ns = since_ns.min(2 * BEND_NS - since_ns) * BENT_PPM / 1_000_000;
        (ns + ahead_ns).cast_signed()
    }
    fn unix_ns(&self) -> i64 {
        self.monotonic_ns()
    }
}

/// A random number of microseconds.
#[must_use]
pub fn up_to_us(random: &mut Rng, most_us: u64) -> Duration {
    Duration::from_micros(random.u64(0..most_us))
}
