//! The writer: publishes leases from the control loop's bounds of the OS clock.
//!
//! A page has one writer at a time, whose caller holds a lock. The writer changes the word only by
//! compare-exchange. So if a second writer breaks this rule, one of the two ends without harm (W1).
//! The caller runs an iteration of its own clock, calls [`Writer::iterate`] with the result, and
//! sleeps until the next call is due.
//!
//! This module does not calibrate (`tickline-core`), lock files, or decide about gates.

use tickline_core::counter::Counter;
use tickline_core::reference::Reference;
use tickline_core::units::ticks_between;

use super::memory::{EndMark, LeaseLine, LeaseStore, LeaseWord, SlotNumber, SwapResult};
use super::{LeasePhase, Line, OsBounds, Slope, Timescale, is_before};

mod config;

pub use config::WriterConfig;

/// Rule W9: a line that is further below the OS clock than this is doubted, ns. An NTP daemon's
/// slew of 500 ppm moves the clock by 0.5 ms in the two leases that a word names.
const MAX_BEHIND_NS: i64 = 1_000_000;

/// Rule W10: a kernel that corrects its clock's rate by more than this, ppb, slews the clock fast.
/// At this rate the clock moves by `MAX_BEHIND_NS` in the two leases that a word names. The sum of
/// an NTP daemon's 500 ppm and adjtime(3)'s 500 ppm is no larger.
pub const FAST_RATE_PPB: u64 = 1_000_000;

/// Rule W5: while the end mark is above the OS clock by more than this, ns, the writer makes no
/// first publication. Otherwise each suspend would add a lead. The protocol is in order with any
/// value. With a larger one, a first line may begin with a larger lead. With a smaller one, the
/// writer may wait without a suspend: the mark of a line that has just ended is above the OS clock
/// by the width of the line's bound. 10 us is wider than the bound of a settled line, and shorter
/// than a suspend (`MAX_BELOW_NS` in `bounds.rs` is the same choice).
const MAX_MARK_AHEAD_NS: i64 = 10_000;

/// Rule W2: a line that is above the upper bound by more than this at its end, ns, has no
/// successor. Such a line comes from a suspend in which the counter ran on. A successor removes at
/// most half a lease of the excess, so the excesses of several suspends would add up.
const MAX_EXCESS_NS: i64 = 10_000_000;

/// The writer doubles the pause between first publications at most this many times.
const MAX_DOUBLINGS: u32 = 6;

/// The error of a writer that must end, because another process has changed the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageChanged;

impl core::fmt::Display for PageChanged {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("another process has changed the page, or its file was truncated")
    }
}

impl core::error::Error for PageChanged {}

/// The basis of an iteration. Without bounds, the writer publishes no line (rule W6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// The bounds of the OS clock: the writer publishes lines.
    Bounds(OsBounds),
    /// No bounds: the published leases run out.
    Nothing,
    /// No bounds, and the published lines may be below the OS clock: the writer doubts them.
    Doubt,
}

/// The action of an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriterAction {
    /// Nothing was due.
    Waited,
    /// The writer published a successor.
    PublishedNext,
    /// The writer published a first line.
    PublishedFirst,
    /// The writer gave up a first publication (rule W5).
    GaveUp,
    /// The writer doubted the lines: a line was published too late, is or will be far from the OS
    /// clock, or the basis was [`Basis::Doubt`].
    Doubted,
    /// The writer stored `NoLine`, because the leases had run out or the counter was reset.
    Ended,
    /// The writer published the same lines with another Unix offset.
    SetUnix,
}

/// One iteration of a writer: its action, and the time until the next one is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "`next_in_ns` says when the next iteration is due"]
pub struct WriterIteration {
    /// The action.
    pub action: WriterAction,
    /// The time until the next iteration, ns.
    pub next_in_ns: u64,
}

impl WriterIteration {
    const fn at_once(action: WriterAction) -> Self {
        Self {
            action,
            next_in_ns: 0,
        }
    }
}

/// The ticks of an announced first publication (rule W5).
struct FirstPublicationTicks {
    /// The read of the counter before the announcement.
    begin_ticks: u64,
    /// Readers stop waiting at this tick.
    deadline_ticks: u64,
    /// It is too late to publish the line at this tick, half of the longest wait before the
    /// deadline.
    limit_ticks: u64,
}

