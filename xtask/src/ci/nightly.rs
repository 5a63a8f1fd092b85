//! The lane `nightly`: checks that take too long for every change. `docs/nightly.md` has the last
//! result of each step, and the times. `--write` stores a table in the documentation.

use super::deep::miri;
use super::results::{CRITERION, LIBRARY_TESTS, PROGRAM};
use super::{Lane, by_oldest_compiler, published, workspaces};
use crate::step::Step;

pub(super) fn steps() -> Vec<Step> {
    let quiet = on_a_quiet_machine().into_iter();
    let mut steps: Vec<Step> = quiet.map(|step| step.without(LIBRARY_TESTS)).collect();
    steps.extend(sanitizers());
    steps.extend(commands());
    steps.extend(long_tests());
    steps.extend(workspaces::clippy(Lane::Nightly));
    steps.extend(other_builds());
    steps.extend(packages());
    steps.extend(dependencies());
    steps
}

/// Guests and measurements, which need a quiet machine. They come first, so that the machine may do
/// other work after them.
fn on_a_quiet_machine() -> Vec<Step> {
    vec![
        Step::new("every guest", ["cargo", "xtask", "vm", "--write"]).without(CRITERION),
        Step::new("programs on Debian, served", ["cargo", "xtask", "vm"])
            .args(["--programs", "--write"])
            .without(CRITERION),
        Step::new(
            "everything at once, ten minutes",
            ["cargo", "xtask", "soak", "--minutes", "10"],
        )
        .without(PROGRAM),
        // Most of the time goes into the build of Perfetto's generated types.
        Step::new("a server's trace, interval by interval", ["cargo", "run"])
            .args(["--release"])
            .args(["--manifest-path", "tests/traced-server/Cargo.toml"])
            .without(PROGRAM)
            .without(CRITERION),
    ]
}

/// The tests of the libraries under ThreadSanitizer and AddressSanitizer, with a standard library
/// built for the sanitizer. They leave out doc tests, the libraries without unsafe code
/// (tickline-quanta, tickline-criterion), and the tests of three lists below.
///
/// The sanitizers do not see accesses in assembly (the reads of the counter), memory that the
/// kernel writes, and code that no test executes. Forked children make threads, and an option makes
/// ThreadSanitizer accept this. A test asks for more memory than there is, and an option makes the
/// runtimes refuse it as the system does. Core's tests leak their machines on purpose.
fn sanitizers() -> [Step; 4] {
    [
        core_and_leases("core and leases under ThreadSanitizer", "thread"),
        core_and_leases("core and leases under AddressSanitizer", "address")
            .env("ASAN_OPTIONS", "detect_leaks=0"),
        clocks("tickline, tracing and UTC under ThreadSanitizer", "thread")
            .args(skip(SKIPPED_BY_THREAD_SANITIZER))
            .env(
                "TSAN_OPTIONS",
                "die_after_fork=0 allocator_may_return_null=1",
            ),
        clocks(
            "tickline, tracing and UTC under AddressSanitizer",
            "address",
        )
        .args(skip(SKIPPED_BY_ADDRESS_SANITIZER))
        .env("ASAN_OPTIONS", "allocator_may_return_null=1"),
    ]
}

fn core_and_leases(name: &'static str, sanitizer: &str) -> Step {
    sanitized(name, sanitizer)
        .args(["-p", "tickline-core", "-p", "tickline-page", "--lib"])
        .args(["--no-fail-fast", "--", "--show-output"])
        .without(LIBRARY_TESTS)
}

/// The libraries with real clocks.
fn clocks(name: &'static str, sanitizer: &str) -> Step {
    sanitized(name, sanitizer)
        .args(["-p", "tickline", "-p", "tickline-tracing"])
        .args(["-p", "tickline-utc", "--lib", "--tests"])
        .args(["--no-fail-fast", "--", "--show-output"])
        .args(skip(SKIPPED))
}

