//! The lane `deep`: checks for each change. They prove more than tests do, or show that the crates
//! can be published.

use super::{Lane, by_oldest_compiler, published, workspaces};
use crate::step::Step;

pub(super) fn steps() -> Vec<Step> {
    let mut steps = alone();
    steps.extend(beside_others().into_iter().map(Step::beside_others));
    steps.extend(outputs());
    steps.extend(models());
    steps.extend(workspaces::clippy(Lane::Deep));
    steps.extend(outside_of_the_workspace());
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
        // Guests in which most can go wrong: other rights, a rejected TSC, clocksources that are
        // switched, steps, a sleep. This takes two minutes. Those with daemons take minutes each,
        // and run in the lane `nightly`.
        Step::new("real kernels with bad clocks", ["cargo", "xtask", "vm"])
            .args(["asked", "served", "hpet_rejected", "switched"])
            .args(["set_clock", "suspended"])
            .prepare_by(["cargo", "xtask", "vm", "--prepare"]),
    ]
}

/// Steps that run one after the other, beside those that follow. They measure nothing.
fn beside_others() -> Vec<Step> {
    vec![
        // The unsafe code of core and leases. The lane `nightly` runs all their tests, which take
        // ten minutes, and says what Miri does not check.
        miri("Miri on cells, states and locks")
            .args(["-p", "tickline-core", "-p", "tickline-page", "--lib"])
            .args(["--", "--show-output"])
            .only_tests(["cell::", "state::", "try_lock::", "word::"])
            .env("MIRIFLAGS", "-Zmiri-ignore-leaks"),
        // The unsafe code of the clock, with std's clocks. This takes half a minute.
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

/// What programs print and draw. A build or Miri may disturb these steps, and those of the next
/// lists.
fn outputs() -> Vec<Step> {
    vec![
        // Each example prints what its head says.
        Step::new("examples run", ["cargo", "xtask", "examples"]),
        // A browser draws the report without an error.
        Step::new("the report in a browser", ["cargo", "xtask", "report"])
            .needs(["chromium", "--version"]),
    ]
}

/// What is simulated.
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
            // One dependency has C code, which `check` compiles and never links. So this
            // machine's compiler serves, and none for the other targets is installed.
            .env("CC_x86_64_pc_windows_gnu", "cc")
            .env("CC_aarch64_unknown_linux_gnu", "cc")
            .prepare_by(["rustup", "target", "add", "x86_64-pc-windows-gnu"])
            .prepare_by(["rustup", "target", "add", "aarch64-unknown-linux-gnu"]),
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
