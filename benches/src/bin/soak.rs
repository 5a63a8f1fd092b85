//! Runs all operations of the clocks at the same time, for the time in the arguments. Checks that
//! order and bounds hold, and that memory, threads and descriptors do not grow.
//!
//! Threads exchange readings of two clocks, with random sleeps. No reading may be below an earlier
//! one that it follows. The clocks are the global one, and one with a thread and a short interval.
//! Some readings have their bounds compared with the OS clock, read before and after them.
//! Meanwhile other threads disturb the clocks. They call `maintain`, and switch the counter off and
//! on. They start and drop the global clock's thread and clocks of their own. They fork children,
//! which check the order from their parent's last reading on.
//!
//! The time is divided into rounds. At the end of a round every thread has been joined and every
//! guard dropped. So memory, threads and descriptors of two rounds can be compared.
//!
//! `cargo xtask soak --minutes 10`, which also runs `order`, or `cargo run --release -p
//! tickline-benches --bin soak [-- --secs 60]`
//!
//! The program exits with 1 if a count is outside of its range.
#![expect(clippy::print_stdout, reason = "a program that prints a table")]

use std::fs;
use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use clap::Parser;
use fastrand::Rng;
use tickline::{Clock, Driver};
use tickline_benches::exchange::{self, MAX_LONG_NAP_US, MAX_NAP_US, MAX_READINGS, up_to_us};
use tickline_observe::{Bounded, Count, wait_until};

/// The number of rounds. The first is the warm-up.
const ROUNDS: u32 = 12;

/// The growth of resident memory, KiB, that is allowed between the largest round of the first half
/// and the end. A stack or a heap keeps the pages that it once needed, and grows by 700 KiB in the
/// first three minutes. This growth ends, but that of a leak does not. Ten minutes have about 4,500
/// starts and drops in each half, so a leak of 120 bytes in each of them shows.
const SETTLING_KIB: u64 = 512;

/// The number of threads that exchange readings. Every second one is pinned to a CPU.
const THREADS: usize = 8;

/// The largest number of readings in a row by a child, or of a clock that is made and dropped.
const MAX_SHORT_READINGS: u64 = MAX_READINGS / 8;

/// One nap in this many lasts up to [`MAX_LONG_NAP_US`].
const LONG_NAP_ONE_IN: u64 = 64;

/// The largest number of calls of `maintain`, or changes of the switch, in a row.
const MAX_BURST: u64 = 50;

/// The longest pause between two bursts of switching, us: long enough for the counter to serve.
const MAX_PAUSE_US: u64 = 200_000;

/// The interval of the clock that recalibrates often.
const INTERVAL: Duration = Duration::from_millis(1);

/// One reading in this many is compared with the OS clock, and another one is plain.
const COMPARED_ONE_IN: u64 = 8;

/// The time after which a child that hangs is killed, s. A child takes a thousandth of this time.
const CHILD_S: u32 = 60;

/// The longest wait for threads that were joined to leave procfs.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs all operations of a clock at once, and searches for wrong readings and growth.
#[derive(Debug, Parser)]
struct Arguments {
    /// The time to run, s.
    #[arg(long, default_value_t = 60)]
    secs: u64,
}

