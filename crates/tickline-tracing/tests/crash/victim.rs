//! The program that ends. It is this test's own program, run once for each end.

#[cfg(target_os = "linux")]
use std::ffi::CString;
#[cfg(target_os = "linux")]
use std::fs;
#[cfg(target_os = "linux")]
use std::io::Write as _;
#[cfg(target_os = "linux")]
use std::os::unix::{ffi::OsStrExt, fs::OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;
use std::{env, io, mem, process, thread};

use tempfile::TempDir;
use tickline_tracing::SpanTimingLayer;
use tickline_tracing::flight::FlightRecorder;
use tickline_tracing::trace_file::{
    Flushed, Flusher, TraceFile, TraceFileBuilder, TraceFileGuard, Tracks,
};
use tracing::{info, info_span};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry;

/// The files of a program in its folder: its trace in both formats and compressed, the trace of
/// its recorder in memory after a panic, the file of its other recorder, and the trace of its
/// forked child.
pub(crate) const TRACE: &str = "trace.json";
pub(crate) const PERFETTO: &str = "trace.pftrace";
pub(crate) const COMPRESSED: &str = "compressed.pftrace";
pub(crate) const PANIC: &str = "panic.json";
pub(crate) const BOX: &str = "box";
pub(crate) const CHILD: &str = "child.json";

/// A folder that does not exist when something is to be written there.
pub(crate) const MISSING: &str = "missing";

/// The variable that names the end of a program.
const END: &str = "TICKLINE_TEST_CRASH";

/// A program that will end in this way, and its folder.
pub(crate) fn victim(way: End) -> (Command, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut victim = Command::new(env::current_exe().unwrap());
    victim.arg(folder.path()).env(END, format!("{way:?}"));
    (victim, folder)
}

/// How this program ends, and its folder. `None` if it runs the tests.
pub(crate) fn end_of_this_program() -> Option<(End, PathBuf)> {
    let way = env::var(END).ok()?;
    let folder = env::args_os().nth(1)?;
    Some((End::from_name(&way), folder.into()))
}

/// The builder of the compressed trace. Without the feature, the trace is a second one.
fn compressed(builder: TraceFileBuilder) -> TraceFileBuilder {
    #[cfg(feature = "compression")]
    let builder = builder.format(tickline_tracing::trace_file::TraceFormat::CompressedPerfetto);
    builder
}

/// How a program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Abort,
    Segfault,
    /// It calls `exit`.
    Exit,
    /// Its main function returns, and the guard of its trace is leaked.
    Leak,
    Panic,
    /// A panic that can't unwind.
    PanicThatAborts,
    /// There is no folder for the trace of the recorder in memory.
    PanicWithoutFolder,
    /// Its recorders and traces are in no layer.
    PanicWithoutLayer,
    #[cfg(target_os = "linux")]
    PanicWithFullDisk,
    #[cfg(target_os = "linux")]
    PanicWithFullPipe,
    /// It forks, and both processes end.
    Fork,
    /// It waits until it is killed.
    Wait,
    /// It records spans until it is killed.
    Work,
    /// There is no folder for a trace that is written in the background.
    BackgroundWithoutFolder,
}

impl End {
    const ALL: &[Self] = &[
        Self::Abort,
        Self::Segfault,
        Self::Exit,
        Self::Leak,
        Self::Panic,
        Self::PanicThatAborts,
        Self::PanicWithoutFolder,
        Self::PanicWithoutLayer,
        #[cfg(target_os = "linux")]
        Self::PanicWithFullDisk,
        #[cfg(target_os = "linux")]
        Self::PanicWithFullPipe,
        Self::Fork,
        Self::Wait,
        Self::Work,
        Self::BackgroundWithoutFolder,
    ];

    pub(crate) fn is_panic(self) -> bool {
        match self {
            Self::Panic
            | Self::PanicThatAborts
            | Self::PanicWithoutFolder
            | Self::PanicWithoutLayer => true,
            #[cfg(target_os = "linux")]
            Self::PanicWithFullDisk | Self::PanicWithFullPipe => true,
            _ => false,
        }
    }

    /// The end whose `Debug` is this text.
    fn from_name(name: &str) -> Self {
        let named = |end: &&Self| format!("{end:?}") == name;
        *Self::ALL.iter().find(named).expect("an end")
    }
}

