//! The state word: what the clock may do now, and the tick from which its line counts.
//!
//! ```text
//! 63                              10   9    8 7   6    5      0
//! [ tick, in granules of 1024 ticks | gate | phase | slot | exponent ]
//! ```
//!
//! A gate never leaves a line in use, so in a live word its bit says something else: that the line does not serve Unix time.
//!
//! | phase | the tick | the exponent | who may read the counter |
//! |---|---|---|---|
//! | `Cold` | where the floor was taken, rounded up | a count of gate changes | nobody |
//! | `Closing` | start of the old line | of the old line | who finishes the closing |
//! | `Closing`, as *opening* | where the floor was taken | 0 | who opens |
//! | `Live` | start of the line | soft window is 2^exponent ticks | everybody |
//! | `LiveGuarded` | start of the line | soft window is 2^exponent ticks | the slow path only |
//!
//! The **soft window** is what the inlined path accepts. The line stays valid for twice that, the **hard
//! window**: between the two a reader takes the slow path, and may renew the line there without a break.
//!
//! No two states of a clock are equal bit for bit (rule 10 of `DESIGN.md`): the tick rises with each new line, the
//! phase changes in between, and closing and opening a gate counts in the exponent of a cold word. A word of all
//! zeros is cold, so static memory is a valid clock.

use crate::units::ticks_between;

/// Ticks in one granule, the unit of a word's tick: 0.4 us at 2.6 GHz, 43 us at 24 MHz.
pub const GRANULE_TICKS: u64 = 1 << META_BITS;

/// The largest exponent of a soft window: its hard window is half of what [`Line::at`](crate::line::Line::at)
/// converts exactly.
pub const MAX_EXPONENT: u32 = 46;

/// The smallest exponent of a soft window: two granules, because a line's start lies up to one granule before the
/// tick at which it was published.
pub const MIN_EXPONENT: u32 = META_BITS + 1;

const META_BITS: u32 = 10;
const META_MASK: u64 = GRANULE_TICKS - 1;
const EXPONENT_MASK: u64 = 0x3f;
const SLOT_BIT: u64 = 1 << 6;
const PHASE_SHIFT: u32 = 7;
const PHASE_MASK: u64 = 3 << PHASE_SHIFT;
const GATE_BIT: u64 = 1 << 9;

const _: () = assert!((1_u64 << (MAX_EXPONENT + 1)) < crate::line::MAX_DELTA_TICKS);

/// What a [`Word`] allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// No line: readers return the reference clock, never below the floor.
    Cold,
    /// A writer is replacing the line, or is about to publish the first one; readers wait some microseconds, then go on
    /// without it.
    Closing,
    /// The line may be used by everybody.
    Live,
    /// The line may be used through the slow path only, because this CPU has no atomic 16-byte load.
    LiveGuarded,
}

/// Which of the two slots holds the slope and the bounds of the current line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// The first slot.
    A = 0,
    /// The second slot.
    B = 1,
}

impl Slot {
    /// The slot that is free while this one is in use.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// The state word. See the [module](self) for its layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Word(u64);

impl Word {
    /// A word from its bits.
    #[inline(always)]
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The word's bits.
    #[inline(always)]
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// A live word for a line that starts in the granule of `ticks`.
    #[must_use]
    pub fn live(ticks: u64, exponent: u32, slot: Slot, guarded: bool) -> Self {
        let exponent = exponent.clamp(MIN_EXPONENT, MAX_EXPONENT);
        let phase = if guarded { Phase::LiveGuarded } else { Phase::Live };
        Self((ticks & !META_MASK) | u64::from(exponent) | slot_bits(slot)).with_phase(phase)
    }

    /// This live word for a line that leaves Unix time to the OS.
    #[must_use]
    pub const fn without_unix(self) -> Self {
        Self(self.0 | GATE_BIT)
    }

    /// The word that announces the replacement of this line.
    #[must_use]
    pub const fn closing(self) -> Self {
        let word = self.with_phase(Phase::Closing);
        if self.is_live() { Self(word.0 & !GATE_BIT) } else { word }
    }

    /// The cold word that follows this one, its floor taken at `ticks` (rounded up to a granule).
    #[must_use]
    pub const fn cold(self, ticks: u64) -> Self {
        let granule = ticks.wrapping_add(META_MASK) & !META_MASK;
        Self(granule | (self.0 & (SLOT_BIT | GATE_BIT)))
    }

    /// The word that announces the first line after this cold word: nobody reads the reference for a reading until that is
    /// published or given up. A closing word whose exponent is 0, which no line has.
    #[must_use]
    pub const fn opening(self) -> Self {
        Self(self.0 & !EXPONENT_MASK).with_phase(Phase::Closing)
    }

