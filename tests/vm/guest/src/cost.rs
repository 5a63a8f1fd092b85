//! Measures the cost of calls and spans in this guest, and their cost with the OS clock in
//! multiples of it.

use std::hint::black_box;

use serde_json::{Value, json};
use tickline::{Clock, State};
use tickline_observe::monotonic_ns;
use tickline_tracing::SpanTimingLayer;
use tickline_tracing::source::StdClock;
use tracing::{Dispatch, info_span};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry;

use crate::brackets::state_name;
use crate::lab::{PATIENCE, wait_for};

/// The numbers of calls and of spans in a batch. A batch takes some 0.1 to 1 ms, also with the OS
/// clock, so that many batches have no interrupt.
const CALLS: u64 = 1_000;
const SPANS: u64 = 100;

/// The number of batches of each kind. The fastest counts. The batches are interleaved, so that all
/// kinds meet the same disturbances.
const BATCHES: u32 = 200;

/// The times of the fastest batch of each kind, ns.
fn fastest_ns(batches: [&dyn Fn(); 2]) -> [u64; 2] {
    let mut fastest_ns = [u64::MAX; 2];
    for _ in 0..BATCHES {
        for (batch, fastest_ns) in batches.iter().zip(&mut fastest_ns) {
            let start_ns = monotonic_ns();
            batch();
            *fastest_ns = (*fastest_ns).min(monotonic_ns() - start_ns);
        }
    }
    fastest_ns
}

/// The costs of a call of `now_ns`, and of `clock_gettime`.
pub(crate) fn of_calls(clock: &Clock) -> Value {
    let [now, os] = fastest_ns([&|| (0..CALLS).for_each(|_| _ = black_box(clock.now())), &|| {
        (0..CALLS).for_each(|_| _ = black_box(monotonic_ns()))
    }]);
    json!({
        "ps_a_call": now * 1_000 / CALLS,
        "os_ps_a_call": os * 1_000 / CALLS,
        "os_to_now_percent": os * 100 / now.max(1),
    })
}

/// The costs of a span of `tracing` that is made, entered, exited and closed, with each clock. The
/// layer uses the global clock, as users do.
pub(crate) fn of_spans() -> Value {
    let guard = match tickline::start() {
        Ok(guard) => guard,
        Err(error) => return json!({ "error": error.to_string() }),
    };
    let waited = wait_for(PATIENCE, || Clock::global().status().state == State::Fast);
    let spans = || {
        for _ in 0..SPANS {
            let span = info_span!("span");
            let entered = span.enter();
            black_box(());
            drop(entered);
        }
    };
    let ours = Dispatch::new(registry().with(SpanTimingLayer::new()));
    let std = Dispatch::new(registry().with(SpanTimingLayer::from_source(StdClock::new())));
    let [ours, std] = [&ours, &std].map(|layer| move || tracing::dispatcher::with_default(layer, spans));
    let [ours, std] = fastest_ns([&ours, &std]);
    let state = state_name(Clock::global().status().state);
    drop(guard);
    json!({
        "reached": waited["reached"],
        "state": state,
        "ns_a_span": ours / SPANS,
        "std_ns_a_span": std / SPANS,
        "over_std_percent": std * 100 / ours.max(1),
    })
}
