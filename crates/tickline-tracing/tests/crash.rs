//! Programs that abort, segfault, exit, panic and leak their guard: the span in which that
//! happened, those around it and the last event are in the file. One that forks: the child's are
//! not. One that is killed: the file is valid.
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
    use std::os::unix::process::ExitStatusExt as _;
    use std::path::Path;
    use std::process::Command;
    use std::sync::OnceLock;
    use std::time::Duration;
    use std::{env, fs, mem, process, thread};

    use serde_json::Value;
    use tickline_tracing::SpanTimingLayer;
    use tickline_tracing::chrome::{Chrome, Flusher};
    use tickline_tracing::flight::FlightRecorder;
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
            let path = env::temp_dir().join(format!("tickline-tracing-{way}-{}.json", process::id()));
            let program = env::current_exe().unwrap();
            let output = Command::new(program).arg(&path).env(VICTIM, way).output().unwrap();
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            let ended = output.status.code().ok_or_else(|| output.status.signal());
            assert_eq!(ended, expected, "{way}: {}: {error}", output.status);
            check(way, &path);
            fs::remove_file(&path).unwrap();
            println!("{way}: the last moment is in the file");
        }
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
        in_spans(|| match way {
            "abort" => process::abort(),
            "segfault" => {
                let nowhere = std::hint::black_box(std::ptr::null::<u8>());
                // SAFETY: none: the test wants this access to kill the program.
                std::hint::black_box(unsafe { nowhere.read_volatile() });
            }
            "exit" => process::exit(7),
            "panic" => panic!("for the test"),
            _ => {}
        });
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
