//! What a slot holds: a line with its end, or a high-water mark.
//!
//! | word | line | high-water mark |
//! |---|---|---|
//! | 0 | first tick | deadline of a first publication, ticks |
//! | 1 | ns there | high-water mark, ns |
//! | 2 | slope, 2^-48 ns a tick | longest wait for a first publication, ticks |
//! | 3 | first tick at which it does not count any more | 0 |
//! | 4 | most by which it may be above the OS clock, ns | most by which readings may be above it, ns |
//! | 5 | Unix time minus the line, ns | the same, of the last line |
//! | 6 | most by which Unix time may be above the OS clock's, ns | the same, of the last line |
//! | 7 | least that the difference in word 5 may be, ns; for the writer | the same, of the last line |

use tickline_core::sample::Timescale;

use super::{LeaseMemory, Line, Slope, SlotNumber};

/// Words in a slot: one cache line.
pub const SLOT_WORDS: usize = 8;

/// Slots of a page: two banks of four.
pub const SLOTS: usize = 8;

/// A word of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// A line's first tick.
    Start = 0,
    /// A line's ns there, or the high-water mark, ns.
    Base = 1,
    /// A line's slope, or the longest wait for a first publication, ticks.
    Slope = 2,
    /// The first tick at which a line does not count any more.
    End = 3,
    /// How far above the OS clock readings may be, ns.
    Lead = 4,
    /// Unix time minus the page's time, ns.
    UnixOffset = 5,
    /// How far above the OS clock's Unix time readings may be, ns.
    UnixLead = 6,
    /// The least that Unix time minus the page's time may be, ns.
    UnixLeast = 7,
}

impl Field {
    /// A high-water mark's deadline is where a line's first tick is.
    pub const DEADLINE: Self = Self::Start;
    /// A high-water mark's longest wait is where a line's slope is.
    pub const WAIT: Self = Self::Slope;
}

/// A Unix offset that says: Unix time is left to the OS.
pub const UNIX_BY_OS: i64 = i64::MIN;

/// What turns a page's time into Unix time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnixOffset {
    /// Unix time minus the page's time, ns; [`UNIX_BY_OS`] for none.
    pub offset_ns: i64,
    /// How far above the OS clock's Unix time readings may be, ns.
    pub lead_ns: i64,
    /// The least that the offset may be by all samples since the clock was set, ns. Of no use to
    /// readers.
    pub least_ns: i64,
}

impl UnixOffset {
    /// Unix time is left to the OS.
    pub const NONE: Self = Self { offset_ns: UNIX_BY_OS, lead_ns: 0, least_ns: 0 };

    #[inline(always)]
    pub(super) fn load(memory: &impl LeaseMemory, slot: SlotNumber) -> Self {
        Self {
            offset_ns: memory.field(slot, Field::UnixOffset).cast_signed(),
            lead_ns: memory.field(slot, Field::UnixLead).cast_signed(),
            least_ns: memory.field(slot, Field::UnixLeast).cast_signed(),
        }
    }

    /// The same for a line, or a high-water mark, that may be above the OS clock by `lead_ns`.
    pub(super) const fn with_lead(self, lead_ns: i64) -> Self {
        let width_ns = self.offset_ns.saturating_sub(self.least_ns);
        Self {
            lead_ns: if self.offset_ns == UNIX_BY_OS { 0 } else { lead_ns.saturating_add(width_ns) },
            ..self
        }
    }

    /// A time of the page as Unix time.
    #[inline(always)]
    pub(super) const fn limit(&self, ns: i64) -> LowerLimit {
        if self.offset_ns == UNIX_BY_OS {
            return LowerLimit::NONE;
        }
        LowerLimit { ns: ns.wrapping_add(self.offset_ns), lead_ns: self.lead_ns }
    }
}

/// What every reading loads of a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub(super) line: Line,
    pub(super) end_ticks: u64,
}

impl Window {
    #[inline(always)]
    pub(super) fn load(memory: &impl LeaseMemory, slot: SlotNumber) -> Self {
        Self {
            line: Line {
                start_ticks: memory.field(slot, Field::Start),
                base_ns: memory.field(slot, Field::Base).cast_signed(),
                slope: Slope { bits: memory.field(slot, Field::Slope) },
            },
            end_ticks: memory.field(slot, Field::End),
        }
    }

    /// The line at its end, ns. No reading by the line is above this.
    #[inline(always)]
    pub(super) const fn end_ns(&self) -> i64 {
        self.line.at(self.end_ticks)
    }
}

/// A line that counts from its first tick until its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseLine {
    /// The line.
    pub line: Line,
    /// The first tick at which it does not count any more.
    pub end_ticks: u64,
    /// How far it may be above the OS clock while it counts, ns.
    pub lead_ns: i64,
    /// Its Unix time.
    pub unix: UnixOffset,
}

