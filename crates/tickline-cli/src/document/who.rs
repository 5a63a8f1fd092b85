//! What `tickline who` adds to a document.

use serde::Serialize;

/// Who calls for the time by system calls.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Who {
    /// The process whose calls were counted; null for all.
    pub(crate) process: Option<u32>,
    /// How long calls were counted, s; null where they could not be.
    pub(crate) counted_s: Option<f64>,
    /// `CLOCK_MONOTONIC` when counting began, ns; null where calls could not be counted.
    pub(crate) from_monotonic_ns: Option<u64>,
    /// `CLOCK_MONOTONIC` when counting ended, ns; null where calls could not be counted.
    pub(crate) until_monotonic_ns: Option<u64>,
    /// One call in this many was sampled, and stands for the others; null where calls could not be
    /// counted.
    pub(crate) sampled_every: Option<u64>,
    /// Calls whose samples the kernel has dropped, of this program and of all others; they are in
    /// no other figure.
    pub(crate) lost_calls: u64,
    /// The calls of each process to each clock, the costliest first. This program is left out.
    pub(crate) callers: Vec<Caller>,
    /// Why calls could not be counted, in words; null where they were.
    pub(crate) obstacle: Option<String>,
    /// Commands that remove the obstacle, or count by other means.
    pub(crate) instead: Vec<String>,
}

/// The system calls of one process to one clock.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Caller {
    /// The process, by its number in the PID namespace of this program; 0 if it has none there.
    pub(crate) pid: u32,
    /// The process's name (`/proc/PID/comm`); null if it had ended before it could be read.
    pub(crate) process: Option<String>,
    /// What is called, named as in `costs`.
    pub(crate) clock: String,
    /// Number of calls a second.
    pub(crate) calls_per_second: f64,
    /// A system call to this clock, measured afterwards by this program, ns; null for the CPU
    /// time of another process, and for clocks of devices.
    pub(crate) cost_ns: Option<f64>,
    /// What these calls cost now, percent of one CPU.
    pub(crate) core_percent: Option<f64>,
    /// A call once the vDSO answers it, ns; the present cost for clocks that no vDSO answers; null
    /// where unknown.
    pub(crate) fixed_ns: Option<f64>,
    /// What these calls would cost after the fix, percent of one CPU.
    pub(crate) fixed_core_percent: Option<f64>,
}

impl Who {
    /// All calls a second.
    pub(crate) fn calls_per_second(&self) -> f64 {
        self.callers.iter().map(|caller| caller.calls_per_second).sum()
    }

    /// What all calls of known cost take now, percent of one CPU.
    pub(crate) fn core_percent(&self) -> f64 {
        self.callers.iter().filter_map(|caller| caller.core_percent).sum()
    }

    /// What they would take after the fix; `None` if a part of that is unknown.
    pub(crate) fn fixed_core_percent(&self) -> Option<f64> {
        let known = self.callers.iter().filter(|caller| caller.core_percent.is_some());
        known.map(|caller| caller.fixed_core_percent).sum()
    }
}
