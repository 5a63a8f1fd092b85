//! The state word: what the clock may do now, and the tick from which its line counts.
//!
//! ```text
//! 63                            8   7    6     4   3       2           1          0
//! [ tick, in units of 256 ticks | slot | changes | gate | first | replacing | published ]
//! ```
//!
//! A closed gate leaves no line in use, so in a published word its bit means something else: the
//! line does not serve Unix time.
//!
//! | phase | the tick | who may read the counter |
//! |---|---|---|
//! | `NoLine` | where the high-water mark was taken, rounded up | nobody |
//! | `FirstPublication` | where the high-water mark was taken | the writer |
//! | `Replacing` | start of the old line | the writer, and readers that help |
//! | `Published` | start of the line | everybody |
//!
//! At most one of the three lowest bits is set; none is `NoLine`. **A published word is the start
//! of its line as it stands, low bits included**: a reader subtracts it from the counter without
//! a mask.
//!
//! No word comes again once a line has been published after it (rule 10 of `DESIGN.md`). The tick
//! rises with each new line, and the phase changes in between. Two things leave the tick where it
//! was or bring it back, and are counted in `changes`: a gate that is closed and opened, and a
//! counter that starts again. The count returns to its start after eight of them. A word without
//! a line that comes back by gate changes alone has the same high-water mark, and no line has
//! been published since. So a thread that still holds that word knows nothing wrong. Any other
//! word could return only if the counter was reset, the changes are a multiple of eight, a line
//! starts at the very tick of an earlier one, and one thread is stopped all the time.
//!
//! A word of all zeros has no line, so static memory is a valid clock.

use crate::units::ticks_between;

/// The start granularity, ticks: the unit of a word's tick. 0.1 us at 2.6 GHz, 11 us at 24 MHz.
pub const START_GRANULARITY_TICKS: u64 = 1 << META_BITS;

/// The longest time from a line's start to its publication, ticks. A reading that begins so long
/// after the start begins while the line is in use.
pub(crate) const FIRST_TICKS: u64 = 2 * START_GRANULARITY_TICKS;

const META_BITS: u32 = 8;
const META_MASK: u64 = START_GRANULARITY_TICKS - 1;
const PUBLISHED_BIT: u64 = 1;
const REPLACING_BIT: u64 = 1 << 1;
const FIRST_BIT: u64 = 1 << 2;
const PHASE_MASK: u64 = PUBLISHED_BIT | REPLACING_BIT | FIRST_BIT;
const GATE_BIT: u64 = 1 << 3;
const CHANGE: u64 = 1 << 4;
const CHANGES_MASK: u64 = 7 << 4;
/// The highest of the low bits. The word masked by it is the offset of the slot in memory,
/// because slots are [`SLOT_BYTES`] long.
const SLOT_BIT: u64 = 1 << 7;

/// The distance of the two slots in memory, bytes.
pub(crate) const SLOT_BYTES: usize = 128;

const _: () = assert!(SLOT_BIT == SLOT_BYTES as u64, "a reader finds its slot by one mask");

/// What a [`Word`] allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// No line: readers return the reference clock, never below the high-water mark.
    NoLine,
    /// A writer is about to publish the first line: readers wait some microseconds, then go on
    /// without it.
    FirstPublication,
    /// A writer is replacing the line: readers wait for two microseconds, then go on without it.
    Replacing,
    /// The line may be used by everybody.
    Published,
}

