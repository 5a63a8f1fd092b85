//! The contents of a slot: a line with its end, or an end mark.
//!
//! The README's "Layout, version 1" has the contents of each word. [`Field`] names the words.
//!
//! `i64::MIN` means no time or no offset, in the words and in the values decoded from them. A mark
//! of `i64::MIN` needs no branch: readings are not below their mark, and no time is below this one.

use tickline_core::reference::Timescale;

use super::memory::{LeaseMemory, SlotNumber};
use super::{Line, Slope};

/// The number of words in a slot. They fill one cache line.
pub const SLOT_WORDS: usize = 8;

/// The number of slots of a page: two banks of four.
pub const SLOTS: usize = 8;

/// A field of a slot, by the index of its word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// A line's first tick.
    Start = 0,
    /// A line's time at its first tick, or the end mark, ns.
    Base = 1,
    /// A line's slope, or the longest wait for a first publication, ticks.
    Slope = 2,
    /// The first tick at which a line no longer counts.
    End = 3,
    /// The largest distance of readings above the OS clock, ns.
    Lead = 4,
    /// Unix time minus the page's time, ns.
    UnixOffset = 5,
    /// The largest distance of Unix readings above the OS clock's Unix time, ns.
    UnixLead = 6,
    /// The smallest possible difference of Unix time and the page's time, ns.
    UnixLeast = 7,
}

impl Field {
    /// An end mark has its deadline in the word of a line's first tick.
    pub const DEADLINE: Self = Self::Start;
    /// An end mark has its longest wait in the word of a line's slope.
    pub const WAIT: Self = Self::Slope;
}

/// The Unix offset, ns, that means: Unix time comes from the OS clock.
pub const UNIX_BY_OS: i64 = i64::MIN;

/// The conversion of a page's time into Unix time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnixOffset {
    /// Unix time minus the page's time, ns; [`UNIX_BY_OS`] for none.
    pub offset_ns: i64,
    /// The largest distance of Unix readings above the OS clock's Unix time, ns.
    pub lead_ns: i64,
    /// The smallest offset that all samples since the clock was set allow, ns. For the writer.
    pub least_ns: i64,
}

impl UnixOffset {
    /// Unix time comes from the OS clock.
    pub const NONE: Self = Self {
        offset_ns: UNIX_BY_OS,
        lead_ns: 0,
        least_ns: 0,
    };

    #[inline(always)]
    pub(super) fn load(memory: &impl LeaseMemory, slot: SlotNumber) -> Self {
        Self {
            offset_ns: memory.field(slot, Field::UnixOffset).cast_signed(),
            lead_ns: memory.field(slot, Field::UnixLead).cast_signed(),
            least_ns: memory.field(slot, Field::UnixLeast).cast_signed(),
        }
    }

    /// This offset, for a line whose lead is `lead_ns`.
    pub(super) const fn with_lead(self, lead_ns: i64) -> Self {
        let width_ns = self.offset_ns.saturating_sub(self.least_ns);
        Self {
            lead_ns: if self.offset_ns == UNIX_BY_OS {
                0
            } else {
                lead_ns.saturating_add(width_ns)
            },
            ..self
        }
    }

    /// The Unix time of `ns`, a time of the page, with its lead.
    #[inline(always)]
    pub(super) const fn unix_time(&self, ns: i64) -> TimeWithLead {
        if self.offset_ns == UNIX_BY_OS {
            return TimeWithLead::NONE;
        }
        TimeWithLead {
            ns: ns.wrapping_add(self.offset_ns),
            lead_ns: self.lead_ns,
        }
    }
}

/// A line and its end: the part of a [`LeaseLine`] that every reading loads.
#[derive(Debug, Clone, Copy)]
pub(super) struct EndingLine {
    pub(super) line: Line,
    pub(super) end_ticks: u64,
}

