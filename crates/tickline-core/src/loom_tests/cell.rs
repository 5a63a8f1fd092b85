//! The parts without time: the portable cell, the lock, the ring of past lines.

use loom::cell::UnsafeCell;
use loom::thread;

use super::{check, envelope_of, made};
use crate::cell::{State, StateCell, portable::PortableCell};
use crate::line::{Line, Slope};
use crate::timeline::{CAPACITY, Past, Timeline, Unconverted};
use crate::try_lock::TryLock;
use crate::word::{Phase, Slot, Word};

/// Every field tells the number of the line.
fn line(number: u64) -> Line {
    Line {
        start_ticks: number << 20,
        base_ns: i64::try_from(number).unwrap() << 32,
        slope: Slope::from_bits(number << 40),
    }
}

fn publish(cell: &PortableCell, from: State, number: u64) -> State {
    let line = line(number);
    let word = Word::live(line.start_ticks, 20, from.word.slot().other(), false);
    assert!(cell.publish(from, word, &line, &envelope_of(&line)), "nobody else swaps");
    State { word, base_ns: line.base_ns }
}

fn accepted(state: State) -> String {
    format!("line {}", state.word.ticks() >> 20)
}

/// What a reader must have met in some execution.
const ACCEPTED: [&str; 4] = ["line 1", "line 2", "line 3", "refused"];

/// What a reader accepts after the second look belongs to one line, though the writer comes round to the slot it reads.
#[test]
fn a_reading_is_never_a_mixture() {
    check(None, &ACCEPTED, |seen| {
        let cell = made(PortableCell::new());
        let first = publish(&cell, State::default(), 1);
        let reader = {
            let (cell, seen) = (cell.clone(), seen.clone());
            thread::spawn(move || {
                let state = cell.load();
                let slope = cell.slope(state.word.slot());
                let unix_offset_ns = cell.unix_offset_ns(state.word.slot());
                if cell.word() == state.word {
                    let expected = line(state.word.ticks() >> 20);
                    assert_eq!((state.base_ns, slope), (expected.base_ns, expected.slope));
                    assert_eq!(unix_offset_ns, envelope_of(&expected).unix_offset_ns);
                    seen.note(accepted(state));
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
        let cell = made(PortableCell::new());
        let first = publish(&cell, State::default(), 1);
        let reader = {
            let (cell, seen) = (cell.clone(), seen.clone());
            thread::spawn(move || {
                let state = cell.load();
                let bounds = cell.envelope(state.word.slot());
                if cell.word() == state.word {
                    assert_eq!(bounds, envelope_of(&line(state.word.ticks() >> 20)));
                    seen.note(accepted(state));
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

/// A cold state's floor is made from the slot; it too belongs to one line.
#[test]
fn a_floor_is_never_a_mixture() {
    check(None, &["line 1", "line 2"], |seen| {
        let cell = made(PortableCell::new());
        let first = publish(&cell, State::default(), 1);
        let tick = |number| line(number).start_ticks + (1 << 19);
        let cold = first.word.closing().cold(tick(1));
        assert!(cell.retire(first, cold, 0));
        let reader = {
            let (cell, seen) = (cell.clone(), seen.clone());
            thread::spawn(move || {
                let state = cell.load();
                if cell.word() == state.word && state.word.phase() == Phase::Cold {
                    let number = state.word.ticks() >> 20;
                    assert_eq!(state.base_ns, line(number).at(tick(number)));
                    seen.note(accepted(state));
                }
            })
        };
        let second = publish(&cell, State { word: cold, base_ns: 0 }, 2);
        let cold = second.word.closing().cold(tick(2));
        assert!(cell.retire(second, cold, 0));
        let third = publish(&cell, State { word: cold, base_ns: 0 }, 3);
        assert_eq!(third.word.slot(), Slot::B, "the slot of the first line");
        reader.join().unwrap();
    });
}

/// Two threads that swap the same state: one of them succeeds.
#[test]
fn a_state_is_retired_once() {
    check(None, &["mine", "theirs"], |seen| {
        let cell = made(PortableCell::new());
        let live = publish(&cell, State::default(), 1);
        let other = {
            let cell = cell.clone();
            thread::spawn(move || cell.retire(live, live.word.gated(), 0))
        };
        let mine = cell.retire(live, live.word.closing(), 0);
        let theirs = other.join().unwrap();
        assert!(mine != theirs, "{mine} and {theirs}");
        seen.note(if mine { "mine" } else { "theirs" });
        assert_eq!(cell.word(), if mine { live.word.closing() } else { live.word.gated() });
    });
}

/// The lock: one holder at a time (loom's cell panics otherwise), who sees what the last one did.
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
    timeline.push(&Past { from_ticks: 1_000 * k, line: past_line(k), slot: slot(k), floor_ns: i64::MAX });
}

fn slot(k: u64) -> Slot {
    if k % 2 == 0 { Slot::A } else { Slot::B }
}

/// The line by which `ticks` are converted where the word has the slot of line `newest`; it looks again as its users do.
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

/// A tick is converted with one line, whole, while the ring comes round to its entry; and with the line of its time, if
/// that is still there.
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
                // Line 2 is of that time; once it is overwritten, line 3 is the oldest that is left.
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

/// A tick is converted with one line, whole, while another is taken back and a third takes its place; and never with the one
/// that was taken back, as long as the word has the slot of its predecessor.
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
