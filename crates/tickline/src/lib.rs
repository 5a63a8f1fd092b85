//! A clock for programs that time requests, stamp events or check deadlines. It reads the time in 9
//! to 12 ns from the CPU's timestamp counter (in a tight loop, depending on the processor).
//!
//! ```
//! use tickline::{Instant, UnixTime};
//!
//! let received = UnixTime::now(); // CLOCK_REALTIME; converts into std::time::SystemTime
//! let start = Instant::now(); // CLOCK_MONOTONIC, in the shape of std::time::Instant
//! let answer = (1..=20_u64).product::<u64>();
//! println!("request of {received:?}: {answer}, after {:?}", start.elapsed());
//! ```
//!
//! tickline needs no set-up. The first calls return the time of the OS clock. In a program that
//! reads the time every 2 ms or more often, some of the calls calibrate the counter: about twice a
//! second one takes some microseconds longer, and one of the first takes 20 to 60 us. [`start`]
//! moves that work to a thread. Two kinds of programs use the counter only with this thread:
//! programs that read the time more rarely, and programs on machines whose kernel keeps time with
//! another clock, such as kvm-clock, or does not name its clock, as on Windows. On such a machine
//! the CPUs' counters must be compared, which only the thread can do.
//!
//! | to | use |
//! |---|---|
//! | measure a time within a thread | [`Instant::now`], [`Instant::elapsed`] |
//! | compare times that several threads took | [`Instant::now_ordered`] |
//! | write a log or a trace | [`UnixTime::now`] |
//! | know the error of a time | [`Clock::reading`], [`Clock::unix_reading`] |
//! | know what a reading promises, and what not | [`guarantees`] |
//! | check time-outs in a loop, to a millisecond or so | [`Instant::recent`], with [`ClockBuilder::recent_every`] |
//! | turn an instant into one of `std` (for `sleep_until`), or into Unix time, and back | [`Anchor`] |
//! | log at start which clock is used, and why | [`Clock::wait_until_decided`]: a clock calibrates for some milliseconds first |
//! | learn whether readings use the counter now, and if not, why | [`Clock::status`], [`Status::reads_counter`] |
//! | run under a seccomp filter that kills | [`ClockBuilder::probes`] with [`Probes::Minimal`], which restricts the system calls |
//! | move the time by hand in a test | `mock::MockClock`, with the feature `mock` |
//! | let the caller or a test choose the clock | [`Clock`](Clock#a-clock-to-inject) |
//! | write a library on top: counter ticks, the OS clock, a background thread | [`Clock::ticks_ordered`], [`OsClock`](backend::OsClock), [`background`] |
//! | notice that the process was forked | [`process_token`] |
//! | measure how far the counters of two CPUs differ | [`exchange`] |
//! | convert ticks that another process or a device has read | [`Clock::bounds`] |
//! | serve your own time source as a [`Clock`] | [`backend`] |
//! | replace another clock | [`coming_from`] |
//!
//! Most programs need no module. [`backend`] is for a time source of your own, and has the OS clock
//! for libraries on top. [`background`] is for crates that work beside a clock (`tickline-utc`,
//! `tickline-quanta`, `tickline-tracing`), and [`exchange`] for a program that examines the machine
//! (`tickline warp`).
//!
//! To keep an instant for other threads, store its [`as_nanos`](Instant::as_nanos) in an
//! `AtomicU64`. For a deadline that threads share, `now` is enough: a thread may see the deadline
//! pass a few ns early or late. A value that must not run backwards between threads, such as "last
//! used", needs `now_ordered`, which takes 7 to 13 ns more.
//!
//! # Features
//!
//! | | gives |
//! |---|---|
//! | `chrono` (0.4), `jiff` (0.2), `time` (0.3) | conversions of [`UnixTime`] into the times of these crates and back, exact |
//! | `serde` | `Serialize` and `Deserialize` for [`UnixTime`] and [`Instant`], as numbers of ns (an instant's only for this machine, until it restarts); `serde::rfc3339` for a [`UnixTime`] as a text |
//! | `mock` | a clock for tests; each reading without a `Clock` then costs one more load |
//! | `tokio` | a mock that follows tokio's clock, which tests can pause |
//!
//! # Order
//!
//! | | within a thread | between threads |
//! |---|---|---|
//! | [`Instant::now`] | never steps back | instants may be out of order by nanoseconds, rarely by microseconds: the CPU may read the counter before older loads complete |
//! | [`Instant::now_ordered`] | never steps back | never steps back, on machines with synchronised counters |
//! | [`UnixTime::now`] | follows `CLOCK_REALTIME`, and steps when that clock is set | the same as `Instant::now` |
//! | the time of [`Clock::unix_reading`] | the same as `UnixTime::now` | follows `CLOCK_REALTIME`, and steps when that clock is set; the counter is read after older loads |
//! | [`Instant::recent`] | never steps back while the thread runs; steps back at most once, when the thread starts | the same |
//!
//! The order holds across start-up, recalibration, fallback and the return to a line. If the CPUs'
//! counters differ and a clock's thread runs ([`start`]), it holds only on one CPU while its line
//! lasts: see [A line for each CPU](#a-line-for-each-cpu). Differences of instants saturate at
//! zero. Every [`Clock`] has these readings as methods: [`Clock::now`], [`Clock::now_ordered`] and
//! so on. [`now_ns`], [`now_ordered_ns`], [`unix_ns`] and [`recent_ns`] return readings of the
//! global clock as numbers of ns.
//!
//! Prefer [`Instant::now`] and its like. The methods are for a clock that the caller chooses. The
//! functions are for numbers, in atomics or C interfaces, and cost the same.
//!
//! # Guarantees
//!
//! [`guarantees`] has what a reading promises by each kind of clock, on which conditions, and what
//! is [not guaranteed](guarantees#not-guaranteed). By the counter or the OS clock a reading never
//! fails, allocates or panics, and may be made in a signal handler.
//!
//! # Trust
//!
//! Readings use the counter if all of these conditions hold:
//!
//! - the CPU has a counter, the process may read it, and the counter is invariant: on x86 CPUID
//!   says so, on ARM and RISC-V the architecture demands it;
//! - a read of the counter costs no more than a reading of the OS clock (up to a tenth more, if
//!   readings of Unix time save more than that);
//! - the kernel keeps time with it (`current_clocksource` is `tsc`, or `arch_sys_counter` on ARM,
//!   or `riscv_clocksource` on RISC-V), or a comparison of the CPUs' counters decides instead (see
//!   below);
//! - no comparison has found the CPUs' counters unsynchronised, or each CPU has a line of its own.
//!
//! If the kernel has rejected the counter, readings use it only with [`Trust::Measured`], and only
//! if a comparison finds the CPUs' counters synchronised. A kernel may keep time with another
//! clocksource although it has not rejected the counter. Some systems, like Windows, don't name
//! their clocksource. In both cases a clock's thread compares the counters of all CPUs, and the
//! result decides ([`Trust`]). On macOS tickline does not compare them, so readings come from the
//! OS clock. The environment variable `TICKLINE=off`, set when the process starts
//! ([`EnvironmentSwitch`]), and [`Clock::disable`] switch the counter off.
//!
//! If readings don't use the counter, they come from the OS clock. They then take up to twice as
//! long as a direct call of that clock, or about 1.2 times as long where the call is a system call.
//! On a system without any clock the state is [`ClockState::Unavailable`], and readings are 0.
//! Under Miri readings use the clocks of std.
//!
//! # A line for each CPU
//!
//! If the counters have one rate, but were not started together, each CPU can have a line of its
//! own ([`ClockBuilder::line_per_cpu`]). By default a clock with a thread gives each CPU one once
//! it has found the counters unsynchronised. The table in [Order](#order) then holds on one CPU
//! while its line lasts; [`LinePerCpu`] says when a reading may step back, and how far. With
//! [`LinePerCpu::Off`] readings come from the OS clock on such a machine, in order; [`start`] has
//! the call for the global clock.
//!
//! On a busy machine the thread gets onto a CPU late, and many readings come from the OS clock
//! meanwhile: [`ClockBuilder::line_per_cpu`] says which interval helps.
//!
//! # Cost
//!
//! `now` costs little more than the bare counter instruction. The [repository's
//! README](https://github.com/tickline/tickline) lists the figures, and those of other clocks.
//!
//! # How it works
//!
//! A straight line, `y = m*x + b`, converts the counter into time. `m` and `b` together are 128
//! bits. A reader loads these bits as a unit, and the control loop swaps them as a unit.
//!
//! The control loop samples the OS clock, and publishes the next line before the present one ends.
//! Gates judge facts about the machine. If the counter can't be trusted, a gate closes and ends the
//! line. `tickline_core` does the arithmetic, and defines the protocol between the control loop and
//! its readers.
//!
//! # Plugins
//!
//! A library that is loaded by `dlopen` and contains tickline has its own copy of tickline, so it
//! has a global clock of its own, and a thread of its own if it calls [`start`]. What happens when
//! the library is unloaded therefore depends on whether it has ended its threads before:
//!
//! | before the library is unloaded | with glibc | on Windows |
//! |---|---|---|
//! | all guards, clocks and background threads are dropped | it is unmapped, and leaves nothing, except the page of a VMClock on a machine that has one | the same |
//! | a [`ClockGuard`], or a clock with a thread, is never dropped (forgotten, or in a static) | it stays mapped, and the thread runs on | the process crashes: the thread's code is unmapped |
//!
//! musl unmaps no library, so nothing happens there. With any system, no other thread may be in a
//! call of the library while it is unloaded, because the code of the call may be unmapped.

