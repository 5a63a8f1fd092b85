//! The times of spans: exact times by a mock clock, and counts by the real clock.

use std::cell::Cell;
use std::panic::catch_unwind;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use crate::common::{Closed, MockHand, START_NS, UNIX_START_NS, run_with, spawn};
use tickline::Clock;
use tickline_tracing::{SpanTimes, SpanTimingLayer};
use tracing::span::Id;
use tracing::{Subscriber, error_span, info_span, warn_span};
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{registry, reload};

/// The times of the only span of `run`, and its busy and idle time, ns.
fn lived(run: impl FnOnce(&MockHand)) -> (SpanTimes, [u128; 2]) {
    let (hand, closed) = (MockHand::default(), Closed::default());
    hand.run_timed(closed.sink(), || run(&hand));
    let times = closed.one("work");
    assert_eq!(times.busy() + times.idle(), times.total());
    (
        times,
        [times.busy(), times.idle()].map(|time| time.as_nanos()),
    )
}

#[test]
fn busy_and_idle_are_exact() {
    let (times, ns) = lived(|hand| {
        let span = info_span!("work");
        hand.advance_ns(5);
        span.in_scope(|| hand.advance_ns(70));
        hand.advance_ns(11);
        span.in_scope(|| hand.advance_ns(600));
        hand.advance_ns(13);
    });
    assert_eq!((ns, times.enters()), ([670, 29], 2));
}

/// Sends whether the extensions of a closed span have its times.
struct Finds(Sender<bool>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Finds {
    fn on_close(&self, id: Id, ctx: Context<'_, S>) {
        let span = ctx.span(&id).unwrap();
        self.0.send(SpanTimes::of(&span).is_some()).unwrap();
    }
}

/// The times of a span, 70 ns busy and 5 ns idle, with times for sinks only. Whether the span's
/// extensions had its times.
fn lived_for_sinks_only() -> (SpanTimes, Vec<bool>) {
    let (hand, closed) = (MockHand::default(), Closed::default());
    let (sender, found) = mpsc::channel();
    let layer = SpanTimingLayer::new().with_sink(closed.sink());
    let subscriber = registry().with(layer.for_sinks_only()).with(Finds(sender));
    let _active = hand.0.activate();
    tracing::subscriber::with_default(subscriber, || {
        let span = info_span!("work");
        span.in_scope(|| hand.advance_ns(70));
        hand.advance_ns(5);
    });
    (closed.one("work"), found.try_iter().collect())
}

#[test]
fn times_for_sinks_only_are_exact() {
    let (times, _) = lived_for_sinks_only();
    assert_eq!(
        [times.busy(), times.total()].map(|time| time.as_nanos()),
        [70, 75]
    );
}

#[test]
fn times_for_sinks_only_are_not_in_the_extensions() {
    let (_, found) = lived_for_sinks_only();
    assert_eq!(found, [false]);
}

#[test]
fn a_span_has_its_creation_and_end_in_both_timescales() {
    let (times, _) = lived(|hand| {
        hand.advance_ns(2);
        let span = info_span!("work");
        hand.advance_ns(697);
        drop(span);
    });
    let instants = [times.created_instant(), times.closed_instant()];
    assert_eq!(
        instants.map(|instant| instant.as_nanos()),
        [START_NS + 2, START_NS + 699]
    );
    let unix = [times.created(), times.closed()];
    assert_eq!(
        unix.map(|time| time.as_nanos()),
        [UNIX_START_NS + 2, UNIX_START_NS + 699]
    );
}

#[test]
fn a_span_that_was_never_entered_was_idle() {
    let (times, ns) = lived(|hand| {
        let _span = info_span!("work");
        hand.advance_ns(40);
    });
    assert_eq!((ns, times.enters()), ([0, 40], 0));
}

#[test]
fn the_time_in_a_child_is_busy_time_of_its_parent() {
    let (hand, closed) = (MockHand::default(), Closed::default());
    hand.run_timed(closed.sink(), || {
        info_span!("parent").in_scope(|| {
            info_span!("child").in_scope(|| hand.advance_ns(6));
            hand.advance_ns(1);
        });
    });
    let busy_ns = ["parent", "child"].map(|name| closed.one(name).busy().as_nanos());
    assert_eq!(busy_ns, [7, 6]);
}

/// Two threads are in one span; the second one closes it. Busy is the time during which at least
/// one of them was in the span.
#[test]
fn busy_intervals_of_threads_that_overlap_count_once() {
    let (times, ns) = lived(|hand| {
        let here = info_span!("work").entered();
        let other = tracing::Span::clone(&here);
        hand.advance_ns(10);
        let together = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                let (_active, other) = (hand.0.activate(), other);
                other.in_scope(|| {
                    together.wait();
                    together.wait();
                });
                hand.advance_ns(40_000);
            });
            together.wait();
            hand.advance_ns(200);
            drop(here);
            hand.advance_ns(3_000);
            together.wait();
        });
    });
    assert_eq!((ns, times.enters()), ([3_210, 40_000], 2));
}

