//! `tickline who`: counts the system calls for the time by process, and computes their cost.
//!
//! `tracepoint` finds the kernel's tracepoints, and `count` samples them. [`CallCounts`] has the
//! calls by process and clock. `clocks` adds the cost of each call.
#![cfg_attr(
    not(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
    )),
    allow(dead_code, reason = "nothing is counted there")
)]

mod clocks;
#[cfg_attr(
    not(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
    )),
    path = "who/unsupported.rs"
)]
mod count;
mod text;
mod tracepoint;

use std::collections::BTreeMap;
use std::io;

use serde::Serialize;

use self::clocks::TimeCall;
use crate::args;
use crate::document::Document;
use crate::exit::Exit;
use crate::measure::{as_f64, costs};
use crate::output::JsonOutput;
use crate::progress::Progress;
use crate::setup::Setup;

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
    /// Why calls could not be counted, in words; null if they were counted.
    pub(crate) obstacle: Option<String>,
    /// Commands that remove the obstacle, or count by other means.
    pub(crate) instead: Vec<String>,
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
        self.callers.iter().map(|caller| caller.calls_per_second).sum()
    }

    /// The present cost of all calls whose cost is known, percent of one CPU.
    pub(crate) fn core_percent(&self) -> f64 {
        self.callers.iter().filter_map(|caller| caller.core_percent).sum()
    }

    /// The cost of these calls after the fix, percent of one CPU; `None` if a part is unknown.
    pub(crate) fn fixed_core_percent(&self) -> Option<f64> {
        let known = self.callers.iter().filter(|caller| caller.core_percent.is_some());
        known.map(|caller| caller.fixed_core_percent).sum()
    }
}

pub(crate) fn run(args: &args::Who) -> io::Result<Exit> {
    let setup = Setup::start();
    if let Some(pid) = args.process {
        check_exists(pid)?;
    }
    let output = JsonOutput::open(&args.json)?;
    let progress = Progress::new();
    let counted = count::count(args.process, args.time, progress.part("calls", 0.0, 0.8));
    // Measure the costs after the count, because tracepoints make each system call costlier.
    costs::settle();
    let costs = costs::measure(&setup.calls(), costs::ROUNDS, progress.part("costs", 0.8, 1.0));
    let mut document = setup.document("who", costs, None);
    document.diagnose();
    let (who, exit) = match counted {
        Ok(counted) => (counted.into_summary(&document), Exit::Success),
        Err(obstacle) => {
            let instead = obstacle.instead(args.process, args.time.as_secs());
            (
                WhoSummary { obstacle: Some(obstacle.to_string()), instead, ..WhoSummary::default() },
                Exit::Negative,
            )
        }
    };
    progress.finish();
    document.who = Some(WhoSummary { process: args.process, ..who });
    output.emit(&document, &text::text(&document))?;
    Ok(exit)
}

/// Checks that the process exists, by `/proc`. Without `/proc`, any process passes.
///
/// # Errors
///
/// If there is no such process.
fn check_exists(pid: u32) -> io::Result<()> {
    let proc = std::path::Path::new("/proc");
    if proc.join("self").exists() && !proc.join(pid.to_string()).exists() {
        return Err(io::Error::new(io::ErrorKind::NotFound, format!("there is no process {pid}")));
    }
    Ok(())
}

/// The samples that were counted.
#[derive(Debug, Default)]
struct CallCounts {
    /// The summary without the callers.
    who: WhoSummary,
    /// For each process and clock: the process's name, read at the first call, and the number of
    /// samples. Each sample stands for `sampled_every` calls.
    samples: BTreeMap<(u32, TimeCall), (Option<String>, u64)>,
}

impl CallCounts {
    /// Adds a sample. `name` reads the name of a process.
    fn add(&mut self, pid: u32, call: TimeCall, name: impl FnOnce(u32) -> Option<String>) {
        self.samples.entry((pid, call)).or_insert_with(|| (name(pid), 0)).1 += 1;
    }

    fn into_summary(self, facts: &Document) -> WhoSummary {
        let (seconds, every) = (self.who.counted_s.unwrap_or(1.0), self.who.sampled_every.unwrap_or(1));
        let callers = self.samples.into_iter().map(|((pid, call), (process, samples))| {
            let calls_per_second = as_f64(samples * every) / seconds;
            let percent = |ns: f64| calls_per_second * ns / 1e9 * 100.0;
            let cost_ns = call.cost_ns(facts);
            let fixed_ns = call.fixed_ns(cost_ns, facts);
            Caller {
                pid,
                process,
                clock: call.name(),
                calls_per_second,
                cost_ns,
                core_percent: cost_ns.map(percent),
                fixed_ns,
                fixed_core_percent: fixed_ns.map(percent),
            }
        });
        let mut callers: Vec<Caller> = callers.collect();
        let weight = |caller: &Caller| (caller.core_percent.unwrap_or(0.0), caller.calls_per_second);
        callers.sort_by(|a, b| weight(b).partial_cmp(&weight(a)).unwrap_or(std::cmp::Ordering::Equal));
        WhoSummary { callers, ..self.who }
    }
}
