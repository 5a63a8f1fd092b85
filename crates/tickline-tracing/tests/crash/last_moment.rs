//! After each of seven ends, the files that must be complete have the last moment: the span in
//! which the program ended, the spans around it, and the last event.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{self, Output};

use libtest_mimic::Trial;
use serde_json::Value;
use tempfile::TempDir;

use crate::files::{compressed_view, converted, converted_view, trace, view};
use crate::perfetto_view::{Slice, View};
use crate::trials::{self, Claim};
use crate::victim::{BEFORE_FORK, BOX, CHILD, COMPRESSED, End, PANIC, PERFETTO, TRACE, victim};

/// A program that has ended in this way, and its files.
struct Ended {
    way: End,
    folder: TempDir,
    output: Output,
}

impl Ended {
    fn new(way: End) -> Self {
        let (mut victim, folder) = victim(way);
        let output = victim.output().unwrap();
        Self {
            way,
            folder,
            output,
        }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }
}

const ENDS: [(&str, End); 7] = [
    ("abort", End::Abort),
    ("segfault", End::Segfault),
    ("exit", End::Exit),
    ("leak", End::Leak),
    ("panic", End::Panic),
    ("panic_that_aborts", End::PanicThatAborts),
    ("fork", End::Fork),
];

type Claims = &'static [(&'static str, Claim<Ended>)];

const OF_EACH_END: Claims = &named![Claim<Ended>:
    the_program_ends_as_it_should,
    only_the_owner_may_read_the_box,
    the_box_has_the_last_moment,
    the_box_in_perfettos_format_has_the_last_moment,
    the_box_has_source_locations,
    the_box_counts_spans_and_events,
    the_box_misses_nothing,
    the_box_has_the_name_of_its_process,
    the_box_has_the_number_of_its_process,
];

const OF_TRACES: Claims = &named![Claim<Ended>:
    the_trace_has_the_last_moment,
    the_trace_in_perfettos_format_has_the_last_moment,
    the_compressed_trace_has_the_last_moment,
    the_traces_have_a_panic_if_there_was_one,
];

const OF_PANICS: Claims = &named![Claim<Ended>:
    the_trace_of_a_panic_has_the_last_moment,
    the_last_event_of_a_panics_trace_is_the_panic,
    a_panic_is_on_the_track_of_its_thread,
    a_panic_has_its_payload,
    a_panic_has_its_location,
];

const OF_A_PANIC_THAT_ABORTS: Claims =
    &named![Claim<Ended>: both_panics_say_where_the_trace_of_the_first_is];

const OF_A_FORK: Claims = &named![Claim<Ended>: each_process_of_a_fork_has_its_own_cpu_time];

/// The claims about an end.
fn claims(way: End) -> Vec<(&'static str, Claim<Ended>)> {
    let mut claims = OF_EACH_END.to_vec();
    // Without a signal handler and a panic hook, the trace depends on the destructors of threads,
    // which glibc and macOS run.
    let has_destructors = cfg!(any(target_env = "gnu", target_vendor = "apple"));
    if has_destructors || !matches!(way, End::Exit | End::Leak) {
        claims.extend(OF_TRACES);
    }
    if way.is_panic() {
        claims.extend(OF_PANICS);
    }
    if way == End::PanicThatAborts {
        claims.extend(OF_A_PANIC_THAT_ABORTS);
    }
    if way == End::Fork {
        claims.extend(OF_A_FORK);
    }
    claims
}

/// A test for each end and claim. The claims about an end share one program.
pub(crate) fn trials() -> Vec<Trial> {
    let of_end = |(name, way): (&str, End)| {
        let group = format!("last_moment::{name}");
        trials::of_claims(&group, &claims(way), move || Ended::new(way))
    };
    ENDS.into_iter().flat_map(of_end).collect()
}

fn the_program_ends_as_it_should(ended: &Ended) {
    let status = ended.output.status;
    let (code, signal) = match ended.way {
        End::Abort | End::PanicThatAborts => (None, Some(libc::SIGABRT)),
        End::Segfault => (None, Some(libc::SIGSEGV)),
        End::Exit => (Some(7), None),
        End::Panic => (Some(101), None),
        _ => (Some(0), None),
    };
    assert_eq!(
        (status.code(), status.signal()),
        (code, signal),
        "{:?}",
        ended.output
    );
}

