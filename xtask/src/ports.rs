//! `cargo xtask ports`: published programs over this project's clock, judged by their own tests.
//!
//! Those that depend on quanta are built as they are published, with one dependency patched
//! (`crates/tickline-quanta/patch/`). Of the others, lines are replaced. The examples in quanta's
//! documentation are compiled against `tickline-quanta` and run. Cargo fetches all sources; none is
//! part of this repository.
//!
//! Libraries, integration tests and documentation tests run; benches and examples don't, but for
//! two crates' benchmarks by criterion, which are ported to `tickline-criterion`. quanta's
//! unit tests can't: they read the private field of its `Instant`.

mod benches;
mod examples;
mod folder;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use std::time::Instant;

use serde_json::Value;

use crate::step::{self, SOME_SKIPPED};
use benches::BENCHES;

/// A published crate.
struct Port {
    name: &'static str,
    /// The newest when it was chosen; of parking_lot_core, whose 0.10 asks for Rust 1.95, the
    /// newest 0.9. Its own lock file says which dependencies it is tested with.
    version: &'static str,
    /// Those that its tests need beside the default ones, separated by commas.
    features: &'static str,
    way: Way,
}

/// How it gets this project's clock.
enum Way {
    /// Its dependency `quanta` is patched.
    Patched,
    /// Lines of its sources are replaced, wherever they stand in `src/`.
    Edited(&'static [(&'static str, &'static str)]),
}

const PORTS: &[Port] = &[
    Port { name: "governor", version: "0.10.4", features: "", way: Way::Patched },
    Port { name: "metrics-util", version: "0.20.4", features: "", way: Way::Patched },
    Port {
        name: "indicatif",
        version: "0.18.6",
        features: "",
        way: Way::Edited(&[("use std::time::Instant;", "use tickline::Instant;")]),
    },
    Port {
        name: "parking_lot_core",
        version: "0.9.12",
        features: "",
        way: Way::Edited(&[
            ("use std::time::Instant;", "use tickline::Instant;"),
            ("use std::time::{Duration, Instant};", "use {std::time::Duration, tickline::Instant};"),
            ("use std::time::Instant as TimeoutInstant;", "use tickline::Instant as TimeoutInstant;"),
        ]),
    },
    Port { name: "fastrace", version: "0.7.19", features: "enable", way: Way::Edited(FASTANT) },
];

/// fastant's instants convert by an anchor; here the anchor converts instants. The last line is for
/// its unit tests, which name their own crate and don't compile as they are published.
const FASTANT: &[(&str, &str)] = &[
    ("use fastant::Instant;", "use tickline::Instant;"),
    ("use fastant::Anchor;", "type Anchor = tickline::Anchor<tickline::UnixTime>;"),
    ("let anchor = Anchor::new();", "let anchor = Anchor::unix();"),
    ("let anchor: Anchor = Anchor::new();", "let anchor: Anchor = Anchor::unix();"),
    (
        "let begin_time_unix_ns = span.begin_instant.as_unix_nanos(anchor);",
        "let begin_time_unix_ns = anchor.to_unix(span.begin_instant).as_nanos();",
    ),
    (
        "let end_time_unix_ns = span.end_instant.as_unix_nanos(anchor);",
        "let end_time_unix_ns = anchor.to_unix(span.end_instant).as_nanos();",
    ),
    ("local_spans.end_time.as_unix_nanos(anchor)", "anchor.to_unix(local_spans.end_time).as_nanos()"),
    ("span.end_instant.as_unix_nanos(anchor)", "anchor.to_unix(span.end_instant).as_nanos()"),
    ("fastrace::flush();", "crate::flush();"),
];

/// The versions of quanta whose interface `tickline-quanta` has, and the packages that stand in for
/// them.
const QUANTAS: [(&str, &str); 2] = [("0.12.6", "0.12"), ("0.13.0", "0.13")];

/// The version that the patched programs ask for, as their lock file then has it.
const PATCHED: &str = "\"0.12.6+tickline\"";

/// A failed test runs again alone, this often. governor's `tests/future.rs` asserts that a call takes
/// at most 200 us, and that a wait which began before a reading takes 100 ms after it: a thread that
/// is preempted there fails by any clock.
const RETRIES: usize = 3;

/// Why a port has no good result.
enum Failure {
    /// What could not be fetched.
    Skipped(String),
    Failed(String),
}

type Result<T> = std::result::Result<T, Failure>;

fn failed(what: &str) -> impl FnOnce(std::io::Error) -> Failure {
    move |error| Failure::Failed(format!("{what}: {error}"))
}

/// The workspace's root.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_path_buf)
}

