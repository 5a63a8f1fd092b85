//! Spans that an allocator closes while the histograms allocate.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell};

use tickline_tracing::SpanTimingLayer;
use tickline_tracing::histogram::{Histograms, Measure};
use tracing::{Span, info_span};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry;

/// Closes one of the thread's prepared spans at each allocation, as long as it is armed.
struct Closes;

thread_local! {
    static IS_ARMED: Cell<bool> = const { Cell::new(false) };
    static PREPARED: RefCell<Vec<Span>> = const { RefCell::new(Vec::new()) };
    static CLOSED: Cell<u64> = const { Cell::new(0) };
}

fn close_one() {
    if !IS_ARMED.try_with(Cell::get).unwrap_or(false) {
        return;
    }
    let span = PREPARED.try_with(|prepared| prepared.try_borrow_mut().ok()?.pop()).ok().flatten();
    if let Some(span) = span {
        CLOSED.set(CLOSED.get() + 1);
        drop(span);
    }
}

// SAFETY: every call goes to the system's allocator as it is.
unsafe impl GlobalAlloc for Closes {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        close_one();
        // SAFETY: the caller's obligations are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller's obligations are the same.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Closes = Closes;

/// Each span has a value of its own, so that nearly each allocates in the histograms. A span that
/// the allocator closes there is not counted; every other one is, and nothing waits for itself.
#[test]
fn nothing_waits_for_itself_and_no_other_span_is_lost() {
    let histograms = Histograms::new(Measure::Total).labels(&["number"]);
    let layer = SpanTimingLayer::new()
        .with_callback(|_| IS_ARMED.set(true))
        .with_sink(histograms.clone())
        .with_callback(|_| IS_ARMED.set(false));
    tracing::subscriber::with_default(registry().with(layer), || {
        let numbers: Vec<_> = (0..900_u64).collect();
        let mut closed_by_allocator = 0;
        for numbers in numbers.chunks(90) {
            let mut spans: Vec<_> = numbers.iter().map(|number| info_span!("span", number)).collect();
            CLOSED.set(0);
            let last = spans.pop();
            PREPARED.set(spans);
            drop(last);
            assert!(CLOSED.get() > 3, "allocations closed {} spans", CLOSED.get());
            // A reader allocates, too.
            IS_ARMED.set(true);
            drop(histograms.summaries());
            IS_ARMED.set(false);
            closed_by_allocator += CLOSED.get();
            PREPARED.take();
        }
        let counted: u64 = histograms.summaries().iter().map(|summary| summary.count).sum();
        assert!((900 - closed_by_allocator..=900).contains(&counted), "{counted}, {closed_by_allocator}");
        assert!(closed_by_allocator < 900, "none was left to count");
    });
}
