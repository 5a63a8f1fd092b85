//! `cargo xtask vm`: real kernels with bad clocks, in guests under QEMU's emulation. See `tests/vm/README.md`.

mod image;
mod judge;
mod qemu;
mod scenario;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use serde_json::Value;

use judge::Verdict;
use scenario::Scenario;

/// The workspace's root.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_path_buf)
}

/// Where kernel, initramfs and the guests' consoles are kept.
fn folder() -> PathBuf {
    root().join("target/vm")
}

/// Instead of names: only fetches what guests need, and fails if that cannot be had, so that CI can tell a step that was
/// skipped from one that has passed.
const PREPARE: &str = "--prepare";

fn prepare() -> ExitCode {
    match image::fetch() {
        Ok(_) => ExitCode::SUCCESS,
        Err(image::Failure::Missing(what) | image::Failure::Broken(what)) => {
            println!("no guests here: {what}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the scenarios of these names, or all; judges them and prints a table. Fails if one of them does.
pub(crate) fn run(names: &[String]) -> ExitCode {
    if names == [PREPARE] {
        return prepare();
    }
    let scenarios = scenario::all();
    if let Some(unknown) = names.iter().find(|name| !scenarios.iter().any(|one| one.name == **name)) {
        eprintln!("xtask vm: '{unknown}' is no scenario; there are");
        for one in &scenarios {
            eprintln!("  {:<16} {}", one.name, one.about);
        }
        return ExitCode::from(2);
    }
    let image = match image::prepare() {
        Ok(image) => image,
        Err(image::Failure::Missing(what)) => {
            println!("SKIPPED all guests: {what}. Nothing was checked.");
            return ExitCode::SUCCESS;
        }
        Err(image::Failure::Broken(what)) => {
            println!("FAILED before the first guest: {what}");
            return ExitCode::FAILURE;
        }
    };
    let wanted = |one: &&Scenario| names.is_empty() || names.iter().any(|name| *name == one.name);
    let start = Instant::now();
    let mut rows = Vec::new();
    for one in scenarios.iter().filter(wanted) {
        println!("\n=== {}: {}", one.name, one.about);
        let start = Instant::now();
        let run = qemu::run(one, &image);
        keep(one.name, &run);
        let verdict = judge::judge(one, &run);
        for line in verdict.lines() {
            println!("    {line}");
        }
        rows.push(Row { name: one.name, verdict, seconds: start.elapsed().as_secs_f64(), run });
    }
    print_table(&rows, start.elapsed().as_secs_f64());
    if rows.iter().any(|row| row.verdict.failed()) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Keeps what the guest has said, a line a phase.
fn keep(name: &str, run: &qemu::Run) {
    let lines: String = run.phases.iter().map(|phase| format!("{phase}\n")).collect();
    if let Err(error) = std::fs::write(folder().join(format!("{name}.json")), lines) {
        eprintln!("xtask vm: cannot keep {name}.json: {error}");
    }
}

struct Row {
    name: &'static str,
    verdict: Verdict,
    seconds: f64,
    run: qemu::Run,
}

/// One row a scenario: the verdict, and the figures that one wants to see even where all is well.
fn print_table(rows: &[Row], seconds: f64) {
    println!(
        "\n{:<16} {:<8} {:>5} {:<12} {:<24} {:>9} {:>9} {:>8} {:>10} {:>9} {:>8}",
        "scenario",
        "result",
        "s",
        "clocksource",
        "before the act",
        "readings",
        "handovers",
        "backward",
        "outside ns",
        "Unix us",
        "OS/now"
    );
    for row in rows {
        let text = |phase: &str, path: &str| match judge::find(&row.run.phases, phase, path).next() {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => String::new(),
            Some(value) => value.to_string(),
        };
        let largest = |phase: &str, path: &str| {
            judge::find(&row.run.phases, phase, path).filter_map(Value::as_u64).max().unwrap_or(0)
        };
        let outside = ["before", "after"]
            .map(|phase| largest(phase, "ahead_ns").max(largest(phase, "behind_ns")))
            .into_iter()
            .max();
        let state = format!("{} {}", text("before", "state"), text("before", "reason"));
        let ratio = largest("end", "cost.os_to_now_percent");
        println!(
            "{:<16} {:<8} {:>5.1} {:<12} {:<24} {:>8}k {:>8}k {:>8} {:>10} {:>9} {:>7}x",
            row.name,
            row.verdict.word(),
            row.seconds,
            text("before", "clocksource"),
            state,
            largest("end", "readers.readings") / 1_000,
            largest("end", "readers.handovers") / 1_000,
            text("end", "readers.backward"),
            outside.unwrap_or(0),
            largest("set_clock", "work.after_us"),
            format!("{}.{:02}", ratio / 100, ratio % 100),
        );
    }
    let count = |word: &str| rows.iter().filter(|row| row.verdict.word() == word).count();
    println!(
        "{} passed, {} failed, {} skipped, in {seconds:.0} s",
        count("passed"),
        count("FAILED"),
        count("SKIPPED")
    );
}
