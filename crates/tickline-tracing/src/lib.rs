//! See where a program's time goes, from its [`tracing`](https://docs.rs/tracing) spans, which are
//! timed by the CPU's counter through [tickline].
//!
//! To have a trace file that <https://ui.perfetto.dev> opens, also if the program panics:
//!
//! ```
//! use tickline_tracing::SpanTimingLayer;
//! use tickline_tracing::chrome::Chrome;
//! use tracing_subscriber::layer::SubscriberExt;
//!
//! # fn main() -> std::io::Result<()> {
//! # let dir = std::env::temp_dir().join("tickline-front-page.json");
//! # let name = "trace.json"; let path = dir.with_file_name(name);
//! let (chrome, guard) = Chrome::builder().with_fields().flush_on_panic().create(&path)?;
//! let layer = SpanTimingLayer::new().with_sink(chrome);
//! let subscriber = tracing_subscriber::registry().with(layer);
//! # tracing::subscriber::with_default(subscriber, || {
//! tracing::info_span!("request", user = 7).in_scope(|| {
//!     tracing::info!(rows = 3, "read");
//! });
//! # });
//! let summary = guard.finish()?; // at the end of `main`
//! println!("{} spans, of which {} did not end", summary.written, summary.open);
//! # std::fs::remove_file(path)
//! # }
//! ```
//!
//! | to | use |
//! |---|---|
//! | have each span's times | [`SpanTimingLayer`], [`SpanTimingLayer::with_callback`] |
//! | read them in another layer | [`SpanTiming`], in the span's extensions |
//! | write all spans and events to a file | [`chrome::Chrome`] |
//! | keep the last moments in memory, and write them when something goes wrong | [`flight::FlightRecorder`] |
//! | have count, p50, p90, p99, p99.9, max for each span name | [`histogram::Histograms`] |
//! | have `time.busy` and `time.idle` in all layers' output, as `fmt` prints with `FmtSpan::CLOSE` | [`CloseEvents`] |
//! | write `fmt`'s lines with tickline's times | [`format`](mod@format) |
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
//! A span that is created, entered, exited and closed, in ns. AMD EPYC, family 25, model 17 (2
//! CPUs, under KVM, clocksource tsc, rustc 1.95, 2026-11-21), where `rdtsc` takes 9.5 ns and
//! `std::time::Instant::now` 23; by `cargo run --release -p tickline-benches --bin spans -- --rounds
//! 400`, the fastest of 400 rounds on one thread:
//!
//! | | ns | x rdtsc |
//! |---|---|---|
//! | a registry without layers | 49 | 5.2 |
//! | a layer that does nothing | 65 | 6.8 |
//! | a layer that stores an extension | 109 | 11.5 |
//! | the same, looking it up three times | 206 | 21.8 |
//! | **[`SpanTimingLayer`]** | 148 | 15.6 |
//! | the same, while 10,000 other spans are open | 159 | 16.8 |
//! | the same over `std` | 229 | 24.2 |
//! | **with `Histograms`** | 174 | 18.4 |
//! | **with `FlightRecorder`** | 202 | 21.3 |
//! | **with `Chrome`**, to a sink | 207 | 21.9 |
//! | tracing-chrome 0.7, to a sink | 348 | 36.8 |
//! | tracing-timing 0.7, which needs an event in the span | 397 | 41.9 |
//! | **with [`CloseEvents`]** and `fmt`, which has its own timer | 902 | 95.2 |
//! | `fmt` with `FmtSpan::CLOSE` and its own timer | 1,326 | 140.0 |
//! | **with [`CloseEvents`]** and `fmt`, which has `Rfc3339` | 780 | 82.3 |
//!
//! A timed span costs 4.1 bare readings more than a layer that stores an extension. It costs less
//! than a layer that looks its extension up when the span is entered, exited and closed, because
//! each lookup takes 34 ns. With 10,000 open spans the storing layer costs 8 ns more, too. With two
//! threads all figures vary by hundreds of ns from run to run, the registry's own most of all;
//! threads share nothing that they write in this layer, its histograms and its recorders. The
//! [record](https://github.com/tickline/tickline/blob/main/benches/README.md) has both columns for
//! other processors.
//!
//! A trace takes CPU time of its writer's thread, too. In all, and per span: 315 ns with `Chrome`,
//! 1,443 with tracing-chrome (one thread; two: 341 and 1,527), from the same command.
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
//! `fmt` (default): `format`. `histogram` (default). `chrome` (default): `chrome` and `flight`.
//! `local-time`: the system's time zone, by jiff. Without any of them the crate needs `tickline`, `tracing-core`,
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
#[cfg(feature = "chrome")]
pub mod flight;
#[cfg(feature = "fmt")]
pub mod format;
#[cfg(feature = "histogram")]
pub mod histogram;
mod kept_fields;
mod layer;
mod layer_over;
mod open_spans;
mod sink;
mod source;
mod timing;
#[cfg(feature = "chrome")]
mod trace;
mod unix_offset;

pub use close_event::CloseEvents;
pub use layer::SpanTimingLayer;
pub use sink::{Callback, ClosedSpan, OpenSpan, Sink};
pub use timing::SpanTiming;

/// The layer over another clock: one that a test moves by hand, or that of `std`, to see what the
/// counter gains.
///
/// ```
/// use tickline_tracing::over::{LayerOver, StdClock};
/// use tracing_subscriber::layer::SubscriberExt;
///
/// let subscriber = tracing_subscriber::registry().with(LayerOver::new(StdClock::new()));
/// # tracing::subscriber::with_default(subscriber, || tracing::info_span!("work").in_scope(|| ()));
/// ```
pub mod over {
    pub use crate::layer_over::LayerOver;
    pub use crate::source::{StdClock, TimeSource};
}

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
