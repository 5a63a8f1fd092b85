//! Trace files are whole, in order and balanced, also if the queue is too small or the program is
//! killed.
#![cfg(feature = "chrome")]
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod common;

use std::collections::HashMap;
use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use common::{Hand, Kept};
use serde_json::Value;
use tickline_tracing::SpanTimingLayer;
use tickline_tracing::chrome::Chrome;
use tickline_tracing::over::LayerOver;
use tracing::{debug_span, info_span};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry;

fn events(trace: &Kept) -> Vec<Value> {
    serde_json::from_slice(&trace.bytes()).unwrap()
}

/// A busy interval of a thread in a span, ns.
#[derive(Debug, PartialEq)]
struct Slice {
    name: String,
    thread: u64,
    start: u64,
    end: u64,
    args: Value,
}

fn ns(value: &Value) -> u64 {
    // The text has three decimals, so this is exact.
    let text = value.as_number().unwrap().to_string();
    let (whole, part) = text.split_once('.').unwrap_or((&text, "0"));
    whole.parse::<u64>().unwrap() * 1_000 + format!("{part:0<3}").parse::<u64>().unwrap()
}

fn slices(events: &[Value]) -> Vec<Slice> {
    events
        .iter()
        .filter(|event| event["ph"] == "X")
        .map(|event| Slice {
            name: event["name"].as_str().unwrap().to_owned(),
            thread: event["tid"].as_u64().unwrap(),
            start: ns(&event["ts"]),
            end: ns(&event["ts"]) + ns(&event["dur"]),
            args: event["args"].clone(),
        })
        .collect()
}

/// The rules of the format for the phases that are used, and busy intervals of one thread lie
/// within each other or do not overlap.
fn check_format(events: &[Value]) {
    let mut threads: HashMap<u64, Vec<(u64, u64)>> = HashMap::new();
    for event in events {
        assert!(event["name"].is_string() && event["pid"].is_u64() && event["tid"].is_u64(), "{event}");
        match event["ph"].as_str().unwrap() {
            "M" => assert!(event["args"]["name"].is_string(), "{event}"),
            "i" => assert!(event["ts"].is_number() && event["s"] == "p", "{event}"),
            "X" => assert!(event["ts"].is_number() && event["dur"].is_number(), "{event}"),
            other => panic!("phase {other}"),
        }
    }
    for slice in slices(events) {
        threads.entry(slice.thread).or_default().push((slice.start, slice.end));
    }
    for intervals in threads.values_mut() {
        intervals.sort_by_key(|(start, end)| (*start, u64::MAX - *end));
        let mut around: Vec<u64> = Vec::new();
        for (start, end) in intervals {
            while around.last().is_some_and(|outer| *outer <= *start) {
                around.pop();
            }
            assert!(
                around.last().is_none_or(|outer| *end <= *outer),
                "{start} to {end} ends outside {around:?}"
            );
            around.push(*end);
        }
    }
}

#[test]
fn busy_intervals_are_exact() {
    let (hand, kept) = (Hand::default(), Kept::default());
    hand.set_ns(5_000);
    let (chrome, guard) = Chrome::builder().with_fields().write_to(kept.clone()).unwrap();
    let layer = LayerOver::new(hand.clone()).with_sink(chrome);
    tracing::subscriber::with_default(registry().with(layer), || {
        let outer = info_span!("outer \"quoted\"", number = 7, text = "a\\b\n", flag = true, half = 0.5);
        outer.in_scope(|| {
            hand.advance_ns(1);
            debug_span!("inner").in_scope(|| hand.advance_ns(20));
            outer.in_scope(|| hand.advance_ns(300));
        });
        hand.advance_ns(4_000);
        outer.in_scope(|| hand.advance_ns(50_000));
    });
    let summary = guard.finish().unwrap();
    assert_eq!((summary.written, summary.dropped), (3, 0));
    let events = events(&kept);
    check_format(&events);
    let slices = slices(&events);
    let args = serde_json::json!({ "number": 7, "text": "a\\b\n", "flag": true, "half": 0.5 });
    let slice = |name: &str, start, end, args: &Value| Slice {
        name: name.to_owned(),
        thread: slices[0].thread,
        start,
        end,
        args: args.clone(),
    };
    assert_eq!(
        slices,
        [
            slice("inner", 5_001, 5_021, &Value::Null),
            slice("outer \"quoted\"", 5_000, 5_321, &args),
            slice("outer \"quoted\"", 9_321, 59_321, &args),
        ]
    );
}