/// The writer of a page: `machine/docs/lease.md`, "Rules of the writer". A page has one writer at a
/// time, because the caller holds a lock.
#[derive(Debug)]
pub struct Writer {
    config: WriterConfig,
    /// The word that this writer stored or loaded last.
    word: LeaseWord,
    /// Rule W10: whether the writer waits for the end of a fast slew.
    waits_for_slew: bool,
    /// The number of first publications in a row that failed, up to [`MAX_DOUBLINGS`].
    doublings: u32,
    /// No first publication begins before this time of the OS clock, ns.
    not_before_ns: i64,
}

impl Writer {
    /// Takes over a page whose lock the caller holds (rule W7). The writer continues the leases
    /// that it finds, and ends a first publication that it finds. A page that was switched off from
    /// outside (`switch_off`) stays off, and this writer does nothing.
    ///
    /// # Errors
    ///
    /// [`PageChanged`] if another process writes to the page.
    pub fn start(memory: &impl LeaseStore, config: WriterConfig) -> Result<Self, PageChanged> {
        let found = memory.word();
        let mut writer = Self {
            config,
            word: found,
            waits_for_slew: false,
            doublings: 0,
            not_before_ns: i64::MIN,
        };
        // The swap comes before the first slot is filled. So if two writers start from one word,
        // one of them ends before it has filled a slot.
        writer.replace_word(memory, found.taken_over())?;
        let word = writer.word;
        match word.phase() {
            LeasePhase::Off if !word.stays_off() => writer.end(memory, &EndMark::NONE)?,
            LeasePhase::FirstPublication => {
                writer.end(memory, &EndMark::load(memory, word.first()))?
            }
            LeasePhase::Off | LeasePhase::NoLine | LeasePhase::Published | LeasePhase::Doubted => {}
        }
        Ok(writer)
    }

    /// Whether the writer publishes no line because of a fast slew (rule W10).
    #[must_use]
    pub const fn waits_for_slew(&self) -> bool {
        self.waits_for_slew
    }

    /// Sets the resolution of the OS clock, ns, after the kernel has changed its clocksource.
    pub fn set_os_resolution_ns(&mut self, os_resolution_ns: i64) {
        self.config.os_resolution_ns = os_resolution_ns;
    }

    /// The word that this writer stored or loaded last.
    #[must_use]
    pub const fn word(&self) -> LeaseWord {
        self.word
    }

    /// Makes at most one change of the page, or one first publication. Never panics or waits.
    ///
    /// `counter` is the one by which `basis` has its lines. For a file
    /// (`page_file::LockedPageFile`) it must be [`HardwareCounter`](crate::HardwareCounter).
    /// `kernel_rate_ppb` is the kernel's whole correction of its clock's rate, ppb; `None` if it is
    /// not known. Beyond [`FAST_RATE_PPB`], the writer waits until the bounds show the rate again
    /// (rule W10).
    ///
    /// # Errors
    ///
    /// [`PageChanged`] if another process writes to the page.
    pub fn iterate(
        &mut self,
        memory: &impl LeaseStore,
        counter: &impl Counter,
        os: &impl Reference,
        basis: Basis,
        kernel_rate_ppb: Option<i64>,
    ) -> Result<WriterIteration, PageChanged> {
        if memory.word() != self.word {
            return Err(PageChanged);
        }
        if kernel_rate_ppb.is_some_and(|rate_ppb| rate_ppb.unsigned_abs() > FAST_RATE_PPB) {
            self.waits_for_slew = true;
        } else if let Basis::Bounds(bounds) = basis
            && bounds.rate_uncertainty_ppb() <= FAST_RATE_PPB
        {
            self.waits_for_slew = false;
        }
        let basis = if self.waits_for_slew {
            Basis::Doubt
        } else if let Basis::Bounds(bounds) = basis {
            Basis::Bounds(bounds.with_os_resolution(self.config.os_resolution_ns))
        } else {
            basis
        };
        match (self.word.phase(), &basis) {
            (LeasePhase::Published | LeasePhase::Doubted, basis) => {
                self.iterate_lines(memory, counter, os, basis)
            }
            (LeasePhase::NoLine, Basis::Bounds(bounds)) => {
                self.publish_first(memory, counter, os, bounds)
            }
            _ => Ok(self.waited(self.config.lease_ns)),
        }
    }

    /// An iteration that did nothing. The next one is due after at most a lease, even if the page
    /// that this writer has taken over had garbage in its slots.
    fn waited(&self, next_in_ns: u64) -> WriterIteration {
        WriterIteration {
            action: WriterAction::Waited,
            next_in_ns: next_in_ns.min(self.config.lease_ns),
        }
    }

