//! Tests of the cell by itself. The tests of `shared` cover the rules of order, the simulator the
//! bounds.

use super::*;

fn bounds(start_ticks: u64, seed: i64) -> Bounds {
    let line = |base_ns| Line {
        start_ticks,
        base_ns,
        slope: Slope { bits: 1 << 47 },
    };
    Bounds {
        lower: line(seed),
        upper: line(seed + 5),
        unix_offset_ns: seed * 3,
        unix_bound_ns: 9,
    }
}

/// A line that follows `from`.
fn line(from: LineState, start_ticks: u64, b: i64, slope: Slope) -> WindowedLine {
    let state = from.next_line(slope).unwrap().with_b(b);
    WindowedLine {
        state,
        start_ticks,
        window_ticks: 1 << 20,
    }
}

#[test]
fn a_new_cell_has_no_line() {
    assert_eq!(LineCell::new().load(), LineState::default());
}

/// A first line.
fn first_line() -> WindowedLine {
    let slope = Slope::from_hz(1_000_000_000).unwrap();
    line(LineState::default(), 1 << 20, -5_000, slope)
}

/// A cell with the first line, whose bounds are `bounds(1 << 20, 4)`.
fn cell_with_first_line() -> LineCell {
    let cell = LineCell::new();
    let next = NextLine {
        suspended_ns: Some(7),
        ..NextLine::new(first_line(), bounds(1 << 20, 4))
    };
    assert!(cell.publish(LineState::default(), &next));
    cell
}

#[test]
fn a_line_is_published_with_its_window() {
    assert_eq!(cell_with_first_line().snapshot(), first_line());
}

#[test]
fn a_line_is_published_with_its_bounds() {
    let cell = cell_with_first_line();
    let slot = cell.slot(first_line().state);
    assert_eq!(slot.bounds(), bounds(1 << 20, 4));
}

#[test]
fn a_line_is_published_with_the_offset_of_unix_time() {
    let cell = cell_with_first_line();
    let slot = cell.slot(first_line().state);
    assert_eq!(slot.unix_b(), -5_000 + 12);
}

#[test]
fn a_line_is_published_with_its_evidence() {
    let cell = cell_with_first_line();
    let slot = cell.slot(first_line().state);
    let proven = Point {
        ticks: 1 << 20,
        ns: 4,
    };
    let evidence = Evidence {
        proven,
        suspended_ns: Some(7),
    };
    assert_eq!(slot.evidence(), evidence);
}

#[test]
fn an_old_state_is_not_swapped() {
    let cell = cell_with_first_line();
    let old = LineState::default();
    assert!(!cell.try_swap(old, old.barred()));
    assert_eq!(cell.snapshot(), first_line());
}

#[test]
fn a_line_that_follows_an_old_state_is_not_published() {
    let cell = cell_with_first_line();
    let old = LineState::default();
    // It would have the slot of the present line.
    let again = NextLine::new(first_line(), bounds(1 << 20, 4));
    assert!(!cell.publish(old, &again));
    assert_eq!(cell.snapshot(), first_line());
}

#[test]
fn only_the_present_state_is_still_there() {
    let cell = cell_with_first_line();
    assert!(cell.is_still(first_line().state));
    assert!(!cell.is_still(LineState::default()));
}

/// Every part of a line is derived from the line's number, so the test recognises a mixture of two.
#[test]
fn concurrent_readers_never_see_a_mixture() {
    let cell = &LineCell::new();
    let lines: u64 = if cfg!(miri) { 50 } else { 100_000 };
    let read = || {
        let mut last = 0;
        while last < lines {
            let state = cell.load();
            let number = state.slope().bits.saturating_sub(1 << 47) >> 8;
            let slot = cell.slot(state);
            let start_ticks = slot.start_ticks();
            let loaded = slot.bounds();
            if !state.is_published() || !cell.is_still(state) {
                continue;
            }
            assert!(number >= last, "lines came out of order");
            assert_eq!(
                (start_ticks, state.b),
                (number << 20, number.cast_signed() << 32)
            );
            assert_eq!(loaded, bounds(number << 20, number.cast_signed()));
            last = number;
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(read);
        }
        for number in 1..=lines {
            let from = cell.load();
            let slope = Slope {
                bits: (1 << 47) + (number << 8),
            };
            let next = line(from, number << 20, number.cast_signed() << 32, slope);
            let bounds = bounds(number << 20, number.cast_signed());
            assert!(cell.publish(from, &NextLine::new(next, bounds)));
            if cfg!(miri) {
                std::thread::yield_now();
            }
        }
    });
}

#[test]
fn a_line_is_valid_for_twice_its_window_from_its_start() {
    let slope = Slope::from_hz(1_000_000_000).unwrap();
    let line = line(LineState::default(), 1 << 30, 0, slope);
    let end_ticks = (1 << 30) + (2 << 20);
    for (ticks, is_valid) in [
        (0, false),
        ((1 << 30) - 1, false),
        (1 << 30, true),
        (end_ticks - 1, true),
        (end_ticks, false),
    ] {
        assert_eq!(line.is_valid_at(ticks), is_valid, "{ticks}");
    }
    assert_eq!(line.validity_end_ticks(), end_ticks);
}

/// Bounds are planned at the newest sample, and a slot has them at the start of its line, wherever
/// that is. Before the sample they widen towards the past.
#[test]
fn bounds_count_from_the_start_of_the_line() {
    let slow = Slope { bits: 1 << 47 };
    let fast = Slope {
        bits: (1 << 47) + (1 << 44),
    };
    let start_ticks = 1_u64 << 30;
    for sample_ticks in [start_ticks, start_ticks + 5_001, start_ticks - 5_001] {
        let bound = |base_ns, slope| Line {
            start_ticks: sample_ticks,
            base_ns,
            slope,
        };
        let lower = bound(1_000, slow);
        let upper = bound(1_010, fast);
        let planned = Bounds {
            lower,
            upper,
            unix_offset_ns: 5,
            unix_bound_ns: 3,
        };
        let cell = LineCell::new();
        let in_use = line(LineState::default(), start_ticks, 990, slow);
        assert!(cell.publish(LineState::default(), &NextLine::new(in_use, planned)));
        let read = cell.slot(in_use.state).bounds();
        for ticks in (start_ticks..start_ticks + 20_000).step_by(if cfg!(miri) { 707 } else { 7 }) {
            let (low, high) = if ticks < sample_ticks {
                let low = Line {
                    slope: fast,
                    ..lower
                };
                let high = Line {
                    slope: slow,
                    ..upper
                };
                (low, high)
            } else {
                (lower, upper)
            };
            let low_ns = low.fixed_at(ticks).floor_ns();
            let high_ns = high.fixed_at(ticks).floor_ns();
            let lower_ns = read.lower.ns_at(ticks);
            let upper_ns = read.upper.ns_at(ticks);
            assert!(
                lower_ns <= low_ns && high_ns <= upper_ns,
                "{lower_ns}..{upper_ns} at {ticks}"
            );
            let is_narrow = low_ns - lower_ns <= 1 && upper_ns - high_ns <= 1;
            assert!(is_narrow || sample_ticks > start_ticks, "{ticks}");
        }
    }
}
