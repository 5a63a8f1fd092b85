//! The CPU times of threads as counters of a trace.
#![allow(clippy::cast_precision_loss, reason = "2^53 ns are 104 days")]

use std::fs;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tempfile::tempdir;
use tickline_tracing::SpanTimingLayer;
use tickline_tracing::trace_file::{Flushed, Flusher, TraceFile, TraceFileBuilder};
use tracing::info_span;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry;

use crate::common::spawn;
use crate::perfetto_view::{Unit, View};

/// The values of a thread: time and CPU time, ns.
type Values = Vec<(u64, f64)>;

/// The CPU time of the calling thread, ns.
fn own_cpu_ns() -> f64 {
    let time = time_of(libc::CLOCK_THREAD_CPUTIME_ID);
    time.as_nanos() as f64
}

fn time_of(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a live structure.
    assert_eq!(unsafe { libc::clock_gettime(clock, &raw mut time) }, 0);
    Duration::new(
        time.tv_sec.try_into().unwrap(),
        time.tv_nsec.try_into().unwrap(),
    )
}

/// Executes instructions until the thread has used `by` more CPU time.
fn use_cpu(by: Duration) {
    let until_ns = own_cpu_ns() + by.as_nanos() as f64;
    while own_cpu_ns() < until_ns {}
}

fn flush(flusher: &Flusher) {
    assert_eq!(flusher.flush(Duration::from_secs(60)), Flushed::Written);
}

/// Runs `run` with a trace, and returns the file's bytes.
fn bytes_of(builder: TraceFileBuilder, file: &str, run: impl FnOnce(&Flusher)) -> Vec<u8> {
    let folder = tempdir().unwrap();
    let path = folder.path().join(file);
    // Only `run` flushes.
    let builder = builder.flush_every(Duration::MAX);
    let (trace, guard) = builder.create(&path).unwrap();
    let layer = SpanTimingLayer::new().with_sink(trace);
    tracing::subscriber::with_default(registry().with(layer), || run(&guard.flusher()));
    guard.finish().unwrap();
    fs::read(path).unwrap()
}

fn view_of(builder: TraceFileBuilder, run: impl FnOnce(&Flusher)) -> View {
    View::of(&bytes_of(builder, "trace.pftrace", run))
}

/// The values on the track below that of the thread with this name.
fn values(view: &View, thread: &str) -> Values {
    let below = |track: &u64| view.path(*track)[..2] == ["CPU time", thread];
    let of_thread = view.counters.iter().filter(|(track, ..)| below(track));
    of_thread.map(|(_, ns, value)| (*ns, *value)).collect()
}

/// Threads called "busy" and "idle" record a span. Then "busy" uses 20 ms of CPU time and flushes,
/// five times. Also returns the CPU times that "busy" has read before and after each flush.
fn busy_and_idle(flusher: &Flusher) -> Vec<[f64; 2]> {
    let (end, ended) = mpsc::channel::<()>();
    let (begin, begun) = mpsc::channel();
    thread::scope(|scope| {
        spawn(scope, "idle", move || {
            info_span!("span").in_scope(|| ());
            begin.send(()).unwrap();
            ended.recv().unwrap_err();
        });
        begun.recv().unwrap();
        let busy = spawn(scope, "busy", || {
            info_span!("span").in_scope(|| ());
            let flushes = (0..5).map(|_| {
                use_cpu(Duration::from_millis(20));
                let before = own_cpu_ns();
                flush(flusher);
                [before, own_cpu_ns()]
            });
            flushes.collect()
        });
        let read = busy.join().unwrap();
        drop(end);
        read
    })
}

#[test]
fn each_value_is_the_threads_cpu_time_at_the_flush() {
    let mut read = Vec::new();
    let view = view_of(TraceFile::builder().with_cpu_time(), |flusher| {
        read = busy_and_idle(flusher);
    });
    let busy = values(&view, "busy");
    assert!(busy.len() >= 4, "{busy:?}");
    for (_, value) in &busy {
        let is_at_flush = |[before, after]: &[f64; 2]| (before..=after).contains(&value);
        assert!(read.iter().any(is_at_flush), "{value} {read:?}");
    }
    assert!(busy.is_sorted_by(|first, second| first.0 < second.0 && first.1 < second.1));
}

