//! What CI checks, in three lanes: `check`, what one runs before each commit; `deep`; and `nightly`, what
//! takes too long for every change.

use std::collections::BTreeSet;

use crate::files;
use crate::step::{self, Step};
use crate::targets::{PUBLISHED, packages};

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
///   weakened unnoticed (`untold` in `xtask/mutants.toml`);
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

/// Needs of several steps.
const NIGHTLY_MIRI: &[&str] = &["cargo +nightly miri --version", "cargo +nightly miri setup"];
const BARE: &[&str] = &["rustup target add x86_64-unknown-none"];
const FUZZ: &[&str] = &[
    "cargo +nightly fuzz --version",
    "mkdir -p fuzz/target/new/control fuzz/target/new/page fuzz/target/new/parsers fuzz/target/new/scenario",
];
const HACK: &[&str] = &["cargo hack --version"];

/// `rust-version` in `Cargo.toml`.
const OLDEST_COMPILER: &[&str] =
    &["rustup toolchain install 1.88 --profile minimal", "cargo +1.88 --version"];

/// The crates that come with `tickline` on Linux by default: `tickline-core` and `libc`. With
/// `tickline-core` comes none.
const MOST_DEPENDENCIES: [(&str, usize); 2] = [("tickline-core", 0), ("tickline", 2)];

/// A lock file of its own, with the oldest version of each dependency that `Cargo.toml` admits.
const OLDEST_VERSIONS: &str = "--config resolver.lockfile-path=\"target/minimal-versions/Cargo.lock\"";

/// Before each commit. Cheap ones first.
pub(crate) fn check() -> Vec<Step> {
    vec![
        Step::new("format", "cargo fmt --all --check"),
        Step::new(
            "format of the bare machine",
            "cargo fmt --manifest-path examples/bare-x86_64/Cargo.toml --check",
        ),
        Step::new("format of the fuzz targets", "cargo fmt --manifest-path fuzz/Cargo.toml --check"),
        Step::new(
            "the shell scripts",
            "shellcheck .ci/run crates/tickline-cli/facts.sh tests/vm/programs/disks.sh",
        )
        .needs(&["shellcheck --version"]),
        Step::new("few dependencies", "cargo xtask dependencies"),
        Step::new("clippy", "cargo clippy --workspace --all-targets --all-features -- -D warnings"),
        Step::new("docs", "cargo doc --workspace --no-deps --all-features").with(DENY),
        Step::new("tests, as in the README", "cargo test --workspace"),
        Step::new("tests of tracing, all features", "cargo test -p tickline-tracing --all-features"),
        // The tool must also read what this nightly compiler writes.
        Step::new("public API, as stored", "cargo xtask api")
            .needs(&["cargo +nightly public-api -p tickline-core -ss"]),
    ]
}

