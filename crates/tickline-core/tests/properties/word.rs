//! What holds for the state word.

use tickline_core::unstable::word::{Phase, START_GRANULARITY_TICKS, Word};

use super::wide::{signed_ticks, wide};

fn start_granularity_of(ticks: u64) -> u64 {
    ticks / START_GRANULARITY_TICKS * START_GRANULARITY_TICKS
}

/// A published word is a tick shortly before its publication, and its successors keep the right
/// parts of it.
pub(crate) fn check_life(before: Word, at_ticks: u64, margin_ticks: u64, high_water_ticks: u64) {
    let Some(in_use) = before.next_published(at_ticks, margin_ticks) else { return };
    let slot = before.slot().other();
    assert_eq!(
        (in_use.phase(), in_use.slot(), in_use.is_gate_closed()),
        (Phase::Published, slot, false),
        "{in_use:?}"
    );
    assert!(
        at_ticks.wrapping_sub(in_use.to_bits()) < 2 * START_GRANULARITY_TICKS,
        "{in_use:?} for {at_ticks}"
    );

    let replacing = in_use.replacing();
    assert_eq!((replacing.phase(), replacing.is_gate_closed()), (Phase::Replacing, false), "{replacing:?}");
    let gated = in_use.with_gate_closed();
    assert_eq!((gated.phase(), gated.is_gate_closed()), (Phase::Replacing, true), "{gated:?}");
    assert_eq!(replacing.with_gate_closed(), gated, "whatever comes first");
    for word in [in_use, replacing, gated] {
        assert_eq!((word.start_ticks(), word.slot()), (in_use.start_ticks(), slot), "{word:?}");
        assert_eq!(Word::from_bits(word.to_bits()), word);
        assert_eq!(word.is_published(), word == in_use, "{word:?}");

        let without_line = word.without_line(high_water_ticks);
        assert_eq!(
            (without_line.phase(), without_line.is_published()),
            (Phase::NoLine, false),
            "{without_line:?}"
        );
        assert_eq!(
            (without_line.slot(), without_line.is_gate_closed()),
            (slot, word.is_gate_closed()),
            "{without_line:?}"
        );
        let up = without_line.start_ticks().wrapping_sub(high_water_ticks);
        assert!(
            up < START_GRANULARITY_TICKS && without_line.start_ticks() % START_GRANULARITY_TICKS == 0,
            "{without_line:?} for {high_water_ticks}"
        );
        assert_eq!(
            (without_line.first_publication().phase(), without_line.first_publication().given_up()),
            (Phase::FirstPublication, without_line),
            "{without_line:?}"
        );
    }
}

/// Rule 10: however often a gate is closed and opened, no state comes again within eight times,
/// and the high-water mark stays.
pub(crate) fn check_gates(without_line: Word, changes: usize) {
    let mut seen = vec![without_line];
    let mut word = without_line;
    for _ in 0..changes {
        let gated = word.with_gate_closed();
        assert_eq!(
            (gated.phase(), gated.is_gate_closed(), gated.slot()),
            (Phase::NoLine, true, without_line.slot())
        );
        word = gated.with_gate_open();
        assert_eq!(
            (word.phase(), word.is_gate_closed(), word.slot()),
            (Phase::NoLine, false, without_line.slot())
        );
        for next in [gated, word] {
            assert_eq!(next.start_ticks(), without_line.start_ticks(), "{next:?}");
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
