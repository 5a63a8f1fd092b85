//! What CI checks.

use crate::publish;
use crate::step::Step;

const DENY: &[(&str, &str)] = &[("RUSTDOCFLAGS", "-D warnings")];

/// For the Chrome file; the other tests take so many in every optimised build.
const MANY_SPANS: &[(&str, &str)] = &[("TICKLINE_TEST_SPANS", "10000000")];

/// A minute for each way to stop a page's server.
const ROUNDS: &[(&str, &str)] = &[("TICKLINE_TEST_ROUNDS", "10")];

const NIGHTLY_CLIPPY: &[&str] = &["cargo +nightly clippy --version"];

/// Miri finds undefined behaviour and data races in what the unit tests of core and leases execute.
/// Tests leak their machines on purpose (`testing.rs`).
///
/// What it cannot see: the counters and the state's swap in assembly (the portable state takes its
/// place); a real counter or a real OS clock; the tests of `control`, `per_cpu` and
/// `shared/high_water.rs`, which are not compiled for it (minutes, and no unsafe code that other
/// tests do not reach); loops are shortened by `cfg!(miri)`, and core's clocks have an interval of
/// 4 ms (`testing.rs`), so that no test takes it a minute; one schedule a run, so most
/// interleavings; what `tickline` asks of the OS: under Miri it takes std's clocks, and its tests
/// there are those of the calls that every program makes; core's doc tests, which have no unsafe
/// code.
const MIRI: &[(&str, &str)] = &[("MIRIFLAGS", "-Zmiri-ignore-leaks")];

/// For the tests of orderings outside of core: eight schedules, and values that the orderings let
/// loads return. What Miri cannot see: a load that returns a later store; stores to one atomic in
/// another order than that in which they were made.
const MIRI_SEEDS: &[(&str, &str)] = &[("MIRIFLAGS", "-Zmiri-many-seeds=0..8")];

/// Loom runs the models in `crates/tickline-core/src/loom_tests/`, and those of leases in
/// `crates/tickline-page/src/lease/loom_tests.rs`, through their interleavings, and through every
/// value that the orderings let an atomic load return.
///
/// What it cannot see:
///
/// - a counter that the CPU reads early or late. A read of the modelled time sees everything that
///   was done before an earlier read returned, so fences, barriers, `MEETING_MARGIN_NS` and plain
///   `read` are not tested. For the same reason an ordering that only the counter needs could be
///   weakened unnoticed (`UNTOLD` in `mutate/table/orderings.rs`);
/// - the machine code of a clock's state. `state/modelled.rs` is an exact model of a 128-bit atomic,
///   and keeps the orderings that the instructions are documented to have. `state/portable.rs` has
///   models of its own. Whether a processor ever splits a load is a test of `state`, on hardware;
/// - most of the executions with more preemptions than a model's `check` allows, 3 to 5. The
///   cell's models of a reading, a high-water mark and a swap, the lock's, and that of a portable
///   swap have no bound;
/// - load buffering: relaxed loads that return later stores. Nor `SeqCst`, which loom treats as
///   `AcqRel` (its README, "Unsupported features"): no modelled access has it. Of the two
///   fences that have it, the one in `counter/extended.rs` binds the compiler alone, and the one
///   in `lease/cell.rs` is for reads of the counter and the OS clock, see above;
/// - whether a plain store can come between an exchange and what that has read: loom lets it, so
///   `per_cpu::mode` swaps;
/// - every place at which a thread could be stopped between a load of an atomic and a swap of the
///   same one. loom 0.7 compares a step only with the last step on its object, which is that load
///   then. So `gate::keeper` swaps without a load. `state/portable.rs` cannot; there loom finds the
///   places between, by the pairs;
/// - more than three threads; stalls of seconds and resets of the counter (the simulated steps of
///   `testing.rs` have those); bursts of 32 brackets, which are 1 here; `fork`.
const LOOM: &[(&str, &str)] = &[("RUSTFLAGS", "--cfg loom")];

/// A fuzz target for a second or two: its committed corpus, and a fixed number of mutations. New
/// inputs go to the first folder, so that a check changes nothing in the tree. There is no
/// sanitizer, because the unsafe code in core is a few instructions that none covers.
macro_rules! fuzz {
    ($target:literal, $runs:literal) => {
        Step::new(
            concat!("fuzz ", $target),
            concat!(
                "cargo +nightly fuzz run -s none ",
                $target,
                " fuzz/target/new/",
                $target,
                " fuzz/corpus/",
                $target,
                " -- -seed=1 -max_len=1024 -runs=",
                $runs
            ),
        )
        .needs(&["cargo +nightly fuzz --version", concat!("mkdir -p fuzz/target/new/", $target)])
    };
}

/// Every check: the project's own, then whether it can be published.
pub(crate) fn steps() -> Vec<Step> {
    let mut steps = own();
    steps.extend(publish::steps());
    steps
}

