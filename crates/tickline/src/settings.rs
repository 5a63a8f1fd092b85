//! The settings that a program chooses, as plain data.
//!
//! The users of each setting that changes the clock's trust, or its system calls:
//!
//! | setting | for |
//! |---|---|
//! | `Trust::Kernel` | programs that may never trust a counter which the kernel has not accepted ([quanta#111], [filtermail#166], [proton-ge-custom#784]) |
//! | `Trust::Measured` | machines whose kernel rejected a good counter, where the usual advice is `tsc=reliable`; benchmarks (`tickline-criterion`) |
//! | `assume_invariant` | guests of QEMU without `+invtsc`, whose host's counter is invariant |
//! | `LinePerCpu::On` | counters of one rate that were not started together, as libmtev serves them ("Time, but Faster") |
//! | `LinePerCpu::Off` | users of one line for all CPUs: measurements (`tickline-criterion`), whoever serves one line to other processes |
//! | `Probes::Minimal` | processes under a seccomp filter that kills |
//!
//! [quanta#111]: https://github.com/metrics-rs/quanta/issues/111
//! [filtermail#166]: https://github.com/chatmail/filtermail/issues/166
//! [proton-ge-custom#784]: https://github.com/GloriousEggroll/proton-ge-custom/issues/784

use core::fmt;
use core::time::Duration;

use tickline_core::gate::Trust;

/// The default interval, ns. The bound grows by the maximum drift times the interval: 5 ns at 10
/// ppb. [`ClockBuilder::interval`](crate::ClockBuilder::interval) states the thread's cost.
pub(crate) const DEFAULT_INTERVAL_NS: u64 = 500_000_000;

/// The driver of a clock: the caller of its control loop.
///
/// The default is [`Thread`](Self::Thread): it renews the line also while the program makes no
/// call, and no reader pays for a recalibration. The global clock alone starts with
/// [`Reader`](Self::Reader): a program gets no thread that it did not ask for.
///
/// ```
/// # fn main() -> Result<(), tickline::Error> {
/// use tickline::{Clock, Driver};
///
/// let clock = Clock::builder().driver(Driver::Manual).build()?;
/// let next_in = clock.maintain(); // from an event loop, when it is due
/// assert!(!next_in.is_zero());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Driver {
    /// The readers, without a thread. A call that finds the line's window passed recalibrates in
    /// place, if calls are frequent enough to pay for it. The global clock starts like this.
    Reader,
    /// A background thread. No reader recalibrates.
    #[default]
    Thread,
    /// The program, by calls of [`Clock::maintain`](crate::Clock::maintain).
    Manual,
}

/// The system calls and files that a clock may use
/// ([`ClockBuilder::probes`](crate::ClockBuilder::probes)).
///
/// ```
/// use tickline::{Clock, Driver, Probes};
///
/// # fn main() -> Result<(), tickline::Error> {
/// // In a process whose seccomp filter kills it for any call that is not listed:
/// let clock = Clock::builder().probes(Probes::Minimal).driver(Driver::Reader).build()?;
/// println!("{:?}, {}", clock.now(), clock.status().state);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Probes {
    /// All that are of use: sysfs, `prctl`, `adjtimex`, a timer descriptor, the thread's name.
    #[default]
    Full,
    /// Only `clock_gettime`, a futex to sleep on, and the process id, while the clock runs. If a
    /// clock with full probes ran in the process before, then not even the process id. To start or
    /// end a thread takes further calls, of the C library as well. Minimal probes are for processes
    /// whose seccomp filter kills them at any other system call: [System
    /// calls](https://github.com/tickline/tickline/blob/main/PLATFORM.md#system-calls) lists all
    /// calls to allow, by driver.
    ///
    /// Facts that need other calls stay unknown. The clock does not compare the CPUs' counters, and
    /// `tickline-utc` does not ask for UTC. The clock's readings come from the OS clock, unless a
    /// clock with full probes has compared the counters in this process before. The reason is then
    /// [`Reason::KernelUnknown`](crate::Reason::KernelUnknown) or
    /// [`Reason::Untested`](crate::Reason::Untested). The clock does not judge its gates again. The
    /// clock's thread has no name. The thread does not notice at once when the OS clock is set.
    ///
    /// A child that was forked during another thread's recalibration gets the OS clock. With
    /// minimal probes the clock can't tell such a child from a process that shares its parent's
    /// memory (`clone(CLONE_VM)`), where the recalibration goes on.
    Minimal,
}

