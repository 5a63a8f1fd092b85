//! tickline beside `tracing_subscriber::fmt`. `fmt` prints times by tickline's clock. The timing
//! layer writes the close events of the spans. A layer of the program reads the same times.
//!
//! `cargo run --release --example beside_fmt`
//!
//! Its output has: "patient", "lazy", "time.busy".

use std::thread;
use std::time::Duration;

use tickline_tracing::fmt::Rfc3339;
use tickline_tracing::{CloseEvents, SpanTimes, SpanTimingLayer};
use tracing::span::Id;
use tracing::{Subscriber, info, info_span, warn};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

/// A layer that reports spans which were idle for longer than they were busy.
struct Lazy;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lazy {
    fn on_close(&self, id: Id, ctx: Context<'_, S>) {
        let Some(times) = ctx.span(&id).as_ref().and_then(SpanTimes::of) else {
            return;
        };
        if times.idle() > times.busy() {
            warn!(idle = ?times.idle(), total = ?times.total(), enters = times.enters(), "lazy");
        }
    }
}

fn main() -> Result<(), tickline::Error> {
    let _thread = tickline::start()?;
    tracing_subscriber::registry()
        // The timing layer comes first, so that the layers after it can read the times.
        .with(SpanTimingLayer::new().with_sink(CloseEvents::new()))
        .with(Lazy)
        .with(tracing_subscriber::fmt::layer().with_timer(Rfc3339::new().digits(9)))
        .init();

    info_span!("diligent").in_scope(|| thread::sleep(Duration::from_millis(2)));

    let span = info_span!("patient", job = 7);
    span.in_scope(|| info!("begins"));
    thread::sleep(Duration::from_millis(5));
    span.in_scope(|| info!("ends"));
    Ok(())
}
