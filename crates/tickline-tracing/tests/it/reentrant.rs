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
}

fn close_one() {
    if !IS_ARMED.try_with(Cell::get).unwrap_or(false) {
        return;
    }
    drop(PREPARED.try_with(|prepared| prepared.try_borrow_mut().ok()?.pop()));
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

/// Each span has a value of its own, so that each allocates in the histograms.
#[test]
fn spans_that_the_allocator_closes_are_counted_too() {
    let histograms = Histograms::new(Measure::Total).labels(&["number"]);
    let layer = SpanTimingLayer::new()
        .with_callback(|_| IS_ARMED.set(true))
        .with_sink(histograms.clone())
        .with_callback(|_| IS_ARMED.set(false));
    tracing::subscriber::with_default(registry().with(layer), || {
        let numbers: Vec<_> = (0..900_u64).collect();
        for numbers in numbers.chunks(90) {
            let mut spans: Vec<_> = numbers.iter().map(|number| info_span!("span", number)).collect();
            let last = spans.pop();
            PREPARED.set(spans);
            drop(last);
            // A reader allocates, too.
            IS_ARMED.set(true);
            drop(histograms.summaries());
            IS_ARMED.set(false);
            let left = PREPARED.take().len();
            assert!(left < 85, "allocations closed {} spans", 89 - left);
        }
        assert_eq!(histograms.summaries().len(), 900);
    });
}