/// Tests that can't pass under either sanitizer.
const SKIPPED: &[&str] = &[
    // Their programs crash, and the runtimes have handlers of their own (`tests/crash/` of
    // tracing).
    "last_moment::",
    // Its program forgets the guard of a thread that has ended: ThreadSanitizer reports the thread,
    // AddressSanitizer the memory.
    "a_trace_file_that_a_panic_cannot_flush_is_reported",
    // They measure stack frames, which the sanitizer enlarges.
    "readings_need_little_stack",
    "maintaining_needs_little_stack",
    // Two processes in one memory share the runtime's own state, which has no lock between
    // processes.
    "two_processes_in_one_memory_do_not_iterate_at_once",
    "two_processes_in_one_memory_do_not_start_at_once",
    // The library is built without the sanitizer's own standard library.
    "an_unloaded_library_leaves_no_memory",
    "an_unloaded_library_stays_mapped_while_a_thread_runs_its_code",
    // The runtimes hold locks of their own when a child is forked while other threads begin.
    "a_child_that_is_forked_while_a_thread_begins_can_start",
    "a_child_that_is_forked_while_a_thread_begins_can_pin_one",
    "a_child_that_is_forked_while_a_thread_begins_can_write_a_trace",
    "a_child_that_is_forked_while_a_thread_begins_can_write_in_the_background",
    "a_child_with_its_parents_process_id_cannot_finish_its_trace",
    "a_child_with_its_parents_process_id_may_write_while_its_parent_does",
    "a_child_with_its_parents_process_id_waits_for_no_flush",
    // Their processes lack the right to the counter or to some system calls, and the runtimes use
    // them (`life.rs`, `seccomp.rs`; `denied.rs` of UTC).
    "a_process_without_the_right_to_the_counter_has_a_clock",
    "a_process_without_the_right_to_the_counter_may_ask",
    "a_process_without_the_right_to_the_counter_can_wait_for_a_clock",
    "minimal_probes_live_under_a_filter_that_kills",
    "full_probes_are_killed_by_the_same_filter",
    // Their threads end by a bare system call: ThreadSanitizer does not see the end, and
    // AddressSanitizer finds what they do not free.
    "a_panic_does_not_wait_for_a_thread_that_was_killed_while_it_wrote",
    "a_flush_fails_if_the_writer_was_killed",
    "a_flush_in_a_signal_handler_fails_if_the_writer_was_killed",
    "the_end_of_a_trace_says_that_the_writer_was_killed",
    "a_guard_that_is_dropped_says_that_the_writer_was_killed",
    "no_thread_waits_for_room_if_the_writer_was_killed",
    // Its filter kills a thread at `sched_getaffinity`, which the runtimes call when any thread
    // begins.
    "a_comparison_whose_thread_is_killed_is_impossible",
];

const SKIPPED_BY_THREAD_SANITIZER: &[&str] = &[
    // ThreadSanitizer does not see that a thread ends by a bare system call.
    "the_kernel_marks_the_futex_of_a_thread_that_ends_without_returning",
    // Nor does it see that a filter has killed a thread. The kernel orders the stores of the thread
    // before its end, and its end before the answer to another thread, which then takes the lock
    // over (`LockToken::of_thread`; `thread_end.rs`). ThreadSanitizer reports the content of the
    // lock as a race.
    "a_thread_that_is_killed_in_an_iteration_costs_the_others_nothing",
    "a_thread_that_is_killed_while_it_collects_the_facts_costs_the_others_nothing",
    "a_thread_that_is_killed_in_a_start_leaves_no_thread_behind",
    // It finds its own state of a thread in use by the process that shares the memory.
    "a_process_in_the_same_memory_does_not_say_that_the_others_thread_has_ended",
];

const SKIPPED_BY_ADDRESS_SANITIZER: &[&str] = &[
    // Their processes lack the right to system calls that the runtime uses (`seccomp.rs`).
    "the_global_clock_may_be_calibrated_before_the_filter",
    "without_a_thread_a_clock_needs_two_system_calls",
    // Their threads end by a bare system call, and free nothing.
    "a_late_thread_does_not_release_its_successors_futex",
    "a_thread_that_is_killed_late_but_before_it_begins_is_not_joined",
    "a_comparison_whose_thread_has_ended_at_once_does_not_run",
    // A filter kills the thread that makes another one. The runtime holds a lock of its own then.
    "a_start_that_is_killed_leaves_the_clock_to_readers",
    // They have no descriptors left for the search for leaks.
    "errno_survives_a_reading",
    "errno_survives_a_judgement",
    "errno_survives_a_review",
    "a_clocksource_that_cannot_be_read_closes_a_gate",
    "a_review_that_cannot_read_the_clocksource_closes_a_gate",
];

/// Tests under a sanitizer. With a little optimisation they take a fifth of the time.
fn sanitized(name: &'static str, sanitizer: &str) -> Step {
    Step::new(name, ["cargo", "+nightly", "test", "-Zbuild-std"])
        .args(["--target", "x86_64-unknown-linux-gnu"])
        .args(["--target-dir", &format!("target/sanitize-{sanitizer}")])
        .env("RUSTFLAGS", &format!("-Zsanitizer={sanitizer}"))
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
        .env("PROPTEST_CASES", "16")
        .without(PROGRAM)
        .without(CRITERION)
        .prepare_by([
            "rustup",
            "component",
            "add",
            "rust-src",
            "--toolchain",
            "nightly",
        ])
}

