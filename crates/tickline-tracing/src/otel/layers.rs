//! The layers before and after the OpenTelemetry layer: they say which call it has, and when.

use core::sync::atomic::Ordering;
use std::sync::Arc;

use tracing_core::span::{Attributes, Id};
use tracing_core::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use super::call::{self, Call};
use super::{NEXT_SPAN, Shared};
use crate::timing::SpanTiming;

/// The extension of a span.
struct Known {
    /// The span's number.
    span: u64,
    /// Its last exit, monotonic ns.
    exited_ns: Option<u64>,
    /// Whether it had an event before OpenTelemetry started it.
    has_waited: bool,
}

/// Called before the OpenTelemetry layer.
pub(super) struct Before(pub(super) Arc<Shared>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Before {
    fn on_new_span(&self, _: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        let ns = self.0.clock.now_ns();
        // ORDERING: Relaxed, the number alone counts.
        let span = NEXT_SPAN.fetch_add(1, Ordering::Relaxed);
        if let Some(found) = ctx.span(id) {
            found.extensions_mut().replace(Known { span, exited_ns: None, has_waited: false });
        }
        call::begin(Call::Create { span, ns });
    }

    fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
        call::begin(Call::Event { ns: self.0.clock.now_ns() });
    }

    fn on_exit(&self, id: &Id, ctx: Context<'_, S>) {
        let now_ns = self.0.clock.now_ns();
        let Some(span) = ctx.span(id) else { return };
        if let Some(known) = span.extensions_mut().get_mut::<Known>() {
            // Two threads may come here in another order than that of their readings.
            known.exited_ns = known.exited_ns.max(Some(now_ns));
        }
    }

    fn on_close(&self, id: Id, ctx: Context<'_, S>) {
        let now_ns = self.0.clock.now_ns();
        let found = ctx.span(&id).map(|span| {
            let extensions = span.extensions();
            let exited_ns = extensions.get::<Known>().and_then(|known| known.exited_ns);
            (exited_ns, extensions.get::<SpanTiming>().copied())
        });
        let (exited_ns, times) = found.unwrap_or_default();
        call::begin(Call::Close { end_ns: exited_ns.unwrap_or(now_ns), times });
    }
}

/// Called after it.
pub(super) struct After(pub(super) Arc<Shared>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for After {
    fn on_new_span(&self, _: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        call::end();
    }

    fn on_event(&self, event: &Event<'_>, ctx: Context<'_, S>) {
        let Some((ns, span)) = call::end_event().zip(ctx.event_span(event)) else { return };
        if let Some(known) = span.extensions_mut().get_mut::<Known>() {
            known.has_waited = true;
            self.0.wait(known.span, ns);
        }
    }

    fn on_close(&self, id: Id, ctx: Context<'_, S>) {
        call::end();
        let Some(span) = ctx.span(&id) else { return };
        let known = span.extensions_mut().remove::<Known>();
        if let Some(known) = known.filter(|known| known.has_waited) {
            self.0.take_waiting(known.span);
        }
    }
}