/// The time after which the traces are flushed.
fn flush_every(way: End) -> Duration {
    match way {
        End::Work => Duration::from_millis(1),
        End::Wait => Duration::from_millis(100),
        // A signal handler does not wake the writer, which must find the request by itself.
        End::Abort | End::Segfault => Duration::from_millis(20),
        // Longer than any test waits, so only the end of the program can flush the file.
        _ => Duration::from_secs(3_600),
    }
}

fn trace_builder(way: End) -> TraceFileBuilder {
    let builder = TraceFile::builder()
        .with_fields()
        .flush_on_panic()
        .flush_every(flush_every(way));
    if way == End::Fork {
        let builder = builder.with_cpu_time();
        builder.wait_when_full().bytes_per_thread(1)
    } else {
        builder
    }
}

/// The path of the trace in JSON. What must be there before the trace is made, is there.
fn path_of_trace(way: End, folder: &Path) -> PathBuf {
    let path = folder.join(TRACE);
    match way {
        #[cfg(target_os = "linux")]
        End::PanicWithFullDisk => return PathBuf::from("/dev/full"),
        #[cfg(target_os = "linux")]
        End::PanicWithFullPipe => mem::forget(full_pipe(&path)),
        _ => {}
    }
    path
}

/// The recorder in memory, whose trace is written when a thread panics.
fn recorder_in_memory(way: End, folder: &Path) -> FlightRecorder {
    let recorder = FlightRecorder::builder().with_fields().build().unwrap();
    if way == End::PanicWithoutFolder {
        // It must be there when the recorder is told its path.
        let folder = folder.join(MISSING);
        std::fs::create_dir(&folder).unwrap();
        recorder.write_on_panic(folder.join(PANIC)).unwrap();
        std::fs::remove_dir(folder).unwrap();
    } else {
        recorder.write_on_panic(folder.join(PANIC)).unwrap();
    }
    recorder
}

fn recorder_in_file(way: End, folder: &Path) -> FlightRecorder {
    let builder = FlightRecorder::builder()
        .with_fields()
        .with_source_locations();
    let builder = match way {
        End::Work => builder.keep_last(Duration::from_millis(1)),
        _ => builder
            .bytes_per_thread(1)
            .tracks(Tracks::ThreadsAndRequests),
    };
    let in_file = builder.in_file(folder.join(BOX)).threads(4);
    in_file.build().unwrap()
}

/// Ends the program in this way, in three spans.
pub(crate) fn end(way: End, folder: &Path) {
    let builder = trace_builder(way);
    let (trace, guard) = builder.clone().create(path_of_trace(way, folder)).unwrap();
    let (perfetto, perfetto_guard) = builder.clone().create(folder.join(PERFETTO)).unwrap();
    let builder = compressed(builder);
    let (compressed, compressed_guard) = builder.create(folder.join(COMPRESSED)).unwrap();
    if matches!(way, End::Abort | End::Segfault) {
        flush_in_signal_handlers([&guard, &perfetto_guard, &compressed_guard]);
    }
    mem::forget(perfetto_guard);
    mem::forget(compressed_guard);
    let in_file = recorder_in_file(way, folder);
    let layer = SpanTimingLayer::new()
        .with_sink(trace)
        .with_sink(perfetto)
        .with_sink(compressed)
        .with_sink(recorder_in_memory(way, folder))
        .with_sink(in_file.clone());
    if way != End::PanicWithoutLayer {
        tracing::subscriber::set_global_default(registry().with(layer)).unwrap();
    }
    if way == End::Work {
        for number in 0_u64.. {
            let text = "x".repeat(usize::try_from(number % 300).unwrap());
            info_span!("work", number, text).in_scope(|| ());
        }
    }
    mem::forget(info_span!("server").entered());
    info_span!("done").in_scope(|| ());
    mem::forget(info_span!("request", user = 7).entered());
    mem::forget(info_span!("crash").entered());
    info!("the last words");
    if way == End::Fork {
        return fork(guard, &in_file, folder);
    }
    mem::forget(guard);
    end_now(way, &in_file, folder);
}

