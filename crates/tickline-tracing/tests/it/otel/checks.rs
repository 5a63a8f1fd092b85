//! What must hold with each version.

use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tickline_tracing::otel::{OtelTimes, TimedTracer};
use tickline_tracing::{SpanTiming, SpanTimingLayer};
use tracing::{Dispatch, Subscriber, dispatcher, info, info_span, subscriber};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry;
use tracing_subscriber::registry::LookupSpan;

use super::otel::trace::{TraceContextExt, Tracer, TracerProvider};
use super::otel::{Context, Value};
use super::otel_layer::{self, OpenTelemetryLayer, OpenTelemetrySpanExt};
use super::sdk::trace::{InMemorySpanExporter, SdkTracer, SdkTracerProvider, SpanData};
use crate::common::{Closed, Hand, UNIX_OFFSET_NS};

fn at(monotonic_ns: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(UNIX_OFFSET_NS + monotonic_ns)
}

/// OpenTelemetry's layer with these times, where its spans go, and the provider. The exporter
/// forgets them when the provider is dropped.
fn exported<S>(times: &OtelTimes) -> (OpenTelemetryLayer<S, TimedTracer<SdkTracer>>, InMemorySpanExporter, SdkTracerProvider)
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    (otel_layer::layer().with_tracer(times.tracer(provider.tracer("test"))), exporter, provider)
}

fn span(exporter: &InMemorySpanExporter, name: &str) -> SpanData {
    let spans = exporter.get_finished_spans().unwrap();
    let named: Vec<_> = spans.into_iter().filter(|span| span.name == name).collect();
    assert_eq!(named.len(), 1, "spans called {name}");
    named[0].clone()
}

fn times(span: &SpanData) -> (SystemTime, Vec<(String, SystemTime)>, SystemTime) {
    let events = span.events.iter().map(|event| (event.name.to_string(), event.timestamp)).collect();
    (span.start_time, events, span.end_time)
}

fn number(span: &SpanData, key: &str) -> i64 {
    match span.attributes.iter().find(|attribute| attribute.key.as_str() == key).unwrap().value {
        Value::I64(number) => number,
        ref value => panic!("{key} is {value:?}"),
    }
}

/// Start, end and events; and `busy_ns` and `idle_ns`, whose sum is the time from creation to end.
/// By which attributes the times come to the tracer is not exported.
#[test]
fn times_are_ours() {
    let (hand, closed) = (Hand::default(), Closed::default());
    let times_of = OtelTimes::over(hand.clone());
    let (otel, exporter, _provider) = exported(&times_of);
    let timing = SpanTimingLayer::over(hand.clone()).with_sink(closed.clone().into_sink());
    subscriber::with_default(registry().with(timing).with(times_of.layer(otel)), || {
        hand.set_ns(1_000);
        let outer = info_span!("outer", user = 7);
        hand.set_ns(1_100);
        outer.in_scope(|| {
            hand.set_ns(1_200);
            info!("first");
            hand.set_ns(1_300);
            info_span!("inner").in_scope(|| {
                hand.set_ns(1_450);
                info!("second");
                hand.set_ns(1_500);
            });
            hand.set_ns(1_600);
        });
        hand.set_ns(1_700);
        outer.in_scope(|| hand.set_ns(1_900));
        // Its end comes later than its last exit.
        hand.set_ns(5_000);
    });
    let (outer, inner) = (span(&exporter, "outer"), span(&exporter, "inner"));
    assert_eq!(times(&outer), (at(1_000), vec![("first".to_owned(), at(1_200))], at(1_900)));
    assert_eq!(times(&inner), (at(1_300), vec![("second".to_owned(), at(1_450))], at(1_500)));
    assert_eq!(inner.parent_span_id, outer.span_context.span_id());
    for (exported, name) in [(&outer, "outer"), (&inner, "inner")] {
        let own: SpanTiming = closed.one(name);
        assert_eq!(exported.start_time, SystemTime::from(own.created()));
        assert_eq!(u128::try_from(number(exported, "busy_ns")).unwrap(), own.busy().as_nanos());
        assert_eq!(u128::try_from(number(exported, "idle_ns")).unwrap(), own.idle().as_nanos());
        assert!(exported.attributes.iter().all(|it| !it.key.as_str().starts_with("tickline")), "{exported:?}");
    }
    assert_eq!((number(&outer, "busy_ns"), number(&outer, "idle_ns")), (700, 3_300));
    assert_eq!(number(&outer, "user"), 7);
}

