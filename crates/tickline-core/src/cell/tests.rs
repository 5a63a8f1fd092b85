//! What every cell must do, run against the native and the portable one.

use super::{Envelope, NativeCell, State, StateCell, portable::PortableCell};
use crate::line::{Line, Slope};
use crate::word::{Phase, Slot, Word};

fn envelope(seed: i64) -> Envelope {
    let line = |base_ns| Line { start_ticks: 77, base_ns, slope: Slope::from_bits(1 << 47) };
    Envelope { lower: line(seed), upper: line(seed + 5), unix_offset_ns: seed * 3, unix_slack_ns: 9 }
}

fn publishes_and_retires(cell: &impl StateCell) {
    let zero = cell.load_whole();
    assert_eq!(zero, State::default(), "a new cell is cold with floor 0");

    let line = Line { start_ticks: 1 << 20, base_ns: -5_000, slope: Slope::from_hz(1_000_000_000).unwrap() };
    let live = Word::live(line.start_ticks, 20, Slot::B, false);
    assert!(cell.publish(zero, live, &line, &envelope(4)));
    let state = State { word: live, base_ns: -5_000 };
    assert_eq!(cell.load(), state);
    assert_eq!(cell.load_whole(), state);
    assert_eq!((cell.word(), cell.slope(Slot::B)), (live, line.slope));
    assert_eq!((cell.envelope(Slot::B), cell.unix_offset_ns(Slot::B)), (envelope(4), 12));

    // A swap that expects a state that is gone must not happen (rule 10).
    assert!(!cell.retire(zero, zero.word.gated(), 0));
    assert!(!cell.publish(zero, live, &line, &envelope(4)));
    assert_eq!(cell.load_whole(), state);

    assert!(cell.retire(state, live.closing(), 123));
    let closing = cell.load_whole();
    assert_eq!(
        (closing.word.phase(), closing.base_ns),
        (Phase::Closing, -5_000),
        "closing keeps the old base"
    );

    let end = line.start_ticks + (1 << 20);
    assert!(cell.retire(closing, closing.word.cold(end), line.at(end)));
    let cold = cell.load_whole();
    assert_eq!((cold.word.phase(), cold.base_ns), (Phase::Cold, line.at(end)), "cold carries the floor");
    assert!(cell.retire(cold, cold.word.gated(), cold.base_ns));
    assert_eq!(cell.load_whole().base_ns, line.at(end), "a gate keeps the floor");

    // A writer whose state was cold before the gate closed comes too late (rule 8).
    let late = Line { start_ticks: 1 << 22, ..line };
    assert!(!cell.publish(cold, Word::live(1 << 22, 20, Slot::A, false), &late, &envelope(4)));
    assert_eq!(cell.load_whole().word, cold.word.gated());
}

fn concurrent_readers_never_see_a_torn_state(cell: &(impl StateCell + Sync)) {
    // Every line has slope and base derived from its start, so a mixture of two states is recognised.
    let rounds: u64 = if cfg!(miri) { 50 } else { 100_000 };
    let line = |round: u64| Line {
        start_ticks: round << 20,
        base_ns: i64::try_from(round).unwrap() << 32,
        slope: Slope::from_bits(round),
    };
    let checked = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let (mut checked, mut last) = (0_u64, 0);
                    while last < rounds {
                        let state = cell.load();
                        let round = state.word.ticks() >> 20;
                        if round == 0 {
                            continue;
                        }
                        let slope = cell.slope(state.word.slot());
                        let bounds = cell.envelope(state.word.slot());
                        if cell.word() != state.word {
                            continue;
                        }
                        assert!(round >= last, "states came out of order");
                        let expected = line(round);
                        assert_eq!((state.base_ns, slope), (expected.base_ns, expected.slope));
                        assert_eq!(bounds, envelope(i64::try_from(round).unwrap()));
                        (checked, last) = (checked + 1, round);
                    }
                    checked
                })
            })
            .collect();
        for round in 1..=rounds {
            let from = cell.load_whole();
            let to = Word::live(round << 20, 20, from.word.slot().other(), false);
            assert!(cell.publish(from, to, &line(round), &envelope(i64::try_from(round).unwrap())));
            if cfg!(miri) {
                std::thread::yield_now();
            }
        }
        readers.into_iter().map(|reader| reader.join().unwrap()).sum::<u64>()
    });
    assert!(checked >= 2, "each reader has seen the last state at least");
}

#[test]
fn the_native_cell_publishes_and_retires() {
    publishes_and_retires(&NativeCell::new());
}

#[test]
fn the_portable_cell_publishes_and_retires() {
    publishes_and_retires(&PortableCell::new());
}

#[test]
fn a_guarded_native_cell_publishes_and_retires() {
    let cell = NativeCell::new();
    cell.restrict(super::Support::Guarded);
    publishes_and_retires(&cell);
}

#[test]
fn readers_of_the_portable_cell_never_see_a_torn_state() {
    concurrent_readers_never_see_a_torn_state(&PortableCell::new());
}

#[test]
fn readers_of_the_native_cell_never_see_a_torn_state() {
    if NativeCell::support() != super::Support::Full {
        crate::testing::skip("this processor has no atomic 16-byte loads, or does not say so");
        return;
    }
    concurrent_readers_never_see_a_torn_state(&NativeCell::new());
}
