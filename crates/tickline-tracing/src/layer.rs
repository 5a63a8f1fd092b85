//! The layer.

use core::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use tracing_core::span::{Attributes, Id};
use tracing_core::{Dispatch, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::open_spans::{OpenSpans, change_in_extensions, from_extensions, insert_in_extensions};
use crate::sink::{Callback, ClosedSpan, Sink};
use crate::source::{Nanos, TimeSource};
use crate::timing::{Running, SpanTiming};

/// How long an offset between Unix and monotonic time is used, ns. A line of tickline lasts 0.5 s, so most of the time it is
/// the same one; a look takes three readings, at this rate a few ns a microsecond at most. A clock that was set is seen
/// so much later.
const UNIX_OFFSET_LASTS_NS: u64 = 10_000_000;

/// A look that took no longer was not interrupted, ns: three readings by the OS clock take as long where that is fast.
const NARROW_NS: u64 = 200;

/// Looks at most: where the OS clock is slow, every one is wide.
const MOST_LOOKS: u32 = 4;

/// The numbers of layers, so that one knows its own spans. 0 is nobody's.
static NEXT_LAYER: AtomicU64 = AtomicU64::new(1);

/// Times every span that it is told of. The times are in the span's extensions ([`SpanTiming`]), and told to its sink `K`.
///
/// A layer is for one subscriber. Of two on one subscriber, the first that is told of a span's end leaves its times in the
/// extensions, and the sinks of both are told those. A span that was created before the layer was there is not timed; what a layer that was replaced by
/// [reloading](tracing_subscriber::reload) began, nobody ends.
///
/// ```
/// use tickline_tracing::SpanTimingLayer;
/// use tracing_subscriber::layer::SubscriberExt;
///
/// let layer = SpanTimingLayer::new().with_callback(|span| {
///     println!("{} took {:?} since {:?}", span.name(), span.times().total(), span.times().created());
/// });
/// let subscriber = tracing_subscriber::registry().with(layer);
/// # tracing::subscriber::with_default(subscriber, || tracing::info_span!("work").in_scope(|| ()));
/// ```
#[derive(Debug)]
pub struct SpanTimingLayer<K = (), T = Nanos> {
    number: u64,
    source: T,
    sink: K,
    unix_offset: UnixOffset,
    open_spans: OpenSpans,
}

impl SpanTimingLayer {
    /// A layer over tickline's global clock, without a sink.
    #[must_use]
    pub fn new() -> Self {
        Self::with_source(Nanos)
    }
}

impl Default for SpanTimingLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: TimeSource> SpanTimingLayer<(), T> {
    /// A layer over a clock of one's own, without a sink.
    #[must_use]
    pub fn with_source(source: T) -> Self {
        // ORDERING: Relaxed, the number alone counts.
        let number = NEXT_LAYER.fetch_add(1, Ordering::Relaxed);
        Self { number, source, sink: (), unix_offset: UnixOffset::new(), open_spans: OpenSpans::new() }
    }
}

impl<K, T> SpanTimingLayer<K, T> {
    /// The same layer, which tells `sink` too.
    #[must_use]
    pub fn with_sink<L>(self, sink: L) -> SpanTimingLayer<(K, L), T> {
        SpanTimingLayer {
            number: self.number,
            source: self.source,
            sink: (self.sink, sink),
            unix_offset: self.unix_offset,
            open_spans: self.open_spans,
        }
    }

    /// The same layer, which calls `call` for each span that is closed, on the thread that closes it.
    #[must_use]
    pub fn with_callback<F>(self, call: F) -> SpanTimingLayer<(K, Callback<F>), T>
    where
        F: Fn(&ClosedSpan<'_>) + Send + Sync + 'static,
    {
        self.with_sink(Callback::new(call))
    }
}

impl<S, K, T> Layer<S> for SpanTimingLayer<K, T>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    K: Sink<S>,
    T: TimeSource,
{
    fn on_register_dispatch(&self, dispatch: &Dispatch) {
        self.sink.attached(dispatch);
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        let running = Running::new(self.source.stamp());
        let is_kept = self.open_spans.insert(id.into_u64(), running.clone());
        if is_kept && !K::OPENINGS {
            return;
        }
        let Some(span) = ctx.span(id) else { return };
        if !is_kept {
            insert_in_extensions(&span, self.number, running);
        }
        if K::OPENINGS {
            self.sink.opened(attributes, &span);
        }
    }

    fn on_enter(&self, id: &Id, ctx: Context<'_, S>) {
        let enter = |running: &mut Running| running.enter(&self.source);
        let is_kept = self.open_spans.change(id.into_u64(), enter);
        if is_kept && !K::EDGES {
            return;
        }
        let Some(span) = ctx.span(id) else { return };
        if !is_kept {
            change_in_extensions(&span, self.number, enter);
        }
        if K::EDGES {
            self.sink.entered(&span, self.source.now_ns());
        }
    }

    fn on_exit(&self, id: &Id, ctx: Context<'_, S>) {
        let stamp = self.source.stamp();
        let exit = |running: &mut Running| running.exit(&self.source, stamp);
        let is_kept = self.open_spans.change(id.into_u64(), exit);
        if is_kept && !K::EDGES {
            return;
        }
        let Some(span) = ctx.span(id) else { return };
        if !is_kept {
            change_in_extensions(&span, self.number, exit);
        }
        if K::EDGES {
            self.sink.exited(&span, self.source.to_ns(stamp));
        }
    }

    fn on_close(&self, id: Id, ctx: Context<'_, S>) {
        let stamp = self.source.stamp();
        let close = |running: &Running| {
            running.close(&self.source, stamp, |now_ns| self.unix_offset.get(now_ns, &self.source))
        };
        let kept = self.open_spans.remove(id.into_u64(), close);
        let Some(span) = ctx.span(&id) else { return };
        let kept = kept.or_else(|| from_extensions(&span, self.number).as_ref().map(close));
        // The lock is released before the sink is told: it may want the extensions, or never come back.
        let times = {
            let mut extensions = span.extensions_mut();
            match kept.map(|times| (times, extensions.replace(times))) {
                Some((times, None)) => Some(times),
                // Another layer has told it already.
                Some((_, Some(first))) => {
                    extensions.replace(first);
                    Some(first)
                }
                None => extensions.get_mut::<SpanTiming>().copied(),
            }
        };
        if let Some(times) = times {
            self.sink.closed(&span, &times);
        }
    }
}

/// Unix less monotonic time, looked up every now and then.
#[derive(Debug)]
struct UnixOffset {
    offset_ns: AtomicI64,
    /// When that was found, monotonic ns.
    found_ns: AtomicU64,
}

impl UnixOffset {
    const fn new() -> Self {
        Self { offset_ns: AtomicI64::new(0), found_ns: AtomicU64::new(u64::MAX) }
    }

    #[inline]
    fn get(&self, now_ns: u64, source: &impl TimeSource) -> i64 {
        // ORDERING: Acquire, pairs with the Release store in `find`: who sees that it is fresh sees the offset.
        let found_ns = self.found_ns.load(Ordering::Acquire);
        // Both ways: another thread's look may be a little later than this reading.
        if found_ns != u64::MAX && now_ns.abs_diff(found_ns) < UNIX_OFFSET_LASTS_NS {
            // ORDERING: Relaxed, behind the load above.
            return self.offset_ns.load(Ordering::Relaxed);
        }
        self.find(source)
    }

    /// By the narrowest of a few looks: what a preemption in between adds would be in the times of all threads.
    #[cold]
    #[inline(never)]
    fn find(&self, source: &impl TimeSource) -> i64 {
        let look = || {
            let before_ns = source.now_ns();
            let unix_ns = source.unix_ns();
            (before_ns, unix_ns, source.now_ns())
        };
        let width_ns = |(before_ns, _, after_ns): &(u64, u64, u64)| after_ns.saturating_sub(*before_ns);
        let mut narrowest = look();
        for _ in 1..MOST_LOOKS {
            if width_ns(&narrowest) < NARROW_NS {
                break;
            }
            let another = look();
            if width_ns(&another) < width_ns(&narrowest) {
                narrowest = another;
            }
        }
        let (before_ns, unix_ns, after_ns) = narrowest;
        let monotonic_ns = before_ns.midpoint(after_ns);
        // Two's complement: right for either sign.
        let offset_ns = i64::from_ne_bytes(unix_ns.wrapping_sub(monotonic_ns).to_ne_bytes());
        // ORDERING: Relaxed, published by the store below.
        self.offset_ns.store(offset_ns, Ordering::Relaxed);
        // ORDERING: Release, pairs with the Acquire load in `get`.
        self.found_ns.store(monotonic_ns, Ordering::Release);
        offset_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIX_AHEAD_NS: u64 = 1_000_000_000;

    /// Time goes on by the next of these at each look, ns.
    struct Preempted {
        steps_ns: &'static [u64],
        looks: AtomicU64,
        now_ns: AtomicU64,
    }

    impl TimeSource for Preempted {
        fn stamp(&self) -> u64 {
            // ORDERING: Relaxed for both, one thread.
            let look = usize::try_from(self.looks.fetch_add(1, Ordering::Relaxed)).unwrap_or(usize::MAX);
            let step_ns = self.steps_ns.get(look).copied().unwrap_or(30);
            self.now_ns.fetch_add(step_ns, Ordering::Relaxed) + step_ns
        }

        fn to_ns(&self, stamp: u64) -> u64 {
            stamp
        }

        fn unix_ns(&self) -> u64 {
            self.stamp() + UNIX_AHEAD_NS
        }
    }

    /// Symptom: spans of all threads were created 4 ms too late, because the thread that had looked lost its CPU for 8 ms.
    #[test]
    fn a_preemption_between_two_clocks_is_not_in_the_times() {
        for steps_ns in [&[30, 30, 8_000_000][..], &[30, 8_000_000, 30], &[30, 30, 900, 30, 8_000_000, 30]] {
            let source = Preempted { steps_ns, looks: AtomicU64::new(0), now_ns: AtomicU64::new(5) };
            let offset_ns = UnixOffset::new().get(5, &source);
            assert!(offset_ns.abs_diff(1_000_000_000) <= 100, "{steps_ns:?}: {offset_ns}");
        }
    }
}
