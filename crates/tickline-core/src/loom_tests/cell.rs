//! The parts without time: the cell and the lock.

use loom::cell::UnsafeCell;
use loom::thread;

use super::{bounds_of, check, made};
use crate::cell::{Latch, Published, StateCell};
use crate::line::{Line, Slope};
use crate::try_lock::TryLock;
use crate::word::{Phase, START_GRANULARITY_TICKS, Word};

/// The number of a line, which is published at tick `number << 20`.
fn number_of(word: Word) -> u64 {
    (word.start_ticks() + 2 * START_GRANULARITY_TICKS) >> 20
}

/// Every field tells the number of the line.
fn line(word: Word) -> Published {
    let number = number_of(word);
    let line = Line {
        start_ticks: word.to_bits(),
        base_ns: i64::try_from(number).unwrap() << 32,
        slope: Slope::from_bits(number << 40),
    };
    Published { line, window_ticks: number << 20 }
}

fn publish(cell: &Latch, from: Word, number: u64) -> Word {
    let word = from.next_published(number << 20, 0).unwrap();
    let line = line(word);
    assert!(cell.publish(from, word, &line, &bounds_of(&line.line)), "nobody else swaps");
    word
}

fn accepted(word: Word) -> String {
    format!("line {}", number_of(word))
}

/// Each of these must happen to a reader in some execution.
const ACCEPTED: [&str; 4] = ["line 1", "line 2", "line 3", "refused"];

/// What a reader accepts after the second load belongs to one line, even if the writer fills the
/// slot that it reads.
#[test]
fn a_reading_is_never_a_mixture() {
    check(None, &ACCEPTED, |seen| {
        let cell = made(Latch::new());
        let first = publish(&cell, Word::default(), 1);
        let reader = {
            let (cell, seen) = (cell.clone(), seen.clone());
            thread::spawn(move || {
                let word = cell.word();
                let published = cell.published(word);
                let unix = cell.published_unix(word);
                if cell.is_still(word) {
                    assert_eq!(published, line(word));
                    let offset_ns = bounds_of(&published.line).unix_offset_ns;
                    assert_eq!(unix.line.base_ns, published.line.base_ns + offset_ns);
                    seen.note(accepted(word));
                } else {
                    seen.note("refused");
                }
            })
        };
        let second = publish(&cell, first, 2);
        publish(&cell, second, 3);
        reader.join().unwrap();
    });
}

/// The same for the bounds.
#[test]
fn bounds_are_never_a_mixture() {
    check(Some(4), &ACCEPTED, |seen| {
        let cell = made(Latch::new());
        let first = publish(&cell, Word::default(), 1);
        let reader = {
            let (cell, seen) = (cell.clone(), seen.clone());
            thread::spawn(move || {
                let word = cell.word();
                let bounds = cell.bounds(word);
                if cell.is_still(word) {
                    assert_eq!(bounds, bounds_of(&line(word).line));
                    seen.note(accepted(word));
                } else {
                    seen.note("refused");
                }
            })
        };
        let second = publish(&cell, first, 2);
        publish(&cell, second, 3);
        reader.join().unwrap();
    });
}

/// The high-water mark of a word without a line is made from the slot; it too belongs to one line.
#[test]
fn a_high_water_mark_is_never_a_mixture() {
    check(None, &["line 1", "line 2"], |seen| {
        let cell = made(Latch::new());
        let tick = |number: u64| (number << 20) + (1 << 19);
        let retire = |in_use: Word| {
            let by_reference = in_use.without_line(tick(number_of(in_use)));
            assert!(cell.swap(in_use, by_reference));
            by_reference
        };
        let first = publish(&cell, Word::default(), 1);
        let high_water_ns = |in_use: Word| line(in_use).line.at(tick(number_of(in_use)));
        let marks = [first, first.next_published(2 << 20, 0).unwrap()].map(high_water_ns);
        let by_reference = retire(first);
        let reader = {
            let (cell, seen) = (cell.clone(), seen.clone());
            thread::spawn(move || {
                let state = cell.load();
                if cell.is_still(state.word) && state.word.phase() == Phase::NoLine {
                    let number = state.word.start_ticks() >> 20;
                    assert_eq!(state.high_water_ns(), marks[usize::try_from(number - 1).unwrap()]);
                    seen.note(format!("line {number}"));
                }
            })
        };
        let by_reference = retire(publish(&cell, by_reference, 2));
        let third = publish(&cell, by_reference, 3);
        assert_eq!(third.slot(), first.slot(), "the slot of the first line");
        reader.join().unwrap();
    });
}

/// Two threads that swap the same word: one of them succeeds.
#[test]
fn a_line_is_retired_once() {
    check(None, &["mine", "theirs"], |seen| {
        let cell = made(Latch::new());
        let in_use = publish(&cell, Word::default(), 1);
        let other = {
            let cell = cell.clone();
            thread::spawn(move || cell.swap(in_use, in_use.with_gate_closed()))
        };
        let mine = cell.swap(in_use, in_use.replacing());
        let theirs = other.join().unwrap();
        assert!(mine != theirs, "{mine} and {theirs}");
        seen.note(if mine { "mine" } else { "theirs" });
        assert_eq!(cell.word(), if mine { in_use.replacing() } else { in_use.with_gate_closed() });
    });
}

/// The lock has one holder at a time (loom's cell panics otherwise), which sees what the last one
/// did.
#[test]
fn a_lock_excludes_and_hands_over() {
    check(None, &["1 got it", "2 got it", "3 got it"], |seen| {
        let lock = made(TryLock::new(UnsafeCell::new(0_u32)));
        let add = |lock: &TryLock<UnsafeCell<u32>>| {
            // SAFETY: one process, one token.
            let Some(guard) = (unsafe { lock.try_lock(7) }) else { return 0 };
            assert!(!guard.was_abandoned());
            // SAFETY: the guard holds the lock; loom checks that nobody else is here.
            guard.with_mut(|content| unsafe { *content += 1 });
            1
        };
        let other = {
            let lock = lock.clone();
            thread::spawn(move || add(&lock) + add(&lock))
        };
        let mine = add(&lock);
        let sum = mine + other.join().unwrap();
        seen.note(format!("{sum} got it"));
        // SAFETY: one process, one token.
        let guard = unsafe { lock.try_lock(7) }.expect("free");
        // SAFETY: the guard holds the lock.
        assert_eq!(guard.with(|content| unsafe { *content }), sum);
    });
}
