//! A sink that sends an event with the times of each closed span, like `fmt` with `FmtSpan::CLOSE`.

use core::fmt;
use std::sync::OnceLock;

use tracing_core::dispatcher::{self, WeakDispatch};
use tracing_core::field::{Field, FieldSet, Value};
use tracing_core::{Dispatch, Event};

use crate::layer::sink::{Span, SpanSink};
use crate::layer::timing::SpanTimes;

/// Sends an event for each span that is closed, with the message `close` and the fields `time.busy`
/// and `time.idle`, as with `FmtSpan::CLOSE`, and in its format: three significant digits, such as
/// `12.3µs`. The event is in the span, and has its level and target. All layers of the subscriber
/// get the event, and may print it. Nothing corresponds to `FmtSpan::NEW`, `ENTER` and `EXIT`.
///
/// Don't [reload] the layer while other threads close spans: an event and the reload may wait for
/// each other for ever ([`Sink`](crate::Sink)). A reload of a filter around the layer is safe.
///
/// [reload]: https://docs.rs/tracing-subscriber/0.3/tracing_subscriber/reload/index.html
///
/// ```
/// use tickline_tracing::{CloseEvents, SpanTimingLayer};
/// use tracing_subscriber::layer::SubscriberExt;
///
/// let subscriber = tracing_subscriber::registry()
///     .with(SpanTimingLayer::new().with_sink(CloseEvents::new()));
///     // .with(tracing_subscriber::fmt::layer())
/// # tracing::subscriber::with_default(subscriber, || tracing::info_span!("work").in_scope(|| ()));
/// ```
#[derive(Debug, Default)]
#[must_use]
pub struct CloseEvents {
    /// The subscriber of the layer. The thread that closes a span may have another default
    /// subscriber.
    dispatch: OnceLock<WeakDispatch>,
}

impl CloseEvents {
    /// Sends an event for every span that the layer times.
    pub fn new() -> Self {
        Self::default()
    }
}

impl SpanSink for CloseEvents {
    fn layer_registered(&self, dispatch: &Dispatch) {
        // Later calls change nothing: a layer belongs to one subscriber.
        _ = self.dispatch.set(dispatch.downgrade());
    }

    fn closed(&self, span: &Span<'_>, times: &SpanTimes) {
        let metadata = span.metadata;
        // A field set needs a callsite. The event uses the span's callsite, and has the span's
        // level and target.
        let fields = FieldSet::new(&["message", "time.busy", "time.idle"], metadata.callsite());
        let mut names = fields.iter();
        let (Some(message), Some(busy), Some(idle)) = (names.next(), names.next(), names.next())
        else {
            return;
        };
        let busy_time = ThreeDigits(times.busy_ns);
        let idle_time = ThreeDigits(times.closed_ns - times.created_ns - times.busy_ns);
        let event = |values: &[(&Field, Option<&dyn Value>); 3]| {
            let values = fields.value_set(values);
            let event = Event::new_child_of(span.id.clone(), metadata, &values);
            let send = |dispatch: &Dispatch| {
                // Per-layer filters need this call before each event.
                if dispatch.enabled(metadata) {
                    dispatch.event(&event);
                }
            };
            match self.dispatch.get() {
                Some(dispatch) => dispatch.upgrade().iter().for_each(send),
                // `reload` has added the layer without a call of `on_register_dispatch`.
                None => dispatcher::get_default(send),
            }
        };
        event(&[
            (&message, Some(&"close")),
            (&busy, Some(&format_args!("{busy_time}"))),
            (&idle, Some(&format_args!("{idle_time}"))),
        ]);
    }
}

/// A time, ns, which prints as in `fmt`'s close events (`TimingDisplay` in tracing-subscriber 0.3):
/// with three significant digits, and from 1,000 s on in whole seconds.
struct ThreeDigits(u64);

impl fmt::Display for ThreeDigits {
    #[expect(clippy::cast_precision_loss, reason = "three digits are printed")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut time = self.0 as f64;
        let mut unit = "ns";
        for larger_unit in ["\u{b5}s", "ms", "s"] {
            if time < 1_000.0 {
                break;
            }
            time /= 1_000.0;
            unit = larger_unit;
        }
        let decimals = if time < 10.0 {
            2
        } else if time < 100.0 {
            1
        } else {
            0
        };
        write!(f, "{time:.decimals$}{unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symptom: the times had two decimals, so a log's text changed when a program replaced
    /// `FmtSpan::CLOSE`.
    #[test]
    fn a_time_prints_as_in_the_close_events_of_fmt() {
        for (ns, text) in [
            (0, "0.00ns"),
            (9, "9.00ns"),
            (12, "12.0ns"),
            (512, "512ns"),
            (1_512, "1.51\u{b5}s"),
            (12_346, "12.3\u{b5}s"),
            (123_456, "123\u{b5}s"),
            (2_000_000, "2.00ms"),
            (1_000_000_000, "1.00s"),
            (1_234_000_000_000, "1234s"),
        ] {
            assert_eq!(ThreeDigits(ns).to_string(), text);
        }
    }
}
