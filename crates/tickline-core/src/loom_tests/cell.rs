//! Models of the cell and the lock, without time.

use core::num::NonZeroU32;

use loom::cell::UnsafeCell;

use super::{Clock, check, new_shared, spawn};
use crate::cell::{Bounds, Evidence, LineCell, NextLine, StateCell, Window, WindowedLine};
use crate::line::{Line, Slope};
use crate::sample::Point;
use crate::shared::SharedClock;
use crate::state::{LineState, Phase};
use crate::testing::FnClock;
use crate::try_lock::{LockToken, TryLock};

/// Line `number`, which follows `from`. Each field contains the number.
pub(super) fn line(from: LineState, number: i64) -> WindowedLine {
    let start_ticks = u64::try_from(number).unwrap() << 20;
    let slope = Slope {
        bits: start_ticks << 20,
    };
    let state = from.next_line(slope).unwrap().with_b(number << 32);
    WindowedLine {
        state,
        start_ticks,
        window_ticks: start_ticks + 1,
    }
}

/// The number of a line, from its state or from the state that has its high-water mark.
fn number_of(state: LineState) -> i64 {
    state.b >> 32
}

/// Bounds that identify the line with which they were published.
fn bounds_of(line: &WindowedLine) -> Bounds {
    let lower = Line {
        start_ticks: line.start_ticks,
        base_ns: line.state.b,
        slope: line.slope(),
    };
    Bounds {
        lower,
        upper: Line {
            base_ns: line.state.b + 1,
            ..lower
        },
        unix_offset_ns: line.state.b + 2,
        unix_bound_ns: line.start_ticks + 3,
    }
}

fn next_line(line: WindowedLine) -> NextLine {
    NextLine::new(line, bounds_of(&line))
}

fn publish(cell: &LineCell, from: LineState, number: i64) -> LineState {
    let line = line(from, number);
    let next = NextLine {
        suspended_ns: Some(number),
        ..next_line(line)
    };
    assert!(cell.publish(from, &next), "no other thread swaps");
    line.state
}

fn accepted(state: LineState) -> String {
    format!("line {}", number_of(state))
}

/// The results of which a reader must have each in some execution.
const ACCEPTED: [&str; 4] = ["line 1", "line 2", "line 3", "refused"];

/// A reader that accepts values after its second load has the values of one line. This holds even
/// if the writer replaces that line twice, and so refills the slot that the reader reads.
#[test]
fn a_reading_is_never_a_mixture() {
    check(Some(3), &ACCEPTED, |seen| {
        let cell = new_shared(LineCell::new());
        let first = publish(&cell, LineState::default(), 1);
        let reader = spawn(&cell, move |cell| {
            let state = cell.load();
            let slot = cell.slot(state);
            let window = slot.window();
            let bounds = slot.bounds();
            let evidence = slot.evidence();
            if !cell.is_still(state) {
                return seen.saw("refused");
            }
            let number = number_of(state);
            let expected = line(LineState::default(), number);
            let WindowedLine {
                start_ticks,
                window_ticks,
                ..
            } = expected;
            assert_eq!(
                window,
                Window {
                    start_ticks,
                    length_ticks: window_ticks
                },
                "{state:?}"
            );
            assert_eq!(bounds, bounds_of(&WindowedLine { state, ..expected }));
            let proven = Point {
                ticks: bounds.lower.start_ticks,
                ns: bounds.lower.base_ns,
            };
            assert_eq!(
                evidence,
                Evidence {
                    proven,
                    suspended_ns: Some(number)
                }
            );
            seen.saw(accepted(state));
        });
        let second = publish(&cell, first, 2);
        publish(&cell, second, 3);
        reader.join().unwrap();
    });
}

/// The tick of every reading. The counter stands still.
const NOW_TICKS: u64 = 100;

/// A reader of a clock whose line is replaced twice meanwhile, so that its slot is refilled. `read`
/// is a real reading, whose result must be the one that `expected` computes from one of the lines.
/// `window` has start and window of each line, ticks.
fn a_reader_of_a_clock<T: PartialEq + core::fmt::Debug + 'static>(
    wanted: &[&str],
    window: fn(i64) -> (u64, u64),
    read: fn(&Clock, &FnClock<fn() -> u64>) -> Option<T>,
    expected: fn(&WindowedLine) -> T,
) {
    check(Some(3), wanted, move |seen| {
        let clock = new_shared(SharedClock::new(LineCell::new()));
        let after = |from, number| {
            let (start_ticks, window_ticks) = window(number);
            WindowedLine {
                start_ticks,
                window_ticks,
                ..line(from, number)
            }
        };
        let first = after(LineState::default(), 1);
        let second = after(first.state, 2);
        let lines = [first, second, after(second.state, 3)];
        let publish = |from, line| {
            assert!(clock.cell().publish(from, &next_line(line)));
        };
        publish(LineState::default(), lines[0]);
        let reader = spawn(&clock, move |clock| {
            let Some(reading) = read(clock, &FnClock(|| NOW_TICKS)) else {
                return seen.saw("refused");
            };
            let line = lines.iter().find(|line| expected(line) == reading);
            seen.saw(accepted(
                line.unwrap_or_else(|| panic!("of no line: {reading:?}"))
                    .state,
            ));
        });
        publish(lines[0].state, lines[1]);
        publish(lines[1].state, lines[2]);
        reader.join().unwrap();
    });
}