/// What proves more than tests do, and whether the crates can be published.
pub(crate) fn deep() -> Vec<Step> {
    let published = packages(PUBLISHED);
    let others: Vec<&str> = PUBLISHED.iter().copied().filter(|name| *name != "tickline-criterion").collect();
    let mut steps = vec![
        Step::new(
            "tests, optimised",
            "cargo test -p tickline-core -p tickline-page -p tickline --release --all-features",
        ),
        Step::new("examples run", "cargo xtask examples"),
        Step::new("the report in a browser", "cargo xtask page").needs(&["chromium --version"]),
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
            .needs(NIGHTLY_MIRI)
            .beside(),
        // Half a minute.
        Step::new(
            "Miri on tickline",
            "cargo +nightly miri test -p tickline --features mock --test portable",
        )
        .needs(NIGHTLY_MIRI)
        .beside(),
        // Three minutes. `mutate` weakens each ordering, with more seeds.
        Step::new(
            "Miri on orderings outside of core",
            "cargo +nightly miri test -p tickline -p tickline-quanta -p tickline-tracing --lib ordering_",
        )
        .with(MIRI_SEEDS)
        .needs(NIGHTLY_MIRI)
        .beside(),
        // A directory of its own: other flags would have everything built again, there and back.
        Step::new(
            "loom on core and leases",
            "cargo test -p tickline-core -p tickline-page --lib --release --target-dir target/loom loom_tests",
        )
        .with(LOOM)
        .beside(),
        Step::new(
            "tests by the oldest supported compiler",
            "cargo +1.88 test --target-dir target/msrv -p tickline-core -p tickline-page -p tickline --lib --tests",
        )
        .needs(OLDEST_COMPILER)
        .beside(),
        Step::new(
            "oldest supported compiler",
            format!("cargo +1.88 check --all-features --target-dir target/msrv{published}"),
        )
        .needs(OLDEST_COMPILER)
        .beside(),
        // Packs each crate, and builds it from what was packed. Cargo unpacks them into the user's
        // folder by name and version, and does not unpack the same version twice. So each commit has a
        // name of its own; otherwise cargo would build the first one packed.
        Step::new(
            "packages",
            format!(
                "cargo package --allow-dirty --target-dir target/package-check/{}{published}",
                step::said("git rev-parse --short HEAD").unwrap_or_else(|_| "no-commit".into())
            ),
        )
        .beside(),
        Step::new("simulated machines, 500 million steps", "cargo xtask sim --steps 500000000"),
        Step::new("simulated machines: limits, any scenario", "cargo test --profile sim -p tickline-sim"),
        Step::new("a test goes red for one rule in eight that is taken out", "cargo xtask mutate --sample"),
        Step::new("benches run", "cargo bench -- --test"),
        Step::new("everything at once: order, bounds, growth", "cargo xtask soak --minutes 1"),
        Step::new(
            "clippy of the bare machine",
            "cargo clippy --manifest-path examples/bare-x86_64/Cargo.toml --release --target x86_64-unknown-none \
             --target-dir target -- -D warnings",
        )
        .needs(BARE),
        // 4 s: the machine takes 3.
        Step::new("a clock on a bare machine", "cargo xtask bare")
            .needs(&["rustup target add x86_64-unknown-none", "qemu-system-x86_64 --version"]),
        Step::new("fuzz targets build", "cargo +nightly fuzz build -s none").needs(FUZZ),
    ];
    steps.extend([
        fuzz("fuzz control", "control", 20_000),
        fuzz("fuzz page", "page", 20_000),
        fuzz("fuzz parsers", "parsers", 20_000),
        // Each input is a machine that runs for 10,000 steps.
        fuzz("fuzz scenario", "scenario", 3_000),
        Step::new("other targets than this one", "cargo xtask targets --others"),
        Step::new(
            "licences, sources, duplicates",
            "cargo deny --workspace check --hide-inclusion-graph licenses sources bans",
        )
        .needs(&["cargo deny --version"]),
        Step::new("advisories", "cargo deny --workspace check --disable-fetch advisories")
            .needs(&["cargo deny --version", "cargo deny --workspace fetch db"]),
        Step::new(
            "oldest versions of dependencies",
            format!("cargo +nightly check {OLDEST_VERSIONS} --all-features --target-dir target/nightly{published}"),
        )
        .needs(&[
            "mkdir -p target/minimal-versions",
            "cargo +nightly update --config resolver.lockfile-path=\"target/minimal-versions/Cargo.lock\" -Z direct-minimal-versions",
        ]),
        Step::new(
            "every two features",
            format!("cargo hack check --feature-powerset --depth 2 --quiet{}", packages(&others)),
        )
        .needs(HACK),
        // It is made for one version of criterion at least.
        Step::new(
            "every two features of tickline-criterion",
            "cargo hack check --feature-powerset --depth 2 --quiet -p tickline-criterion --at-least-one-of \
             criterion-0-7,criterion-0-8",
        )
        .needs(HACK),
    ]);
    steps
}

/// A fuzz target for a second or two: its committed corpus, and a fixed number of mutations. New
/// inputs go to the first folder, so that a check changes nothing in the tree. There is no
/// sanitizer, because the unsafe code in core is a few instructions that none covers.
fn fuzz(name: &'static str, target: &str, runs: u32) -> Step {
    let folders = format!("fuzz/target/new/{target} fuzz/corpus/{target}");
    let options = format!("-seed=1 -max_len=1024 -runs={runs}");
    Step::new(name, format!("cargo +nightly fuzz run -s none {target} {folders} -- {options}")).needs(FUZZ)
}