/// What takes too long for every change. The results are stored where the documentation has them.
pub(crate) fn nightly() -> Vec<Step> {
    vec![
        // 25 minutes, ten of them under Miri.
        Step::new("a test goes red for each rule that is taken out", "cargo xtask mutate --write"),
        // A quarter of an hour: unit tests, integration tests and doc tests under emulators.
        Step::new("every target", "cargo xtask targets --write"),
        // Half an hour.
        Step::new("tests under the sanitizers", "cargo xtask sanitize --write"),
        // Eight minutes.
        Step::new("every guest", "cargo xtask vm --write"),
        Step::new("everything at once, ten minutes", "cargo xtask soak --minutes 10 --write"),
        Step::new("all published programs", "cargo xtask ports"),
        Step::new("every measurement runs, and fits the tables", "cargo xtask record --smoke"),
        Step::new("programs on Debian, served", "cargo xtask vm --programs --write"),
        Step::new("leases: one more preemption", "cargo test --release -p tickline-sim --test lease -- --ignored"),
        // Seven minutes.
        Step::new(
            "handovers while a page's server is stopped",
            "cargo test -p tickline-cli --test hand_over --test stopped -- --include-ignored --nocapture no_step_back",
        )
        .with(ROUNDS),
        Step::new(
            "ten million spans",
            "cargo test -p tickline-tracing --release --test spans --test chrome -- none_is_lost \
             a_file_from_eight_threads_is_balanced",
        )
        .with(MANY_SPANS),
        Step::new("clippy, default features", "cargo clippy --workspace --all-targets -- -D warnings"),
        // What the next compilers will say.
        Step::new(
            "clippy, nightly",
            "cargo +nightly clippy --workspace --all-targets --all-features --target-dir target/nightly -- -D warnings",
        )
        .needs(NIGHTLY_CLIPPY),
        Step::new(
            "docs, nightly",
            "cargo +nightly doc --workspace --no-deps --all-features --target-dir target/nightly",
        )
        .with(DENY)
        .needs(NIGHTLY_CLIPPY),
    ]
}

/// Cheap ones first.
fn own() -> Vec<Step> {
    vec![
        Step::new("format", "cargo fmt --all --check"),
        Step::new("the shell script", "shellcheck crates/tickline-cli/facts.sh").needs(&["shellcheck --version"]),
        Step::new("clippy", "cargo clippy --workspace --all-targets --all-features -- -D warnings"),
        Step::new("docs", "cargo doc --workspace --no-deps --all-features").with(DENY),
        Step::new("tests, as in the README", "cargo test --workspace"),
        Step::new("tests of tracing, all features", "cargo test -p tickline-tracing --all-features"),
        Step::new("tests, optimised", "cargo test -p tickline-core -p tickline-page -p tickline --release --all-features"),
        // The tool must also read what this nightly compiler writes.
        Step::new("public API, as stored", "cargo xtask api")
            .needs(&["cargo +nightly public-api -p tickline-core -ss"]),
        Step::new("examples run", "cargo xtask examples"),
        Step::new("the report in a browser", "cargo xtask page").needs(&["cargo xtask page --browser"]),
        // Four minutes. One guest of each kind: another clocksource, rights, steps, a stop, a sleep.
        Step::new(
            "real kernels with bad clocks",
            "cargo xtask vm tsc asked who served one_cpu hpet_rejected chosen measured_cpus measured_acpi_pm switched \
             demoted set_clock adjtimex hotplug saved suspended",
        )
        .needs(&["cargo xtask vm --prepare"]),
        // From here on two at a time: whatever above measures, or waits for a guest, has had the
        // machine to itself.
        Step::new("Miri on core and leases", "cargo +nightly miri test -p tickline-core -p tickline-page --lib")
            .with(MIRI)
            .needs(&["cargo +nightly miri --version", "cargo +nightly miri setup"])
            .beside(),
        // Half a minute.
        Step::new(
            "Miri on tickline",
            "cargo +nightly miri test -p tickline --features mock --test portable --test types",
        )
        .needs(&["cargo +nightly miri --version", "cargo +nightly miri setup"])
        .beside(),
        // Three minutes. `mutate` weakens each ordering, with more seeds.
        Step::new(
            "Miri on orderings outside of core",
            "cargo +nightly miri test -p tickline -p tickline-quanta -p tickline-tracing --lib ordering_",
        )
        .with(MIRI_SEEDS)
        .needs(&["cargo +nightly miri --version", "cargo +nightly miri setup"])
        .beside(),
        Step::new(
            "loom on core and leases",
            // A directory of its own: other flags would have everything built again, there and
            // back.
            "cargo test -p tickline-core -p tickline-page --lib --release --target-dir target/loom loom_tests",
        )
        .with(LOOM)
        .beside(),
        Step::new("simulated machines, 500 million steps", "cargo xtask sim --steps 500000000"),
        Step::new("simulated machines: limits, any scenario", "cargo test --profile sim -p tickline-sim"),
        // A minute and a half. `nightly` has all of them, and a test whether each still has its text.
        Step::new("a test goes red for one rule in twenty that is taken out", "cargo xtask mutate --sample"),
        Step::new("benches run", "cargo bench -- --test"),
        Step::new("everything at once: order, bounds, growth", "cargo xtask soak --minutes 1"),
        Step::new(
            "format of the bare machine",
            "cargo fmt --manifest-path examples/bare-x86_64/Cargo.toml --check",
        ),
        Step::new(
            "clippy of the bare machine",
            "cargo clippy --manifest-path examples/bare-x86_64/Cargo.toml --release --target x86_64-unknown-none \
             --target-dir target/bare -- -D warnings",
        )
        .needs(&["rustup target add x86_64-unknown-none"]),
        // 4 s: the machine takes 3.
        Step::new("a clock on a bare machine", "cargo xtask bare")
            .needs(&["rustup target add x86_64-unknown-none", "qemu-system-x86_64 --version"]),
        Step::new("format of the fuzz targets", "cargo fmt --manifest-path fuzz/Cargo.toml --check"),
        Step::new("fuzz targets build", "cargo +nightly fuzz build -s none")
            .needs(&["cargo +nightly fuzz --version"]),
        fuzz!("control", "20000"),
        fuzz!("conversion", "20000"),
        fuzz!("estimator", "20000"),
        fuzz!("page", "20000"),
        fuzz!("parsers", "20000"),
        // Each input is a machine that runs for 10,000 steps.
        fuzz!("scenario", "3000"),
        Step::new("other targets than this one", "cargo xtask targets --others"),
    ]
}
