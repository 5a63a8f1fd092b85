//! What a page serves, for people.

use tickline_core::counter::{Counter, ticks_between};

use crate::lease::{HighWater, LeaseLine, LeaseMemory, LeasePhase, LeaseWord, UNIX_BY_OS, is_before};

/// Tries to see one word and its slots unchanged. Words change a few times a second.
const TRIES: u32 = 64;

/// What a page serves at one moment.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PageSnapshot {
    /// What readers may do.
    pub phase: LeasePhase,
    /// Whether [`switch_off`](super::switch_off) has switched the page off: no server opens it.
    pub is_switched_off: bool,
    /// How often the page has changed.
    pub generation: u64,
    /// Whether a line counts now: the phase is published or doubted, and the leases have not run
    /// out.
    pub is_served: bool,
    /// How old the current line is, ns: since its first tick. `None` without a line.
    pub age_ns: Option<i64>,
    /// For how long the leases still run, ns; negative if they have run out. `None` without a line.
    pub lease_left_ns: Option<i64>,
    /// The length of the last lease, ns. `None` without a line.
    pub lease_ns: Option<i64>,
    /// How far readings may be above the OS clock, ns: the line's lead, or that of a high-water
    /// mark that has one.
    pub lead_ns: Option<i64>,
    /// How far Unix time may be above the OS clock's, ns. `None` if the OS serves it.
    pub unix_lead_ns: Option<i64>,
}

impl PageSnapshot {
    pub(super) fn of(memory: &impl LeaseMemory, counter: &impl Counter) -> Self {
        let found = (0..TRIES).find_map(|_| Self::look(memory, counter));
        found.unwrap_or_else(|| Self::empty(memory.word()))
    }

    fn empty(word: LeaseWord) -> Self {
        Self {
            phase: word.phase(),
            is_switched_off: word.stays_off(),
            generation: word.generation(),
            ..Self::default()
        }
    }

    /// `None` if the word has changed meanwhile.
    fn look(memory: &impl LeaseMemory, counter: &impl Counter) -> Option<Self> {
        let word = memory.word();
        let empty = Self::empty(word);
        let found = match word.phase() {
            LeasePhase::Off => empty,
            LeasePhase::NoLine | LeasePhase::FirstPublication => {
                let lead_ns = HighWater::load(memory, word.first()).lead_ns;
                Self { lead_ns: Some(lead_ns).filter(|lead_ns| (1..i64::MAX).contains(lead_ns)), ..empty }
            }
            LeasePhase::Published | LeasePhase::Doubted => {
                let first = LeaseLine::load(memory, word.first());
                let last = word.second().map_or(first, |slot| LeaseLine::load(memory, slot));
                let ticks = counter.now_ordered();
                let is_first = is_before(ticks, first.end_ticks);
                let current = if is_first { first } else { last };
                let ns = |from, to| current.line.slope.over(ticks_between(from, to)).floor_ns();
                let (age_ns, left_ns) = (ns(current.line.start_ticks, ticks), ns(ticks, last.end_ticks));
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
