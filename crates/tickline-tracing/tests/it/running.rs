//! The CPU time of spans.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::common::{on_thread, with};
use nix::time::{ClockId, clock_gettime};
use tickline_tracing::SpanTimingLayer;
use tickline_tracing::histogram::{Histograms, Measure};
use tickline_tracing::running::RunningTime;
use tracing::info_span;

fn cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap().into()
}

/// Works until the thread has run for this time.
fn work(time: Duration) {
    let start = cpu();
    while cpu() - start < time {}
}

/// Name, busy time and CPU time of each span.
type Seen = Arc<Mutex<Vec<(&'static str, Duration, Option<Duration>)>>>;

fn timing() -> (Seen, Histograms, SpanTimingLayer) {
    let (seen, histograms) = (Seen::default(), Histograms::new(Measure::Running));
    let told = Arc::clone(&seen);
    let layer = SpanTimingLayer::new()
        .with_sink(RunningTime::new())
        .with_sink(histograms.clone())
        .with_callback(move |span| {
            told.lock().unwrap().push((span.name(), span.times().busy(), span.running()));
        });
    (seen, histograms, layer)
}

/// The kernel's count inside the span, and around it, are the bounds. A span that was never entered
/// has no time, and counts in no histogram.
#[test]
fn time_asleep_is_busy_but_not_running() {
    let (seen, histograms, layer) = timing();
    with(layer, || {
        let (span, before) = (info_span!("work"), cpu());
        let inside = span.in_scope(|| {
            let start = cpu();
            work(Duration::from_millis(3));
            thread::sleep(Duration::from_millis(20));
            span.in_scope(|| work(Duration::from_millis(1)));
            cpu() - start
        });
        // Not in the span, so this counts for no one.
        work(Duration::from_millis(2));
        let again = span.in_scope(|| {
            let start = cpu();
            work(Duration::from_millis(1));
            cpu() - start
        });
        let around = cpu() - before;
        drop(span);
        let (_, busy, running) = seen.lock().unwrap()[0];
        let running = running.unwrap();
        assert!(inside + again <= running, "{running:?}, inside {inside:?} and {again:?}");
        assert!(running + Duration::from_millis(2) <= around, "{running:?} of {around:?}");
        assert!(busy >= Duration::from_millis(20), "{busy:?}");
        let counted = histograms.summaries();
        assert_eq!((counted[0].count, seen.lock().unwrap().len()), (1, 1));
        assert!(counted[0].max >= running);
        drop(info_span!("never"));
        assert_eq!((seen.lock().unwrap()[1].2, histograms.summaries()), (None, counted));
    });
}

/// A span that moves has the sum of its threads' times; one inside another has its own.
#[test]
fn threads_add_up() {
    let (seen, _, layer) = timing();
    let inside = || {
        let start = cpu();
        info_span!("inner").in_scope(|| work(Duration::from_millis(1)));
        work(Duration::from_millis(1));
        cpu() - start
    };
    let mut least = Duration::ZERO;
    with(layer, || {
        let span = info_span!("outer");
        (0..3).for_each(|_| least += on_thread(|| span.in_scope(inside)));
    });
    let seen = seen.lock().unwrap();
    let named = |name| seen.iter().filter(move |seen| seen.0 == name).map(|seen| seen.2.unwrap());
    let (inner, outer): (Vec<_>, _) = (named("inner").collect(), named("outer").next().unwrap());
    assert!(inner.len() == 3 && inner.iter().all(|time| *time >= Duration::from_millis(1)), "{inner:?}");
    let all_inner: Duration = inner.iter().sum();
    assert!(outer >= least && outer >= all_inner + Duration::from_millis(3), "{outer:?}");
}
