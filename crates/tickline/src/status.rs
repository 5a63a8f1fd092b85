//! A clock's status: its state, verdicts, figures and counts of events.

use core::fmt;

use tickline_core::comparison::CounterComparison;
use tickline_core::gate::{Cost, Gate, Reason, Verdict, first_closed};
use tickline_core::shared::{Event, SampleAge};

use crate::environment::EnvironmentSwitch;
use crate::settings::Driver;
use crate::sys;

mod text;

/// The clock that readings come from, and why.
///
/// ```
/// use tickline::{Clock, ClockState};
///
/// match Clock::global().status().state {
///     ClockState::Fast => println!("a reading costs as much as the counter"),
///     ClockState::Fallback(reason) => println!("{}: {reason}", reason.code()),
///     other => println!("{other}"),
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClockState {
    /// From the OS clock, because there is no line yet, or the last one has ended. Every reading is
    /// correct, in order, and about as expensive as the OS clock's.
    ///
    /// | driver | the state ends |
    /// |---|---|
    /// | [`Reader`](Driver::Reader) | after some readings in a row, each within 1/256 of the interval (2 ms by default) of the last. For a program that reads more rarely it does not end, and returns after each pause: calibrating would cost more than the counter saves. A thread ends it ([`start`](crate::start) for the global clock) |
    /// | [`Thread`](Driver::Thread) | within milliseconds of the start; if the thread was late, at its next iteration |
    /// | [`Manual`](Driver::Manual) | with the program's next calls of [`Clock::maintain`](crate::Clock::maintain) |
    ///
    /// The calibration of a [`Backend`](crate::backend::Backend) ends when the backend says so.
    Calibrating,
    /// From the counter.
    Fast,
    /// From the counter, but not within the usual bound, because the OS clock or the counter has
    /// jumped. For example, the counter ran on in a suspend, and readings are ahead of the OS
    /// clock; readings of Unix time are ahead as far. Readings may not step back, so the control
    /// loop slews them at half rate. After its next iteration the bounds of
    /// [`Clock::reading`](crate::Clock::reading) contain the OS clock again. The state ends by
    /// itself.
    ///
    /// Also for an interval after a hypervisor has moved the guest, or restored it from a snapshot,
    /// if a VMClock tells of that
    /// ([`OsClock::map_vmclock`](crate::backend::OsClock::map_vmclock)). Readings then follow the
    /// OS clock, which may be wrong until its NTP daemon has measured.
    Disrupted,
    /// From the OS clock, because a gate is closed.
    Fallback(Reason),
    /// From no clock: this system has none that a program can read, and every reading is 0. An
    /// example is `wasm32-unknown-unknown`, where `std::time::Instant::now` panics.
    Unavailable,
    /// From a clock of the program's own, by its [`Backend`](crate::backend::Backend): neither the
    /// counter nor the OS clock.
    Backend,
    /// From the OS clock, because the source of a [`Backend`](crate::backend::Backend) can't serve.
    /// The text, which the backend names, says why, and continues "because". No gate is closed.
    BackendFallback(&'static str),
    /// From a mock, which a test moves (feature `mock`).
    Mock,
}

impl ClockState {
    /// A stable code: `calibrating`, `fast`, `disrupted`, `fallback`, `unavailable`, `backend`,
    /// `backend_fallback`, `mock`.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Calibrating => "calibrating",
            Self::Fast => "fast",
            Self::Disrupted => "disrupted",
            Self::Fallback(_) => "fallback",
            Self::Unavailable => "unavailable",
            Self::Backend => "backend",
            Self::BackendFallback(_) => "backend_fallback",
            Self::Mock => "mock",
        }
    }
}

impl fmt::Display for ClockState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, None)
    }
}

