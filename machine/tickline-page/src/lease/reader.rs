//! A reading of a page, by a reader that cannot write to the page.
//!
//! ```text
//! w = the word                      // first load
//! the slots that w names
//! c = counter                       // after these loads
//! in the lease of a line, and the word is still w    -> the line at c
//! otherwise: ask the OS, and the word is still w     -> the larger of OS clock and end mark
//! ```
//!
//! This code does not allocate, panic or lock, and calls only its arguments. A reading ends for
//! any contents of the page: after [`MAX_ATTEMPTS`] attempts that find first publications, and
//! after [`MAX_STARTS`] words.
//!
//! This module does not decide whether a page is trusted (`page_file/trust.rs`, `attach.rs`).

use tickline_core::counter::Counter;
use tickline_core::reference::{Reference, Timescale};

use super::memory::{EndMark, LeaseLine, LeaseMemory, LeaseWord, SlotNumber};
use super::slot::{EndingLine, TimeWithLead, UnixOffset};
use super::{LeasePhase, Line, is_before};
use crate::primitive::{AtomicI64, Ordering};

/// A reading finds at most this many words, and then returns the OS clock. A word changes twice a
/// second, so such a reader was stopped nearly as often within one reading.
const MAX_STARTS: u32 = if cfg!(loom) { 4 } else { 64 };

/// After this many attempts in a row at one tick, the reader concludes that the counter stands
/// still. An attempt takes 10 to 60 ns.
const MAX_STILL_ATTEMPTS: u32 = if cfg!(loom) { 2 } else { 20_000 };

/// After this many attempts that found first publications, a reader gives up, because no writer
/// makes a first publication that long: the shortest attempt takes 10 ns, so these take more than
/// the 1 ms of the longest first publication.
const MAX_ATTEMPTS: u32 = if cfg!(loom) { 4 } else { 1 << 17 };

/// After this many attempts, and each time that their number has doubled, a reader yields the CPU.
/// So it yields at most 11 times. A yield can last as long as other threads use the CPU.
const FIRST_PAUSE: u32 = 64;

/// If a line puts Unix time above the kernel's coarse Unix time by more than this, ns, the reader
/// asks the OS, because the clock may have been set back. The coarse time is at most a kernel tick
/// old, 10 ms, unless ticks come late.
const MAX_ABOVE_COARSE_NS: i64 = 50_000_000;

/// The operating system of a reader: the clocks without a page, the coarse clock, and a yield.
pub trait ReaderOs: Reference {
    /// Unix time at the kernel's last tick, ns. `None` if this read would be a system call.
    #[inline(always)]
    fn coarse_unix_ns(&self) -> Option<i64> {
        None
    }

    /// Lets other threads run during a first publication: on one CPU, the writer needs that. A
    /// reading calls this at most 11 times, and otherwise spins.
    fn pause(&self);
}

/// The source of a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageSource {
    /// A line of the page.
    Line,
    /// The OS clock: the reading is the larger of the OS clock and an end mark or a line.
    Os,
}

/// The result of a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct PageReading {
    /// The time, ns.
    pub ns: i64,
    /// The source of the time.
    pub source: PageSource,
}

/// The largest time of the OS clock that this process has read, ns, in the page's time (rule R8).
/// A forked child inherits a copy. The mark must not be in memory that processes share.
#[derive(Debug)]
pub struct ProcessHighWater(AtomicI64);

impl Default for ProcessHighWater {
    fn default() -> Self {
        Self::new()
    }
}

