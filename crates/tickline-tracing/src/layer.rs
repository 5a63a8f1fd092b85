//! The layer.
//!
//! The layer keeps open spans in a table of its own ([`OpenSpans`]). Only at the end of a span does
//! it store the times in the registry's extensions: one access in place of three, and none if the
//! times are for its sinks only. A sink that writes a trace has such a table, too
//! (`trace/capture/recorded_spans.rs`). `benches/README.md` has the cost of such an access: "a
//! layer that stores an extension". The slot of a span follows from the span's number, which
//! encodes its thread and its index in that thread's part of the table. One atomic exchange locks
//! the slot. If the slot is taken, the layer keeps the span in a map.
//!
//! # In a forked child
//!
//! A child has only the thread that forked. It waits at most 50 ms for a lock that another thread
//! of its parent held at the fork, and then gives the lock up ([`process_mutex`]). What the lock
//! protects is then lost to the child alone:
//!
//! | the other thread was | lost in the child |
//! |---|---|
//! | entering, exiting or closing the same span | the times of this span; in a trace, its fields and its end in its request |
//! | adding, changing or removing a span that had found no slot | the times of such spans from before the fork |
//! | making slots for more spans | nothing: new spans go to the map |
//! | working on histograms under a lock | times of one series, or new series (`output/histogram.rs`) |
//!
//! The spans that were open at the fork go on in the child, with the times that they have. Their
//! CPU time is unknown there, if they were entered at the fork. The registry and the callsites of
//! `tracing` have locks of their own, for which a child may wait.
//!
//! # Rejected
//!
//! | option | price |
//! |---|---|
//! | A table of spans for each thread | a span takes no exchange, but the layer can't tell how a span's times on several threads overlap |
//! | Two slots a span | the same cost within 0.5 readings, and an earlier span's times may stay in the other slot |

pub(crate) mod callback;
#[cfg(all(unix, feature = "cpu-time"))]
pub mod cpu_time;
pub(crate) mod open_spans;
pub(crate) mod process_mutex;
pub(crate) mod sink;
pub(crate) mod slots;
pub(crate) mod timing;
pub(crate) mod unix_offset;
pub(crate) mod user_value;

use std::sync::Arc;

use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Dispatch, Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::{ExtensionsMut, LookupSpan};

use callback::{Callback, ClosedSpan};
use open_spans::OpenSpans;
use sink::{Sink, Span, SpanSink};
use timing::{OpenSpan, SpanTimes, StaticMetadata};
use unix_offset::{UnixOffset, unix_offset_ns};

/// Times every span. The layer stores the times in the span's extensions
/// ([`SpanTimes`](crate::SpanTimes)), and passes them to its sinks.
///
/// A layer belongs to one subscriber. If a subscriber has two such layers, the sinks of both get
/// the times of the layer that is called first when the span is closed. A span has no times if it
/// was created before the layer was added.
///
/// In a forked child the layer goes on with the spans that were open at the fork. It waits at most
/// 50 ms for a lock that another thread of the parent held then. In this rare case the child loses
/// the times of the spans, or the series of a histogram, that the thread was working on.
///
/// ```
/// use tickline_tracing::SpanTimingLayer;
/// use tracing_subscriber::layer::SubscriberExt;
///
/// let layer = SpanTimingLayer::new().with_callback(|span| {
///     let times = span.times();
///     println!("{} took {:?} since {:?}", span.name(), times.total(), times.created());
/// });
/// let subscriber = tracing_subscriber::registry().with(layer);
/// # tracing::subscriber::with_default(subscriber, || tracing::info_span!("work").in_scope(|| ()));
/// ```
///
/// # Changes while spans are open
///
/// If a program [reloads] a new layer in place of another, the new one knows no span from before,
/// even if it has the same recorder: these spans get no times, and in a trace a span below one of
/// them is a request of its own. The slices of spans that a thread is in end only with the thread,
/// so the thread's later spans lie inside them: reload outside of spans. To add a sink, change the
/// layer in its place. It then keeps its sinks, and its open spans:
///
/// [reloads]: https://docs.rs/tracing-subscriber/0.3/tracing_subscriber/reload/index.html
///
/// ```
/// use tickline_tracing::SpanTimingLayer;
/// use tracing_subscriber::layer::SubscriberExt;
/// use tracing_subscriber::reload;
///
/// let (layer, handle) = reload::Layer::new(SpanTimingLayer::new());
/// let subscriber = tracing_subscriber::registry().with(layer);
/// # tracing::subscriber::with_default(subscriber, || {
/// let request = tracing::info_span!("request");
/// handle.modify(|layer| {
///     *layer = std::mem::take(layer).with_callback(|span| println!("{}", span.name()));
/// })?;
/// drop(request); // prints "request"
/// # Ok::<(), reload::Error>(())
/// # })?;
/// # Ok::<(), reload::Error>(())
/// ```
///
/// # In a test
///
/// In a test, tickline's mock clock (its feature `mock`) takes the place of the clock on the
/// threads that activate it:
///
/// ```
/// use std::time::Duration;
/// use tickline::mock::MockClock;
/// use tickline_tracing::SpanTimingLayer;
/// use tracing_subscriber::layer::SubscriberExt;
///
/// let clock = MockClock::new();
/// let _active = clock.activate();
/// let layer = SpanTimingLayer::new()
///     .with_callback(|span| assert_eq!(span.times().busy(), Duration::from_secs(5)));
/// tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
///     tracing::info_span!("work").in_scope(|| clock.advance(Duration::from_secs(5)));
/// });
/// ```
#[derive(Debug, Default)]
#[must_use]
pub struct SpanTimingLayer {
    sinks: Vec<Box<dyn SpanSink>>,
    /// Whether any of the sinks wants these.
    wants_enters: bool,
    wants_events: bool,
    wants_times: bool,
    wants_busy: bool,
    /// Whether the layer does not store the times in the spans' extensions.
    is_for_sinks_only: bool,
    unix_offset: UnixOffset,
    open_spans: Arc<OpenSpans>,
}

