//! What becomes of a span's times: kept while it is open ([`Running`]), told when it is closed ([`SpanTiming`]).

use core::time::Duration;

use tickline::UnixTime;
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use crate::source::TimeSource;

/// What is known of a span that is open.
#[derive(Debug, Clone)]
pub(crate) struct Running {
    created: u64,
    /// The present or last stretch of being entered. What came before it is in `busy_ns`.
    entered: u64,
    exited: u64,
    busy_ns: u64,
    /// Enters without an exit, on any thread.
    depth: u32,
    /// Whether it was entered again in this stretch before it was exited. Then `exited` is the latest exit so far.
    overlaps: bool,
    enters: u64,
}

impl Running {
    pub(crate) const fn new(created: u64) -> Self {
        Self { created, entered: 0, exited: 0, busy_ns: 0, depth: 0, overlaps: false, enters: 0 }
    }

    #[inline]
    pub(crate) fn enter(&mut self, source: &impl TimeSource) {
        if self.depth == 0 {
            let last_ns = if self.enters == 0 { 0 } else { self.stretch_ns(source, self.exited) };
            // Last, so that what this layer does is not told as the span's time.
            self.entered = source.stamp();
            self.busy_ns = self.busy_ns.saturating_add(last_ns);
            self.overlaps = false;
        } else if !self.overlaps {
            (self.overlaps, self.exited) = (true, self.entered);
        }
        self.depth = self.depth.saturating_add(1);
        self.enters = self.enters.saturating_add(1);
    }

    /// `stamp` was taken before this span was looked up, for the same reason. So of two threads, the one that was stopped in
    /// between comes last, though it was not the last to leave: the latest stamp counts.
    #[inline]
    pub(crate) fn exit(&mut self, source: &impl TimeSource, stamp: u64) {
        if self.depth == 0 {
            return; // entered while the layer was not there
        }
        self.depth -= 1;
        if !self.overlaps || source.to_ns(stamp) > source.to_ns(self.exited) {
            self.exited = stamp;
        }
    }

    /// The stretch from `entered` to `end`. Never negative: enter and exit on two threads, whose unordered readings may cross,
    /// make it 0.
    #[inline]
    fn stretch_ns(&self, source: &impl TimeSource, end: u64) -> u64 {
        source.to_ns(end).saturating_sub(source.to_ns(self.entered))
    }

    #[inline]
    pub(crate) fn close(
        &self,
        source: &impl TimeSource,
        stamp: u64,
        unix_offset_ns: impl FnOnce(u64) -> i64,
    ) -> SpanTiming {
        let closed_ns = source.to_ns(stamp);
        // Not above `closed_ns`: created on one thread and closed on another, as in `stretch_ns`.
        let created_ns = source.to_ns(self.created).min(closed_ns);
        let mut busy_ns = self.busy_ns;
        if self.enters != 0 {
            // Still entered if an exit was not told, because the layer was not there.
            let end = if self.depth == 0 { self.exited } else { stamp };
            busy_ns = busy_ns.saturating_add(self.stretch_ns(source, end));
        }
        SpanTiming {
            created_ns,
            closed_ns,
            busy_ns: busy_ns.min(closed_ns - created_ns),
            enters: self.enters,
            unix_offset_ns: unix_offset_ns(closed_ns),
        }
    }
}

/// When a span was created and closed, and what it did in between.
///
/// The extension that [`SpanTimingLayer`](crate::SpanTimingLayer) leaves in each span's
/// [`extensions`](tracing_subscriber::registry::SpanRef::extensions) when the span is closed, for other layers to read when
/// they are told of that. The timing layer must have been told before: of two layers on one subscriber, the one added first is.
///
/// ```
/// use tickline_tracing::{SpanTiming, SpanTimingLayer};
/// use tracing_core::{Subscriber, span::Id};
/// use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
/// use tracing_subscriber::registry::LookupSpan;
///
/// struct Slow;
///
/// impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Slow {
///     fn on_close(&self, id: Id, ctx: Context<'_, S>) {
///         let Some(span) = ctx.span(&id) else { return };
///         if let Some(times) = SpanTiming::of(&span).filter(|times| times.busy().as_millis() > 100) {
///             println!("{} was busy for {:?} of {:?}", span.name(), times.busy(), times.total());
///         }
///     }
/// }
///
/// let subscriber = tracing_subscriber::registry().with(SpanTimingLayer::new()).with(Slow);
/// # tracing::subscriber::with_default(subscriber, || tracing::info_span!("work").in_scope(|| ()));
/// ```
///
/// Durations are those of `CLOCK_MONOTONIC`. `busy` is the time during which at least one thread was in the span, so
/// `busy + idle = total` exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanTiming {
    created_ns: u64,
    closed_ns: u64,
    busy_ns: u64,
    enters: u64,
    unix_offset_ns: i64,
}