impl ProcessHighWater {
    /// No high-water mark yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicI64::new(i64::MIN))
    }

    /// The high-water mark, ns; `i64::MIN` if there is none.
    #[inline(always)]
    #[must_use]
    pub fn ns(&self) -> i64 {
        // ORDERING: Relaxed, pairs with the `fetch_max` in `raise`. An earlier reading has raised
        // the mark before this load, and the modification order of one variable is enough.
        self.0.load(Ordering::Relaxed)
    }

    /// Raises a reading of `ns` to the mark. Unix time stays as it is, because rule R8 holds only
    /// for a clock that cannot be set.
    #[inline(always)]
    fn applied_to(&self, ns: i64, timescale: Timescale) -> i64 {
        match timescale {
            Timescale::Monotonic => ns.max(self.ns()),
            Timescale::Unix => ns,
        }
    }

    /// Raises the high-water mark to `ns`, if it is lower.
    #[inline]
    pub fn raise(&self, ns: i64) {
        if self.ns() < ns {
            // ORDERING: Relaxed, pairs with the load in `ns`, which has the reason.
            self.0.fetch_max(ns, Ordering::Relaxed);
        }
    }
}

/// The result of one attempt.
enum Attempt {
    /// The line's value; the second load found the word unchanged.
    Line(TimeWithLead),
    /// The reader must ask the OS, and raises the result to this time.
    AskOs(TimeWithLead),
    /// A first publication: the reader must try again.
    Wait,
    /// The word has changed: the reader must start again.
    Changed,
}

/// A reader's wait for first publications. Unlike a reader of `tickline-core` (`WaitForWriter`
/// there), this reader cannot help the writer, so at a limit it gives up.
struct WaitForFirstLine {
    /// The first publication that the reader waits for; off before the first one.
    word: LeaseWord,
    /// The ticks of the first and the last attempt that found this first publication.
    since_ticks: u64,
    last_ticks: u64,
    /// The number of attempts in a row at one tick, and of all attempts.
    still_attempts: u32,
    attempts: u32,
}

impl WaitForFirstLine {
    const NEW: Self = Self {
        word: LeaseWord::from_bits(0),
        since_ticks: 0,
        last_ticks: 0,
        still_attempts: 0,
        attempts: 0,
    };

    /// Counts an attempt that found `word` at `ticks`. Returns whether to keep waiting (rule R7).
    #[inline(always)]
    fn count_and_keep_waiting(&mut self, word: LeaseWord, ticks: u64, end_mark: &EndMark) -> bool {
        if word != self.word {
            self.word = word;
            self.since_ticks = ticks;
            self.still_attempts = 0;
        } else if ticks != self.last_ticks {
            self.still_attempts = 0;
        }
        self.last_ticks = ticks;
        self.still_attempts = self.still_attempts.saturating_add(1);
        self.attempts = self.attempts.saturating_add(1);
        // The tick must be before the deadline, by no more than the longest wait: two-sided.
        end_mark.deadline_ticks.wrapping_sub(ticks).wrapping_sub(1) < end_mark.wait_ticks
            && ticks.wrapping_sub(self.since_ticks) <= end_mark.wait_ticks
            && self.still_attempts < MAX_STILL_ATTEMPTS
            && self.attempts < MAX_ATTEMPTS
    }

    /// Yields the CPU or spins between two attempts.
    #[inline(always)]
    fn pause(&self, os: &impl ReaderOs) {
        if cfg!(loom) || (self.attempts >= FIRST_PAUSE && self.attempts.is_power_of_two()) {
            os.pause();
        } else {
            core::hint::spin_loop();
        }
    }
}

/// An ordered reading of the time of `timescale`, ns: a reading that begins after this one is
/// complete is not smaller, in any process that reads the same page. `machine/docs/lease.md` has
/// the exceptions. `os` must return times of the page's time namespace. Never panics; during a
/// first publication waits for at most 1 ms, and for the end of a [`pause`](ReaderOs::pause).
#[inline(always)]
pub fn read(
    memory: &impl LeaseMemory,
    counter: &impl Counter,
    os: &impl ReaderOs,
    process_high_water: &ProcessHighWater,
    timescale: Timescale,
) -> PageReading {
    let read = PageRead {
        memory,
        counter,
        os,
        process_high_water,
        timescale,
    };
    match read.try_first_line().and_then(|time| read.by_line(time)) {
        Some(reading) => reading,
        None => read_by_attempts(memory, counter, os, process_high_water, timescale),
    }
}

