//! The writer: publishes leases from the control loop's estimates.
//!
//! A page has one writer at a time, whose caller holds a lock. The writer changes the word only by
//! compare-exchange. A second writer, which breaks the rules, therefore ends without harm (W1).
//! The caller runs an iteration of its own clock, then [`Writer::step`] with what that found out,
//! and sleeps for as long as the step says.
//!
//! What this module does not do: calibrate (`tickline-core`), lock files, or decide about gates.

use tickline_core::control::MEETING_MARGIN_NS;
use tickline_core::counter::{Counter, ticks_between};
use tickline_core::sample::Reference;

use super::{
    Estimate, HighWater, LeaseLine, LeasePhase, LeaseStore, LeaseWord, Line, Slope, SlotNumber, SwapResult,
    Timescale, is_before,
};

/// What a writer needs to know from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriterConfig {
    /// The length of a lease, ns.
    pub lease_ns: u64,
    /// M, ns: how long before the last line ends its successor must be published.
    pub margin_ns: u64,
    /// W: the longest first publication, ns. Readers wait for it.
    pub wait_ns: u64,
    /// How far apart the counters of two CPUs may be, and how late a counter may be read, ns.
    pub cpu_difference_ns: u64,
    /// The least time between two first publications, ns; doubled after each that came to nothing.
    pub pause_ns: u64,
    /// The resolution of the OS clock, ns.
    pub resolution_ns: i64,
    /// The resolution of the counter, ticks.
    pub counter_ticks: u64,
}

impl WriterConfig {
    /// Leases of half a second.
    pub const DEFAULT: Self = Self {
        lease_ns: 500_000_000,
        margin_ns: 100_000_000,
        wait_ns: 1_000_000,
        // `docs/lease.md` promises order between CPUs whose counters differ by less.
        cpu_difference_ns: MEETING_MARGIN_NS,
        pause_ns: 1_000_000_000,
        resolution_ns: 1,
        counter_ticks: 1,
    };
}

/// Rule W9: from this on the OS clock has left a line behind, ns. An NTP daemon's slew of 500 ppm
/// makes 0.5 ms in the two leases that a word names.
const LEFT_BEHIND_NS: i64 = 1_000_000;

/// Rule W10: the kernel slews its clock fast beyond this, ppb. At this rate the clock leaves a line
/// by `LEFT_BEHIND_NS` in the two leases that a word names. An NTP daemon's 500 ppm and the 500 ppm
/// of adjtime(3) make no more together.
pub const FAST_SLEW_PPB: u64 = 1_000_000;

/// A first publication waits for the OS clock while the high-water mark is further ahead than this,
/// ns. Otherwise the lead of one line would be added to that of the last, suspend after suspend.
const AHEAD_NS: i64 = 10_000;

/// If a line is further above the upper bound than this at its end, ns, it has no successor. The
/// counter ran on in a suspend, and the OS clock did not. A successor removes at most half a lease
/// of the excess, so a suspend in each lease would add up.
const FAR_AHEAD_NS: i64 = 10_000_000;

/// The pause between first publications is not doubled more often than this.
const MAX_DOUBLINGS: u32 = 6;

/// Another process has changed the page, so this writer must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageTaken;

impl core::fmt::Display for PageTaken {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("another process has changed the page, or its file was truncated")
    }
}

impl core::error::Error for PageTaken {}

/// What the next lines rest on. Without an estimate the gate is closed (rule W6): no line is
/// published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// What the writer's process knows of the OS clock.
    Estimate(Estimate),
    /// Nothing: the leases that are published run out.
    Nothing,
    /// Nothing. They run out too, but may be below the OS clock: readers ask it from now on.
    Doubt,
}

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriterAction {
    /// Nothing was due.
    Waited,
    /// A successor was published.
    PublishedNext,
    /// A first line was published.
    PublishedFirst,
    /// A first publication took too long, and came to nothing.
    GaveUp,
    /// Readers now ask the OS clock too, because a line came too late, is or will be far from the OS
    /// clock, or was to be closed in doubt.
    Doubted,
    /// The leases have run out, or the counter was reset: there is no line.
    Ended,
    /// Unix time of the lines was changed.
    SetUnix,
}