impl ClockState {
    /// Writes the text. `driver` is the clock's; `None` if it is not known.
    fn write(self, f: &mut fmt::Formatter<'_>, driver: Option<Driver>) -> fmt::Result {
        match self {
            Self::Calibrating => f.write_str(
                "calibrating: readings come from the OS clock until the counter is calibrated",
            ),
            Self::Fast => f.write_str("fast: readings come from the counter"),
            Self::Disrupted => f.write_str(
                "disrupted: readings come from the counter, and are being brought back to the OS \
                 clock",
            ),
            Self::Fallback(reason) => write!(
                f,
                "fallback: readings come from the OS clock, because {reason}{}",
                advice(reason, driver, sys::CAN_PIN_THREADS)
            ),
            Self::Unavailable => {
                f.write_str("unavailable: this system has no clock, so every reading is 0")
            }
            Self::Backend => {
                f.write_str("backend: readings come from a clock of the program's own")
            }
            Self::BackendFallback(why) => write!(
                f,
                "backend_fallback: readings come from the OS clock, because {why}"
            ),
            Self::Mock => f.write_str("mock: a test moves the clock"),
        }
    }
}

/// What can be done about `reason`, to follow the reason's text. Where a call is right only on some
/// machines, the text says on which. Empty if neither the program nor its parent can do anything,
/// or if the reason's text names the switch. `driver` is the clock's; `None` if it is not known.
/// `can_pin_threads` is the system's [`sys::CAN_PIN_THREADS`].
const fn advice(reason: Reason, driver: Option<Driver>, can_pin_threads: bool) -> &'static str {
    match reason {
        // On other systems a comparison decides. No thread can make one here.
        Reason::NotInvariant | Reason::KernelUnknown | Reason::Untestable | Reason::Untested
            if !can_pin_threads =>
        {
            "; tickline can't compare the CPUs' counters on this system, so readings stay \
             with the OS clock"
        }
        Reason::Denied => {
            "; the sandbox or parent that denies it must permit it before the program starts \
             (PR_TSC_ENABLE)"
        }
        Reason::NotInvariant => {
            "; in a virtual machine whose host's counter is invariant, \
             Clock::builder().assume_invariant().start_global(), in place of tickline::start(), or \
             .build() for another clock, permits its use"
        }
        Reason::KernelRejected => {
            "; where the kernel's cause (see its log) does not matter to the program, \
             Clock::builder().trust(Trust::Measured).start_global(), in place of \
             tickline::start(), or .build() for another clock, permits its use, if a clock's \
             thread with Probes::Full finds the CPUs' counters synchronised; that comparison can't \
             show drift"
        }
        // Only `Trust::Kernel` closes a gate for these reasons (a backend aside).
        Reason::KernelUsesOther | Reason::HypervisorPolicy | Reason::KernelUnknown => {
            "; Trust::Auto (the default) in place of Trust::Kernel permits its use, if a clock's \
             thread with Probes::Full finds the CPUs' counters synchronised"
        }
        Reason::Untestable => {
            "; a clock with a thread and Probes::Full tries again, where the system lets it move \
             threads to each CPU"
        }
        Reason::Unsynchronised => {
            "; a clock with a thread, Probes::Full and LinePerCpu::Auto gives each CPU a line of \
             its own, on a processor that has rdtscp"
        }
        Reason::Untested if matches!(driver, Some(Driver::Thread)) => {
            "; with Probes::Full (the default) the clock's thread compares them, for 20 ms a CPU or \
             more (under a seccomp filter that kills: start the clock before the filter)"
        }
        Reason::Untested => {
            "; a clock with a thread and Probes::Full (the default) compares them: \
             tickline::start() gives the global clock a thread, Driver::Thread another clock (under \
             a seccomp filter that kills: before the filter)"
        }
        Reason::SamplesTooOld => {
            "; choose a longer interval: Clock::builder().interval(..).start_global(), in place of \
             tickline::start(), or .build() for another clock"
        }
        // A CPU with a line of its own: such lines need a thread.
        Reason::NoLine => ": the thread can't reach this CPU, or its samples make no line",
        Reason::DriverStopped => {
            "; the counter serves this clock again when that thread goes on; if it was killed, only \
             another clock or a new process can use the counter"
        }
        _ => "",
    }
}