/// The options that leave out these tests.
fn skip(tests: &'static [&'static str]) -> impl Iterator<Item = &'static str> {
    tests.iter().flat_map(|test| ["--skip", *test])
}

/// Commands of their own: mutants, targets, ports, measurements.
fn commands() -> Vec<Step> {
    vec![
        Step::new(
            "a test goes red for each rule that is taken out",
            ["cargo", "xtask", "mutate"],
        )
        .without(PROGRAM)
        .without(LIBRARY_TESTS)
        .without(CRITERION),
        // Unit tests, integration tests and doc tests under emulators.
        Step::new("every target", ["cargo", "xtask", "targets", "--write"]),
        Step::new("published programs", ["cargo", "xtask", "ports"])
            .without(PROGRAM)
            .without(LIBRARY_TESTS)
            .without(CRITERION),
        // If it fails, measure on a quiet machine (`cargo xtask record`).
        Step::new(
            "the figures are of the present code",
            ["cargo", "xtask", "record", "--check"],
        )
        .without(LIBRARY_TESTS),
        Step::new(
            "every measurement runs, and fits the tables",
            ["cargo", "xtask", "record", "--smoke"],
        )
        .without(LIBRARY_TESTS),
    ]
}

/// Tests that other lanes run for a shorter time, or not at all.
fn long_tests() -> Vec<Step> {
    vec![
        Step::new("tests of the traced server", ["cargo", "test", "--release"])
            .args(["--manifest-path", "tests/traced-server/Cargo.toml"])
            .args(["--", "--show-output"])
            .without(PROGRAM)
            .without(LIBRARY_TESTS)
            .without(CRITERION),
        Step::new("tests of the peers", ["cargo", "test", "--release"])
            .args(["--manifest-path", "benches/peers/Cargo.toml"])
            .args(["--", "--show-output"])
            .without(PROGRAM)
            .without(LIBRARY_TESTS),
        Step::new(
            "leases: one more preemption",
            ["cargo", "test", "--release"],
        )
        .args(["-p", "tickline-sim", "--test", "lease"])
        .args(["--", "--ignored", "--show-output"])
        .without(PROGRAM)
        .without(LIBRARY_TESTS)
        .without(CRITERION),
        Step::new(
            "exchanges while a page's server is stopped",
            ["cargo", "test", "-p", "tickline-cli", "--test", "exchange"],
        )
        .args(["--", "--nocapture"])
        .only_tests(["no_step_back"])
        .env("TICKLINE_TEST_ROUNDS", "10")
        .without(LIBRARY_TESTS)
        .without(CRITERION),
        // 501 kills of the server.
        Step::new(
            "forked children while a page's server is killed",
            [
                "cargo",
                "test",
                "-p",
                "tickline-cli",
                "--test",
                "run_served",
            ],
        )
        .args(["--", "--nocapture"])
        .only_tests(["no_forked_child"])
        .env("TICKLINE_TEST_ROUNDS", "167")
        .without(LIBRARY_TESTS)
        .without(CRITERION),
        // Miri finds undefined behaviour and data races in the code that the unit tests of core and
        // leases execute. Tests leak their machines on purpose (`testing.rs`). Some loops are
        // shorter under `cfg!(miri)`, and core's clocks have an interval of 4 ms (`testing.rs`), so
        // that no test takes a minute.
        //
        // Miri does not check:
        // - the counters and the state's swap in assembly (the portable state replaces the swap);
        // - a real counter or a real OS clock;
        // - the tests of `control`, `driver`, `per_cpu`, `properties`, `shared/high_water.rs`,
        //   `counter/resolution.rs` and `counter/extended.rs`, which are not compiled for Miri:
        //   they would take minutes, and other tests reach all their unsafe code;
        // - most interleavings, because a run has one schedule;
        // - tickline's calls of the OS: under Miri it uses std's clocks, and its tests there only
        //   make calls that every program makes;
        // - core's doc tests, which have no unsafe code.
        miri("Miri on core and leases")
            .args(["-p", "tickline-core", "-p", "tickline-page", "--lib"])
            .args(["--", "--show-output"])
            .env("MIRIFLAGS", "-Zmiri-ignore-leaks")
            .without(PROGRAM)
            .without(LIBRARY_TESTS)
            .without(CRITERION),
        // Miri tries four schedules, and different values that the orderings let loads return.
        // `mutate` weakens each ordering, with more seeds. Miri never lets a load return a later
        // store, and never reorders the stores to one atomic. This takes two minutes.
        miri("Miri on orderings outside of core")
            .args(["-p", "tickline", "-p", "tickline-quanta"])
            .args(["-p", "tickline-tracing", "-p", "tickline-utc"])
            .args(["--lib", "--", "--show-output"])
            .only_tests(["ordering_"])
            .env("MIRIFLAGS", "-Zmiri-many-seeds=0..4")
            .without(PROGRAM),
        // The tests of the trace file make ten million spans only here. The other tests do so in
        // every optimised build.
        Step::new("ten million spans", ["cargo", "test"])
            .args(["-p", "tickline-tracing", "--release", "--test", "it"])
            .args(["--", "--show-output"])
            .only_tests([
                "no_span_of_any_thread_is_lost_or_has_a_wrong_time",
                "a_file_from_eight_threads_is_balanced",
            ])
            .env("TICKLINE_TEST_SPANS", "10000000")
            .without(PROGRAM)
            .without(CRITERION),
    ]
}

