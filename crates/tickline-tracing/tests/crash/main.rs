//! Traces of programs that abort, segfault, exit, panic, are killed, leak their guard or fork. Each
//! program has a trace file, a recorder in memory that writes when the program panics, and a
//! recorder in a file. The test checks each file that must be complete after that end: it has the
//! span in which the program ended, the spans around it, and the last event.
//!
//! This test has no harness, because a harness runs tests on threads beside `main`, and these
//! programs must end in their `main`. The test runs itself once for each end.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]
#![allow(clippy::print_stdout, reason = "it reports as a harness does")]

fn main() {
    #[cfg(unix)]
    unix::main();
}

#[cfg(unix)]
#[path = "../perfetto/mod.rs"]
mod perfetto_view;

#[cfg(unix)]
mod victim;

#[cfg(unix)]
mod unix {
    use std::io::{BufRead as _, BufReader};
    use std::os::unix::fs::MetadataExt as _;
    use std::os::unix::process::ExitStatusExt as _;
    use std::path::Path;
    use std::process::{Command, Output, Stdio};
    use std::time::{Duration, Instant};
    use std::{env, fs, io, process, thread};

    use crate::perfetto_view::View;
    use crate::victim::{
        BEFORE_FORK, BOX, CHILD, COMPRESSED, End, MISSING, PANIC, PERFETTO, TRACE, end,
    };
    use serde_json::Value;
    use tempfile::TempDir;
    use tickline_tracing::flight;
    use tickline_tracing::trace_file::{TraceFormat, TraceSummary};

    const VICTIM: &str = "TICKLINE_TEST_CRASH";

    pub(crate) fn main() {
        if let (Ok(way), Some(folder)) = (env::var(VICTIM), env::args_os().nth(1)) {
            return end(End::from_name(&way), Path::new(&folder));
        }
        if env::args().any(|argument| argument == "the_last_moment_is_in_the_file") {
            return println!("SKIPPED: left out by --skip");
        }
        the_last_moment_is_in_the_file();
        a_few_spans_reach_the_files_while_the_program_goes_on();
        a_killed_program_leaves_whole_files();
        a_trace_of_a_panic_that_cannot_be_written_is_reported();
        a_trace_of_a_panic_without_a_span_is_reported();
        #[cfg(target_os = "linux")]
        {
            a_trace_file_that_a_panic_cannot_flush_is_reported();
            a_trace_file_that_a_panic_cannot_flush_in_time_is_reported();
        }
        a_trace_that_cannot_be_written_in_the_background_is_reported();
    }

    /// Reads the compressed trace.
    fn compressed_view(folder: &Path) -> View {
        let view = view(&folder.join(COMPRESSED));
        assert!(view.compressed_packets > 0 || cfg!(not(feature = "compression")));
        view
    }

    /// A program that will end in this way, and its folder.
    fn victim(way: End) -> (Command, TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let mut victim = Command::new(env::current_exe().unwrap());
        victim.arg(folder.path()).env(VICTIM, format!("{way:?}"));
        (victim, folder)
    }

    fn the_last_moment_is_in_the_file() {
        // The expected exit code, or else the signal.
        for (way, expected) in [
            (End::Abort, Err(Some(libc::SIGABRT))),
            (End::Segfault, Err(Some(libc::SIGSEGV))),
            (End::Exit, Ok(7)),
            (End::Leak, Ok(0)),
            (End::Panic, Ok(101)),
            (End::PanicThatAborts, Err(Some(libc::SIGABRT))),
            (End::Fork, Ok(0)),
        ] {
            let (mut victim, folder) = victim(way);
            let folder = folder.path();
            let output = victim.output().unwrap();
            let ended = output.status.code().ok_or_else(|| output.status.signal());
            assert_eq!(ended, expected, "{way:?}: {output:?}");
            // Without a signal handler and a panic hook, the trace depends on the destructors of
            // threads, which glibc and macOS run.
            let has_destructors = cfg!(any(target_env = "gnu", target_vendor = "apple"));
            if has_destructors || !matches!(way, End::Exit | End::Leak) {
                assert_the_trace_has_the_last_moment(way, folder);
                assert_the_traces_in_perfettos_format_have_the_last_moment(way, folder);
            }
            if way.is_panic() {
                assert_the_trace_of_a_panic_has_the_last_moment(way, folder);
                assert_the_last_event_of_a_panics_trace_is_the_panic(way, folder);
            }
            if way == End::PanicThatAborts {
                assert_both_panics_say_where_the_trace_of_the_first_is(&output, folder);
            }
            let path = folder.join(BOX);
            assert_only_the_owner_may_read_the_box(way, &path);
            assert_the_box_has_the_last_moment(way, &path);
            assert_the_box_in_perfettos_format_has_the_last_moment(way, &path);
            assert_the_box_has_source_locations(way, &path);
            assert_the_box_counts_spans_and_events(way, &path);
            assert_the_box_misses_nothing(way, &path);
            assert_the_box_has_the_name_of_its_process(way, &path);
            assert_the_box_has_the_number_of_its_process(way, &path);
            if way == End::Fork {
                assert_each_process_of_a_fork_has_its_own_cpu_time(folder);
            }
            println!("{way:?}: the last moment is in the file");
        }
    }