impl SpanTimingLayer {
    /// A layer over tickline's global clock, without a sink.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a sink, which the layer calls after its present sinks.
    pub fn with_sink(mut self, mut sink: impl Sink) -> Self {
        sink.added_to_layer(&self.open_spans);
        self.wants_enters |= sink.wants_enters();
        self.wants_events |= sink.wants_events();
        self.wants_times |= sink.wants_times();
        self.wants_busy |= sink.wants_busy();
        self.sinks.push(Box::new(sink));
        self
    }

    /// Passes the times only to the sinks, and does not store them in the spans' extensions. Other
    /// layers, other timing layers included, then find no times there.
    ///
    /// This saves an allocation and an access to the registry at the end of each span. A trace of
    /// threads' tracks needs no times of creation and end, and one of requests' tracks none of
    /// enter and exit. If all sinks are such traces, the layer does not read the clock for these
    /// times.
    ///
    /// ```
    /// use tickline_tracing::{SpanTimes, SpanTimingLayer};
    /// use tracing_subscriber::layer::SubscriberExt;
    ///
    /// let layer = SpanTimingLayer::new()
    ///     .with_callback(|span| println!("{} took {:?}", span.name(), span.times().total()))
    ///     .for_sinks_only();
    /// let subscriber = tracing_subscriber::registry().with(layer);
    /// # use tracing::{info_span, subscriber::with_default};
    /// # with_default(subscriber, || info_span!("work").in_scope(|| ()));
    /// ```
    pub fn for_sinks_only(mut self) -> Self {
        self.is_for_sinks_only = true;
        self
    }

    /// The present time, ns, for the creation or the end of a span; 0 if nothing needs it.
    #[inline]
    fn now_ns(&self) -> u64 {
        if self.wants_times || !self.is_for_sinks_only {
            tickline::now_ns()
        } else {
            0
        }
    }

    /// Whether nothing needs the enters and the exits of spans. A trace of requests alone has
    /// neither busy intervals nor busy times, and saves two readings of the clock and two exchanges
    /// a span.
    #[inline]
    const fn ignores_enters(&self) -> bool {
        self.is_for_sinks_only && !self.wants_enters && !self.wants_busy
    }

    /// Passes a closed span on.
    #[inline]
    fn pass_closed(&self, span: &Span<'_>, times: &SpanTimes) {
        self.sinks.iter().for_each(|sink| sink.closed(span, times));
    }

    /// The metadata of an open span.
    fn metadata(&self, id: &Id) -> Option<StaticMetadata> {
        let metadata = |open_span: &mut OpenSpan| open_span.metadata;
        self.open_spans.change(id.into_u64(), metadata)
    }

