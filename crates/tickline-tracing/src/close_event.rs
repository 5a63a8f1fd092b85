//! Sends an event with the times of each span that is closed, like `fmt` with `FmtSpan::CLOSE`.

use core::fmt;
use core::time::Duration;
use std::sync::OnceLock;

use tracing_core::dispatcher::{self, WeakDispatch};
use tracing_core::field::{DisplayValue, FieldSet, Value, display};
use tracing_core::{Dispatch, Event, Subscriber};
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use crate::sink::{Hooks, Sink};
use crate::timing::SpanTiming;

/// Sends an event for each span that is closed, with the message `close` and the fields `time.busy`
/// and `time.idle`, as `FmtSpan::CLOSE` prints it. The event is in the span, and has its level and
/// target. It goes to all layers of the subscriber, so it appears in whatever they write.
///
/// Don't [reload](tracing_subscriber::reload) the layer while other threads close spans: its events
/// may wait for the reload, and the reload for them, for ever ([`Sink`]). Reloading a filter around
/// the layer is fine.
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
pub struct CloseEvents {
    /// The subscriber of the layer. The thread that closes a span may have another default
    /// subscriber.
    home: OnceLock<WeakDispatch>,
}

impl CloseEvents {
    /// Sends an event for every span that the layer times.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Sink for CloseEvents {
    type Hooks = Self;

    fn hooks(self) -> Self {
        self
    }
}

impl<S> Hooks<S> for CloseEvents
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn attached(&self, dispatch: &Dispatch) {
        // The first subscriber stays: a layer is for one subscriber.
        let _ = self.home.set(dispatch.downgrade());
    }

    fn closed(&self, span: &SpanRef<'_, S>, times: &SpanTiming) {
        let metadata = span.metadata();
        // A field set belongs to a callsite. Here that is the span's, whose level and target the
        // event has.
        let fields = FieldSet::new(&["message", "time.busy", "time.idle"], metadata.callsite());
        let mut names = fields.iter();
        let (Some(message), Some(busy), Some(idle)) = (names.next(), names.next(), names.next()) else {
            return;
        };
        let (busy_time, idle_time) = (rounded(times.busy()), rounded(times.idle()));
        let values: [(_, Option<&dyn Value>); 3] =
            [(&message, Some(&"close")), (&busy, Some(&busy_time)), (&idle, Some(&idle_time))];
        let values = fields.value_set(&values);
        let event = Event::new_child_of(span.id(), metadata, &values);
        let send = |dispatch: &Dispatch| {
            // Layers with filters of their own rely on this call before each event.
            if dispatch.enabled(metadata) {
                dispatch.event(&event);
            }
        };
        match self.home.get() {
            Some(home) => {
                if let Some(dispatch) = home.upgrade() {
                    send(&dispatch);
                }
            }
            // Reloading has put the layer in, without calling `on_register_dispatch`.
            None => dispatcher::get_default(send),
        }
    }
}

fn rounded(duration: Duration) -> DisplayValue<Rounded> {
    display(Rounded(duration))
}

/// A duration with three digits, as `fmt` writes it, but rounded down: `1.23ms`.
struct Rounded(Duration);

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut value = self.0.as_nanos();
        // Hundredths of the unit are kept, so that nothing is rounded twice.
        let mut hundredths = value * 100;
        for unit in ["ns", "\u{b5}s", "ms"] {
            if value < 1_000 {
                return write_hundredths(f, hundredths, unit);
            }
            value /= 1_000;
            hundredths /= 1_000;
        }
        write_hundredths(f, hundredths, "s")
    }
}

fn write_hundredths(f: &mut fmt::Formatter<'_>, hundredths: u128, unit: &str) -> fmt::Result {
    let (whole, part) = (hundredths / 100, hundredths % 100);
    match whole {
        0..=9 => write!(f, "{whole}.{part:02}{unit}"),
        10..=99 => write!(f, "{whole}.{}{unit}", part / 10),
        _ => write!(f, "{whole}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits() {
        for (ns, text) in [
            (0, "0.00ns"),
            (7, "7.00ns"),
            (999, "999ns"),
            (1_000, "1.00\u{b5}s"),
            (12_345, "12.3\u{b5}s"),
            (999_999, "999\u{b5}s"),
            (1_500_000, "1.50ms"),
            (59_000_000_000, "59.0s"),
            (7_200_000_000_000, "7200s"),
        ] {
            assert_eq!(Rounded(Duration::from_nanos(ns)).to_string(), text);
        }
    }
}