    /// Symptom: there was no file, and nothing said why.
    fn a_trace_of_a_panic_that_cannot_be_written_is_reported() {
        let (mut victim, folder) = victim(End::PanicWithoutFolder);
        let output = victim.output().unwrap();
        assert_eq!(output.status.code(), Some(101), "{output:?}");
        let path = folder.path().join(MISSING).join(PANIC);
        let line = format!(
            "tickline: no trace of the panic: {path:?}: No such file or directory (os error 2)"
        );
        let shown = String::from_utf8_lossy(&output.stderr);
        assert_eq!(shown.lines().last(), Some(&*line), "{shown}");
        println!("panic without a folder: the error is on stderr");
    }

    /// Symptom: the trace had only the panic, and nothing said why.
    fn a_trace_of_a_panic_without_a_span_is_reported() {
        let (mut victim, folder) = victim(End::PanicWithoutLayer);
        let output = victim.output().unwrap();
        assert_eq!(output.status.code(), Some(101), "{output:?}");
        let line = format!(
            "tickline: the trace of the panic has no span: {:?}: if the program has entered one, make \
             the recorder a sink of the layer (`with_sink`), install the layer, or let a filter show \
             its spans",
            folder.path().join(PANIC)
        );
        let shown = String::from_utf8_lossy(&output.stderr);
        assert_eq!(shown.lines().last(), Some(&*line), "{shown}");
        println!("panic without a span: the cause is on stderr");
    }

    /// Symptom: the error was lost.
    #[cfg(target_os = "linux")]
    fn a_trace_file_that_a_panic_cannot_flush_is_reported() {
        let (mut victim, folder) = victim(End::PanicWithFullDisk);
        let output = victim.output().unwrap();
        assert_eq!(output.status.code(), Some(101), "{output:?}");
        let shown = String::from_utf8_lossy(&output.stderr);
        let lines = shown.lines().filter(|line| line.starts_with("tickline: "));
        assert_eq!(
            lines.collect::<Vec<_>>(),
            [
                "tickline: the trace is incomplete and has ended: \"/dev/full\": No space left on device \
                 (os error 28); remove the cause, and begin another trace".to_owned(),
                format!("tickline: the trace of the panic is at {:?}", folder.path().join(PANIC)),
            ]
        );
        println!("panic with a full disk: the error is on stderr");
    }

    /// Symptom: nothing said that the last records might be missing.
    #[cfg(target_os = "linux")]
    fn a_trace_file_that_a_panic_cannot_flush_in_time_is_reported() {
        let (mut victim, folder) = victim(End::PanicWithFullPipe);
        let output = victim.output().unwrap();
        assert_eq!(output.status.code(), Some(101), "{output:?}");
        let shown = String::from_utf8_lossy(&output.stderr);
        let lines = shown.lines().filter(|line| line.starts_with("tickline: "));
        let line = format!(
            "tickline: the trace may be incomplete: {:?}: the panic waited 2 s for the writer, in vain",
            folder.path().join(TRACE)
        );
        assert!(lines.collect::<Vec<_>>().contains(&&*line), "{shown}");
        println!("panic with a full pipe: the time is on stderr");
    }

