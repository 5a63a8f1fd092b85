//! The times of spans that tracing-opentelemetry exports.
//!
//! The mock clock starts at the beginning of 2026, so the tests would notice a time by
//! `SystemTime::now`.

use std::panic::catch_unwind;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fmt, thread};

use crate::common::{Closed, MockHand, UNIX_START_NS, spawn};
use opentelemetry::trace::{
    Link, Span as _, SpanKind, Status, TraceContextExt, TraceId, TraceState, Tracer, TracerProvider,
};
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_sdk::trace::{
    InMemorySpanExporter, SamplingDecision, SamplingResult, SdkTracer, SdkTracerProvider,
    ShouldSample, SpanData,
};
use tickline::UnixTime;
use tickline_tracing::SpanTimingLayer;
use tickline_tracing::otel::{self, TimedTracer};
use tracing::{debug_span, info, info_span, subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry;

fn at(ns: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(UNIX_START_NS + ns)
}

/// The exported spans of `run`. With `closed`, the subscriber also has a timing layer, which adds
/// its times there.
fn exported(
    clock: &MockHand,
    closed: Option<&Closed>,
    is_activated: bool,
    run: impl FnOnce(&TimedTracer<SdkTracer>),
) -> Vec<SpanData> {
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(exporter.clone())
        .build();
    let tracer = otel::tracer(provider.tracer("test"));
    let layer = tracing_opentelemetry::layer().with_tracer(tracer.clone());
    let layer =
        otel::layer(layer.with_context_activation(is_activated)).with_filter(LevelFilter::INFO);
    let timing = |closed: &Closed| SpanTimingLayer::new().with_sink(closed.sink());
    let _active = clock.0.activate();
    subscriber::with_default(registry().with(closed.map(timing)).with(layer), || {
        run(&tracer)
    });
    exporter.get_finished_spans().unwrap()
}

fn span<'a>(spans: &'a [SpanData], name: &str) -> &'a SpanData {
    let named: Vec<_> = spans.iter().filter(|span| span.name == name).collect();
    assert_eq!(named.len(), 1, "spans called {name}");
    named[0]
}

/// Asserts a span's start, its events and its end.
#[track_caller]
fn check(span: &SpanData, start_ns: u64, events: &[(&str, u64)], end_ns: u64) {
    assert_eq!(
        (span.start_time, span.end_time),
        (at(start_ns), at(end_ns)),
        "{span:?}"
    );
    let found: Vec<_> = span
        .events
        .iter()
        .map(|event| (&*event.name, event.timestamp))
        .collect();
    assert_eq!(
        found,
        events
            .iter()
            .map(|(name, ns)| (*name, at(*ns)))
            .collect::<Vec<_>>()
    );
}

fn number(span: &SpanData, key: &str) -> u128 {
    let attribute = span
        .attributes
        .iter()
        .find(|attribute| attribute.key.as_str() == key)
        .unwrap();
    let Value::I64(number) = attribute.value else {
        panic!("{attribute:?}")
    };
    number.try_into().unwrap()
}

/// The exported spans `outer` and `inner`, by a run that sets the clock by hand, and their times in
/// the timing layer.
fn outer_and_inner() -> ([SpanData; 2], Closed) {
    let (hand, closed) = (MockHand::default(), Closed::default());
    let spans = exported(&hand, Some(&closed), true, |_| {
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
        // The outer span ends later than its last exit.
        hand.set_ns(5_000);
    });
    let spans = ["outer", "inner"].map(|name| span(&spans, name).clone());
    (spans, closed)
}

#[test]
fn start_events_and_end_of_an_exported_span_have_ticklines_times() {
    let ([outer, inner], _) = outer_and_inner();
    check(&outer, 1_000, &[("first", 1_200)], 1_900);
    check(&inner, 1_300, &[("second", 1_450)], 1_500);
}

#[test]
fn an_exported_span_has_its_parent() {
    let ([outer, inner], _) = outer_and_inner();
    assert_eq!(inner.parent_span_id, outer.span_context.span_id());
}

#[test]
fn an_exported_span_starts_when_the_timing_layer_says() {
    let (spans, closed) = outer_and_inner();
    for exported in spans {
        let own = closed.one(&exported.name);
        assert_eq!(exported.start_time, SystemTime::from(own.created()));
    }
}

#[test]
fn busy_and_idle_times_of_an_exported_span_are_those_of_the_timing_layer() {
    let (spans, closed) = outer_and_inner();
    for exported in spans {
        let own = closed.one(&exported.name);
        assert_eq!(
            ["busy_ns", "idle_ns"].map(|key| number(&exported, key)),
            [own.busy().as_nanos(), own.idle().as_nanos()]
        );
    }
}