#[test]
fn each_thread_has_its_name_and_its_busy_intervals() {
    let kept = Kept::default();
    let (chrome, guard) = Chrome::builder().write_to(kept.clone()).unwrap();
    let dispatch = tracing::Dispatch::new(registry().with(SpanTimingLayer::new().with_sink(chrome)));
    let shared = tracing::dispatcher::with_default(&dispatch, || info_span!("shared"));
    let workers: Vec<_> = ["one", "two"]
        .map(|name| {
            let (dispatch, shared) = (dispatch.clone(), shared.clone());
            let run = move || {
                tracing::dispatcher::with_default(&dispatch, || {
                    for _ in 0..500 {
                        shared.in_scope(|| info_span!("child").in_scope(|| ()));
                    }
                });
            };
            std::thread::Builder::new().name(name.to_owned()).spawn(run).unwrap()
        })
        .into();
    for worker in workers {
        worker.join().unwrap();
    }
    assert_eq!(guard.finish().unwrap().written, 2_000);
    let events = events(&kept);
    check_format(&events);
    let mut named: Vec<_> = events
        .iter()
        .filter(|event| event["name"] == "thread_name")
        .map(|event| (event["args"]["name"].as_str().unwrap().to_owned(), event["tid"].as_u64().unwrap()))
        .collect();
    named.sort();
    assert_eq!(named.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    for (name, thread) in named {
        let of_thread = slices(&events).iter().filter(|slice| slice.thread == thread).count();
        assert_eq!(of_thread, 1_000, "{name}");
    }
}

/// Output that stands still until a test lets it go on.
#[derive(Clone, Default)]
struct Stuck(Arc<(Mutex<bool>, Condvar)>, Kept);

impl Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut open = self.0.0.lock().unwrap();
        while !*open {
            open = self.0.1.wait(open).unwrap();
        }
        self.1.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Nobody waits for the writer, and missing events are counted, also in the file.
#[test]
fn a_full_queue_drops_and_counts() {
    let stuck = Stuck::default();
    let (chrome, guard) = Chrome::builder().capacity(10).write_to(stuck.clone()).unwrap();
    let layer = SpanTimingLayer::new().with_sink(chrome);
    tracing::subscriber::with_default(registry().with(layer), || {
        for _ in 0..1_000 {
            info_span!("work").in_scope(|| ());
        }
    });
    *stuck.0.0.lock().unwrap() = true;
    stuck.0.1.notify_all();
    let summary = guard.finish().unwrap();
    let events = events(&stuck.1);
    check_format(&events);
    // The thread's name takes one of the ten places. The writer is stopped before it takes
    // anything.
    assert_eq!((summary.written, summary.dropped), (9, 991));
    assert_eq!(slices(&events).len(), 9);
    let marked: u64 = events.iter().filter_map(|event| event["args"]["dropped"].as_u64()).sum();
    assert_eq!(marked, 991);
}

#[test]
fn spans_after_the_end_are_dropped() {
    let kept = Kept::default();
    let (chrome, guard) = Chrome::builder().write_to(kept.clone()).unwrap();
    let layer = SpanTimingLayer::new().with_sink(chrome);
    tracing::subscriber::with_default(registry().with(layer), || {
        info_span!("before").in_scope(|| ());
        drop(guard);
        info_span!("after").in_scope(|| ());
    });
    assert_eq!(slices(&events(&kept)).len(), 1);
}

struct Broken;

impl Write for Broken {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::Error::other("no space left"))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_error_of_writing_is_told() {
    let (chrome, guard) = Chrome::builder().write_to(Broken).unwrap();
    let layer = SpanTimingLayer::new().with_sink(chrome);
    tracing::subscriber::with_default(registry().with(layer), || info_span!("work").in_scope(|| ()));
    assert_eq!(guard.finish().unwrap_err().to_string(), "no space left");
}

/// 200,000 spans from 8 threads through a real file; 10 million of them with
/// `TICKLINE_TEST_SPANS=10000000`.
#[test]
fn a_file_from_eight_threads_is_balanced() {
    const THREADS: u64 = 8;
    let spans: u64 = env::var("TICKLINE_TEST_SPANS").map_or(200_000, |text| text.parse().unwrap());
    let path = scratch("threads");
    // Room for all of it, so that none may be missing.
    let room = usize::try_from(spans + THREADS).unwrap();
    let (chrome, guard) = Chrome::builder().capacity(room).create(&path).unwrap();
    let dispatch = tracing::Dispatch::new(registry().with(SpanTimingLayer::new().with_sink(chrome)));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                tracing::dispatcher::with_default(&dispatch, || {
                    for _ in 0..spans / THREADS / 2 {
                        info_span!("outer").in_scope(|| info_span!("inner").in_scope(|| ()));
                    }
                });
            });
        }
    });
    let summary = guard.finish().unwrap();
    // Parses the whole file without keeping it: ten million events as values would take
    // gigabytes.
    let file = BufReader::new(fs::File::open(&path).unwrap());
    serde_json::from_reader::<_, serde::de::IgnoredAny>(file).unwrap();
    let (mut intervals, mut names) = (0, 0);
    let mut kept = Vec::new();
    for line in BufReader::new(fs::File::open(&path).unwrap()).lines() {
        let line = line.unwrap();
        let Some(event) = line.trim().trim_matches([',', '[', ']', ' ']).strip_prefix('{') else { continue };
        let event: Value = serde_json::from_str(&format!("{{{event}")).unwrap();
        intervals += u64::from(event["ph"] == "X");
        names += u64::from(event["name"] == "thread_name");
        kept.push(event);
        // Checks the file in pieces: if the whole nests, each part does.
        if kept.len() == 100_000 {
            check_format(&kept);
            kept.clear();
        }
    }
    check_format(&kept);
    fs::remove_file(&path).unwrap();
    assert_eq!((intervals, names), (spans / THREADS / 2 * 2 * THREADS, THREADS));
    assert_eq!((summary.written, summary.dropped), (intervals, 0));
}

