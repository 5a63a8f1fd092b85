//! Programs that abort, segfault, exit, panic and leak their guard: the span in which that
//! happened, those around it and the last event are in the file. One that forks: the child's are
//! not. One that is killed: the file is valid. A recorder in a file has it all after each end.
//!
//! This is a program without a test harness, because a harness runs tests beside `main`, and these
//! programs must end in theirs. It runs itself once for each way to end.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]
#![allow(clippy::print_stdout, reason = "it reports as a harness does")]

#[cfg(not(unix))]
fn main() {
    println!("needs signals");
}

#[cfg(unix)]
fn main() {
    unix::main();
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::MetadataExt as _;
    use std::os::unix::process::ExitStatusExt as _;
    use std::path::{Path, PathBuf};
    use std::process::Command;
    use std::sync::OnceLock;
    use std::time::Duration;
    use std::{env, fs, io, mem, process, thread};

    use serde_json::Value;
    use tickline_tracing::SpanTimingLayer;
    use tickline_tracing::chrome::{Chrome, Flusher, Summary, Tracks};
    use tickline_tracing::flight::{self, FlightRecorder};
    use tracing::{info, info_span};
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::registry;

    const VICTIM: &str = "TICKLINE_TEST_CRASH";

    /// Longer than any test waits: only the end of the program can have flushed what is in the
    /// file.
    const NEVER: Duration = Duration::from_secs(3_600);

    pub(crate) fn main() {
        if let (Ok(way), Some(path)) = (env::var(VICTIM), env::args_os().nth(1)) {
            end(&way, Path::new(&path));
            return;
        }
        if env::args().any(|argument| argument == "the_last_moment_is_in_the_file") {
            return println!("SKIPPED: left out by --skip");
        }
        the_last_moment_is_in_the_file();
        a_black_box_outlives_each_end();
        a_killed_program_has_lost_no_record_of_its_black_box();
        if cfg!(target_os = "linux") {
            a_killed_program_leaves_a_valid_file();
        }
    }

    fn the_last_moment_is_in_the_file() {
        // The exit's code, or else the signal.
        for (way, expected) in [
            ("abort", Err(Some(libc::SIGABRT))),
            ("segfault", Err(Some(libc::SIGSEGV))),
            ("exit", Ok(7)),
            ("leak", Ok(0)),
            ("panic", Ok(101)),
            ("flight", Ok(101)),
            ("fork", Ok(0)),
        ] {
            // Without a signal and a hook, the file depends on the destructors of threads, which
            // glibc and macOS run.
            let is_promised = cfg!(any(target_env = "gnu", target_vendor = "apple"));
            if matches!(way, "exit" | "leak") && !is_promised {
                println!("{way}: skipped, nothing is promised here");
                continue;
            }
            let path = ends(way, expected);
            check(way, &path);
            fs::remove_file(&path).unwrap();
            println!("{way}: the last moment is in the file");
        }
    }

    /// Runs a program that ends in this way. Returns its file.
    fn ends(way: &str, expected: Result<i32, Option<i32>>) -> PathBuf {
        let path = env::temp_dir().join(format!("tickline-tracing-{way}-{}.json", process::id()));
        let program = env::current_exe().unwrap();
        let output = Command::new(program).arg(&path).env(VICTIM, way).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        let ended = output.status.code().ok_or_else(|| output.status.signal());
        assert_eq!(ended, expected, "{way}: {}: {error}", output.status);
        path
    }

    /// What a process has left.
    fn converted(path: &Path) -> (Summary, Vec<Value>) {
        let mut trace = Vec::new();
        let summary = flight::convert(fs::File::open(path).unwrap(), &mut trace).unwrap();
        (summary, serde_json::from_slice(&trace).unwrap())
    }

    /// Nothing runs at these ends, and nothing is needed.
    fn a_black_box_outlives_each_end() {
        for (way, expected) in [
            ("box killed", Err(Some(libc::SIGKILL))),
            ("box abort", Err(Some(libc::SIGABRT))),
            ("box exit", Ok(7)),
            ("box segfault", Err(Some(libc::SIGSEGV))),
            ("box panic that aborts", Err(Some(libc::SIGABRT))),
            ("box fork", Ok(0)),
        ] {
            let path = ends(way, expected);
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
            let (summary, events) = converted(&path);
            // The last three that began did not end, neither on the thread nor as a request.
            for (begin, end) in [("B", "E"), ("b", "e")] {
                let of = |phase: &'static str| events.iter().filter(move |event| event["ph"] == phase);
                let begun: Vec<_> = of(begin).map(|event| event["name"].as_str().unwrap()).collect();
                assert_eq!(begun, ["server", "done", "request", "crash"], "{way}");
                let request = of(begin).nth(2).unwrap();
                assert_eq!(request["args"]["user"], 7, "{way}");
                assert!(request["args"]["source"].as_str().unwrap().contains("crash.rs:"), "{way}");
                assert_eq!(of(end).count(), 1, "{way}");
            }
            assert_eq!((summary.written, summary.open, summary.events), (8, 6, 1), "{way}");
            assert_eq!((summary.dropped, summary.damaged), (0, 0), "{way}");
            let last = events.iter().rfind(|event| event["ph"] == "n").unwrap();
            assert_eq!(last["name"], "the last words", "{way}");
            let process = events.iter().find(|event| event["name"] == "process_name").unwrap();
            assert!(process["args"]["name"].as_str().unwrap().starts_with("crash"), "{process}");
            assert_ne!(process["pid"], process::id(), "{way}");
            fs::remove_file(&path).unwrap();
            println!("{way}: all is in the file");
        }
    }

    /// Wherever the kill came, also within a record: what was written before is whole, and without
    /// gaps.
    fn a_killed_program_has_lost_no_record_of_its_black_box() {
        let path = env::temp_dir().join(format!("tickline-tracing-box-kill-{}", process::id()));
        for round in 1..=10_u64 {
            let program = env::current_exe().unwrap();
            let mut victim = Command::new(program).arg(&path).env(VICTIM, "box work").spawn().unwrap();
            let recorded = || {
                let file = fs::File::open(&path).ok()?;
                flight::convert(file, io::sink()).ok().map(|summary| summary.written + summary.dropped / 2)
            };
            while recorded().is_none_or(|recorded| recorded < round * 997) {
                assert!(victim.try_wait().unwrap().is_none(), "it records until it is killed");
            }
            victim.kill().unwrap();
            victim.wait().unwrap();
            let (summary, events) = converted(&path);
            assert!(summary.damaged == 0 && summary.open <= 1, "{summary:?}");
            let args = events.iter().filter(|event| event["name"] == "work").map(|event| &event["args"]);
            let numbers: Vec<_> = args.map(|args| args["number"].as_u64().unwrap()).collect();
            let all: Vec<_> = (numbers[0]..).take(numbers.len()).collect();
            assert!(numbers.len() > 100 && numbers == all, "{numbers:?}");
            assert_eq!(summary.written, numbers.len() as u64);
            // Its end may be missing.
            let before = 2 * numbers[0];
            assert!((before..=before + 1).contains(&summary.dropped), "{summary:?} {before}");
            fs::remove_file(&path).unwrap();
            let _ = fs::remove_file(path.with_extension("old"));
        }
        println!("killed at any moment: no record is lost");
    }

    fn check(way: &str, path: &Path) {
        if way == "fork" {
            let events: Vec<Value> = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
            let spans: Vec<_> = events.iter().filter(|event| event["ph"] == "B").collect();
            assert_eq!(spans.len(), 1, "the child's spans are in no file");
            assert_eq!(spans[0]["name"], "parent");
            return;
        }
        let mut bytes = fs::read(path).unwrap();
        let is_whole = serde_json::from_slice::<Value>(&bytes).is_ok();
        if !is_whole {
            bytes.push(b']');
        }
        let events: Vec<Value> = serde_json::from_slice(&bytes).unwrap();
        let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).collect::<Vec<_>>();
        // The last three that began did not end.
        let begun: Vec<_> = of("B").iter().map(|event| event["name"].as_str().unwrap()).collect();
        assert_eq!(begun, ["server", "done", "request", "crash"], "{way}");
        assert_eq!(of("B")[2]["args"]["user"], 7, "{way}");
        assert_eq!(of("E").len(), 1, "{way}");
        assert_eq!(of("i").last().unwrap()["name"], "the last words", "{way}");
    }

    /// After a SIGKILL at any moment, only the last bracket is missing in the file, which the
    /// format allows. Each event is whole.
    fn a_killed_program_leaves_a_valid_file() {
        let path = env::temp_dir().join(format!("tickline-tracing-kill-{}.json", process::id()));
        for round in 0..6 {
            let program = env::current_exe().unwrap();
            let mut victim = Command::new(program).arg(&path).env(VICTIM, "kill").spawn().unwrap();
            while !fs::metadata(&path).is_ok_and(|file| file.len() > 20_000 + round * 7_919) {
                assert!(victim.try_wait().unwrap().is_none(), "it writes until it is killed");
                thread::sleep(Duration::from_millis(1));
            }
            victim.kill().unwrap();
            victim.wait().unwrap();
            let bytes = [&fs::read(&path).unwrap()[..], b"]"].concat();
            fs::remove_file(&path).unwrap();
            let events: Vec<Value> = serde_json::from_slice(&bytes).unwrap_or_else(|error| {
                let tail = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(300)..]).into_owned();
                panic!("{error} in {} bytes that end with {tail}", bytes.len())
            });
            let args = events.iter().filter(|event| event["name"] == "work").map(|event| &event["args"]);
            let has_all = |args: &Value| {
                let text = args["text"].as_str().unwrap();
                text.len() as u64 == args["number"].as_u64().unwrap() % 300
            };
            assert!(args.clone().count() > 10 && args.into_iter().all(has_all));
        }
        println!("kill: the file is valid");
    }

    /// Symptom: a forked child waited for ever once its ring was full, and panicked when it dropped
    /// the guard.
    fn fork(path: &Path) {
        let builder = Chrome::builder().wait_when_full().bytes_per_thread(1);
        let (chrome, guard) = builder.create(path).unwrap();
        let layer = SpanTimingLayer::new().with_sink(chrome);
        tracing::subscriber::set_global_default(registry().with(layer)).unwrap();
        // SAFETY: the other thread, the writer, holds no lock that the child needs: nothing was
        // recorded yet.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: no precondition. The signal ends a child that waits for ever.
            unsafe { libc::alarm(60) };
            (0..50_000).for_each(|_| info_span!("child").in_scope(|| ()));
            assert!(guard.finish().is_err(), "the file is the parent's");
            process::exit(7);
        }
        info_span!("parent").in_scope(|| ());
        let mut status = 0;
        // SAFETY: the pointer is to a live integer.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7, "status {status:#x}");
        assert_eq!(guard.finish().unwrap().written, 1);
    }

    /// Ends the program in this way, in three spans.
    fn end(way: &str, path: &Path) {
        if way == "fork" {
            return fork(path);
        }
        if let Some(way) = way.strip_prefix("box ") {
            return end_in_black_box(way, path);
        }
        if way == "flight" {
            let recorder = FlightRecorder::builder().with_fields().build();
            recorder.write_on_panic(path);
            let layer = SpanTimingLayer::new().with_sink(recorder);
            tracing::subscriber::set_global_default(registry().with(layer)).unwrap();
            in_spans(|| panic!("for the test"));
        }
        if way == "kill" {
            let builder = Chrome::builder().flush_every(Duration::from_millis(1)).with_fields();
            let (chrome, _guard) = builder.create(path).unwrap();
            let layer = SpanTimingLayer::new().with_sink(chrome);
            tracing::subscriber::set_global_default(registry().with(layer)).unwrap();
            for number in 0_u64.. {
                let text = "x".repeat(usize::try_from(number % 300).unwrap());
                info_span!("work", number, text).in_scope(|| info_span!("more").in_scope(|| ()));
            }
        }
        // A signal's handler wakes nobody. The writer must find the request by itself.
        let by_signal = matches!(way, "abort" | "segfault");
        let flush_every = if by_signal { Duration::from_millis(20) } else { NEVER };
        let builder = Chrome::builder().with_fields().flush_every(flush_every);
        let builder = if way == "panic" { builder.flush_on_panic() } else { builder };
        let (chrome, guard) = builder.create(path).unwrap();
        if by_signal {
            FLUSHER.set(guard.flusher()).unwrap();
            handle(libc::SIGABRT);
            handle(libc::SIGSEGV);
        }
        let layer = SpanTimingLayer::new().with_sink(chrome);
        tracing::subscriber::set_global_default(registry().with(layer)).unwrap();
        mem::forget(guard);
        in_spans(|| crash(way));
    }

    fn crash(way: &str) {
        match way {
            "killed" => {
                // SAFETY: no precondition.
                unsafe { libc::raise(libc::SIGKILL) };
            }
            "abort" => process::abort(),
            "segfault" => {
                let nowhere = std::hint::black_box(std::ptr::null::<u8>());
                // SAFETY: none: the test wants this access to kill the program.
                std::hint::black_box(unsafe { nowhere.read_volatile() });
            }
            "exit" => process::exit(7),
            "panic" => panic!("for the test"),
            "panic that aborts" => {
                extern "C" fn no_unwind() {
                    panic!("for the test");
                }
                no_unwind();
            }
            _ => {}
        }
    }

    fn end_in_black_box(way: &str, path: &Path) {
        let builder = FlightRecorder::builder().with_fields().bytes_per_thread(1);
        if way == "work" {
            let recorder = builder.create(path, 1).unwrap();
            let layer = SpanTimingLayer::new().with_sink(recorder);
            tracing::subscriber::set_global_default(registry().with(layer)).unwrap();
            for number in 0_u64.. {
                info_span!("work", number).in_scope(|| ());
            }
        }
        let builder = builder.tracks(Tracks::ThreadsAndRequests).with_source_locations();
        let recorder = builder.create(path, 4).unwrap();
        let layer = SpanTimingLayer::new().with_sink(recorder.clone());
        tracing::subscriber::set_global_default(registry().with(layer)).unwrap();
        in_spans(|| match way {
            "fork" => fork_from_black_box(&recorder, path),
            way => crash(way),
        });
    }

    /// The child's spans are not in its parent's file, which another process may replace while the
    /// child lives.
    fn fork_from_black_box(recorder: &FlightRecorder, path: &Path) {
        // SAFETY: the process has one thread.
        let child = unsafe { libc::fork() };
        if child == 0 {
            thread::spawn(|| info_span!("thread of the child").in_scope(|| ())).join().unwrap();
            (0..5_000).for_each(|_| info_span!("child").in_scope(|| ()));
            let summary = recorder.write_to(io::sink()).unwrap();
            assert!(summary.dropped > 0 && summary.damaged == 0, "{summary:?}");
            let error = FlightRecorder::builder().create(path, 1).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ResourceBusy, "{error}");
            process::exit(7);
        }
        let mut status = 0;
        // SAFETY: the pointer is to a live integer.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7, "status {status:#x}");
    }

    fn in_spans(end: impl FnOnce()) {
        mem::forget(info_span!("server").entered());
        info_span!("done").in_scope(|| ());
        mem::forget(info_span!("request", user = 7).entered());
        mem::forget(info_span!("crash").entered());
        info!("the last words");
        end();
    }

    static FLUSHER: OnceLock<Flusher> = OnceLock::new();

    extern "C" fn flush(signal: libc::c_int) {
        if let Some(flusher) = FLUSHER.get() {
            flusher.flush_in_signal_handler(Duration::from_secs(60));
        }
        // SAFETY: `signal` may be called in a handler. The signal then ends the program: abort
        // raises it again, and the instruction that segfaults is executed again.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }

    fn handle(signal: libc::c_int) {
        let handler: extern "C" fn(libc::c_int) = flush;
        // SAFETY: the handler only does what a handler may.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
}
