//! A line for each CPU, for counters of one rate and different origins: the table, and the thread's visits.
//!
//! Readers find the line by the CPU they run on (`tickline_core::per_cpu`); the common line stays cold, so that the inlined path
//! of every other clock is what it was. The thread that recalibrates visits the CPUs by turns: it binds itself to one,
//! looks where it is, does an iteration of that CPU's control loop, and goes on; at the end it gets its own set of CPUs back. Which
//! CPUs: those that it may run on, asked anew each time (cpusets change, CPUs go offline), and those on which a reader has
//! missed a line. `core_affinity` does not serve: its masks end at 1,024 CPUs.
//!
//! A CPU that cannot be visited, or whose iterations make no line, is served by the OS alone, at the latest when its line ends;
//! it is tried on, and said to have fallen back after [`PATIENCE_NS`].
//!
//! A unit takes 6 KB for each CPU id that the system may ever use.

mod shown;

use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use core::time::Duration;

use tickline_core::cell::{Latch, StateCell};
use tickline_core::compare::Comparison;
use tickline_core::control::{Config, Control, Iteration, MIN_INTERVAL_NS, Outcome, Renewal};
use tickline_core::counter::{CpuCounter, HardwareCpuCounter};
use tickline_core::per_cpu::{self, CPU_IDS, PinnedCounter, mode};
use tickline_core::sample::Reference;
use tickline_core::shared::{Event, Kind, Shared, Source};

use crate::process::{self, ClockSetNotifier, CpuMask, Woken};
use crate::reference::OsClock;

pub use shown::{CpuState, CpuStatus, PerCpu, PerCpuUnsupported};

/// How long a CPU is without a line before it counts as fallen back, ns: as in libmtev, whose `mtev_time.c` gives a core up
/// after 15 s without a calibration.
const PATIENCE_NS: i64 = 15_000_000_000;

/// Whether there is to be a line for each CPU, by what the comparison of the counters says.
pub(crate) const fn wanted(choice: PerCpu, comparison: Comparison) -> bool {
    match choice {
        PerCpu::On => true,
        PerCpu::Off => false,
        PerCpu::Auto => matches!(comparison, Comparison::Unsynchronised(_)),
    }
}

/// What the mode needs: the counter with its id, and how many ids there are.
pub(crate) fn needs() -> Result<(HardwareCpuCounter, usize), PerCpuUnsupported> {
    let counter = HardwareCpuCounter::detect().ok_or(PerCpuUnsupported::Instruction)?;
    let ids = process::cpu_ids().ok_or(PerCpuUnsupported::System)?;
    if ids > CPU_IDS { Err(PerCpuUnsupported::TooManyIds) } else { Ok((counter, ids)) }
}

const fn state_of(live: bool, waited_ns: i64) -> CpuState {
    if live {
        CpuState::Fast
    } else if waited_ns >= PATIENCE_NS {
        CpuState::Fallback
    } else {
        CpuState::Calibrating
    }
}

/// What is known of a CPU besides its line. Written by the thread, but for `asked`.
#[derive(Debug, Default)]
struct CpuRecord {
    /// A reader was here, and had no line.
    asked: AtomicBool,
    /// 0: not visited. Else a `CpuState` without a line, plus one.
    state: AtomicU8,
    failures: AtomicU64,
    /// When the last line was published, ns; 0 before the first one.
    published_ns: AtomicI64,
}

impl CpuRecord {
    fn ask(&self) {
        // ORDERING: Relaxed for both, a wish that orders nothing. Looked at first: a store would take the cache line each time.
        if !self.asked.load(Ordering::Relaxed) {
            // ORDERING: as above.
            self.asked.store(true, Ordering::Relaxed);
        }
    }

    fn fail(&self) {
        // ORDERING: Relaxed, a count that orders nothing.
        self.failures.fetch_add(1, Ordering::Relaxed);
    }
}

