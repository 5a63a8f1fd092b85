//! A span's times: while it is open ([`OpenSpan`]), and when it is closed ([`SpanTimes`]).

use core::time::Duration;

use tickline::{Instant, UnixTime};
use tracing_core::Metadata;
use tracing_subscriber::registry::{LookupSpan, SpanRef};

/// A duration in ns, at most `u64::MAX`.
#[cfg(any(feature = "trace-file", feature = "histogram"))]
#[inline]
pub(crate) fn as_ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The metadata of a callsite of `tracing`.
pub(crate) type StaticMetadata = &'static Metadata<'static>;

/// The times of a span that is open, and its metadata.
#[derive(Debug, Clone)]
pub struct OpenSpan {
    pub(crate) metadata: StaticMetadata,
    /// `CLOCK_MONOTONIC`, ns.
    pub(crate) created_ns: u64,
    /// The start of the present busy interval, or of the last one.
    entered_ns: u64,
    /// The latest exit in that interval. A re-entry before any exit sets it to the interval's
    /// start. It is 0 before the first exit or re-entry of the interval.
    exited_ns: u64,
    /// The sum of the earlier busy intervals.
    busy_ns: u64,
    /// Enters without an exit, on any thread.
    depth: u32,
    enters: u32,
}

impl OpenSpan {
    pub(crate) const fn new(metadata: StaticMetadata, created_ns: u64) -> Self {
        Self {
            metadata,
            created_ns,
            entered_ns: 0,
            exited_ns: 0,
            busy_ns: 0,
            depth: 0,
            enters: 0,
        }
    }

    /// Returns the time of the enter, ns; `None` for a re-entry, which takes no reading.
    #[inline]
    pub(crate) fn enter(&mut self, now_ns: impl FnOnce() -> u64) -> Option<u64> {
        self.enters = self.enters.saturating_add(1);
        self.depth = self.depth.saturating_add(1);
        if self.depth > 1 {
            if self.exited_ns == 0 {
                self.exited_ns = self.entered_ns;
            }
            return None;
        }
        let last_ns = if self.enters == 1 {
            0
        } else {
            self.exited_ns.saturating_sub(self.entered_ns)
        };
        self.busy_ns = self.busy_ns.saturating_add(last_ns);
        self.exited_ns = 0;
        // The clock is read last, so that this layer's own work is not in the span's busy time.
        self.entered_ns = now_ns();
        Some(self.entered_ns)
    }

    /// The layer reads the clock before it finds the span, so that its own work is not in the busy
    /// time. Two threads may therefore call this in another order than they have read the clock.
    /// The latest reading counts.
    #[inline]
    pub(crate) fn exit(&mut self, now_ns: u64) {
        if self.depth == 0 {
            return; // The subscriber's caller has exited a span that it has not entered.
        }
        self.depth -= 1;
        self.exited_ns = self.exited_ns.max(now_ns);
    }

    /// The readings of two threads may be out of order. Intervals are then 0, not negative.
    #[inline]
    pub(crate) fn close(&self, closed_ns: u64, unix_offset_ns: impl FnOnce() -> i64) -> SpanTimes {
        let created_ns = self.created_ns.min(closed_ns);
        let mut busy_ns = self.busy_ns;
        if self.enters != 0 {
            // The span is still entered if the layer has missed an exit.
            let end_ns = if self.depth == 0 {
                self.exited_ns
            } else {
                closed_ns
            };
            busy_ns = busy_ns.saturating_add(end_ns.saturating_sub(self.entered_ns));
        }
        SpanTimes {
            created_ns,
            closed_ns,
            busy_ns: busy_ns.min(closed_ns - created_ns),
            enters: self.enters,
            unix_offset_ns: unix_offset_ns(),
        }
    }
}

/// The times of a closed span: its creation, its end, and its busy and idle time.
///
/// [`SpanTimingLayer`](crate::SpanTimingLayer) puts this into the span's
/// [`extensions`] when the span is closed. Other layers read it there in their `on_close`. Add the
/// timing layer before those layers, because layers are called in the order in which they were
/// added.
///
/// [`extensions`]: https://docs.rs/tracing-subscriber/0.3/tracing_subscriber/registry/struct.SpanRef.html#method.extensions
///
/// ```
/// use tickline_tracing::{SpanTimes, SpanTimingLayer};
/// use tracing::{Subscriber, span::Id};
/// use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
/// use tracing_subscriber::registry::LookupSpan;
///
/// struct Slow;
///
/// impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Slow {
///     fn on_close(&self, id: Id, ctx: Context<'_, S>) {
///         let Some(span) = ctx.span(&id) else { return };
///         let is_slow = |times: &SpanTimes| times.busy().as_millis() > 100;
///         if let Some(times) = SpanTimes::of(&span).filter(is_slow) {
///             println!("{} was busy for {:?} of {:?}", span.name(), times.busy(), times.total());
///         }
///     }
/// }
///
/// let subscriber = tracing_subscriber::registry().with(SpanTimingLayer::new()).with(Slow);
/// # tracing::subscriber::with_default(subscriber, || tracing::info_span!("work").in_scope(|| ()));
/// ```
///
/// Durations are measured by `CLOCK_MONOTONIC`. `busy` is the time during which at least one thread
/// was in the span, so `busy + idle = total` exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanTimes {
    // Numbers, because a `Duration` would cost histograms a division and a multiplication.
    pub(crate) created_ns: u64,
    pub(crate) closed_ns: u64,
    pub(crate) busy_ns: u64,
    enters: u32,
    unix_offset_ns: i64,
}

