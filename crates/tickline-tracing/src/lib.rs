//! Shows where a program's time goes. The CPU's counter times the program's
//! [`tracing`](https://docs.rs/tracing) spans, through [tickline].
//!
//! This writes a trace file for <https://ui.perfetto.dev>, also if the program panics:
//!
#![cfg_attr(feature = "chrome", doc = "```")]
#![cfg_attr(not(feature = "chrome"), doc = "```ignore")]
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
//! | have the CPU time of each span, beside busy and idle | `running::RunningTime` (feature `running`, Unix) |
//! | write `fmt`'s lines with tickline's times | [`format`](mod@format) |
//! | have these times in the spans that tracing-opentelemetry exports | `otel::OtelTimes` (feature `opentelemetry-0-33`) |
//!
//! # What it costs
//!
//! A span costs four readings of the counter, and an atomic exchange with each. When the span is
//! closed, the layer stores the times in the span's extensions. The layer keeps open spans in a
//! table of its own, which it indexes by the span's number. The table takes 16 KB. Each thread that
//! creates spans adds a chunk of 2 KB for 32 open spans. Further chunks of 4 KB, 8 KB and so on are
//! added when the thread has more spans open at once: 10,000 of them take 1 MB. Spans that a filter
//! keeps from the layer cost it nothing.
//!
//! The table shows the cost of a span that is created, entered, exited and closed: the fastest of
//! 200 rounds on one thread. The machine is an AMD EPYC, family 25, model 17 (2 CPUs, under KVM,
//! clocksource tsc, rustc 1.95, 2026-11-21). `rdtsc` takes 9.5 ns there, and
//! `std::time::Instant::now` 23 ns. The command is `cargo run --release -p tickline-benches --bin
//! spans -- --rounds 200`.
//!
//! | | ns | x rdtsc |
//! |---|---|---|
//! | a registry without layers | 59 | 6.2 |
//! | a layer that does nothing | 67 | 7.0 |
//! | a layer that stores an extension | 111 | 11.7 |
//! | the same, while 10,000 other spans are open | 121 | 12.7 |
//! | the same, looking it up three times | 206 | 21.6 |
//! | **[`SpanTimingLayer`]** | 150 | 15.8 |
//! | the same, while 10,000 other spans are open | 163 | 17.2 |
//! | the same over `std` | 237 | 24.9 |
//! | **with `Histograms`** | 185 | 19.4 |
//! | **with `FlightRecorder`** | 209 | 22.0 |
//! | **with `Chrome`**, to a sink | 227 | 23.9 |
//! | **with `RunningTime`**, two system calls | 1,304 | 137.2 |
//! | tracing-chrome 0.7, to a sink | 372 | 39.2 |
//! | **with [`CloseEvents`]** and `fmt` | 928 | 97.7 |
//! | `fmt` with `FmtSpan::CLOSE`, the same timer | 1,336 | 140.6 |
//! | **with [`CloseEvents`]** and `fmt`, which has `Rfc3339` | 774 | 81.4 |
//! | `fmt` with `FmtSpan::CLOSE`, the same timer | 1,171 | 123.2 |
//!
//! A timed span costs 4.1 bare readings more than a layer that stores an extension. It costs less
//! than a layer that looks its extension up when the span is entered, exited and closed, because
//! each lookup takes 31 ns.
//!
//! The rows with `Histograms`, here and below, are older than the lock that a thread's histograms are
//! behind: on an Intel Xeon (family 6, model 207), under load, a span takes some 25 ns more with it. The
//! rows with `Rfc3339` are from a time when it kept a time's text; it formats each time anew.
//!
//! Two threads that share nothing pay little more than one. On an Intel Xeon (family 6, model 167),
//! where `rdtsc` takes 17 ns, by the median of 200 rounds on two threads:
//!
//! | | one thread, ns | two threads, ns |
//! |---|---|---|
//! | a layer that stores an extension | 165 | 187 |
//! | **[`SpanTimingLayer`]** | 304 | 347 |
//! | **with `Histograms`** | 314 | 362 |
//! | **with `FlightRecorder`** | 363 | 425 |
//!
//! In this layer, its histograms and its recorders, threads share no memory that they write at every
//! span, unless the span moves between them. The registry's stacks of open spans may share a cache
//! line (thread_local 1.1 puts those of the second and the third thread side by side): a span then
//! took up to 700 ns more there, whatever the layers. The
//! [record](https://github.com/tickline/tickline/blob/main/benches/README.md) has the figures of
//! other processors.
//!
//! A trace also takes CPU time on its writer's thread. In all, a span then takes 322 ns of CPU time
//! with `Chrome`, and 1,455 ns with tracing-chrome. If two threads create spans, it takes 350 and 1,562
//! ns. These figures are from the same command.
//!
//! # Order
//!
//! The layer reads the time by [`tickline::now_ns`], whose readings are in order within a thread.
//! The times of a span that stays on its thread are therefore in order, too. Between threads they
//! may not be: a CPU may read the counter before older loads are done, by nanoseconds, rarely by
//! microseconds. If one thread exits a span and another enters it right after that, the idle time
//! may be too short by as much. No time is ever negative.
//!
//! The layer reads the clock first at an exit and at the end of a span, and last at an enter. Its
//! own work therefore counts as idle time, not as busy time.
//!
//! # When a gate is closed
//!
//! The layer then reads the OS clock, on the same timescale; [`tickline::Status`] gives the reason.
//! A span that began with the counter and ends without it has the right times. Each span then costs
//! four calls of `clock_gettime`. A program that wants the counter from the start, and no
//! recalibration on its own threads, holds a guard of [`tickline::start`].
//!
//! # Features
//!
//! - `fmt` (default): the module `format`.
//! - `histogram` (default): the module `histogram`.
//! - `chrome` (default): the modules `chrome` and `flight`.
//! - `local-time`: times in the system's time zone, by jiff.
//! - `running`: the module `running`, on Unix, by nix.
//! - `opentelemetry-0-33`, `opentelemetry-0-32`: the module `otel`, for that version of OpenTelemetry.
//!
//! Without features the crate needs `tickline`, `tracing-core`, the registry of
//! `tracing-subscriber`, and `spin`, which has no dependencies.
//!
//! # Examples
//!
//! In the repository's [`examples/`](https://github.com/tickline/tickline/tree/main/examples):
//! `chrome_trace` (threads, a file for Perfetto), `flight_recorder` (a server's last moments),
//! `tokio_histograms` (tasks that move between threads), `beside_fmt` (close events, times, and a
//! layer of one's own that reads the spans' times), `opentelemetry` (exported spans).
#![forbid(unsafe_code)]

mod brief_lock;
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
mod open_spans;
#[cfg(any(feature = "opentelemetry-0-32", feature = "opentelemetry-0-33"))]
pub mod otel;
#[cfg(all(unix, feature = "running"))]
pub mod running;
mod sink;
mod source;
mod timing;
#[cfg(feature = "chrome")]
mod trace;
mod unix_offset;

pub use close_event::CloseEvents;
pub use layer::SpanTimingLayer;
pub use sink::{Callback, ClosedSpan, Sink};
pub use timing::SpanTiming;

/// Clocks for [`SpanTimingLayer::over`], in place of tickline's.
pub mod over {
    pub use crate::source::{GlobalClock, StdClock, TimeSource};
}

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
