//! Helpers of the integration tests.
#![allow(dead_code, reason = "each test binary uses some of them")]

#[cfg(target_os = "linux")]
pub(crate) mod procfs;

use std::process::Command;
use std::time::{Duration, Instant};

use tickline::{Clock, ClockState, Driver, Event, Reason, Status};
#[cfg(target_os = "linux")]
use tickline_observe::Bounded;
#[cfg(unix)]
use tickline_observe::fork::{CANNOT, code_of_fork, watch_over};
pub(crate) use tickline_observe::skip;

const CHILD: &str = "TICKLINE_TEST_CHILD";

/// The beginning of the line of [`skip`].
const SKIPPED: &str = "SKIPPED: ";

/// The program that emulates this target, if there is one.
const RUNNER: &str = "TICKLINE_TEST_RUNNER";

/// Whether this is unoptimised code in an emulator, where an iteration takes longer than the first
/// lines last. If so, reports that the test is skipped.
pub(crate) fn skipped_as_too_slow() -> bool {
    const WHY: &str = "an iteration takes longer than the first lines last";
    cfg!(debug_assertions)
        && skipped_with_a_runner(&format!("unoptimised code: {WHY}. Add --release"))
}

/// Whether this runs in a user-mode emulator. QEMU accepts `MADV_WIPEONFORK` without effect, and
/// keeps some signals for itself. Reports that the test is skipped.
pub(crate) fn skipped_in_an_emulator() -> bool {
    skipped_with_a_runner("it does not do what a kernel does here")
}

fn skipped_with_a_runner(why: &str) -> bool {
    let has_runner = std::env::var_os(RUNNER).is_some();
    if has_runner {
        skip(format_args!("in a user-mode emulator: {why}"));
    }
    has_runner
}

/// The arguments by which a test program runs only the test `name`.
pub(crate) const fn alone(name: &str) -> [&str; 4] {
    ["--exact", name, "--nocapture", "--test-threads=1"]
}

/// The test that runs in this child.
pub(crate) fn own_name() -> Option<String> {
    std::env::var(CHILD).ok()
}

/// The command that starts this test program again, and runs only the test `name` there: in the
/// same emulator, if there is one.
pub(crate) fn started_again(name: &str) -> Command {
    let own = std::env::current_exe().expect("this test's path");
    let mut command = match std::env::var_os(RUNNER) {
        None => Command::new(own),
        Some(runner) => {
            let mut emulator = Command::new(runner);
            emulator.arg(own);
            emulator
        }
    };
    command.args(alone(name)).env(CHILD, name);
    command
}

/// Runs `body`, a closure of a test, in a process of its own: that test, started again with
/// `environment`. Shows the child's output if it fails, and its skip messages in any case.
pub(crate) fn run_in_child<F: FnOnce()>(environment: &[(&str, &str)], body: F) {
    // The type of the closure is named after the test. Otherwise the child would run no test.
    let (_, name) = std::any::type_name::<F>().split_once("::").expect("a path");
    let name = name.trim_end_matches("::{{closure}}");
    if own_name().is_some_and(|child| child == name) {
        watch_over();
        body();
        return;
    }
    let output = started_again(name)
        .envs(environment.iter().copied())
        .output()
        .expect("this test, once more");
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        output.status.success(),
        "the child ended with {}:\n{text}",
        output.status
    );
    assert!(text.contains("1 passed"), "the child ran no test:\n{text}");
    for (at, _) in text.match_indices(SKIPPED) {
        skip(
            text[at + SKIPPED.len()..]
                .lines()
                .next()
                .unwrap_or_default(),
        );
    }
}

/// Like [`run_in_child`], but skips the test in an emulator.
pub(crate) fn run_in_child_of_a_kernel<F: FnOnce()>(environment: &[(&str, &str)], body: F) {
    if !skipped_in_an_emulator() {
        run_in_child(environment, body);
    }
}

#[cfg(not(unix))]
fn watch_over() {}

