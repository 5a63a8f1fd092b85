//! Spans that an allocator closes while the histograms allocate.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell};

use tickline_tracing::SpanTimingLayer;
use tickline_tracing::histogram::{Histograms, Key, Measure};
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
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Closes = Closes;

/// Each span has a value of its own, so that nearly each allocates in the histograms.
#[test]
fn none_is_lost_and_nothing_waits_for_itself() {
    let histograms = Histograms::by(Key::Field("number"), Measure::Total);
    let layer = SpanTimingLayer::new()
        .with_callback(|_| IS_ARMED.set(true))
        .with_sink(histograms.clone())
        .with_callback(|_| IS_ARMED.set(false));
    tracing::subscriber::with_default(registry().with(layer), || {
        for round in 0..10_u64 {
            let prepared: Vec<_> =
                (0..90).map(|number| info_span!("span", number = round * 100 + number)).collect();
            PREPARED.set(prepared);
            CLOSED.set(0);
            drop(info_span!("span", number = round * 100 + 99));
            let (in_sink, before) = (CLOSED.get(), round * 91);
            assert!(in_sink > 3, "allocations closed {in_sink} spans");
            // A reader allocates, too.
            IS_ARMED.set(true);
            let summaries = histograms.summaries();
            IS_ARMED.set(false);
            assert!(CLOSED.get() > in_sink || in_sink == 90);
            assert!(summaries.len() as u64 > before);
            PREPARED.take();
            let summaries = histograms.summaries();
            assert_eq!(summaries.iter().map(|summary| summary.count).sum::<u64>(), before + 91);
        }
    });
}

/// The first span of this name makes a histogram; one that takes longer lets it grow.
#[test]
fn a_span_that_nobody_knows_ends_while_a_histogram_grows() {
    let histograms = Histograms::new(Measure::Total);
    let layer = SpanTimingLayer::new()
        .with_callback(|_| IS_ARMED.set(true))
        .with_sink(histograms.clone())
        .with_callback(|_| IS_ARMED.set(false));
    let known = || info_span!("known");
    tracing::subscriber::with_default(registry().with(layer), || {
        drop(known());
        let slow = known();
        PREPARED.set(vec![info_span!("unknown")]);
        CLOSED.set(0);
        std::thread::sleep(std::time::Duration::from_millis(50));
        drop(slow);
        assert_eq!(CLOSED.get(), 1, "the histogram has grown");
    });
    let counts: Vec<_> = histograms.summaries().into_iter().map(|found| (found.name, found.count)).collect();
    assert_eq!(counts, [("known".to_owned(), 2), ("unknown".to_owned(), 1)]);
}
