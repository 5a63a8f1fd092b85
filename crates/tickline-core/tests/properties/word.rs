//! What holds for the state word.

use tickline_core::word::{GRANULE_TICKS, MAX_EXPONENT, MIN_EXPONENT, Phase, Slot, Word};

use super::wide::{signed_ticks, wide};

fn granule_of(ticks: u64) -> u64 {
    ticks / GRANULE_TICKS * GRANULE_TICKS
}

/// A live word has what it was made of, and its successors keep what they should.
pub(crate) fn check_life(ticks: u64, exponent: u32, slot: Slot, guarded: bool, floor_ticks: u64) {
    let live = Word::live(ticks, exponent, slot, guarded);
    let soft_ticks = 1_u64 << exponent.clamp(MIN_EXPONENT, MAX_EXPONENT);
    assert_eq!(live.phase(), if guarded { Phase::LiveGuarded } else { Phase::Live });
    assert_eq!((live.is_live(), live.is_open(), live.is_gated()), (true, !guarded, false), "{live:?}");

    let closing = live.closing();
    assert_eq!((closing.phase(), closing.is_gated()), (Phase::Closing, false), "{closing:?}");
    let gated = live.gated();
    assert_eq!((gated.phase(), gated.is_gated()), (Phase::Closing, true), "{gated:?}");
    assert_eq!(closing.gated(), gated, "whatever comes first");
    for word in [live, closing, gated] {
        assert_eq!((word.ticks(), word.slot()), (granule_of(ticks), slot), "{word:?}");
        assert_eq!((word.soft_ticks(), word.hard_ticks()), (soft_ticks, 2 * soft_ticks), "{word:?}");
        assert_eq!(Word::from_bits(word.to_bits()), word);
        assert_eq!((word.is_live(), word.is_open()), (word == live, word == live && !guarded), "{word:?}");

        let cold = word.cold(floor_ticks);
        assert_eq!((cold.phase(), cold.is_live(), cold.is_open()), (Phase::Cold, false, false), "{cold:?}");
        assert_eq!((cold.slot(), cold.is_gated()), (slot, word.is_gated()), "{cold:?}");
        let up = cold.ticks().wrapping_sub(floor_ticks);
        assert!(up < GRANULE_TICKS && cold.ticks() % GRANULE_TICKS == 0, "{cold:?} for {floor_ticks}");
    }
}

/// The soft window: from the start on, and no longer than 2^exponent.
pub(crate) fn check_window(word: Word, ticks: u64) {
    let delta = ticks.wrapping_sub(word.ticks());
    assert_eq!(word.admits(delta), delta < word.soft_ticks(), "{word:?} at {ticks}");
}

/// Rule 10: however often a gate is closed and opened, no state of the clock comes twice.
pub(crate) fn check_gates(cold: Word, changes: usize) {
    let mut seen = std::collections::BTreeSet::from([cold.to_bits()]);
    let mut word = cold;
    for _ in 0..changes {
        let gated = word.gated();
        assert_eq!((gated.phase(), gated.is_gated(), gated.slot()), (Phase::Cold, true, cold.slot()));
        word = gated.ungated();
        assert_eq!((word.phase(), word.is_gated(), word.slot()), (Phase::Cold, false, cold.slot()));
        assert!(seen.insert(gated.to_bits()) && seen.insert(word.to_bits()), "{word:?} came twice");
    }
}

/// A word for a new line comes after this one, or after a reset.
pub(crate) fn check_precedes(word: Word, ticks: u64, slack_ticks: u64) {
    let ahead = signed_ticks(word.ticks(), granule_of(ticks));
    let expected = ahead > wide(0) || ahead < -wide(slack_ticks);
    assert_eq!(word.precedes(ticks, slack_ticks), expected, "{word:?}, {ticks}, {slack_ticks}");
}
