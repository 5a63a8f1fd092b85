//! Backward steps between two threads: each takes the largest reading so far, reads the clock, and hands over the larger one,
//! while a publisher replaces the line every millisecond by one whose slope differs by up to 100 ppm.
//!
//! The slopes differ because the reference does: it is CLOCK_MONOTONIC bent by a rate that changes at random every
//! millisecond. The control loop, the cell and the counter are the real ones. `rdtsc` without a fence runs beside it, to show
//! that the test can see a backward step.
//!
//! `cargo run --release -p tickline-benches --bin order [-- --secs 60 --ppm 100]`
#![expect(clippy::print_stdout, reason = "a program that prints a table")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tickline_benches::args;
use tickline_benches::clocks::{counter, monotonic_ns};
use tickline_core::cell::NativeCell;
use tickline_core::control::{Config, Control, Renewal, Round};
use tickline_core::counter::{Counter, quantum_ticks};
use tickline_core::sample::{Quanta, Reference};
use tickline_core::shared::{Event, Shared, Source};

/// CLOCK_MONOTONIC, bent: it runs by `rate_ppm` faster since `since_ns`, and `ahead_ns` had been gathered by then.
#[derive(Debug)]
struct Bent(Mutex<Bend>);

#[derive(Debug)]
struct Bend {
    since_ns: u64,
    ahead_ns: i64,
    rate_ppm: i64,
}

impl Bend {
    fn at(&self, ns: u64) -> i64 {
        let since = i64::try_from(ns - self.since_ns).unwrap_or(0);
        self.ahead_ns + since * self.rate_ppm / 1_000_000
    }
}

impl Bent {
    fn bend(&self, rate_ppm: i64) {
        let mut bend = self.0.lock().expect("no reader panics");
        let now_ns = monotonic_ns();
        *bend = Bend { since_ns: now_ns, ahead_ns: bend.at(now_ns), rate_ppm };
    }
}

impl Reference for Bent {
    fn monotonic_ns(&self) -> i64 {
        let bend = self.0.lock().expect("no reader panics");
        let ns = monotonic_ns();
        i64::try_from(ns).unwrap_or(i64::MAX) + bend.at(ns)
    }
    fn realtime_ns(&self) -> i64 {
        self.monotonic_ns()
    }
}

#[derive(Debug, Default)]
struct Count {
    handovers: u64,
    backward: u64,
    largest_ns: u64,
    by_reference: u64,
}

/// Hands over the largest value between two threads for `time`; `read` returns it, and whether the reference served it.
fn hand_over(time: Duration, read: impl Fn() -> (u64, bool) + Sync) -> Count {
    let largest = AtomicU64::new(0);
    let counts: Vec<Count> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|index| {
                let (largest, read) = (&largest, &read);
                scope.spawn(move || {
                    if let Some(cpu) = core_affinity::get_core_ids().unwrap_or_default().get(index) {
                        core_affinity::set_for_current(*cpu);
                    }
                    let mut count = Count::default();
                    let start = Instant::now();
                    while start.elapsed() < time {
                        for _ in 0..10_000 {
                            // ORDERING: Acquire, pairs with the Release in fetch_max below: the reading that made this
                            // value was complete before it was stored.
                            let before = largest.load(Ordering::Acquire);
                            let (now, by_reference) = read();
                            // ORDERING: Release, as above.
                            largest.fetch_max(now, Ordering::AcqRel);
                            count.handovers += 1;
                            count.by_reference += u64::from(by_reference);
                            if now < before {
                                count.backward += 1;
                                count.largest_ns = count.largest_ns.max(before - now);
                            }
                        }
                    }
                    count
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a reader")).collect()
    });
    counts.into_iter().fold(Count::default(), |sum, count| Count {
        handovers: sum.handovers + count.handovers,
        backward: sum.backward + count.backward,
        largest_ns: sum.largest_ns.max(count.largest_ns),
        by_reference: sum.by_reference + count.by_reference,
    })
}

fn main() {
    let seconds = args::number("secs", 60);
    let ppm = args::number("ppm", 100);
    let counter = counter();
    let clock = Shared::new(NativeCell::new());
    let support = NativeCell::support();
    clock.cell.restrict(support);
    println!("cell: {support:?}");
    let reference = Bent(Mutex::new(Bend { since_ns: monotonic_ns(), ahead_ns: 0, rate_ppm: 0 }));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let publisher = scope.spawn(|| publish(&clock, &reference, ppm, &stop));
        while clock.read(&counter).is_none() {
            std::thread::yield_now();
        }
        let count = hand_over(Duration::from_secs(seconds), || {
            // What `now_ordered_ns` does: the inlined path, else the slow one.
            if let Some(ns) = clock.read_ordered(&counter) {
                return (ns.unsigned_abs(), false);
            }
            let reading = clock.read_slow(&counter, &reference);
            (reading.ns.unsigned_abs(), matches!(reading.source, Source::Reference { .. }))
        });
        // ORDERING: Relaxed, a flag on its own.
        stop.store(true, Ordering::Relaxed);
        let (rounds, slopes_ppm) = publisher.join().expect("the publisher");
        println!(
            "ordered, {seconds} s: {} handovers, {} backward (largest {} ns), {} served by the reference",
            count.handovers, count.backward, count.largest_ns, count.by_reference
        );
        println!(
            "{rounds} rounds of the publisher, slopes from {:+} to {:+} ppm",
            slopes_ppm.0, slopes_ppm.1
        );
        for event in Event::ALL {
            if clock.events(event) > 0 {
                println!("  {}: {}", event.name(), clock.events(event));
            }
        }
        let plain = hand_over(Duration::from_secs(2), || (counter.now(), false));
        println!(
            "bare counter without a fence, 2 s: {} handovers, {} backward",
            plain.handovers, plain.backward
        );
        if count.backward > 0 {
            std::process::exit(1);
        }
    });
}

/// A line every millisecond. Returns the rounds and the range of slopes against the first one, ppm.
fn publish(clock: &Shared<NativeCell>, reference: &Bent, ppm: u64, stop: &AtomicBool) -> (u64, (i64, i64)) {
    let counter = counter();
    let mut control = Control::new(Config {
        interval_ns: 1_000_000,
        quanta: Quanta { counter_ticks: quantum_ticks(&counter), reference_ns: 2 },
        guarded: NativeCell::support() != tickline_core::cell::Support::Full,
        renewal: Renewal::Ahead,
    });
    let (mut rounds, mut random, mut slopes, mut first) = (0, 0x2545_f491_4f6c_dd1d_u64, (0, 0), None);
    // ORDERING: Relaxed, a flag on its own.
    while !stop.load(Ordering::Relaxed) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let range = 2 * ppm + 1;
        reference.bend(i64::try_from(random % range).unwrap_or(0) - i64::try_from(ppm).unwrap_or(0));
        let outcome = control.maintain(clock, &counter, reference);
        if outcome.round == Round::Recovered {
            control.maintain(clock, &counter, reference);
        }
        let state = tickline_core::cell::StateCell::load_whole(&clock.cell);
        let slope = clock.line(state).slope;
        let ppm = slope.ppb_above(*first.get_or_insert(slope)) / 1_000;
        if rounds > 100 {
            slopes = (ppm.min(slopes.0), ppm.max(slopes.1));
        } else {
            first = Some(slope);
        }
        rounds += 1;
        std::thread::sleep(Duration::from_nanos(outcome.next_in_ns.min(1_000_000)));
    }
    (rounds, slopes)
}