    /// Symptom: the error was lost.
    fn a_trace_that_cannot_be_written_in_the_background_is_reported() {
        let (mut victim, folder) = victim(End::BackgroundWithoutFolder);
        let mut victim = victim.stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(victim.stderr.take().unwrap()).lines();
        let shown = lines
            .map(io::Result::unwrap)
            .find(|line| line.starts_with("tickline: "));
        victim.kill().unwrap();
        victim.wait().unwrap();
        let path = folder.path().join(MISSING).join(PANIC);
        let line = format!("tickline: no trace: {path:?}: No such file or directory (os error 2)");
        assert_eq!(shown, Some(line));
        println!("background without a folder: the error is on stderr");
    }

    fn assert_the_trace_has_the_last_moment(way: End, folder: &Path) {
        let events = trace(&folder.join(TRACE));
        check(way, &events, &[["B", "E"]], "i");
        let has_panic = events.iter().any(|event| event["name"] == "panic");
        assert_eq!(has_panic, way.is_panic(), "{way:?}");
    }

    fn assert_the_traces_in_perfettos_format_have_the_last_moment(way: End, folder: &Path) {
        for view in [view(&folder.join(PERFETTO)), compressed_view(folder)] {
            check_perfetto(way, &view, 1);
            let has_panic = view.instants.iter().any(|instant| instant.name == "panic");
            assert_eq!(has_panic, way.is_panic(), "{way:?}");
        }
    }

    fn assert_the_trace_of_a_panic_has_the_last_moment(way: End, folder: &Path) {
        check(way, &trace(&folder.join(PANIC)), &[["B", "E"]], "i");
    }

    fn assert_the_last_event_of_a_panics_trace_is_the_panic(way: End, folder: &Path) {
        let events = trace(&folder.join(PANIC));
        let last = *with_phase(&events, "i").last().unwrap();
        assert_eq!(last["name"], "panic", "{way:?}: {last}");
        let before = with_phase(&events, "B");
        assert_eq!(
            last["tid"],
            before.last().unwrap()["tid"],
            "{way:?}: {last}"
        );
        let [payload, place] =
            ["panic.payload", "panic.location"].map(|name| last["args"][name].as_str().unwrap());
        assert_eq!(payload, "for the \"test\"", "{way:?}");
        let (file, column) = place.split_once(".rs:").unwrap();
        assert!(file.ends_with("victim"), "{way:?}: {place}");
        let numbers = column.split(':').map(|number| number.parse::<u32>());
        assert_eq!(numbers.filter(Result::is_ok).count(), 2, "{way:?}: {place}");
    }

    /// The abort of a panic that can't unwind is a second panic. Symptom: its trace replaced the
    /// first one's, and the hook did not say where that was.
    fn assert_both_panics_say_where_the_trace_of_the_first_is(output: &Output, folder: &Path) {
        let shown = String::from_utf8_lossy(&output.stderr);
        let lines = shown.lines().filter(|line| line.starts_with("tickline: "));
        let path = folder.join(PANIC);
        let expected = [
            format!("tickline: the trace of the panic is at {path:?}"),
            format!(
                "tickline: no trace of this panic: the trace of an earlier panic stays at {path:?}"
            ),
        ];
        assert_eq!(lines.collect::<Vec<_>>(), expected);
    }

    /// Reads a trace, whose last bracket may be missing.
    fn trace(path: &Path) -> Vec<Value> {
        let text = fs::read_to_string(path).unwrap();
        let events = text.strip_suffix("\n]\n").unwrap_or(&text);
        serde_json::from_str(&format!("{events}]")).unwrap()
    }

    /// Reads a trace in Perfetto's format, whose last packet may be truncated.
    fn view(path: &Path) -> View {
        View::of_truncated(&fs::read(path).unwrap())
    }

    /// Reads a trace in Perfetto's format that is being written, or may not exist yet.
    fn growing_view(path: &Path) -> View {
        View::of_truncated(&fs::read(path).unwrap_or_default())
    }