mod arithmetic;
pub mod backend;
pub mod background;
pub mod bounds;
mod clock;
#[cfg(any(doc, doctest))]
#[doc = include_str!("../docs/coming_from.md")]
pub mod coming_from {}
mod convert;
mod engine;
mod environment;
mod error;
#[cfg(any(doc, doctest))]
#[doc = include_str!("../docs/guarantees.md")]
pub mod guarantees {}
mod instant;
#[cfg(feature = "mock")]
pub mod mock;
mod now;
mod per_cpu;
mod process;
mod reading;
#[cfg(feature = "serde")]
pub mod serde;
mod settings;
mod sleeping_thread;
mod status;
mod sys;
#[cfg(test)]
mod testing;
mod thread;
mod trust;
mod unix_time;

pub use clock::Clock;
pub use clock::builder::ClockBuilder;
pub use clock::global::{ClockGuard, start};
pub use convert::Anchor;
pub use environment::EnvironmentSwitch;
pub use error::{Error, ErrorKind};
pub use instant::Instant;
pub use now::{now_ns, now_ordered_ns, recent_ns, unix_ns};
pub use process::process_token;
pub use reading::Reading;
pub use settings::{Driver, LinePerCpu, Probes};
pub use status::{ClockState, CpuStatus, EventCounts, Status};
pub use tickline_core::comparison::{CounterComparison, CounterDifference};
pub use tickline_core::gate::{Cost, Gate, Reason, Trust, Verdict};
pub use tickline_core::shared::{Event, SampleAge};
pub use trust::exchange;
pub use unix_time::parse::UnixTimeParseError;
pub use unix_time::{UnixTime, UnixTimeRangeError};

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