impl SpanTiming {
    /// The times of a span that is being closed; `None` if no timing layer has been told that it is.
    #[must_use]
    pub fn of<'a, S: LookupSpan<'a>>(span: &SpanRef<'a, S>) -> Option<Self> {
        span.extensions().get::<Self>().copied()
    }

    /// The time during which the span was entered. Stretches on several threads that overlap count once.
    #[inline]
    #[must_use]
    pub const fn busy(&self) -> Duration {
        Duration::from_nanos(self.busy_ns)
    }

    /// The time during which it was not: [`total`](Self::total) less [`busy`](Self::busy).
    #[inline]
    #[must_use]
    pub const fn idle(&self) -> Duration {
        Duration::from_nanos(self.closed_ns - self.created_ns - self.busy_ns)
    }

    /// The time from its creation to its end.
    #[inline]
    #[must_use]
    pub const fn total(&self) -> Duration {
        Duration::from_nanos(self.closed_ns - self.created_ns)
    }

    /// How often it was entered, re-entries while it was entered included.
    #[inline]
    #[must_use]
    pub const fn enters(&self) -> u64 {
        self.enters
    }

    /// When it was created, by the offset between Unix and monotonic time at its end (some 10 ms old at most): a clock that was set
    /// in between does not make the span longer or shorter.
    #[inline]
    #[must_use]
    pub const fn created(&self) -> UnixTime {
        UnixTime::from_nanos(self.created_ns.saturating_add_signed(self.unix_offset_ns))
    }

    /// When it was closed, by the same offset as [`created`](Self::created).
    #[inline]
    #[must_use]
    pub const fn closed(&self) -> UnixTime {
        UnixTime::from_nanos(self.closed_ns.saturating_add_signed(self.unix_offset_ns))
    }

    /// When it was created, ns of `CLOCK_MONOTONIC`.
    #[inline]
    #[must_use]
    pub const fn created_monotonic_ns(&self) -> u64 {
        self.created_ns
    }

    /// When it was closed, ns of `CLOCK_MONOTONIC`.
    #[inline]
    #[must_use]
    pub const fn closed_monotonic_ns(&self) -> u64 {
        self.closed_ns
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[derive(Default)]
    struct Hand(AtomicU64);

    impl TimeSource for Hand {
        fn stamp(&self) -> u64 {
            // ORDERING: Relaxed, one thread.
            self.0.load(Ordering::Relaxed)
        }
        fn to_ns(&self, stamp: u64) -> u64 {
            stamp
        }
        fn unix_ns(&self) -> u64 {
            0
        }
    }

    /// Symptom: the thread that was stopped after it took its stamp ended the stretch at that, and all that others did in the
    /// span meanwhile was idle time.
    #[test]
    fn the_latest_exit_ends_a_stretch_in_whatever_order_they_are_told() {
        let source = Hand::default();
        let mut running = Running::new(0);
        for start in [100, 1_000] {
            // ORDERING: as above.
            source.0.store(start, Ordering::Relaxed);
            running.enter(&source);
            running.enter(&source);
            running.exit(&source, start + 400);
            running.enter(&source);
            running.exit(&source, start + 500);
            running.exit(&source, start + 30);
        }
        running.enter(&source);
        running.exit(&source, 1_600);
        let times = running.close(&source, 2_000, |_| 0);
        assert_eq!((times.busy().as_nanos(), times.enters()), (1_600, 7));
    }
}
