//! [`ClockBuilder`]: the settings of a clock, and their limits.

use core::ops::RangeInclusive;
use core::time::Duration;

use tickline_core::control::INTERVAL_RANGE_NS;
use tickline_core::gate::Trust;

use crate::clock::Clock;
use crate::clock::global::ClockGuard;
use crate::error::{Error, ErrorKind};
use crate::per_cpu::{Requirements, Unmet};
use crate::settings::{Driver, LinePerCpu, Probes, Settings};

/// The shortest and the longest time between two stores of the recent time. A sleeping thread can
/// hardly wake more often than every 100 us.
const RECENT_RANGE: RangeInclusive<Duration> = Duration::from_micros(100)..=Duration::from_secs(10);

/// Settings for a [`Clock`]: [`build`](Self::build) makes a clock of its own, and
/// [`start_global`](Self::start_global) starts the thread of the global one. Both validate them.
///
/// ```
/// use std::time::Duration;
/// use tickline::Clock;
///
/// # fn main() -> Result<(), tickline::Error> {
/// let clock = Clock::builder().interval(Duration::from_millis(100)).build()?;
/// println!("{:?}", clock.now());
///
/// let error = Clock::builder().interval(Duration::from_secs(60)).build().unwrap_err();
/// assert_eq!(error.to_string(), "interval of 60s is outside 1ms to 10s");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a builder makes no clock until `build` or `start_global` is called"]
pub struct ClockBuilder {
    settings: Settings,
}

impl ClockBuilder {
    /// Sets the driver, which runs the control loop. The default is a thread.
    pub fn driver(mut self, driver: Driver) -> Self {
        self.settings.driver = driver;
        self
    }

