//! Close events and callbacks.

use std::fs;
use std::sync::mpsc;

use crate::common::{MockHand, run_timed};
use tempfile::NamedTempFile;
use tickline_tracing::{Callback, CloseEvents, SpanTimingLayer};
use tracing::{Subscriber, info_span, trace_span};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry;
use tracing_subscriber::registry::LookupSpan;

/// A layer of `fmt` that writes its lines to `file`.
fn lines<S: Subscriber + for<'a> LookupSpan<'a>>(file: &NamedTempFile) -> impl Layer<S> + use<S> {
    let layer = tracing_subscriber::fmt::layer()
        .without_time()
        .with_target(false)
        .with_ansi(false);
    layer.with_writer(file.reopen().unwrap())
}

#[test]
fn close_events_are_like_those_of_fmt() {
    let (hand, [all, few]) = (
        MockHand::default(),
        [(); 2].map(|()| NamedTempFile::new().unwrap()),
    );
    let timing = SpanTimingLayer::new().with_sink(CloseEvents::new());
    let _active = hand.0.activate();
    // The layers of `fmt` are on both sides of the timing layer, and one of them has a filter.
    let subscriber = registry()
        .with(lines(&all))
        .with(timing)
        .with(lines(&few).with_filter(LevelFilter::INFO));
    tracing::subscriber::with_default(subscriber, || {
        let span = info_span!("work");
        span.in_scope(|| {
            hand.advance_ns(1_500);
            trace_span!("detail").in_scope(|| hand.advance_ns(12));
        });
        hand.advance_ns(2_000_000);
    });
    let work = " INFO work: close time.busy=1.51\u{b5}s time.idle=2.00ms\n";
    let detail = "TRACE work:detail: close time.busy=12.0ns time.idle=0.00ns\n";
    assert_eq!(
        [all, few].map(|file| fs::read_to_string(file).unwrap()),
        [&[detail, work].concat(), work]
    );
}

/// The span's own subscriber gets the event, even if another one is the default where the span
/// is closed.
#[test]
fn a_close_event_goes_to_the_subscriber_of_its_span() {
    let [home, elsewhere] = [(); 2].map(|()| NamedTempFile::new().unwrap());
    let timing = SpanTimingLayer::new().with_sink(CloseEvents::new());
    let dispatch = tracing::Dispatch::new(registry().with(timing).with(lines(&home)));
    let span = tracing::dispatcher::with_default(&dispatch, || info_span!("work"));
    tracing::subscriber::with_default(registry().with(lines(&elsewhere)), || drop(span));
    assert_eq!(
        [home, elsewhere].map(|file| fs::read_to_string(file).unwrap().lines().count()),
        [1, 0]
    );
}

/// A callback gets the values that were recorded last. It gets no value for fields that it did not
/// choose, or that the span does not have.
#[test]
fn callbacks_see_the_fields_that_they_chose() {
    let (told, seen) = mpsc::channel();
    let callback = Callback::new(move |span| {
        let field = |name| span.field(name).map(str::to_owned);
        told.send([field("route"), field("status"), field("user")])
            .unwrap();
    });
    run_timed(callback.keep_fields(["route", "status"]), || {
        let span = info_span!("request", route = "/", status = 0, user = 7);
        span.record("status", 404);
        drop(span);
        drop(info_span!("other"));
    });
    let expected = [[Some("/"), Some("404"), None], [None; 3]];
    let expected = expected.map(|fields| fields.map(|text| text.map(str::to_owned)));
    assert_eq!(seen.iter().collect::<Vec<_>>(), expected);
}

#[test]
fn a_closed_span_in_a_log_has_its_metadata() {
    let (told, seen) = mpsc::channel();
    let callback = Callback::new(move |span| told.send(format!("{span:?}")).unwrap());
    run_timed(callback, || drop(info_span!("request")));
    let texts: Vec<String> = seen.iter().collect();
    assert!(texts[0].contains(r#"name: "request""#), "{texts:?}");
}

/// The names as a program reads them at run time.
pub(crate) fn of_a_configuration(text: &str) -> Vec<String> {
    text.split(',').map(str::to_owned).collect()
}

#[test]
fn a_callback_may_keep_fields_that_a_configuration_names() {
    let (told, seen) = mpsc::channel();
    let callback = Callback::new(move |span| {
        told.send(span.field("route").map(str::to_owned)).unwrap();
    });
    let callback = callback.keep_fields(of_a_configuration("route,status"));
    run_timed(callback, || drop(info_span!("request", route = "/")));
    assert_eq!(seen.recv().unwrap().as_deref(), Some("/"));
}