/// Also if the span ends later than its last exit, with which it ends in OpenTelemetry.
#[test]
fn busy_and_idle_times_of_an_exported_span_last_from_its_creation_to_its_close() {
    let ([outer, _], _) = outer_and_inner();
    assert_eq!(
        ["busy_ns", "idle_ns"].map(|key| number(&outer, key)),
        [700, 3_300]
    );
}

#[test]
fn an_exported_span_keeps_its_own_attributes() {
    let ([outer, _], _) = outer_and_inner();
    assert_eq!(number(&outer, "user"), 7);
}

#[test]
fn the_attributes_that_pass_times_to_the_tracer_are_not_exported() {
    let (spans, _) = outer_and_inner();
    for exported in spans {
        let mut attributes = exported.attributes.iter();
        assert!(
            attributes.all(|attribute| !attribute.key.as_str().starts_with("tickline")),
            "{exported:?}"
        );
    }
}

/// OpenTelemetry starts the parent late. Events that bypass `tracing` keep their times.
#[test]
fn a_span_that_is_started_late_has_ticklines_times() {
    for is_activated in [true, false] {
        let hand = MockHand::default();
        let spans = exported(&hand, None, is_activated, |_| {
            hand.set_ns(10);
            let parent = info_span!("parent");
            parent.add_event_with_timestamp("by hand", at(3), Vec::new());
            hand.set_ns(40);
            // Starts the parent.
            let child = info_span!(parent: &parent, "child");
            hand.set_ns(50);
            child.in_scope(|| ());
            hand.set_ns(60);
            parent.add_event_with_timestamp("by hand, late", at(4), Vec::new());
            info!(parent: &parent, "late");
            drop(child);
            hand.set_ns(70);
        });
        let events = [("by hand", 3), ("by hand, late", 4), ("late", 60)];
        // The parent was never entered, so it ends when it is closed.
        check(span(&spans, "parent"), 10, &events, 70);
        check(span(&spans, "child"), 40, &[], 50);
    }
}

/// OpenTelemetry keeps such an event until it starts the span, and then passes its time on.
#[test]
fn an_event_before_the_start_of_its_span_keeps_the_systems_time() {
    let (hand, before) = (MockHand::default(), SystemTime::now());
    let spans = exported(&hand, None, false, |_| {
        let parent = info_span!("parent");
        info!(parent: &parent, "early");
    });
    let parent = span(&spans, "parent");
    let [early] = &parent.events.events[..] else {
        panic!("{parent:?}")
    };
    assert!((before..=SystemTime::now()).contains(&early.timestamp));
    assert_eq!(parent.start_time, at(0));
}

/// Each thread has calls of its own.
#[test]
fn threads_keep_the_times_of_their_spans_apart() {
    const SPANS: usize = 200;
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(exporter.clone())
        .build();
    let tracer = otel::tracer(provider.tracer("test"));
    let layer = otel::layer(tracing_opentelemetry::layer().with_tracer(tracer));
    subscriber::with_default(registry().with(layer), || {
        thread::scope(|scope| {
            for _ in 0..4 {
                spawn(scope, "", || {
                    (0..SPANS).for_each(|_| info_span!("work").in_scope(|| info!("told")));
                });
            }
        });
    });
    let spans = exporter.get_finished_spans().unwrap();
    assert_eq!(spans.len(), 4 * SPANS);
    for span in spans {
        let [event] = &span.events.events[..] else {
            panic!("{span:?}")
        };
        assert!(
            span.start_time <= event.timestamp && event.timestamp <= span.end_time,
            "{span:?}"
        );
    }
}

/// A sampler that keeps the names of the attributes that it sees.
#[derive(Clone, Debug, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl ShouldSample for Seen {
    fn should_sample(
        &self,
        _: Option<&Context>,
        _: TraceId,
        _: &str,
        _: &SpanKind,
        attributes: &[KeyValue],
        _: &[Link],
    ) -> SamplingResult {
        let names = attributes.iter().map(|attribute| attribute.key.to_string());
        self.0.lock().unwrap().extend(names);
        SamplingResult {
            decision: SamplingDecision::RecordAndSample,
            attributes: Vec::new(),
            trace_state: TraceState::default(),
        }
    }
}

/// The attributes that pass times to the tracer are its own business.
#[test]
fn a_sampler_sees_only_the_attributes_of_the_program() {
    let seen = Seen::default();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(InMemorySpanExporter::default())
        .with_sampler(seen.clone())
        .build();
    let tracer = otel::tracer(provider.tracer("test"));
    let layer = tracing_opentelemetry::layer()
        .with_tracer(tracer)
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_level(false);
    subscriber::with_default(registry().with(otel::layer(layer)), || {
        info_span!("work", user = 7).in_scope(|| ());
    });
    assert_eq!(*seen.0.lock().unwrap(), ["user"]);
}