/// A sink that panics leaves no lock behind: the next span is timed.
#[test]
fn a_callback_that_panics_leaves_no_lock() {
    let closed = Closed::default();
    let layer = SpanTimingLayer::new().with_sink(closed.sink());
    let layer = layer.with_callback(|span| assert_eq!(span.name(), "good"));
    run_with(layer, || {
        assert!(catch_unwind(|| drop(info_span!("bad"))).is_err());
        drop(info_span!("good"));
    });
    assert_eq!(
        closed
            .all()
            .iter()
            .map(|(name, _)| *name)
            .collect::<Vec<_>>(),
        ["bad", "good"]
    );
}

/// A layer that reads the extension when a span is closed.
struct Reader(Sender<Option<SpanTimes>>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Reader {
    fn on_close(&self, id: Id, ctx: Context<'_, S>) {
        self.0.send(SpanTimes::of(&ctx.span(&id).unwrap())).unwrap();
    }
}

/// A second timing layer does not time the span again, and its sink gets the same times.
#[test]
fn all_layers_see_the_same_times() {
    let (first, second) = (Closed::default(), Closed::default());
    let ((before, seen_before), (after, seen_after)) = (mpsc::channel(), mpsc::channel());
    let timing = |closed: &Closed| SpanTimingLayer::new().with_sink(closed.sink());
    let subscriber = registry()
        .with(Reader(before))
        .with(timing(&first))
        .with(timing(&second))
        .with(Reader(after));
    tracing::subscriber::with_default(subscriber, || info_span!("work").in_scope(|| ()));
    let times = first.one("work");
    assert_eq!((times.enters(), second.one("work")), (1, times));
    assert!(seen_after.iter().eq([Some(times)]));
    assert!(
        seen_before.iter().eq([None]),
        "added before, so called before"
    );
}

/// Each of two layers has a filter of its own.
#[test]
fn a_layer_times_the_spans_that_its_filter_lets_through() {
    let (warnings, named) = (Closed::default(), Closed::default());
    let layer = |closed: &Closed| SpanTimingLayer::new().with_sink(closed.sink());
    let subscriber = registry()
        .with(layer(&warnings).with_filter(LevelFilter::WARN))
        .with(layer(&named).with_filter(filter_fn(|metadata| metadata.name() != "hidden")));
    tracing::subscriber::with_default(subscriber, || {
        info_span!("info").in_scope(|| warn_span!("warn").in_scope(|| ()));
        error_span!("hidden").in_scope(|| ());
    });
    let names = |closed: &Closed| -> Vec<_> {
        let all = closed.all();
        assert!(all.iter().all(|(_, times)| times.enters() == 1), "{all:?}");
        all.into_iter().map(|(name, _)| name).collect()
    };
    assert_eq!(names(&warnings), ["warn", "hidden"]);
    assert_eq!(names(&named), ["warn", "info"]);
}

/// The threads wait for each other at the span's slot.
#[test]
fn no_enter_of_a_span_that_threads_share_is_lost() {
    const ENTERS: u32 = 10_000;
    let (times, _) = lived(|_| {
        let shared = info_span!("work");
        let work = || (0..ENTERS).for_each(|_| shared.in_scope(|| ()));
        thread::scope(|scope| (0..4).for_each(|_| _ = spawn(scope, "", work)));
    });
    assert_eq!(times.enters(), 4 * ENTERS);
}

/// tracing's issue 3529: the reload of a filter while spans were open unbalanced their counts.
#[test]
fn a_filter_may_be_reloaded_while_spans_are_open() {
    let (hand, closed) = (MockHand::default(), Closed::default());
    let (filter, handle) = reload::Layer::new(LevelFilter::INFO);
    let timing = SpanTimingLayer::new()
        .with_sink(closed.sink())
        .with_filter(filter);
    let _active = hand.0.activate();
    run_with(timing, || {
        let open = info_span!("open");
        let entered = open.enter();
        hand.advance_ns(5);
        handle.reload(LevelFilter::OFF).unwrap();
        drop(info_span!("unseen"));
        hand.advance_ns(60);
        drop(entered);
        open.in_scope(|| hand.advance_ns(700));
        handle.reload(LevelFilter::TRACE).unwrap();
        open.in_scope(|| hand.advance_ns(8_000));
        drop(open);
        drop(info_span!("seen"));
    });
    assert_eq!(closed.all().len(), 2);
    let times = closed.one("open");
    assert_eq!(
        (
            times.busy().as_nanos(),
            times.total().as_nanos(),
            times.enters()
        ),
        (8_765, 8_765, 3)
    );
}

/// The layer itself is added and removed. Spans that it has seen from their creation have the right
/// times, and nothing panics.
#[test]
fn the_layer_may_be_reloaded_while_spans_are_open() {
    let (first, second) = (Closed::default(), Closed::default());
    let layer = |closed: Closed| Some(SpanTimingLayer::new().with_sink(closed.sink()));
    let (slot, handle) = reload::Layer::new(layer(first.clone()).filter(|_| false)); // none yet
    run_with(slot, || {
        let before = info_span!("before");
        let inside = before.enter();
        handle.reload(layer(first.clone())).unwrap();
        drop(inside);
        before.in_scope(|| ());
        drop(before);
        info_span!("during").in_scope(|| ());
        let across = info_span!("across");
        let inside = across.enter();
        handle.reload(layer(second.clone())).unwrap();
        drop(inside);
        drop(across);
        info_span!("after").in_scope(|| ());
        handle.reload(None).unwrap();
        drop(info_span!("never"));
    });
    assert_eq!(first.all().len(), 1);
    assert_eq!(first.one("during").enters(), 1);
    assert_eq!(
        second.all().len(),
        1,
        "of \"across\", the one that timed it is gone"
    );
    assert_eq!(second.one("after").enters(), 1);
}

/// 8 threads create 10 million spans in an optimised build, 80,000 otherwise, while the line is
/// replaced every millisecond, and the counter is switched off and on. Every span is counted, with
/// exact numbers of enters. On each thread, a span does not begin before the end of the span before
/// it. No time is negative or too long. Unix and monotonic time are not confused: a confused time
/// would be before the year 2020.
#[test]
fn no_span_of_any_thread_is_lost_or_has_a_wrong_time() {
    const THREADS: u32 = 8;
    const SPANS: u64 = if cfg!(debug_assertions) {
        10_000
    } else {
        1_250_000
    };
    static SUMS: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];
    let _clock = Clock::builder()
        .interval(Duration::from_millis(1))
        .start_global()
        .unwrap();
    let layer = SpanTimingLayer::new().with_callback(|span| {
        thread_local! {
            static LAST: Cell<tickline::Instant> = const { Cell::new(tickline::Instant::ZERO) };
        }
        let times = span.times();
        let steps_back = times.created_instant() < LAST.replace(times.closed_instant());
        let is_unix =
            times.created().as_secs() > 1_577_836_800 && times.created() <= times.closed();
        let is_wrong = steps_back || !is_unix || times.busy() > times.total();
        let total_ns = times.total().as_nanos().try_into().unwrap();
        for (sum, by) in SUMS
            .iter()
            .zip([1, times.enters().into(), u64::from(is_wrong), total_ns])
        {
            // ORDERING: Relaxed: sums, read when the threads are joined.
            sum.fetch_add(by, Ordering::Relaxed);
        }
    });
    let work = || {
        for _ in 0..SPANS {
            let span = info_span!("work");
            (0..3).for_each(|_| span.in_scope(|| ()));
        }
    };
    let start = Instant::now();
    run_with(layer, || {
        thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| spawn(scope, "", work)).collect();
            while !threads.iter().all(ScopedJoinHandle::is_finished) {
                Clock::global().disable();
                thread::sleep(Duration::from_micros(100));
                Clock::global().enable();
                thread::sleep(Duration::from_millis(5));
            }
        });
    });
    // The spans of a thread do not overlap. A factor of two is allowed, because the clock may run
    // at another rate than std's while it comes back.
    let most = (2 * start.elapsed() + Duration::from_millis(1)) * THREADS;
    // ORDERING: Relaxed, the threads are joined.
    let [spans, enters, wrong, total_ns] = SUMS.each_ref().map(|sum| sum.load(Ordering::Relaxed));
    let all = u64::from(THREADS) * SPANS;
    assert_eq!([spans, enters, wrong], [all, 3 * all, 0]);
    assert!(
        Duration::from_nanos(total_ns) <= most,
        "{total_ns} ns in {most:?}"
    );
}