/// Reads the monotonic time, ns, if the page's first line suffices, as it nearly always does.
/// Otherwise `None`, and the caller must call [`read`].
#[inline(always)]
pub(crate) fn read_first_line(
    memory: &impl LeaseMemory,
    counter: &impl Counter,
    process_high_water: &ProcessHighWater,
) -> Option<i64> {
    let timescale = Timescale::Monotonic;
    // The first line is tried without the OS.
    let time = PageRead {
        memory,
        counter,
        os: &(),
        process_high_water,
        timescale,
    }
    .try_first_line()?;
    Some(process_high_water.applied_to(time.ns, timescale))
}

/// Reads the time where [`PageRead::try_first_line`] does not suffice. The arguments are the fields
/// of a [`PageRead`], so that the caller keeps them in registers.
#[cold]
#[inline(never)]
fn read_by_attempts(
    memory: &impl LeaseMemory,
    counter: &impl Counter,
    os: &impl ReaderOs,
    process_high_water: &ProcessHighWater,
    timescale: Timescale,
) -> PageReading {
    let read = PageRead {
        memory,
        counter,
        os,
        process_high_water,
        timescale,
    };
    let mut wait = WaitForFirstLine::NEW;
    let mut starts = 1_u32;
    while starts < MAX_STARTS {
        let word = memory.word();
        let time = match read.attempt(word, &mut wait) {
            Attempt::Line(time) => match read.by_line(time) {
                Some(reading) => return reading,
                None => time,
            },
            Attempt::AskOs(time) => time,
            Attempt::Wait => {
                wait.pause(os);
                continue;
            }
            Attempt::Changed => {
                starts = starts.saturating_add(1);
                continue;
            }
        };
        let os_ns = timescale.now_ns(os);
        // The second load comes after this read: a new line may already be below it.
        if memory.is_still(word) {
            return read.fallback(time.applied_to(os_ns, timescale));
        }
        starts = starts.saturating_add(1);
    }
    read.fallback(timescale.now_ns(os))
}

/// A reading: the page's memory, the clocks, the process's high-water mark, and the timescale.
struct PageRead<'a, M, C, O> {
    memory: &'a M,
    counter: &'a C,
    os: &'a O,
    process_high_water: &'a ProcessHighWater,
    timescale: Timescale,
}

