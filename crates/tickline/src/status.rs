//! What a clock says about itself.

use core::fmt;

use tickline_core::compare::Comparison;
use tickline_core::gate::{Hypervisor, Reason, Verdict, first_closed, unix_by_os};
use tickline_core::shared::{BoundParts, Event};

use crate::options::{Driver, Environment};

/// How a clock's readings are served.
///
/// ```
/// use tickline::{Clock, State};
///
/// match Clock::global().status().state {
///     State::Fast => println!("a reading costs as much as the counter"),
///     State::Fallback(reason) => println!("{}: {reason}", reason.code()),
///     other => println!("{other}"),
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// By the OS clock, because there is no current line: the clock is new, is not called often enough, or its driver
    /// has not come.
    Calibrating,
    /// By the counter.
    Fast,
    /// By the counter, and not within the usual bound: the OS clock or the counter has jumped. So it is after a suspend in which
    /// the counter ran on: readings are ahead of the OS clock, because a clock cannot step back, and are slewed to it at half
    /// rate. [`Reading::earliest_ns`](crate::Reading::earliest_ns) says by how much once the driver has looked. Ends by itself.
    Disrupted,
    /// By the OS clock, because a gate is closed.
    Fallback(Reason),
    /// Not at all: this system has no clock that a program can read, and every reading is 0. So on
    /// `wasm32-unknown-unknown`, where `std::time::Instant::now` panics.
    Unavailable,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Calibrating => f.write_str("calibrating: the OS clock serves until there is a line"),
            Self::Fast => f.write_str("fast: the counter serves"),
            Self::Disrupted => {
                f.write_str("disrupted: the counter serves, and is being brought back to the OS clock")
            }
            Self::Fallback(reason) => write!(f, "fallback: the OS clock serves, because {reason}"),
            Self::Unavailable => f.write_str("unavailable: this system has no clock, every reading is 0"),
        }
    }
}

/// How often things have happened to a clock.
///
/// ```
/// use tickline::{Clock, Event};
///
/// let events = Clock::global().status().events;
/// println!("{} times the reference was outside the bounds", events.get(Event::BoundViolation));
/// for (event, count) in events.iter().filter(|(_, count)| *count > 0) {
///     println!("{}: {count}", event.name());
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Events(pub(crate) [u64; Event::ALL.len()]);

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(event, count)| (event.name(), count))).finish()
    }
}

impl Events {
    /// How often `event` has happened.
    #[must_use]
    pub fn get(&self, event: Event) -> u64 {
        self.0.get(event as usize).copied().unwrap_or(0)
    }

    /// Every event with its count.
    pub fn iter(&self) -> impl Iterator<Item = (Event, u64)> + '_ {
        Event::ALL.into_iter().zip(self.0)
    }
}