    /// [`check`] for Perfetto's format. Each span is on this number of tracks.
    fn check_perfetto(way: End, view: &View, tracks: usize) {
        let named = |name: &str| {
            let named = |slice: &&crate::perfetto_view::Slice| slice.name == name;
            view.open.iter().filter(named).collect::<Vec<_>>()
        };
        for name in ["server", "request", "crash"] {
            assert_eq!(
                named(name).len(),
                tracks,
                "{way:?}: {name} in {:?}",
                view.open
            );
        }
        assert_eq!(view.open.len(), 3 * tracks, "{way:?}");
        let names: Vec<_> = view.slices.iter().map(|slice| &*slice.name).collect();
        assert_eq!(names, vec!["done"; tracks], "{way:?}");
        assert_eq!(named("request")[0].args["user"], 7, "{way:?}");
        let mut instants = view.instants.iter().map(|instant| &*instant.name);
        assert_eq!(
            instants.rfind(|name| *name != "panic"),
            Some("the last words"),
            "{way:?}"
        );
    }

    /// The trace from a recorder's file.
    fn converted(path: &Path) -> (TraceSummary, Vec<Value>) {
        let mut trace = Vec::new();
        let summary =
            flight::convert(fs::File::open(path).unwrap(), &mut trace, TraceFormat::Json).unwrap();
        (summary, serde_json::from_slice(&trace).unwrap())
    }

