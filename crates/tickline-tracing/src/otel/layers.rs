//! The layers before and after the OpenTelemetry layer: they say which call it has, and when.

use core::cell::RefCell;

use tracing_core::span::{Attributes, Id};
use tracing_core::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use super::OtelTimes;
use crate::timing::SpanTimes;

/// What `tracing` tells the OpenTelemetry layer. Times are monotonic, ns.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Call {
    /// A span was created.
    pub(super) created_ns: Option<u64>,
    /// An event happened.
    pub(super) event_ns: Option<u64>,
    /// A span was closed, whose last exit was at this time.
    pub(super) end_ns: Option<u64>,
    /// The times of a span that was closed.
    pub(super) times: Option<SpanTimes>,
}

thread_local! {
    /// Usually one: a call may cause others if the SDK itself is traced.
    static PRESENT: RefCell<Vec<Call>> = const { RefCell::new(Vec::new()) };
}

/// Begins a call. A thread that is ending has lost its thread-local memory; its last spans keep
/// the times of `SystemTime`.
fn begin(call: Call) {
    let _ = PRESENT.try_with(|present| present.borrow_mut().push(call));
}

/// Ends the call that began last.
fn end() {
    let _ = PRESENT.try_with(|present| present.borrow_mut().pop());
}

/// What `read` finds in the present call.
pub(super) fn find<R>(read: impl FnOnce(Call) -> Option<R>) -> Option<R> {
    let present = PRESENT.try_with(|present| present.borrow().last().copied());
    present.ok().flatten().and_then(read)
}

/// The extension of a span: its last exit, monotonic ns.
struct Exited(u64);

/// Called before the OpenTelemetry layer.
pub(super) struct Before(pub(super) OtelTimes);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Before {
    fn on_new_span(&self, _: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        begin(Call { created_ns: Some(self.0.clock.now_ns()), ..Call::default() });
    }

    fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
        begin(Call { event_ns: Some(self.0.clock.now_ns()), ..Call::default() });
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
            (extensions.get::<Exited>().map(|exited| exited.0), extensions.get::<SpanTimes>().copied())
        });
        let (exited_ns, times) = found.unwrap_or_default();
        begin(Call { end_ns: exited_ns.or(Some(now_ns)), times, ..Call::default() });
    }
}

/// Called after it.
pub(super) struct After;

impl<S: Subscriber> Layer<S> for After {
    fn on_new_span(&self, _: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        end();
    }

    fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
        end();
    }

    fn on_close(&self, _: Id, _: Context<'_, S>) {
        end();
    }
}
