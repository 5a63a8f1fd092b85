//! The word: the state of a page.
//!
//! ```text
//! 63          12   11     10        9        8        6    5       3   2   0
//! [ generation | zero | bank | has second | second slot | first slot | phase ]
//! ```
//!
//! | phase | names | readers return |
//! |---|---|---|
//! | 0 `Off` | a slot of the last writer's bank, whose contents mean nothing | the OS clock |
//! | 1 `NoLine` | an end mark | the OS clock, not below the end mark |
//! | 2 `FirstPublication` | an end mark with a deadline | nothing until the word changes or the deadline passes |
//! | 3 `Published` | a line, or two | the line |
//! | 4 `Doubted` | a line, or two | the larger of line and OS clock |
//!
//! `Off` with two slots also binds later writers (`switch_off` in
//! `page_file/with_std/switch.rs`): no writer publishes until the word names one slot. Phases
//! 5 to 7 mean `Off`. Memory of all zeros is a page that is off. The bank is the one that the
//! writer fills; readers ignore it.
//!
//! No word recurs: each store raises the generation, even a store that switches the page off. If
//! only a word of all zeros meant `Off`, the generations would start again at 0. A reader that was
//! stopped in the meantime could then find its word again, and mistake a new line's slots for the
//! slots that it has loaded. One store a microsecond would use up all generations in 142 years.

tickline_core::named! {
    /// What a page serves to its readers.
    #[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum LeasePhase {
        /// The page is switched off: readers return the OS clock.
        #[default]
        Off = 0 => "off",
        /// There is no line: readers return the OS clock, not below an end mark.
        NoLine = 1 => "no_line",
        /// The writer publishes the first line, within a millisecond; readers wait.
        FirstPublication = 2 => "first_publication",
        /// Readers return a line's time.
        Published = 3 => "published",
        /// The line may be too low: readers return the larger of line and OS clock.
        Doubted = 4 => "doubted",
    }
}

/// Four of the eight slots. Successive writers fill different banks (rule W7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bank {
    /// Slots 0 to 3.
    First,
    /// Slots 4 to 7.
    Second,
}

/// The index of one of eight slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotNumber(u8);

impl SlotNumber {
    /// The slot whose index is the three lowest bits.
    #[inline(always)]
    #[must_use]
    pub const fn from_low_bits(bits: u64) -> Self {
        Self(bits.to_le_bytes()[0] & 7)
    }

    /// The index, 0 to 7.
    #[inline(always)]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The slots of a bank.
    #[must_use]
    pub const fn in_bank(bank: Bank) -> [Self; 4] {
        match bank {
            Bank::First => [Self(0), Self(1), Self(2), Self(3)],
            Bank::Second => [Self(4), Self(5), Self(6), Self(7)],
        }
    }
}

const FIRST_SHIFT: u32 = 3;
const SECOND_SHIFT: u32 = 6;
const HAS_SECOND: u64 = 1 << 9;
const IS_SECOND_BANK: u64 = 1 << 10;
const GENERATION_SHIFT: u32 = 12;

/// The state of a page. The table at the head of `lease/word.rs` has its bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeaseWord(u64);

impl LeaseWord {
    /// The word with these bits. All bits are valid.
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

    /// What the page serves.
    #[inline(always)]
    #[must_use]
    pub const fn phase(self) -> LeasePhase {
        match self.0 & 7 {
            1 => LeasePhase::NoLine,
            2 => LeasePhase::FirstPublication,
            3 => LeasePhase::Published,
            4 => LeasePhase::Doubted,
            _ => LeasePhase::Off,
        }
    }

    /// The slot of the end mark, or of the first line.
    #[inline(always)]
    #[must_use]
    pub const fn first(self) -> SlotNumber {
        SlotNumber::from_low_bits(self.0 >> FIRST_SHIFT)
    }

    /// The slot of the second line, if the word names two.
    #[inline(always)]
    #[must_use]
    pub const fn second(self) -> Option<SlotNumber> {
        if self.0 & HAS_SECOND == 0 {
            None
        } else {
            Some(SlotNumber::from_low_bits(self.0 >> SECOND_SHIFT))
        }
    }

    /// The number of words that the page had before this one.
    #[must_use]
    pub const fn generation(self) -> u64 {
        self.0 >> GENERATION_SHIFT
    }

    /// Whether the word names `slot`.
    #[must_use]
    pub fn names(self, slot: SlotNumber) -> bool {
        self.first() == slot || self.second() == Some(slot)
    }

    /// The bank that the writer of this word fills.
    #[must_use]
    pub const fn bank(self) -> Bank {
        if self.0 & IS_SECOND_BANK == 0 {
            Bank::First
        } else {
            Bank::Second
        }
    }

    /// Whether a writer or `switch_off` can have stored the word: the phase is one of the table,
    /// and bits without a meaning are 0.
    pub(crate) fn is_of_writer(self) -> bool {
        const STATE: u64 = (1 << GENERATION_SHIFT) - 1;
        let stored = self.next(self.phase(), self.first(), self.second());
        stored.0 & STATE == self.0 & STATE
    }

