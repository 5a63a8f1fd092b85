//! Where a trace shows a panic. The panic hook is the whole process's, so these tests have a
//! process of their own, and run one after another.
#![expect(clippy::unwrap_used, reason = "a test fails by it")]

#[path = "perfetto/mod.rs"]
mod perfetto_view;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fs, io, thread};

use perfetto_view::View;
use serde_json::Value;
use tickline_tracing::SpanTimingLayer;
use tickline_tracing::flight::FlightRecorder;
use tickline_tracing::trace_file::{TraceFile, TraceFormat, Tracks};
use tracing::subscriber::with_default;
use tracing::{Event, Level, Subscriber, debug_span, info, info_span};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::{registry, reload};

/// While one test installs its hook, a panic of another one would find none.
fn wait_for_other_tests() -> MutexGuard<'static, ()> {
    static TEST: Mutex<()> = Mutex::new(());
    TEST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The track of the panic with this payload, and that of the only span `request`.
fn tracks<'a>(events: &'a [Value], payload: &str) -> [&'a Value; 2] {
    let panic = |event: &&Value| event["args"]["panic.payload"] == payload;
    let request = |event: &&Value| event["name"] == "request" && event["ph"] == "b";
    let panic = events.iter().find(panic).unwrap();
    let request = events.iter().find(request).unwrap();
    [panic, request].map(|event| &event["id2"]["local"])
}

/// A recorder of requests that records panics.
fn recorder_of_panics(folder: &tempfile::TempDir) -> FlightRecorder {
    let recorder = FlightRecorder::builder()
        .tracks(Tracks::Requests)
        .build()
        .unwrap();
    recorder
        .write_on_panic(folder.path().join("panic.json"))
        .unwrap();
    recorder
}