fn scratch(name: &str) -> PathBuf {
    env::temp_dir().join(format!("tickline-tracing-{name}-{}.json", std::process::id()))
}

const VICTIM: &str = "TICKLINE_TEST_VICTIM";

/// Not a test of its own: the program that the next one kills.
#[test]
fn victim() {
    let Some(path) = env::var_os(VICTIM) else { return };
    let (chrome, _guard) =
        Chrome::builder().flush_every(Duration::from_millis(1)).with_fields().create(path).unwrap();
    tracing::subscriber::set_global_default(registry().with(SpanTimingLayer::new().with_sink(chrome)))
        .unwrap();
    println!("ready");
    for number in 0_u64.. {
        let text = "x".repeat(usize::try_from(number % 300).unwrap());
        info_span!("work", number, text).in_scope(|| info_span!("more", number).in_scope(|| ()));
    }
}

/// SIGKILL at any moment leaves a file to which only the bracket is missing, which the format
/// allows.
#[test]
#[cfg_attr(not(unix), ignore = "the page rule is Linux's; elsewhere nothing is promised")]
fn a_killed_program_leaves_a_valid_file() {
    let rounds: u64 = env::var("TICKLINE_TEST_KILLS").map_or(6, |text| text.parse().unwrap());
    let mut whole = 0;
    for round in 0..rounds {
        let path = scratch("victim");
        let mut victim = Command::new(env::current_exe().unwrap())
            .args(["--exact", "victim", "--nocapture"])
            .env(VICTIM, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("ready")), "the victim did not start");
        wait_for(&path, 20_000 + round * 7_919);
        victim.kill().unwrap(); // SIGKILL
        victim.wait().unwrap();
        let mut bytes = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        bytes.push(b']');
        let events: Vec<Value> = serde_json::from_slice(&bytes).unwrap_or_else(|error| {
            let tail = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(300)..]).into_owned();
            panic!("{error} in {} bytes that end with {tail}", bytes.len())
        });
        check_format_of_numbers(&events);
        whole += slices(&events).len();
    }
    assert!(whole > 0, "no victim wrote anything");
}

/// The kill may come between a busy interval and the one around it, so the nesting is not
/// complete, but each event is.
fn check_format_of_numbers(events: &[Value]) {
    check_format(events);
    for slice in slices(events) {
        let number = slice.args["number"].as_u64().unwrap();
        if slice.name == "work" {
            assert_eq!(slice.args["text"].as_str().unwrap().len(), usize::try_from(number % 300).unwrap());
        }
    }
}

fn wait_for(path: &Path, bytes: u64) {
    for _ in 0..60_000 {
        if fs::metadata(path).is_ok_and(|file| file.len() >= bytes) {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("the victim wrote less than {bytes} bytes in a minute");
}
