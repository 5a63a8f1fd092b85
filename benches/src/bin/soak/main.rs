//! Everything at once, for as long as is asked for: does order hold, and does nothing grow?
//!
//! Eight threads hand readings of two clocks to each other, with random sleeps; a reading that is
//! handed over must not be above a later one. The clocks are the global one, and one with a thread
//! and a line every millisecond. Every eighth reading has its bounds compared with the OS clock,
//! read before and after it. Beside them four threads make trouble: they call `maintain`, switch
//! the counter off and on, start and drop the global clock's thread and clocks of their own, and
//! fork children, which check the order from their parent's last reading on ([`storm`],
//! [`child`]).
//!
//! The time is cut into rounds. After each, every thread has been joined and every guard dropped,
//! so memory, threads and descriptors of two rounds can be compared ([`process`]).
//!
//! A tenth of the time goes to threads pinned to all CPUs, which exchange readings of a clock
//! whose line bends every millisecond (`exchange::ordered`), and a second to counters that are
//! unsynchronised on purpose: backward steps are seen here.
//!
//! `cargo xtask soak --minutes 10`, or `cargo run --release -p tickline-benches --bin soak [--
//! --secs 60]`
//!
//! Ends with 1 if a count that must be 0 is not; with 77 if the counter does not serve here, so
//! that parts were skipped.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that prints a table")]

mod child;
mod process;
mod storm;
mod tally;

use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tickline_benches::args;
use tickline_benches::exchange::{self, Count};

use process::Held;
use storm::Subjects;
use tally::Tally;

/// Rounds, of which the first is the warm-up.
const ROUNDS: u32 = 12;

/// The part of the time that goes to lines which bend.
const BENT: u32 = 10;

/// By how much these bend to either side, ppm.
const BENT_PPM: u64 = 100;

/// The exit code of a command that has skipped some of its checks, and said which.
const SOME_SKIPPED: u8 = 77;

/// How much more memory may be resident at the end than after any round of the first half, KiB. A
/// stack or a heap keeps the pages that it once needed, and in the first three minutes that grows by
/// 700 KiB. That has an end, a leak has none. Ten minutes have some 4,500 starts and drops in each
/// half, so 120 bytes lost in each of them show.
const SETTLING_KIB: u64 = 512;