impl EndingLine {
    #[inline(always)]
    pub(super) fn load(memory: &impl LeaseMemory, slot: SlotNumber) -> Self {
        Self {
            line: Line {
                start_ticks: memory.field(slot, Field::Start),
                base_ns: memory.field(slot, Field::Base).cast_signed(),
                slope: Slope {
                    bits: memory.field(slot, Field::Slope),
                },
            },
            end_ticks: memory.field(slot, Field::End),
        }
    }

    /// The line's value at its end, ns. No reading by the line is above this value.
    #[inline(always)]
    pub(super) const fn end_ns(&self) -> i64 {
        self.line.ns_at(self.end_ticks)
    }
}

/// A line that counts from its first tick until its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseLine {
    /// The line.
    pub line: Line,
    /// The first tick at which the line no longer counts.
    pub end_ticks: u64,
    /// The largest distance of the line above the OS clock until its end, ns.
    pub lead_ns: i64,
    /// The conversion of the line's time into Unix time.
    pub unix: UnixOffset,
}

impl LeaseLine {
    /// Loads the line in `slot`.
    #[must_use]
    pub fn load(memory: &impl LeaseMemory, slot: SlotNumber) -> Self {
        let EndingLine { line, end_ticks } = EndingLine::load(memory, slot);
        let lead_ns = Self::load_lead(memory, slot);
        Self {
            line,
            end_ticks,
            lead_ns,
            unix: UnixOffset::load(memory, slot),
        }
    }

    /// Loads the lead of the line in `slot`, ns.
    #[inline(always)]
    pub(super) fn load_lead(memory: &impl LeaseMemory, slot: SlotNumber) -> i64 {
        memory.field(slot, Field::Lead).cast_signed()
    }

    /// The slot's words.
    #[must_use]
    pub const fn to_words(&self) -> [u64; SLOT_WORDS] {
        [
            self.line.start_ticks,
            self.line.base_ns.cast_unsigned(),
            self.line.slope.bits,
            self.end_ticks,
            self.lead_ns.cast_unsigned(),
            self.unix.offset_ns.cast_unsigned(),
            self.unix.lead_ns.cast_unsigned(),
            self.unix.least_ns.cast_unsigned(),
        ]
    }

    /// The line's value at its end, ns. No reading by the line is above this value.
    #[must_use]
    pub const fn end_ns(&self) -> i64 {
        EndingLine {
            line: self.line,
            end_ticks: self.end_ticks,
        }
        .end_ns()
    }

    /// The end mark for readings past the end of this line, if it is the last one.
    #[must_use]
    pub const fn end_mark(&self) -> EndMark {
        EndMark {
            ns: self.end_ns(),
            lead_ns: i64::MAX,
            deadline_ticks: 0,
            wait_ticks: 0,
            unix: self.unix,
        }
    }
}

/// The largest time that readings by lines may have returned. Readings without a line are not below
/// this time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndMark {
    /// The end mark, ns.
    pub ns: i64,
    /// The largest distance above the OS clock to which the mark may raise a reading, ns.
    pub lead_ns: i64,
    /// In a first publication: the tick at which readers stop waiting.
    pub deadline_ticks: u64,
    /// In a first publication: the longest time that a reader waits, ticks.
    pub wait_ticks: u64,
    /// The Unix offset of the last line.
    pub unix: UnixOffset,
}

impl EndMark {
    /// No end mark.
    pub const NONE: Self = Self {
        ns: i64::MIN,
        lead_ns: 0,
        deadline_ticks: 0,
        wait_ticks: 0,
        unix: UnixOffset::NONE,
    };

    /// Loads the end mark in `slot`.
    #[inline(always)]
    #[must_use]
    pub fn load(memory: &impl LeaseMemory, slot: SlotNumber) -> Self {
        Self {
            ns: memory.field(slot, Field::Base).cast_signed(),
            lead_ns: memory.field(slot, Field::Lead).cast_signed(),
            deadline_ticks: memory.field(slot, Field::DEADLINE),
            wait_ticks: memory.field(slot, Field::WAIT),
            unix: UnixOffset::load(memory, slot),
        }
    }