    /// Adds a callback, which the layer calls for each closed span, on the thread that closes it.
    /// [`Callback::new`] says what happens if it panics.
    pub fn with_callback(self, call: impl Fn(&ClosedSpan<'_>) + Send + Sync + 'static) -> Self {
        self.with_sink(Callback::new(call))
    }
}

// The methods that run for each span are `#[inline]`. Without it the compiler does not inline them
// into `Layered`, and each call saves most registers.
impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for SpanTimingLayer {
    fn on_register_dispatch(&self, dispatch: &Dispatch) {
        self.sinks
            .iter()
            .for_each(|sink| sink.layer_registered(dispatch));
    }

    #[inline]
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        let now_ns = self.now_ns();
        let metadata = attributes.metadata();
        self.open_spans
            .insert(id.into_u64(), OpenSpan::new(metadata, now_ns));
        let span = Span::new(id, metadata, &ctx);
        self.sinks
            .iter()
            .for_each(|sink| sink.created(&span, attributes, &ctx, now_ns));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, ctx: Context<'_, S>) {
        let Some(metadata) = self.metadata(id) else {
            return;
        };
        let span = Span::new(id, metadata, &ctx);
        self.sinks
            .iter()
            .for_each(|sink| sink.recorded(&span, values));
    }

    fn on_follows_from(&self, id: &Id, other: &Id, ctx: Context<'_, S>) {
        let Some(metadata) = self.metadata(id) else {
            return;
        };
        let span = Span::new(id, metadata, &ctx);
        self.sinks
            .iter()
            .for_each(|sink| sink.followed(&span, other));
    }

    #[inline]
    fn on_event(&self, event: &Event<'_>, ctx: Context<'_, S>) {
        if self.wants_events {
            let ns = tickline::now_ns();
            self.sinks
                .iter()
                .for_each(|sink| sink.event(event, &ctx, ns));
        }
    }

    #[inline]
    fn on_enter(&self, id: &Id, ctx: Context<'_, S>) {
        if self.ignores_enters() {
            return;
        }
        let enter =
            |open_span: &mut OpenSpan| (open_span.metadata, open_span.enter(tickline::now_ns));
        let entered = self.open_spans.change(id.into_u64(), enter);
        if self.wants_enters {
            let Some((metadata, ns)) = entered else {
                return;
            };
            let ns = ns.unwrap_or_else(tickline::now_ns);
            let span = Span::new(id, metadata, &ctx);
            self.sinks.iter().for_each(|sink| sink.entered(&span, ns));
        }
    }

    #[inline]
    fn on_exit(&self, id: &Id, ctx: Context<'_, S>) {
        if self.ignores_enters() {
            return;
        }
        let now_ns = tickline::now_ns();
        let exit = |open_span: &mut OpenSpan| {
            open_span.exit(now_ns);
            open_span.metadata
        };
        let exited = self.open_spans.change(id.into_u64(), exit);
        if self.wants_enters {
            let Some(metadata) = exited else { return };
            let span = Span::new(id, metadata, &ctx);
            self.sinks
                .iter()
                .for_each(|sink| sink.exited(&span, now_ns));
        }
    }

    #[inline]
    fn on_close(&self, id: Id, ctx: Context<'_, S>) {
        let now_ns = self.now_ns();
        let offset_ns = || self.unix_offset.get(now_ns, unix_offset_ns);
        if self.is_for_sinks_only {
            let close =
                |open_span: &mut OpenSpan| (open_span.metadata, open_span.close(now_ns, offset_ns));
            let Some((metadata, times)) = self.open_spans.remove(id.into_u64(), close) else {
                return;
            };
            let span = Span::new(&id, metadata, &ctx);
            return self.pass_closed(&span, &times);
        }
        let close = |open_span: &mut OpenSpan| open_span.close(now_ns, offset_ns);
        let own = self.open_spans.remove(id.into_u64(), close);
        let Some(found) = ctx.span(&id) else { return };
        // This statement releases the lock before a sink is called: a sink may use the extensions,
        // or never return.
        let times = stored_times(&mut found.extensions_mut(), own);
        if let Some(times) = times {
            let span = Span::new(&id, found.metadata(), &found);
            self.pass_closed(&span, &times);
        }
    }
}

/// Stores the times of a span that a layer closes. If another timing layer was called first, its
/// times stay. Returns the times that are stored then.
#[inline]
fn stored_times(extensions: &mut ExtensionsMut<'_>, own: Option<SpanTimes>) -> Option<SpanTimes> {
    let Some(own) = own else {
        return extensions.get_mut().copied();
    };
    let first = extensions.replace(own);
    if let Some(first) = first {
        extensions.replace(first);
    }
    Some(first.unwrap_or(own))
}
