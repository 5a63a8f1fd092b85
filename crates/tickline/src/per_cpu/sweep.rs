//! The thread's calibrations of the CPUs, by turns.

use core::sync::atomic::Ordering;
use core::time::Duration;

use tickline_core::cell::{Latch, StateCell};
use tickline_core::control::{Config, Control, Iteration, MIN_INTERVAL_NS, Outcome, Renewal};
use tickline_core::counter::HardwareCpuCounter;
use tickline_core::per_cpu::PinnedCounter;
use tickline_core::sample::Reference;
use tickline_core::shared::Shared;

use super::{FALLEN_BACK, Table, UNVISITED, VISITED, state_of};
use crate::status::CpuState;
use crate::sys::reference::OsClock;
use crate::sys::{ClockSetNotifier, CpuMask, Woken};

/// A CPU that is to be visited again this soon is waited for there, ns: to go elsewhere and come back takes milliseconds if it
/// is busy, and the short lines of the start would not live for so long. The intervals grow by half from round to iteration, so
/// this is left after some 10 iterations and 6 ms.
const STAY_NS: u64 = 2_000_000;

/// ...but no longer than for so many iterations.
const STAY_ITERATIONS: u32 = 16;

/// What the thread remembers of its visits.
#[derive(Debug, Default)]
pub(crate) struct CpuSweep {
    visits: Vec<CpuCalibration>,
    /// Whether the clock was set since the last sweep.
    forced: bool,
}

#[derive(Debug, Default)]
struct CpuCalibration {
    control: Option<Box<Control>>,
    /// When the next one is due, ns...
    due_ns: i64,
    /// ...and when it may be paid if the thread is awake for another CPU: a wake-up costs more than a visit.
    ready_ns: i64,
    /// Since when there is no line, ns; `None` before the first visit.
    waiting_since_ns: Option<i64>,
}

/// Puts the thread back where it may run, when dropped.
struct AffinityGuard<'a>(&'a CpuMask);

impl Drop for AffinityGuard<'_> {
    fn drop(&mut self) {
        self.0.restore();
    }
}

impl CpuSweep {
    /// Every CPU is due: the clock was set.
    pub(crate) fn force_due(&mut self) {
        self.forced = true;
    }

    /// Visits the CPUs that are due, until `notice` says that the thread is to stop. Returns the time until the next one is, ns.
    pub(crate) fn run(&mut self, table: &Table, config: &Config, notice: &ClockSetNotifier) -> u64 {
        let Some(mask) = CpuMask::of_this_thread() else { return config.interval_ns };
        self.visits.resize_with(table.units.len(), CpuCalibration::default);
        let interval_ns = i64::try_from(config.interval_ns).unwrap_or(i64::MAX);
        if core::mem::take(&mut self.forced) {
            self.visits.iter_mut().for_each(|visit| (visit.ready_ns, visit.due_ns) = (i64::MIN, i64::MIN));
        }
        let mut next_ns = OsClock.monotonic_ns().saturating_add(interval_ns);
        let home = AffinityGuard(&mask);
        for (cpu, (visit, note)) in self.visits.iter_mut().zip(&table.notes).enumerate() {
            // ORDERING: Relaxed, see `CpuRecord::ask`.
            if !mask.contains(cpu) && !note.asked.load(Ordering::Relaxed) {
                *visit = CpuCalibration::default();
                // ORDERING: Relaxed, for display.
                note.state.store(UNVISITED, Ordering::Relaxed);
                continue;
            }
            if visit.ready_ns <= OsClock.monotonic_ns() {
                match visit.calibrate(cpu, table, config, notice) {
                    Woken::Timeout => {}
                    Woken::ClockSet => self.forced = true,
                    Woken::Stopped => break,
                }
            }
            next_ns = next_ns.min(visit.due_ns);
        }
        drop(home);
        if self.forced {
            return MIN_INTERVAL_NS;
        }
        let wait_ns = next_ns.saturating_sub(OsClock.monotonic_ns());
        u64::try_from(wait_ns).unwrap_or(0).max(MIN_INTERVAL_NS)
    }
}

impl CpuCalibration {
    fn calibrate(&mut self, cpu: usize, table: &Table, config: &Config, notice: &ClockSetNotifier) -> Woken {
        let (Some(unit), Some(note)) = (table.units.get(cpu), table.notes.get(cpu)) else {
            return Woken::Timeout;
        };
        let (mut outcome, mut woken) = (None, Woken::Timeout);
        for _ in 0..STAY_ITERATIONS {
            outcome = self.iterate(cpu, unit, &table.counter, config);
            match outcome {
                Some(Outcome { next_in_ns, .. }) if next_in_ns <= STAY_NS.min(config.interval_ns >> 1) => {
                    woken = notice.wait(Duration::from_nanos(next_in_ns));
                }
                _ => break,
            }
            if woken != Woken::Timeout {
                break;
            }
        }
        let now_ns = OsClock.monotonic_ns();
        match outcome {
            Some(Outcome { iteration: Iteration::Published | Iteration::Recovered, .. }) => {
                // ORDERING: Relaxed, for display.
                note.published_ns.store(now_ns, Ordering::Relaxed);
                self.waiting_since_ns = Some(now_ns);
            }
            Some(_) => {}
            None => {
                note.fail();
                // ORDERING: Relaxed, see `CpuRecord::ask`. Who is there after all will ask again.
                note.asked.store(false, Ordering::Relaxed);
            }
        }
        let wait_ns = outcome.map_or(config.interval_ns, |outcome| outcome.next_in_ns);
        let wait_ns = i64::try_from(wait_ns).unwrap_or(i64::MAX);
        self.due_ns = now_ns.saturating_add(wait_ns);
        self.ready_ns = self.due_ns.saturating_sub(wait_ns >> 2);
        let waited_ns = now_ns.saturating_sub(*self.waiting_since_ns.get_or_insert(now_ns));
        let fallen_back = state_of(unit.cell.word().is_published(), waited_ns) == CpuState::Fallback;
        let state = if fallen_back { FALLEN_BACK } else { VISITED };
        // ORDERING: Relaxed, for display; only this thread writes it.
        if note.state.swap(state, Ordering::Relaxed) != state && fallen_back {
            note.fail();
        }
        woken
    }

    /// An iteration on `cpu`, and a second one after a recovery. `None` if the thread could not be there all the time.
    fn iterate(
        &mut self,
        cpu: usize,
        unit: &Shared<Latch>,
        counter: &HardwareCpuCounter,
        config: &Config,
    ) -> Option<Outcome> {
        if !CpuMask::only(cpu)?.apply() {
            return None;
        }
        // Some systems number their CPUs otherwise than the register does.
        let seat = PinnedCounter::take(counter, cpu)?;
        let control = self.control.get_or_insert_with(|| Box::new(Control::new(*config)));
        control.reschedule(Renewal::Pinned, config.interval_ns);
        let mut outcome = control.maintain(unit, &seat, &OsClock);
        if outcome.iteration == Iteration::Recovered {
            outcome = control.maintain(unit, &seat, &OsClock);
        }
        (!seat.is_lost()).then_some(outcome)
    }
}