fn main() -> ExitCode {
    let Arguments { secs } = Arguments::parse();
    keep_one_heap();
    let before = Held::now();
    let own = Clock::builder()
        .interval(INTERVAL)
        .build()
        .expect("a clock");
    let mut tallies = Tallies::default();
    let mut rounds = Vec::new();
    for number in 0..ROUNDS {
        let time = Duration::from_secs(secs) / ROUNDS;
        run_round(&own, u64::from(number), time, &mut tallies);
        rounds.push(Held::wait_for_rest(before.threads + 1)); // one more: the thread of `own`
    }
    drop(own);
    let after = Held::wait_for_rest(before.threads);

    println!(
        "{THREADS} threads, and {} that make trouble",
        DISTURBERS.len()
    );
    let mut faults = print(&counted(&tallies));
    println!("after each round, at rest");
    rounds.iter().for_each(|held| println!("  {held:?}"));
    faults += print(&grown(&before, &rounds, &after));
    if faults > 0 {
        println!("FAILED: {faults} counts are not what they must be");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// The counts of the threads that do the same work, or of all threads.
#[derive(Debug, Default)]
struct Tally {
    /// Ordered readings, each compared with the largest that was complete before it, ns.
    ordered: Count,
    /// Plain readings, each compared with the last reading of its thread, ns.
    plain: Count,
    /// Bounds, ns. The OS clock after a reading must not be below the reading's earliest time. The
    /// latest time must not be below the OS clock before the reading.
    bounds: Count,
    /// Readings with bounds that the counter served.
    by_counter: u64,
    /// The number of times that the work was done, and that it failed: a start returned an error,
    /// or a child was killed or reported a fault.
    done: u64,
    failed: u64,
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.ordered.add(&other.ordered);
        self.plain.add(&other.plain);
        self.bounds.add(&other.bounds);
        self.by_counter += other.by_counter;
        self.done += other.done;
        self.failed += other.failed;
    }

    /// Counts a failure, and prints its reason.
    fn fail(&mut self, reason: &dyn std::fmt::Display) {
        println!("{reason}");
        self.failed += 1;
    }
}

/// A clock, and the largest of its ordered readings so far.
struct WatchedClock<'a> {
    clock: &'a Clock,
    largest: AtomicU64,
}

impl<'a> WatchedClock<'a> {
    fn new(clock: &'a Clock) -> Self {
        Self {
            clock,
            largest: AtomicU64::new(0),
        }
    }

    /// Makes up to `count` readings: plain ones, ordered ones, and some with their bounds.
    fn read(&self, tally: &mut Tally, count: u64) {
        let clock = self.clock;
        let mut last_ns = 0;
        for turn in 0..count {
            let now_ns = match turn % COMPARED_ONE_IN {
                0 => {
                    let Tally {
                        ordered,
                        bounds,
                        by_counter,
                        ..
                    } = tally;
                    let read = || {
                        let read = Bounded::read(clock);
                        bounds.compare(read.earliest_ns, read.bracket.after_ns);
                        bounds.compare(read.bracket.before_ns, read.latest_ns);
                        *by_counter += u64::from(read.by_counter);
                        read.bracket.now_ns
                    };
                    ordered.exchange(&self.largest, read).1
                }
                1 => {
                    let now_ns = clock.now().as_nanos();
                    tally.plain.compare(last_ns, now_ns);
                    now_ns
                }
                _ => {
                    tally
                        .ordered
                        .exchange(&self.largest, || clock.now_ordered().as_nanos())
                        .1
                }
            };
            last_ns = now_ns;
        }
    }
}

