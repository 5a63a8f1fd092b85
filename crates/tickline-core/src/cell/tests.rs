//! The cell by itself; the tests of `shared` cover the rules of order.

use super::*;

fn bounds(word: Word, seed: i64) -> Bounds {
    let line = |base_ns| Line { start_ticks: word.to_bits(), base_ns, slope: Slope::from_bits(1 << 47) };
    Bounds {
        lower: line(seed),
        upper: line(seed + 5),
        unix_offset_ns: seed * 3,
        unix_bound_ns: 9,
        ..Bounds::default()
    }
}

fn published(word: Word, base_ns: i64, slope: Slope) -> Published {
    Published { line: Line { start_ticks: word.to_bits(), base_ns, slope }, window_ticks: 1 << 20 }
}

#[test]
fn a_line_is_published_and_retired() {
    let cell = Latch::new();
    let zero = cell.load();
    assert_eq!(
        (zero, zero.high_water_ns()),
        (State::default(), 0),
        "a new cell has no line, and the high-water mark 0"
    );

    let in_use = zero.word.next_published(1 << 20, 0).unwrap();
    let first = published(in_use, -5_000, Slope::from_hz(1_000_000_000).unwrap());
    assert!(cell.publish(zero.word, in_use, &first, &bounds(in_use, 4)));
    let state = State { word: in_use, line: first.line, window_ticks: 1 << 20 };
    assert_eq!((cell.load(), cell.published(in_use)), (state, first));
    assert!(cell.is_still(in_use) && !cell.is_still(zero.word));
    assert_eq!(
        (cell.bounds(in_use), cell.published_unix(in_use).line.base_ns),
        (bounds(in_use, 4), -5_000 + 12)
    );

    // A swap that expects an old word must not happen (rule 10).
    assert!(!cell.swap(zero.word, zero.word.with_gate_closed()));
    assert!(!cell.publish(zero.word, in_use, &first, &bounds(in_use, 4)));
    assert_eq!(cell.load(), state);

    assert!(cell.swap(in_use, in_use.replacing()));
    assert_eq!(cell.load(), State { word: in_use.replacing(), ..state }, "a replacement keeps the old line");

    for (ticks, most_ns) in [(state.end_ticks() - 1_000, 256), (state.end_ticks(), 0)] {
        let by_reference = State { word: in_use.without_line(ticks), ..state };
        let later_ns = by_reference.high_water_ns() - first.line.at(ticks);
        assert!((0..=most_ns).contains(&later_ns), "{later_ns} ns later than {ticks}");
    }
    assert!(cell.swap(in_use.replacing(), in_use.without_line(state.end_ticks())));
    let by_reference = cell.load();
    let high_water_ns = first.line.at(state.end_ticks());
    assert_eq!((by_reference.word.phase(), by_reference.high_water_ns()), (Phase::NoLine, high_water_ns));
    assert!(cell.swap(by_reference.word, by_reference.word.with_gate_closed()));
    assert_eq!(cell.load().high_water_ns(), high_water_ns, "a gate keeps the high-water mark");

    // A writer whose word had no line before the gate closed comes too late (rule 8).
    let late = by_reference.word.next_published(1 << 30, 0).unwrap();
    assert!(!cell.publish(by_reference.word, late, &published(late, 7, first.line.slope), &bounds(late, 4)));
    assert_eq!(cell.word(), by_reference.word.with_gate_closed());
    assert_eq!(cell.load().high_water_ns(), high_water_ns, "what it wrote is in the other slot");
}

#[test]
fn a_line_is_valid_for_twice_its_window_from_its_start() {
    let state = State {
        line: Line { start_ticks: 1 << 30, ..Line::default() },
        window_ticks: 1 << 20,
        ..State::default()
    };
    for (ticks, valid) in [
        (0, false),
        ((1 << 30) - 1, false),
        (1 << 30, true),
        ((1 << 30) + (2 << 20) - 1, true),
        ((1 << 30) + (2 << 20), false),
    ] {
        assert_eq!(state.is_valid_at(ticks), valid, "{ticks}");
    }
    assert_eq!(state.end_ticks(), (1 << 30) + (2 << 20));
}

#[test]
fn concurrent_readers_never_see_a_mixture() {
    // Every line has slope and base derived from its number, so a mixture of two is recognised.
    let cell = &Latch::new();
    let iterations: u64 = if cfg!(miri) { 50 } else { 100_000 };
    let number = |word: Word| (word.start_ticks() + 2 * crate::word::START_GRANULARITY_TICKS) >> 20;
    let line =
        |number: u64, word| published(word, i64::try_from(number).unwrap() << 32, Slope::from_bits(number));
    let checked = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(move || {
                    let (mut checked, mut last) = (0_u64, 0);
                    while last < iterations {
                        let word = cell.word();
                        let number = number(word);
                        if number == 0 {
                            continue;
                        }
                        let seen = cell.published(word);
                        let loaded = cell.bounds(word);
                        if !cell.is_still(word) {
                            continue;
                        }
                        assert!(number >= last, "lines came out of order");
                        assert_eq!(seen, line(number, word));
                        assert_eq!(loaded, bounds(word, i64::try_from(number).unwrap()));
                        (checked, last) = (checked + 1, number);
                    }
                    checked
                })
            })
            .collect();
        for number in 1..=iterations {
            let from = cell.word();
            let to = from.next_published(number << 20, 0).unwrap();
            assert!(cell.publish(from, to, &line(number, to), &bounds(to, i64::try_from(number).unwrap())));
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
    for sample_ticks in [1_u64 << 30, (1 << 30) + 5_001, (1 << 30) - 5_001] {
        let line = |base_ns, slope| Line { start_ticks: sample_ticks, base_ns, slope };
        let (lower, upper) = (line(1_000, slow), line(1_010, fast));
        let cell = Latch::new();
        let in_use = Word::default().next_published(1 << 30, 0).unwrap();
        let bounds = Bounds { lower, upper, unix_offset_ns: 5, unix_bound_ns: 3, ..Bounds::default() };
        assert!(cell.publish(Word::default(), in_use, &published(in_use, 990, slow), &bounds));
        let read = cell.bounds(in_use);
        assert_eq!((read.unix_offset_ns, read.unix_bound_ns), (5, 3));
        let step = if cfg!(miri) { 707 } else { 7 };
        for ticks in (in_use.to_bits()..in_use.to_bits() + 20_000).step_by(step) {
            // The value is between the two bounds; before the sample, between the bounds carried
            // backwards.
            let (low, high) = if ticks < sample_ticks {
                (Line { slope: fast, ..lower }, Line { slope: slow, ..upper })
            } else {
                (lower, upper)
            };
            let (low_ns, high_ns) = (low.at_any(ticks), high.at_any(ticks));
            let (lower_ns, upper_ns) = (read.lower.at(ticks), read.upper.at(ticks));
            assert!(lower_ns <= low_ns && high_ns <= upper_ns, "{lower_ns}..{upper_ns} at {ticks}");
            let after = ticks >= sample_ticks && sample_ticks <= in_use.to_bits();
            assert!(!after || low_ns - lower_ns <= 1 && upper_ns - high_ns <= 1, "{ticks}");
        }
    }
}