/// What a step did, and when the next one is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriterStep {
    /// What happened.
    pub action: WriterAction,
    /// Time until the next step, ns.
    pub next_in_ns: u64,
}

impl WriterStep {
    const fn at_once(action: WriterAction) -> Self {
        Self { action, next_in_ns: 0 }
    }
}

/// The writer of a page: `docs/lease.md`, "Rules of the writer". One writer has a page at a time,
/// by a lock that the caller holds.
#[derive(Debug)]
pub struct Writer {
    config: WriterConfig,
    /// The word last seen.
    word: LeaseWord,
    /// Rule W10: whether a fast slew is not over.
    waits_for_slew: bool,
    /// First publications in a row that came to nothing.
    doublings: u32,
    /// The OS clock before which no first publication begins.
    not_before_ns: i64,
}

impl Writer {
    /// Takes over a page, whose lock the caller holds (rule W7). It goes on with leases that it
    /// finds; a first publication that it finds is over. A page that was switched off from outside
    /// (`switch_off`) stays so, and this writer does nothing.
    ///
    /// # Errors
    ///
    /// [`PageTaken`] if somebody else writes to the page.
    pub fn start(memory: &impl LeaseStore, config: WriterConfig) -> Result<Self, PageTaken> {
        let found = memory.word();
        let mut writer =
            Self { config, word: found, waits_for_slew: false, doublings: 0, not_before_ns: i64::MIN };
        // Before the first slot is filled: of two that start from one word, one fills none.
        writer.swap(memory, found.taken_over())?;
        let word = writer.word;
        match word.phase() {
            LeasePhase::Off if !word.stays_off() => writer.end(memory, &HighWater::NONE)?,
            LeasePhase::FirstPublication => writer.end(memory, &HighWater::load(memory, word.first()))?,
            LeasePhase::Off | LeasePhase::NoLine | LeasePhase::Published | LeasePhase::Doubted => {}
        }
        Ok(writer)
    }

    /// Whether no line is published because the kernel slews its clock fast.
    #[must_use]
    pub const fn waits_for_slew(&self) -> bool {
        self.waits_for_slew
    }

    /// The OS clock has another resolution from now on, ns: the kernel keeps time with something
    /// else.
    pub fn set_resolution_ns(&mut self, resolution_ns: i64) {
        self.config.resolution_ns = resolution_ns;
    }

    /// The word that this writer stored or found last.
    #[must_use]
    pub const fn word(&self) -> LeaseWord {
        self.word
    }

    /// Does what is due: at most one change of the page, or one first publication. Never panics or
    /// waits. `slew_ppb` is the kernel's correction of its clock's rate, ppb; 0 where that is not
    /// known. Beyond [`FAST_SLEW_PPB`] no line is published until an estimate knows the rate again
    /// (rule W10).
    ///
    /// # Errors
    ///
    /// [`PageTaken`] if somebody else writes to the page.
    pub fn step(
        &mut self,
        memory: &impl LeaseStore,
        counter: &impl Counter,
        os: &impl Reference,
        basis: Basis,
        slew_ppb: i64,
    ) -> Result<WriterStep, PageTaken> {
        if memory.word() != self.word {
            return Err(PageTaken);
        }
        if slew_ppb.unsigned_abs() > FAST_SLEW_PPB {
            self.waits_for_slew = true;
        } else if let Basis::Estimate(estimate) = basis
            && estimate.rate_uncertainty_ppb() <= FAST_SLEW_PPB
        {
            self.waits_for_slew = false;
        }
        let basis = match basis {
            _ if self.waits_for_slew => Basis::Doubt,
            Basis::Estimate(estimate) => Basis::Estimate(estimate.as_shown(self.config.resolution_ns)),
            Basis::Nothing | Basis::Doubt => basis,
        };
        match (self.word.phase(), &basis) {
            (LeasePhase::Published | LeasePhase::Doubted, basis) => {
                self.maintain_lines(memory, counter, os, basis)
            }
            (LeasePhase::NoLine, Basis::Estimate(estimate)) => {
                self.publish_first(memory, counter, os, estimate)
            }
            _ => Ok(self.waited(self.config.lease_ns)),
        }
    }