/// One turn of the work of a thread.
type Work = fn(&[WatchedClock<'_>], &mut Tally, &mut Rng);

/// The work of each thread that disturbs the clocks, and what it counts.
const DISTURBERS: [(&str, Work); 4] = [
    ("calls of maintain", maintain),
    ("times the counter was switched off and on", switch),
    (
        "starts and drops of the global clock's thread, and of a clock",
        start_and_drop,
    ),
    ("forked children", fork_child),
];

/// The counts of all threads.
#[derive(Debug, Default)]
struct Tallies {
    /// The counts of each of [`DISTURBERS`].
    disturbers: [Tally; DISTURBERS.len()],
    /// The counts of the threads that exchange readings.
    readers: Tally,
}

/// Runs the threads that exchange readings and the threads that disturb the clocks, for `time`.
/// When this returns, all of them have ended.
fn run_round(own: &Clock, number: u64, time: Duration, tallies: &mut Tallies) {
    let stop = AtomicBool::new(false);
    let all = [WatchedClock::new(Clock::global()), WatchedClock::new(own)];
    let repeat = |work: Work, thread: usize| {
        let mut tally = Tally::default();
        let mut random = Rng::with_seed(number << 32 | thread as u64);
        // ORDERING: Relaxed: the flag orders no memory.
        while !stop.load(Ordering::Relaxed) {
            work(&all, &mut tally, &mut random);
        }
        tally
    };
    let read = |reader: usize| {
        if reader.is_multiple_of(2) {
            exchange::pin(reader / 2);
        }
        repeat(exchange_readings, DISTURBERS.len() + reader)
    };
    thread::scope(|scope| {
        let repeat = &repeat;
        let read = &read;
        let disturbers = DISTURBERS.iter().enumerate();
        let disturbers: Vec<_> = disturbers
            .map(|(index, (_, work))| scope.spawn(move || repeat(*work, index)))
            .collect();
        let readers: Vec<_> = (0..THREADS)
            .map(|reader| scope.spawn(move || read(reader)))
            .collect();
        sleep(time);
        // ORDERING: Relaxed: the flag orders no memory.
        stop.store(true, Ordering::Relaxed);
        for (tally, thread) in tallies.disturbers.iter_mut().zip(disturbers) {
            tally.add(&thread.join().expect("no thread panics"));
        }
        for thread in readers {
            tallies
                .readers
                .add(&thread.join().expect("no thread panics"));
        }
    });
}

fn nap(random: &mut Rng, most_us: u64) {
    sleep(up_to_us(random, most_us));
}

/// Reads the clocks in turn, and sleeps between two exchanges, or in the middle of one.
fn exchange_readings(all: &[WatchedClock<'_>], tally: &mut Tally, random: &mut Rng) {
    for watched in all {
        watched.read(tally, random.u64(0..MAX_READINGS));
        let most_us = if random.u64(0..LONG_NAP_ONE_IN) == 0 {
            MAX_LONG_NAP_US
        } else {
            MAX_NAP_US
        };
        exchange::nap(
            &mut tally.ordered,
            &watched.largest,
            random,
            most_us,
            || watched.clock.now_ordered().as_nanos(),
        );
        tally.done += 1;
    }
}

fn maintain(all: &[WatchedClock<'_>], tally: &mut Tally, random: &mut Rng) {
    for watched in all {
        for _ in 0..random.u64(0..MAX_BURST) {
            watched.clock.maintain();
            tally.done += 1;
        }
    }
    nap(random, MAX_LONG_NAP_US);
}

/// Switches the counter off and on, and leaves it switched on.
fn switch(all: &[WatchedClock<'_>], tally: &mut Tally, random: &mut Rng) {
    for watched in all {
        for _ in 0..random.u64(0..MAX_BURST) {
            watched.clock.disable();
            if random.u64(0..4) == 0 {
                nap(random, MAX_NAP_US);
            }
            watched.clock.enable();
            tally.done += 1;
        }
    }
    nap(random, MAX_PAUSE_US);
}

/// Starts and drops the global clock's thread, with several guards at once, and clocks with every
/// driver.
fn start_and_drop(all: &[WatchedClock<'_>], tally: &mut Tally, random: &mut Rng) {
    let mut guards = Vec::new();
    for _ in 0..=random.u64(0..3) {
        let started = if random.u64(0..2) == 0 || !guards.is_empty() {
            tickline::start()
        } else {
            Clock::builder().interval(INTERVAL).start_global()
        };
        match started {
            Ok(guard) => guards.push(guard),
            // The first guard has other settings, so tickline may refuse the rest.
            Err(error) if error.kind() == tickline::ErrorKind::AlreadyRunning => {}
            Err(error) => tally.fail(&format_args!("start: {error}")),
        }
    }
    all[0].read(tally, random.u64(0..MAX_SHORT_READINGS));
    nap(random, MAX_LONG_NAP_US);
    drop(guards);
    all[0].read(tally, random.u64(0..MAX_SHORT_READINGS));
    make_and_drop(tally, random);
    tally.done += 1;
}

/// Makes a clock, reads it some times, and drops it.
fn make_and_drop(tally: &mut Tally, random: &mut Rng) {
    let driver = [Driver::Thread, Driver::Reader, Driver::Manual][random.usize(0..3)];
    let interval = Duration::from_millis(1 + random.u64(0..50));
    let mut builder = Clock::builder().driver(driver).interval(interval);
    if driver == Driver::Thread && random.u64(0..2) == 0 {
        builder = builder.recent_every(Duration::from_millis(1));
    }
    let clock = match builder.build() {
        Ok(clock) => clock,
        Err(error) => return tally.fail(&format_args!("a clock with {driver:?}: {error}")),
    };
    let watched = WatchedClock::new(&clock);
    let start = Instant::now();
    let time = up_to_us(random, MAX_LONG_NAP_US);
    while start.elapsed() < time {
        if driver == Driver::Manual {
            clock.maintain();
        }
        watched.read(tally, random.u64(0..MAX_SHORT_READINGS));
    }
}

/// Forks a child. It inherits its parent's clocks, without their threads.
fn fork_child(all: &[WatchedClock<'_>], tally: &mut Tally, random: &mut Rng) {
    nap(random, MAX_LONG_NAP_US);
    // SAFETY: other threads could hold only locks of the allocator and of thread creation that
    // the child below takes, and `fork` makes these usable in the child.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: passes a number. The signal has no handler, so it ends the process.
        unsafe { libc::alarm(CHILD_S) };
        let is_wrong = work_as_child(all, random);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(is_wrong.into()) };
    }
    let mut status = 0;
    // SAFETY: waits for the child made above; `status` is valid for a write.
    let ended = child > 0 && unsafe { libc::waitpid(child, &raw mut status, 0) } == child;
    tally.done += 1;
    if !ended || status != 0 {
        tally.fail(&format_args!("child {child}: wait status {status:#x}"));
    }
}

/// Makes readings in a child, which must not be below any of its parent's. Then it may start and
/// drop the global clock's thread. Returns whether order, bounds or start were wrong.
fn work_as_child(all: &[WatchedClock<'_>], random: &mut Rng) -> bool {
    let mut tally = Tally::default();
    for watched in all {
        // The largest reading is the parent's at the fork, because this memory is the child's own.
        watched.read(&mut tally, random.u64(0..MAX_SHORT_READINGS));
        nap(random, MAX_LONG_NAP_US / 4);
        watched.read(&mut tally, random.u64(0..MAX_SHORT_READINGS));
        watched.clock.maintain();
        watched.clock.disable();
        watched.read(&mut tally, random.u64(0..MAX_SHORT_READINGS));
        watched.clock.enable();
        watched.read(&mut tally, random.u64(0..MAX_SHORT_READINGS));
    }
    let mut is_refused = false;
    if random.u64(0..4) == 0 {
        let guard = tickline::start();
        is_refused = guard.is_err();
        nap(random, MAX_LONG_NAP_US / 4);
        all[0].read(&mut tally, random.u64(0..MAX_SHORT_READINGS));
        drop(guard);
        all[0].read(&mut tally, random.u64(0..MAX_SHORT_READINGS));
    }
    is_refused || tally.ordered.backward + tally.plain.backward + tally.bounds.backward > 0
}

/// Makes all threads share one heap. By default each new thread takes the next of 8 heaps for each
/// CPU. The first pages of each heap would count as growth until the last heap has been used.
fn keep_one_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: passes numbers, before the first thread is made.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1)
    };
}

/// The resources that this process holds, by procfs; 0 without procfs.
#[derive(Debug, Clone, Copy)]
struct Held {
    resident_kib: u64,
    threads: u64,
    descriptors: u64,
}

impl Held {
    fn now() -> Self {
        // Give freed memory back to the kernel, so that only memory in use counts.
        #[cfg(all(target_os = "linux", target_env = "gnu"))]
        // SAFETY: passes a number; the allocator locks what it needs.
        unsafe {
            libc::malloc_trim(0)
        };
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.split_whitespace().next()?.parse().ok())
                .unwrap_or(0)
        };
        // The descriptor that reads the folder does not count.
        let descriptors =
            fs::read_dir("/proc/self/fd").map_or(0, |folder| folder.count().saturating_sub(1));
        Self {
            resident_kib: line("VmRSS:"),
            threads: line("Threads:"),
            descriptors: descriptors as u64,
        }
    }

    /// Waits until there are at most `threads` threads, but not forever, and then returns the
    /// resources.
    fn wait_for_rest(threads: u64) -> Self {
        wait_until(PATIENCE, || Self::now().threads <= threads);
        Self::now()
    }
}

/// A row of the output.
struct Row {
    label: &'static str,
    count: u64,
    allowed: RangeInclusive<u64>,
}

impl Row {
    const fn new(label: &'static str, count: u64, allowed: RangeInclusive<u64>) -> Self {
        Self {
            label,
            count,
            allowed,
        }
    }

    fn is_wrong(&self) -> bool {
        !self.allowed.contains(&self.count)
    }
}

/// The allowed ranges. If a count of [`SOME`] is 0, the other counts prove nothing.
const ZERO: RangeInclusive<u64> = 0..=0;
const SOME: RangeInclusive<u64> = 1..=u64::MAX;
const ANY: RangeInclusive<u64> = 0..=u64::MAX;

/// Prints counts. Returns how many are wrong.
fn print(rows: &[Row]) -> usize {
    for row in rows {
        let verdict = if row.is_wrong() {
            format!("MUST BE IN {:?}", row.allowed)
        } else {
            String::new()
        };
        println!("  {:<62} {:>14}  {verdict}", row.label, row.count);
    }
    rows.iter().filter(|row| row.is_wrong()).count()
}

/// The comparisons of a count, the wrong ones, and the worst.
fn compared(count: &Count, checked: &'static str, wrong: &'static str) -> [Row; 3] {
    [
        Row::new(checked, count.comparisons, SOME),
        Row::new(wrong, count.backward, ZERO),
        Row::new("  by how much at most, ns", count.largest, ZERO),
    ]
}

fn counted(tallies: &Tallies) -> Vec<Row> {
    let mut all = Tally::default();
    all.add(&tallies.readers);
    tallies.disturbers.iter().for_each(|tally| all.add(tally));
    let mut rows = Vec::new();
    rows.extend(compared(
        &all.ordered,
        "readings that were handed over",
        "  steps back between threads",
    ));
    rows.extend(compared(
        &all.plain,
        "plain readings, each after another of its thread",
        "  steps back within a thread",
    ));
    rows.extend(compared(
        &all.bounds,
        "bounds compared with the OS clock, before or after",
        "  on the wrong side of it",
    ));
    let label = "readings with bounds that the counter served";
    rows.push(Row::new(label, all.by_counter, ANY));
    let disturbers = DISTURBERS.iter().zip(&tallies.disturbers);
    rows.extend(disturbers.map(|((label, _), tally)| Row::new(label, tally.done, SOME)));
    let label = "turns of the threads that exchange readings";
    rows.push(Row::new(label, tallies.readers.done, SOME));
    let label = "starts that failed, children that did not end or found a fault";
    rows.push(Row::new(label, all.failed, ZERO));
    rows
}

/// The growth of the process's resources.
fn grown(before: &Held, rounds: &[Held], after: &Held) -> Vec<Row> {
    let (Some(warm), Some(end)) = (rounds.first(), rounds.last()) else {
        return Vec::new();
    };
    let first_half = rounds.iter().take(rounds.len() / 2);
    let most_kib = first_half.map(|held| held.resident_kib).max().unwrap_or(0) + SETTLING_KIB;
    let more =
        |label, now: u64, then: u64, allowed| Row::new(label, now.saturating_sub(then), allowed);
    vec![
        more(
            "descriptors that the global clock keeps",
            after.descriptors,
            before.descriptors,
            ANY,
        ),
        more(
            "KiB at the end above the first half and what settles",
            end.resident_kib,
            most_kib,
            ZERO,
        ),
        more("threads since the warm-up", end.threads, warm.threads, ZERO),
        more(
            "descriptors since the warm-up",
            end.descriptors,
            warm.descriptors,
            ZERO,
        ),
        more(
            "threads, once every clock is dropped",
            after.threads,
            before.threads,
            ZERO,
        ),
    ]
}
