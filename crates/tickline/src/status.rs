//! What a clock says about itself.

use core::fmt;

use tickline_core::compare::Comparison;
use tickline_core::gate::{Hypervisor, Reason, Verdict, first_closed, unix_by_os};
use tickline_core::shared::{BoundParts, Event};

use crate::builder::Probes;
use crate::engine::Engine;
use crate::per_cpu::CpuStatus;
use crate::reference;

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

/// Who runs a clock's control loop.
///
/// ```
/// # fn main() -> Result<(), tickline::Error> {
/// use tickline::{Clock, Driver};
///
/// let clock = Clock::builder().driver(Driver::Manual).start()?;
/// let next_in = clock.maintain(); // from an event loop, when it is due
/// assert!(!next_in.is_zero());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Driver {
    /// The readers: a call that finds the window passed recalibrates in place, if calls are frequent enough to pay. No
    /// thread. What the global clock does by itself.
    Reader = 0,
    /// A background thread: no reader ever pays.
    Thread = 1,
    /// Whoever calls [`Clock::maintain`](crate::Clock::maintain).
    Manual = 2,
}

/// What the environment variable `TICKLINE` says.
///
/// ```
/// use tickline::{Clock, Environment};
///
/// if Clock::global().status().environment == Environment::Unrecognised {
///     eprintln!("TICKLINE should be on or off");
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Environment {
    /// It is not set.
    Unset,
    /// `on`: nothing is changed.
    On,
    /// `off`: the counter is not used.
    Off,
    /// Anything else: ignored, and reported here.
    Unrecognised,
}

impl Environment {
    pub(crate) fn from_value(value: &[u8]) -> Self {
        match value {
            b"on" => Self::On,
            b"off" => Self::Off,
            _ => Self::Unrecognised,
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
pub struct Events([u64; Event::ALL.len()]);

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
    /// the clock is not synchronised, and with [`Probes::Minimal`], which do not ask. Some daemons claim 0.
    pub utc_error_ns: Option<u64>,
    /// How often things have happened.
    pub events: Events,
    /// The CPUs, each with a line of its own; empty in a clock that has one for all.
    pub per_cpu: Vec<CpuStatus>,
}

impl Status {
    pub(crate) fn of(engine: &Engine) -> Self {
        let table = engine.per_cpu_table();
        let gauges = &table.and_then(|table| table.unit_here()).unwrap_or(&engine.shared).gauges;
        let bound_ns = engine.read_bounds().or_else(|| engine.bounds_by_cpu()).map(|reading| {
            let (earliest_ns, latest_ns) = reading.bounds_ns();
            latest_ns.abs_diff(earliest_ns).div_ceil(2)
        });
        Self {
            state: engine.state(),
            judged: engine.is_judged(),
            verdicts: engine.verdicts(),
            driver: engine.driver(),
            environment: crate::facts::environment(),
            hypervisor: crate::facts::hypervisor(),
            comparison: crate::warp::result().unwrap_or(Comparison::Pending),
            nominal_hz: crate::facts::nominal_hz(engine.probes()),
            frequency_hz: gauges.frequency_hz(),
            bound_ns,
            max_drift_ppb: gauges.max_drift_ppb(),
            bound_parts: gauges.bound_parts(),
            offset_ns: gauges.offset_ns(),
            interval_ns: gauges.interval_ns(),
            utc_error_ns: match engine.probes() {
                Probes::Full => reference::utc_error_ns(),
                Probes::Minimal => None,
            },
            events: Events(Event::ALL.map(|event| {
                let by_cpu = table.map_or(0, |table| table.events(event));
                engine.shared.events(event).saturating_add(by_cpu)
            })),
            per_cpu: table.map_or_else(Vec::new, |table| table.status()),
        }
    }

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
