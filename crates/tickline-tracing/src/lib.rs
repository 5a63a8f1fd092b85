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
//! | [`SpanTimingLayer`] | times every span: reads the clock when a span is created, entered, exited and closed |
//! | [`SpanTiming`] | the times, for other layers: in the span's extensions |
//! | [`SpanTimingLayer::with_callback`] | calls a closure for each span that is closed |
//! | [`CloseEvents`] | sends an event with `time.busy` and `time.idle` to all layers, as `fmt` prints with `FmtSpan::CLOSE` |
//! | `histogram::Histograms` | count, p50, p90, p99, p99.9, max for each span name |
//! | `chrome::Chrome` | a trace file for Perfetto, readable even if the program is killed |
//! | `format::{Rfc3339, Rfc3339Local, Uptime}` | times for `fmt`'s lines |
//!
//! # What it costs
//!
//! A span costs four readings of the counter, an atomic exchange for each, and storing its times
//! in its extensions when it is closed. Open spans are in a table of the layer's own, which it
//! indexes by the span's number: 16 KB, 2 KB for each thread that creates spans, and 64 bytes for
//! each span beyond 32 that were open at once on a thread, rounded up to a power of two. So 10,000
//! open spans of one thread take 1 MB. A subscriber without the layer pays nothing. Spans that a
//! filter keeps from the layer cost it nothing.
//!
//! A span that is created, entered, exited and closed, in ns and in times of a bare `rdtsc`. From
//! the [record](https://github.com/tickline/tickline/blob/main/benches/README.md) of an AMD EPYC,
//! family 26 (2 CPUs, under KVM, Linux 6.18, clocksource tsc, rustc 1.95, 2026-11-20), where
//! `rdtsc` takes 9.8 ns and `std::time::Instant::now` 23; by `cargo run --release -p
//! tickline-benches --bin spans`. With two threads the median counts, and both CPUs are busy:
//!
//! | | 1 thread | x rdtsc | 2 threads |
//! |---|---|---|---|
//! | a registry without layers | 83 | 8.5 | 262 |
//! | a layer that does nothing | 76 | 7.8 | 106 |
//! | a layer that stores an extension | 117 | 11.9 | 190 |
//! | the same, looking it up three times | 220 | 22.4 | 286 |
//! | **[`SpanTimingLayer`]** | 159 | 16.2 | 250 |
//! | the same over `std` | 263 | 26.8 | 328 |
//! | **with `Histograms`** | 174 | 17.7 | 213 |
//! | tracing-timing 0.7, which needs an event in the span | 490 | 49.9 | 1,078 |
//! | **with `Chrome`**, to a sink | 260 | 26.5 | 456 |
//! | tracing-chrome 0.7, to a sink | 373 | 37.9 | 448 |
//! | **with [`CloseEvents`]** and `fmt`, its time by `Rfc3339` | 669 | 68.2 | 731 |
//! | `fmt` with `FmtSpan::CLOSE` | 1,137 | 115.8 | 1,279 |
//!
//! On one thread a timed span costs 4.3 bare readings more than a layer that stores an extension.
//! It costs less than a layer that looks its extension up when the span is entered, exited and
//! closed, because each lookup takes 34 ns. With two threads all figures vary by 50 ns and more
//! from run to run. `Chrome` then has a third thread, its writer, on two CPUs.
//!
//! Over the OS clock a span takes 1.7 times as long there, and 1.2 times on an Intel Xeon, family
//! 6, model 207. In [emulated
//! guests](https://github.com/tickline/tickline/blob/main/docs/guests.md) it takes 1.2 times as
//! long if the clocksource is tsc, and 2.9 times if it is hpet.
//!
//! # Order
//!
//! All readings are plain ones ([`tickline::now_ns`]), which are in order within a thread. So the
//! times of a span that stays on its thread are exact. Between threads the CPU may read the
//! counter early, before older loads are done, by nanoseconds, rarely microseconds. If a span is
//! exited on one thread and entered on another right after that, its idle time may be too short
//! by as much. No time is ever negative.
//!
//! At an exit and at the end of a span the layer first reads the clock; at an enter it reads it
//! last. So the layer's own work counts as idle time, not as busy time.
//!
//! # When a gate is closed
//!
//! Readings go on by the OS clock ([`tickline::Status`] says why), on the same timescale. A span
//! that began with the counter and ends without it has the right times. A span then costs four
//! calls of `clock_gettime`. A program that wants the counter from the start, and no
//! recalibration on its own threads, holds a guard of [`tickline::start`].
//!
//! # Features
//!
//! `fmt` (default): `format`. `histogram` (default). `chrome` (default). `local-time`: the system's
//! time zone, by jiff. Without any of them the crate needs `tickline`, `tracing-core`,
//! `tracing-subscriber`'s registry, and `spin`, which has no dependencies.
//!
//! # Examples
//!
//! In the repository's [`examples/`](https://github.com/tickline/tickline/tree/main/examples):
//! `chrome_trace` (threads, a file for Perfetto), `tokio_histograms` (tasks that move between
//! threads), `beside_fmt` (close events, times, and a layer of one's own that reads the spans'
//! times).
#![forbid(unsafe_code)]

#[cfg(feature = "chrome")]
pub mod chrome;
mod close_event;
#[cfg(feature = "fmt")]
pub mod format;
#[cfg(feature = "histogram")]
pub mod histogram;
mod layer;
mod layer_over;
mod open_spans;
mod sink;
mod source;
mod timing;
mod unix_offset;

pub use close_event::CloseEvents;
pub use layer::SpanTimingLayer;
pub use sink::{Callback, ClosedSpan, OpenSpan, Sink};
pub use timing::SpanTiming;

/// For this project's tests and benches: the layer over other clocks. This is not part of the
/// API, and may change in any release.
#[doc(hidden)]
pub mod over {
    pub use crate::layer_over::LayerOver;
    pub use crate::source::{StdClock, TimeSource};
}

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
