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
//! Four readings of the counter a span, and what any layer pays that keeps something with a span: storing it, and looking it up
//! when the span is entered, exited, and closed. On a 2-core AMD Zen 5 guest under KVM (Linux 6.18, clocksource tsc, rustc 1.95, 2026-11-20;
//! `cargo run --release -p tickline-benches --bin spans`), for a span that is created, entered, exited and closed, in ns
//! and in times of a bare `rdtsc`:
//!
//! | | ns | x rdtsc |
//! |---|---|---|
//! | a layer that does nothing | 69 | 7.6 |
//! | a layer that stores an extension | 109 | 11.9 |
//! | the same, looking it up three times | 204 | 22.4 |
//! | [`SpanTimingLayer`] | 221 | 24.2 |
//! | the same over [`Std`] | 332 | 36.3 |
//!
//! The readings take 17 ns where four bare ones in a row take 36, as the CPU works on while the counter is read. A program whose
//! subscriber does not have the layer pays nothing, and a span that a filter keeps from it costs the layer nothing.
//!
//! # Order
//!
//! All readings are plain ones ([`tickline::now_ns`]): in order within a thread, so a span that stays on its thread is exact. Between
//! threads the CPU may read the counter before older loads that still wait, by nanoseconds, rarely microseconds: a span that is entered on
//! one thread right after it was exited on another may be told an idle time that much too short. No time is ever negative.
//! The reading at an exit and at the end is the first thing that is done there, and the one at an enter the last, so that the layer's own
//! work does not count as the span's busy time; it counts as idle.
//!
//! # When a gate is closed
//!
//! Readings go on through the OS clock ([`tickline::Status`] says why), on the same timescale: a span that began with the counter and ends
//! without it has the right times. It then costs four calls of `clock_gettime`, as with [`Std`]. Programs that want the counter
//! early, and no recalibration on their own threads, hold a guard of [`tickline::start`].
//!
//! # Features
//!
//! `fmt` (default): `format`. `histogram` (default). `chrome` (default). `local-time`: the system's time zone, by jiff. Without any of
//! them the crate needs `tickline`, `tracing-core` and `tracing-subscriber`'s registry.
#![forbid(unsafe_code)]

#[cfg(feature = "chrome")]
pub mod chrome;
mod close_event;
#[cfg(feature = "fmt")]
pub mod format;
#[cfg(feature = "histogram")]
pub mod histogram;
mod layer;
mod sink;
mod source;
mod timing;

pub use close_event::CloseEvents;
pub use layer::SpanTimingLayer;
pub use sink::{Callback, ClosedSpan, Sink};
pub use source::{Nanos, Std, Ticks, TimeSource};
pub use timing::{SpanTimes, SpanTiming};