// Of the traces.

fn the_trace_has_the_last_moment(ended: &Ended) {
    assert_has_last_moment(&trace(&ended.path(TRACE)), &[["B", "E"]], "i");
}

fn the_trace_in_perfettos_format_has_the_last_moment(ended: &Ended) {
    assert_view_has_last_moment(&view(&ended.path(PERFETTO)), 1);
}

fn the_compressed_trace_has_the_last_moment(ended: &Ended) {
    assert_view_has_last_moment(&compressed_view(&ended.path(COMPRESSED)), 1);
}

fn the_traces_have_a_panic_if_there_was_one(ended: &Ended) {
    let events = trace(&ended.path(TRACE));
    let in_trace = events.iter().any(|event| event["name"] == "panic");
    let [in_perfetto, in_compressed] = [PERFETTO, COMPRESSED].map(|file| {
        let view = view(&ended.path(file));
        view.instants.iter().any(|instant| instant.name == "panic")
    });
    let found = [in_trace, in_perfetto, in_compressed];
    assert_eq!(found, [ended.way.is_panic(); 3]);
}

/// In a program that has forked, each trace has the CPU time of the thread of its process: the
/// parent's, which has used some before the fork, or the child's, which began at 0.
fn each_process_of_a_fork_has_its_own_cpu_time(ended: &Ended) {
    let [of_parent, of_child] = [TRACE, CHILD].map(|file| {
        let events = trace(&ended.path(file));
        let times = with_phase(&events, "C").into_iter().map(|event| {
            assert_eq!(event["name"], "CPU time");
            (event["tid"].clone(), event["args"]["ns"].as_u64().unwrap())
        });
        times.collect::<Vec<_>>()
    });
    if cfg!(not(any(target_os = "linux", target_os = "android"))) {
        return assert_eq!((of_parent, of_child), (vec![], vec![]));
    }
    let (parent, parent_ns) = of_parent[0].clone();
    assert!(parent_ns >= u64::try_from(BEFORE_FORK.as_nanos()).unwrap());
    assert!(!of_child.is_empty());
    for (child, child_ns) in of_child {
        assert!(
            child != parent && child_ns < parent_ns,
            "{child_ns} {parent_ns}"
        );
    }
}

// Of the trace that is written at a panic.

/// The last event of the trace.
fn last_event(ended: &Ended) -> Value {
    let events = trace(&ended.path(PANIC));
    let last = *with_phase(&events, "i").last().unwrap();
    last.clone()
}

fn the_trace_of_a_panic_has_the_last_moment(ended: &Ended) {
    assert_has_last_moment(&trace(&ended.path(PANIC)), &[["B", "E"]], "i");
}

fn the_last_event_of_a_panics_trace_is_the_panic(ended: &Ended) {
    assert_eq!(last_event(ended)["name"], "panic");
}

fn a_panic_is_on_the_track_of_its_thread(ended: &Ended) {
    let events = trace(&ended.path(PANIC));
    let begun = with_phase(&events, "B");
    assert_eq!(last_event(ended)["tid"], begun.last().unwrap()["tid"]);
}

fn a_panic_has_its_payload(ended: &Ended) {
    assert_eq!(
        last_event(ended)["args"]["panic.payload"],
        "for the \"test\""
    );
}

fn a_panic_has_its_location(ended: &Ended) {
    let panic = last_event(ended);
    let location = panic["args"]["panic.location"].as_str().unwrap();
    let (file, line_and_column) = location.split_once(".rs:").unwrap();
    assert!(file.ends_with("victim"), "{location}");
    let numbers = line_and_column
        .split(':')
        .map(|number| number.parse::<u32>());
    assert_eq!(numbers.filter(Result::is_ok).count(), 2, "{location}");
}