    /// Sets the time between recalibrations in the steady state: 1 ms to 10 s, by default 500 ms.
    ///
    /// A shorter interval gives tighter bounds and costs more. At 500 ms the thread wakes 2.0 times
    /// a second, and takes 160 to 400 us of CPU time in a second, 0.02 to 0.04 % of a core
    /// ([record](https://github.com/tickline/tickline/blob/main/benches/README.md#tickline)). Most
    /// of it is for waking up and for reading the file with the kernel's clocksource.
    ///
    /// The fast path serves for two intervals. If the thread wakes up more than one interval late,
    /// readings take the slow path until it has run. So a short interval also needs a punctual
    /// thread.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.settings.interval = interval;
        self
    }

    /// Sets the period at which the thread stores the recent time, which
    /// [`Clock::recent`](crate::Clock::recent) returns, and for the global clock also
    /// [`Instant::recent`](crate::Instant::recent) and [`recent_ns`](crate::recent_ns): 100 us to
    /// 10 s, by default at each recalibration. The thread wakes up for each store. The setting
    /// needs [`Driver::Thread`].
    pub fn recent_every(mut self, period: Duration) -> Self {
        self.settings.recent_every = Some(period);
        self
    }

    /// Sets which system calls and files the clock may use. By default it may use all of them.
    ///
    /// On the global clock ([`start_global`](Self::start_global)) minimal probes stay in force for
    /// the rest of the process, as a seccomp filter does, even if the call returns an error.
    /// Earlier verdicts stay in force, too.
    pub fn probes(mut self, probes: Probes) -> Self {
        self.settings.probes = probes;
        self
    }

    /// Sets whether there is one line, or a line for each CPU. The latter is for counters that have
    /// one rate but were not started together. The thread then moves to each CPU once in each
    /// interval, and calibrates its line there; the first time it stays on each for some
    /// milliseconds. With hundreds of CPUs and an interval of 10 ms, or with tens of CPUs and 1 ms,
    /// the moves take so long that most readings come from the OS clock. With a line for each CPU
    /// the order of readings is weaker: [`LinePerCpu`].
    ///
    /// [`LinePerCpu::On`] needs [`Driver::Thread`], [`Probes::Full`], and a machine that can have
    /// such lines; otherwise [`build`](Self::build) returns an error.
    ///
    /// **On a busy machine keep the default interval, or take a longer one.** There the thread gets
    /// onto a CPU late. That CPU's line is valid for eight intervals; at first, while the clock
    /// learns how steady the OS clock is, for half an interval. When the line has ended, readings
    /// on the CPU come from the OS clock until the thread has been there. If more than four
    /// intervals always pass between two visits of the thread, the clock starts to learn anew each
    /// time, so the lines stay short. Ask
    /// [`Reading::is_from_counter`](crate::Reading::is_from_counter) for the counter's share on
    /// your machine.
    pub fn line_per_cpu(mut self, line_per_cpu: LinePerCpu) -> Self {
        self.settings.line_per_cpu = line_per_cpu;
        self
    }

    /// Sets what decides whether readings may use the counter: the kernel, a comparison of the
    /// counters, or both. [`Trust::Auto`] by default. A table of [`tickline_core::gate`] shows what
    /// is trusted on which machine.
    pub fn trust(mut self, trust: Trust) -> Self {
        self.settings.trust = trust;
        self
    }

    /// Lets the clock assume that the counter runs at one rate in all power states, though CPUID
    /// does not say so. The setting is for virtual machines on a host whose counter has this
    /// property. By default QEMU hides it from its guests, because a guest that sees it can't
    /// migrate.
    pub fn assume_invariant(mut self) -> Self {
        self.settings.assume_invariant = true;
        self
    }

    /// Makes a clock that is separate from the global one, and starts its thread if it has one. Its
    /// readings are its methods: [`Instant::now`](crate::Instant::now) reads the global clock,
    /// which [`start_global`](Self::start_global) configures. The thread stops when the last clone
    /// of the clock is dropped.
    ///
    /// The first iteration of the control loop judges the gates. Until then, and while a gate is
    /// closed, readings come from the OS clock.
    ///
    /// # Errors
    ///
    /// - [`OutOfRange`](crate::ErrorKind::OutOfRange): a setting is out of range; the error names
    ///   the setting, its value and its limits.
    /// - [`IncompatibleSettings`](crate::ErrorKind::IncompatibleSettings): a setting needs the
    ///   thread driver or full probes, and the builder lacks them.
    /// - [`LinePerCpuUnsupported`](crate::ErrorKind::LinePerCpuUnsupported): the program demands a
    ///   line for each CPU that this machine cannot have.
    /// - [`ThreadNotStarted`](crate::ErrorKind::ThreadNotStarted): the system refuses to create the
    ///   thread, or ends it before it begins.
    pub fn build(self) -> Result<Clock, Error> {
        self.check()?;
        Clock::separate(self.settings)
    }

    /// Starts the global clock's thread with these settings. The thread runs until the last
    /// [`ClockGuard`] is dropped. The call may wait for another thread's start or drop, for 5 s at
    /// most. It is not for signal handlers.
    ///
    /// # Errors
    ///
    /// The errors of [`build`](Self::build), and these:
    ///
    /// - [`IncompatibleSettings`](crate::ErrorKind::IncompatibleSettings): the driver is not the
    ///   thread.
    /// - [`AlreadyRunning`](crate::ErrorKind::AlreadyRunning): the thread already runs with other
    ///   settings, because another call of this function or of [`start`](crate::start) came first.
    ///   The error names that call. `start` shares the thread as it is.
    /// - [`TimedOut`](crate::ErrorKind::TimedOut): another thread's start or drop has not ended for
    ///   5 s. [`start`](crate::start) says when a later call may succeed.
    pub fn start_global(self) -> Result<ClockGuard, Error> {
        self.check()?;
        if self.settings.driver != Driver::Thread {
            return Err(needs_thread("start_global", self.settings.driver));
        }
        ClockGuard::start(Some(self.settings))
    }

    fn check(&self) -> Result<(), Error> {
        let Settings {
            driver,
            interval,
            recent_every,
            line_per_cpu,
            probes,
            ..
        } = self.settings;
        let (min_ns, max_ns) = INTERVAL_RANGE_NS.into_inner();
        within(
            "interval",
            interval,
            Duration::from_nanos(min_ns)..=Duration::from_nanos(max_ns),
        )?;
        if let Some(period) = recent_every {
            within("recent_every", period, RECENT_RANGE)?;
        }
        if recent_every.is_some() && driver != Driver::Thread {
            return Err(needs_thread("recent_every", driver));
        }
        if line_per_cpu != LinePerCpu::On {
            return Ok(());
        }
        if driver != Driver::Thread {
            return Err(needs_thread("line_per_cpu", driver));
        }
        if probes == Probes::Minimal {
            let text = "line_per_cpu needs Probes::Full, not Probes::Minimal";
            return Err(Error::new(ErrorKind::IncompatibleSettings, text));
        }
        Requirements::of_this_machine()
            .map(|_| ())
            .map_err(no_line_per_cpu)
    }
}

fn no_line_per_cpu(unmet: Unmet) -> Error {
    Error::new(
        ErrorKind::LinePerCpuUnsupported,
        format_args!(
            "there can't be a line for each CPU: {unmet}; choose LinePerCpu::Auto or \
             LinePerCpu::Off"
        ),
    )
}

fn within(setting: &str, value: Duration, range: RangeInclusive<Duration>) -> Result<(), Error> {
    if range.contains(&value) {
        return Ok(());
    }
    let (min, max) = range.into_inner();
    let text = format!("{setting} of {value:?} is outside {min:?} to {max:?}");
    Err(Error::new(ErrorKind::OutOfRange, text))
}

fn needs_thread(setting: &str, chosen: Driver) -> Error {
    Error::new(
        ErrorKind::IncompatibleSettings,
        format_args!("{setting} needs Driver::Thread, not Driver::{chosen:?}"),
    )
}

impl Clock {
    /// A builder with the default settings.
    pub fn builder() -> ClockBuilder {
        ClockBuilder {
            settings: Settings::DEFAULT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_a_line_for_each_cpu_is_told_which_settings_it_can_have() {
        let error = no_line_per_cpu(Unmet::CpuIds(5_000));
        assert_eq!(error.kind(), ErrorKind::LinePerCpuUnsupported);
        let unmet = Unmet::CpuIds(5_000);
        let remedy = "choose LinePerCpu::Auto or LinePerCpu::Off";
        assert_eq!(
            error.to_string(),
            format!("there can't be a line for each CPU: {unmet}; {remedy}")
        );
    }
}