    /// The slot's words.
    #[must_use]
    pub const fn to_words(&self) -> [u64; SLOT_WORDS] {
        [
            self.deadline_ticks,
            self.ns.cast_unsigned(),
            self.wait_ticks,
            0,
            self.lead_ns.cast_unsigned(),
            self.unix.offset_ns.cast_unsigned(),
            self.unix.lead_ns.cast_unsigned(),
            self.unix.least_ns.cast_unsigned(),
        ]
    }

    /// The mark in `timescale`, with its lead.
    #[inline(always)]
    #[must_use]
    pub const fn time(&self, timescale: Timescale) -> TimeWithLead {
        match timescale {
            Timescale::Monotonic => TimeWithLead {
                ns: self.ns,
                lead_ns: self.lead_ns,
            },
            Timescale::Unix => self.unix.unix_time(self.ns),
        }
    }
}

/// A line's value or an end mark, in one timescale. A reading by the line returns it. A
/// reading of the OS clock is raised to it, by at most its lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeWithLead {
    /// The time, ns.
    pub ns: i64,
    /// The largest distance above the OS clock to which this time may raise a reading, ns.
    pub lead_ns: i64,
}

impl TimeWithLead {
    /// No time: readings come from the OS clock alone.
    pub const NONE: Self = Self {
        ns: i64::MIN,
        lead_ns: 0,
    };

    /// Whether there is no time.
    #[inline(always)]
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.ns == i64::MIN
    }

    /// The reading, ns, that follows from `os_ns`, the time of the OS clock. Never less than it.
    ///
    /// The result does not fall as `os_ns` rises. So monotonic readings that one time raises are in
    /// order as long as the OS clock is. If this time is above the OS clock's Unix time by more
    /// than the lead, the clock was probably set back, so this time is ignored.
    #[inline(always)]
    #[must_use]
    pub const fn applied_to(&self, os_ns: i64, timescale: Timescale) -> i64 {
        let ahead_ns = self.ns.saturating_sub(os_ns);
        if ahead_ns <= 0 {
            return os_ns;
        }
        if ahead_ns <= self.lead_ns {
            return self.ns;
        }
        match timescale {
            Timescale::Monotonic if self.lead_ns.is_positive() => {
                os_ns.saturating_add(self.lead_ns)
            }
            _ => os_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_mark_is_limited_by_its_lead() {
        let end_mark = EndMark {
            ns: 1_000,
            lead_ns: 10,
            ..EndMark::NONE
        };
        let over = |os_ns| {
            end_mark
                .time(Timescale::Monotonic)
                .applied_to(os_ns, Timescale::Monotonic)
        };
        assert_eq!(
            [100, 989, 995, 1_000, 1_001].map(over),
            [110, 999, 1_000, 1_000, 1_001]
        );
        assert_eq!(TimeWithLead::NONE.applied_to(-5, Timescale::Monotonic), -5);
    }

    #[test]
    fn a_hostile_lead_leaves_a_reading_at_the_os_clock() {
        let end_mark = EndMark {
            ns: 1_000,
            lead_ns: i64::MIN,
            ..EndMark::NONE
        };
        let time = end_mark.time(Timescale::Monotonic);
        assert_eq!(time.applied_to(7, Timescale::Monotonic), 7);
    }

    #[test]
    fn unix_time_that_was_set_back_has_no_end_mark() {
        let unix = UnixOffset {
            offset_ns: 5_000,
            lead_ns: 20,
            least_ns: 4_980,
        };
        let end_mark = EndMark {
            ns: 1_000,
            unix,
            ..EndMark::NONE
        };
        let over = |os_ns| {
            end_mark
                .time(Timescale::Unix)
                .applied_to(os_ns, Timescale::Unix)
        };
        assert_eq!(
            [5_979, 5_980, 6_000, 6_001].map(over),
            [5_979, 6_000, 6_000, 6_001]
        );
        let by_os = EndMark {
            unix: UnixOffset::NONE,
            ..end_mark
        };
        assert_eq!(by_os.time(Timescale::Unix), TimeWithLead::NONE);
    }
}
