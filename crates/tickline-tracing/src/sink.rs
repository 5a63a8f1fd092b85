//! Sinks for the spans' times: what the layer calls.

use core::fmt;
use std::sync::Arc;

use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Dispatch, Event, Metadata, Subscriber};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{ExtensionsMut, LookupSpan, SpanRef};

use crate::open_spans::OpenSpans;
use crate::timing::SpanTimes;

/// What a [`SpanTimingLayer`](crate::SpanTimingLayer) can pass its spans to. This crate implements
/// it: for [`Callback`](crate::Callback), [`CloseEvents`](crate::CloseEvents), and what is in the
/// modules `chrome`, `flight`, `histogram` and `cpu_time`. The layer holds no lock of its own while
/// it calls a sink.
///
/// A layer that can itself be [reloaded](tracing_subscriber::reload) is behind a read-write lock.
/// Each call of the sink holds its read side. If the sink makes an event or a span, that takes the
/// read side again. If another thread has begun to reload in between, both wait for each other for
/// ever. To avoid that, reload a filter around the layer, which holds no lock, or use callbacks
/// that make neither events nor spans.
// All times are ns of `CLOCK_MONOTONIC`. Other crates cannot implement this trait: `closed` is
// required, and they cannot name the type `Span` of its argument.
pub trait Sink: fmt::Debug + Send + Sync + 'static {
    /// The sink became one of a layer that keeps its open spans in this table.
    #[doc(hidden)]
    fn joined(&mut self, _open_spans: &Arc<OpenSpans>) {}

    /// Whether [`entered`](Self::entered) and [`exited`](Self::exited) are wanted.
    #[doc(hidden)]
    fn wants_enters(&self) -> bool {
        false
    }

    /// Whether [`event`](Self::event) is wanted. Each event then costs a reading of the clock.
    #[doc(hidden)]
    fn wants_events(&self) -> bool {
        false
    }

    /// The layer became part of a subscriber.
    #[doc(hidden)]
    fn attached(&self, _dispatch: &Dispatch) {}

    /// A span was created.
    #[doc(hidden)]
    fn created(&self, _span: &Span<'_>, _attributes: &Attributes<'_>, _ns: u64) {}

    /// Values of a span's fields were recorded after its creation.
    #[doc(hidden)]
    fn recorded(&self, _span: &Span<'_>, _values: &Record<'_>) {}

    /// A span was entered on this thread, re-entries included.
    #[doc(hidden)]
    fn entered(&self, _span: &Span<'_>, _ns: u64) {}

    /// A span was exited on this thread.
    #[doc(hidden)]
    fn exited(&self, _span: &Span<'_>, _ns: u64) {}

    /// An event happened on this thread.
    #[doc(hidden)]
    fn event(&self, _event: &Event<'_>, _lookup: &dyn Lookup, _ns: u64) {}

    /// A span was closed. Its extensions are still there, [`SpanTimes`](crate::SpanTimes) among
    /// them.
    #[doc(hidden)]
    fn closed(&self, span: &Span<'_>, times: &SpanTimes);
}

/// Which span is meant.
#[derive(Debug, Clone, Copy)]
pub enum Which<'a> {
    /// The span of this number.
    This(&'a Id),
    /// Its parent.
    ParentOf(&'a Id),
    /// The one in which this event happened.
    Around(&'a Event<'a>),
}

/// What gets a span's extensions, locked, and the span, from which its parent can be found.
type Take<'a> = &'a mut dyn FnMut(ExtensionsMut<'_>, &dyn Lookup);

/// Finds spans in the registry, whichever that is. A filter may hide spans there from the layer.
pub trait Lookup {
    /// Lends a span, if it finds it.
    fn lend(&self, which: Which<'_>, take: Take<'_>);
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Lookup for Context<'_, S> {
    fn lend(&self, which: Which<'_>, take: Take<'_>) {
        let found = match which {
            Which::This(id) | Which::ParentOf(id) => self.span(id),
            Which::Around(event) => self.event_span(event),
        };
        found.iter().for_each(|found| found.lend(which, take));
    }
}

/// A span that was found already.
impl<R: for<'a> LookupSpan<'a>> Lookup for SpanRef<'_, R> {
    fn lend(&self, which: Which<'_>, take: Take<'_>) {
        match which {
            Which::ParentOf(_) => {
                let parent = self.parent();
                parent.iter().for_each(|parent| take(parent.extensions_mut(), parent));
            }
            Which::This(_) | Which::Around(_) => take(self.extensions_mut(), self),
        }
    }
}

impl dyn Lookup + '_ {
    /// What `run` makes of a span's extension of this type; `None` if the span is not there. The
    /// default is added if there is no extension. `run` also gets the span, from which its parent can
    /// be found.
    pub(crate) fn extension<T: Default + Send + Sync + 'static, R>(
        &self,
        which: Which<'_>,
        run: impl FnOnce(&mut T, &dyn Lookup) -> R,
    ) -> Option<R> {
        let (mut run, mut result) = (Some(run), None);
        self.lend(which, &mut |mut extensions, found| {
            if extensions.get_mut::<T>().is_none() {
                extensions.insert(T::default());
            }
            result = extensions.get_mut().zip(run.take()).map(|(extension, run)| run(extension, found));
        });
        result
    }
}

/// What `tracing` knows of a callsite.
pub(crate) type StaticMetadata = &'static Metadata<'static>;

/// A span that something happens to. Its number and its metadata are at hand. Its extensions are in
/// the registry, which may cost a lookup.
pub struct Span<'a> {
    pub(crate) id: &'a Id,
    pub(crate) metadata: StaticMetadata,
    pub(crate) lookup: &'a dyn Lookup,
}

impl Span<'_> {
    /// What `run` makes of the span's extension of this type, as [`Lookup`]'s.
    pub(crate) fn extension<T: Default + Send + Sync + 'static, R>(
        &self,
        run: impl FnOnce(&mut T, &dyn Lookup) -> R,
    ) -> Option<R> {
        self.lookup.extension(Which::This(self.id), run)
    }
}

impl fmt::Debug for Span<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, metadata, .. } = self;
        f.debug_struct("Span").field("id", id).field("metadata", metadata).finish_non_exhaustive()
    }
}
