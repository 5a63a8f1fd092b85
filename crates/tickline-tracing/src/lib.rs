//! This crate times a program's [`tracing`](https://docs.rs/tracing) spans by the CPU's counter,
//! through [tickline].
//!
//! This example writes a trace file for <https://ui.perfetto.dev>, even if the program panics:
//!
#![cfg_attr(feature = "trace-file", doc = "```")]
#![cfg_attr(not(feature = "trace-file"), doc = "```ignore")]
//! use tickline_tracing::SpanTimingLayer;
//! use tickline_tracing::trace_file::TraceFile;
//! use tracing_subscriber::filter::LevelFilter;
//! use tracing_subscriber::prelude::*;
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//! #   let folder = tempfile::tempdir()?;
//! #   std::env::set_current_dir(&folder)?;
//!     let _thread = tickline::start()?; // keep it by a name, not `_`
//!     let builder = TraceFile::builder().with_fields().flush_on_panic();
//!     let (trace, guard) = builder.create("trace.json")?;
//!     let layer = SpanTimingLayer::new().with_sink(trace);
//!     tracing_subscriber::registry().with(layer.with_filter(LevelFilter::INFO)).init();
//!
//!     tracing::info_span!("request", user = 7).in_scope(|| {
//!         tracing::info!(rows = 3, "read");
//!     });
//!
//!     let summary = guard.finish()?; // at the end of `main`: join the threads first
//!     println!("{summary}"); // "1 interval and 1 event"
//! #   assert_eq!(summary.to_string(), "1 interval and 1 event");
//!     Ok(())
//! }
//! ```
//!
//! Without the filter, the spans and events of every level and library would be in the trace.
//! Without the thread, [readings may stay with the OS clock](#before-calibration). On systems other
//! than Linux and Windows, such as macOS, they [always do](tickline#trust).
//!
//! Open `trace.json` in <https://ui.perfetto.dev>. If a signal ends the program, as Ctrl-C does,
//! the guard is not dropped. The file may then lack the last 100 ms and the final `]`, and still
//! opens.
//!
//! An async server adds `.tracks(Tracks::Requests)`. Without it the trace has a slice for each poll
//! of a request, and lacks a value that `span.record` adds after the last `.await`.
//! [`Tracks`](trace_file::Tracks) has an example.
//!
//! | to | use |
//! |---|---|
//! | get each span's times | [`SpanTimingLayer`], [`SpanTimingLayer::with_callback`] |
//! | read them in another layer | [`SpanTimes`], in the span's extensions |
//! | write all spans and events to a file, as JSON or in Perfetto's own format | [`trace_file::TraceFile`] |
//! | see each request of an async server as one slice, with values recorded after its last `.await` | [`.tracks(Tracks::Requests)`](trace_file::Tracks) |
//! | see in that file how much CPU time each thread used | [`trace_file::TraceFileBuilder::with_cpu_time`] |
//! | keep the last seconds in memory, and write them when something goes wrong | [`flight::FlightRecorder`], [`flight::FlightRecorderBuilder::keep_last`] |
//! | get the last moments after a kill, an abort or a segfault (Unix) | [`flight::FlightRecorderBuilder::in_file`], `tickline flight` |
//! | get count, sum, max and quantiles for each span name, or histograms for Prometheus, by fields such as route and status | [`histogram::Histograms`] |
//! | get `time.busy` and `time.idle` in all layers' output, as `fmt` prints with `FmtSpan::CLOSE` | [`.with_sink(CloseEvents::new())`](CloseEvents) |
//! | get the CPU time of each span, besides busy and idle | `cpu_time::CpuTimer` (feature `cpu-time`, Unix) |
//! | write `fmt`'s lines with tickline's times | [`fmt`] |
//! | get these times in the spans that tracing-opentelemetry exports | `otel::layer` (feature `opentelemetry-0-33`) |
//! | merge traces of several machines, with a known error | `utc::record_utc` (feature `utc`) |
//!
//! # What it costs
//!
//! A span costs four readings of the counter and four atomic exchanges. The layer keeps open spans
//! in a table of its own, indexed by the span's number. When a span is closed, the layer stores its
//! times in the span's extensions, unless they are [for its sinks
//! only](SpanTimingLayer::for_sinks_only). The table takes 16 KB. Each thread that creates spans
//! adds a chunk of 2 KB for 32 open spans. If a thread has more spans open at once, the layer adds
//! chunks of 4 KB, 8 KB and so on: 10,000 open spans take 1 MB. A span that a filter hides from the
//! layer costs the layer nothing.
//!
//! The [record](https://github.com/tickline/tickline/blob/main/benches/README.md) states the cost
//! of a span with this layer and with each sink, on one and on two threads, next to a layer that
//! only stores an extension, `fmt` with `FmtSpan::CLOSE`, tracing-chrome and
//! tracing-opentelemetry.
//!
//! In this layer, its histograms and its recorders, threads do not write to shared memory at every
//! span, unless a span moves between threads. The registry's stacks of open spans may share a cache
//! line, because thread_local 1.1 allocates the stacks of the second and the third thread side by
//! side. A span of these threads then takes longer, with any layers. A trace also takes CPU time on
//! its writer's thread.
//!
//! # Order
//!
//! The layer reads the time by [`tickline::now_ns`], whose readings are in order within a thread.
//! The times of a span that stays on its thread are therefore in order, too. Between threads they
//! may be out of order by nanoseconds, rarely by microseconds, because a CPU may read the counter
//! before older loads complete. If one thread exits a span and another thread enters it right after
//! that, the idle time may be too short by this amount. No time is ever negative.
//!
//! The layer reads the clock first at an exit and at the end of a span, and last at an enter. Its
//! own work therefore counts as idle time, not as busy time.
//!
//! # When a gate is closed
//!
//! If a gate is closed, the layer reads the OS clock, on the same timescale; [`tickline::Status`]
//! gives the reason. A span then costs four calls of `clock_gettime`. If the gate closes during a
//! span, the span's times are still right.
//!
//! Do not use `trace_file` or `flight` in a process that may not read the counter (`PR_SET_TSC`,
//! the reason `denied`). They also read the system's clocks through the vDSO. If the vDSO reads the
//! counter, the process ends by SIGSEGV.
//!
//! # Before calibration
//!
//! Readings come from the OS clock until the counter is calibrated. While a program holds a guard
//! of [`tickline::start`], a thread of tickline calibrates the counter at once, and the program's
//! own threads never do. Without this thread, readings stay with the OS clock in two cases:
//!
//! - The program reads the time less often than about every 2 ms.
//! - The machine's kernel keeps time with another clock than the counter, as in many virtual
//!   machines.
//!
//! # Features
//!
//! - `fmt` (default): the module `fmt`.
//! - `histogram` (default): the module `histogram`.
//! - `trace-file` (default): the modules `trace_file` and `flight`.
//! - `compression`: compressed traces, `TraceFormat::CompressedPerfetto`, by flate2.
//! - `local-time`: `fmt::Rfc3339::local`, times in the system's time zone, by jiff.
//! - `cpu-time`: the module `cpu_time`, on Unix, by nix.
//! - `opentelemetry-0-33`: the module `otel`, for opentelemetry 0.33 (tracing-opentelemetry 0.34).
//! - `utc`: the module `utc`, for the distance of a trace's times from UTC.
//!
//! Without features the crate needs `tickline`, `tracing-core`, the registry of
//! `tracing-subscriber`, and `spin`, which has no dependencies.
//!
//! # Examples
//!
//! In
//! [`examples/`](https://github.com/tickline/tickline/tree/main/crates/tickline-tracing/examples):
//! `trace_file` (a trace for Perfetto), `flight_recorder` (the trace of a killed server),
//! `tokio_histograms` (tasks that move between threads), `beside_fmt` (close events, times, and a
//! custom layer that reads the spans' times), `opentelemetry` (exported spans).
#![deny(unsafe_code)] // Exceptions: the memory of rings and its views (`trace`); a layer (`otel`).

