//! The call that the OpenTelemetry layer has just now, on each thread.

use core::cell::RefCell;

use crate::timing::SpanTiming;

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
    pub(super) times: Option<SpanTiming>,
}

thread_local! {
    /// Usually one: a call may cause others if the SDK itself is traced.
    static PRESENT: RefCell<Vec<Call>> = const { RefCell::new(Vec::new()) };
}

/// Begins a call. A thread that is ending has lost its thread-local memory; its last spans keep
/// the times of `SystemTime`.
pub(super) fn begin(call: Call) {
    let _ = PRESENT.try_with(|present| present.borrow_mut().push(call));
}

/// Ends the call that began last.
pub(super) fn end() {
    let _ = PRESENT.try_with(|present| present.borrow_mut().pop());
}

/// What `read` finds in the present call.
pub(super) fn find<R>(read: impl FnOnce(Call) -> Option<R>) -> Option<R> {
    let present = PRESENT.try_with(|present| present.borrow().last().copied());
    present.ok().flatten().and_then(read)
}
