//! This crate has the public names of [quanta](https://crates.io/crates/quanta) 0.12 and 0.13,
//! over [tickline]'s clock.
//!
//! ```
//! use quanta::{Clock, Instant};
//!
//! let clock = Clock::new(); // a handle: nothing is calibrated, nothing blocks
//! let (start, raw) = (Instant::now(), clock.raw());
//! let sum: u64 = std::hint::black_box((0..1_000).sum());
//! println!("{sum} after {:?}, or {:?}", start.elapsed(), clock.delta(raw, clock.raw()));
//! ```
//!
//! | to | use |
//! |---|---|
//! | measure a time | [`Instant::now`], [`Instant::elapsed`] |
//! | hold a clock in a struct | [`Clock`]: a clone is the same clock |
//! | measure in plain numbers | [`Clock::raw`], [`Clock::delta_as_nanos`] |
//! | check time-outs often, to a millisecond or so | [`Upkeep`], [`Instant::recent`] |
//! | move the time by hand in a test | [`Clock::mock`], [`with_clock`] |
//! | get bounds, order between threads, Unix time | [`tickline`]; an [`Instant`] converts into tickline's and back |
//!
//! # Differences from quanta
//!
//! | | quanta | here |
//! |---|---|---|
//! | the first clock | calibrates for up to 200 ms | costs nothing; the first readings come from the OS clock |
//! | the rate | measured once, in the calibration | follows `CLOCK_MONOTONIC` |
//! | readings use the counter if | CPUID reports that it exists and is constant | tickline's gates are open ([`tickline#trust`]) |
//! | [`Clock::raw`] | ticks of the counter, or ns without one | ns, so [`Clock::scaled`] changes nothing |
//! | [`Mock`] beyond 0 or 2^64 ns | panics in a debug build, else wraps | panics; beyond 2^63 ns `raw` goes on, while `now` stays at the largest `Instant` |
//! | `Instant` `+` and `-` a `Duration` beyond the range | panics; `+=` and `-=` wrap in a release build | stays at the end of the range, -2^63 and 2^63 - 1 ns |
//! | `Instant` | is not `Hash` | is `Hash` |
//! | a panic inside [`with_clock`] | leaves the clock in place | ends the replacement |
//! | the OS's error in an [`Error`] | is in the text, and its `source()` | is in the text only, so a chain of causes has it once |
//! | dropping a [`Handle`] | waits for up to an interval | wakes the thread |
//! | a forked child | has no upkeep, and can't start one | can start one |
//! | feature `prost` | `Instant` into `Timestamp` | none: the time since a machine's start is not Unix time |
//! | feature `flaky_tests` | runs more of its own tests | has no effect |
//!
//! `raw` is in nanoseconds because programs keep one raw value, and compute differences from it
//! for as long as they run. Governor, for example, computes the time since the raw value 0. If the
//! values were ticks, such differences would step back when the clock learns a better rate. quanta
//! avoids this by keeping the first rate for ever, and therefore drifts. A conversion is one
//! multiplication.
//!
//! # Order
//!
//! [`Clock::now`], [`Instant::now`] and [`Clock::raw`] are in order within a thread. Between
//! threads they are in order to some nanoseconds, rarely microseconds, because they call
//! [`tickline::now_ns`]. quanta promises order, and reads the counter in the same way. Differences
//! saturate at zero. If threads compare times, use [`tickline::Instant::now_ordered`], which
//! converts into an [`Instant`].
//!
//! # Guarantees
//!
//! A reading promises what one of tickline does ([Guarantees](tickline#guarantees)). All clocks
//! except mocks share one timescale: ns of `CLOCK_MONOTONIC`. A [`tickline::Instant`] is in this
//! timescale, too.
//!
//! # Features
//!
//! `mock` (default): [`Mock`], [`IntoNanoseconds`], [`Clock::mock`]. Without `mock`,
//! [`with_clock`] only calls its closure, and readings skip the check for a replacement clock.
#![forbid(unsafe_code)]

mod clock;
mod current;
mod instant;
#[cfg_attr(not(feature = "mock"), path = "no_mock.rs")]
mod mock;
mod recent;
mod upkeep;
mod word;

pub use clock::Clock;
pub use current::with_clock;
pub use instant::Instant;
#[cfg(feature = "mock")]
pub use mock::{IntoNanoseconds, Mock};
pub use recent::set_recent;
pub use upkeep::{Error, Handle, Upkeep};

/// Makes the README's examples doctests.
#[cfg(all(doctest, feature = "mock"))]
#[doc = include_str!("../README.md")]
struct Readme;
