//! A line for each CPU, for counters of one rate and different origins: the table of lines, and the
//! thread's calibrations ([`calibrations`]).
//!
//! A reader takes the line of the CPU that it runs on (core's `per_cpu`). While each CPU has a
//! line, no common line is published, so the fast path of every other clock stays the same. In each
//! pass the clock's thread pins itself to one CPU after the other. On each CPU it verifies that it
//! runs there, and runs an iteration of the CPU's control loop. After the pass the thread gets its
//! former CPU mask back.
//!
//! The thread calibrates the CPUs that it may run on, and those on which a reader has missed a
//! line. It reads its CPU mask in each pass, because cpusets change and CPUs go offline. The crate
//! `core_affinity` can't be used, because its masks end at 1,024 CPUs.
//!
//! The thread may fail to reach a CPU, or its iterations there may publish no line. Readings on
//! that CPU then come from the OS clock once the CPU's line has ended. The thread keeps trying.
//! After [`FALLBACK_AFTER_NS`] the CPU's state is `Fallback`.
//!
//! For each CPU id that the system may ever use, the table has a [`CpuRecord`], and a clock of at
//! most 1 KiB, as core's `per_cpu` asserts.

pub(crate) mod calibrations;

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use tickline_core::cell::{LineCell, StateCell};
use tickline_core::comparison::CounterComparison;
use tickline_core::counter::{CPU_IDS, CpuCounter, HardwareCpuCounter};
use tickline_core::gate::Reason;
use tickline_core::per_cpu::{self, SlowCpuReading};
use tickline_core::reference::Reference;
use tickline_core::shared::{BoundedReading, Event, ReadingSource, SharedClock, SlowReading};
use tickline_core::state::Phase;

use crate::settings::LinePerCpu;
use crate::status::{ClockState, CpuStatus};
use crate::sys;
use crate::sys::reference::{NEVER_NS, OsClock};

/// The time without a line after which a CPU's state is `Fallback`, ns. libmtev (`mtev_time.c`)
/// gives a core up after the same time. A CPU outside of the thread's mask that the thread can't
/// reach is forgotten if no reader has asked for it for this time, or if the OS clock was set.
const FALLBACK_AFTER_NS: i64 = 15_000_000_000;

/// Whether each CPU should have a line, by the setting and the comparison of the counters.
pub(crate) const fn wants_line_per_cpu(choice: LinePerCpu, comparison: CounterComparison) -> bool {
    match choice {
        LinePerCpu::On => true,
        LinePerCpu::Off => false,
        LinePerCpu::Auto => matches!(comparison, CounterComparison::Unsynchronised { .. }),
    }
}

/// The requirement of a line for each CPU that this machine does not meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unmet {
    Instruction,
    CpuList,
    /// The number of CPU ids that this system has.
    CpuIds(usize),
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instruction => {
                f.write_str("this processor has no instruction for its counter and its id (rdtscp)")
            }
            Self::CpuList => f.write_str("this system can't be asked for its CPUs"),
            Self::CpuIds(ids) => write!(
                f,
                "this system has {ids} CPU ids, and the processor's register holds at most {CPU_IDS}"
            ),
        }
    }
}

/// The requirements of a line for each CPU, on a machine that meets them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Requirements {
    /// A counter that also reads the CPU's id.
    counter: HardwareCpuCounter,
    /// The number of CPU ids that this system has.
    cpu_ids: usize,
}

impl Requirements {
    /// The error says which requirement this machine does not meet.
    pub(crate) fn of_this_machine() -> Result<Self, Unmet> {
        let counter = HardwareCpuCounter::if_present().ok_or(Unmet::Instruction)?;
        let ids = sys::cpu_ids().ok_or(Unmet::CpuList)?;
        let cpu_ids = checked_ids(ids)?;
        Ok(Self { counter, cpu_ids })
    }
}

/// The number of CPU ids, if it is not more than a counter can distinguish.
const fn checked_ids(ids: usize) -> Result<usize, Unmet> {
    if ids > CPU_IDS {
        Err(Unmet::CpuIds(ids))
    } else {
        Ok(ids)
    }
}