/// The abort of a panic that can't unwind is a second panic. Symptom: its trace replaced the first
/// one's, and the hook did not say where that was.
fn both_panics_say_where_the_trace_of_the_first_is(ended: &Ended) {
    let shown = String::from_utf8_lossy(&ended.output.stderr);
    let lines = shown.lines().filter(|line| line.starts_with("tickline: "));
    let path = ended.path(PANIC);
    let expected = [
        format!("tickline: the trace of the panic is at {path:?}"),
        format!(
            "tickline: no trace of this panic: the trace of an earlier panic stays at {path:?}"
        ),
    ];
    assert_eq!(lines.collect::<Vec<_>>(), expected);
}

// Of the recorder's file. The recorder runs no code at these ends.

fn only_the_owner_may_read_the_box(ended: &Ended) {
    let mode = fs::metadata(ended.path(BOX)).unwrap().mode();
    assert_eq!(mode & 0o777, 0o600);
}

fn the_box_has_the_last_moment(ended: &Ended) {
    let events = converted(&ended.path(BOX)).1;
    assert_has_last_moment(&events, &[["B", "E"], ["b", "e"]], "n");
}

fn the_box_in_perfettos_format_has_the_last_moment(ended: &Ended) {
    assert_view_has_last_moment(&converted_view(&ended.path(BOX)), 2);
}

fn the_box_has_source_locations(ended: &Ended) {
    let events = converted(&ended.path(BOX)).1;
    for begin in ["B", "b"] {
        let source = &with_phase(&events, begin)[2]["args"]["source"];
        assert!(source.as_str().unwrap().contains("victim.rs:"), "{source}");
    }
}

fn the_box_counts_spans_and_events(ended: &Ended) {
    let summary = converted(&ended.path(BOX)).0;
    assert_eq!(
        (summary.intervals, summary.unended_intervals, summary.events),
        (8, 6, 1)
    );
}

fn the_box_misses_nothing(ended: &Ended) {
    let summary = converted(&ended.path(BOX)).0;
    assert_eq!(
        (summary.overwritten_records, summary.damaged_records),
        (0, 0)
    );
}

/// The event with the name and the number of the process.
fn process_in(path: &Path) -> Value {
    let mut events = converted(path).1.into_iter();
    events
        .find(|event| event["name"] == "process_name")
        .unwrap()
}

fn the_box_has_the_name_of_its_process(ended: &Ended) {
    let process = process_in(&ended.path(BOX));
    let name = process["args"]["name"].as_str().unwrap();
    assert!(name.starts_with("crash"), "{process}");
}

fn the_box_has_the_number_of_its_process(ended: &Ended) {
    assert_ne!(process_in(&ended.path(BOX))["pid"], process::id());
}

// What all of them use.

fn with_phase<'a>(events: &'a [Value], phase: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["ph"] == phase).collect()
}

/// Asserts that the last three spans began and did not end, and that the last event is there.
/// `spans` has the phases of beginnings and ends, `event` the phase of events.
fn assert_has_last_moment(events: &[Value], spans: &[[&str; 2]], event: &str) {
    for [begin, end] in spans {
        let begun = with_phase(events, begin);
        let names: Vec<_> = begun
            .iter()
            .map(|event| event["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["server", "done", "request", "crash"]);
        assert_eq!(begun[2]["args"]["user"], 7);
        assert_eq!(with_phase(events, end).len(), 1);
    }
    let mut instants = with_phase(events, event);
    instants.retain(|event| event["name"] != "panic");
    assert_eq!(instants.last().unwrap()["name"], "the last words");
}

/// [`assert_has_last_moment`] for Perfetto's format. Each span is on this number of tracks.
fn assert_view_has_last_moment(view: &View, tracks: usize) {
    let named = |name: &str| {
        let named = |slice: &&Slice| slice.name == name;
        view.open.iter().filter(named).collect::<Vec<_>>()
    };
    for name in ["server", "request", "crash"] {
        assert_eq!(named(name).len(), tracks, "{name} in {:?}", view.open);
    }
    assert_eq!(view.open.len(), 3 * tracks);
    let names: Vec<_> = view.slices.iter().map(|slice| &*slice.name).collect();
    assert_eq!(names, vec!["done"; tracks]);
    assert_eq!(named("request")[0].args["user"], 7);
    let mut instants = view.instants.iter().map(|instant| &*instant.name);
    assert_eq!(
        instants.rfind(|name| *name != "panic"),
        Some("the last words")
    );
}