/// All lines may be used now.
const fn wide(number: i64) -> (u64, u64) {
    (10 * number.cast_unsigned(), 1_000)
}

/// Only the second and the third line may be used now. The third has the slot of the first.
const fn late(number: i64) -> (u64, u64) {
    if number == 1 { (10, 20) } else { (50, 100) }
}

/// The bounds of a real reading are those of its line.
#[test]
fn bounds_of_a_reading_are_never_a_mixture() {
    a_reader_of_a_clock(
        &ACCEPTED,
        wide,
        |clock, counter| {
            clock
                .readings()
                .read_ordered_bounded(counter)
                .map(|reading| (reading.ns, reading.bounds))
        },
        |line| (line.ns_at(NOW_TICKS), bounds_of(line)),
    );
}

/// A real reading in Unix time has the `b` of its line.
#[test]
fn unix_time_of_a_reading_is_never_a_mixture() {
    a_reader_of_a_clock(
        &ACCEPTED,
        wide,
        |clock, counter| clock.readings().read_unix_ns(counter),
        |line| line.ns_at(NOW_TICKS) + bounds_of(line).unix_offset_ns,
    );
}

/// No real reading, plain or ordered, uses a line outside of its window, although the next line in
/// the slot has another window.
#[test]
fn a_window_of_a_reading_is_never_a_mixture() {
    type Read = fn(&Clock, &FnClock<fn() -> u64>) -> Option<i64>;
    let reads: [Read; 2] = [
        |clock, counter| clock.readings().read_ns(counter),
        |clock, counter| clock.readings().read_ordered_ns(counter),
    ];
    for read in reads {
        a_reader_of_a_clock(&["line 2", "line 3", "refused"], late, read, |line| {
            let is_inside = NOW_TICKS - line.start_ticks < line.window_ticks;
            if is_inside {
                line.ns_at(NOW_TICKS)
            } else {
                i64::MIN
            }
        });
    }
}

/// A thread that retires a line computes its high-water mark from the slot. The swap takes the
/// place of a second load. If the swap of the expected state succeeds, the values from the slot
/// belong to that state's line.
#[test]
fn a_high_water_mark_is_never_a_mixture() {
    check(None, &["line 1", "line 2", "lost"], |seen| {
        let cell = new_shared(LineCell::new());
        let first = publish(&cell, LineState::default(), 1);
        assert!(cell.try_swap(first, first.replacing()));
        let helper = spawn(&cell, move |cell| {
            let found = cell.snapshot();
            if found.state.phase() != Phase::Replacing {
                return seen.saw("published");
            }
            let mark_ns = found.ns_at(found.validity_end_ticks());
            if cell.try_swap(found.state, found.state.without_line(mark_ns)) {
                let published = line(LineState::default(), number_of(found.state));
                let expected = WindowedLine {
                    state: found.state,
                    ..published
                };
                assert_eq!(mark_ns, expected.ns_at(expected.validity_end_ticks()));
                seen.saw(accepted(found.state));
            } else {
                seen.saw("lost");
            }
        });
        // The writer goes on until another thread retires a line, and so refills the first slot.
        let mut replacing = first.replacing();
        let mut lines = 1;
        while lines < 3 {
            lines += 1;
            let next = line(replacing, lines);
            if !cell.publish(replacing, &next_line(next)) {
                break;
            }
            replacing = next.state.replacing();
            assert!(
                cell.try_swap(next.state, replacing),
                "no other thread ends a published line"
            );
        }
        helper.join().unwrap();
    });
}

/// The lock has one holder at a time (loom's cell panics otherwise), which sees the last holder's
/// changes.
#[test]
fn a_lock_excludes_and_hands_over() {
    check(None, &["1 got it", "2 got it", "3 got it"], |seen| {
        let lock = new_shared(TryLock::new(UnsafeCell::new(0_u32)));
        // SAFETY: one process, one number.
        let token = unsafe { LockToken::new(NonZeroU32::MIN) };
        let add = move |lock: &TryLock<UnsafeCell<u32>>| {
            let Some(guard) = lock.try_lock(token, |_| panic!("left behind")) else {
                return 0;
            };
            // SAFETY: the guard holds the lock; loom checks that no other thread has access.
            guard.with_mut(|content| unsafe { *content += 1 });
            1
        };
        let other = spawn(&lock, move |lock| add(lock) + add(lock));
        let mine = add(&lock);
        let sum = mine + other.join().unwrap();
        seen.saw(format!("{sum} got it"));
        let guard = lock.try_lock(token, |_| ()).expect("free");
        // SAFETY: the guard holds the lock.
        assert_eq!(guard.with(|content| unsafe { *content }), sum);
    });
}
