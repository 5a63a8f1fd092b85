//! Counts the system calls for the time, by process and clock.
//!
//! `tracepoint` finds the kernel's tracepoints, and `count` samples them. `clocks` names the clocks.
//! [`CallCounts`] has the samples, and [`WhoSummary`] is the result in the document.
#![cfg_attr(
    not(all(
        target_os = "linux",
        any(
            target_arch = "x86_64",
            target_arch = "aarch64",
            target_arch = "riscv64"
        )
    )),
    allow(dead_code, reason = "nothing is counted there")
)]

mod clocks;
#[cfg_attr(
    not(all(
        target_os = "linux",
        any(
            target_arch = "x86_64",
            target_arch = "aarch64",
            target_arch = "riscv64"
        )
    )),
    path = "who/unsupported.rs"
)]
mod count;
mod tracepoint;

pub(crate) use clocks::{ClockKind, TimeCall};
pub(crate) use count::count;
pub(crate) use tracepoint::User;

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

/// The processes that ask for the time by system calls.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct WhoSummary {
    /// The process whose calls were counted; null for all.
    pub(crate) process: Option<u32>,
    /// How long calls were counted, s; null if calls could not be counted.
    pub(crate) counted_s: Option<f64>,
    /// `CLOCK_MONOTONIC` when counting began, ns; null if calls could not be counted.
    pub(crate) from_monotonic_ns: Option<u64>,
    /// `CLOCK_MONOTONIC` when counting ended, ns; null if calls could not be counted.
    pub(crate) until_monotonic_ns: Option<u64>,
    /// One call in this many was sampled, and stands for the others; null if calls could not be
    /// counted.
    pub(crate) sampled_every: Option<u64>,
    /// Number of calls whose samples the kernel has dropped, of this program and of all others. The
    /// other figures do not include these calls.
    pub(crate) lost_calls: u64,
    /// The calls of each process to each clock, the costliest first. This program is left out.
    pub(crate) callers: Vec<Caller>,
    #[serde(flatten, serialize_with = "serialize_not_counted")]
    #[cfg_attr(test, schemars(with = "NotCountedKeys"))]
    pub(crate) not_counted: Option<NotCounted>,
}

/// Why calls could not be counted, and what to do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NotCounted {
    /// The obstacle, in words.
    pub(crate) obstacle: String,
    /// The commands that remove the obstacle, and count again, in their order.
    pub(crate) fixing_commands: Vec<String>,
    /// The commands that count by other tools, the most useful first.
    pub(crate) other_tools: Vec<String>,
    /// The options with which a container may count; `None` if they can't remove the obstacle.
    pub(crate) container_options: Option<&'static str>,
}

/// The keys of [`NotCounted`] in the JSON.
#[derive(Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct NotCountedKeys {
    /// Why calls could not be counted, in words; null if they were counted.
    obstacle: Option<String>,
    /// Commands that remove the obstacle, or count by other means.
    instead: Vec<String>,
}

#[expect(clippy::ref_option, reason = "serde's signature")]
fn serialize_not_counted<S: Serializer>(
    not_counted: &Option<NotCounted>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let keys = not_counted.as_ref().map(|not_counted| NotCountedKeys {
        obstacle: Some(not_counted.obstacle.clone()),
        instead: [
            not_counted.fixing_commands.as_slice(),
            &not_counted.other_tools,
        ]
        .concat(),
    });
    keys.unwrap_or_default().serialize(serializer)
}

/// The system calls of one process to one clock.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Caller {
    /// The process's number in the PID namespace of this program; 0 if it has no number there.
    pub(crate) pid: u32,
    /// The process's name (`/proc/PID/comm`); null if the process ended before its name was read.
    pub(crate) process: Option<String>,
    /// The clock, named as in `costs`.
    pub(crate) clock: String,
    /// Number of calls a second.
    pub(crate) calls_per_second: f64,
    /// The cost of a system call to this clock, which this program has measured after the count,
    /// ns; null for the CPU time of another process, and for clocks of devices.
    pub(crate) cost_ns: Option<f64>,
    /// The present cost of these calls, percent of one CPU.
    pub(crate) core_percent: Option<f64>,
    /// The cost of a call once the vDSO answers it, ns; the present cost for a clock that no vDSO
    /// answers; null if unknown.
    pub(crate) fixed_ns: Option<f64>,
    /// The cost of these calls after the fix, percent of one CPU.
    pub(crate) fixed_core_percent: Option<f64>,
}

impl WhoSummary {
    /// The number of all calls a second.
    pub(crate) fn calls_per_second(&self) -> f64 {
        self.callers
            .iter()
            .map(|caller| caller.calls_per_second)
            .sum()
    }

    /// The present cost of all calls whose cost is known, percent of one CPU.
    pub(crate) fn core_percent(&self) -> f64 {
        self.callers
            .iter()
            .filter_map(|caller| caller.core_percent)
            .sum()
    }

    /// The cost of these calls after the fix, percent of one CPU; `None` if a part is unknown.
    pub(crate) fn fixed_core_percent(&self) -> Option<f64> {
        let known = self
            .callers
            .iter()
            .filter(|caller| caller.core_percent.is_some());
        known.map(|caller| caller.fixed_core_percent).sum()
    }
}

/// The samples that were counted.
#[derive(Debug, Default)]
pub(crate) struct CallCounts {
    /// The summary without the callers.
    pub(crate) who: WhoSummary,
    /// The samples by process and call.
    pub(crate) samples: BTreeMap<(u32, TimeCall), CallerSamples>,
}

/// The samples of one process and call.
#[derive(Debug)]
pub(crate) struct CallerSamples {
    /// The process's name, read at the first sample.
    pub(crate) process: Option<String>,
    /// Each sample stands for `sampled_every` calls.
    pub(crate) count: u64,
}

impl CallCounts {
    /// Adds a sample. `name` reads the name of a process.
    pub(crate) fn add(
        &mut self,
        pid: u32,
        call: TimeCall,
        name: impl FnOnce(u32) -> Option<String>,
    ) {
        self.samples
            .entry((pid, call))
            .or_insert_with(|| CallerSamples {
                process: name(pid),
                count: 0,
            })
            .count += 1;
    }
}