/// Where sources are laid out and built. The workspace excludes it.
fn target() -> PathBuf {
    root().join("target/ports")
}

/// Runs those with a name that has `filter` in it, or all. Exits with `SOME_SKIPPED` where the
/// sources can't be had.
pub(crate) fn run(filter: &[&str]) -> ExitCode {
    let is_wanted = |name: &str| filter.is_empty() || filter.iter().any(|part| name.contains(part));
    let start = Instant::now();
    let sources = fetch();
    let mut lines = Vec::new();
    let (mut failed, mut skipped) = (false, false);
    let mut note = |name: String, result: Result<String>| {
        let line = match result {
            Ok(line) => format!("{name}: {line}"),
            Err(Failure::Failed(why)) => {
                failed = true;
                format!("=== FAILED {name}: {why}")
            }
            Err(Failure::Skipped(why)) => {
                skipped = true;
                format!("=== SKIPPED {name}: {why}; this was NOT checked")
            }
        };
        println!("{line}");
        lines.push(line);
    };
    let sources = match sources {
        Ok(sources) => sources,
        Err(failure) => {
            note("all ports".to_owned(), Err(failure));
            BTreeMap::new()
        }
    };
    let source = |name: &str, version: &str| sources.get(&format!("{name} {version}"));
    for port in PORTS.iter().filter(|port| is_wanted(port.name)) {
        if let Some(source) = source(port.name, port.version) {
            println!("\n=== {} {}", port.name, port.version);
            note(format!("{} {}", port.name, port.version), test(port, source));
        }
    }
    for (version, patch) in QUANTAS.into_iter().filter(|_| is_wanted("quanta")) {
        if let Some(source) = source("quanta", version) {
            println!("\n=== the examples of quanta {version}");
            note(format!("the examples of quanta {version}"), examples::run(version, patch, source));
        }
    }
    for bench in BENCHES.iter().filter(|bench| is_wanted(bench.name)) {
        if let Some(source) = source(bench.name, bench.version) {
            println!("\n=== the benchmarks of {} {}", bench.name, bench.version);
            note(format!("the benchmarks of {} {}", bench.name, bench.version), benches::run(bench, source));
        }
    }
    println!("\nports, {:.0} s", start.elapsed().as_secs_f64());
    for line in &lines {
        println!("  {line}");
    }
    match (failed || lines.is_empty(), skipped) {
        (true, _) => ExitCode::FAILURE,
        (false, true) => ExitCode::from(SOME_SKIPPED),
        (false, false) => ExitCode::SUCCESS,
    }
}

/// How long one run of cargo may take, s: three times what all ports take on a busy machine. A test
/// that hangs fails then, where coreutils' `timeout` exists.
const LIMIT_S: u64 = 600;

/// Cargo, to be run in a folder.
fn cargo(line: &str, folder: &Path) -> Result<Command> {
    let limit = if step::works("timeout --version") { format!("timeout {LIMIT_S} ") } else { String::new() };
    let mut command = step::command(&format!("{limit}cargo {line}"))
        .ok_or_else(|| Failure::Failed("no command".to_owned()))?;
    // Small and quick to link: nobody debugs them.
    command.current_dir(folder).env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_INCREMENTAL", "0");
    Ok(command)
}