/// The counts of a clock's events. [`Event::GateClosed`] and [`Event::GateOpened`] also count
/// when the gates are judged again, even if every gate is found open.
///
/// ```
/// use tickline::{Clock, Event};
///
/// let events = Clock::global().status().events;
/// println!("{} times the reference was outside the bounds", events.get(Event::BoundViolation));
/// for (event, count) in events.iter().filter(|(_, count)| *count > 0) {
///     println!("{}: {count}", event.code());
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct EventCounts([u64; Event::ALL.len()]);

impl fmt::Debug for EventCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.iter().map(|(event, count)| (event.code(), count)))
            .finish()
    }
}

impl EventCounts {
    pub(crate) fn from_fn(count: impl Fn(Event) -> u64) -> Self {
        Self(core::array::from_fn(|index| count(Event::ALL[index])))
    }

    /// The count of `event`.
    #[must_use]
    pub fn get(&self, event: Event) -> u64 {
        self.0.get(event as usize).copied().unwrap_or(0)
    }

    /// Every event with its count.
    pub fn iter(&self) -> impl Iterator<Item = (Event, u64)> + '_ {
        Event::ALL.iter().copied().zip(self.0)
    }
}

/// The status of a clock. [`Clock::status`](crate::Clock::status) reads each figure separately, so
/// two figures may be from different moments.
///
/// With a line for each CPU, frequency, bound, maximum drift, offset and interval belong to the CPU
/// on which the call runs. Events are summed over all CPUs.
///
/// What a clock states is a field; what follows from several fields, such as the first closed gate,
/// is a method. The verdicts are behind methods, too, because a gate may be added. The figures are
/// plain numbers with their unit in the name: a status is for display and for metrics, and std has
/// no signed `Duration` for an offset.
///
/// ```
/// let status = tickline::Clock::global().status();
/// println!("{status}"); // one line for a log
/// for verdict in status.verdicts() {
///     println!("{}: {}", verdict.gate().code(), verdict.closed_by().map_or("open", |reason| reason.code()));
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The clock that readings come from.
    pub state: ClockState,
    /// Whether the clock has judged its gates by its present settings, or is disabled. Before the
    /// first judgement the gates are shown as open, except two: `user` is closed if the environment
    /// says `TICKLINE=off`, and `calibration` if the driver has stopped. A clock that is judged may
    /// still be undecided, as while it calibrates:
    /// [`wait_until_decided`](crate::Clock::wait_until_decided) waits for more.
    pub is_judged: bool,
    pub(crate) verdicts: [Verdict; Gate::ALL.len()],
    /// The driver of the control loop in this process; `None` if a
    /// [`Backend`](crate::backend::Backend) serves the clock, which has no control loop then.
    pub driver: Option<Driver>,
    /// The value of the environment variable `TICKLINE`.
    pub environment: EnvironmentSwitch,
    /// Whether the machine has a hypervisor, by CPUID. `false` if the architecture has no CPUID.
    pub is_virtual: bool,
    /// The result of the last comparison of the CPUs' counters in this process. A clock's thread
    /// compares them in the background if the result matters: under a hypervisor, if the kernel
    /// keeps time with another clocksource, or if the last comparison found a difference.
    pub comparison: CounterComparison,
    /// What reads of the counter and of the OS clocks cost, as the last judgement measured it: the
    /// figures behind [`Reason::Slow`] and [`Reason::SlowForUnixTime`]. `None` before the first
    /// judgement, and if it could not read the counter.
    pub cost: Option<Cost>,
    /// The age of the last sample, if samples were too old for a line: the figures behind
    /// [`Reason::SamplesTooOld`]. If a sample takes longer than half of the interval, a longer
    /// interval raises the limit.
    pub too_old_sample: Option<SampleAge>,
    /// The measured frequency of a counter that is too slow for a line, Hz: the figure behind
    /// [`Reason::CounterTooSlow`]. It stays until the next line.
    pub too_slow_counter_hz: Option<u64>,
    /// The measured frequency of the counter, Hz; `None` before the first line.
    pub frequency_hz: Option<u64>,
    /// The bound, ns: half the width of the range that must contain `CLOCK_MONOTONIC` now.
    /// `None` without a line.
    pub bound_ns: Option<u64>,
    /// The maximum drift, ppb: the largest difference of the rate of `CLOCK_MONOTONIC` from the
    /// measured rate for which the bound holds ([guarantees](crate::guarantees#bounds)). `events`
    /// counts violations. The control loop lowers the figure while the rate is steady. `None`
    /// before the first line.
    pub max_drift_ppb: Option<u64>,
    /// Line minus `CLOCK_MONOTONIC`, ns: the estimate of the last recalibration, before its
    /// correction. While the offset is large and positive, the control loop slews the clock down.
    /// `None` before the first line.
    pub offset_ns: Option<i64>,
    /// The present interval between recalibrations, ns; `None` before the first line.
    pub interval_ns: Option<u64>,
    /// The counts of events.
    pub events: EventCounts,
    /// The CPUs for which the clock's thread calibrates a line of their own, also those that have
    /// none now ([`CpuStatus::state`]). A CPU that the thread may not run on is left out 15 to 25 s
    /// after the last reading there, or, if there was none since its last calibration, when the OS
    /// clock is set. The next reading there brings it back, in the state
    /// [`Calibrating`](ClockState::Calibrating). Empty in a clock that has one line for all.
    pub per_cpu: Vec<CpuStatus>,
}

