//! The threads of a round: those that hand readings over, and those that make trouble.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use tickline::{Clock, Driver, Error};
use tickline_benches::exchange::{self, Random};

use crate::child;
use crate::tally::{Reader, Subject, Tally};

/// Threads that hand readings over. Every second one is pinned to a CPU, the others go where the
/// kernel puts them.
pub(crate) const THREADS: usize = 8;

/// Threads beside them.
pub(crate) const STORMS: usize = 4;

/// Readings between two sleeps of a thread, at most: about a millisecond.
const RUN: u64 = 40_000;

/// The longest sleep between, or in the middle of, two exchanges, us.
const NAP_US: u64 = 100;

/// One nap in so many lasts up to [`LONG_NAP_US`]: past the validity of the lines that come every
/// millisecond.
const RARELY: u64 = 64;
const LONG_NAP_US: u64 = 20_000;

/// Calls of `maintain`, and changes of the switch, in a row, at most.
const BURST: u64 = 50;

/// The longest pause between two bursts of switching, us: with less of it, the counter hardly ever
/// serves.
const PAUSE_US: u64 = 200_000;

/// The interval of the clock that recalibrates often.
const INTERVAL: Duration = Duration::from_millis(1);

/// Readings of a clock that is made and dropped, at most.
const SHORT_RUN: u64 = 2_000;

/// Whether the round still runs.
pub(crate) type Runs<'a> = &'a (dyn Fn() -> bool + Sync);

/// What makes trouble, for as long as the round runs.
type Storm = fn(&[Subject<'_>], &Tally, Random, Runs<'_>);

/// The clocks that live through all rounds.
#[derive(Debug)]
pub(crate) struct Subjects {
    own: Clock,
}

impl Subjects {
    pub(crate) fn new() -> Result<Self, Error> {
        Ok(Self { own: Clock::builder().interval(INTERVAL).start()? })
    }
}

/// Threads and storms, for `time`. When this returns, all of them are gone.
pub(crate) fn round(subjects: &Subjects, tally: &Tally, round: u64, time: Duration) {
    let stop = AtomicBool::new(false);
    let all = [Subject::new(Clock::global()), Subject::new(&subjects.own)];
    let cpus = exchange::cpus();
    // ORDERING: Relaxed, a flag on its own.
    let runs = || !stop.load(Ordering::Relaxed);
    let (all, runs) = (&all[..], &runs);
    thread::scope(|scope| {
        let mut stream = round << 32;
        let mut random = || {
            stream += 1;
            Random::new(stream)
        };
        for index in 0..THREADS {
            let random = random();
            let cpu = cpus.get(index / 2 % cpus.len().max(1)).copied().filter(|_| index % 2 == 0);
            scope.spawn(move || {
                if let Some(cpu) = cpu {
                    core_affinity::set_for_current(cpu);
                }
                hand_over(all, tally, random, runs);
            });
        }
        let storms: [Storm; STORMS] = [maintain, switch, start_and_drop, child::fork_children];
        for storm in storms {
            let random = random();
            scope.spawn(move || storm(all, tally, random, runs));
        }
        sleep(time);
        // ORDERING: Relaxed, as above.
        stop.store(true, Ordering::Relaxed);
    });
}

fn nap(random: &mut Random, most_us: u64) {
    sleep(Duration::from_micros(random.below(most_us)));
}

/// Reads the clocks in turn, and sleeps between two readings, or in the middle of handing one over.
fn hand_over(all: &[Subject<'_>], tally: &Tally, mut random: Random, runs: Runs<'_>) {
    let mut readers: Vec<Reader<'_>> = all.iter().map(|subject| Reader::new(subject, tally)).collect();
    while runs() {
        for reader in &mut readers {
            for turn in 0..random.below(RUN) {
                reader.read(turn);
            }
            let most_us = if random.below(RARELY) == 0 { LONG_NAP_US } else { NAP_US };
            let time = Duration::from_micros(random.below(most_us));
            match random.below(3) {
                0 => sleep(time),
                1 => reader.read_ordered(|| sleep(time), || {}),
                _ => reader.read_ordered(|| {}, || sleep(time)),
            }
        }
    }
}

fn maintain(all: &[Subject<'_>], tally: &Tally, mut random: Random, runs: Runs<'_>) {
    while runs() {
        for subject in all {
            for _ in 0..random.below(BURST) {
                subject.clock.maintain();
                Tally::add(&tally.maintained, 1);
            }
        }
        nap(&mut random, LONG_NAP_US);
    }
}

/// Leaves the counter switched on.
fn switch(all: &[Subject<'_>], tally: &Tally, mut random: Random, runs: Runs<'_>) {
    while runs() {
        for subject in all {
            for _ in 0..random.below(BURST) {
                subject.clock.disable();
                if random.below(4) == 0 {
                    nap(&mut random, NAP_US);
                }
                subject.clock.enable();
                Tally::add(&tally.switched, 1);
            }
        }
        nap(&mut random, PAUSE_US);
    }
}

/// The global clock's thread, by several guards at once, and clocks of every driver.
fn start_and_drop(all: &[Subject<'_>], tally: &Tally, mut random: Random, runs: Runs<'_>) {
    let global = &all[0];
    while runs() {
        let mut guards = Vec::new();
        for _ in 0..=random.below(3) {
            match if random.below(2) == 0 || !guards.is_empty() {
                tickline::start()
            } else {
                Clock::builder().interval(INTERVAL).start_global()
            } {
                Ok(guard) => guards.push(guard),
                // The first guard has other settings, so the rest may be refused.
                Err(error) if error.kind() == tickline::ErrorKind::Running => {}
                Err(_) => Tally::add(&tally.refused, 1),
            }
        }
        let mut reader = Reader::new(global, tally);
        (0..random.below(SHORT_RUN)).for_each(|turn| reader.read(turn));
        nap(&mut random, LONG_NAP_US);
        Tally::add(&tally.started, 1);
        drop(guards);
        (0..random.below(SHORT_RUN)).for_each(|turn| reader.read(turn));
        make_and_drop(tally, &mut random);
    }
}

/// A clock of its own, for some readings.
fn make_and_drop(tally: &Tally, random: &mut Random) {
    let driver =
        [Driver::Thread, Driver::Reader, Driver::Manual][usize::try_from(random.below(3)).unwrap_or(0)];
    let interval = Duration::from_millis(1 + random.below(50));
    let mut builder = Clock::builder().driver(driver).interval(interval);
    if driver == Driver::Thread && random.below(2) == 0 {
        builder = builder.recent_every(Duration::from_millis(1));
    }
    match builder.start() {
        Ok(clock) => {
            let subject = Subject::new(&clock);
            let mut reader = Reader::new(&subject, tally);
            let start = Instant::now();
            let time = Duration::from_micros(random.below(LONG_NAP_US));
            let mut turn = 0;
            while start.elapsed() < time {
                if driver == Driver::Manual {
                    clock.maintain();
                }
                (0..random.below(SHORT_RUN)).for_each(|_| {
                    reader.read(turn);
                    turn += 1;
                });
            }
            Tally::add(&tally.made, 1);
        }
        Err(_) => Tally::add(&tally.refused, 1),
    }
}