fn written(recorder: &FlightRecorder) -> Vec<Value> {
    let mut bytes = Vec::new();
    recorder.write_to(&mut bytes).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

fn assert_panic_is_in_request(events: &[Value], payload: &str) {
    let [panic, request] = tracks(events, payload);
    assert!(request.is_string());
    assert_eq!(panic, request);
}

/// Symptom: the panic was on the thread's track, so who looked at the failed request did not see
/// it.
#[test]
fn a_panic_is_on_the_track_of_its_request() {
    let _alone = wait_for_other_tests();
    let folder = tempfile::tempdir().unwrap();
    let recorder = recorder_of_panics(&folder);
    let layer = SpanTimingLayer::new().with_sink(recorder.clone());
    with_default(registry().with(layer.for_sinks_only()), || {
        let _request = info_span!("request").entered();
        catch_unwind(|| panic!("in a request")).unwrap_err();
    });
    assert_panic_is_in_request(&written(&recorder), "in a request");
}

#[test]
fn a_panic_in_perfettos_format_is_on_the_track_of_its_request() {
    let _alone = wait_for_other_tests();
    let folder = tempfile::tempdir().unwrap();
    let builder = FlightRecorder::builder().tracks(Tracks::Requests);
    let recorder = builder.format(TraceFormat::Perfetto).build().unwrap();
    recorder
        .write_on_panic(folder.path().join("panic.pftrace"))
        .unwrap();
    let layer = SpanTimingLayer::new().with_sink(recorder.clone());
    with_default(registry().with(layer), || {
        let _request = info_span!("request").entered();
        catch_unwind(|| panic!("in a request")).unwrap_err();
    });
    let mut bytes = Vec::new();
    recorder.write_to(&mut bytes).unwrap();
    let view = View::of(&bytes);
    let panic = view.instants.iter().find(|event| event.name == "panic");
    assert_eq!(view.slices[0].name, "request");
    assert_eq!(panic.map(|panic| panic.track), Some(view.slices[0].track));
}

#[test]
fn a_panic_outside_of_requests_is_on_no_track_of_a_request() {
    let _alone = wait_for_other_tests();
    let folder = tempfile::tempdir().unwrap();
    let recorder = recorder_of_panics(&folder);
    let layer = SpanTimingLayer::new().with_sink(recorder.clone());
    with_default(registry().with(layer), || {
        let _request = info_span!("request");
        catch_unwind(|| panic!("beside a request")).unwrap_err();
    });
    let events = written(&recorder);
    assert_eq!(tracks(&events, "beside a request")[0], &Value::Null);
}

#[test]
fn a_panic_in_a_span_that_a_filter_hides_is_in_the_span_around_it() {
    let _alone = wait_for_other_tests();
    let folder = tempfile::tempdir().unwrap();
    let recorder = recorder_of_panics(&folder);
    let layer = SpanTimingLayer::new().with_sink(recorder.clone());
    let shown = layer.with_filter(LevelFilter::INFO);
    let subscriber = registry().with(shown).with(SpanTimingLayer::new());
    with_default(subscriber, || {
        let _request = info_span!("request").entered();
        let _hidden = debug_span!("hidden").entered();
        catch_unwind(|| panic!("in a hidden span")).unwrap_err();
    });
    assert_panic_is_in_request(&written(&recorder), "in a hidden span");
}

/// The subscriber does not tell a layer that comes by a reload that it is part of it.
#[test]
fn a_panic_is_in_its_request_although_a_reload_has_added_the_layer() {
    let _alone = wait_for_other_tests();
    let folder = tempfile::tempdir().unwrap();
    let recorder = recorder_of_panics(&folder);
    let (layer, handle) = reload::Layer::new(SpanTimingLayer::new());
    with_default(registry().with(layer), || {
        let layer = SpanTimingLayer::new().with_sink(recorder.clone());
        handle.reload(layer).unwrap();
        let _request = info_span!("request").entered();
        catch_unwind(|| panic!("after a reload")).unwrap_err();
    });
    assert_panic_is_in_request(&written(&recorder), "after a reload");
}

/// Symptom: if the layer did not know its subscriber, it took the span for its own span of this id,
/// the request of another user.
#[test]
fn a_panic_in_a_span_of_another_subscriber_is_in_no_request() {
    let _alone = wait_for_other_tests();
    let folder = tempfile::tempdir().unwrap();
    let recorder = recorder_of_panics(&folder);
    let (layer, handle) = reload::Layer::new(SpanTimingLayer::new());
    let request = with_default(registry().with(layer), || {
        let layer = SpanTimingLayer::new().with_sink(recorder.clone());
        handle.reload(layer).unwrap();
        info_span!("request")
    });
    with_default(registry(), || {
        let other = info_span!("other").entered();
        assert_eq!(other.id(), request.id());
        catch_unwind(|| panic!("in another subscriber")).unwrap_err();
    });
    let events = written(&recorder);
    assert_eq!(tracks(&events, "in another subscriber")[0], &Value::Null);
}

/// A layer that panics at each event of the level INFO.
struct Panics;

impl<S: Subscriber> Layer<S> for Panics {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        assert!(*event.metadata().level() != Level::INFO, "in a layer");
    }
}

/// In a call to its subscriber, a thread has no default subscriber.
#[test]
fn a_panic_of_another_layer_is_in_the_request_that_the_layer_works_for() {
    let _alone = wait_for_other_tests();
    let folder = tempfile::tempdir().unwrap();
    let recorder = recorder_of_panics(&folder);
    let layer = SpanTimingLayer::new().with_sink(recorder.clone());
    with_default(registry().with(layer).with(Panics), || {
        let _request = info_span!("request").entered();
        catch_unwind(|| info!("an event")).unwrap_err();
    });
    assert_panic_is_in_request(&written(&recorder), "in a layer");
}

/// Symptom: the trace of a server that caught the panic of a request ended the request as all
/// others, and did not have the panic.
#[test]
fn a_trace_file_that_is_flushed_at_a_panic_has_the_panic_in_its_request() {
    let _alone = wait_for_other_tests();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let builder = TraceFile::builder()
        .tracks(Tracks::Requests)
        .flush_on_panic();
    let (trace, guard) = builder.create(&path).unwrap();
    let layer = SpanTimingLayer::new().with_sink(trace);
    with_default(registry().with(layer), || {
        let _request = info_span!("request").entered();
        catch_unwind(|| panic!("in a trace file")).unwrap_err();
    });
    guard.finish().unwrap();
    let events: Vec<Value> = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    assert_panic_is_in_request(&events, "in a trace file");
}

