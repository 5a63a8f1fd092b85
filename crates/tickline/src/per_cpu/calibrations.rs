//! The thread's calibrations of the CPUs, one after the other.

use core::sync::atomic::Ordering;
use core::time::Duration;

use tickline_core::control::{Iteration, MIN_INTERVAL_NS, Outcome};
use tickline_core::driver::CpusPermit;
use tickline_core::per_cpu::{CpuControl, CpuIteration, Pass, Stay};
use tickline_core::reference::Reference;

use super::{CpuLines, FALLBACK_AFTER_NS};
use crate::sys::reference::{NEVER_NS, OsClock};
use crate::sys::{AffinityGuard, CpuMask, StoppableSleep, WakeCause};

/// The control loops of the CPUs that the thread calibrates.
#[derive(Debug, Default)]
pub(crate) struct CpuCalibrations {
    pub(super) cpus: Vec<Option<Box<CpuControl>>>,
    /// The CPU with which the next pass begins, if it is due.
    pub(super) first: u32,
}

impl CpuCalibrations {
    /// Makes every CPU due, because the OS clock was set.
    pub(crate) fn force_due(&mut self) {
        self.cpus
            .iter_mut()
            .flatten()
            .for_each(|control| control.force_due());
    }

    /// One pass over the CPUs: calibrates those that are due, unless `sleep` stops the thread. The
    /// `permit` holds the clock's lock meanwhile. Returns the time until the next CPU is due, ns.
    pub(crate) fn run(
        &mut self,
        cpu_lines: &CpuLines,
        permit: &CpusPermit<'_>,
        interval_ns: u64,
        sleep: &StoppableSleep,
    ) -> u64 {
        let Some(mask) = CpuMask::for_current_thread() else {
            return interval_ns;
        };
        let mut affinity = AffinityGuard::new(mask);
        let pass = Pass::begin(permit.resolutions(), interval_ns, &OsClock);
        self.cpus.resize_with(cpu_lines.clocks.len(), || None);
        let interval_ns = i64::try_from(interval_ns).unwrap_or(i64::MAX);
        let mut next_ns = OsClock.monotonic_ns().saturating_add(interval_ns);
        // A pass waits on CPUs for a limited time. If moves are slow, its first CPU uses this time
        // up. So each pass begins with another CPU; otherwise the other CPUs would never have a
        // line.
        let ids = u32::try_from(self.cpus.len()).unwrap_or(u32::MAX);
        let mut first = None;
        let mut woken = WakeCause::Timeout;
        for cpu in (self.first..ids).chain(0..self.first) {
            let control = &mut self.cpus[cpu as usize];
            let record = &cpu_lines.records[cpu as usize];
            // ORDERING: Relaxed for both, see `CpuRecord::report_miss`.
            if affinity.former().contains(cpu) {
                // The thread calibrates this CPU without a request. A request that stayed would
                // outlast the CPU's removal from the mask.
                record.has_missed.store(false, Ordering::Relaxed);
            } else if !record.has_missed.load(Ordering::Relaxed) {
                // A reader may ask for a CPU again only after some passes. The time since which
                // that CPU has no line must not begin anew then.
                let kept_until_ns = control
                    .as_ref()
                    .map(|control| control.due_ns().saturating_add(FALLBACK_AFTER_NS));
                if kept_until_ns.is_none_or(|until_ns| until_ns <= OsClock.monotonic_ns()) {
                    *control = None;
                    // ORDERING: Relaxed, for display.
                    record
                        .calibrated_since_ns
                        .store(NEVER_NS, Ordering::Relaxed);
                }
                continue;
            }
            let control = control.get_or_insert_with(|| {
                // ORDERING: Relaxed, for display.
                record
                    .calibrated_since_ns
                    .store(OsClock.monotonic_ns(), Ordering::Relaxed);
                Box::new(CpuControl::new(&pass))
            });
            if control.is_ready(OsClock.monotonic_ns()) {
                first.get_or_insert(cpu);
                match calibrate(control, cpu, cpu_lines, &pass, &mut affinity, sleep) {
                    WakeCause::Timeout => {}
                    WakeCause::ClockSet => woken = WakeCause::ClockSet,
                    WakeCause::Stopped => break,
                }
            }
            next_ns = next_ns.min(control.due_ns());
        }
        self.first = first.map_or(self.first, |cpu| cpu + 1);
        self.wait_after_pass_ns(woken, next_ns)
    }

    /// The time until the next pass, ns, after one whose waits were ended by `woken`. `next_ns` is
    /// the time at which the next CPU is due. If the OS clock was set, makes every CPU due.
    pub(super) fn wait_after_pass_ns(&mut self, woken: WakeCause, next_ns: i64) -> u64 {
        if woken == WakeCause::ClockSet {
            self.force_due();
            return MIN_INTERVAL_NS;
        }
        let wait_ns = next_ns.saturating_sub(OsClock.monotonic_ns());
        u64::try_from(wait_ns).unwrap_or(0).max(MIN_INTERVAL_NS)
    }
}

fn calibrate(
    control: &mut CpuControl,
    cpu: u32,
    cpu_lines: &CpuLines,
    pass: &Pass,
    affinity: &mut AffinityGuard,
    sleep: &StoppableSleep,
) -> WakeCause {
    let clock = &cpu_lines.clocks[cpu as usize];
    let record = &cpu_lines.records[cpu as usize];
    let mut woken = WakeCause::Timeout;
    control.begin(pass);
    let iteration = loop {
        affinity.pin(cpu); // the iteration notices if the thread is not on the CPU
        // `None` also if the CPU's register has another id than the kernel.
        let CpuIteration {
            iteration, stay, ..
        } = control.iterate(clock, cpu, &cpu_lines.counter, &OsClock);
        match stay {
            Stay::Again => continue,
            Stay::Wait { ns } => woken = sleep.wait(Duration::from_nanos(ns)),
            Stay::Leave => break iteration,
        }
        if woken != WakeCause::Timeout {
            break iteration;
        }
    };
    match iteration {
        Some(Iteration {
            outcome: Outcome::Published | Outcome::PublishedFirst,
            ..
        }) => {
            // ORDERING: Relaxed, for display.
            record
                .published_ns
                .store(OsClock.monotonic_ns(), Ordering::Relaxed);
        }
        Some(_) => {}
        None => {
            // ORDERING: Relaxed, a count that orders nothing.
            record.failures.fetch_add(1, Ordering::Relaxed);
            // ORDERING: Relaxed, see `CpuRecord::report_miss`. A reader on that CPU will ask again.
            record.has_missed.store(false, Ordering::Relaxed);
        }
    }
    woken
}