    /// Two slots of this writer's bank that the word does not name.
    fn free_slots(&self) -> (SlotNumber, SlotNumber) {
        let slots = SlotNumber::in_bank(self.word.bank());
        let mut free = slots.into_iter().filter(|slot| !self.word.names(*slot));
        // Two slots are free, because a word names at most two, and a bank has four.
        let first = free.next().unwrap_or(slots[0]);
        (first, free.next().unwrap_or(first))
    }

    fn free_slot(&self) -> SlotNumber {
        self.free_slots().0
    }

    /// Replaces the word that this writer knows by `to` (rule W1).
    fn replace_word(&mut self, memory: &impl LeaseStore, to: LeaseWord) -> Result<(), PageChanged> {
        if !memory.try_swap(self.word, to) {
            return Err(PageChanged);
        }
        self.word = to;
        Ok(())
    }

    /// Stores `NoLine`: from now on readings have no line, and are not below `end_mark`.
    fn end(&mut self, memory: &impl LeaseStore, end_mark: &EndMark) -> Result<(), PageChanged> {
        let slot = self.free_slot();
        memory.fill(slot, &end_mark.to_words());
        self.replace_word(memory, self.word.next(LeasePhase::NoLine, slot, None))
    }

    /// Stores `Doubted` (rules W2, W3, W6, W9 and W10): readers then also ask the OS clock.
    fn doubt(&mut self, memory: &impl LeaseStore) -> Result<WriterIteration, PageChanged> {
        self.replace_word(
            memory,
            self.word
                .next(LeasePhase::Doubted, self.word.first(), self.word.second()),
        )?;
        Ok(WriterIteration::at_once(WriterAction::Doubted))
    }

    /// Ends or doubts the lines that the word names, changes their Unix offset, or publishes their
    /// successor, whichever is due.
    fn iterate_lines(
        &mut self,
        memory: &impl LeaseStore,
        counter: &impl Counter,
        os: &impl Reference,
        basis: &Basis,
    ) -> Result<WriterIteration, PageChanged> {
        let first_slot = self.word.first();
        let second_slot = self.word.second();
        let first = LeaseLine::load(memory, first_slot);
        let second = second_slot.map(|slot| LeaseLine::load(memory, slot));
        let last = second.unwrap_or(first);
        let os_ns = os.monotonic_ns();
        let ticks = counter.now_ordered();
        let slope = last.line.slope;
        let in_ns = |later: u64| ns_between(ticks, later, slope);
        if is_before(ticks, first.line.start_ticks) {
            // W4: the counter was reset. The mark keeps the lead, and each reader limits it by its
            // own read of the OS clock. If this writer limited the mark by a read now, readers
            // could return more than the mark until the swap.
            let lead_ns = first.lead_ns.max(last.lead_ns);
            self.end(
                memory,
                &EndMark {
                    lead_ns,
                    ..last.end_mark()
                },
            )?;
            return Ok(WriterIteration::at_once(WriterAction::Ended));
        }
        if !is_before(ticks, last.end_ticks) {
            // W4: the leases have run out.
            self.end(memory, &last.end_mark())?;
            return Ok(WriterIteration::at_once(WriterAction::Ended));
        }
        if self.word.phase() == LeasePhase::Doubted {
            return Ok(self.waited(in_ns(last.end_ticks)));
        }
        let current = if is_before(ticks, first.end_ticks) {
            &first
        } else {
            &last
        };
        // W9 holds with bounds and without them.
        let is_left_behind = os_ns.saturating_sub(current.line.ns_at(ticks)) > MAX_BEHIND_NS;
        if *basis == Basis::Doubt || is_left_behind {
            return self.doubt(memory);
        }
        let Basis::Bounds(bounds) = basis else {
            return Ok(self.waited(in_ns(last.end_ticks)));
        };
        if bounds.above_upper_ns(&last) > MAX_EXCESS_NS {
            // W2: this comes before the change of the Unix offset. The line and a new offset would
            // both contain the suspended time.
            return self.doubt(memory);
        }
        if bounds.unix_after(last.unix).offset_ns != last.unix.offset_ns {
            self.republish(memory, bounds, &first, second.as_ref())?;
            return Ok(WriterIteration::at_once(WriterAction::SetUnix));
        }
        let due_ticks = last
            .line
            .start_ticks
            .wrapping_add(slope.ticks_in_ceil(self.config.cpu_difference_ns));
        if is_before(ticks, due_ticks) {
            return Ok(self.waited(in_ns(due_ticks)));
        }
        let limit_ticks = last
            .end_ticks
            .wrapping_sub(slope.ticks_in_ceil(self.config.renewal_notice_ns));
        if !is_before(ticks, limit_ticks) {
            // W2: it is too late for a successor.
            return Ok(self.waited(in_ns(last.end_ticks)));
        }
        self.publish_next(memory, counter, bounds, &last, ticks, limit_ticks)
    }

