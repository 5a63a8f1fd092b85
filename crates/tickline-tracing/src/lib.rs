//! [`tracing`](https://docs.rs/tracing) spans timed by the CPU's counter, through [tickline].
//!
//! ```
//! use tickline_tracing::SpanTimingLayer;
//! use tracing_subscriber::layer::SubscriberExt;
//!
//! let timing = SpanTimingLayer::new().with_callback(|span| {
//!     let times = span.times();
//!     println!("{}: busy {:?}, idle {:?}", span.name(), times.busy(), times.idle());
//! });
//! let subscriber = tracing_subscriber::registry().with(timing);
//! # tracing::subscriber::with_default(subscriber, || {
//! tracing::info_span!("work").in_scope(|| {
//!     // ...
//! });
//! # });
//! ```
//!
//! | | |
//! |---|---|
//! | [`SpanTimingLayer`] | times every span: a reading when it is created, entered, exited, closed |
//! | [`SpanTiming`] | where other layers find the times: in the span's extensions |
//! | [`SpanTimingLayer::with_callback`] | calls a closure for each span that is closed |
//! | [`CloseEvents`] | an event with `time.busy` and `time.idle`, as `fmt` makes with `FmtSpan::CLOSE`, for all layers |
//! | `histogram::Histograms` | count, p50, p90, p99, p99.9, max for each span name |
//! | `chrome::Chrome` | a trace file for Perfetto, whole even if the program is killed |
//! | `format::{Rfc3339, Rfc3339Local, Uptime}` | times for `fmt`'s lines |
//!
//! # What it costs
//!
//! Four readings of the counter a span, an atomic exchange for each, and storing the times in the span's extensions when it is
//! closed. What is known of open spans is in 256 slots of the layer's own (16 KB), found by the span's number; a span whose slot
//! is taken is kept in its extensions, which cost a look into the registry at each of the four. A subscriber without the layer
//! pays nothing, and spans that a filter keeps from it cost it nothing.
//!
//! For a span that is created, entered, exited and closed, in ns and in times of a bare `rdtsc`, which takes 9.0 ns: on a
//! 2-core AMD EPYC (Zen 5) guest under KVM, Linux 6.18, clocksource tsc, where `std::time::Instant::now` takes 21 ns; and in an
//! emulated guest (QEMU 7.2, one CPU) whose clocksource is hpet, where it takes 1,090. rustc 1.95, 2026-11-20,
//! `cargo run --release -p tickline-benches --bin spans`:
//!
//! | | 1 thread | 2 threads | x rdtsc | hpet, emulated |
//! |---|---|---|---|---|
//! | a registry without layers | 75 | 93 | 8.4 | 602 |
//! | a layer that does nothing | 69 | 109 | 7.7 | 839 |
//! | a layer that stores an extension | 108 | 140 | 12.0 | 1,532 |
//! | the same, looking it up three times | 201 | 336 | 22.5 | 2,255 |
//! | **[`SpanTimingLayer`]** | 146 | 209 | 16.3 | 1,867 |
//! | the same over [`Ticks`] | 162 | 222 | 18.1 | 1,999 |
//! | the same over [`Std`] | 258 | 327 | 28.8 | 6,590 |
//! | **with `Histograms`** | 160 | 292 | 17.9 | 2,017 |
//! | tracing-timing 0.7, which needs an event in the span | 454 | 498 | 50.7 | 4,946 |
//! | **with `Chrome`**, to a sink | 224 | 243 | 25.0 | 2,744 |
//! | tracing-chrome 0.7, to a sink | 335 | 321 | 37.4 | 7,308 |
//! | **with [`CloseEvents`]** and `fmt`, its time by `Rfc3339` | 643 | 693 | 71.8 | 9,876 |
//! | `fmt` with `FmtSpan::CLOSE` | 1,062 | 1,173 | 118.6 | 16,769 |
//!
//! So on one thread a timed span costs 4.3 bare readings on top of a layer that stores an extension (3.7 to 4.3 in three runs), and
//! less than one that looks its extension up when the span is entered, exited and closed: each look takes 33 ns. With two threads,
//! whose figures vary more, it is 4.1 to 7.7.
//!
//! # Order
//!
//! All readings are plain ones ([`tickline::now_ns`]): in order within a thread, so a span that stays on its thread is exact.
//! Between threads the CPU may read the counter before older loads that still wait, by nanoseconds, rarely microseconds: a span
//! that is entered on one thread right after it was exited on another may be told an idle time that much too short. No time is
//! ever negative.
//!
//! The reading at an exit and at the end is the first thing that is done there, and the one at an enter the last, so the
//! layer's own work does not count as the span's busy time; it counts as idle.
//!
//! # When a gate is closed
//!
//! Readings go on through the OS clock ([`tickline::Status`] says why), on the same timescale: a span that began with the
//! counter and ends without it has the right times. It then costs four calls of `clock_gettime`, as with [`Std`]. Programs
//! that want the counter from the start, and no recalibration on their own threads, hold a guard of [`tickline::start`].
//!
//! # Features
//!
//! `fmt` (default): `format`. `histogram` (default). `chrome` (default). `local-time`: the system's time zone, by jiff. Without
//! any of them the crate needs `tickline`, `tracing-core`, `tracing-subscriber`'s registry, and `spin`, which has none of its own.
//!
//! # Examples
//!
//! In `examples/`: `chrome_trace` (threads, a file for Perfetto), `tokio_histograms` (tasks that move between threads),
//! `beside_fmt` (close events, times, and a layer of one's own that reads the spans' times).
#![forbid(unsafe_code)]

#[cfg(feature = "chrome")]
pub mod chrome;
mod close_event;
#[cfg(feature = "fmt")]
pub mod format;
#[cfg(feature = "histogram")]
pub mod histogram;
mod layer;
mod open_spans;
mod sink;
mod source;
mod timing;

pub use close_event::CloseEvents;
pub use layer::SpanTimingLayer;
pub use sink::{Callback, ClosedSpan, Sink};
pub use source::{Nanos, Std, Ticks, TimeSource};
pub use timing::SpanTiming;

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