impl LeaseLine {
    /// The line that `slot` holds.
    #[must_use]
    pub fn load(memory: &impl LeaseMemory, slot: SlotNumber) -> Self {
        let Window { line, end_ticks } = Window::load(memory, slot);
        let lead_ns = Self::load_lead(memory, slot);
        Self { line, end_ticks, lead_ns, unix: UnixOffset::load(memory, slot) }
    }

    /// How far the line in `slot` may be above the OS clock, ns.
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

    /// The line at its end, ns. No reading by the line is above this.
    #[must_use]
    pub const fn end_ns(&self) -> i64 {
        Window { line: self.line, end_ticks: self.end_ticks }.end_ns()
    }

    /// The high-water mark of readings that come after all of this line, which is the last one.
    #[must_use]
    pub const fn high_water(&self) -> HighWater {
        HighWater { ns: self.end_ns(), lead_ns: i64::MAX, deadline_ticks: 0, wait_ticks: 0, unix: self.unix }
    }
}

/// What readings without a line are not below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HighWater {
    /// The high-water mark, ns.
    pub ns: i64,
    /// The most by which the mark may raise a reading above the OS clock, ns.
    pub lead_ns: i64,
    /// In a first publication: the tick at which nobody waits any more.
    pub deadline_ticks: u64,
    /// In a first publication: the longest time that a reader waits, ticks.
    pub wait_ticks: u64,
    /// Unix time of the last line.
    pub unix: UnixOffset,
}

impl HighWater {
    /// No high-water mark.
    pub const NONE: Self =
        Self { ns: i64::MIN, lead_ns: 0, deadline_ticks: 0, wait_ticks: 0, unix: UnixOffset::NONE };

    /// The high-water mark that `slot` holds.
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

    /// The high-water mark in a timescale.
    #[inline(always)]
    #[must_use]
    pub const fn limit(&self, timescale: Timescale) -> LowerLimit {
        match timescale {
            Timescale::Monotonic => LowerLimit { ns: self.ns, lead_ns: self.lead_ns },
            Timescale::Unix => self.unix.limit(self.ns),
        }
    }
}

/// What a reading is not below, in one timescale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LowerLimit {
    /// The limit, ns.
    pub ns: i64,
    /// The most by which the limit may raise a reading above the OS clock, ns.
    pub lead_ns: i64,
}

impl LowerLimit {
    /// No limit.
    pub const NONE: Self = Self { ns: i64::MIN, lead_ns: 0 };

    /// Whether there is none.
    #[inline(always)]
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.ns == i64::MIN
    }

    /// A reading for which the OS clock has said `os_ns`. Never less than that.
    ///
    /// The result does not fall as `os_ns` rises. So monotonic times by one limit are in order as
    /// long as the OS clock is. Somebody may have set Unix time back, so a limit that is above it
    /// by more than the lead is ignored.
    #[inline(always)]
    #[must_use]
    pub const fn applied_to(&self, os_ns: i64, timescale: Timescale) -> i64 {
        let ahead_ns = self.ns.saturating_sub(os_ns);
        if ahead_ns <= 0 {
            return os_ns;
        }
        match timescale {
            _ if ahead_ns <= self.lead_ns => self.ns,
            Timescale::Monotonic if self.lead_ns > 0 => os_ns.saturating_add(self.lead_ns),
            _ => os_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_high_water_is_limited_by_its_lead() {
        let high_water = HighWater { ns: 1_000, lead_ns: 10, ..HighWater::NONE };
        let over = |os_ns| high_water.limit(Timescale::Monotonic).applied_to(os_ns, Timescale::Monotonic);
        assert_eq!(
            [over(100), over(989), over(995), over(1_000), over(1_001)],
            [110, 999, 1_000, 1_000, 1_001]
        );
        assert_eq!(LowerLimit::NONE.applied_to(-5, Timescale::Monotonic), -5);
    }

    #[test]
    fn unix_time_that_was_set_back_has_no_high_water() {
        let unix = UnixOffset { offset_ns: 5_000, lead_ns: 20, least_ns: 4_980 };
        let high_water = HighWater { ns: 1_000, unix, ..HighWater::NONE };
        let over = |os_ns| high_water.limit(Timescale::Unix).applied_to(os_ns, Timescale::Unix);
        assert_eq!([over(5_979), over(5_980), over(6_000), over(6_001)], [5_979, 6_000, 6_000, 6_001]);
        assert_eq!(
            HighWater { unix: UnixOffset::NONE, ..high_water }.limit(Timescale::Unix),
            LowerLimit::NONE
        );
    }
}