/// The state of a CPU that has been without a line for `waited_ns`.
const fn state_after_ns(waited_ns: i64) -> ClockState {
    if waited_ns < FALLBACK_AFTER_NS {
        ClockState::Calibrating
    } else {
        ClockState::Fallback(Reason::NoLine)
    }
}

/// Whether `clock` has a line at this time of the OS clock. No other CPU's counter can be read
/// here, so the OS clock, which the line follows, tells whether its validity has passed. A reading
/// on the line's CPU then ends it.
fn has_line_at(clock: &SharedClock, now_ns: i64) -> bool {
    let line = clock.cell().snapshot();
    line.state.is_published()
        // If the line is replaced meanwhile, its snapshot may be a mixture.
        && (now_ns <= line.ns_at(line.validity_end_ticks()) || !clock.cell().is_still(line.state))
}

/// The data about a CPU besides its line. Readers set `has_missed`. The thread clears it, and
/// writes everything else.
#[derive(Debug)]
struct CpuRecord {
    /// Whether a reader on this CPU has missed a line.
    has_missed: AtomicBool,
    failures: AtomicU64,
    /// The time since which the thread calibrates this CPU, ns; [`NEVER_NS`] if it does not.
    calibrated_since_ns: AtomicI64,
    /// The time of the last publication, ns; [`NEVER_NS`] before the first one.
    published_ns: AtomicI64,
}

impl CpuRecord {
    const fn new() -> Self {
        Self {
            has_missed: AtomicBool::new(false),
            failures: AtomicU64::new(0),
            calibrated_since_ns: AtomicI64::new(NEVER_NS),
            published_ns: AtomicI64::new(NEVER_NS),
        }
    }

    fn report_miss(&self) {
        // ORDERING: Relaxed for both, a request that orders nothing. The load comes first, because
        // a store each time would take the cache line from other CPUs.
        let order = Ordering::Relaxed;
        if !self.has_missed.load(order) {
            self.has_missed.store(true, order);
        }
    }

    /// The state of this CPU at this time of the OS clock, if it has no line then.
    fn state_without_line(&self, now_ns: i64) -> ClockState {
        // ORDERING: Relaxed for both, figures on their own for display.
        let since_ns = self.calibrated_since_ns.load(Ordering::Relaxed);
        if since_ns == NEVER_NS {
            return ClockState::Calibrating; // a reader's report makes the thread begin
        }
        let published_ns = self.published_ns.load(Ordering::Relaxed);
        state_after_ns(now_ns.saturating_sub(published_ns.max(since_ns)))
    }
}

/// The lines of all CPUs, by their ids.
#[derive(Debug)]
pub(crate) struct CpuLines {
    clocks: Box<[SharedClock]>,
    records: Box<[CpuRecord]>,
    counter: HardwareCpuCounter,
    /// [`read_and_report_miss_here`](Self::read_and_report_miss_here), by its address: a program
    /// that never makes a table, because it starts no thread, does not contain this function (3
    /// KB).
    read_and_report_miss: fn(&Self) -> Option<SlowReading>,
}

impl CpuLines {
    /// A table for this system. The error says which requirement is not met.
    pub(crate) fn new() -> Result<Box<Self>, Unmet> {
        Requirements::of_this_machine().map(|required| Box::new(Self::with(required)))
    }

    fn with(Requirements { counter, cpu_ids }: Requirements) -> Self {
        Self {
            clocks: (0..cpu_ids)
                .map(|_| SharedClock::new(LineCell::with_high_water_mark(0)))
                .collect(),
            records: (0..cpu_ids).map(|_| CpuRecord::new()).collect(),
            counter,
            read_and_report_miss: Self::read_and_report_miss_here,
        }
    }

    // Readings by the line of the CPU on which the caller runs.

    pub(crate) fn read_ns(&self) -> Option<i64> {
        per_cpu::cpu_clock(&self.clocks, self.counter.now())?.read_ns()
    }

    pub(crate) fn read_ordered_ns(&self) -> Option<i64> {
        per_cpu::cpu_clock(&self.clocks, self.counter.now_ordered())?.read_ns()
    }

    pub(crate) fn read_unix_ns(&self) -> Option<i64> {
        per_cpu::cpu_clock(&self.clocks, self.counter.now())?.read_unix_ns()
    }

