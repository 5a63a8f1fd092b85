//! A snapshot of a page, for programs that report its state.

use tickline_core::counter::{Counter, ticks_between};

use crate::lease::{
    HighWater, LeaseLine, LeaseMemory, LeasePhase, LeaseWord, UNIX_BY_OS, is_before,
};

/// The limit of attempts to load one word and its slots. A word changes a few times a second.
const MAX_ATTEMPTS: u32 = 64;

/// The state of a page at one moment.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PageSnapshot {
    /// The page's phase.
    pub phase: LeasePhase,
    /// Whether [`switch_off`](super::switch_off) has switched the page off.
    pub is_switched_off: bool,
    /// The number of changes of the page.
    pub generation: u64,
    /// Whether the page is published or doubted, and a line counts now.
    pub is_served: bool,
    /// The time since the current line's first tick, ns. `None` without a line.
    pub age_ns: Option<i64>,
    /// The time until the leases run out, ns; negative if they have run out. `None` without a line.
    pub lease_left_ns: Option<i64>,
    /// The length of the last lease, ns. `None` without a line.
    pub lease_ns: Option<i64>,
    /// The largest distance of readings above the OS clock, ns: the lead of the line, or of the
    /// high-water mark. `None` without a lead.
    pub lead_ns: Option<i64>,
    /// The largest distance of Unix readings above the OS clock's Unix time, ns. `None` if Unix
    /// time comes from the OS clock.
    pub unix_lead_ns: Option<i64>,
}

impl PageSnapshot {
    pub(super) fn take(memory: &impl LeaseMemory, counter: &impl Counter) -> Self {
        let found = (0..MAX_ATTEMPTS).find_map(|_| Self::try_take(memory, counter));
        found.unwrap_or_else(|| Self::without_slots(memory.word()))
    }

    /// A snapshot without the contents of the slots.
    fn without_slots(word: LeaseWord) -> Self {
        Self {
            phase: word.phase(),
            is_switched_off: word.stays_off(),
            generation: word.generation(),
            ..Self::default()
        }
    }

    /// Takes a snapshot; `None` if the word has changed meanwhile.
    fn try_take(memory: &impl LeaseMemory, counter: &impl Counter) -> Option<Self> {
        let word = memory.word();
        let empty = Self::without_slots(word);
        let found = match word.phase() {
            LeasePhase::Off => empty,
            LeasePhase::NoLine | LeasePhase::FirstPublication => {
                let lead_ns = HighWater::load(memory, word.first()).lead_ns;
                Self {
                    lead_ns: Some(lead_ns).filter(|lead_ns| (1..i64::MAX).contains(lead_ns)),
                    ..empty
                }
            }
            LeasePhase::Published | LeasePhase::Doubted => {
                let first = LeaseLine::load(memory, word.first());
                let last = word
                    .second()
                    .map_or(first, |slot| LeaseLine::load(memory, slot));
                let ticks = counter.now_ordered();
                let is_first = is_before(ticks, first.end_ticks);
                let current = if is_first { first } else { last };
                let ns = |from, to| current.line.slope.over(ticks_between(from, to)).floor_ns();
                let (age_ns, left_ns) = (
                    ns(current.line.start_ticks, ticks),
                    ns(ticks, last.end_ticks),
                );
                let has_unix = current.unix.offset_ns != UNIX_BY_OS;
                Self {
                    is_served: age_ns >= 0 && left_ns > 0,
                    age_ns: Some(age_ns),
                    lease_left_ns: Some(left_ns),
                    lease_ns: Some(ns(last.line.start_ticks, last.end_ticks)),
                    lead_ns: Some(current.lead_ns),
                    unix_lead_ns: has_unix.then_some(current.unix.lead_ns),
                    ..empty
                }
            }
        };
        memory.is_still(word).then_some(found)
    }
}