    /// Publishes the successor of `last`, the last line of the word, which is current at `ticks`
    /// (rules W2 and W3).
    fn publish_next(
        &mut self,
        memory: &impl LeaseStore,
        counter: &impl Counter,
        bounds: &OsBounds,
        last: &LeaseLine,
        ticks: u64,
        limit_ticks: u64,
    ) -> Result<WriterIteration, PageChanged> {
        let start_ticks = last.end_ticks;
        // Rounded up: whole nanoseconds of the successor must not be below those of `last`.
        let from_ns = last.line.fixed_at(start_ticks).ceil_ns();
        let end_ticks = start_ticks.wrapping_add(self.lease_ticks(bounds));
        let next = bounds.line(
            start_ticks,
            0,
            from_ns,
            end_ticks,
            bounds.unix_after(last.unix),
        );
        let last_slot = self.word.second().unwrap_or(self.word.first());
        let free = self.free_slot();
        memory.fill(free, &next.to_words());
        let to = self.word.next(LeasePhase::Published, last_slot, Some(free));
        match memory.try_swap_between(self.word, to, counter, ticks..limit_ticks) {
            SwapResult::Done => self.word = to,
            SwapResult::OutOfTime => return Ok(self.waited(self.config.cpu_difference_ns)),
            SwapResult::OtherWord => return Err(PageChanged),
        }
        let after_ticks = counter.now_ordered();
        if is_before(after_ticks, ticks) || !is_before(after_ticks, last.end_ticks) {
            return self.doubt(memory);
        }
        let next_in_ns = ns_between(after_ticks, start_ticks, last.line.slope);
        let next_in_ns = next_in_ns.saturating_add(self.config.cpu_difference_ns);
        Ok(WriterIteration {
            action: WriterAction::PublishedNext,
            next_in_ns,
        })
    }

    /// Publishes the same lines with another Unix offset, in slots that the word does not name
    /// (rule W8). The swap is safe under any delay, because the lines are already in use.
    fn republish(
        &mut self,
        memory: &impl LeaseStore,
        bounds: &OsBounds,
        first: &LeaseLine,
        second: Option<&LeaseLine>,
    ) -> Result<(), PageChanged> {
        let with_unix = |line: &LeaseLine| {
            let unix = bounds.unix_after(line.unix);
            LeaseLine {
                unix: unix.with_lead(line.lead_ns),
                ..*line
            }
        };
        let (first_free, second_free) = self.free_slots();
        memory.fill(first_free, &with_unix(first).to_words());
        let second_free = second.map(|line| {
            memory.fill(second_free, &with_unix(line).to_words());
            second_free
        });
        self.replace_word(
            memory,
            self.word
                .next(LeasePhase::Published, first_free, second_free),
        )
    }

    fn lease_ticks(&self, bounds: &OsBounds) -> u64 {
        bounds
            .lower
            .slope
            .ticks_in_ceil(self.config.lease_ns)
            .clamp(1, Line::MAX_DELTA_TICKS >> 1)
    }

    /// Publishes a first line (rule W5).
    fn publish_first(
        &mut self,
        memory: &impl LeaseStore,
        counter: &impl Counter,
        os: &impl Reference,
        bounds: &OsBounds,
    ) -> Result<WriterIteration, PageChanged> {
        let end_mark = EndMark::load(memory, self.word.first());
        let now_ns = os.monotonic_ns();
        if let Some(iteration) = self.wait_before_first(now_ns, &end_mark) {
            return Ok(iteration);
        }
        self.not_before_ns = now_ns.saturating_add_unsigned(self.pause_ns());
        let cpu_difference_ticks = bounds
            .upper
            .slope
            .ticks_in_ceil(self.config.cpu_difference_ns);
        let FirstPublicationTicks {
            begin_ticks,
            deadline_ticks,
            limit_ticks,
        } = self.announce_first(memory, counter, bounds, cpu_difference_ticks, &end_mark)?;

        let before_ticks = counter.now_ordered();
        let os_ns = os.monotonic_ns();
        let at_ticks = counter.now_ordered();
        // Only the read just before the swap is compared with the limit (W5).
        if is_before(before_ticks, begin_ticks) || is_before(at_ticks, before_ticks) {
            return self.give_up(memory);
        }
        if !bounds.is_consistent_with(os_ns, before_ticks, at_ticks) {
            return self.give_up(memory);
        }
        let since_ticks = at_ticks
            .wrapping_sub(before_ticks)
            .saturating_add(self.config.counter_resolution_ticks);
        let latest_ns = bounds.latest_after(os_ns, since_ticks);
        let from_ns = end_mark
            .time(Timescale::Monotonic)
            .applied_to(os_ns, Timescale::Monotonic)
            .max(latest_ns.saturating_add(self.config.os_resolution_ns));
        let end_ticks = at_ticks.wrapping_add(self.lease_ticks(bounds));
        let unix = bounds.unix_after(end_mark.unix);
        let line = bounds.line(at_ticks, cpu_difference_ticks, from_ns, end_ticks, unix);
        let free = self.free_slot();
        memory.fill(free, &line.to_words());
        let to = self.word.next(LeasePhase::Published, free, None);
        match memory.try_swap_between(self.word, to, counter, at_ticks..limit_ticks) {
            SwapResult::Done => self.word = to,
            SwapResult::OutOfTime => return self.give_up(memory),
            SwapResult::OtherWord => return Err(PageChanged),
        }
        self.doublings = 0;
        let after_ticks = counter.now_ordered();
        if is_before(after_ticks, at_ticks) || !is_before(after_ticks, deadline_ticks) {
            return self.doubt(memory);
        }
        let next_in_ns = self.config.cpu_difference_ns;
        Ok(WriterIteration {
            action: WriterAction::PublishedFirst,
            next_in_ns,
        })
    }

