//! The CPU time of spans.

use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use crate::common::{on_thread, run_with};
use nix::time::{ClockId, clock_gettime};
use tickline_tracing::SpanTimingLayer;
use tickline_tracing::cpu_time::CpuTimer;
use tickline_tracing::histogram::{Histograms, Measure};
use tracing::span::Id;
use tracing::{Subscriber, info_span};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry;
use tracing_subscriber::registry::LookupSpan;

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

/// The name, the busy time and the CPU time of each closed span of `run`.
fn timed(run: impl FnOnce()) -> Vec<(&'static str, Duration, Option<Duration>)> {
    let (told, seen) = mpsc::channel();
    let layer = SpanTimingLayer::new()
        .with_sink(CpuTimer)
        .with_callback(move |span| {
            told.send((span.name(), span.times().busy(), span.cpu_time()))
                .unwrap();
        });
    run_with(layer, run);
    seen.iter().collect()
}

#[test]
fn time_asleep_is_busy_but_not_cpu_time() {
    let start = cpu();
    let seen = timed(|| {
        info_span!("work").in_scope(|| {
            work(Duration::from_millis(3));
            thread::sleep(Duration::from_millis(20));
        });
    });
    let around = cpu() - start;
    let [("work", busy, Some(time))] = seen[..] else {
        panic!("{seen:?}")
    };
    assert!(busy >= Duration::from_millis(23), "{seen:?}");
    assert!(
        time >= Duration::from_millis(3) && time <= around,
        "{seen:?} in {around:?}"
    );
}

/// The kernel's counts inside the span and around it are the limits.
#[test]
fn the_cpu_times_of_a_spans_threads_are_added_up() {
    let (mut inside, mut around) = (Duration::ZERO, Duration::ZERO);
    let seen = timed(|| {
        let span = info_span!("work");
        let mut visit = || {
            let before = cpu();
            inside += span.in_scope(|| {
                let start = cpu();
                work(Duration::from_millis(3));
                cpu() - start
            });
            // This is outside of the span, so it counts for no span.
            work(Duration::from_millis(2));
            around += cpu() - before;
        };
        visit();
        on_thread(visit);
        drop(span);
    });
    let [("work", _, Some(all))] = seen[..] else {
        panic!("{seen:?}")
    };
    assert!(
        inside <= all && all + Duration::from_millis(4) <= around,
        "{inside:?} <= {all:?} <= {around:?}"
    );
}

#[test]
fn an_inner_span_has_a_cpu_time_of_its_own_and_a_re_entry_ends_nothing() {
    let seen = timed(|| {
        let span = info_span!("work");
        span.in_scope(|| {
            span.in_scope(|| info_span!("inner").in_scope(|| work(Duration::from_millis(1))));
            work(Duration::from_millis(2));
        });
        drop(span);
    });
    let [("inner", _, Some(inner)), ("work", _, Some(all))] = seen[..] else {
        panic!("{seen:?}")
    };
    assert!(inner >= Duration::from_millis(1), "{seen:?}");
    assert!(all >= inner + Duration::from_millis(2), "{seen:?}");
}

#[test]
fn a_span_that_was_never_entered_has_no_cpu_time() {
    let seen = timed(|| drop(info_span!("never")));
    assert!(matches!(seen[..], [("never", _, None)]), "{seen:?}");
}

#[test]
fn histograms_of_cpu_time_leave_out_spans_that_were_never_entered() {
    let histograms = Histograms::new(Measure::Cpu);
    let layer = SpanTimingLayer::new()
        .with_sink(CpuTimer)
        .with_sink(histograms.clone());
    run_with(layer, || {
        drop(info_span!("never"));
        info_span!("work").in_scope(|| work(Duration::from_millis(1)));
    });
    let counted = histograms.summaries();
    assert_eq!((counted.len(), counted[0].count), (1, 1), "{counted:?}");
    assert!(counted[0].max >= Duration::from_millis(1), "{counted:?}");
}

/// Symptom: a later span, whose callsite lacks the label's field, counted in the series of a span
/// that had no CPU time.
#[test]
fn a_span_without_a_cpu_time_leaves_its_series_to_no_later_span() {
    let histograms = Histograms::builder(Measure::Cpu).labels(["route"]).build();
    let layer = SpanTimingLayer::new()
        .with_sink(CpuTimer)
        .with_sink(histograms.clone());
    run_with(layer, || {
        drop(info_span!("request", route = "/item"));
        for _ in 0..16 {
            info_span!("tick").in_scope(|| ());
        }
    });
    assert_eq!(histograms.summary(&["/item"]), None);
    assert_eq!(histograms.uncounted_spans(), 16);
}

/// A layer that asks for the CPU time of each span that is closed.
struct Asks(mpsc::Sender<Option<Duration>>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Asks {
    fn on_close(&self, id: Id, ctx: Context<'_, S>) {
        self.0
            .send(CpuTimer::time_of(&ctx.span(&id).unwrap()))
            .unwrap();
    }
}

#[test]
fn another_layer_reads_a_spans_cpu_time() {
    let (asks, told) = mpsc::channel();
    let subscriber = registry()
        .with(SpanTimingLayer::new().with_sink(CpuTimer))
        .with(Asks(asks));
    tracing::subscriber::with_default(subscriber, || {
        drop(info_span!("never"));
        info_span!("work").in_scope(|| work(Duration::from_millis(1)));
    });
    let told: Vec<_> = told.iter().collect();
    assert_eq!(told[0], None);
    assert!(told[1] >= Some(Duration::from_millis(1)), "{told:?}");
}

/// Symptom: in a forked child, a span that was open at the fork had 0 ns of CPU time, beside 20 ms
/// of busy time.
#[test]
fn the_cpu_time_of_a_span_that_a_fork_crosses_is_unknown() {
    let found = Arc::new(Mutex::new(Vec::new()));
    let add = Arc::clone(&found);
    let layer = SpanTimingLayer::new()
        .with_sink(CpuTimer)
        .with_callback(move |span| {
            let known = span.cpu_time().is_some();
            add.lock().unwrap().push((span.name(), known));
        });
    run_with(layer, || {
        let across = info_span!("across").entered();
        let idle = info_span!("idle");
        idle.in_scope(|| ());
        let in_child = || {
            drop(across);
            drop(idle);
            info_span!("inside").in_scope(|| ());
        };
        // SAFETY: the child uses only memory of its own, and leaves by `_exit`.
        match unsafe { libc::fork() } {
            0 => {
                in_child();
                let expected = [("idle", true), ("across", false), ("inside", true)];
                let is_right = *found.lock().unwrap() == expected;
                // SAFETY: the child ends here.
                unsafe { libc::_exit(if is_right { 0 } else { 1 }) }
            }
            child => {
                let mut status = 0;
                // SAFETY: `status` is valid for a write.
                unsafe { libc::waitpid(child, &raw mut status, 0) };
                assert_eq!(status, 0);
                in_child();
            }
        }
    });
    let all_are_known = found.lock().unwrap().iter().all(|(_, known)| *known);
    assert!(all_are_known, "in the parent");
}
