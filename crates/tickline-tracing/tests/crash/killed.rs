//! Programs that are killed: what they have recorded is in the files.

use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use libtest_mimic::Trial;
use serde_json::Value;
use tempfile::TempDir;
use tickline_tracing::flight;
use tickline_tracing::trace_file::{TraceFormat, TraceSummary};

use crate::files::{compressed_view, converted, growing_view, view, whole_events};
use crate::perfetto_view::View;
use crate::trials::{self, Claim, Test};
use crate::victim::{BOX, COMPRESSED, End, PERFETTO, TRACE, victim};

pub(crate) fn trials() -> Vec<Trial> {
    let waiting = &named![Test: a_few_spans_reach_the_files_while_the_program_goes_on];
    let working = &named![Claim<AllKilled>:
        the_events_before_the_last_are_whole,
        the_spans_in_perfettos_format_are_whole,
        the_spans_of_the_compressed_trace_are_whole,
        the_box_has_no_damage,
        the_box_has_no_gaps,
        the_box_has_all_spans_of_the_trace,
        the_box_counts_its_spans,
        the_box_counts_the_overwritten_records,
    ];
    let mut all = trials::of_functions("killed", waiting);
    let kill = || (1..=10).map(Killed::new).collect();
    all.extend(trials::of_claims("killed", working, kill));
    all
}

/// Symptom of a compressed trace that only wrote full blocks: a program that recorded little and
/// was killed left nothing.
fn a_few_spans_reach_the_files_while_the_program_goes_on() {
    let (mut victim, folder) = victim(End::Wait);
    let folder = folder.path();
    let mut victim = victim.spawn().unwrap();
    let json_has_done = || {
        let json = fs::read_to_string(folder.join(TRACE));
        json.is_ok_and(|json| json.contains("done"))
    };
    // A flush may come between two spans.
    let perfetto_has_all = |file: &str| {
        let view = growing_view(&folder.join(file));
        view.slices.iter().any(|slice| slice.name == "done") && view.open.len() == 3
    };
    let start = Instant::now();
    while !json_has_done() || !perfetto_has_all(PERFETTO) || !perfetto_has_all(COMPRESSED) {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "a span is missing"
        );
        assert!(victim.try_wait().unwrap().is_none(), "it waits");
        thread::sleep(Duration::from_millis(5));
    }
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert_eq!(compressed_view(&folder.join(COMPRESSED)).open.len(), 3);
}

/// The files of a program that was killed while it recorded spans.
struct Killed(TempDir);

/// Each program was killed at another moment, even within a record.
type AllKilled = Vec<Killed>;

impl Killed {
    /// Kills a program after some records, whose number grows with `round`.
    fn new(round: u64) -> Self {
        let (mut victim, folder) = victim(End::Work);
        let mut victim = victim.spawn().unwrap();
        let has = |file: &str, bytes: u64| {
            fs::metadata(folder.path().join(file)).is_ok_and(|file| file.len() > bytes)
        };
        // Each file has a writer of its own, which may come late.
        let has_spans = |file: &str| growing_view(&folder.path().join(file)).slices.len() > 10;
        let is_written = || {
            has(TRACE, round * 7_919)
                && has(COMPRESSED, round * 1_009)
                && has_spans(PERFETTO)
                && has_spans(COMPRESSED)
        };
        let recorded = || {
            let file = fs::File::open(folder.path().join(BOX)).ok()?;
            flight::convert(file, io::sink(), TraceFormat::Json)
                .ok()
                .map(|left| left.intervals + left.overwritten_records / 2)
        };
        while !is_written() || recorded().is_none_or(|recorded| recorded < round * 1_331) {
            assert!(
                victim.try_wait().unwrap().is_none(),
                "it works until it is killed"
            );
        }
        victim.kill().unwrap();
        victim.wait().unwrap();
        Self(folder)
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    /// The numbers of the spans in the trace, without the last event.
    fn in_trace(&self) -> Vec<u64> {
        numbers(&whole_events(&self.path(TRACE)))
    }

    /// The numbers of the spans in the recorder's file, and the summary of that file.
    fn in_box(&self) -> (Vec<u64>, TraceSummary) {
        let (summary, events) = converted(&self.path(BOX));
        (numbers(&events), summary)
    }
}

/// The number of a span `work`. Its text, which depends on the number, is whole.
fn number(args: &Value) -> u64 {
    let number = args["number"].as_u64().unwrap();
    assert_eq!(args["text"].as_str().unwrap().len() as u64, number % 300);
    number
}

/// The numbers of the spans `work`.
fn numbers(events: &[Value]) -> Vec<u64> {
    let work = events.iter().filter(|event| event["name"] == "work");
    work.map(|event| number(&event["args"])).collect()
}

fn the_events_before_the_last_are_whole(programs: &AllKilled) {
    for killed in programs {
        let in_trace = killed.in_trace();
        assert!(in_trace.len() > 10, "{in_trace:?}");
    }
}

fn the_spans_in_perfettos_format_are_whole(programs: &AllKilled) {
    for killed in programs {
        assert_has_whole_spans(&view(&killed.path(PERFETTO)));
    }
}

fn the_spans_of_the_compressed_trace_are_whole(programs: &AllKilled) {
    for killed in programs {
        assert_has_whole_spans(&compressed_view(&killed.path(COMPRESSED)));
    }
}

fn assert_has_whole_spans(view: &View) {
    let slices = view.slices.iter();
    let numbers: Vec<_> = slices.map(|slice| number(&slice.args)).collect();
    assert!(numbers.len() > 10 && numbers.is_sorted());
}

fn the_box_has_no_damage(programs: &AllKilled) {
    for killed in programs {
        let (_, summary) = killed.in_box();
        assert!(
            summary.damaged_records == 0 && summary.unended_intervals <= 1,
            "{summary:?}"
        );
    }
}

fn the_box_has_no_gaps(programs: &AllKilled) {
    for killed in programs {
        let (in_box, _) = killed.in_box();
        let all: Vec<_> = (in_box[0]..).take(in_box.len()).collect();
        assert!(in_box.len() > 100 && in_box == all, "{in_box:?}");
    }
}

/// The trace's sink gets each span before the recorder, so it may have one more.
fn the_box_has_all_spans_of_the_trace(programs: &AllKilled) {
    for killed in programs {
        let (in_trace, (in_box, _)) = (killed.in_trace(), killed.in_box());
        let end = in_box[0] + in_box.len() as u64;
        assert!(in_trace.last() <= Some(&end), "{in_trace:?} {in_box:?}");
    }
}

fn the_box_counts_its_spans(programs: &AllKilled) {
    for killed in programs {
        let (in_box, summary) = killed.in_box();
        assert_eq!(summary.intervals, in_box.len() as u64);
    }
}

/// The end of the last overwritten span may still be in the ring.
fn the_box_counts_the_overwritten_records(programs: &AllKilled) {
    for killed in programs {
        let (in_box, summary) = killed.in_box();
        let before = 2 * in_box[0];
        assert!(
            (before..=before + 1).contains(&summary.overwritten_records),
            "{summary:?} {before}"
        );
    }
}