fn end_now(way: End, in_file: &FlightRecorder, folder: &Path) {
    match way {
        End::Abort => process::abort(),
        End::Segfault => {
            let nowhere = std::hint::black_box(std::ptr::null::<u8>());
            // SAFETY: none: the test needs this access to kill the program.
            std::hint::black_box(unsafe { nowhere.read_volatile() });
        }
        End::Exit => process::exit(7),
        End::Panic | End::PanicWithoutFolder | End::PanicWithoutLayer => {
            panic!("for the \"test\"")
        }
        #[cfg(target_os = "linux")]
        End::PanicWithFullDisk | End::PanicWithFullPipe => panic!("for the \"test\""),
        End::PanicThatAborts => {
            extern "C" fn panic_without_unwind() {
                panic!("for the \"test\"");
            }
            panic_without_unwind();
        }
        End::Wait => thread::sleep(Duration::from_secs(3_600)),
        End::BackgroundWithoutFolder => {
            let path = folder.join(MISSING).join(PANIC);
            in_file
                .write_last_in_background(path, Duration::MAX)
                .unwrap();
            // The test ends the program once it has the error.
            thread::sleep(Duration::from_secs(30));
        }
        End::Leak | End::Fork | End::Work => {}
    }
}

/// Makes a named pipe without room, from which nobody reads. Other systems than Linux may refuse to
/// open one for both directions.
#[cfg(target_os = "linux")]
fn full_pipe(path: &Path) -> fs::File {
    let name = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: the pointer is to a text that ends with 0.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let mut options = fs::File::options();
    options.read(true).write(true);
    let mut pipe = options.custom_flags(libc::O_NONBLOCK).open(path).unwrap();
    while pipe.write(&[0]).is_ok() {}
    pipe
}

/// The CPU time that the program uses before it forks.
pub(crate) const BEFORE_FORK: Duration = Duration::from_millis(100);

/// Executes instructions until the thread has used this CPU time.
fn use_cpu(time: Duration) {
    let used = || {
        let mut used = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the pointer is to a live structure.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut used) };
        Duration::new(
            used.tv_sec.try_into().unwrap(),
            used.tv_nsec.try_into().unwrap(),
        )
    };
    while used() < time {}
}

/// The child's spans are in none of its parent's files, and the child can't take over the
/// recorder's file. Symptom: the child waited for ever once its ring was full, and panicked
/// when it dropped the guard.
fn fork(guard: TraceFileGuard, in_file: &FlightRecorder, folder: &Path) {
    use_cpu(BEFORE_FORK);
    // After a flush, the writer waits, and holds no lock.
    assert_eq!(
        guard.flusher().flush(Duration::from_secs(60)),
        Flushed::Written
    );
    // SAFETY: the other thread, the writer, holds no lock that the child needs.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: no precondition. The signal ends a child that waits for ever.
        unsafe { libc::alarm(60) };
        let own = TraceFile::builder().with_cpu_time();
        let (trace, own_guard) = own.create(folder.join(CHILD)).unwrap();
        let own_layer = SpanTimingLayer::new().with_sink(trace);
        tracing::subscriber::with_default(registry().with(own_layer), || {
            info_span!("child").in_scope(|| ());
        });
        own_guard.finish().unwrap();
        thread::spawn(|| info_span!("thread of the child").in_scope(|| ()))
            .join()
            .unwrap();
        (0..20_000).for_each(|_| info_span!("child").in_scope(|| ()));
        let summary = in_file.write_to(io::sink()).unwrap();
        assert!(
            summary.overwritten_records > 0 && summary.damaged_records == 0,
            "{summary:?}"
        );
        let error = FlightRecorder::builder()
            .in_file(folder.join(BOX))
            .threads(1)
            .build()
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy, "{error}");
        assert!(guard.finish().is_err(), "the file is the parent's");
        process::exit(7);
    }
    let mut status = 0;
    // SAFETY: the pointer is to a live integer.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7,
        "status {status:#x}"
    );
    assert_eq!(guard.finish().unwrap().intervals, 4);
}

static FLUSHERS: OnceLock<[Flusher; 3]> = OnceLock::new();

/// Flushes these traces when a signal ends the program.
fn flush_in_signal_handlers(guards: [&TraceFileGuard; 3]) {
    FLUSHERS.set(guards.map(TraceFileGuard::flusher)).unwrap();
    for signal in [libc::SIGABRT, libc::SIGSEGV] {
        let handler: extern "C" fn(libc::c_int) = flush;
        // SAFETY: the handler makes only async-signal-safe calls.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
}

extern "C" fn flush(signal: libc::c_int) {
    for flusher in FLUSHERS.get().into_iter().flatten() {
        _ = flusher.flush_in_signal_handler(Duration::from_secs(60));
    }
    // SAFETY: `signal` is async-signal-safe. The signal then ends the program: `abort` raises
    // it again, and the instruction that segfaults is executed again.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}