    /// No longer than a lease, by any page that the writer has taken over.
    fn waited(&self, next_in_ns: u64) -> WriterStep {
        WriterStep { action: WriterAction::Waited, next_in_ns: next_in_ns.min(self.config.lease_ns) }
    }

    /// Two slots of this writer's bank that the word does not name.
    fn free_slots(&self) -> (SlotNumber, SlotNumber) {
        let slots = SlotNumber::of_bank(self.word.bank());
        let mut free = slots.into_iter().filter(|slot| !self.word.names(*slot));
        // A word names at most two slots, and a bank has four.
        let first = free.next().unwrap_or(slots[0]);
        (first, free.next().unwrap_or(first))
    }

    /// Rule W1.
    fn swap(&mut self, memory: &impl LeaseStore, to: LeaseWord) -> Result<(), PageTaken> {
        if !memory.swap(self.word, to) {
            return Err(PageTaken);
        }
        self.word = to;
        Ok(())
    }

    /// There is no line from now on, and readings are not below `high_water`.
    fn end(&mut self, memory: &impl LeaseStore, high_water: &HighWater) -> Result<(), PageTaken> {
        let slot = self.free_slots().0;
        memory.fill(slot, &high_water.to_words());
        self.swap(memory, self.word.next(LeasePhase::NoLine, slot, None))
    }

    /// Rules W2, W3, W6, W9 and W10: readers ask the OS clock, too, until the leases have run out.
    fn doubt(&mut self, memory: &impl LeaseStore) -> Result<WriterStep, PageTaken> {
        self.swap(memory, self.word.next(LeasePhase::Doubted, self.word.first(), self.word.second()))?;
        Ok(WriterStep::at_once(WriterAction::Doubted))
    }

    /// Does what is due for the lines that the word names: ends, doubts, changes or succeeds them.
    fn maintain_lines(
        &mut self,
        memory: &impl LeaseStore,
        counter: &impl Counter,
        os: &impl Reference,
        basis: &Basis,
    ) -> Result<WriterStep, PageTaken> {
        let (first_slot, second_slot) = (self.word.first(), self.word.second());
        let first = LeaseLine::load(memory, first_slot);
        let second = second_slot.map(|slot| LeaseLine::load(memory, slot));
        let last = second.unwrap_or(first);
        let os_ns = os.monotonic_ns();
        let ticks = counter.now_ordered();
        let slope = last.line.slope;
        let in_ns = |later: u64| ns_between(ticks, later, slope);
        if is_before(ticks, first.line.start_ticks) {
            // W4: reset. The lead stays a part of the high-water mark, as it is for the readers of
            // the line. A present value of the OS clock would be less than the readings that they
            // return until the swap.
            let lead_ns = first.lead_ns.max(last.lead_ns);
            self.end(memory, &HighWater { lead_ns, ..last.high_water() })?;
            return Ok(WriterStep::at_once(WriterAction::Ended));
        }
        if !is_before(ticks, last.end_ticks) {
            // W4: they have run out.
            self.end(memory, &last.high_water())?;
            return Ok(WriterStep::at_once(WriterAction::Ended));
        }
        if self.word.phase() == LeasePhase::Doubted {
            return Ok(self.waited(in_ns(last.end_ticks)));
        }
        let current = if is_before(ticks, first.end_ticks) { &first } else { &last };
        // W9, with an estimate or without.
        let is_left_behind = os_ns.saturating_sub(current.line.at(ticks)) > LEFT_BEHIND_NS;
        if *basis == Basis::Doubt || is_left_behind {
            return self.doubt(memory);
        }
        let Basis::Estimate(estimate) = basis else { return Ok(self.waited(in_ns(last.end_ticks))) };
        if estimate.above_upper_ns(&last) > FAR_AHEAD_NS {
            // Even before Unix time gets another offset, which contains the sleep.
            return self.doubt(memory);
        }
        if estimate.unix_after(last.unix).offset_ns != last.unix.offset_ns {
            self.republish(memory, estimate, &first, second.as_ref())?;
            return Ok(WriterStep::at_once(WriterAction::SetUnix));
        }
        let current_slot = second_slot.unwrap_or(first_slot);
        let due_ticks = last.line.start_ticks.wrapping_add(slope.ticks_in(self.config.cpu_difference_ns));
        if is_before(ticks, due_ticks) {
            return Ok(self.waited(in_ns(due_ticks)));
        }
        let limit_ticks = last.end_ticks.wrapping_sub(slope.ticks_in(self.config.margin_ns));
        if !is_before(ticks, limit_ticks) {
            // W2: too late.
            return Ok(self.waited(in_ns(last.end_ticks)));
        }
        self.publish_next(memory, counter, estimate, (current_slot, &last), ticks, limit_ticks)
    }

