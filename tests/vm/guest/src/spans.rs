//! What a span of `tracing` costs in this guest, made, entered, exited and closed: timed by
//! tickline, and by the OS clock.

use std::hint::black_box;

use serde_json::{Value, json};
use tickline::{Clock, State};
use tickline_tracing::SpanTimingLayer;
use tickline_tracing::over::StdClock;
use tracing::{Dispatch, info_span};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry;

use crate::brackets::state_name;
use crate::lab::{PATIENCE, wait_for};
use crate::system::monotonic_ns;

/// Spans in a batch: less than 1 ms with the OS clock, too, so that a batch without an interrupt is
/// common.
const SPANS: u32 = 100;

/// Batches; the fastest counts. Those of both clocks are interleaved, so that both meet the same
/// disturbances.
const BATCHES: u32 = 200;

/// ns a span by either clock, and how many percent of ours the other one is. The layer's clock is
/// the global one, as users have it.
pub(crate) fn measure() -> Value {
    let guard = match tickline::start() {
        Ok(guard) => guard,
        Err(error) => return json!({ "error": error.to_string() }),
    };
    let waited = wait_for(PATIENCE, || Clock::global().status().state == State::Fast);
    let layers = [
        Dispatch::new(registry().with(SpanTimingLayer::new())),
        Dispatch::new(registry().with(SpanTimingLayer::over(StdClock::new()))),
    ];
    let mut fastest_ns = [u64::MAX; 2];
    for _ in 0..BATCHES {
        for (layer, fastest_ns) in layers.iter().zip(&mut fastest_ns) {
            *fastest_ns = (*fastest_ns).min(tracing::dispatcher::with_default(layer, batch_ns));
        }
    }
    let state = state_name(Clock::global().status().state);
    drop(guard);
    let [ours, std] = fastest_ns;
    json!({
        "reached": waited["reached"],
        "state": state,
        "ns_a_span": ours / u64::from(SPANS),
        "std_ns_a_span": std / u64::from(SPANS),
        "over_std_percent": std * 100 / ours.max(1),
    })
}

fn batch_ns() -> u64 {
    let start_ns = monotonic_ns();
    for _ in 0..SPANS {
        let span = info_span!("span");
        let entered = span.enter();
        black_box(());
        drop(entered);
    }
    monotonic_ns() - start_ns
}
