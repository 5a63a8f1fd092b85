//! The call that the OpenTelemetry layer has just now, on each thread.

use core::cell::RefCell;

use crate::timing::SpanTiming;

/// What `tracing` tells the OpenTelemetry layer. Times are monotonic, ns.
#[derive(Debug, Clone, Copy)]
pub(super) enum Call {
    /// A span was created.
    Create { span: u64, ns: u64 },
    /// An event happened.
    Event { ns: u64 },
    /// A span was closed, whose last exit was at `end_ns`.
    Close { end_ns: u64, times: Option<SpanTiming> },
}

/// A call, and whether the tracer or one of its spans was called meanwhile.
struct Present {
    call: Call,
    is_used: bool,
}

thread_local! {
    /// Usually one: a call may cause others if the SDK itself is traced.
    static PRESENT: RefCell<Vec<Present>> = const { RefCell::new(Vec::new()) };
}

/// Begins a call. A thread that is ending has lost its thread-local memory; its last spans keep
/// the times of `SystemTime`.
pub(super) fn begin(call: Call) {
    let _ = PRESENT.try_with(|present| present.borrow_mut().push(Present { call, is_used: false }));
}

/// Ends the call that began last.
pub(super) fn end() {
    let _ = PRESENT.try_with(|present| present.borrow_mut().pop());
}

/// Takes what `read` finds in the present call.
pub(super) fn find<R>(read: impl FnOnce(&Call) -> Option<R>) -> Option<R> {
    let found = PRESENT.try_with(|present| {
        let mut present = present.borrow_mut();
        let last = present.last_mut()?;
        let found = read(&last.call)?;
        last.is_used = true;
        Some(found)
    });
    found.ok().flatten()
}

/// The time of the present event, if OpenTelemetry added it to no span that has started: then it is
/// in the builder of its span.
pub(super) fn end_event() -> Option<u64> {
    let last = PRESENT.try_with(|present| present.borrow_mut().pop());
    match last.ok().flatten()? {
        Present { call: Call::Event { ns }, is_used: false } => Some(ns),
        _ => None,
    }
}