fn main() -> ExitCode {
    let seconds = args::number("secs", 60);
    if seconds == 0 {
        eprintln!("--secs must be at least 1");
        return ExitCode::from(2);
    }
    let time = Duration::from_secs(seconds);
    let counter = exchange::usable_counter();
    let bent = counter.as_ref().ok().map(|counter| {
        let control = exchange::unsynchronised(*counter, Duration::from_secs(1));
        (exchange::ordered(*counter, time / BENT, BENT_PPM), control)
    });
    let tally = Tally::shared();
    process::keep_one_heap();
    let before = Held::now();
    let subjects = match Subjects::new() {
        Ok(subjects) => subjects,
        Err(error) => {
            eprintln!("soak: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut rounds = Vec::new();
    for round in 0..ROUNDS {
        storm::round(&subjects, tally, u64::from(round), time * (BENT - 1) / BENT / ROUNDS);
        rounds.push(Held::at_rest(before.threads + 1)); // with the thread of the clock that lives through all rounds
    }
    drop(subjects);
    let after = Held::at_rest(before.threads);

    let mut table = Table::default();
    table.clocks(tally);
    match &bent {
        Some((ordered, control)) => table.bent(&ordered.count, control),
        None => println!("SKIPPED lines that bend: {}", counter.err().unwrap_or_default()),
    }
    table.held(&before, &rounds, &after);
    match (table.faults, bent.is_some()) {
        (0, true) => ExitCode::SUCCESS,
        (0, false) => ExitCode::from(SOME_SKIPPED),
        (faults, _) => {
            println!("FAILED: {faults} counts are not what they must be");
            ExitCode::FAILURE
        }
    }
}

/// Prints counts, and remembers those that are wrong.
#[derive(Debug, Default)]
struct Table {
    faults: usize,
}

impl Table {
    fn show(what: &str, count: u64) {
        println!("  {what:<58} {count:>14}");
    }

    fn must_be_zero(&mut self, what: &str, count: u64) {
        let verdict = if count == 0 { "as it must be" } else { "MUST BE 0" };
        println!("  {what:<58} {count:>14}  {verdict}");
        self.faults += usize::from(count != 0);
    }

    /// A count of what must have happened, or the others mean nothing.
    fn must_be_some(&mut self, what: &str, count: u64) {
        let verdict = if count == 0 { "  MUST NOT BE 0" } else { "" };
        println!("  {what:<58} {count:>14}{verdict}");
        self.faults += usize::from(count == 0);
    }

    fn clocks(&mut self, tally: &Tally) {
        // ORDERING: Relaxed, here and below: every thread has been joined, every child awaited.
        let count = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        println!("\n{} threads, and {} that make trouble", storm::THREADS, storm::STORMS);
        self.must_be_some("readings that were handed over", count(&tally.readings));
        self.must_be_zero("  steps back between threads", count(&tally.backward));
        self.must_be_zero("  the largest, ns", count(&tally.largest_ns));
        self.must_be_some("plain readings, each after another of its thread", count(&tally.plain));
        self.must_be_zero("  steps back within a thread", count(&tally.plain_backward));
        self.must_be_some("readings compared with the OS clock before and after", count(&tally.compared));
        self.must_be_zero("  outside their limits", count(&tally.outside));
        self.must_be_zero("  by how much at most, ns", count(&tally.outside_ns));
        Self::show("  served by the counter", count(&tally.by_counter));
        self.must_be_some("calls of maintain", count(&tally.maintained));
        self.must_be_some("times the counter was switched off and on", count(&tally.switched));
        self.must_be_some("starts and drops of the global clock's thread", count(&tally.started));
        self.must_be_some("starts and drops of other clocks", count(&tally.made));
        self.must_be_zero("  starts that failed", count(&tally.refused));
        self.must_be_some("forked children", count(&tally.children));
        self.must_be_zero("  that did not come to their end", count(&tally.lost));
    }

    fn bent(&mut self, ordered: &Count, control: &Count) {
        println!("lines that bend by {BENT_PPM} ppm every millisecond, {} threads", ordered.threads);
        self.must_be_some("readings that were handed over", ordered.exchanges);
        self.must_be_zero("  steps back between threads", ordered.backward);
        self.must_be_some("control: steps back of unsynchronised counters", control.backward);
    }

    fn held(&mut self, before: &Held, rounds: &[Held], after: &Held) {
        let (Some(warm), Some(end)) = (rounds.first(), rounds.last()) else { return };
        let most_kib = rounds.iter().take(rounds.len() / 2).map(|held| held.resident_kib).max().unwrap_or(0);
        println!("after each round, at rest");
        println!("  {:<58} {}", "resident memory, KiB", Held::list(rounds, |held| held.resident_kib));
        println!("  {:<58} {}", "threads", Held::list(rounds, |held| held.threads));
        println!("  {:<58} {}", "descriptors", Held::list(rounds, |held| held.descriptors));
        let grown_kib = end.resident_kib.saturating_sub(most_kib + SETTLING_KIB);
        self.must_be_zero(
            &format!("  KiB at the end above the first half, beyond {SETTLING_KIB}"),
            grown_kib,
        );
        self.must_be_zero("  threads since the warm-up", end.threads.saturating_sub(warm.threads));
        self.must_be_zero(
            "  descriptors since the warm-up",
            end.descriptors.saturating_sub(warm.descriptors),
        );
        self.must_be_zero(
            "  threads, once every clock is dropped",
            after.threads.saturating_sub(before.threads),
        );
        Self::show(
            "  descriptors that the global clock keeps",
            after.descriptors.saturating_sub(before.descriptors),
        );
    }
}
