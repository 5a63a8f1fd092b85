//! Forked children: each goes on where its parent's clocks were, with no thread of theirs.

use std::thread::sleep;
use std::time::Duration;

use tickline_benches::exchange::Random;

use crate::storm::Runs;
use crate::tally::{Reader, Subject, Tally};

/// The longest time between two forks, us.
const PAUSE_US: u64 = 20_000;

/// The longest sleep of a child, us.
const NAP_US: u64 = 5_000;

/// Readings in a row of a child, at most.
const RUN: u64 = 5_000;

/// The time after which a child that hangs is killed, s. A child takes a thousandth of it.
const PATIENCE_S: u32 = 60;

/// Forks children one after the other.
pub(crate) fn fork_children(all: &[Subject<'_>], tally: &Tally, mut random: Random, runs: Runs<'_>) {
    while runs() {
        sleep(Duration::from_micros(random.below(PAUSE_US)));
        // SAFETY: the child below takes no lock that another thread could hold now, but the
        // allocator's and those of making threads, which fork sees to.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: passes a number; nothing handles the signal, which ends the process.
            unsafe { libc::alarm(PATIENCE_S) };
            live(all, tally, &mut random);
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(0) };
        }
        let mut status = 0;
        // SAFETY: waits for the child made above; `status` is valid for a write.
        let ended = child > 0 && unsafe { libc::waitpid(child, &raw mut status, 0) } == child;
        Tally::add(&tally.children, 1);
        Tally::add(&tally.lost, u64::from(!ended || status != 0));
    }
}

/// A child's life: readings, which must not be below any of its parent's; then what its parent
/// does, too.
fn live(all: &[Subject<'_>], tally: &Tally, random: &mut Random) {
    for subject in all {
        // The largest reading is the parent's when it forked: this memory is the child's own.
        let mut reader = Reader::new(subject, tally);
        let mut read = |random: &mut Random| (0..random.below(RUN)).for_each(|turn| reader.read(turn));
        read(random);
        sleep(Duration::from_micros(random.below(NAP_US)));
        read(random);
        subject.clock.maintain();
        subject.clock.disable();
        read(random);
        subject.clock.enable();
        read(random);
    }
    if random.below(4) == 0 {
        match tickline::start() {
            Ok(guard) => {
                let mut reader = Reader::new(&all[0], tally);
                sleep(Duration::from_micros(random.below(NAP_US)));
                (0..random.below(RUN)).for_each(|turn| reader.read(turn));
                drop(guard);
                (0..random.below(RUN)).for_each(|turn| reader.read(turn));
            }
            Err(_) => Tally::add(&tally.refused, 1),
        }
    }
}
