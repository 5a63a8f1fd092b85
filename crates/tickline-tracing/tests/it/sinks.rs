//! Histograms, close events, and sinks side by side.

use std::sync::{Arc, Mutex};

use crate::common::Hand;
use tickline_tracing::{Callback, SpanTimingLayer};
use tracing::{Subscriber, info_span, trace_span};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry;
use tracing_subscriber::registry::LookupSpan;

#[cfg(feature = "fmt")]
mod close_events {
    use super::*;
    use crate::common::Kept;
    use tickline_tracing::CloseEvents;

    /// `fmt`, which writes its lines there.
    fn lines<S: Subscriber + for<'a> LookupSpan<'a>>(kept: &Kept) -> impl Layer<S> + use<S> {
        let kept = kept.clone();
        let layer = tracing_subscriber::fmt::layer().without_time().with_target(false).with_ansi(false);
        layer.with_writer(move || kept.clone())
    }

    #[test]
    fn they_are_like_those_of_fmt() {
        let (hand, all, few) = (Hand::default(), Kept::default(), Kept::default());
        let timing = SpanTimingLayer::over(hand.clone()).with_sink(CloseEvents::new());
        // On either side of the layer, and with a filter of its own.
        let subscriber =
            registry().with(lines(&all)).with(timing).with(lines(&few).with_filter(LevelFilter::INFO));
        tracing::subscriber::with_default(subscriber, || {
            let span = info_span!("work");
            span.in_scope(|| {
                hand.advance_ns(1_500);
                trace_span!("detail").in_scope(|| hand.advance_ns(12));
            });
            hand.advance_ns(2_000_000);
        });
        let work = " INFO work: close time.busy=1.51\u{b5}s time.idle=2.00ms\n";
        let detail = "TRACE work:detail: close time.busy=12.00ns time.idle=0.00ns\n";
        assert_eq!(all.text(), [detail, work].concat());
        assert_eq!(few.text(), work);
    }

    /// The span's own subscriber gets the event, even if another one is the default where the span
    /// is closed.
    #[test]
    fn they_go_home() {
        let (home, elsewhere) = (Kept::default(), Kept::default());
        let timing = SpanTimingLayer::new().with_sink(CloseEvents::new());
        let dispatch = tracing::Dispatch::new(registry().with(timing).with(lines(&home)));
        let span = tracing::dispatcher::with_default(&dispatch, || info_span!("work"));
        tracing::subscriber::with_default(registry().with(lines(&elsewhere)), || drop(span));
        assert_eq!((home.text().lines().count(), elsewhere.text().as_str()), (1, ""));
    }
}

/// A callback gets the values recorded last. Fields that were not chosen, or that the span does not
/// have, have no value.
#[test]
fn callbacks_see_the_fields_that_they_chose() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let add = Arc::clone(&seen);
    let callback = Callback::new(move |span| {
        let field = |name| span.field(name).map(str::to_owned);
        add.lock().unwrap().push([field("route"), field("status"), field("user")]);
    });
    let layer = SpanTimingLayer::new().with_sink(callback.with_fields(&["route", "status"]));
    tracing::subscriber::with_default(registry().with(layer), || {
        let span = info_span!("request", route = "/", status = 0, user = 7);
        span.record("status", 404);
        drop(span);
        drop(info_span!("other"));
    });
    let expected = [[Some("/"), Some("404"), None], [None; 3]];
    assert_eq!(*seen.lock().unwrap(), expected.map(|fields| fields.map(|text| text.map(str::to_owned))));
}

#[cfg(feature = "histogram")]
mod histograms {
    use super::*;
    use std::time::Duration;
    use tickline_tracing::histogram::{Histograms, Key, Measure};

    /// Within a bucket of 1 %.
    fn close(measured: Duration, ns: f64) {
        let ratio = measured.as_secs_f64() * 1e9 / ns;
        assert!((0.99..=1.011).contains(&ratio), "{measured:?} for {ns} ns");
    }

    #[test]
    fn quantiles_of_each_name() {
        let hand = Hand::default();
        let (busy, total, idle) =
            (Histograms::new(Measure::Busy), Histograms::new(Measure::Total), Histograms::new(Measure::Idle));
        let layer = SpanTimingLayer::over(hand.clone())
            .with_sink(busy.clone())
            .with_sink(total.clone())
            .with_sink(idle.clone());
        tracing::subscriber::with_default(registry().with(layer), || {
            for thousand in 1..=1_000 {
                let span = info_span!("even");
                span.in_scope(|| hand.advance_ns(1_000 * thousand));
                hand.advance_ns(5);
            }
            info_span!("once").in_scope(|| hand.advance_ns(77));
            info_span!("once").in_scope(|| hand.advance_ns(77));
        });
        let summaries = busy.summaries();
        assert_eq!(
            summaries.iter().map(|s| (s.name.as_str(), s.count)).collect::<Vec<_>>(),
            [("even", 1_000), ("once", 2)]
        );
        let even = &summaries[0];
        for (measured, ns) in
            [(even.p50, 5e5), (even.p90, 9e5), (even.p99, 9.9e5), (even.p999, 9.99e5), (even.max, 1e6)]
        {
            close(measured, ns);
        }
        close(summaries[1].max, 77.0);
        close(idle.summaries()[0].p50, 5.0);
        close(total.summaries()[1].p50, 77.0);
        assert_eq!(busy.get("even").unwrap().len(), 1_000);
        assert!(busy.get("odd").is_none());
        busy.reset();
        assert!(busy.summaries().is_empty());
    }

    #[test]
    fn spans_are_counted_by_target_or_by_the_value_of_a_field() {
        let targets = Histograms::by(Key::Target, Measure::Total);
        let statuses = Histograms::by(Key::Field("status"), Measure::Total);
        let routes = Histograms::by(Key::Field("route"), Measure::Total);
        let layer = SpanTimingLayer::new()
            .with_sink(targets.clone())
            .with_sink(statuses.clone())
            .with_sink(routes.clone());
        tracing::subscriber::with_default(registry().with(layer), || {
            for number in 0..30_u64 {
                let route = if number % 3 == 0 { "/a" } else { "/b" };
                let span = info_span!("request", route, status = tracing::field::Empty);
                span.record("status", 200 + number % 2);
                drop(info_span!(target: "elsewhere", "other"));
            }
        });
        let counts = |histograms: &Histograms| {
            let summaries = histograms.summaries();
            summaries.into_iter().map(|summary| (summary.name, summary.count)).collect::<Vec<_>>()
        };
        let named = |all: [(&str, u64); 2]| all.map(|(name, count)| (name.to_owned(), count)).to_vec();
        assert_eq!(counts(&routes), named([("/a", 10), ("/b", 20)]));
        assert_eq!(counts(&statuses), named([("200", 15), ("201", 15)]));
        assert_eq!(counts(&targets), named([("elsewhere", 30), (module_path!(), 30)]));
    }

    #[test]
    fn the_table_has_a_line_for_each_name() {
        let (hand, histograms) = (Hand::default(), Histograms::new(Measure::Busy));
        hand.timed(histograms.clone(), || {
            info_span!("a long name").in_scope(|| hand.advance_ns(100));
        });
        assert_eq!(
            histograms.to_string(),
            "span             count        p50        p90        p99      p99.9        max\n\
             a long name          1   100.00ns   100.00ns   100.00ns   100.00ns   100.00ns"
        );
    }
}
