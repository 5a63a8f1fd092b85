//! The cell by itself; the tests of `shared` cover the rules of order.

use super::*;
use crate::state::Serves;

const SHIFT: u32 = <LineCell as StateCell>::SHIFT;

fn bounds(start_ticks: u64, seed: i64) -> Bounds {
    let line = |base_ns| Line { start_ticks, base_ns, slope: Slope::from_bits(1 << 47) };
    Bounds {
        lower: line(seed),
        upper: line(seed + 5),
        unix_offset_ns: seed * 3,
        unix_bound_ns: 9,
        ..Bounds::default()
    }
}

/// A line that follows `from`.
fn line(from: State, start_ticks: u64, b: i64, slope: Slope) -> CellLine {
    let state = from.next_line(slope, SHIFT, Serves::Both).unwrap().with_b(b);
    CellLine { state, start_ticks, window_ticks: 1 << 20, shift: SHIFT }
}

#[test]
fn a_line_is_published_with_its_slot_and_nothing_is_swapped_for_an_old_state() {
    let cell = LineCell::new();
    let zero = cell.load();
    assert_eq!(zero, State::default(), "a new cell has no line, and the high-water mark 0");
    let first = line(zero, 1 << 20, -5_000, Slope::from_hz(1_000_000_000).unwrap());
    assert!(cell.publish(zero, &first, &bounds(1 << 20, 4), Some(7)));
    let slot = cell.slot(first.state);
    assert_eq!((slot.bounds(-5_000), slot.unix_b()), (bounds(1 << 20, 4), -5_000 + 12));
    let proven = Point { ticks: 1 << 20, ns: 4 };
    assert_eq!(slot.evidence(), Evidence { proven, suspended_ns: Some(7) });
    assert!(!cell.swap(zero, zero.with_gate_closed()));
    assert!(!cell.publish(zero, &first, &bounds(1 << 20, 4), None));
    assert_eq!(cell.snapshot(), first);
    assert!(cell.is_still(first.state) && !cell.is_still(zero));
}

#[test]
fn concurrent_readers_never_see_a_mixture() {
    // All that belongs to a line is derived from its number, so a mixture of two is recognised.
    let cell = &LineCell::new();
    let iterations: u64 = if cfg!(miri) { 50 } else { 100_000 };
    let slope = |number: u64| Slope::from_bits((1 << 47) + (number << 8));
    let number_of = |state: State| state.slope(SHIFT).to_bits().saturating_sub(1 << 47) >> 8;
    let checked = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(move || {
                    let (mut checked, mut last) = (0_u64, 0);
                    while last < iterations {
                        let state = cell.load();
                        let number = number_of(state);
                        if !state.is_published() {
                            continue;
                        }
                        let slot = cell.slot(state);
                        let (start_ticks, loaded) = (slot.start_ticks(), slot.bounds(state.b));
                        if !cell.is_still(state) {
                            continue;
                        }
                        assert!(number >= last, "lines came out of order");
                        assert_eq!((start_ticks, state.b), (number << 20, number.cast_signed() << 32));
                        assert_eq!(loaded, bounds(number << 20, number.cast_signed()));
                        (checked, last) = (checked + 1, number);
                    }
                    checked
                })
            })
            .collect();
        for number in 1..=iterations {
            let from = cell.load();
            let next = line(from, number << 20, number.cast_signed() << 32, slope(number));
            assert!(cell.publish(from, &next, &bounds(number << 20, number.cast_signed()), None));
            if cfg!(miri) {
                std::thread::yield_now();
            }
        }
        readers.into_iter().map(|reader| reader.join().unwrap()).sum::<u64>()
    });
    assert!(checked >= 2, "each reader has seen the last line at least");
}

/// Bounds are published as of the newest sample, and read as of the start of the line, wherever
/// that is.
#[test]
fn bounds_count_from_the_start_of_the_line() {
    let (slow, fast) = (Slope::from_bits(1 << 47), Slope::from_bits((1 << 47) + (1 << 44)));
    let start_ticks = 1_u64 << 30;
    for sample_ticks in [start_ticks, start_ticks + 5_001, start_ticks - 5_001] {
        let bound = |base_ns, slope| Line { start_ticks: sample_ticks, base_ns, slope };
        let (lower, upper) = (bound(1_000, slow), bound(1_010, fast));
        let cell = LineCell::new();
        let bounds = Bounds { lower, upper, unix_offset_ns: 5, unix_bound_ns: 3, ..Bounds::default() };
        let in_use = line(State::default(), start_ticks, 990, slow);
        assert!(cell.publish(State::default(), &in_use, &bounds, None));
        let read = cell.slot(in_use.state).bounds(990);
        assert_eq!((read.unix_offset_ns, read.unix_bound_ns), (5, 3));
        let step = if cfg!(miri) { 707 } else { 7 };
        for ticks in (start_ticks..start_ticks + 20_000).step_by(step) {
            // The value is between the two bounds; before the sample, between the bounds carried
            // backwards.
            let (low, high) = if ticks < sample_ticks {
                (Line { slope: fast, ..lower }, Line { slope: slow, ..upper })
            } else {
                (lower, upper)
            };
            let (low_ns, high_ns) = (low.fixed_at(ticks).floor_ns(), high.fixed_at(ticks).floor_ns());
            let (lower_ns, upper_ns) = (read.lower.at(ticks), read.upper.at(ticks));
            assert!(lower_ns <= low_ns && high_ns <= upper_ns, "{lower_ns}..{upper_ns} at {ticks}");
            let after = ticks >= sample_ticks && sample_ticks <= start_ticks;
            assert!(!after || low_ns - lower_ns <= 1 && upper_ns - high_ns <= 1, "{ticks}");
        }
    }
}