/// An output that says when a write begins, and lets it go on once the sender of `may_go_on` is
/// gone.
struct Held {
    begun: Sender<()>,
    may_go_on: Receiver<()>,
}

impl io::Write for Held {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The test awaits only the first one.
        _ = self.begun.send(());
        _ = self.may_go_on.recv();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A value whose drop sends an event.
struct SendsAtUnwinding;

impl Drop for SendsAtUnwinding {
    fn drop(&mut self) {
        info!(text = "x".repeat(15_000));
    }
}

/// Symptom: a panic had no message and no end while the writer was stuck, because the panic's event
/// waited for room. Later only this event had a limit: what the unwinding recorded waited.
#[test]
fn a_panic_does_not_wait_until_a_full_ring_has_room() {
    let _alone = wait_for_other_tests();
    let (unwound, is_unwound) = mpsc::channel();
    let ((begun, has_begun), (go_on, may_go_on)) = (mpsc::channel(), mpsc::channel::<()>());
    let builder = TraceFile::builder().with_fields().bytes_per_thread(1);
    let builder = builder.wait_when_full().flush_on_panic();
    let (trace, guard) = builder.build(Held { begun, may_go_on }).unwrap();
    let subscriber = registry().with(SpanTimingLayer::new().with_sink(trace));
    let panics = thread::spawn(move || {
        let panics = || {
            info!("for the first write");
            has_begun.recv_timeout(Duration::from_secs(30)).unwrap();
            // Together with the panic they are larger than the half of the smallest ring, which has
            // 128 KiB; without it they are smaller.
            for _ in 0..18 {
                info!(text = "x".repeat(3_000));
            }
            let _at_unwinding = SendsAtUnwinding;
            panic!("{}", "x".repeat(15_000));
        };
        with_default(subscriber, || {
            catch_unwind(AssertUnwindSafe(panics)).unwrap_err()
        });
        unwound.send(()).unwrap();
    });
    let unwound = is_unwound.recv_timeout(Duration::from_secs(30));
    drop(go_on);
    panics.join().unwrap();
    unwound.expect("the thread unwinds while the writer is stuck");
    assert_eq!(guard.finish().unwrap().dropped_records, 2);
}

/// Symptom: nothing said that the trace had no span, if the program had panicked.
#[test]
fn a_trace_of_a_panic_alone_says_why_it_has_no_span() {
    let _alone = wait_for_other_tests();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let (_trace, guard) = TraceFile::builder().flush_on_panic().create(&path).unwrap();
    catch_unwind(|| panic!("without a layer")).unwrap_err();
    guard.finish().unwrap();
    let events: Vec<Value> = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let is_mark = |event: &Value| event["name"].as_str().unwrap().starts_with("0 spans: ");
    assert!(events.iter().any(is_mark), "{events:?}");
}

/// A value whose drop panics, and catches the panic.
struct PanicsAtEnd;

impl Drop for PanicsAtEnd {
    fn drop(&mut self) {
        catch_unwind(|| panic!("at the end of a thread")).unwrap_err();
    }
}

/// Symptom: with thread_local 1.1.9, which `Cargo.toml` excludes, the hook's question for the
/// thread's span panicked, which ended the process.
#[test]
fn a_panic_in_the_destructor_of_a_thread_local_is_caught() {
    thread_local! {
        static AT_END: PanicsAtEnd = const { PanicsAtEnd };
    }
    let _alone = wait_for_other_tests();
    let folder = tempfile::tempdir().unwrap();
    let recorder = recorder_of_panics(&folder);
    let subscriber = registry().with(SpanTimingLayer::new().with_sink(recorder));
    let work = || {
        // The last that is made is dropped first.
        AT_END.with(|_| ());
        info_span!("request").in_scope(|| ());
    };
    with_default(subscriber, || {
        let dispatch = tracing::dispatcher::get_default(Clone::clone);
        let run = move || tracing::dispatcher::with_default(&dispatch, work);
        thread::spawn(run).join().unwrap();
    });
}