    pub(crate) fn read_ordered_bounded(&self) -> Option<BoundedReading> {
        per_cpu::cpu_clock(&self.clocks, self.counter.now_ordered())?.read_bounded()
    }

    /// An ordered reading in any state, and its source; `None` if the table has no entry for the
    /// CPU. Reports to the thread that this CPU has no line, if so.
    pub(crate) fn read_and_report_miss(&self) -> Option<SlowReading> {
        (self.read_and_report_miss)(self)
    }

    fn read_and_report_miss_here(&self) -> Option<SlowReading> {
        let SlowCpuReading { cpu, reading, .. } =
            per_cpu::read_ordered_on_this_cpu(&self.clocks, &self.counter, &OsClock)?;
        if let (ReadingSource::Reference { .. }, Some(record)) =
            (reading.source, self.records.get(cpu as usize))
        {
            record.report_miss();
        }
        Some(reading)
    }

    /// The clock of the CPU on which the caller runs.
    pub(crate) fn clock_here(&self) -> Option<&SharedClock> {
        self.clocks.get(self.counter.now_ordered()?.cpu as usize)
    }

    /// Whether the CPU on which the caller runs has no line now, and is not given up.
    pub(crate) fn awaits_line_here(&self) -> bool {
        let cpu = self.counter.now_ordered().map(|read| read.cpu as usize);
        let here = cpu.and_then(|cpu| self.clocks.get(cpu).zip(self.records.get(cpu)));
        here.is_some_and(|(clock, record)| {
            let now_ns = OsClock.monotonic_ns();
            !has_line_at(clock, now_ns)
                && record.state_without_line(now_ns) == ClockState::Calibrating
        })
    }

    /// Whether any CPU has a line now.
    pub(crate) fn has_line(&self) -> bool {
        let now_ns = OsClock.monotonic_ns();
        self.clocks.iter().any(|clock| has_line_at(clock, now_ns))
    }

    /// Whether `reference_ns` is at least the largest time that any CPU's line can return. Ask
    /// before the clock leaves these lines.
    pub(crate) fn are_all_at_most(&self, reference_ns: i64) -> bool {
        self.clocks.iter().all(|clock| {
            let line = clock.cell().snapshot();
            let most_ns = match line.state.phase() {
                Phase::NoLine | Phase::FirstPublication => line.state.b,
                Phase::Replacing | Phase::Published => line.ns_at(line.validity_end_ticks()),
            };
            // If a line ends meanwhile, its snapshot may be a mixture.
            most_ns <= reference_ns && clock.cell().is_still(line.state)
        })
    }

    pub(crate) fn event_count(&self, event: Event) -> u64 {
        self.clocks
            .iter()
            .map(|clock| clock.readings().event_count(event))
            .fold(0, u64::saturating_add)
    }

    /// The status of each CPU that the thread calibrates.
    pub(crate) fn status(&self) -> Vec<CpuStatus> {
        let now_ns = OsClock.monotonic_ns();
        let mut cpus = Vec::new();
        for (cpu, (clock, record)) in (0..).zip(self.clocks.iter().zip(&self.records)) {
            // ORDERING: Relaxed for both, figures on their own for display.
            let times_ns = [&record.calibrated_since_ns, &record.published_ns];
            let [since_ns, published_ns] = times_ns.map(|time_ns| time_ns.load(Ordering::Relaxed));
            if since_ns == NEVER_NS {
                continue;
            }
            let last_line = clock.readings().figures().last_line;
            let age_ns = u64::try_from(now_ns.saturating_sub(published_ns)).unwrap_or(0);
            cpus.push(CpuStatus {
                cpu,
                state: if has_line_at(clock, now_ns) {
                    ClockState::Fast
                } else {
                    record.state_without_line(now_ns)
                },
                frequency_hz: last_line.map(|line| line.frequency_hz),
                offset_ns: last_line.map(|line| line.offset_ns),
                age_ns: (published_ns != NEVER_NS).then_some(age_ns),
                // ORDERING: Relaxed, a figure on its own for display.
                failures: record.failures.load(Ordering::Relaxed),
            });
        }
        cpus
    }
}

#[cfg(test)]
mod tests;