/// Whether a clock has one line, or a line for each CPU.
///
/// With a line for each CPU, readings are in order on one CPU, as long as its line lasts. In these
/// cases a reading may step back, by no more than the bounds of the two readings together:
///
/// - between two CPUs: a thread has moved, or compares its reading with another thread's;
/// - when the CPU's line starts;
/// - when lines end: by `disable()`, by a gate that closes, or because the clock's thread goes back
///   to one line for all.
///
/// On a busy machine many readings come from the OS clock, unless the
/// [interval is long](crate::ClockBuilder::line_per_cpu).
///
/// ```
/// # fn main() -> Result<(), tickline::Error> {
/// use tickline::{Clock, LinePerCpu};
///
/// // For `Instant::now_ordered`, in place of `tickline::start()`; `build` makes another clock.
/// let _thread = Clock::builder().line_per_cpu(LinePerCpu::Off).start_global()?;
/// // Whatever the comparison of the counters says:
/// assert!(Clock::global().status().per_cpu.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum LinePerCpu {
    /// Readings use the counter even if the CPUs' counters differ: if a comparison finds that, each
    /// CPU gets a line of its own.
    #[default]
    Auto,
    /// Each CPU has a line of its own, even if the counters agree. Order holds on one CPU only.
    On,
    /// One line for all CPUs, and order between them. If the counters differ, readings come from
    /// the OS clock.
    Off,
}

/// The settings of a clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) driver: Driver,
    pub(crate) interval: Duration,
    pub(crate) trust: Trust,
    /// Whether to assume that the counter runs at one rate, though the processor does not say so.
    pub(crate) assume_invariant: bool,
    pub(crate) probes: Probes,
    /// The period at which the thread stores the recent time; `None`: at each recalibration.
    pub(crate) recent_every: Option<Duration>,
    /// Whether there is a line for each CPU.
    pub(crate) line_per_cpu: LinePerCpu,
}

impl Settings {
    /// The settings of a builder, and of the global clock's thread, unless the program chooses
    /// others.
    pub(crate) const DEFAULT: Self = Self {
        driver: Driver::Thread,
        interval: Duration::from_nanos(DEFAULT_INTERVAL_NS),
        trust: Trust::Auto,
        assume_invariant: false,
        probes: Probes::Full,
        recent_every: None,
        line_per_cpu: LinePerCpu::Auto,
    };

    pub(crate) fn interval_ns(&self) -> u64 {
        u64::try_from(self.interval.as_nanos()).unwrap_or(DEFAULT_INTERVAL_NS)
    }

    /// The period at which the thread stores the recent time, also by default.
    fn recent_period(&self) -> Duration {
        self.recent_every.unwrap_or(self.interval)
    }

    /// Describes the first setting that differs from `wanted`, of a clock that a thread drives.
    pub(crate) fn difference(&self, wanted: &Self) -> Option<String> {
        // Every field is named here, so the compiler asks about a new one.
        let Self {
            driver: _, // the thread, whatever the builder says
            interval,
            trust,
            assume_invariant,
            probes,
            recent_every: _, // by the period that follows from it
            line_per_cpu,
        } = self;
        let recent_period = self.recent_period();
        describe_difference("interval", interval, &wanted.interval)
            .or_else(|| {
                describe_difference("recent_every", &recent_period, &wanted.recent_period())
            })
            .or_else(|| describe_difference("probes", probes, &wanted.probes))
            .or_else(|| describe_difference("line_per_cpu", line_per_cpu, &wanted.line_per_cpu))
            .or_else(|| describe_difference("trust", trust, &wanted.trust))
            .or_else(|| {
                describe_difference(
                    "assume_invariant",
                    assume_invariant,
                    &wanted.assume_invariant,
                )
            })
    }
}

/// Describes the difference of a setting, which has the name of the builder's method; `None` if
/// there is none.
fn describe_difference<T: PartialEq + fmt::Debug>(
    setting: &str,
    has: &T,
    wants: &T,
) -> Option<String> {
    (has != wants).then(|| format!("{setting} is {has:?}, not {wants:?}"))
}