impl SpanTimes {
    /// The times of a span that is being closed; `None` if no timing layer has been called yet.
    pub fn of<'a, S: LookupSpan<'a>>(span: &SpanRef<'a, S>) -> Option<Self> {
        span.extensions().get::<Self>().copied()
    }

    /// The time during which the span was entered. Busy intervals of several threads that overlap
    /// count once.
    pub const fn busy(&self) -> Duration {
        Duration::from_nanos(self.busy_ns)
    }

    /// The time during which the span was not entered: [`total`](Self::total) less
    /// [`busy`](Self::busy).
    pub const fn idle(&self) -> Duration {
        Duration::from_nanos(self.closed_ns - self.created_ns - self.busy_ns)
    }

    /// The time from the span's creation to its end.
    pub const fn total(&self) -> Duration {
        Duration::from_nanos(self.closed_ns - self.created_ns)
    }

    /// The number of times that the span was entered, including re-entries; it stops at
    /// [`u32::MAX`].
    pub const fn enters(&self) -> u32 {
        self.enters
    }

    /// The span's creation, in Unix time. The offset from monotonic time is that at the span's end,
    /// at most about 10 ms old. If an administrator or a daemon sets the clock during the span, the
    /// span therefore becomes neither longer nor shorter.
    pub const fn created(&self) -> UnixTime {
        UnixTime::from_nanos(self.created_ns.saturating_add_signed(self.unix_offset_ns))
    }

    /// The span's end, in Unix time, by the same offset as [`created`](Self::created).
    pub const fn closed(&self) -> UnixTime {
        UnixTime::from_nanos(self.closed_ns.saturating_add_signed(self.unix_offset_ns))
    }

    /// The span's creation, by the monotonic clock.
    pub const fn created_instant(&self) -> Instant {
        Instant::from_nanos(self.created_ns)
    }

    /// The span's end, by the monotonic clock.
    pub const fn closed_instant(&self) -> Instant {
        Instant::from_nanos(self.closed_ns)
    }
}

#[cfg(test)]
impl OpenSpan {
    /// A span of the callsite that all tests share.
    pub(crate) fn for_test(created_ns: u64) -> Self {
        let metadata = tracing::subscriber::with_default(tracing_subscriber::registry(), || {
            tracing::info_span!("span")
                .metadata()
                .expect("a registry enables all")
        });
        Self::new(metadata, created_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symptom: a thread was preempted after it had read the clock and before it changed the span.
    /// Its reading ended the busy interval, and the later work of other threads in the span counted
    /// as idle time. (Also tracing-subscriber's pull request 2944: an inner re-entry ended the
    /// outer one.)
    #[test]
    fn the_latest_exit_ends_a_busy_interval_in_whatever_order_they_come() {
        let mut open_span = OpenSpan::for_test(0);
        for start in [100, 1_000] {
            open_span.enter(|| start);
            open_span.enter(|| start);
            open_span.exit(start + 400);
            open_span.enter(|| start);
            open_span.exit(start + 500);
            open_span.exit(start + 30);
        }
        open_span.enter(|| 1_000);
        open_span.exit(1_600);
        let times = open_span.close(2_000, || 0);
        assert_eq!((times.busy().as_nanos(), times.enters()), (1_600, 7));
    }

    /// If the layer misses an exit, the busy interval ends when the span is closed.
    #[test]
    fn a_missed_exit_ends_with_the_span() {
        let mut open_span = OpenSpan::for_test(0);
        open_span.enter(|| 10);
        assert_eq!(open_span.close(110, || 0).busy().as_nanos(), 100);
    }

    /// The readings of two threads may be out of order by nanoseconds.
    #[test]
    fn readings_that_step_back_between_threads_give_zero() {
        let mut open_span = OpenSpan::for_test(1_000_000);
        open_span.enter(|| 999_000);
        open_span.exit(998_000);
        let times = open_span.close(997_000, || 0);
        assert_eq!(
            (
                times.busy().as_nanos(),
                times.total().as_nanos(),
                times.enters()
            ),
            (0, 0, 1)
        );
    }
}
