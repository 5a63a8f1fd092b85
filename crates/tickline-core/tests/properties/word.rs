//! What holds for the state word.

use tickline_core::unstable::word::{Phase, START_GRANULARITY_TICKS, Word};

use super::wide::{signed_ticks, wide};

fn start_granularity_of(ticks: u64) -> u64 {
    ticks / START_GRANULARITY_TICKS * START_GRANULARITY_TICKS
}

/// A live word is a tick shortly before its publication, and its successors keep what they should.
pub(crate) fn check_life(before: Word, at_ticks: u64, margin_ticks: u64, high_water_ticks: u64) {
    let Some(live) = before.next_published(at_ticks, margin_ticks) else { return };
    let slot = before.slot().other();
    assert_eq!(
        (live.phase(), live.slot(), live.is_gate_closed()),
        (Phase::Published, slot, false),
        "{live:?}"
    );
    assert!(at_ticks.wrapping_sub(live.to_bits()) < 2 * START_GRANULARITY_TICKS, "{live:?} for {at_ticks}");

    let closing = live.replacing();
    assert_eq!((closing.phase(), closing.is_gate_closed()), (Phase::Replacing, false), "{closing:?}");
    let gated = live.with_gate_closed();
    assert_eq!((gated.phase(), gated.is_gate_closed()), (Phase::Replacing, true), "{gated:?}");
    assert_eq!(closing.with_gate_closed(), gated, "whatever comes first");
    for word in [live, closing, gated] {
        assert_eq!((word.start_ticks(), word.slot()), (live.start_ticks(), slot), "{word:?}");
        assert_eq!(Word::from_bits(word.to_bits()), word);
        assert_eq!(word.is_published(), word == live, "{word:?}");

        let cold = word.without_line(high_water_ticks);
        assert_eq!((cold.phase(), cold.is_published()), (Phase::NoLine, false), "{cold:?}");
        assert_eq!((cold.slot(), cold.is_gate_closed()), (slot, word.is_gate_closed()), "{cold:?}");
        let up = cold.start_ticks().wrapping_sub(high_water_ticks);
        assert!(
            up < START_GRANULARITY_TICKS && cold.start_ticks() % START_GRANULARITY_TICKS == 0,
            "{cold:?} for {high_water_ticks}"
        );
        assert_eq!(
            (cold.first_publication().phase(), cold.first_publication().given_up()),
            (Phase::FirstPublication, cold),
            "{cold:?}"
        );
    }
}

/// Rule 10: however often a gate is closed and opened, no state comes again within eight times, and the high-water mark stays.
pub(crate) fn check_gates(cold: Word, changes: usize) {
    let mut seen = vec![cold];
    let mut word = cold;
    for _ in 0..changes {
        let gated = word.with_gate_closed();
        assert_eq!((gated.phase(), gated.is_gate_closed(), gated.slot()), (Phase::NoLine, true, cold.slot()));
        word = gated.with_gate_open();
        assert_eq!((word.phase(), word.is_gate_closed(), word.slot()), (Phase::NoLine, false, cold.slot()));
        for next in [gated, word] {
            assert_eq!(next.start_ticks(), cold.start_ticks(), "{next:?}");
            assert!(!seen.iter().rev().take(15).any(|seen| *seen == next), "{next:?} came twice");
            seen.push(next);
        }
    }
}

/// A word for a new line comes after this one, or after a reset, and is not this one.
pub(crate) fn check_order(word: Word, at_ticks: u64, margin_ticks: u64) {
    let next = word.next_published(at_ticks, margin_ticks);
    let ahead = signed_ticks(
        word.start_ticks(),
        start_granularity_of(at_ticks.wrapping_sub(START_GRANULARITY_TICKS - 1)),
    );
    let expected = ahead > wide(0) || ahead < -wide(margin_ticks);
    assert_eq!(next.is_some(), expected, "{word:?}, {at_ticks}, {margin_ticks}");
    assert!(next.is_none_or(|next| next != word), "{word:?} came twice");
}