// The folders, in order: each uses only those above it.
//
// | folder | has |
// |---|---|
// | `layer` | the layer that times spans, and the sinks to which it passes them |
// | `output` | histograms, close events, OpenTelemetry, formats |
// | `trace` | trace files in JSON and in Perfetto's format, and the flight recorder with its black box |
mod layer;
mod output;
#[cfg(feature = "trace-file")]
mod trace;
#[cfg(feature = "utc")]
pub mod utc;

// Each item has one path. The argument and the result of a builder are in the builder's module;
// what trace files and flight recorders share is in `trace_file`.
pub use layer::SpanTimingLayer;
pub use layer::callback::{Callback, ClosedSpan};
#[cfg(all(unix, feature = "cpu-time"))]
pub use layer::cpu_time;
pub use layer::sink::Sink;
pub use layer::timing::SpanTimes;
pub use output::close_event::CloseEvents;
#[cfg(feature = "fmt")]
pub use output::fmt;
#[cfg(feature = "histogram")]
pub use output::histogram;
#[cfg(feature = "opentelemetry-0-33")]
pub use output::otel;
#[cfg(feature = "trace-file")]
pub use trace::{flight, trace_file};

/// Makes the README's examples doctests.
#[cfg(all(doctest, feature = "trace-file", feature = "histogram"))]
#[doc = include_str!("../README.md")]
struct Readme;