#[test]
fn a_busy_threads_cpu_time_grows_no_faster_than_time() {
    let view = view_of(TraceFile::builder().with_cpu_time(), |flusher| {
        busy_and_idle(flusher);
    });
    let busy = values(&view, "busy");
    let [first, .., last] = &busy[..] else {
        panic!("{busy:?}")
    };
    // Each end is exact to within 50 us.
    assert!(
        last.1 - first.1 <= (last.0 - first.0) as f64 * 1.01 + 1e5,
        "{busy:?}"
    );
}

#[test]
fn an_idle_threads_cpu_time_hardly_grows() {
    let view = view_of(TraceFile::builder().with_cpu_time(), |flusher| {
        busy_and_idle(flusher);
    });
    let growth = |values: &Values| values.last().unwrap().1 - values[0].1;
    let (busy, idle) = (values(&view, "busy"), values(&view, "idle"));
    assert!(growth(&idle) * 10.0 < growth(&busy), "{idle:?} {busy:?}");
}

#[test]
fn the_counter_is_in_nanoseconds_below_the_thread() {
    let view = view_of(TraceFile::builder().with_cpu_time(), |flusher| {
        busy_and_idle(flusher);
    });
    let counters: Vec<_> = view
        .tracks
        .iter()
        .filter(|(_, track)| track.is_counter)
        .collect();
    assert_eq!(counters.len(), 2, "{counters:?}");
    for (uuid, track) in counters {
        assert_eq!(track.unit, Some(Unit::TimeNs));
        let thread = &view.tracks[&track.parent.unwrap()];
        assert!(thread.tid > Some(0), "{:?}", view.path(*uuid));
    }
}

/// Afterwards its number may belong to another thread.
#[test]
fn a_thread_that_has_ended_gets_no_value() {
    let mut end_ns = 0;
    let view = view_of(TraceFile::builder().with_cpu_time(), |flusher| {
        thread::scope(|scope| {
            let thread = spawn(scope, "ends", || {
                info_span!("span").in_scope(|| ());
                (0..3).for_each(|_| flush(flusher));
            });
            thread.join().unwrap();
        });
        end_ns = tickline::now_ordered_ns();
        let others = (0..200).map(|_| thread::spawn(|| use_cpu(Duration::from_micros(100))));
        others.for_each(|other| other.join().unwrap());
        flush(flusher);
    });
    let values = values(&view, "ends");
    assert!(!values.is_empty());
    assert!(values.iter().all(|(ns, _)| *ns <= end_ns), "{values:?}");
}

#[test]
fn without_the_setting_there_is_no_counter() {
    let view = view_of(TraceFile::builder(), |flusher| {
        busy_and_idle(flusher);
    });
    assert_eq!(view.counters, []);
}

#[test]
fn json_has_counters_by_thread() {
    let bytes = bytes_of(
        TraceFile::builder().with_cpu_time(),
        "trace.json",
        |flusher| {
            busy_and_idle(flusher);
        },
    );
    let events: Vec<serde_json::Value> = serde_json::from_slice(&bytes).unwrap();
    let with = |key: &str, value: &str| {
        let events = events.iter().filter(|event| event[key] == value);
        events.collect::<Vec<_>>()
    };
    let names = with("name", "thread_name");
    let busy = names.iter().find(|event| event["args"]["name"] == "busy");
    let busy = &busy.unwrap()["tid"];
    let counters = with("ph", "C");
    let of_busy: Vec<_> = counters
        .iter()
        .filter(|event| event["tid"] == *busy)
        .collect();
    assert!(of_busy.len() >= 4 && counters.len() > of_busy.len());
    for event in &of_busy {
        assert_eq!(
            (&event["name"], &event["id"]),
            (&"CPU time".into(), &busy.to_string().into())
        );
    }
    let ns = |event: &serde_json::Value| event["args"]["ns"].as_u64().unwrap();
    assert!(of_busy.is_sorted_by(|first, second| ns(first) < ns(second)));
}