/// Installs a signal handler. The handler must be async-signal-safe, and have the type that `flags`
/// ask for.
#[cfg(unix)]
pub(crate) fn handle(signal: libc::c_int, handler: *const (), flags: libc::c_int) {
    // SAFETY: plain data; zeros mean no flags and an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = flags;
    // SAFETY: the action is valid, and the old one is not asked for.
    let result = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    assert_eq!(result, 0);
}

/// Runs `body` in a forked child. Panics if `body` panics.
#[cfg(unix)]
pub(crate) fn run_in_fork(body: impl FnOnce()) {
    let code = code_of_fork(|| {
        body();
        0
    });
    assert_eq!(code, 0);
}

/// Asserts that a child has ended with 0. If it has ended with [`CANNOT`], skips the test, and
/// reports `why`.
#[cfg(unix)]
pub(crate) fn assert_right_if_possible(why: &str, code: i32) {
    match code {
        0 => {}
        CANNOT => skip(why),
        code => panic!("the child ended with {code}"),
    }
}

/// Waits until the bounds of a reading, and `CLOCK_MONOTONIC` before and after it, have a moment in
/// common. After a jump, this takes a window or two.
#[cfg(target_os = "linux")]
#[track_caller]
pub(crate) fn wait_until_it_agrees_with_the_os(clock: &Clock) {
    wait_until(clock, || {
        (0..100).any(|_| Bounded::read(clock).missed_ns() == 0)
    });
}

/// Calls the clock until it is fast. `None`, with a message, behind a closed gate.
pub(crate) fn wait_until_fast(clock: &Clock) -> Option<()> {
    let start = Instant::now();
    loop {
        for _ in 0..100 {
            std::hint::black_box(clock.now());
        }
        let status = clock.status();
        let patient = start.elapsed() < Duration::from_secs(20);
        match status.state {
            ClockState::Fast => return Some(()),
            // The clock's thread will compare the CPUs' counters.
            ClockState::Fallback(Reason::Untested)
                if patient && status.driver == Some(Driver::Thread) => {}
            ClockState::Fallback(reason) => {
                skip(format_args!("no usable counter here: {reason}"));
                return None;
            }
            _ => assert!(patient, "still {status:?}"),
        }
    }
}

/// Makes an ordered reading, and stores it in `last_ns`, ns. Returns whether it is not below the
/// old one.
pub(crate) fn goes_on(clock: &Clock, last_ns: &mut u64) -> bool {
    let now_ns = clock.now_ordered().as_nanos();
    now_ns >= std::mem::replace(last_ns, now_ns)
}

/// Makes an ordered reading, and asserts that it is not below `last_ns`.
#[track_caller]
pub(crate) fn read_in_order(clock: &Clock, last_ns: &mut u64) {
    let before_ns = *last_ns;
    assert!(goes_on(clock, last_ns), "{last_ns} after {before_ns}");
}

/// Waits until `done` returns true, for at most 20 s.
#[track_caller]
pub(crate) fn wait_until(clock: &Clock, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "{:?}",
            clock.status()
        );
        std::thread::yield_now();
    }
}

/// Reads until `wanted` accepts the status, for at most 20 s. Many readings come before each
/// status: readers start a line only if calls are frequent, and a status takes longer than many
/// calls.
#[track_caller]
pub(crate) fn read_until<T>(
    clock: &Clock,
    read: impl Fn(&Clock) -> T,
    wanted: impl Fn(Status) -> bool,
) {
    wait_until(clock, || {
        (0..100).for_each(|_| _ = std::hint::black_box(read(clock)));
        wanted(clock.status())
    });
}

/// Waits for `count` more lines, and calls the clock meanwhile.
pub(crate) fn await_publications(clock: &Clock, count: u64) {
    let publications = |status: Status| status.events.get(Event::Replacement);
    let before = publications(clock.status());
    read_until(clock, Clock::now, |status| {
        publications(status) >= before + count
    });
}