/// Which of the two slots holds the current line.
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

    /// The word's bits. Those of a published word are the tick from which its line counts.
    #[inline(always)]
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// The word of the line that follows this word, published at `at_ticks`. It names the other
    /// slot. Its bits are at most `2 * START_GRANULARITY_TICKS` before `at_ticks`, and not after
    /// it. `None` if it would not be later than this word, because it might equal an earlier one.
    /// A counter that is behind by more than `margin_ticks` was reset, which counts as a change.
    #[must_use]
    pub fn next_published(self, at_ticks: u64, margin_ticks: u64) -> Option<Self> {
        let start_ticks = at_ticks.wrapping_sub(META_MASK) & !META_MASK;
        let ahead = ticks_between(self.start_ticks(), start_ticks);
        // The margin may be saturated, and must not turn negative then.
        let reset = ahead < 0 && ahead.unsigned_abs() > margin_ticks;
        let changes = if reset { self.0.wrapping_add(CHANGE) } else { self.0 } & CHANGES_MASK;
        let slot = (self.0 & SLOT_BIT) ^ SLOT_BIT;
        (ahead > 0 || reset).then_some(Self(start_ticks | slot | changes | PUBLISHED_BIT))
    }

    /// This published word for a line that leaves Unix time to the OS.
    #[must_use]
    pub const fn without_unix(self) -> Self {
        Self(self.0 | GATE_BIT)
    }

    /// The word that announces the replacement of this line.
    #[must_use]
    pub const fn replacing(self) -> Self {
        let word = self.with_phase(REPLACING_BIT);
        if self.is_published() { Self(word.0 & !GATE_BIT) } else { word }
    }

    /// The word without a line that follows this one, its high-water mark taken at `ticks`, which
    /// are rounded up.
    #[must_use]
    pub const fn without_line(self, ticks: u64) -> Self {
        let rounded_ticks = ticks.wrapping_add(META_MASK) & !META_MASK;
        Self(rounded_ticks | (self.0 & (SLOT_BIT | GATE_BIT | CHANGES_MASK)))
    }

    /// The word that announces the first line after this word. Until that line is published or
    /// given up, no reading takes its time from the reference.
    #[must_use]
    pub const fn first_publication(self) -> Self {
        self.with_phase(FIRST_BIT)
    }

    /// The word to which a first publication goes back: the one before it. No line has been
    /// published since, and the high-water mark is the same, so a thread that still holds that
    /// word knows nothing wrong.
    #[must_use]
    pub const fn given_up(self) -> Self {
        self.with_phase(0)
    }

    /// This word with its gate closed. A published line is then being replaced, because a closed
    /// gate leaves no line in use.
    #[must_use]
    pub const fn with_gate_closed(self) -> Self {
        let word = if self.is_published() { self.replacing() } else { self };
        Self(word.0 | GATE_BIT)
    }

    /// This word without a line, with its gate open again. The change is counted, so the word
    /// differs from the last seven. The tick of the high-water mark stays.
    #[must_use]
    pub const fn with_gate_open(self) -> Self {
        Self((self.0 & !(CHANGES_MASK | GATE_BIT)) | (self.0.wrapping_add(CHANGE) & CHANGES_MASK))
    }

    const fn with_phase(self, bit: u64) -> Self {
        Self((self.0 & !PHASE_MASK) | bit)
    }

    /// What this word allows.
    #[inline(always)]
    #[must_use]
    pub const fn phase(self) -> Phase {
        match self.0 & PHASE_MASK {
            0 => Phase::NoLine,
            PUBLISHED_BIT => Phase::Published,
            REPLACING_BIT => Phase::Replacing,
            _ => Phase::FirstPublication,
        }
    }

    /// Whether there is a line that may be used for Unix time.
    #[inline(always)]
    #[must_use]
    pub const fn is_published_for_unix(self) -> bool {
        self.0 & (PUBLISHED_BIT | GATE_BIT) == PUBLISHED_BIT
    }

    /// Whether there is a line that may be used.
    #[inline(always)]
    #[must_use]
    pub const fn is_published(self) -> bool {
        self.0 & PUBLISHED_BIT != 0
    }

    /// Whether a gate is closed, so that the clock has no line.
    #[must_use]
    pub const fn is_gate_closed(self) -> bool {
        self.0 & GATE_BIT != 0 && !self.is_published()
    }

    /// The slot in use; without a line, the one that was.
    #[inline(always)]
    #[must_use]
    pub const fn slot(self) -> Slot {
        if self.0 & SLOT_BIT == 0 { Slot::A } else { Slot::B }
    }

    /// The word's tick, a multiple of [`START_GRANULARITY_TICKS`]. Without a line, this is where
    /// the high-water mark was taken. In a published word it is before the line's start, by less
    /// than the start granularity.
    #[must_use]
    pub const fn start_ticks(self) -> u64 {
        self.0 & !META_MASK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARGIN_TICKS: u64 = 1 << 20;

    fn published_word(ticks: u64) -> Word {
        Word::default().next_published(ticks, MARGIN_TICKS).expect("later than 0")
    }

    #[test]
    fn zero_has_no_line_and_an_open_gate() {
        let word = Word::default();
        assert_eq!(word.phase(), Phase::NoLine);
        assert!(!word.is_published() && !word.is_gate_closed());
    }

    #[test]
    fn fields_do_not_disturb_each_other() {
        for (word, slot) in [
            (published_word(0x1234_5678_9abc), Slot::B),
            (published_word(1 << 20).next_published(0x1234_5678_9abc, 0).unwrap(), Slot::A),
        ] {
            assert_eq!((word.phase(), word.slot(), word.is_gate_closed()), (Phase::Published, slot, false));
            assert_eq!(word.start_ticks(), 0x1234_5678_9900, "0x9abc - 0xff, rounded down");
            let replacing = word.replacing();
            assert_eq!((replacing.phase(), replacing.slot()), (Phase::Replacing, slot));
            assert_eq!(replacing.start_ticks(), word.start_ticks());
            assert_eq!(word.with_gate_closed().phase(), Phase::Replacing);
            assert!(word.with_gate_closed().is_gate_closed());
            let ended = word.with_gate_closed().without_line(0x1234_5678_9abc);
            assert_eq!((ended.phase(), ended.slot(), ended.is_gate_closed()), (Phase::NoLine, slot, true));
            assert_eq!(ended.start_ticks(), 0x1234_5678_9b00, "the tick of a high-water mark is rounded up");
            let first = ended.with_gate_open().first_publication();
            assert_eq!(
                (first.phase(), first.slot(), first.is_gate_closed()),
                (Phase::FirstPublication, slot, false)
            );
            assert_eq!(first.given_up(), ended.with_gate_open());
        }
    }

    /// A reader subtracts the whole word from the counter. A word beyond the tick of its
    /// publication would look like a reset.
    #[test]
    fn a_published_word_is_a_tick_shortly_before_its_publication() {
        for at_ticks in (1_u64 << 30)..(1 << 30) + 3 * START_GRANULARITY_TICKS {
            for word in
                [published_word(at_ticks), published_word(1 << 20).next_published(at_ticks, 0).unwrap()]
            {
                assert!(
                    (0..2 * START_GRANULARITY_TICKS).contains(&at_ticks.wrapping_sub(word.to_bits())),
                    "{at_ticks}: {word:?}"
                );
            }
        }
    }

    #[test]
    fn a_line_without_unix_time_is_closed_for_that_alone() {
        let both = published_word(0x1234_5678_9abc);
        let word = both.without_unix();
        assert_eq!((both.is_published_for_unix(), word.is_published_for_unix()), (true, false));
        assert_eq!((word.is_published(), word.is_gate_closed()), (true, false));
        assert_eq!(
            (word.start_ticks(), word.slot(), word.phase()),
            (both.start_ticks(), both.slot(), both.phase())
        );
        // The words that follow it are those that follow a line for both.
        assert_eq!(word.replacing(), both.replacing());
        assert_eq!(word.with_gate_closed(), both.with_gate_closed());
        assert!(
            word.with_gate_closed().without_line(0).is_gate_closed()
                && !word.replacing().without_line(0).is_gate_closed()
        );
    }

    #[test]
    fn gates_opened_again_and_again_differ_from_the_last_seven() {
        for line in [published_word(5 << 20), published_word(1 << 20).next_published(5 << 20, 0).unwrap()] {
            let mut word = line.replacing().without_line(6 << 20);
            let mut seen = vec![word];
            for _ in 0..200 {
                for next in [word.with_gate_closed(), word.with_gate_closed().with_gate_open()] {
                    assert!(!seen.iter().rev().take(15).any(|seen| *seen == next), "{next:?} came twice");
                    assert_eq!(
                        (next.slot(), next.start_ticks()),
                        (line.slot(), 6 << 20),
                        "the high-water mark stays"
                    );
                    seen.push(next);
                }
                word = word.with_gate_closed().with_gate_open();
            }
        }
    }

    #[test]
    fn a_new_line_needs_a_later_start_or_a_reset() {
        let word = published_word(100 * START_GRANULARITY_TICKS);
        let first = word.start_ticks() + START_GRANULARITY_TICKS + META_MASK;
        assert_eq!(word.next_published(first - 1, MARGIN_TICKS), None);
        assert_eq!(
            word.next_published(first, MARGIN_TICKS).unwrap().start_ticks(),
            word.start_ticks() + START_GRANULARITY_TICKS
        );
        assert_eq!(
            word.next_published(90 * START_GRANULARITY_TICKS, MARGIN_TICKS),
            None,
            "a little behind is not a reset"
        );
        assert!(
            published_word(1 << 40).next_published(5_000, MARGIN_TICKS).is_some(),
            "a reset counter may start again"
        );
    }

    /// A slope of 0 makes the margin `u64::MAX`. As a signed number, -1, it would admit every
    /// tick, even that of the word.
    #[test]
    fn with_any_margin_a_new_line_needs_a_later_start() {
        let word = published_word(100 * START_GRANULARITY_TICKS);
        for margin_ticks in [1 << 63, u64::MAX] {
            assert_eq!(
                word.next_published(100 * START_GRANULARITY_TICKS, margin_ticks),
                None,
                "{margin_ticks}"
            );
            assert_eq!(word.next_published(5_000, margin_ticks), None, "{margin_ticks}");
            assert!(
                word.next_published(102 * START_GRANULARITY_TICKS, margin_ticks).is_some(),
                "{margin_ticks}"
            );
        }
    }

    /// Rule 10: a line after a reset may start at the very tick of an earlier one. Its word is
    /// another one all the same.
    #[test]
    fn a_line_after_a_reset_differs_from_one_at_the_same_tick() {
        let (mut word, mut seen) = (published_word(7 << 20), Vec::new());
        for _ in 0..8 {
            for at_ticks in [7_u64 << 20, 1 << 40] {
                word = word.next_published(at_ticks, MARGIN_TICKS).unwrap_or(word);
                word = word.next_published(at_ticks + (1 << 19), MARGIN_TICKS).expect("later");
                assert!(!seen.contains(&word), "{word:?} came twice");
                seen.push(word);
            }
            // The line is retired now and then. The count goes on.
            word = word.replacing().without_line(word.to_bits());
        }
    }
}