    /// Whether this announces a first line, and not the next one.
    #[must_use]
    pub const fn is_opening(self) -> bool {
        matches!(self.phase(), Phase::Closing) && self.0 & EXPONENT_MASK == 0
    }

    /// The cold word that an opening goes back to: the one it came from, but for its count of gate changes. That may have been a
    /// state before, with the same floor and no line since, so who still holds it holds nothing that is wrong.
    #[must_use]
    pub const fn given_up(self) -> Self {
        self.with_phase(Phase::Cold)
    }

    /// This word with its gate closed. A live word becomes closing: a gate never leaves a line in use.
    #[must_use]
    pub const fn gated(self) -> Self {
        let word = if self.is_live() { self.closing() } else { self };
        Self(word.0 | GATE_BIT)
    }

    /// This cold word with its gate open again, counted so that it differs from every earlier one.
    #[must_use]
    pub const fn ungated(self) -> Self {
        // The count is in the low bits, below the tick: after 64 changes it carries into the slot bit, so it is
        // wrapped by hand and one granule is added to the tick instead.
        let count = (self.0 & EXPONENT_MASK).wrapping_add(1);
        let carry = (count >> 6) << META_BITS;
        Self((self.0 & !(EXPONENT_MASK | GATE_BIT)).wrapping_add(carry) | (count & EXPONENT_MASK))
    }

    const fn with_phase(self, phase: Phase) -> Self {
        let bits = match phase {
            Phase::Cold => 0,
            Phase::Closing => 1,
            Phase::Live => 2,
            Phase::LiveGuarded => 3,
        };
        Self((self.0 & !PHASE_MASK) | (bits << PHASE_SHIFT))
    }

    /// What this word allows.
    #[inline(always)]
    #[must_use]
    pub const fn phase(self) -> Phase {
        match (self.0 & PHASE_MASK) >> PHASE_SHIFT {
            0 => Phase::Cold,
            1 => Phase::Closing,
            2 => Phase::Live,
            _ => Phase::LiveGuarded,
        }
    }

    /// Whether the inlined path may use the line.
    #[inline(always)]
    #[must_use]
    pub const fn is_open(self) -> bool {
        self.0 & PHASE_MASK == 2 << PHASE_SHIFT
    }

    /// Whether the inlined path may use the line for Unix time.
    #[inline(always)]
    #[must_use]
    pub const fn is_open_for_unix(self) -> bool {
        self.0 & (PHASE_MASK | GATE_BIT) == 2 << PHASE_SHIFT
    }

    /// Whether there is a line at all, for the inlined or the slow path.
    #[must_use]
    pub const fn is_live(self) -> bool {
        self.0 & (2 << PHASE_SHIFT) != 0
    }

    /// Whether a gate keeps the clock cold.
    #[must_use]
    pub const fn is_gated(self) -> bool {
        self.0 & GATE_BIT != 0 && !self.is_live()
    }

    /// The slot in use (cold: the one that was).
    #[inline(always)]
    #[must_use]
    pub const fn slot(self) -> Slot {
        if self.0 & SLOT_BIT == 0 { Slot::A } else { Slot::B }
    }

    /// The tick from which the line counts, or (cold) at which the floor was taken.
    #[inline(always)]
    #[must_use]
    pub const fn ticks(self) -> u64 {
        self.0 & !META_MASK
    }

    /// Whether `delta_ticks` since the start lie in the soft window. Two-sided: a tick before the start wraps to a
    /// huge difference.
    #[inline(always)]
    #[must_use]
    pub const fn admits(self, delta_ticks: u64) -> bool {
        // Only the low six bits of a shift count matter, and they are the exponent.
        delta_ticks >> (self.0 & EXPONENT_MASK) == 0
    }

    /// Length of the soft window, ticks.
    #[must_use]
    pub const fn soft_ticks(self) -> u64 {
        1 << (self.0 & EXPONENT_MASK)
    }

    /// Length of the hard window, ticks: twice the soft one.
    #[must_use]
    pub const fn hard_ticks(self) -> u64 {
        self.soft_ticks() << 1
    }

