//! UTC in a trace. An event says how far UTC is from the trace's times. With it, traces of several
//! machines can be merged, with a known error.
//!
//! Times in traces are `CLOCK_MONOTONIC`, which begins anew at each start of a machine.
//! [`record_utc`] adds an event to whatever records events: a Chrome trace, a flight recorder, or
//! `fmt`'s lines.
//!
//! | field | |
//! |---|---|
//! | `utc_minus_monotonic_least_ns` | UTC of an event is its time plus this, at least |
//! | `utc_minus_monotonic_most_ns` | and plus this, at most |
//! | `utc_source` | who claims it ([`UtcSource::code`](tickline::utc::UtcSource::code)) |
//!
//! The two hold at that moment. The NTP daemon slews `CLOCK_MONOTONIC` (by up to 8 %, and rarely by
//! more than 0.05 %). So call the function at the start, at the end, and every few seconds. A
//! flight recorder keeps the fields if it was asked to (`with_fields`), and forgets old events.
//!
//! To merge two traces, add to each time the middle of the two values of the nearest event. Call
//! half the difference between the two values the error of a trace. The order of two events on
//! different machines is certain if they are further apart than the sum of the two traces' errors.

use tickline::utc::{UtcReading, UtcUnknown};
use tickline::{Clock, Instant};

/// Records an event of level INFO that relates the times of a trace to UTC; see the
/// [module](self). The clock is the one that the trace's times are from: [`Clock::global`].
///
/// ```
/// use tickline::Clock;
///
/// match tickline_tracing::utc::record_utc(Clock::global()) {
///     Ok(utc) => println!("the trace's times are related to UTC to within {:?}", utc.width()),
///     Err(why) => println!("the trace is on its own: {why}"),
/// }
/// ```
///
/// # Errors
///
/// As for [`Clock::utc`]. No event is recorded then.
pub fn record_utc(clock: &Clock) -> Result<UtcReading, UtcUnknown> {
    let before = clock.now_ordered();
    let utc = clock.utc()?;
    record([before, clock.now_ordered()], &utc);
    Ok(utc)
}

/// Records UTC as read between two readings of a trace's clock.
fn record([before, after]: [Instant; 2], utc: &UtcReading) {
    tracing::info!(
        name: "clock snapshot",
        utc_minus_monotonic_least_ns =
            utc.earliest().as_nanos().wrapping_sub(after.as_nanos()).cast_signed(),
        utc_minus_monotonic_most_ns = utc.latest().as_nanos().wrapping_sub(before.as_nanos()).cast_signed(),
        utc_source = utc.source().code(),
        "clock snapshot"
    );
}

#[cfg(all(test, feature = "chrome"))]
mod tests {
    use super::*;
    use crate::SpanTimingLayer;
    use crate::flight::FlightRecorder;
    use tickline::UnixTime;
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::registry;

    /// UTC was from 1,000 to 1,500 ns at a moment from 10 to 30 ns of the trace.
    #[test]
    fn a_snapshot_contains_every_possible_offset() {
        let recorder = FlightRecorder::builder().with_fields().build();
        let layer = SpanTimingLayer::new().with_sink(recorder.clone());
        let [earliest, latest] = [1_000, 1_500].map(UnixTime::from_nanos);
        tracing::subscriber::with_default(registry().with(layer), || {
            record([10, 30].map(Instant::from_nanos), &UtcReading::from_bounds(earliest, latest));
        });
        let mut bytes = Vec::new();
        recorder.write_to(&mut bytes).unwrap();
        let events: Vec<serde_json::Value> = serde_json::from_slice(&bytes).unwrap();
        let snapshot = events.iter().find(|event| event["name"] == "clock snapshot").expect("the event");
        let args = serde_json::json!({
            "utc_minus_monotonic_least_ns": 970, "utc_minus_monotonic_most_ns": 1_490, "utc_source": "message"
        });
        assert_eq!(snapshot["args"], args);
    }
}
