//! A line for each CPU, for counters of one rate and different origins.
//!
//! The promise is smaller than that of a common line: readings on one CPU are in order, across
//! its line's replacement, its fallback and its recovery. Between two CPUs, or in a thread that
//! is moved, a reading may step back by no more than the sum of their published bounds.
//!
//! ```text
//! (t, cpu) = counter and id              // moved in between -> slow path
//! w = word of units[cpu]                 // no line          -> slow path
//! (base, slope, window) = slot(w)
//! t - w - skipped >= window, or the word is another one now   -> slow path
//! otherwise                                                     base + ((t - w) * slope >> 48)
//! ```
//!
//! **The counter is read first**, because on processors without `rdpid` one instruction reads
//! both counter and id, and a second one would double the cost. So the line may be younger than
//! the reading, if the thread was stopped in between and the CPU was calibrated meanwhile. A line
//! is in use from the tick that was read when its predecessor ended, and starts up to
//! `skipped = 2 * START_GRANULARITY_TICKS` before that. The slow path therefore serves a reading
//! in these first ticks (0.2 us of each interval). Every other reading was made when the line was
//! current, or was replacing its predecessor. The second load of the word only proves that the
//! slope belongs to the word.
//!
//! A unit's control loop runs on its CPU, through a [`PinnedCounter`]. A reader on that CPU that
//! finds the line being replaced has therefore interrupted the writer: it does not wait, and
//! helps at once.
//!
//! [`mode`] says whether readers may use the table. The driver chooses the mode, calibrates the
//! CPUs, and gives up on one.

pub mod mode;

use core::cell::Cell;

use crate::cell::{Latch, State, StateCell};
use crate::counter::{Counter, CpuCounter};
use crate::sample::Reference;
use crate::shared::{Event, Kind, Shared, SlowReading};
use crate::word::FIRST_TICKS;

const _: () = assert!(
    size_of::<Shared<Latch>>() <= 1_024 || cfg!(loom),
    "a table has one for each of up to 4,096 CPUs"
);

/// The number of ids: Linux has 12 bits for them (`VDSO_CPUNODE_BITS`,
/// `arch/x86/include/asm/segment.h`).
pub const CPU_IDS: usize = 1 << 12;

/// A reading of kind `K` by the inlined path, by the line of the CPU that this runs on. `None` if
/// the slow path must be taken.
#[inline(always)]
pub fn read<K: Kind>(units: &[Shared<impl StateCell>], counter: &impl CpuCounter) -> Option<K::Reading> {
    let (ticks, cpu) = if K::ORDERED { counter.now_ordered() } else { counter.now() }?;
    // The window also ends later by that much, which is still well inside the line's validity.
    units.get(cpu)?.read_line::<K>(|| ticks, FIRST_TICKS)
}

/// The slow path: whatever the state of this CPU's unit, an ordered reading, and the id. `None`
/// if the table has no such unit. Waits for nobody; repeats only when the thread was moved, or
/// another one has changed the state meanwhile.
pub fn read_slow<S: StateCell>(
    units: &[Shared<S>],
    counter: &impl CpuCounter,
    reference: &impl Reference,
) -> Option<(usize, SlowReading)> {
    loop {
        let Some((_, cpu)) = counter.now_ordered() else { continue };
        let unit = units.get(cpu)?;
        // A tick that was read after the state, and from this CPU's counter. No other tick says
        // anything about the line.
        let ticks_here =
            || counter.now_ordered().filter(|(_, now_on)| *now_on == cpu).map(|(ticks, _)| ticks);
        let unfinished = |state: &State| {
            // Rule 3: the writer is this CPU's, and does not run while this does.
            if ticks_here().is_some_and(|ticks| unit.help_at(state, ticks, None, reference)) {
                unit.count(Event::Help);
            }
        };
        if let Some(reading) = unit.try_read_slow(ticks_here, || counter.barrier(), reference, unfinished) {
            return Some((cpu, reading));
        }
    }
}

/// The counter of one CPU, for a control loop whose thread was put there.
///
/// The kernel may move the thread all the same (the CPU goes offline, the cpuset changes). From
/// then on this behaves like a counter that was reset and runs backwards. No sample can be taken
/// with it, and no line is published. A line that is being replaced is retired, with a high-water
/// mark that the reference limits.
#[derive(Debug)]
pub struct PinnedCounter<'a, C> {
    counter: &'a C,
    cpu: usize,
    last_ticks: Cell<u64>,
    lost: Cell<bool>,
}

/// How far back a lost counter goes: outside of every window, and a quarter of what a difference
/// can be.
const LOST_TICKS: u64 = 1 << 62;

impl<'a, C: CpuCounter> PinnedCounter<'a, C> {
    /// The counter of `cpu`, if this thread is there.
    pub fn take(counter: &'a C, cpu: usize) -> Option<Self> {
        let (ticks, found) = counter.now_ordered()?;
        (found == cpu).then(|| Self { counter, cpu, last_ticks: Cell::new(ticks), lost: Cell::new(false) })
    }

    /// Whether the thread was moved away meanwhile.
    pub fn is_lost(&self) -> bool {
        self.lost.get()
    }
}

impl<C: CpuCounter> Counter for PinnedCounter<'_, C> {
    fn now(&self) -> u64 {
        self.now_ordered()
    }

    fn now_ordered(&self) -> u64 {
        let last_ticks = self.last_ticks.get();
        let ticks = match self.counter.now_ordered() {
            _ if self.lost.get() => last_ticks.wrapping_sub(1),
            Some((ticks, cpu)) if cpu == self.cpu => ticks,
            _ => {
                self.lost.set(true);
                last_ticks.wrapping_sub(LOST_TICKS)
            }
        };
        self.last_ticks.set(ticks);
        ticks
    }

    fn barrier(&self) {
        self.counter.barrier();
    }
}

#[cfg(test)]
mod tests;
