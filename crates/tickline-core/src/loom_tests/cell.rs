//! The parts without time: the cell, the lock, the ring of past lines.

use loom::cell::UnsafeCell;
use loom::thread;

use super::{bounds_of, check, made};
use crate::cell::{Latch, Published, StateCell};
use crate::line::{Line, Slope};
use crate::timeline::{CAPACITY, Past, PastLines, Timeline, Unconverted};
use crate::try_lock::TryLock;
use crate::word::{Phase, START_GRANULARITY_TICKS, Slot, Word};

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

/// Line `k` is in use from tick 1000 k on; no two have a field in common.
fn past_line(k: u64) -> Line {
    let base_ns = i64::try_from(7_001 * k).unwrap();
    Line { start_ticks: 1_000 * k, base_ns, slope: Slope::from_bits(k << 48) }
}

fn push(timeline: &Timeline, k: u64) {
    timeline.push(&Past { high_water_ns: i64::MAX, ..past(k) });
}

/// Line `k` as an entry in which each field tells its number.
fn past(k: u64) -> Past {
    Past {
        from_ticks: 1_000 * k,
        line: past_line(k),
        slot: slot(k),
        high_water_ns: i64::try_from(k).unwrap(),
    }
}

fn slot(k: u64) -> Slot {
    if k % 2 == 0 { Slot::A } else { Slot::B }
}

/// The line by which `ticks` are converted where the word has the slot of line `newest`. It tries
/// again as its users do.
fn line_at(timeline: &Timeline, ticks: u64, newest: u64) -> u64 {
    let ns = loop {
        match timeline.convert(ticks, slot(newest)) {
            Ok(conversion) => break conversion.ns,
            Err(Unconverted::Moved) => thread::yield_now(),
            Err(Unconverted::NoLine) => panic!("there is one"),
        }
    };
    let number = (1..9).find(|&k| past_line(k).at_any(ticks) == ns);
    number.unwrap_or_else(|| panic!("a mixture: {ns}"))
}

/// In an entry that is overwritten meanwhile a reader finds the whole old line, the whole new
/// line, or nothing.
#[test]
fn an_entry_is_never_a_mixture() {
    check(None, &["old: true", "old: false", "new: true", "new: false"], |seen| {
        let timeline = made(Timeline::new());
        timeline.push(&past(1));
        timeline.push(&past(2));
        let reader = {
            let (timeline, seen) = (timeline.clone(), seen.clone());
            thread::spawn(move || {
                for (name, k) in [("old", 1), ("new", 3)] {
                    let found = timeline.get(k - 1);
                    assert!(found.is_none_or(|found| found == past(k)), "{found:?}");
                    seen.note(format!("{name}: {}", found.is_some()));
                }
            })
        };
        timeline.push(&past(3));
        reader.join().unwrap();
    });
}

/// A tick is converted with one whole line while its entry is overwritten, and with the line of
/// its time if that is still there.
#[test]
fn a_conversion_uses_one_line() {
    const { assert!(CAPACITY == 2) };
    check(Some(5), &["line 2", "line 3"], |seen| {
        let timeline = made(Timeline::new());
        push(&timeline, 1);
        push(&timeline, 2);
        let reader = {
            let (timeline, seen) = (timeline.clone(), seen.clone());
            thread::spawn(move || {
                // Line 2 is of that time; once it is overwritten, line 3 is the oldest that is
                // left.
                let number = line_at(&timeline, 2_500, 2);
                assert!([2, 3, 4].contains(&number), "line {number}");
                seen.note(format!("line {number}"));
            })
        };
        push(&timeline, 3);
        push(&timeline, 4);
        reader.join().unwrap();
    });
}

/// A tick is converted with one line, whole, while another is taken back and a third takes its
/// place; and never with the one that was taken back, as long as the word has the slot of its
/// predecessor.
#[test]
fn a_line_that_is_taken_back_converts_nothing() {
    check(Some(4), &["line 1", "line 3"], |seen| {
        let timeline = made(Timeline::new());
        push(&timeline, 1);
        let reader = {
            let (timeline, seen) = (timeline.clone(), seen.clone());
            thread::spawn(move || {
                let number = line_at(&timeline, 5_500, 1);
                seen.note(format!("line {number}"));
                assert_eq!(number % 2, 1, "it was not published");
            })
        };
        push(&timeline, 2);
        timeline.take_back();
        push(&timeline, 3);
        reader.join().unwrap();
    });
}

/// Ticks from before the first line are converted with one whole line while the counter starts
/// again and another first line takes its place.
#[test]
fn a_first_line_is_never_a_mixture() {
    check(None, &["line 1", "line 3"], |seen| {
        let timeline = made(Timeline::new());
        timeline.note_first(&past(1));
        push(&timeline, 1);
        let reader = {
            let (timeline, seen) = (timeline.clone(), seen.clone());
            thread::spawn(move || seen.note(format!("line {}", line_at(&timeline, 500, 1))))
        };
        timeline.note_first(&Past { from_ticks: 900, ..past(3) });
        reader.join().unwrap();
    });
}
