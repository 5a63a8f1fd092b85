//! The lane `deep`: checks for each change. They prove more than tests do, or show that the crates
//! can be published.

use super::{Lane, by_oldest_compiler, published, workspaces};
use crate::step::Step;

pub(super) fn steps() -> Vec<Step> {
    let mut steps = alone();
    steps.extend(beside_others().into_iter().map(Step::beside_others));
    steps.extend(models());
    steps.extend(workspaces::clippy(Lane::Deep));
    steps.extend(outside_of_the_workspace());
    steps.extend(dependencies());
    steps
}

/// Steps that measure or wait for a guest. They have the machine to themselves.
fn alone() -> Vec<Step> {
    vec![
        // Tests of the code that users run.
        Step::new("tests, optimised", ["cargo", "test"])
            .args(["-p", "tickline-core", "-p", "tickline-page"])
            .args(["-p", "tickline-utc", "-p", "tickline"])
            .args(["--release", "--all-features"])
            .args(["--no-fail-fast", "--", "--show-output"]),
        // Each example prints what its head says.
        Step::new("examples run", ["cargo", "xtask", "examples"]),
        // A browser draws the report without an error.
        Step::new("the report in a browser", ["cargo", "xtask", "report"])
            .needs(["chromium", "--version"]),
        // Guests in which most can go wrong: other rights, a rejected TSC, clocksources that are
        // switched, steps, a sleep, a daemon that dies. This takes three minutes.
        Step::new("real kernels with bad clocks", ["cargo", "xtask", "vm"])
            .args(["asked", "served", "hpet_rejected", "switched"])
            .args(["set_clock", "suspended", "utc_died"])
            .prepare_by(["cargo", "xtask", "vm", "--prepare"]),
    ]
}

/// Steps that run one after the other, beside those that follow. They measure nothing.
fn beside_others() -> Vec<Step> {
    vec![
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
            .env("MIRIFLAGS", "-Zmiri-ignore-leaks"),
        // The same of the clock, with std's clocks. This takes half a minute.
        miri("Miri on tickline")
            .args(["-p", "tickline", "-p", "tickline-page"])
            .args(["--features", "tickline/mock,tickline-page/clock"])
            .args(["--test", "portable", "--test", "clock"])
            .args(["--", "--show-output"]),
        // Loom runs the models in `crates/tickline-core/src/loom_tests/` and, for leases, in
        // `machine/tickline-page/src/lease/loom_tests.rs`. It tries their interleavings, and every
        // value that the orderings let an atomic load return. The head of core's models says what
        // loom can't see. The build has a directory of its own, because its other flags would make
        // cargo build everything again, here and in the next step.
        Step::new("loom on core and leases", ["cargo", "test"])
            .args(["-p", "tickline-core", "-p", "tickline-page", "--lib"])
            .args(["--release", "--target-dir", "target/loom"])
            .args(["--", "--show-output"])
            .only_tests(["loom_tests"])
            .env("RUSTFLAGS", "--cfg loom"),
        // The lane `nightly` runs tests with it.
        by_oldest_compiler("oldest supported compiler", "check")
            .args(["--all-features"])
            .args(published()),
    ]
}

/// What is simulated, mutated, or only tried. A build or Miri may disturb these steps, and those of
/// the next lists.
fn models() -> Vec<Step> {
    vec![
        // No reading of a random scenario breaks a rule of order or leaves its bounds.
        Step::new(
            "simulated machines, 500 million steps",
            ["cargo", "xtask", "sim", "--steps", "500000000"],
        ),
        Step::new(
            "simulated machines: limits, any scenario",
            ["cargo", "test", "--profile", "sim", "-p", "tickline-sim"],
        )
        .args(["--no-fail-fast", "--", "--show-output"]),
        Step::new(
            "a test goes red for one rule in twenty that is taken out",
            ["cargo", "xtask", "mutate", "--sample"],
        ),
    ]
}

/// Programs that are no part of the workspace, and machines that this one only emulates.
fn outside_of_the_workspace() -> Vec<Step> {
    vec![
        // Core works without an operating system. This takes 4 s, 3 of them for the machine.
        Step::new("a clock on a bare machine", ["cargo", "xtask", "bare"])
            .needs(["qemu-system-x86_64", "--version"])
            .prepare_by(["rustup", "target", "add", "x86_64-unknown-none"]),
        Step::new("fuzz targets build", ["cargo", "+nightly", "fuzz", "build"])
            .args(["-s", "none"])
            .needs(FUZZ)
            .needs(CPP),
        fuzz("fuzz control", "control"),
        fuzz("fuzz page", "page"),
        // The systems and processors of most users. Their tests run in the lane `nightly`.
        Step::new("Windows and aarch64 compile", ["cargo", "check"])
            .args(["--target", "x86_64-pc-windows-gnu"])
            .args(["--target", "aarch64-unknown-linux-gnu"])
            .args(published())
            .prepare_by(["rustup", "target", "add", "x86_64-pc-windows-gnu"])
            .prepare_by(["rustup", "target", "add", "aarch64-unknown-linux-gnu"]),
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

/// What a step with fuzzing needs.
const FUZZ: [&str; 4] = ["cargo", "+nightly", "fuzz", "--version"];

/// libFuzzer is C++.
const CPP: [&str; 2] = ["c++", "--version"];

/// Tests under Miri.
pub(super) fn miri(name: &'static str) -> Step {
    Step::new(name, ["cargo", "+nightly", "miri", "test"])
        .needs(["cargo", "+nightly", "miri", "--version"])
        .prepare_by(["cargo", "+nightly", "miri", "setup"])
}

/// Runs a fuzz target for a second or two: its committed corpus, and a fixed number of mutations.
/// New inputs go to the first folder, so that a check does not change the tree. There is no
/// sanitizer, because the unsafe code in core is a few instructions that no sanitizer covers.
fn fuzz(name: &'static str, target: &str) -> Step {
    let new = format!("fuzz/target/new/{target}");
    let corpus = format!("fuzz/corpus/{target}");
    Step::new(name, ["cargo", "+nightly", "fuzz", "run", "-s", "none"])
        .args([target, &new, &corpus])
        .args(["--", "-seed=1", "-max_len=1024", "-runs=20000"])
        .needs(FUZZ)
        .needs(CPP)
        .prepare_by(["mkdir", "-p", &new])
}
