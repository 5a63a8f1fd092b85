//! `cargo xtask vm`: real kernels with bad clocks, in guests under QEMU's emulation. See
//! `tests/vm/README.md`.

mod findings;
mod image;
mod judge;
mod migrate;
mod packages;
mod programs;
mod qemu;
mod scenario;
mod table;

use std::path::PathBuf;
use std::time::Instant;

pub(crate) use image::BUILD;
use image::Failure;
use judge::Verdict;
use scenario::Scenario;
use table::Row;

use crate::files;
use crate::step::SOME_SKIPPED;

/// Where kernel, initramfs and the guests' consoles are kept.
fn folder() -> PathBuf {
    files::target().join("vm")
}

/// Runs the scenarios of these names, or all; judges them and prints a table. Fails if one of
/// them does, and says so if one was skipped. `--write` stores the tables, or behind names the rows of
/// these; `--findings` runs the guests with expected findings of the program `tickline`, and stores the
/// table of findings. `--prepare` only fetches what guests need, so that CI can distinguish a skipped
/// step from one that has passed.
pub(crate) fn run(arguments: &[&str]) -> Result<u8, String> {
    let (names, store) = match arguments {
        ["--programs", rest @ ..] => return programs::run(rest),
        ["--prepare"] => {
            return match image::fetch() {
                Ok(_) => Ok(0),
                Err(Failure::Missing(what) | Failure::Broken(what)) => Err(format!("no guests here: {what}")),
            };
        }
        [names @ .., "--write"] => (names, true),
        names => (names, false),
    };
    let findings_alone = names == ["--findings"];
    let names = if findings_alone { &[] } else { names };
    let scenarios = scenario::all()?;
    if let Some(unknown) = names.iter().find(|name| !scenarios.iter().any(|one| one.name == **name)) {
        let all: Vec<String> =
            scenarios.iter().map(|one| format!("  {:<16} {}", one.name, one.about)).collect();
        return Err(format!("'{unknown}' is no scenario; there are\n{}", all.join("\n")));
    }
    let image = match image::prepare() {
        Ok(image) => image,
        Err(Failure::Missing(what)) => {
            println!("SKIPPED all guests: {what}. Nothing was checked.");
            return Ok(SOME_SKIPPED);
        }
        Err(Failure::Broken(what)) => return Err(format!("before the first guest: {what}")),
    };
    let wanted = |one: &&Scenario| match findings_alone {
        true => !one.findings.is_empty(),
        false => names.is_empty() || names.contains(&one.name.as_str()),
    };
    let start = Instant::now();
    let mut rows = Vec::new();
    for one in scenarios.iter().filter(wanted) {
        println!("\n=== {}: {}", one.name, one.about);
        let start = Instant::now();
        let run = match one.program.as_ref().map(|program| image.with(program)) {
            None => qemu::run(one, &image),
            Some(Ok(image)) => qemu::run(one, &image),
            Some(Err(Failure::Missing(what))) => qemu::Run::unavailable(&what),
            Some(Err(Failure::Broken(what))) => qemu::Run { phases: Vec::new(), broken: Some(what) },
        };
        // The guest's report, a line for each phase.
        let lines: String = run.phases.iter().map(|phase| format!("{phase}\n")).collect();
        files::store(folder().join(format!("{}.json", one.name)), &lines)?;
        let verdict = judge::judge(one, &run);
        for line in verdict.lines().into_iter().chain(judge::note(&run.phases)) {
            println!("    {line}");
        }
        rows.push(Row { scenario: one, verdict, seconds: start.elapsed().as_secs_f64(), run });
    }
    table::print(&rows, start.elapsed().as_secs_f64());
    findings::print(&rows);
    match (store, names.is_empty()) {
        (true, true) => table::store(&rows).and_then(|()| findings::store(&rows))?,
        (true, false) => table::store_some(&scenarios, &rows)?,
        (false, _) if findings_alone => findings::store(&rows)?,
        (false, _) => {}
    }
    Ok(exit_code(rows.iter().map(|row| &row.verdict)))
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
