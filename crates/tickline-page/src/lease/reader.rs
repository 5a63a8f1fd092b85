//! A reading: pure, for memory that the reader cannot write to.
//!
//! ```text
//! w = the word                      // first look
//! the slots that w names
//! c = counter                       // after these loads
//! in the window of a line, and the word is still w   -> the line at c
//! otherwise: ask the OS, and the word is still w     -> the larger of OS clock and high-water mark
//! ```
//!
//! This code does not allocate, panic or lock, and calls only its arguments. A reading ends for
//! any contents of the page: after [`MAX_ATTEMPTS`] at first publications, and after [`MAX_STARTS`]
//! words.
//!
//! What this module does not do: decide whether a page is trusted (`host/trust.rs`, `attach.rs`).

use tickline_core::counter::Counter;
use tickline_core::sample::{Reference, Timescale};

use super::slot::{LowerLimit, UnixOffset, Window};
use super::{HighWater, LeaseLine, LeaseMemory, LeasePhase, LeaseWord, Line, SlotNumber, is_before};
use crate::primitive::{AtomicI64, Ordering};

/// How often a reading starts again because the word has changed. Words change twice a second, so a
/// reader would have to be stopped as often within one reading. After that the reading is the OS
/// clock.
const MAX_STARTS: u32 = if cfg!(loom) { 4 } else { 64 };

/// After this many attempts in a row that found one tick, the counter counts as one that stands
/// still. An attempt takes 10 to 60 ns.
const MAX_STILL_ATTEMPTS: u32 = if cfg!(loom) { 2 } else { 20_000 };

/// After this many attempts that found first publications, a reader gives up: they last for longer
/// than any writer makes them. The shortest attempt takes 10 ns, so that 1 ms, the longest first
/// publication, ends first.
const MAX_ATTEMPTS: u32 = if cfg!(loom) { 4 } else { 1 << 17 };

/// After this many attempts, and each time that their number has doubled, a reader lets others run.
/// So it yields at most 11 times. A yield can take as long as others use the CPU.
const FIRST_PAUSE: u32 = 64;

/// If a Unix reading is above the kernel's coarse Unix time by more than this, ns, it asks the OS.
/// Somebody may have set the clock back. The coarse time is at most a tick old, 10 ms, unless ticks
/// come late.
const FAR_NS: i64 = 50_000_000;

/// What a reader of a page asks its OS: the clocks that it would have without the page, and two
/// things more.
pub trait ReaderOs: Reference {
    /// Unix time of the kernel's last tick, ns, where that costs no system call.
    #[inline(always)]
    fn coarse_realtime_ns(&self) -> Option<i64> {
        None
    }

    /// Lets others run, while a first publication lasts: yields where there is one CPU. Called at
    /// most 11 times a reading; between, the reader spins.
    fn pause(&self);
}

/// A time of the page that is not above the OS clock by more than `lead_ns`, in `timescale`; Unix
/// time is by what `slot` says.
#[inline(always)]
fn limit(
    timescale: Timescale,
    memory: &impl LeaseMemory,
    slot: SlotNumber,
    ns: i64,
    lead_ns: i64,
) -> LowerLimit {
    match timescale {
        Timescale::Monotonic => LowerLimit { ns, lead_ns },
        Timescale::Unix => UnixOffset::load(memory, slot).limit(ns),
    }
}

/// Where a reading came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageSource {
    /// A line.
    Line,
    /// The OS clock: the reading is the larger of the OS clock and a high-water mark or a line.
    Os,
}

/// A reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct PageReading {
    /// The time, ns.
    pub ns: i64,
    /// Where it came from.
    pub source: PageSource,
}

/// The largest time of the OS clock that this process has read, ns, in the page's time (rule R8).
/// A forked child inherits a copy. Never in memory that processes share.
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
        // ORDERING: Relaxed, pairs with the maximum in `raise`. A reading that happened before
        // has raised the high-water mark before, and the order of one variable's changes is enough.
        self.0.load(Ordering::Relaxed)
    }

    /// A reading that would be `ns`. Rule R8 holds for time that nobody sets.
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
            // ORDERING: Relaxed, as in `ns`.
            self.0.fetch_max(ns, Ordering::Relaxed);
        }
    }
}

/// What one attempt found.
enum Attempt {
    /// A line: its value, while the word was the same.
    Line(LowerLimit),
    /// Ask the OS: the reading is not below this.
    Ask(LowerLimit),
    /// A first publication: try again.
    Wait,
    /// The word has changed: start again.
    Changed,
}

