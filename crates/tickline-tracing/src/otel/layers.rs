//! The layers before and after the OpenTelemetry layer: they say which call it has, and when.

use std::sync::Arc;

use tracing_core::span::{Attributes, Id};
use tracing_core::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use super::Shared;
use super::call::{self, Call};
use crate::timing::SpanTiming;

/// The extension of a span: its last exit, monotonic ns.
struct Exited(u64);

/// Called before the OpenTelemetry layer.
pub(super) struct Before(pub(super) Arc<Shared>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Before {
    fn on_new_span(&self, _: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        call::begin(Call { created_ns: Some(self.0.clock.now_ns()), ..Call::default() });
    }

    fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
        call::begin(Call { event_ns: Some(self.0.clock.now_ns()), ..Call::default() });
    }

    fn on_exit(&self, id: &Id, ctx: Context<'_, S>) {
        let now_ns = self.0.clock.now_ns();
        let Some(span) = ctx.span(id) else { return };
        let mut extensions = span.extensions_mut();
        match extensions.get_mut::<Exited>() {
            // Two threads may come here in another order than that of their readings.
            Some(Exited(ns)) => *ns = now_ns.max(*ns),
            None => extensions.insert(Exited(now_ns)),
        }
    }

    fn on_close(&self, id: Id, ctx: Context<'_, S>) {
        let now_ns = self.0.clock.now_ns();
        let found = ctx.span(&id).map(|span| {
            let extensions = span.extensions();
            (extensions.get::<Exited>().map(|exited| exited.0), extensions.get::<SpanTiming>().copied())
        });
        let (exited_ns, times) = found.unwrap_or_default();
        call::begin(Call { end_ns: exited_ns.or(Some(now_ns)), times, ..Call::default() });
    }
}

/// Called after it.
pub(super) struct After;

impl<S: Subscriber> Layer<S> for After {
    fn on_new_span(&self, _: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        call::end();
    }

    fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
        call::end();
    }

    fn on_close(&self, _: Id, _: Context<'_, S>) {
        call::end();
    }
}
