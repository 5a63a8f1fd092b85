//! The thread's calibrations of the CPUs, by turns.

use core::sync::atomic::Ordering;
use core::time::Duration;

use tickline_core::cell::StateCell;
use tickline_core::control::{Config, Control, DrivenBy, Iteration, MIN_INTERVAL_NS, Outcome};
use tickline_core::counter::HardwareCpuCounter;
use tickline_core::per_cpu;
use tickline_core::sample::Reference;
use tickline_core::shared::SharedClock;

use super::{CALIBRATED, FALLEN_BACK, IDLE, Table, has_fallen_back};
use crate::sys::reference::OsClock;
use crate::sys::{ClockSetNotifier, CpuMask, Woken};

/// If the next iteration is due within this, ns, the thread waits for it on the CPU. On a busy
/// machine it takes milliseconds to move away and to come back, and the first lines, which are
/// short, would end meanwhile. Intervals grow by half from one iteration to the next, so the thread
/// moves on after some 10 iterations and 6 ms.
const STAY_NS: u64 = 2_000_000;

/// The most iterations for which the thread stays.
const STAY_ITERATIONS: u32 = 16;

/// What the thread remembers of the CPUs.
#[derive(Debug, Default)]
pub(crate) struct CpuPass {
    cpus: Vec<CpuCalibration>,
}

#[derive(Debug, Default)]
struct CpuCalibration {
    control: Option<Box<Control>>,
    /// When the next calibration is due, ns.
    due_ns: i64,
    /// From when on the thread may calibrate, ns, if it is awake for another CPU. A wake-up costs
    /// more than a calibration.
    ready_ns: i64,
    /// Since when there is no line, ns; `None` before the first calibration.
    waiting_since_ns: Option<i64>,
}

impl CpuPass {
    /// Makes every CPU due, because somebody set the OS clock.
    pub(crate) fn force_due(&mut self) {
        for calibration in &mut self.cpus {
            (calibration.ready_ns, calibration.due_ns) = (i64::MIN, i64::MIN);
        }
    }

    /// One pass over the CPUs: calibrates those that are due, unless `notifier` stops the thread.
    /// Returns the time until the next CPU is due, ns.
    pub(crate) fn run(&mut self, table: &Table, config: &Config, notifier: &ClockSetNotifier) -> u64 {
        let Some(mask) = CpuMask::of_this_thread() else { return config.interval_ns };
        self.cpus.resize_with(table.units.len(), CpuCalibration::default);
        let interval_ns = i64::try_from(config.interval_ns).unwrap_or(i64::MAX);
        let mut clock_was_set = false;
        let mut next_ns = OsClock.monotonic_ns().saturating_add(interval_ns);
        for (cpu, (calibration, record)) in self.cpus.iter_mut().zip(&table.records).enumerate() {
            // ORDERING: Relaxed, see `CpuRecord::report_miss`.
            if !mask.contains(cpu) && !record.has_missed.load(Ordering::Relaxed) {
                *calibration = CpuCalibration::default();
                // ORDERING: Relaxed, for display.
                record.state.store(IDLE, Ordering::Relaxed);
                continue;
            }
            if calibration.ready_ns <= OsClock.monotonic_ns() {
                match calibration.calibrate(cpu, table, config, notifier) {
                    Woken::Timeout => {}
                    Woken::ClockSet => clock_was_set = true,
                    Woken::Stopped => break,
                }
            }
            next_ns = next_ns.min(calibration.due_ns);
        }
        mask.restore();
        if clock_was_set {
            self.force_due();
            return MIN_INTERVAL_NS;
        }
        let wait_ns = next_ns.saturating_sub(OsClock.monotonic_ns());
        u64::try_from(wait_ns).unwrap_or(0).max(MIN_INTERVAL_NS)
    }
}

impl CpuCalibration {
    fn calibrate(
        &mut self,
        cpu: usize,
        table: &Table,
        config: &Config,
        notifier: &ClockSetNotifier,
    ) -> Woken {
        let (unit, record) = (&table.units[cpu], &table.records[cpu]);
        let (mut iteration, mut woken) = (None, Woken::Timeout);
        for _ in 0..STAY_ITERATIONS {
            iteration = self.iterate(cpu, unit, &table.counter, config);
            match iteration {
                Some(Iteration { next_in_ns, .. }) if next_in_ns <= STAY_NS.min(config.interval_ns >> 1) => {
                    woken = notifier.wait(Duration::from_nanos(next_in_ns));
                }
                _ => break,
            }
            if woken != Woken::Timeout {
                break;
            }
        }
        let now_ns = OsClock.monotonic_ns();
        match iteration {
            Some(Iteration { outcome: Outcome::Published | Outcome::Recovered, .. }) => {
                // ORDERING: Relaxed, for display.
                record.published_ns.store(now_ns, Ordering::Relaxed);
                self.waiting_since_ns = Some(now_ns);
            }
            Some(_) => {}
            None => {
                record.count_failure();
                // ORDERING: Relaxed, see `CpuRecord::report_miss`. A reader on that CPU will ask
                // again.
                record.has_missed.store(false, Ordering::Relaxed);
            }
        }
        let wait_ns = iteration.map_or(config.interval_ns, |iteration| iteration.next_in_ns);
        let wait_ns = i64::try_from(wait_ns).unwrap_or(i64::MAX);
        self.due_ns = now_ns.saturating_add(wait_ns);
        self.ready_ns = self.due_ns.saturating_sub(wait_ns >> 2);
        let waited_ns = now_ns.saturating_sub(*self.waiting_since_ns.get_or_insert(now_ns));
        let fallen_back = has_fallen_back(unit.cell.load().is_published(), waited_ns);
        let state = if fallen_back { FALLEN_BACK } else { CALIBRATED };
        // ORDERING: Relaxed, for display; only this thread writes it.
        if record.state.swap(state, Ordering::Relaxed) != state && fallen_back {
            record.count_failure();
        }
        woken
    }

    /// An iteration on `cpu`, and a second one after a recovery. `None` if the thread did not stay
    /// on the CPU.
    fn iterate(
        &mut self,
        cpu: usize,
        unit: &SharedClock,
        counter: &HardwareCpuCounter,
        config: &Config,
    ) -> Option<Iteration> {
        if !CpuMask::only(cpu)?.apply() {
            return None;
        }
        let control = self.control.get_or_insert_with(|| Box::new(Control::new(*config)));
        if control.config.resolutions != config.resolutions {
            control.begin_anew(*config); // the kernel keeps time with something else now
        }
        control.config = Config { driven_by: DrivenBy::PinnedThread, ..*config };
        // `None` also where the CPU's register holds another number than the kernel's.
        let mut iteration = per_cpu::maintain(control, unit, cpu, counter, &OsClock)?;
        if iteration.outcome == Outcome::Recovered {
            iteration = per_cpu::maintain(control, unit, cpu, counter, &OsClock)?;
        }
        Some(iteration)
    }
}