    /// Rules W2 and W3: publishes the line after `last`, which is current at `ticks`.
    fn publish_next(
        &mut self,
        memory: &impl LeaseStore,
        counter: &impl Counter,
        estimate: &Estimate,
        (slot, last): (SlotNumber, &LeaseLine),
        ticks: u64,
        limit_ticks: u64,
    ) -> Result<WriterStep, PageTaken> {
        let start_ticks = last.end_ticks;
        // Rounded up, as rule 9 has it.
        let from_ns = last.line.fixed_at(start_ticks).ceil_ns();
        let end_ticks = start_ticks.wrapping_add(self.lease_ticks(estimate));
        let next = estimate.line((start_ticks, 0), from_ns, end_ticks, estimate.unix_after(last.unix));
        let free = self.free_slots().0;
        memory.fill(free, &next.to_words());
        let to = self.word.next(LeasePhase::Published, slot, Some(free));
        match memory.swap_between(self.word, to, counter, ticks, limit_ticks) {
            SwapResult::Done => self.word = to,
            SwapResult::OutOfTime => return Ok(self.waited(self.config.cpu_difference_ns)),
            SwapResult::OtherWord => return Err(PageTaken),
        }
        let after_ticks = counter.now_ordered();
        if is_before(after_ticks, ticks) || !is_before(after_ticks, last.end_ticks) {
            return self.doubt(memory);
        }
        let next_in_ns = ns_between(after_ticks, start_ticks, last.line.slope);
        let next_in_ns = next_in_ns.saturating_add(self.config.cpu_difference_ns);
        Ok(WriterStep { action: WriterAction::PublishedNext, next_in_ns })
    }

    /// The same lines with another Unix time, in slots that the word does not name. Safe whenever
    /// the swap takes place, since the lines were in use before.
    fn republish(
        &mut self,
        memory: &impl LeaseStore,
        estimate: &Estimate,
        first: &LeaseLine,
        second: Option<&LeaseLine>,
    ) -> Result<(), PageTaken> {
        let with_unix = |line: &LeaseLine| {
            let unix = estimate.unix_after(line.unix);
            LeaseLine { unix: unix.with_lead(line.lead_ns), ..*line }
        };
        let (first_free, second_free) = self.free_slots();
        memory.fill(first_free, &with_unix(first).to_words());
        let second_free = second.map(|line| {
            memory.fill(second_free, &with_unix(line).to_words());
            second_free
        });
        self.swap(memory, self.word.next(LeasePhase::Published, first_free, second_free))
    }

    fn lease_ticks(&self, estimate: &Estimate) -> u64 {
        estimate.lower.slope.ticks_in(self.config.lease_ns).clamp(1, Line::MAX_DELTA_TICKS >> 1)
    }