    fn with_phase<'a>(events: &'a [Value], phase: &str) -> Vec<&'a Value> {
        events.iter().filter(|event| event["ph"] == phase).collect()
    }

    /// Asserts that the last three spans began and did not end, and that the last event is there.
    /// `spans` has the phases of beginnings and ends, `event` the phase of events.
    fn check(way: End, events: &[Value], spans: &[[&str; 2]], event: &str) {
        for [begin, end] in spans {
            let begun = with_phase(events, begin);
            let names: Vec<_> = begun
                .iter()
                .map(|event| event["name"].as_str().unwrap())
                .collect();
            assert_eq!(names, ["server", "done", "request", "crash"], "{way:?}");
            assert_eq!(begun[2]["args"]["user"], 7, "{way:?}");
            assert_eq!(with_phase(events, end).len(), 1, "{way:?}");
        }
        let mut instants = with_phase(events, event);
        instants.retain(|event| event["name"] != "panic");
        assert_eq!(
            instants.last().unwrap()["name"],
            "the last words",
            "{way:?}"
        );
    }

    // Of the recorder's file. The recorder runs no code at these ends.

    fn assert_only_the_owner_may_read_the_box(way: End, path: &Path) {
        let mode = fs::metadata(path).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600, "{way:?}");
    }

    fn assert_the_box_has_the_last_moment(way: End, path: &Path) {
        check(way, &converted(path).1, &[["B", "E"], ["b", "e"]], "n");
    }

    fn assert_the_box_in_perfettos_format_has_the_last_moment(way: End, path: &Path) {
        let (mut trace, file) = (Vec::new(), fs::File::open(path).unwrap());
        flight::convert(file, &mut trace, TraceFormat::Perfetto).unwrap();
        check_perfetto(way, &View::of(&trace), 2);
    }

    fn assert_the_box_has_source_locations(way: End, path: &Path) {
        let events = converted(path).1;
        for begin in ["B", "b"] {
            let source = &with_phase(&events, begin)[2]["args"]["source"];
            assert!(source.as_str().unwrap().contains("victim.rs:"), "{way:?}");
        }
    }

    fn assert_the_box_counts_spans_and_events(way: End, path: &Path) {
        let summary = converted(path).0;
        assert_eq!(
            (summary.intervals, summary.unended_intervals, summary.events),
            (8, 6, 1),
            "{way:?}"
        );
    }

    fn assert_the_box_misses_nothing(way: End, path: &Path) {
        let summary = converted(path).0;
        assert_eq!(
            (summary.overwritten_records, summary.damaged_records),
            (0, 0),
            "{way:?}"
        );
    }

    /// The event with the name and the number of the process.
    fn process_of(path: &Path) -> Value {
        let mut events = converted(path).1.into_iter();
        events
            .find(|event| event["name"] == "process_name")
            .unwrap()
    }

    fn assert_the_box_has_the_name_of_its_process(way: End, path: &Path) {
        let process = process_of(path);
        let name = process["args"]["name"].as_str().unwrap();
        assert!(name.starts_with("crash"), "{way:?}: {process}");
    }

    fn assert_the_box_has_the_number_of_its_process(way: End, path: &Path) {
        assert_ne!(process_of(path)["pid"], process::id(), "{way:?}");
    }

    /// In a program that has forked, each trace has the CPU time of the thread of its process: the
    /// parent's, which has used some before the fork, or the child's, which began at 0.
    fn assert_each_process_of_a_fork_has_its_own_cpu_time(folder: &Path) {
        let [of_parent, of_child] = [TRACE, CHILD].map(|file| {
            let events = trace(&folder.join(file));
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

    /// Symptom of a compressed trace that only wrote full blocks: a program that recorded little
    /// and was killed left nothing.
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
        assert_eq!(compressed_view(folder).open.len(), 3);
        println!("few spans are in the files before the end");
    }

    /// Each program is killed at another moment, even within a record.
    fn a_killed_program_leaves_whole_files() {
        for round in 1..=10 {
            let folder = killed(round);
            let folder = folder.path();
            let in_trace = numbers(&whole_events(&folder.join(TRACE)));
            assert_the_events_before_the_last_are_whole(&in_trace);
            assert_the_spans_in_perfettos_format_are_whole(&view(&folder.join(PERFETTO)));
            assert_the_spans_in_perfettos_format_are_whole(&compressed_view(folder));
            let (summary, events) = converted(&folder.join(BOX));
            let in_box = numbers(&events);
            assert_the_box_has_no_damage(&summary);
            assert_the_box_has_no_gaps(&in_box);
            assert_the_box_has_all_spans_of_the_trace(&in_box, &in_trace);
            assert_the_box_counts_its_spans(&in_box, &summary);
            assert_the_box_counts_the_overwritten_records(&in_box, &summary);
        }
        println!("killed at any moment: the files are whole");
    }

    /// The folder of a program that was killed after some records, whose number grows with `round`.
    fn killed(round: u64) -> TempDir {
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
        folder
    }

    /// The events of a trace without the last, which may be truncated.
    fn whole_events(path: &Path) -> Vec<Value> {
        let text = fs::read_to_string(path).unwrap();
        let (whole, _) = text.rsplit_once(",\n").unwrap();
        serde_json::from_str(&format!("{whole}]")).unwrap()
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

    fn assert_the_events_before_the_last_are_whole(in_trace: &[u64]) {
        assert!(in_trace.len() > 10, "{in_trace:?}");
    }

    fn assert_the_spans_in_perfettos_format_are_whole(view: &View) {
        let numbers: Vec<_> = view
            .slices
            .iter()
            .map(|slice| number(&slice.args))
            .collect();
        assert!(numbers.len() > 10 && numbers.is_sorted());
    }

    fn assert_the_box_has_no_damage(summary: &TraceSummary) {
        assert!(
            summary.damaged_records == 0 && summary.unended_intervals <= 1,
            "{summary:?}"
        );
    }

    fn assert_the_box_has_no_gaps(in_box: &[u64]) {
        let all: Vec<_> = (in_box[0]..).take(in_box.len()).collect();
        assert!(in_box.len() > 100 && in_box == all, "{in_box:?}");
    }

    /// The trace's sink gets each span before the recorder, so it may have one more.
    fn assert_the_box_has_all_spans_of_the_trace(in_box: &[u64], in_trace: &[u64]) {
        let end = in_box[0] + in_box.len() as u64;
        assert!(in_trace.last() <= Some(&end), "{in_trace:?} {in_box:?}");
    }

    fn assert_the_box_counts_its_spans(in_box: &[u64], summary: &TraceSummary) {
        assert_eq!(summary.intervals, in_box.len() as u64);
    }

    /// The end of the last overwritten span may still be in the ring.
    fn assert_the_box_counts_the_overwritten_records(in_box: &[u64], summary: &TraceSummary) {
        let before = 2 * in_box[0];
        assert!(
            (before..=before + 1).contains(&summary.overwritten_records),
            "{summary:?} {before}"
        );
    }
}
