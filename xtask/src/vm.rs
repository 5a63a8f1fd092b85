//! `cargo xtask vm`: real kernels with bad clocks, in guests under QEMU's emulation. See
//! `tests/vm/README.md`.

mod check;
mod findings;
mod image;
mod judge;
mod migrate;
mod packages;
mod programs;
mod qemu;
mod scenario;
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

pub(crate) use image::BUILD;
use judge::Verdict;
use scenario::Scenario;
use table::Row;

use crate::step::SOME_SKIPPED;

/// The workspace's root.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_path_buf)
}

/// Where kernel, initramfs and the guests' consoles are kept.
fn folder() -> PathBuf {
    root().join("target/vm")
}

/// Instead of names: only fetches what guests need, and fails if something is not available. So
/// CI can distinguish a skipped step from one that has passed.
const PREPARE: &str = "--prepare";

/// Instead of names: runs all, and stores the tables. Behind names: stores the rows of these.
const WRITE: &str = "--write";

/// Instead of names: runs the guests with expected findings of the program `tickline`, and stores
/// the table of findings.
const FINDINGS: &str = "--findings";

/// Before names of its own: real programs on Debian.
const PROGRAMS: &str = "--programs";

fn prepare() -> ExitCode {
    match image::fetch() {
        Ok(_) => ExitCode::SUCCESS,
        Err(image::Failure::Missing(what) | image::Failure::Broken(what)) => {
            println!("no guests here: {what}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the scenarios of these names, or all; judges them and prints a table. Fails if one of
/// them does, and says so if one was skipped.
pub(crate) fn run(names: &[String]) -> ExitCode {
    if names == [PREPARE] {
        return prepare();
    }
    if names.first().is_some_and(|first| first == PROGRAMS) {
        return programs::run(&names[1..]);
    }
    let store = names == [WRITE];
    let (store_some, names) = match names {
        [names @ .., last] if !names.is_empty() && last == WRITE => (true, names),
        names => (false, names),
    };
    let store_findings = names == [FINDINGS];
    let scenarios = scenario::all();
    let names = if store || store_findings { &[] } else { names };
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
            return ExitCode::from(SOME_SKIPPED);
        }
        Err(image::Failure::Broken(what)) => {
            println!("FAILED before the first guest: {what}");
            return ExitCode::FAILURE;
        }
    };
    let wanted = |one: &&Scenario| {
        if store_findings {
            !one.findings.is_empty()
        } else {
            names.is_empty() || names.iter().any(|name| *name == one.name)
        }
    };
    let start = Instant::now();
    let mut rows = Vec::new();
    for one in scenarios.iter().filter(wanted) {
        println!("\n=== {}: {}", one.name, one.about);
        let start = Instant::now();
        let run = match one.program.map(|program| image.with(program)) {
            None => qemu::run(one, &image),
            Some(Ok(image)) => qemu::run(one, &image),
            Some(Err(image::Failure::Missing(what))) => qemu::Run::unavailable(&what),
            Some(Err(image::Failure::Broken(what))) => qemu::Run { phases: Vec::new(), broken: Some(what) },
        };
        keep(one.name, &run);
        let verdict = judge::judge(one, &run);
        for line in verdict.lines().into_iter().chain(judge::note(&run.phases)) {
            println!("    {line}");
        }
        rows.push(Row {
            name: one.name,
            about: one.about,
            verdict,
            seconds: start.elapsed().as_secs_f64(),
            run,
        });
    }
    table::print(&rows, start.elapsed().as_secs_f64());
    findings::print(&scenarios, &rows);
    let stored = match (store, store || store_findings) {
        (true, _) => table::store(&rows).and_then(|()| findings::store(&scenarios, &rows)),
        (false, true) => findings::store(&scenarios, &rows),
        (false, false) if store_some => table::store_some(&scenarios, &rows),
        (false, false) => Ok(()),
    };
    if let Err(error) = stored {
        eprintln!("xtask vm: cannot store the table: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::from(exit_code(rows.iter().map(|row| &row.verdict)))
}

/// 1 if a scenario has failed; otherwise [`SOME_SKIPPED`] if one was skipped.
fn exit_code<'a>(verdicts: impl Iterator<Item = &'a Verdict>) -> u8 {
    let mut code = 0;
    for verdict in verdicts {
        match verdict {
            Verdict::Passed => {}
            Verdict::Failed(_) => return 1,
            Verdict::Skipped(_) => code = SOME_SKIPPED,
        }
    }
    code
}

/// Stores the guest's report, a line for each phase.
fn keep(name: &str, run: &qemu::Run) {
    let lines: String = run.phases.iter().map(|phase| format!("{phase}\n")).collect();
    if let Err(error) = std::fs::write(folder().join(format!("{name}.json")), lines) {
        eprintln!("xtask vm: cannot keep {name}.json: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A guest that was skipped has not passed.
    #[test]
    fn the_exit_code_tells_passed_skipped_and_failed_apart() {
        let (passed, skipped) = (Verdict::Passed, Verdict::Skipped("no kernel".to_owned()));
        let failed = Verdict::Failed(vec!["a fault".to_owned()]);
        assert_eq!(exit_code([&passed, &passed].into_iter()), 0);
        assert_eq!(exit_code([&skipped, &passed].into_iter()), SOME_SKIPPED);
        assert_eq!(exit_code([&skipped, &failed, &passed].into_iter()), 1);
    }
}