/// What the command printed, on both streams, and whether it succeeded.
fn output(command: &mut Command) -> Result<(bool, String)> {
    let Output { status, stdout, stderr } = command.output().map_err(failed("cargo"))?;
    let text = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).join("\n");
    Ok((status.success(), text))
}

/// As `output`. Failures are excused where cargo can't reach the registry.
fn over_the_network(command: &mut Command) -> Result<String> {
    match output(command)? {
        (true, text) => Ok(text),
        (false, text) if reaches_the_registry()? => Err(Failure::Failed(text)),
        (false, text) => {
            let why = text.lines().find(|line| line.starts_with("error")).unwrap_or_default();
            Err(Failure::Skipped(format!("cargo can't fetch the sources ({why})")))
        }
    }
}

fn reaches_the_registry() -> Result<bool> {
    Ok(output(&mut cargo("update --dry-run", &target().join("sources"))?)?.0)
}

/// Fetches all sources, and returns where cargo has put them, by name and version.
fn fetch() -> Result<BTreeMap<String, PathBuf>> {
    let folder = target().join("sources");
    fs::create_dir_all(folder.join("src")).map_err(failed("target/ports"))?;
    let all = PORTS.iter().map(|port| (port.name, port.version));
    let all = all.chain(QUANTAS.map(|(version, _)| ("quanta", version)));
    let all: Vec<_> = all.chain(BENCHES.iter().map(|bench| (bench.name, bench.version))).collect();
    let mut manifest = "[package]\nname = \"sources\"\nedition = \"2024\"\n\n[dependencies]\n".to_owned();
    for (number, (name, version)) in all.iter().enumerate() {
        manifest += &format!("d{number} = {{ package = \"{name}\", version = \"={version}\" }}\n");
    }
    fs::write(folder.join("Cargo.toml"), manifest).map_err(failed("a manifest"))?;
    fs::write(folder.join("src/lib.rs"), "").map_err(failed("a library"))?;
    let mut command = cargo("metadata --format-version 1 --filter-platform", &folder)?;
    let text = over_the_network(command.arg(host()?))?;
    let json = text.lines().find(|line| line.starts_with('{')).unwrap_or_default();
    let metadata: Value = serde_json::from_str(json).map_err(|error| Failure::Failed(error.to_string()))?;
    let mut sources = BTreeMap::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let text = |key: &str| package[key].as_str().unwrap_or_default();
        if let Some(source) = Path::new(text("manifest_path")).parent() {
            sources.insert(format!("{} {}", text("name"), text("version")), source.to_path_buf());
        }
    }
    match all.iter().find(|(name, version)| !sources.contains_key(&format!("{name} {version}"))) {
        Some((name, version)) => Err(Failure::Failed(format!("cargo has no {name} {version}"))),
        None => Ok(sources),
    }
}

/// This machine, as cargo calls it.
fn host() -> Result<String> {
    let command = step::command("rustc -vV").and_then(|mut command| command.output().ok());
    let text = command.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| Failure::Failed("rustc has no host".to_owned()))
}

/// Lays a crate out, gives it this project's clock, and runs its tests.
fn test(port: &Port, source: &Path) -> Result<String> {
    let folder = target().join(format!("{}-{}", port.name, port.version));
    let path = root().join("crates/tickline");
    let dependency = format!("\n[dependencies.tickline]\npath = {path:?}\n");
    let (changes, config) = match port.way {
        Way::Patched => (folder::lay(source, &folder, "src", &[], None)?, patch("0.12")?),
        Way::Edited(edits) => (folder::lay(source, &folder, "src", edits, Some(&dependency))?, Vec::new()),
    };
    if let Way::Patched = port.way {
        over_the_network(cargo("update --package quanta", &folder)?.args(&config))?;
    }
    over_the_network(cargo("fetch --target", &folder)?.arg(host()?).args(&config))?;
    check_lock(port, &folder)?;
    let mut arguments = config;
    arguments.push(format!("--features={}", port.features));
    // parking_lot_core's documentation has no examples; a crate without tests would prove nothing.
    let tests = run_tests("--lib --tests", &folder, &arguments)?;
    let examples = run_tests("--doc", &folder, &arguments)?;
    if tests.passed == 0 {
        return Err(Failure::Failed("it has no tests".to_owned()));
    }
    Ok(format!(
        "{changes}; {} tests passed, and {} in its documentation{}",
        tests.passed, examples.passed, tests.note
    ))
}