    /// Whether the page is off for later writers as well: `Off` with two slots.
    pub(crate) fn stays_off(self) -> bool {
        self.phase() == LeasePhase::Off && self.second().is_some() && self.is_of_writer()
    }

    /// The word that switches the page off for all writers. It names a slot that this word names,
    /// because no writer fills that slot.
    #[must_use]
    pub fn switched_off(self) -> Self {
        self.next(LeasePhase::Off, self.first(), Some(self.first()))
    }

    /// The word by which the next writer takes over: the same phase and slots, the other bank.
    #[must_use]
    pub fn taken_over(self) -> Self {
        Self(self.0 ^ IS_SECOND_BANK).next(self.phase(), self.first(), self.second())
    }

    /// The word after this one, by the same writer.
    #[must_use]
    pub fn next(self, phase: LeasePhase, first: SlotNumber, second: Option<SlotNumber>) -> Self {
        let second_bits = second.map_or(0, |slot| HAS_SECOND | u64::from(slot.0) << SECOND_SHIFT);
        let generation = self.generation().wrapping_add(1) << GENERATION_SHIFT;
        let bank = self.0 & IS_SECOND_BANK;
        Self(generation | bank | second_bits | u64::from(first.0) << FIRST_SHIFT | phase as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Phases 5 to 7 mean `Off`.
    #[test]
    fn any_bits_are_a_word() {
        for bits in 0..1 << 11 {
            let word = LeaseWord::from_bits(bits);
            assert!(word.first().index() < 8, "{word:?}");
            assert!(
                word.second().is_none_or(|slot| slot.index() < 8),
                "{word:?}"
            );
            let is_off = matches!(bits & 7, 0 | 5..=7);
            assert_eq!(word.phase() == LeasePhase::Off, is_off, "{word:?}");
            assert_eq!(word.taken_over().phase(), word.phase(), "{word:?}");
        }
    }

    /// Symptom: a page that was filled with ones counted as switched off.
    #[test]
    fn ones_are_no_word_of_a_writer() {
        let ones = LeaseWord::from_bits(u64::MAX);
        assert!(!ones.is_of_writer() && !ones.stays_off());
        assert!(LeaseWord::default().is_of_writer());
        let off = LeaseWord::default().taken_over().switched_off();
        assert!(off.is_of_writer() && off.stays_off());
    }

    type State = (LeasePhase, SlotNumber, Option<SlotNumber>);

    fn all_states() -> impl Iterator<Item = State> {
        LeasePhase::ALL.iter().flat_map(|phase| {
            (0..8).flat_map(|first| {
                [None, Some(first + 3)].map(|second| {
                    let second = second.map(SlotNumber::from_low_bits);
                    (*phase, SlotNumber::from_low_bits(first), second)
                })
            })
        })
    }

    const fn state(word: LeaseWord) -> State {
        (word.phase(), word.first(), word.second())
    }

    /// A word with each state, all by the first writer of a page.
    fn words() -> impl Iterator<Item = LeaseWord> {
        let next = |(phase, first, second)| LeaseWord::default().next(phase, first, second);
        all_states().map(next)
    }

    /// Rule W1: no word recurs, even if the page was off in the meantime.
    #[test]
    fn rule_w1_no_word_recurs() {
        let mut word = LeaseWord::default();
        for (phase, first, second) in all_states() {
            let next = word.next(phase, first, second);
            assert_eq!(next.generation(), word.generation() + 1);
            word = next.taken_over();
            assert_eq!(word.generation(), next.generation() + 1);
        }
    }

    #[test]
    fn a_page_of_zeros_is_off() {
        let word = LeaseWord::from_bits(0);
        assert_eq!((word.phase(), word.second()), (LeasePhase::Off, None));
    }

    #[test]
    fn a_word_has_the_state_that_its_writer_gave_it() {
        assert!(words().map(state).eq(all_states()));
    }

    #[test]
    fn a_word_names_its_slots_and_no_other() {
        for word in words() {
            for slot in (0..8).map(SlotNumber::from_low_bits) {
                let is_named = slot == word.first() || Some(slot) == word.second();
                assert_eq!(word.names(slot), is_named, "{word:?} {slot:?}");
            }
        }
    }

    #[test]
    fn the_next_writer_keeps_the_state() {
        assert!(
            words()
                .map(|word| state(word.taken_over()))
                .eq(all_states())
        );
    }

    #[test]
    fn a_writer_stays_in_its_bank() {
        for start in [LeaseWord::default(), LeaseWord::default().taken_over()] {
            for (phase, first, second) in all_states() {
                assert_eq!(start.next(phase, first, second).bank(), start.bank());
            }
        }
    }

    #[test]
    fn the_next_writer_fills_the_other_bank() {
        for word in words() {
            assert_eq!(word.bank(), Bank::First);
            assert_eq!(word.taken_over().bank(), Bank::Second);
            assert_eq!(word.taken_over().taken_over().bank(), Bank::First);
        }
    }

    #[test]
    fn the_banks_share_out_all_slots() {
        let slots = [Bank::First, Bank::Second]
            .map(SlotNumber::in_bank)
            .concat();
        assert!((0..8).map(SlotNumber::from_low_bits).eq(slots));
    }
}
