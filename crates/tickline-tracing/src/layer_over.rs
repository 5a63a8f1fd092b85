//! The layer over any clock.

use core::sync::atomic::{AtomicU64, Ordering};

use tracing_core::span::{Attributes, Id};
use tracing_core::{Dispatch, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::open_spans::{OpenSpans, change_in_extensions, from_extensions, insert_in_extensions};
use crate::sink::Sink;
use crate::source::TimeSource;
use crate::timing::{Running, SpanTiming};
use crate::unix_offset::UnixOffset;

/// Numbers the layers, so that a layer knows its own spans. No layer has 0.
static NEXT_LAYER: AtomicU64 = AtomicU64::new(1);

/// [`SpanTimingLayer`](crate::SpanTimingLayer) over a given clock.
#[derive(Debug)]
pub struct LayerOver<T, K = ()> {
    number: u64,
    source: T,
    sink: K,
    unix_offset: UnixOffset,
    open_spans: OpenSpans,
}

impl<T: TimeSource> LayerOver<T> {
    /// A layer over `source`, without a sink.
    #[must_use]
    pub fn new(source: T) -> Self {
        // ORDERING: Relaxed, the number alone counts.
        let number = NEXT_LAYER.fetch_add(1, Ordering::Relaxed);
        Self { number, source, sink: (), unix_offset: UnixOffset::new(), open_spans: OpenSpans::new() }
    }
}

impl<T, K> LayerOver<T, K> {
    /// The same layer, which also calls `sink`.
    #[must_use]
    pub fn with_sink<L>(self, sink: L) -> LayerOver<T, (K, L)> {
        LayerOver {
            number: self.number,
            source: self.source,
            sink: (self.sink, sink),
            unix_offset: self.unix_offset,
            open_spans: self.open_spans,
        }
    }
}

impl<S, T, K> Layer<S> for LayerOver<T, K>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    K: Sink<S>,
    T: TimeSource,
{
    fn on_register_dispatch(&self, dispatch: &Dispatch) {
        self.sink.attached(dispatch);
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        let running = Running::new(self.source.now_ns());
        let is_kept = self.open_spans.insert(id.into_u64(), running.clone());
        if is_kept && !K::CREATION {
            return;
        }
        let Some(span) = ctx.span(id) else { return };
        if !is_kept {
            insert_in_extensions(&span, self.number, running);
        }
        if K::CREATION {
            self.sink.created(attributes, &span);
        }
    }

    fn on_enter(&self, id: &Id, ctx: Context<'_, S>) {
        let enter = |running: &mut Running| running.enter(&self.source);
        let is_kept = self.open_spans.change(id.into_u64(), enter);
        if is_kept && !K::ENTER_AND_EXIT {
            return;
        }
        let Some(span) = ctx.span(id) else { return };
        if !is_kept {
            change_in_extensions(&span, self.number, enter);
        }
        if K::ENTER_AND_EXIT {
            self.sink.entered(&span, self.source.now_ns());
        }
    }

    fn on_exit(&self, id: &Id, ctx: Context<'_, S>) {
        let now_ns = self.source.now_ns();
        let exit = |running: &mut Running| running.exit(now_ns);
        let is_kept = self.open_spans.change(id.into_u64(), exit);
        if is_kept && !K::ENTER_AND_EXIT {
            return;
        }
        let Some(span) = ctx.span(id) else { return };
        if !is_kept {
            change_in_extensions(&span, self.number, exit);
        }
        if K::ENTER_AND_EXIT {
            self.sink.exited(&span, now_ns);
        }
    }

    fn on_close(&self, id: Id, ctx: Context<'_, S>) {
        let now_ns = self.source.now_ns();
        let close =
            |running: &Running| running.close(now_ns, |now_ns| self.unix_offset.get(now_ns, &self.source));
        let kept = self.open_spans.remove(id.into_u64(), close);
        let Some(span) = ctx.span(&id) else { return };
        let kept = kept.or_else(|| from_extensions(&span, self.number).as_ref().map(close));
        // The lock is released before the sink is called: it may want the extensions, or never
        // return.
        let times = {
            let mut extensions = span.extensions_mut();
            match kept.map(|times| (times, extensions.replace(times))) {
                Some((times, None)) => Some(times),
                // Another layer was first.
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