/// What else can be wrong with the crates as users get them.
fn packages() -> Vec<Step> {
    vec![
        // All dependencies are built once more, in a folder of their own: two minutes of CPU time.
        Step::new(
            "packages build by themselves, without a warning",
            ["cargo", "xtask", "publish"],
        ),
        // This check has a lock file of its own, with the oldest version of each dependency that
        // `Cargo.toml` admits.
        Step::new("oldest versions of dependencies", ["cargo", "+nightly"])
            .args(["check", "--config", OLDEST_LOCK, "--all-features"])
            .args(["--target-dir", "target/nightly"])
            .args(published())
            .prepare_by(["mkdir", "-p", "target/minimal-versions"])
            .prepare_by([
                "cargo",
                "+nightly",
                "update",
                "--config",
                OLDEST_LOCK,
                "-Z",
                "direct-minimal-versions",
            ]),
        // No feature needs another one that it does not name.
        Step::new("every two features", ["cargo", "hack", "check"])
            .args(["--feature-powerset", "--depth", "2", "--quiet"])
            .args(published())
            .needs(["cargo", "hack", "--version"]),
        // The benchmarks work; nothing is measured.
        Step::new("benches of tickline-criterion run", ["cargo", "bench"])
            .args(["-p", "tickline-criterion", "--", "--test"])
            .without(PROGRAM),
    ]
}

/// What the crates depend on.
fn dependencies() -> Vec<Step> {
    vec![
        Step::new("licences, sources, duplicates", ["cargo", "deny"])
            .args(["--workspace", "check", "--hide-inclusion-graph"])
            .args(["licenses", "sources", "bans"])
            .needs(["cargo", "deny", "--version"]),
        // No dependency has a known vulnerability.
        Step::new("advisories", ["cargo", "deny", "--workspace"])
            .args(["check", "--disable-fetch", "advisories"])
            .needs(["cargo", "deny", "--version"])
            .prepare_by(["cargo", "deny", "--workspace", "fetch", "db"]),
    ]
}

/// Other compilers, and other features.
fn other_builds() -> Vec<Step> {
    vec![
        by_oldest_compiler("tests by the oldest supported compiler", "test")
            .args(["-p", "tickline-core", "-p", "tickline-page"])
            .args(["-p", "tickline-utc", "-p", "tickline"])
            .args(["--lib", "--tests", "--", "--show-output"])
            .without(PROGRAM)
            .without(CRITERION),
        Step::new("clippy, default features", ["cargo", "clippy"])
            .args(["--workspace", "--all-targets"])
            .args(["--", "-D", "warnings"]),
        // This shows warnings of future compilers.
        Step::new("clippy, nightly", ["cargo", "+nightly", "clippy"])
            .args(["--workspace", "--all-targets", "--all-features"])
            .args(["--target-dir", "target/nightly", "--", "-D", "warnings"])
            .needs(["cargo", "+nightly", "clippy", "--version"]),
        Step::new("docs, nightly", ["cargo", "+nightly", "doc"])
            .args(["--workspace", "--no-deps", "--all-features"])
            .args(["--target-dir", "target/nightly"])
            .env("RUSTDOCFLAGS", "-D warnings")
            .needs(["rustdoc", "+nightly", "--version"])
            .without(LIBRARY_TESTS),
    ]
}

/// The setting of the lock file of "oldest versions of dependencies".
const OLDEST_LOCK: &str = r#"resolver.lockfile-path="target/minimal-versions/Cargo.lock""#;