/// How long the reader has been waiting. Unlike a reader that could help the writer (`Wait` in
/// `tickline-core`), this one then gives up.
struct Wait {
    /// The first publication that it waits for; off before the first.
    word: LeaseWord,
    /// The ticks at which the first and the last attempt found it.
    since_ticks: u64,
    last_ticks: u64,
    /// Attempts in a row at one tick, and all attempts.
    still_attempts: u32,
    attempts: u32,
}

impl Wait {
    const NEW: Self =
        Self { word: LeaseWord::from_bits(0), since_ticks: 0, last_ticks: 0, still_attempts: 0, attempts: 0 };

    /// Whether the first publication of `word` is waited for at `ticks` (rule R7).
    #[inline(always)]
    fn lasts(&mut self, word: LeaseWord, ticks: u64, high_water: &HighWater) -> bool {
        if word != self.word {
            (self.word, self.since_ticks, self.still_attempts) = (word, ticks, 0);
        } else if ticks != self.last_ticks {
            self.still_attempts = 0;
        }
        self.last_ticks = ticks;
        self.still_attempts = self.still_attempts.saturating_add(1);
        self.attempts = self.attempts.saturating_add(1);
        // Before the deadline, and not further than the longest first publication: two-sided.
        high_water.deadline_ticks.wrapping_sub(ticks).wrapping_sub(1) < high_water.wait_ticks
            && ticks.wrapping_sub(self.since_ticks) <= high_water.wait_ticks
            && self.still_attempts < MAX_STILL_ATTEMPTS
            && self.attempts < MAX_ATTEMPTS
    }

    /// Between two attempts.
    #[inline(always)]
    fn rest(&self, os: &impl ReaderOs) {
        if cfg!(loom) || (self.attempts >= FIRST_PAUSE && self.attempts.is_power_of_two()) {
            os.pause();
        } else {
            core::hint::spin_loop();
        }
    }
}

/// A reading of `timescale`, ns. It is an ordered reading: a reading that begins after it was
/// complete is not smaller. This holds for all processes that read the same page. `docs/lease.md`
/// has the exceptions. `os` is in the page's time namespace. Never panics; waits for at most 1 ms,
/// during a first publication.
#[inline(always)]
pub fn read(
    memory: &impl LeaseMemory,
    counter: &impl Counter,
    os: &impl ReaderOs,
    process_high_water: &ProcessHighWater,
    timescale: Timescale,
) -> PageReading {
    let line = try_first_line(memory, counter, timescale);
    match line.and_then(|line| by_line(line, os, process_high_water, timescale)) {
        Some(reading) => reading,
        None => read_slow(memory, counter, os, process_high_water, timescale),
    }
}

/// [`read`] for the monotonic time, ns, where it needs nothing but the page's first line: nearly
/// always. Otherwise `None`.
#[inline(always)]
pub(crate) fn read_first_line(
    memory: &impl LeaseMemory,
    counter: &impl Counter,
    process_high_water: &ProcessHighWater,
) -> Option<i64> {
    let line = try_first_line(memory, counter, Timescale::Monotonic)?;
    Some(process_high_water.applied_to(line.ns, Timescale::Monotonic))
}

/// A reading that [`try_first_line`] was not enough for.
#[cold]
#[inline(never)]
fn read_slow(
    memory: &impl LeaseMemory,
    counter: &impl Counter,
    os: &impl ReaderOs,
    process_high_water: &ProcessHighWater,
    timescale: Timescale,
) -> PageReading {
    let mut wait = Wait::NEW;
    let mut starts = 1_u32;
    while starts < MAX_STARTS {
        let word = memory.word();
        let limit = match attempt(memory, counter, word, timescale, &mut wait) {
            Attempt::Line(line) => match by_line(line, os, process_high_water, timescale) {
                Some(reading) => return reading,
                None => line,
            },
            Attempt::Ask(limit) => limit,
            Attempt::Wait => {
                wait.rest(os);
                continue;
            }
            Attempt::Changed => {
                starts = starts.saturating_add(1);
                continue;
            }
        };
        let os_ns = timescale.now_ns(os);
        // The second look, after the OS was asked: a line published meanwhile may be below that.
        if memory.is_still(word) {
            return fallback(limit.applied_to(os_ns, timescale), process_high_water, timescale);
        }
        starts = starts.saturating_add(1);
    }
    fallback(timescale.now_ns(os), process_high_water, timescale)
}

/// Rule R8: raises the process's high-water mark to what the OS clock led to, and respects it.
#[inline(always)]
fn fallback(ns: i64, process_high_water: &ProcessHighWater, timescale: Timescale) -> PageReading {
    let ns = process_high_water.applied_to(ns, timescale);
    if timescale == Timescale::Monotonic {
        process_high_water.raise(ns);
    }
    PageReading { ns, source: PageSource::Os }
}