impl<M: LeaseMemory, C: Counter, O> PageRead<'_, M, C, O> {
    /// The reading that follows from `ns`, the OS clock as the page has raised it: not below the
    /// process's high-water mark, which it raises (rule R8).
    #[inline(always)]
    fn fallback(&self, ns: i64) -> PageReading {
        let ns = self.process_high_water.applied_to(ns, self.timescale);
        if self.timescale == Timescale::Monotonic {
            self.process_high_water.raise(ns);
        }
        PageReading {
            ns,
            source: PageSource::Os,
        }
    }

    /// The reading that follows from `time`, a line's value. It is not below the process's
    /// high-water mark (R8), and as Unix time not below the kernel's last tick (R9). `None` if the
    /// value is so far above that tick that Unix time may have been set back (R10).
    #[inline(always)]
    fn by_line(&self, time: TimeWithLead) -> Option<PageReading>
    where
        O: ReaderOs,
    {
        let ns = match self.timescale {
            Timescale::Monotonic => time.ns,
            Timescale::Unix => {
                let coarse_ns = self.os.coarse_unix_ns().unwrap_or(time.ns);
                if time.ns.saturating_sub(coarse_ns) > MAX_ABOVE_COARSE_NS {
                    return None;
                }
                time.ns.max(coarse_ns)
            }
        };
        let ns = self.process_high_water.applied_to(ns, self.timescale);
        Some(PageReading {
            ns,
            source: PageSource::Line,
        })
    }

    /// Tries only the first published line, which nearly always suffices. The rest needs more
    /// registers.
    #[inline(always)]
    fn try_first_line(&self) -> Option<TimeWithLead> {
        let word = self.memory.word();
        if word.phase() != LeasePhase::Published {
            return None;
        }
        let slot = word.first();
        let EndingLine { line, end_ticks } = EndingLine::load(self.memory, slot);
        let ticks = self.counter.now_ordered();
        // One comparison checks both ends, because every lease that a writer makes is shorter than
        // half of the counter's range.
        if ticks.wrapping_sub(line.start_ticks) >= end_ticks.wrapping_sub(line.start_ticks) {
            return None;
        }
        match self.try_line(word, &line, slot, ticks) {
            Attempt::Line(time) => Some(time),
            Attempt::AskOs(_) | Attempt::Wait | Attempt::Changed => None,
        }
    }

    /// Makes an attempt: loads the slots that `word` names, and reads the counter if the phase
    /// needs it.
    #[inline(always)]
    fn attempt(&self, word: LeaseWord, wait: &mut WaitForFirstLine) -> Attempt {
        match word.phase() {
            LeasePhase::Off => Attempt::AskOs(TimeWithLead::NONE),
            LeasePhase::NoLine => {
                Attempt::AskOs(EndMark::load(self.memory, word.first()).time(self.timescale))
            }
            LeasePhase::FirstPublication => {
                let end_mark = EndMark::load(self.memory, word.first());
                let ticks = self.counter.now_ordered();
                if !self.memory.is_still(word) {
                    Attempt::Changed
                } else if wait.count_and_keep_waiting(word, ticks, &end_mark) {
                    Attempt::Wait
                } else {
                    Attempt::AskOs(end_mark.time(self.timescale))
                }
            }
            LeasePhase::Published | LeasePhase::Doubted => self.try_lines(word),
        }
    }

    /// Makes an attempt with the lines that `word` names (rules R2 to R5).
    #[inline(always)]
    fn try_lines(&self, word: LeaseWord) -> Attempt {
        let (first_slot, last_slot) = (word.first(), word.second().unwrap_or(word.first()));
        let (first, last) = (
            EndingLine::load(self.memory, first_slot),
            EndingLine::load(self.memory, last_slot),
        );
        let ticks = self.counter.now_ordered();
        let (line, slot) = if is_before(ticks, first.line.start_ticks) {
            // R4: the counter was reset.
            let lead_ns = |slot| LeaseLine::load_lead(self.memory, slot);
            let lead_ns = lead_ns(first_slot).max(lead_ns(last_slot));
            return Attempt::AskOs(self.in_timescale(last_slot, last.end_ns(), lead_ns));
        } else if is_before(ticks, first.end_ticks) {
            (first.line, first_slot)
        } else if is_before(ticks, last.end_ticks) {
            (last.line, last_slot)
        } else {
            // R3: the leases have run out.
            return Attempt::AskOs(self.in_timescale(last_slot, last.end_ns(), i64::MAX));
        };
        self.try_line(word, &line, slot, ticks)
    }

    /// Makes an attempt with the line in `slot`, whose lease contains `ticks`.
    #[inline(always)]
    fn try_line(&self, word: LeaseWord, line: &Line, slot: SlotNumber, ticks: u64) -> Attempt {
        let time = self.in_timescale(slot, line.ns_at(ticks), i64::MAX);
        if !self.memory.is_still(word) {
            Attempt::Changed
        } else if word.phase() == LeasePhase::Doubted
            || (self.timescale == Timescale::Unix && time.is_none())
        {
            // R5, or Unix time comes from the OS clock.
            Attempt::AskOs(time)
        } else {
            Attempt::Line(time)
        }
    }

    /// The time in this reading's timescale of `ns`, a time of the page with the lead `lead_ns`.
    /// For Unix time, offset and lead come from `slot`.
    #[inline(always)]
    fn in_timescale(&self, slot: SlotNumber, ns: i64, lead_ns: i64) -> TimeWithLead {
        match self.timescale {
            Timescale::Monotonic => TimeWithLead { ns, lead_ns },
            Timescale::Unix => UnixOffset::load(self.memory, slot).unix_time(ns),
        }
    }
}

#[cfg(test)]
mod tests;