impl Status {
    /// Whether readings of monotonic time come from the counter: the state is
    /// [`Fast`](ClockState::Fast) or [`Disrupted`](ClockState::Disrupted). `false` while the clock
    /// calibrates, for some milliseconds after its start:
    /// [`wait_until_decided`](crate::Clock::wait_until_decided) waits for that.
    /// [`unix_reason`](Self::unix_reason) says it of Unix time. With a line for each CPU, readings
    /// on a CPU that has none yet come from the OS clock (`per_cpu`).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let status = tickline::Clock::global().wait_until_decided(Duration::from_secs(1));
    /// println!("by the counter: {}", status.reads_counter());
    /// ```
    #[must_use]
    pub fn reads_counter(&self) -> bool {
        matches!(self.state, ClockState::Fast | ClockState::Disrupted)
    }

    /// The verdict of each gate, in the order in which they are judged.
    #[must_use]
    pub fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }

    /// The verdict of one gate.
    #[must_use]
    pub fn verdict(&self, gate: Gate) -> Verdict {
        self.verdicts[gate as usize]
    }

    /// The reason of the first closed gate; `None` if the counter may be used, and before the first
    /// judgement, except for two reasons that need none ([`is_judged`](Self::is_judged)).
    /// [`reads_counter`](Self::reads_counter) says whether readings use the counter already.
    /// [`Gate::UnixCost`](crate::Gate::UnixCost), which stops only Unix time, does not count.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        first_closed(self.verdicts)
    }

    /// Why Unix time comes from the OS clock; `None` if it may come from the counter. The result
    /// differs from [`reason`](Self::reason) if the OS clock is faster than the counter for Unix
    /// time, but not for monotonic time: it is then [`Reason::SlowForUnixTime`].
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
        self.reason().or(self.verdict(Gate::UnixCost).closed_by())
    }
}

/// The status of one CPU, in a clock with a line for each CPU.
///
/// ```
/// for cpu in tickline::Clock::global().status().per_cpu {
///     println!("CPU {}: {:?}, {:?} Hz, off by {:?} ns", cpu.cpu, cpu.state, cpu.frequency_hz, cpu.offset_ns);
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CpuStatus {
    /// The CPU's id.
    pub cpu: u32,
    /// The clock that its readings come from. [`Fallback`](ClockState::Fallback) means no line for
    /// 15 s; the thread still tries to calibrate the CPU.
    pub state: ClockState,
    /// The measured frequency of its counter, Hz; `None` before its first line.
    pub frequency_hz: Option<u64>,
    /// Line minus `CLOCK_MONOTONIC`, ns: the estimate of its last recalibration, before the
    /// correction; `None` before the first line.
    pub offset_ns: Option<i64>,
    /// Time since its last recalibration, ns; `None` before the first one.
    pub age_ns: Option<u64>,
    /// The number of failed calibrations: the CPU was offline or forbidden, or the kernel moved the
    /// thread away.
    pub failures: u64,
}

#[cfg(test)]
mod tests;