/// What takes too long for every change. The results are stored where the documentation has them.
pub(crate) fn nightly() -> Vec<Step> {
    vec![
        // A quarter of an hour, ten minutes of it under Miri.
        Step::new("a test goes red for each rule that is taken out", "cargo xtask mutate --write"),
        // A quarter of an hour: unit tests, integration tests and doc tests under emulators.
        Step::new("every target", "cargo xtask targets --write"),
        // Half an hour.
        Step::new("tests under the sanitizers", "cargo xtask sanitize --write"),
        // Eight minutes.
        Step::new("every guest", "cargo xtask vm --write"),
        Step::new("everything at once, ten minutes", "cargo xtask soak --minutes 10 --write"),
        Step::new("published programs", "cargo xtask ports"),
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

/// `cargo xtask dependencies`: the crates that come with those that promise few dependencies.
pub(crate) fn dependencies() -> Result<u8, String> {
    let mut code = 0;
    for (name, most) in MOST_DEPENDENCIES {
        let tree = step::said(&format!(
            "cargo tree -p {name} -e normal --prefix none --target x86_64-unknown-linux-gnu --format {{p}}"
        ))?;
        let brought: BTreeSet<&str> =
            tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
        let brought: Vec<&str> = brought.into_iter().filter(|brought| *brought != name).collect();
        println!("{name}: {} of {most} at most: {}", brought.len(), brought.join(", "));
        if brought.len() > most {
            code = 1;
        }
    }
    Ok(code)
}

/// `cargo xtask bare`: builds `examples/bare-x86_64`, and boots it under QEMU's emulation. What the
/// machine prints on its serial line is shown; the exit code says whether it passed.
pub(crate) fn bare() -> Result<u8, String> {
    /// QEMU's exit code when the program has passed: `End::Passed` in the example's `port.rs`, by the
    /// rule named there.
    const PASSED: i32 = 33;
    step::shown(
        "cargo build --release --target x86_64-unknown-none --manifest-path examples/bare-x86_64/Cargo.toml \
         --target-dir target",
    )?;
    // It takes 3 s of the machine's own time. `timeout` only ends a program that hangs.
    let qemu = "timeout 60 qemu-system-x86_64 -accel tcg -nodefaults -no-reboot -display none -cpu max -serial stdio \
                -device isa-debug-exit,iobase=0xf4,iosize=4 -kernel target/x86_64-unknown-none/release/tickline-bare";
    let status = step::command(qemu).status().map_err(|error| format!("qemu: {error}"))?;
    println!("{status}, where {PASSED} says that all is well");
    Ok(u8::from(status.code() != Some(PASSED)))
}

/// `cargo xtask sim`: the simulator's program, with optimisation and overflow checks; random scenarios
/// unless the arguments name another command.
pub(crate) fn sim(arguments: &[&str]) -> Result<u8, String> {
    let is_named = arguments.first().is_some_and(|first| ["replay", "show", "plot", "help"].contains(first));
    let run = if is_named { "" } else { "run" };
    let line = format!("cargo run -q --profile sim -p tickline-sim -- {run} {}", arguments.join(" "));
    let status = step::command(&line).status().map_err(|error| format!("cargo: {error}"))?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(2))
}

/// `cargo xtask soak`: everything at once on this machine, and counts that must be 0; 1 minute, or as
/// many as are asked for. `--write` stores the table.
pub(crate) fn soak(arguments: &[&str]) -> Result<u8, String> {
    let (arguments, is_write) = match arguments {
        [rest @ .., "--write"] => (rest, true),
        all => (all, false),
    };
    let minutes: u64 = match arguments {
        [] => 1,
        ["--minutes", text] => text.parse().map_err(|error| format!("--minutes {text}: {error}"))?,
        _ => return Err("takes --minutes N and --write".into()),
    };
    let secs = minutes.max(1) * 60;
    // It fails if a count is not 0.
    let table =
        step::said(&format!("cargo run --release -q -p tickline-benches --bin soak -- --secs {secs}"))?;
    println!("{table}");
    if is_write {
        let head = "# Soak\n\nOrder, bounds and growth while everything happens at once; `benches/src/bin/soak.rs` says\n\
                    what. Written by `cargo xtask soak --minutes N --write`.";
        files::store(
            "docs/soak.md",
            &format!("{head}\n\n{minutes} minutes:\n\n```text\n{}\n```\n", table.trim()),
        )?;
    }
    Ok(0)
}