/// Contexts, parents, spans of the tracer itself and filters still work.
#[test]
fn the_wrapped_layer_keeps_contexts_parents_and_filters() {
    let (hand, before) = (MockHand::default(), SystemTime::now());
    let spans = exported(&hand, None, true, |tracer| {
        let remote = Context::new().with_span(tracer.start("remote"));
        let local = info_span!("local");
        local.set_parent(remote.clone()).ok();
        assert_eq!(
            local.context().span().span_context().trace_id(),
            remote.span().span_context().trace_id()
        );
        local.in_scope(|| {
            hand.advance_ns(5);
            debug_span!("hidden").in_scope(|| hand.advance_ns(5));
        });
    });
    let [remote, local] = ["remote", "local"].map(|name| span(&spans, name));
    assert_eq!(
        (spans.len(), local.parent_span_id),
        (2, remote.span_context.span_id())
    );
    check(local, 0, &[], 10);
    // The tracer's own spans have the SDK's times.
    assert!(remote.start_time >= before && remote.end_time >= remote.start_time);
}

/// A value whose `Debug` returns an error, by which the OpenTelemetry layer panics.
struct ReturnsError;

impl fmt::Debug for ReturnsError {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Err(fmt::Error)
    }
}

/// Symptom: the span and the event got the time of the span whose creation had panicked.
#[test]
fn calls_after_a_panic_of_the_wrapped_layer_keep_their_times() {
    let spans = exported(&MockHand::default(), None, true, |tracer| {
        let create = || drop(info_span!("x", at = ?ReturnsError));
        catch_unwind(create).unwrap_err();
        let mut own = tracer.start("own");
        own.add_event_with_timestamp("by hand", at(3), Vec::new());
        own.end();
    });
    check_event(span(&spans, "own"), "by hand", at(3), &[]);
}

/// A set clock makes an open span neither longer nor shorter. Later spans have the new time.
#[test]
fn a_clock_that_is_set_changes_no_duration() {
    let hand = MockHand::default();
    let spans = exported(&hand, None, true, |_| {
        info_span!("first").in_scope(|| {
            hand.0
                .set_unix_time(UnixTime::from_nanos(UNIX_START_NS - 3_000_000_000));
            hand.advance_ns(5_000_000_000);
            info!("told");
        });
        info_span!("second").in_scope(|| ());
    });
    check(
        span(&spans, "first"),
        0,
        &[("told", 5_000_000_000)],
        5_000_000_000,
    );
    check(span(&spans, "second"), 2_000_000_000, &[], 2_000_000_000);
}

/// The one span that a program makes by the tracer itself, and changes by `change`.
fn changed_by(change: impl FnOnce(&mut <TimedTracer<SdkTracer> as Tracer>::Span)) -> SpanData {
    let spans = exported(&MockHand::default(), None, true, |tracer| {
        let mut changed = tracer.start("work");
        change(&mut changed);
        changed.end();
    });
    let [changed] = &spans[..] else {
        panic!("{spans:?}")
    };
    changed.clone()
}

#[test]
fn a_span_passes_its_status_on() {
    let status = Status::error("no room");
    assert_eq!(
        changed_by(|span| span.set_status(status.clone())).status,
        status
    );
}

#[test]
fn a_span_passes_its_new_name_on() {
    assert_eq!(
        changed_by(|span| span.update_name("renamed")).name,
        "renamed"
    );
}

#[test]
fn a_span_passes_its_links_on() {
    let linked = changed_by(|span| {
        let own = span.span_context().clone();
        span.add_link(own, vec![KeyValue::new("why", "cause")]);
    });
    let [link] = &linked.links.links[..] else {
        panic!("{linked:?}")
    };
    assert_eq!(link.span_context, linked.span_context);
    assert_eq!(link.attributes, [KeyValue::new("why", "cause")]);
}

#[test]
fn a_span_passes_its_attributes_on() {
    let user = KeyValue::new("user", 7);
    let changed = changed_by(|span| span.set_attribute(user.clone()));
    assert_eq!(changed.attributes, [user]);
}

#[test]
fn a_span_passes_its_events_and_their_attributes_on() {
    let attributes = [KeyValue::new("user", 7)];
    let changed = changed_by(|span| {
        span.add_event_with_timestamp("told", at(3), attributes.to_vec());
    });
    check_event(&changed, "told", at(3), &attributes);
}

#[track_caller]
fn check_event(span: &SpanData, name: &str, at: SystemTime, attributes: &[KeyValue]) {
    let [event] = &span.events.events[..] else {
        panic!("{span:?}")
    };
    assert_eq!((&*event.name, event.timestamp), (name, at));
    assert_eq!(event.attributes, attributes);
}

#[test]
fn a_span_is_recording_until_it_ends() {
    let mut is_recording = Vec::new();
    changed_by(|span| {
        is_recording.push(span.is_recording());
        span.end();
        is_recording.push(span.is_recording());
    });
    assert_eq!(is_recording, [true, false]);
}