/// Events that come before OpenTelemetry starts their span; those of others keep their times.
#[test]
fn events_that_come_early_have_our_times() {
    for is_activated in [true, false] {
        let hand = Hand::default();
        let times_of = OtelTimes::over(hand.clone());
        let (otel, exporter, _provider) = exported(&times_of);
        let otel = otel.with_context_activation(is_activated);
        subscriber::with_default(registry().with(times_of.layer(otel)), || {
            hand.set_ns(10);
            let parent = info_span!("parent");
            hand.set_ns(20);
            info!(parent: &parent, "early");
            parent.add_event_with_timestamp("by hand", at(3), Vec::new());
            hand.set_ns(30);
            info!(parent: &parent, "still early");
            hand.set_ns(40);
            // Starts the parent.
            let child = info_span!(parent: &parent, "child");
            hand.set_ns(50);
            child.in_scope(|| info!("in the child"));
            hand.set_ns(60);
            parent.add_event_with_timestamp("by hand, late", at(4), Vec::new());
            info!(parent: &parent, "late");
            drop(child);
            hand.set_ns(70);
        });
        let named = |events: &[(&str, u64)]| -> Vec<(String, SystemTime)> {
            events.iter().map(|(name, ns)| ((*name).to_owned(), at(*ns))).collect()
        };
        let parent =
            [("early", 20), ("by hand", 3), ("still early", 30), ("by hand, late", 4), ("late", 60)];
        // The parent was never entered, so it ends when it is closed.
        assert_eq!(times(&span(&exporter, "parent")), (at(10), named(&parent), at(70)));
        let child = times(&span(&exporter, "child"));
        assert_eq!(child, (at(40), named(&[("in the child", 50)]), at(50)));
    }
}

/// What users do besides still works: contexts, parents, spans of the tracer itself, filters.
#[test]
fn the_rest_of_the_layer_is_as_before() {
    let hand = Hand::default();
    let times_of = OtelTimes::over(hand.clone());
    let (otel, exporter, provider) = exported(&times_of);
    let tracer = times_of.tracer(provider.tracer("test"));
    let filter = tracing_subscriber::filter::LevelFilter::INFO;
    let before = SystemTime::now();
    subscriber::with_default(registry().with(times_of.layer(otel).with_filter(filter)), || {
        let remote = Context::new().with_span(tracer.start("remote"));
        let local = info_span!("local");
        let _ = local.set_parent(remote.clone());
        assert_eq!(local.context().span().span_context().trace_id(), remote.span().span_context().trace_id());
        local.in_scope(|| {
            hand.advance_ns(5);
            tracing::debug_span!("hidden").in_scope(|| hand.advance_ns(5));
        });
    });
    let (remote, local) = (span(&exporter, "remote"), span(&exporter, "local"));
    assert_eq!(local.parent_span_id, remote.span_context.span_id());
    assert_eq!((local.start_time, local.end_time), (at(0), at(10)));
    // The tracer's own spans have the SDK's times.
    assert!(remote.start_time >= before && remote.end_time >= remote.start_time);
    assert_eq!(exporter.get_finished_spans().unwrap().len(), 2);
}

/// A span becomes neither longer nor shorter; later spans have the new time.
#[test]
fn a_clock_that_is_set_changes_no_duration() {
    const HOUR_NS: u64 = 3_600_000_000_000;
    let hand = Hand::default();
    let times_of = OtelTimes::over(hand.clone());
    let (otel, exporter, _provider) = exported(&times_of);
    subscriber::with_default(registry().with(times_of.layer(otel)), || {
        info_span!("first").in_scope(|| {
            hand.set_unix_back_ns(HOUR_NS);
            hand.advance_ns(1_000_000_000);
            info!("told");
        });
        info_span!("second").in_scope(|| ());
    });
    let first = times(&span(&exporter, "first"));
    assert_eq!(first, (at(0), vec![("told".to_owned(), at(1_000_000_000))], at(1_000_000_000)));
    let second = at(1_000_000_000) - Duration::from_nanos(HOUR_NS);
    assert_eq!(times(&span(&exporter, "second")), (second, Vec::new(), second));
}

/// Each span has its own times, whatever other threads do meanwhile.
#[test]
fn threads_keep_their_times_apart() {
    const SPANS: usize = 500;
    let closed = Closed::default();
    let times_of = OtelTimes::new();
    let (otel, exporter, _provider) = exported(&times_of);
    let timing = SpanTimingLayer::new().with_sink(closed.into_sink());
    let dispatch = Dispatch::new(registry().with(timing).with(times_of.layer(otel)));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                dispatcher::with_default(&dispatch, || {
                    for _ in 0..SPANS {
                        info_span!("work").in_scope(|| info!("told"));
                    }
                });
            });
        }
    });
    let spans = exporter.get_finished_spans().unwrap();
    assert_eq!(spans.len(), 4 * SPANS);
    for span in spans {
        let (start, events, end) = times(&span);
        assert!(events.len() == 1 && start <= events[0].1 && events[0].1 <= end, "{span:?}");
    }
}
