//! UTC in a trace: events that state the offset of UTC from the trace's times. With these events,
//! traces of several machines can be merged, with a known error.
//!
//! Times in traces are `CLOCK_MONOTONIC`, which starts again at each boot of a machine.
//! [`record_utc`] records an event for every layer and sink: a trace file, a flight recorder, or
//! `fmt`'s lines.
//!
//! | field | meaning |
//! |---|---|
//! | `utc_minus_monotonic_least_ns` | the smallest offset of UTC from the trace's times |
//! | `utc_minus_monotonic_most_ns` | the largest offset |
//! | `utc_source` | the source of the claim ([`UtcSource::code`](tickline_utc::UtcSource::code)) |
//!
//! The two offsets hold at the moment of the event. An NTP daemon slews `CLOCK_MONOTONIC`: by 0.05
//! % at most as a rule, chronyd by up to 8.3 % (`maxslewrate` in chrony.conf(5)). So call the
//! function at the start, at the end, and every few seconds. A flight recorder overwrites old
//! events, so it has an event only if you called the function recently.
//!
//! A trace in Perfetto's format also gets the mean of the two offsets as the clock 128, to which
//! the trace processor can convert its times.
//!
//! To merge two traces, add to each time the mean of the two offsets of the nearest event. The
//! error of the sum is half the difference between these offsets, plus the slew between the event
//! and the time: as a rule at most 0.05 % of that distance, or 0.5 ms a second. The order of two
//! events on different machines is certain only if they are further apart than the sum of both
//! errors.

use tickline::{Clock, Instant};
use tickline_utc::{Utc, UtcReading, UtcUnknown};

/// Records an event of level INFO that states the offset of UTC from a trace's times; see the
/// [module](self). `clock` is the clock of the trace's times, usually [`Clock::global`].
///
/// ```
/// use tickline::Clock;
/// use tickline_utc::Utc;
///
/// # fn main() -> Result<(), tickline::Error> {
/// let utc = Utc::start(Clock::global())?; // once in a program
/// match tickline_tracing::utc::record_utc(Clock::global(), &utc) {
///     Ok(utc) => println!("the trace's times are related to UTC to within {:?}", utc.width()),
///     Err(why) => println!("the trace is on its own: {why}"),
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// The errors of [`Utc::now`]. In these cases no event is recorded.
pub fn record_utc(clock: &Clock, utc: &Utc) -> Result<UtcReading, UtcUnknown> {
    let before = clock.now_ordered();
    let now = utc.now()?;
    record([before, clock.now_ordered()], &now);
    Ok(now)
}

/// Records a reading of UTC that was taken between two readings of a trace's clock.
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

#[cfg(all(test, feature = "trace-file"))]
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
        let recorder = FlightRecorder::builder().with_fields().build().unwrap();
        let layer = SpanTimingLayer::new().with_sink(recorder.clone());
        let [earliest, latest] = [1_000, 1_500].map(UnixTime::from_nanos);
        tracing::subscriber::with_default(registry().with(layer), || {
            record(
                [10, 30].map(Instant::from_nanos),
                &UtcReading::from_bounds(earliest, latest),
            );
        });
        let mut bytes = Vec::new();
        recorder.write_to(&mut bytes).unwrap();
        let events: Vec<serde_json::Value> = serde_json::from_slice(&bytes).unwrap();
        let snapshot = events
            .iter()
            .find(|event| event["name"] == "clock snapshot")
            .expect("the event");
        let args = serde_json::json!({
            "utc_minus_monotonic_least_ns": 970, "utc_minus_monotonic_most_ns": 1_490, "utc_source": "message"
        });
        assert_eq!(snapshot["args"], args);
    }
}