    /// Whether a line published at `ticks` would start later than this word's tick, or the counter was reset by
    /// more than `slack_ticks`. Otherwise its word might equal an earlier one.
    #[must_use]
    pub const fn precedes(self, ticks: u64, slack_ticks: u64) -> bool {
        let ahead = ticks_between(self.ticks(), ticks & !META_MASK);
        // The slack may be saturated, and must not turn negative then.
        ahead > 0 || (ahead < 0 && ahead.unsigned_abs() > slack_ticks)
    }
}

const fn slot_bits(slot: Slot) -> u64 {
    match slot {
        Slot::A => 0,
        Slot::B => SLOT_BIT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_cold_and_open() {
        let word = Word::default();
        assert_eq!(word.phase(), Phase::Cold);
        assert!(!word.is_live() && !word.is_gated() && !word.is_open());
    }

    #[test]
    fn fields_do_not_disturb_each_other() {
        for slot in [Slot::A, Slot::B] {
            for guarded in [false, true] {
                let word = Word::live(0x1234_5678_9abc, 31, slot, guarded);
                assert_eq!(word.ticks(), 0x1234_5678_9800);
                assert_eq!((word.slot(), word.soft_ticks(), word.hard_ticks()), (slot, 1 << 31, 1 << 32));
                assert_eq!((word.is_open(), word.is_live(), word.is_gated()), (!guarded, true, false));
                let closing = word.closing();
                assert_eq!((closing.phase(), closing.ticks()), (Phase::Closing, word.ticks()));
                assert_eq!((closing.hard_ticks(), closing.slot()), (1 << 32, slot));
                assert_eq!(word.gated().phase(), Phase::Closing);
                assert!(word.gated().is_gated());
                let cold = word.gated().cold(0x1234_5678_9abc);
                assert_eq!((cold.phase(), cold.slot(), cold.is_gated()), (Phase::Cold, slot, true));
                assert_eq!(cold.ticks(), 0x1234_5678_9c00, "a floor's tick is rounded up");
            }
        }
    }

    #[test]
    fn a_line_without_unix_time_is_closed_for_that_alone() {
        for guarded in [false, true] {
            let both = Word::live(0x1234_5678_9abc, 31, Slot::B, guarded);
            let word = both.without_unix();
            assert_eq!((both.is_open_for_unix(), word.is_open_for_unix()), (!guarded, false));
            assert_eq!((word.is_open(), word.is_live(), word.is_gated()), (!guarded, true, false));
            assert_eq!((word.ticks(), word.slot(), word.phase()), (both.ticks(), both.slot(), both.phase()));
            // What follows it is what would follow a line for both.
            assert_eq!(word.closing(), both.closing());
            assert_eq!(word.gated(), both.gated());
            assert!(word.gated().cold(0).is_gated() && !word.closing().cold(0).is_gated());
        }
    }

    #[test]
    fn the_window_is_two_sided() {
        let word = Word::live(1 << 20, 20, Slot::A, false);
        for (ticks, inside) in
            [(1 << 20, true), ((1 << 21) - 1, true), (1 << 21, false), ((1 << 20) - 1, false), (0, false)]
        {
            assert_eq!(word.admits(u64::wrapping_sub(ticks, word.ticks())), inside, "{ticks}");
        }
    }

    #[test]
    fn exponents_are_clamped() {
        assert_eq!(Word::live(0, 0, Slot::A, false).soft_ticks(), 1 << MIN_EXPONENT);
        assert_eq!(Word::live(0, 63, Slot::A, false).soft_ticks(), 1 << MAX_EXPONENT);
    }

    #[test]
    fn gates_opened_again_and_again_never_repeat_a_word() {
        let mut word = Word::live(5 << 20, 20, Slot::B, false).closing().cold(6 << 20);
        let mut seen = Vec::new();
        for _ in 0..200 {
            for next in [word.gated(), word.gated().ungated()] {
                assert!(!seen.contains(&next), "{next:?} came twice");
                assert_eq!(next.slot(), Slot::B);
                seen.push(next);
            }
            word = word.gated().ungated();
        }
    }

    #[test]
    fn a_new_line_needs_a_later_granule_or_a_reset() {
        let word = Word::live(100 * GRANULE_TICKS, 20, Slot::A, false);
        assert!(!word.precedes(100 * GRANULE_TICKS + 1023, 1 << 20));
        assert!(word.precedes(101 * GRANULE_TICKS, 1 << 20));
        assert!(!word.precedes(99 * GRANULE_TICKS, 1 << 20), "a little behind is not a reset");
        assert!(
            Word::live(1 << 40, 20, Slot::A, false).precedes(5, 1 << 20),
            "a reset counter may start again"
        );
    }

    /// A slope of 0 makes the slack `u64::MAX`, which was taken for -1: every tick would have done, even that of the word.
    #[test]
    fn with_any_slack_a_new_line_needs_a_later_granule() {
        let word = Word::live(100 * GRANULE_TICKS, 20, Slot::A, false);
        for slack_ticks in [1 << 63, u64::MAX] {
            assert!(!word.precedes(100 * GRANULE_TICKS, slack_ticks), "{slack_ticks}");
            assert!(!word.precedes(5, slack_ticks), "{slack_ticks}");
            assert!(word.precedes(101 * GRANULE_TICKS, slack_ticks), "{slack_ticks}");
        }
    }
}