/// A CPU that is to be visited again this soon is waited for there, ns: to go elsewhere and come back takes milliseconds if it
/// is busy, and the short lines of the start would not live for so long. The intervals grow by half from round to iteration, so
/// this is left after some 10 iterations and 6 ms.
const STAY_NS: u64 = 2_000_000;

/// ...but no longer than for so many iterations.
const STAY_ITERATIONS: u32 = 16;

/// Not visited; and the other values of `CpuRecord::state`.
const UNVISITED: u8 = 0;
const VISITED: u8 = 1;
const FALLEN_BACK: u8 = 2;

/// The lines of all CPUs, by their ids.
#[derive(Debug)]
pub(crate) struct Table {
    units: Box<[Shared<Latch>]>,
    notes: Box<[CpuRecord]>,
    counter: HardwareCpuCounter,
}

impl Table {
    fn new() -> Option<Self> {
        needs().ok().map(|(counter, ids)| Self::with_ids(counter, ids))
    }

    fn with_ids(counter: HardwareCpuCounter, ids: usize) -> Self {
        Self {
            units: (0..ids).map(|_| Shared::new(Latch::new())).collect(),
            notes: (0..ids).map(|_| CpuRecord::default()).collect(),
            counter,
        }
    }

    /// By the line of the CPU that this runs on.
    #[inline(always)]
    pub(crate) fn read<K: Kind>(&self) -> Option<K::Reading> {
        per_cpu::read_as::<K, _>(&self.units, &self.counter)
    }

    /// A reading whatever the state, and whether a line has served it; `None` if the table has no such CPU.
    pub(crate) fn read_slow(&self) -> Option<(i64, Source)> {
        let (cpu, reading) = per_cpu::read_slow(&self.units, &self.counter, &OsClock)?;
        if let (Source::Reference { .. }, Some(note)) = (reading.source, self.notes.get(cpu)) {
            note.ask();
        }
        Some((reading.ns, reading.source))
    }

    /// The unit of the CPU that this runs on.
    pub(crate) fn unit_here(&self) -> Option<&Shared<Latch>> {
        self.units.get(self.counter.now_ordered()?.1)
    }

    /// Whether any CPU has a line.
    pub(crate) fn is_published(&self) -> bool {
        self.units.iter().any(|unit| unit.cell.word().is_published())
    }

    pub(crate) fn events(&self, event: Event) -> u64 {
        self.units.iter().map(|unit| unit.events(event)).fold(0, u64::saturating_add)
    }

    /// The CPUs that are visited.
    pub(crate) fn status(&self) -> Vec<CpuStatus> {
        let now_ns = OsClock.monotonic_ns();
        let mut cpus = Vec::new();
        for (cpu, (unit, note)) in self.units.iter().zip(&self.notes).enumerate() {
            // ORDERING: Relaxed for all, figures on their own for display.
            let (state, order) = (note.state.load(Ordering::Relaxed), Ordering::Relaxed);
            if state == UNVISITED {
                continue;
            }
            let published_ns = Some(note.published_ns.load(order)).filter(|ns| *ns != 0);
            cpus.push(CpuStatus {
                cpu,
                state: match state {
                    _ if unit.cell.word().is_published() => CpuState::Fast,
                    FALLEN_BACK => CpuState::Fallback,
                    _ => CpuState::Calibrating,
                },
                frequency_hz: unit.gauges.frequency_hz(),
                offset_ns: unit.gauges.offset_ns(),
                age_ns: published_ns.map(|ns| u64::try_from(now_ns.saturating_sub(ns)).unwrap_or(0)),
                failures: note.failures.load(order),
            });
        }
        cpus
    }
}

/// A clock's table, if it has one, and who may use it.
#[derive(Debug)]
pub(crate) struct Mode(mode::Mode<Table>);

// The mode holds the table by a pointer, of which the compiler asks nothing.
const _: () = {
    const fn shareable<T: Send + Sync>() {}
    shareable::<Table>();
};

impl Mode {
    pub(crate) const fn new() -> Self {
        Self(mode::Mode::new())
    }