    /// The iteration of a writer that may not yet make a first publication, at the time `now_ns` of
    /// the OS clock. `None` if it may.
    fn wait_before_first(&self, now_ns: i64, end_mark: &EndMark) -> Option<WriterIteration> {
        // The mark must not be above the OS clock by more than its own lead either. Readers limit
        // such a mark to OS clock + lead, so it would rise during the first publication, and a
        // reader that gives up would return more than the line.
        let ahead_ns = end_mark.ns.saturating_sub(now_ns);
        if ahead_ns > MAX_MARK_AHEAD_NS.min(end_mark.lead_ns) {
            return Some(self.waited(ahead_ns.unsigned_abs()));
        }
        (now_ns < self.not_before_ns).then(|| self.waited(now_ns.abs_diff(self.not_before_ns)))
    }

    /// Stores `FirstPublication`, with `end_mark` and the deadline D.
    fn announce_first(
        &mut self,
        memory: &impl LeaseStore,
        counter: &impl Counter,
        bounds: &OsBounds,
        cpu_difference_ticks: u64,
        end_mark: &EndMark,
    ) -> Result<FirstPublicationTicks, PageChanged> {
        let length_ticks = bounds
            .upper
            .slope
            .ticks_in_ceil(self.config.first_publication_wait_ns);
        let begin_ticks = counter.now_ordered();
        let deadline_ticks = begin_ticks.wrapping_add(length_ticks);
        // A reader on a CPU whose counter is behind this one is further from the deadline.
        let wait_ticks = length_ticks.saturating_add(cpu_difference_ticks);
        let slot = self.free_slot();
        memory.fill(
            slot,
            &EndMark {
                deadline_ticks,
                wait_ticks,
                ..*end_mark
            }
            .to_words(),
        );
        self.replace_word(
            memory,
            self.word.next(LeasePhase::FirstPublication, slot, None),
        )?;
        let limit_ticks = deadline_ticks.wrapping_sub(length_ticks >> 1);
        Ok(FirstPublicationTicks {
            begin_ticks,
            deadline_ticks,
            limit_ticks,
        })
    }

    /// The shortest time between two first publications, ns.
    const fn pause_ns(&self) -> u64 {
        self.config
            .first_publication_pause_ns
            .saturating_mul(1 << self.doublings)
    }

    /// Ends a first publication with the mark from its beginning, and doubles the next pause.
    fn give_up(&mut self, memory: &impl LeaseStore) -> Result<WriterIteration, PageChanged> {
        self.replace_word(
            memory,
            self.word.next(LeasePhase::NoLine, self.word.first(), None),
        )?;
        let next_in_ns = self.pause_ns();
        self.doublings = self.doublings.saturating_add(1).min(MAX_DOUBLINGS);
        Ok(WriterIteration {
            action: WriterAction::GaveUp,
            next_in_ns,
        })
    }
}

/// The time from `ticks` to the tick `later`, ns: at least 1, and not less than the exact time.
fn ns_between(ticks: u64, later: u64, slope: Slope) -> u64 {
    slope
        .over(ticks_between(ticks, later))
        .floor_ns()
        .max(0)
        .unsigned_abs()
        .saturating_add(1)
}

#[cfg(test)]
mod tests;
