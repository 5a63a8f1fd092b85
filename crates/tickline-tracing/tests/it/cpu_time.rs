//! The CPU time of spans.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::common::{on_thread, with};
use nix::time::{ClockId, clock_gettime};
use tickline_tracing::SpanTimingLayer;
use tickline_tracing::cpu_time::CpuTimer;
use tickline_tracing::histogram::{Histograms, Measure};
use tracing::info_span;

fn cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .unwrap()
        .into()
}

/// Works until the thread has run for this time.
fn work(time: Duration) {
    let start = cpu();
    while cpu() - start < time {}
}

/// On two threads, the CPU time of a span is at least the kernel's count inside the span, and at
/// most the count around it. An inner span has a CPU time of its own. A span that was never entered
/// has no CPU time, and counts in no histogram.
#[test]
fn time_asleep_is_busy_but_not_running() {
    let ((told, seen), histograms) = (mpsc::channel(), Histograms::new(Measure::Cpu));
    let layer = SpanTimingLayer::new()
        .with_sink(CpuTimer)
        .with_sink(histograms.clone())
        .with_callback(move |span| {
            told.send((span.name(), span.times().busy(), span.cpu_time()))
                .unwrap();
        });
    let (mut inside, mut around) = (Duration::ZERO, Duration::ZERO);
    with(layer, || {
        let span = info_span!("work");
        let mut visit = || {
            let before = cpu();
            inside += span.in_scope(|| {
                let start = cpu();
                work(Duration::from_millis(3));
                thread::sleep(Duration::from_millis(20));
                span.in_scope(|| info_span!("inner").in_scope(|| work(Duration::from_millis(1))));
                cpu() - start
            });
            // This is outside of the span, so it counts for no span.
            work(Duration::from_millis(2));
            around += cpu() - before;
        };
        visit();
        on_thread(visit);
        drop(span);
        drop(info_span!("never"));
    });
    let seen: Vec<_> = seen.iter().collect();
    let [
        ("inner", _, Some(first)),
        ("inner", _, Some(second)),
        ("work", busy, Some(all)),
        ("never", _, None),
    ] = seen[..]
    else {
        panic!("{seen:?}")
    };
    assert!(
        first.min(second) >= Duration::from_millis(1) && busy >= Duration::from_millis(40),
        "{seen:?}"
    );
    assert!(
        inside <= all && first + second + Duration::from_millis(6) <= all,
        "{seen:?}, inside {inside:?}"
    );
    assert!(
        all + Duration::from_millis(4) <= around,
        "{seen:?}, around {around:?}"
    );
    let counted = histograms.summaries();
    assert_eq!([counted[0].count, counted[1].count], [2, 1]);
    assert!(counted.len() == 2 && counted[1].max >= all, "{counted:?}");
}
