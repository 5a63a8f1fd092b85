//! What holds for the state word.

use tickline_core::word::{GRANULE_TICKS, Phase, Word};

use super::wide::{signed_ticks, wide};

fn granule_of(ticks: u64) -> u64 {
    ticks / GRANULE_TICKS * GRANULE_TICKS
}

/// A live word is a tick shortly before its publication, and its successors keep what they should.
pub(crate) fn check_life(before: Word, at_ticks: u64, slack_ticks: u64, floor_ticks: u64) {
    let Some(live) = before.next_live(at_ticks, slack_ticks) else { return };
    let slot = before.slot().other();
    assert_eq!((live.phase(), live.slot(), live.is_gated()), (Phase::Live, slot, false), "{live:?}");
    assert!(at_ticks.wrapping_sub(live.to_bits()) < 2 * GRANULE_TICKS, "{live:?} for {at_ticks}");

    let closing = live.closing();
    assert_eq!((closing.phase(), closing.is_gated()), (Phase::Closing, false), "{closing:?}");
    let gated = live.gated();
    assert_eq!((gated.phase(), gated.is_gated()), (Phase::Closing, true), "{gated:?}");
    assert_eq!(closing.gated(), gated, "whatever comes first");
    for word in [live, closing, gated] {
        assert_eq!((word.granule_ticks(), word.slot()), (live.granule_ticks(), slot), "{word:?}");
        assert_eq!(Word::from_bits(word.to_bits()), word);
        assert_eq!(word.is_live(), word == live, "{word:?}");

        let cold = word.cold(floor_ticks);
        assert_eq!((cold.phase(), cold.is_live()), (Phase::Cold, false), "{cold:?}");
        assert_eq!((cold.slot(), cold.is_gated()), (slot, word.is_gated()), "{cold:?}");
        let up = cold.granule_ticks().wrapping_sub(floor_ticks);
        assert!(
            up < GRANULE_TICKS && cold.granule_ticks() % GRANULE_TICKS == 0,
            "{cold:?} for {floor_ticks}"
        );
        assert_eq!((cold.opening().phase(), cold.opening().given_up()), (Phase::Opening, cold), "{cold:?}");
    }
}

/// Rule 10: however often a gate is closed and opened, no state comes again within eight times, and the floor stays.
pub(crate) fn check_gates(cold: Word, changes: usize) {
    let mut seen = vec![cold];
    let mut word = cold;
    for _ in 0..changes {
        let gated = word.gated();
        assert_eq!((gated.phase(), gated.is_gated(), gated.slot()), (Phase::Cold, true, cold.slot()));
        word = gated.ungated();
        assert_eq!((word.phase(), word.is_gated(), word.slot()), (Phase::Cold, false, cold.slot()));
        for next in [gated, word] {
            assert_eq!(next.granule_ticks(), cold.granule_ticks(), "{next:?}");
            assert!(!seen.iter().rev().take(15).any(|seen| *seen == next), "{next:?} came twice");
            seen.push(next);
        }
    }
}

/// A word for a new line comes after this one, or after a reset, and is not this one.
pub(crate) fn check_order(word: Word, at_ticks: u64, slack_ticks: u64) {
    let next = word.next_live(at_ticks, slack_ticks);
    let ahead = signed_ticks(word.granule_ticks(), granule_of(at_ticks.wrapping_sub(GRANULE_TICKS - 1)));
    let expected = ahead > wide(0) || ahead < -wide(slack_ticks);
    assert_eq!(next.is_some(), expected, "{word:?}, {at_ticks}, {slack_ticks}");
    assert!(next.is_none_or(|next| next != word), "{word:?} came twice");
}
