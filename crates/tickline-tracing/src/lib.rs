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
//! is taken is kept in its extensions, which cost a lookup in the registry at each of the four. A subscriber without the layer
//! pays nothing, and spans that a filter keeps from it cost it nothing.
//!
//! For a span that is created, entered, exited and closed, in ns and in times of a bare `rdtsc`, which takes 8.8 ns: on a
//! 2-core AMD EPYC (Zen 5) guest under KVM, Linux 6.18, clocksource tsc, where `std::time::Instant::now` takes 21 ns. rustc 1.95,
//! 2026-11-20, `cargo run --release -p tickline-benches --bin spans`; with two threads the median, and both CPUs are busy:
//!
//! | | 1 thread | x rdtsc | 2 threads |
//! |---|---|---|---|
//! | a registry without layers | 72 | 8.2 | 162 |
//! | a layer that does nothing | 69 | 7.8 | 109 |
//! | a layer that stores an extension | 107 | 12.1 | 183 |
//! | the same, looking it up three times | 198 | 22.5 | 239 |
//! | **[`SpanTimingLayer`]** | 145 | 16.4 | 199 |
//! | the same over `std` | 241 | 27.3 | 327 |
//! | **with `Histograms`** | 159 | 18.0 | 228 |
//! | tracing-timing 0.7, which needs an event in the span | 458 | 51.9 | 1,104 |
//! | **with `Chrome`**, to a sink | 231 | 26.2 | 447 |
//! | tracing-chrome 0.7, to a sink | 336 | 38.1 | 414 |
//! | **with [`CloseEvents`]** and `fmt`, its time by `Rfc3339` | 614 | 69.6 | 687 |
//! | `fmt` with `FmtSpan::CLOSE` | 1,025 | 116.2 | 1,177 |
//!
//! So on one thread a timed span costs 4.3 bare readings on top of a layer that stores an extension (3.7 to 4.5 in ten runs), and
//! less than one that looks its extension up when the span is entered, exited and closed: each lookup takes 31 ns. With two threads
//! the figures of every subject vary from run to run, by 50 ns and more: the same difference was 1.9 to 9.4 readings. `Chrome` has
//! a third thread then, its writer, and two CPUs; from run to run it is a little ahead of tracing-chrome, or behind.
//!
//! Over the OS clock a span takes 1.7 times as long here. In emulated guests (`docs/guests.md` in the repository) it takes 1.4 times
//! as long if the clocksource is tsc, and 3.9 times if it is hpet.
//!
//! # Order
//!
//! All readings are plain ones ([`tickline::now_ns`]): in order within a thread, so a span that stays on its thread is exact.
//! Between threads the CPU may read the counter before older loads that still wait, by nanoseconds, rarely microseconds: a span
//! that is entered on one thread right after it was exited on another may have an idle time that much too short. No time is
//! ever negative.
//!
//! The reading at an exit and at the end is the first thing that is done there, and the one at an enter the last, so the
//! layer's own work does not count as the span's busy time; it counts as idle.
//!
//! # When a gate is closed
//!
//! Readings go on through the OS clock ([`tickline::Status`] says why), on the same timescale: a span that began with the
//! counter and ends without it has the right times. It then costs four calls of `clock_gettime`. Programs
//! that want the counter from the start, and no recalibration on their own threads, hold a guard of [`tickline::start`].
//!
//! # Features
//!
//! `fmt` (default): `format`. `histogram` (default). `chrome` (default). `local-time`: the system's time zone, by jiff. Without
//! any of them the crate needs `tickline`, `tracing-core`, `tracing-subscriber`'s registry, and `spin`, which has none of its own.
//!
//! # Examples
//!
//! In the repository's [`examples/`](https://github.com/tickline/tickline/tree/main/examples): `chrome_trace` (threads, a file for
//! Perfetto), `tokio_histograms` (tasks that move between threads), `beside_fmt` (close events, times, and a layer of one's own that
//! reads the spans' times).
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
pub use sink::{Callback, ClosedSpan, Sink};
pub use timing::SpanTiming;

/// For this project's tests and benches: the layer over other clocks. This is not part of the API, and may change in any release.
#[doc(hidden)]
pub mod over {
    pub use crate::layer_over::LayerOver;
    pub use crate::source::{StdClock, TimeSource};
}

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