/// What a line says, not below the process's high-water mark (R8); Unix time not below the kernel's
/// last tick (R9). Rule R10: `None` if it is so far above that Unix time may have been set back.
#[inline(always)]
fn by_line(
    line: LowerLimit,
    os: &impl ReaderOs,
    process_high_water: &ProcessHighWater,
    timescale: Timescale,
) -> Option<PageReading> {
    let ns = match timescale {
        Timescale::Monotonic => line.ns,
        Timescale::Unix => {
            let coarse_ns = os.coarse_realtime_ns().unwrap_or(line.ns);
            if line.ns.saturating_sub(coarse_ns) > FAR_NS {
                return None;
            }
            line.ns.max(coarse_ns)
        }
    };
    Some(PageReading { ns: process_high_water.applied_to(ns, timescale), source: PageSource::Line })
}

/// The first published line, in its window. Nearly all readings need no more than this, and the
/// rest would fill the registers.
#[inline(always)]
fn try_first_line(
    memory: &impl LeaseMemory,
    counter: &impl Counter,
    timescale: Timescale,
) -> Option<LowerLimit> {
    let word = memory.word();
    if word.phase() != LeasePhase::Published {
        return None;
    }
    let slot = word.first();
    let Window { line, end_ticks } = Window::load(memory, slot);
    let ticks = counter.now_ordered();
    // One comparison for both ends: every writer's window is shorter than half of the counter's
    // range.
    if ticks.wrapping_sub(line.start_ticks) >= end_ticks.wrapping_sub(line.start_ticks) {
        return None;
    }
    match try_line(memory, word, (&line, slot), ticks, timescale) {
        Attempt::Line(line) => Some(line),
        Attempt::Ask(_) | Attempt::Wait | Attempt::Changed => None,
    }
}

/// One attempt: the word, what it names, and the counter if the word allows it.
#[inline(always)]
fn attempt(
    memory: &impl LeaseMemory,
    counter: &impl Counter,
    word: LeaseWord,
    timescale: Timescale,
    wait: &mut Wait,
) -> Attempt {
    match word.phase() {
        LeasePhase::Off => Attempt::Ask(LowerLimit::NONE),
        LeasePhase::NoLine => Attempt::Ask(HighWater::load(memory, word.first()).limit(timescale)),
        LeasePhase::FirstPublication => {
            let high_water = HighWater::load(memory, word.first());
            let ticks = counter.now_ordered();
            if !memory.is_still(word) {
                Attempt::Changed
            } else if wait.lasts(word, ticks, &high_water) {
                Attempt::Wait
            } else {
                Attempt::Ask(high_water.limit(timescale))
            }
        }
        LeasePhase::Published | LeasePhase::Doubted => try_lines(memory, counter, word, timescale),
    }
}

/// Rules R2 to R5.
#[inline(always)]
fn try_lines(
    memory: &impl LeaseMemory,
    counter: &impl Counter,
    word: LeaseWord,
    timescale: Timescale,
) -> Attempt {
    let (first_slot, last_slot) = (word.first(), word.second().unwrap_or(word.first()));
    let (first, last) = (Window::load(memory, first_slot), Window::load(memory, last_slot));
    let ticks = counter.now_ordered();
    let (line, slot) = if is_before(ticks, first.line.start_ticks) {
        // R4: the counter was reset.
        let lead_ns = LeaseLine::load_lead(memory, first_slot).max(LeaseLine::load_lead(memory, last_slot));
        return Attempt::Ask(limit(timescale, memory, last_slot, last.end_ns(), lead_ns));
    } else if is_before(ticks, first.end_ticks) {
        (first.line, first_slot)
    } else if is_before(ticks, last.end_ticks) {
        (last.line, last_slot)
    } else {
        // R3: the leases have run out.
        return Attempt::Ask(limit(timescale, memory, last_slot, last.end_ns(), i64::MAX));
    };
    try_line(memory, word, (&line, slot), ticks, timescale)
}

/// The line in `slot` at a tick of its window.
#[inline(always)]
fn try_line(
    memory: &impl LeaseMemory,
    word: LeaseWord,
    (line, slot): (&Line, SlotNumber),
    ticks: u64,
    timescale: Timescale,
) -> Attempt {
    let limit = limit(timescale, memory, slot, line.at(ticks), i64::MAX);
    if !memory.is_still(word) {
        Attempt::Changed
    } else if word.phase() == LeasePhase::Doubted || (timescale == Timescale::Unix && limit.is_none()) {
        // R5; or the line leaves Unix time to the OS.
        Attempt::Ask(limit)
    } else {
        Attempt::Line(limit)
    }
}

#[cfg(test)]
mod tests;