/// The arguments that have cargo take `tickline-quanta` for quanta.
fn patch(version: &str) -> Result<Vec<String>> {
    let path = root().join("crates/tickline-quanta/patch").join(version);
    let path = path.to_str().ok_or_else(|| Failure::Failed("the path is not in UTF-8".to_owned()))?;
    Ok(vec!["--config".to_owned(), format!("patch.crates-io.quanta.path={path:?}")])
}

/// A patch that does not apply is a warning to cargo.
fn check_lock(port: &Port, folder: &Path) -> Result<()> {
    let lock = fs::read_to_string(folder.join("Cargo.lock")).map_err(failed("its lock file"))?;
    let is_used = match port.way {
        Way::Patched => lock.contains(PATCHED) && !lock.contains("[[patch.unused]]"),
        Way::Edited(_) => lock.contains("name = \"tickline\""),
    };
    if is_used { Ok(()) } else { Err(Failure::Failed("its lock file does not have this project".to_owned())) }
}

struct Passed {
    passed: usize,
    /// What is to be said of it.
    note: String,
}

fn run_tests(which: &str, folder: &Path, arguments: &[String]) -> Result<Passed> {
    let with = |more: &[String]| -> Result<(bool, String)> {
        let mut command = cargo(&format!("test --offline --no-fail-fast {which}"), folder)?;
        output(command.args(arguments).arg("--target-dir").arg(target().join("build")).args(more))
    };
    let (is_good, text) = with(&[])?;
    let (passed, failing) = (passed(&text), failing(&text));
    if is_good {
        return Ok(Passed { passed, note: String::new() });
    }
    if failing.is_empty() || failing.iter().any(|name| name.contains(' ')) {
        return Err(Failure::Failed(format!("{passed} tests passed:\n{text}")));
    }
    let mut alone = vec!["--".to_owned(), "--exact".to_owned(), "--test-threads=1".to_owned()];
    alone.extend(failing.iter().cloned());
    let mut last = text;
    for attempt in 1..=RETRIES {
        let (is_good, text) = with(&alone)?;
        if is_good {
            let names = failing.join(", ");
            let note = format!(" ({names} failed beside others and passed alone, attempt {attempt})");
            return Ok(Passed { passed: passed + failing.len(), note });
        }
        last = text;
    }
    Err(Failure::Failed(format!("{} alone fail too:\n{last}", failing.join(", "))))
}

/// How many tests passed, in the summaries of all test programs.
fn passed(text: &str) -> usize {
    let counts = text.lines().filter_map(|line| line.strip_prefix("test result: "));
    counts.filter_map(|line| line.split_whitespace().nth(1)?.parse::<usize>().ok()).sum()
}

/// The tests that failed.
fn failing(text: &str) -> Vec<String> {
    let names = text.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passed_and_failing_tests_are_counted_over_all_programs() {
        let text = "\nrunning 2 tests\ntest one ... ok\ntest a::two ... FAILED\n\n\
            test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n\
            test result: ok. 20 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert_eq!((passed(text), failing(text)), (21, vec!["a::two".to_owned()]));
        assert_eq!((passed("error: it does not compile"), failing("")), (0, vec![]));
    }
}