    /// The table, made when first needed and kept as long as the clock; `None` if there cannot be one.
    pub(crate) fn made(&self) -> Option<&Table> {
        if self.0.table().is_none() {
            let fresh = NonNull::from(Box::leak(Box::new(Table::new()?)));
            // SAFETY: a box is valid, and this one is freed by `drop` only.
            if let Err(fresh) = unsafe { self.0.lend(fresh) } {
                // SAFETY: from the box above, and nobody has seen it.
                drop(unsafe { Box::from_raw(fresh.as_ptr()) });
            }
        }
        self.0.table()
    }
}

impl Deref for Mode {
    type Target = mode::Mode<Table>;

    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Drop for Mode {
    fn drop(&mut self) {
        if let Some(table) = self.0.take_back() {
            // SAFETY: from the box in `made`; readers borrow `self`, so there are none.
            drop(unsafe { Box::from_raw(table.as_ptr()) });
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use tickline_core::compare::{Difference, Pair};

    #[test]
    fn the_builder_decides_and_else_the_counters() {
        let difference = Difference { least_ticks: 900, most_ticks: 1_000 };
        let apart = Comparison::Unsynchronised(Pair { here: 0, there: 1, difference });
        let others = [
            Comparison::Pending,
            Comparison::Single,
            Comparison::Synchronised { cpus: 2 },
            Comparison::Impossible,
        ];
        for (comparison, auto) in others.map(|other| (other, false)).into_iter().chain([(apart, true)]) {
            assert!(wanted(PerCpu::On, comparison) && !wanted(PerCpu::Off, comparison));
            assert_eq!(wanted(PerCpu::Auto, comparison), auto);
        }
    }

    /// On the real machine, with ids in the table that no CPU has: those fail alone, and the thread gets its CPUs back.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_cpu_that_cannot_be_visited_fails_alone() {
        use crate::facts;
        use std::io::Write;
        use tickline_core::sample::Resolutions;
        let skip = |why: &str| writeln!(std::io::stderr(), "SKIPPED: {why}").unwrap();
        let (counter, ids) = match needs() {
            Ok(needs) => needs,
            Err(why) => return skip(&why.to_string()),
        };
        if !facts::counter_readable() {
            return skip("the counter cannot be used here");
        }
        let home = CpuMask::of_this_thread().expect("where this thread may run");
        let table = Table::with_ids(counter, ids + 3);
        let absent = ids + 1;
        table.notes[absent].ask();
        let config = Config {
            interval_ns: 1_000_000,
            resolutions: Resolutions { counter_ticks: 0, reference_ns: 1, resolution_ticks: 0 },
            renewal: Renewal::Pinned,
        };
        let mut sweep = CpuSweep::default();
        let notice = ClockSetNotifier::new();
        let wait_ns = sweep.run(&table, &config, &notice);
        assert!((MIN_INTERVAL_NS..=config.interval_ns).contains(&wait_ns), "{wait_ns}");
        let status = table.status();
        for cpu in &status {
            // Elsewhere too, if the system numbers its CPUs otherwise than the register does.
            assert!(home.contains(cpu.cpu) || cpu.cpu == absent && cpu.failures == 1, "{cpu:?}");
        }
        assert!(status.iter().any(|cpu| cpu.cpu == absent && cpu.state == CpuState::Calibrating));
        let after = CpuMask::of_this_thread().unwrap();
        assert!((0..ids + 3).all(|cpu| home.contains(cpu) == after.contains(cpu)), "the mask was changed");

        sweep.run(&table, &config, &notice);
        let status = table.status();
        assert!(status.iter().all(|cpu| cpu.cpu != absent), "nobody asks for it any more: {status:?}");
    }

    #[test]
    fn a_cpu_without_a_line_falls_back_after_15_s() {
        assert_eq!(state_of(false, 0), CpuState::Calibrating);
        assert_eq!(state_of(false, 14_999_999_999), CpuState::Calibrating);
        assert_eq!(state_of(false, 15_000_000_000), CpuState::Fallback);
        assert_eq!(state_of(true, i64::MAX), CpuState::Fast);
    }
}