/// What a clock says about itself, at one moment; each figure is read on its own. With a line for each CPU, frequency, bound,
/// rho, offset and interval are those of the CPU that asks, and the events those of all.
///
/// ```
/// let status = tickline::Clock::global().status();
/// println!("{}", status.state);
/// for verdict in status.verdicts {
///     println!("{}: {}", verdict.gate.name(), verdict.closed.map_or("open", |reason| reason.code()));
/// }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Status {
    /// How readings are served.
    pub state: State,
    /// Whether the gates have been judged yet; before that, all are shown as open.
    pub judged: bool,
    /// What each gate says.
    pub verdicts: [Verdict; tickline_core::gate::Gate::ALL.len()],
    /// Who runs the control loop in this process.
    pub driver: Driver,
    /// What the environment variable `TICKLINE` says.
    pub environment: Environment,
    /// Who runs the machine, by CPUID.
    pub hypervisor: Hypervisor,
    /// What a comparison of the CPUs' counters has found, if there was one in this process. A clock's thread makes it in the
    /// background where it matters: under a hypervisor, or where the kernel keeps time with something else.
    pub comparison: Comparison,
    /// The frequency of the counter as the processor, the firmware or the hypervisor names it, Hz. Shown, compared, and
    /// never used.
    pub nominal_hz: Option<u64>,
    /// The measured frequency of the counter, Hz; `None` before the first line.
    pub frequency_hz: Option<u64>,
    /// The bound: half of the width of the interval that must contain `CLOCK_MONOTONIC` now, ns; `None` without a line.
    pub bound_ns: Option<u64>,
    /// The bound holds as long as the rate of `CLOCK_MONOTONIC` against the counter stays within this of the measured
    /// one, ppb, and there was no jump since the last recalibration. Violations are counted in `events`. Learnt: small
    /// where the rate has been seen to be steady for long.
    pub max_drift_ppb: u64,
    /// What the bound of the present line is made of.
    pub bound_parts: BoundParts,
    /// Line minus `CLOCK_MONOTONIC` as estimated at the last recalibration, before it was corrected, ns. If it is large
    /// and positive, the clock is being slewed down.
    pub offset_ns: i64,
    /// The present interval between recalibrations, ns.
    pub interval_ns: u64,
    /// The error of the kernel's Unix time against UTC as the NTP daemon claims it, ns; `None` while the kernel says that
    /// the clock is not synchronised, and with [`Probes::Minimal`](crate::Probes::Minimal), which do not ask. Some daemons claim 0.
    pub utc_error_ns: Option<u64>,
    /// How often things have happened.
    pub events: Events,
    /// The CPUs, each with a line of its own; empty in a clock that has one for all.
    pub per_cpu: Vec<CpuStatus>,
}

impl Status {
    /// The reason of the first closed gate; `None` if the counter may be used. [`Gate::UnixCost`](crate::Gate::UnixCost), which stops
    /// Unix time alone, does not count.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        first_closed(&self.verdicts)
    }

    /// Why the OS tells Unix time; `None` if the counter may. Beside [`reason`](Self::reason), this is
    /// [`Reason::Slow`] where the OS tells Unix time faster than the counter does, though not monotonic time.
    ///
    /// ```
    /// let status = tickline::Clock::global().status();
    /// match (status.reason(), status.unix_reason()) {
    ///     (None, Some(reason)) => println!("only Unix time is the OS's: {reason}"),
    ///     (reason, _) => println!("{reason:?}"),
    /// }
    /// ```
    #[must_use]
    pub fn unix_reason(&self) -> Option<Reason> {
        self.reason().or_else(|| unix_by_os(&self.verdicts))
    }
}

/// How one CPU's readings are served.
///
/// ```
/// use tickline::{Clock, CpuState};
///
/// let status = Clock::global().status();
/// let fallen_back = status.per_cpu.iter().filter(|cpu| cpu.state == CpuState::Fallback).count();
/// println!("{fallen_back} CPUs without a line");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CpuState {
    /// By the OS clock: there is no line yet, or not again.
    Calibrating,
    /// By its counter.
    Fast,
    /// By the OS clock: 15 s have passed without a line. It is still tried.
    Fallback,
}

/// What a clock with a line for each CPU says about one of them.
///
/// ```
/// for cpu in tickline::Clock::global().status().per_cpu {
///     println!("CPU {}: {:?}, {:?} Hz, off by {} ns", cpu.cpu, cpu.state, cpu.frequency_hz, cpu.offset_ns);
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CpuStatus {
    /// The CPU's id.
    pub cpu: usize,
    /// How its readings are served.
    pub state: CpuState,
    /// The measured frequency of its counter, Hz (ticks per ns times 10^9); `None` before its first line.
    pub frequency_hz: Option<u64>,
    /// Line minus `CLOCK_MONOTONIC` as estimated at its last recalibration, before it was corrected, ns.
    pub offset_ns: i64,
    /// Time since its last recalibration, ns; `None` before the first one.
    pub age_ns: Option<u64>,
    /// Visits that failed (the CPU was offline, or forbidden, or the thread was moved away), and times that it fell back.
    pub failures: u64,
}