    /// Rule W5: publishes the first line.
    fn publish_first(
        &mut self,
        memory: &impl LeaseStore,
        counter: &impl Counter,
        os: &impl Reference,
        estimate: &Estimate,
    ) -> Result<WriterStep, PageTaken> {
        let high_water = HighWater::load(memory, self.word.first());
        let limit = high_water.limit(Timescale::Monotonic);
        let now_ns = os.monotonic_ns();
        // Not by more than the high-water mark's lead. A high-water mark that the lead limits moves
        // with the OS clock. A reader that gives up in the first publication would then be above
        // the line.
        let ahead_ns = high_water.ns.saturating_sub(now_ns);
        if ahead_ns > AHEAD_NS.min(high_water.lead_ns) {
            return Ok(self.waited(ahead_ns.unsigned_abs()));
        }
        if now_ns < self.not_before_ns {
            return Ok(self.waited(now_ns.abs_diff(self.not_before_ns)));
        }
        self.not_before_ns = now_ns.saturating_add_unsigned(self.pause_ns());

        let wait_ticks = estimate.upper.slope.ticks_in(self.config.wait_ns);
        let slot = self.free_slots().0;
        let begin_ticks = counter.now_ordered();
        let deadline_ticks = begin_ticks.wrapping_add(wait_ticks);
        // A counter that is behind this one is further from the deadline.
        let cpu_difference_ticks = estimate.upper.slope.ticks_in(self.config.cpu_difference_ns);
        let longest_ticks = wait_ticks.saturating_add(cpu_difference_ticks);
        memory.fill(slot, &HighWater { deadline_ticks, wait_ticks: longest_ticks, ..high_water }.to_words());
        self.swap(memory, self.word.next(LeasePhase::FirstPublication, slot, None))?;

        let before_ticks = counter.now_ordered();
        let os_ns = os.monotonic_ns();
        let at_ticks = counter.now_ordered();
        let limit_ticks = deadline_ticks.wrapping_sub(wait_ticks >> 1);
        // Too late is what the read of the counter before the swap finds.
        if is_before(before_ticks, begin_ticks) || is_before(at_ticks, before_ticks) {
            return self.give_up(memory);
        }
        if !estimate.explains(os_ns, before_ticks, at_ticks) {
            return self.give_up(memory);
        }
        let since_ticks = at_ticks.wrapping_sub(before_ticks).saturating_add(self.config.counter_ticks);
        let latest_ns = estimate.latest_after(os_ns, since_ticks);
        let from_ns = limit
            .applied_to(os_ns, Timescale::Monotonic)
            .max(latest_ns.saturating_add(self.config.resolution_ns));
        let end_ticks = at_ticks.wrapping_add(self.lease_ticks(estimate));
        let unix = estimate.unix_after(high_water.unix);
        let line = estimate.line((at_ticks, cpu_difference_ticks), from_ns, end_ticks, unix);
        let free = self.free_slots().0;
        memory.fill(free, &line.to_words());
        let to = self.word.next(LeasePhase::Published, free, None);
        match memory.swap_between(self.word, to, counter, at_ticks, limit_ticks) {
            SwapResult::Done => self.word = to,
            SwapResult::OutOfTime => return self.give_up(memory),
            SwapResult::OtherWord => return Err(PageTaken),
        }
        self.doublings = 0;
        let after_ticks = counter.now_ordered();
        if is_before(after_ticks, at_ticks) || !is_before(after_ticks, deadline_ticks) {
            return self.doubt(memory);
        }
        Ok(WriterStep { action: WriterAction::PublishedFirst, next_in_ns: self.config.cpu_difference_ns })
    }

    /// The least time between two first publications, ns.
    const fn pause_ns(&self) -> u64 {
        self.config.pause_ns.saturating_mul(1 << self.doublings)
    }

    /// Ends a first publication with the high-water mark that it began with. The next one waits
    /// twice as long.
    fn give_up(&mut self, memory: &impl LeaseStore) -> Result<WriterStep, PageTaken> {
        self.swap(memory, self.word.next(LeasePhase::NoLine, self.word.first(), None))?;
        let next_in_ns = self.pause_ns();
        self.doublings = self.doublings.saturating_add(1).min(MAX_DOUBLINGS);
        Ok(WriterStep { action: WriterAction::GaveUp, next_in_ns })
    }
}

/// Time from a tick to a later one, ns, rounded up; 0 if it is not later.
fn ns_between(ticks: u64, later: u64, slope: Slope) -> u64 {
    slope.over(ticks_between(ticks, later)).floor_ns().max(0).unsigned_abs().saturating_add(1)
}

#[cfg(test)]
mod tests;
