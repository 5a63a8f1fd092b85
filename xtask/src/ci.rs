//! Runs the checks of CI (`xtask/ci.toml`).

use clap::{Args, ValueEnum};
use serde::Deserialize;

use crate::files;
use crate::step::{self, Step};
use crate::targets::{PUBLISHED, package_options};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// One lane in place of `check` and `deep`
    lane: Option<Lane>,
    /// Only the steps of these names in xtask/ci.toml
    #[arg(value_name = "STEP", requires = "lane")]
    names: Vec<String>,
}

/// A list of steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Lane {
    /// For each commit: format, clippy, docs, tests, stored API
    Check,
    /// For each change: loom, Miri, simulator, guests, fuzzing, other targets
    Deep,
    /// What takes too long for every change; stores the results in docs/nightly.md
    Nightly,
}

/// The steps of `xtask/ci.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Lanes {
    check: Vec<Step>,
    deep: Vec<Step>,
    nightly: Vec<Step>,
}

/// Runs the steps of these names, or all steps of these lanes, in the order of the table. Stores
/// the results of the nightly lane.
pub(crate) fn run(arguments: &Arguments) -> Result<u8, String> {
    let Arguments { lane, names } = arguments;
    let both = [Lane::Check, Lane::Deep];
    let mut steps = steps(lane.as_ref().map_or(&both, std::slice::from_ref))?;
    for name in names {
        if !steps.iter().any(|step| step.name == *name) {
            return Err(format!("ci.toml has no step '{name}' in this lane"));
        }
    }
    let starts: Vec<String> = steps
        .iter()
        .map(|step| format!("| {} |", step.name))
        .collect();
    steps.retain(|step| names.is_empty() || names.contains(&step.name));
    // Read the commit before the steps run, because each step reads the tree when it begins.
    let [commit, date] = ["git rev-parse --short HEAD", "date -u +%F"].map(step::output_of);
    let (code, results) = step::run_all(&steps);
    if *lane == Some(Lane::Nightly) {
        let end = format!(" {} | {} |\n", commit?, date?);
        let new: String = results.lines().map(|row| format!("{row}{end}")).collect();
        // `merged` takes the first row of each step: a new one, a stored one, or one of these.
        let none: String = starts
            .iter()
            .map(|start| format!("{start} not run | | | |\n"))
            .collect();
        let stored = files::block("docs/nightly.md", "nightly")? + &none;
        let table = files::merged(&starts, &new, &stored)?;
        let head = "| step | | s | commit | date |\n|---|---|---|---|---|\n";
        let block = format!(
            "The newest rows are from {}.\n\n{head}{table}",
            step::host_description()
        );
        files::store_block("docs/nightly.md", "nightly", &block)?;
    }
    Ok(code)
}

/// The steps of these lanes, with commands that can be run.
pub(crate) fn steps(lanes: &[Lane]) -> Result<Vec<Step>, String> {
    let table: Result<Lanes, _> = toml::from_str(&files::read("xtask/ci.toml")?);
    let table = table.map_err(|error| format!("ci.toml: {error}"))?;
    let mut steps = Vec::new();
    for (lane, its_steps) in [
        (Lane::Check, table.check),
        (Lane::Deep, table.deep),
        (Lane::Nightly, table.nightly),
    ] {
        if lanes.contains(&lane) {
            steps.extend(its_steps);
        }
    }
    let published = package_options(PUBLISHED);
    let commit = step::output_of("git rev-parse --short HEAD");
    let commit = commit.unwrap_or_else(|_| "no-commit".into());
    for step in &mut steps {
        let command = step.command.replace("{published}", &published);
        step.command = command.replace("{commit}", &commit);
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_lanes_have_steps_of_distinct_names() {
        let steps = steps(Lane::value_variants()).unwrap();
        let names: BTreeSet<&str> = steps.iter().map(|step| step.name.as_str()).collect();
        assert!(names.len() == steps.len() && steps.iter().all(|step| !step.command.contains('{')));
    }

    /// A step that is renamed loses its stored result.
    #[test]
    fn the_stored_results_are_those_of_present_steps() {
        let steps = steps(&[Lane::Nightly]).unwrap();
        let stored = files::block("docs/nightly.md", "nightly").unwrap();
        let rows = stored.lines().filter(|line| line.starts_with("| "));
        // The first row is the head of the table.
        for row in rows.skip(1) {
            let is_present = steps
                .iter()
                .any(|step| row.starts_with(&format!("| {} |", step.name)));
            assert!(is_present, "{row}");
        }
    }

    /// Without it, nobody would see which tests have skipped themselves.
    #[test]
    fn every_step_that_runs_tests_shows_their_output() {
        let steps = steps(Lane::value_variants()).unwrap();
        let tests = || steps.iter().filter(|step| step.runs_tests());
        assert!(tests().count() > 10);
        for step in tests() {
            let shows = ["--show-output", "--nocapture"];
            let is_shown = shows.iter().any(|option| step.command.contains(option));
            assert!(is_shown, "{}", step.name);
        }
    }

    /// The name of a skipped test leaves out each test whose name begins with it.
    #[test]
    fn every_test_that_is_skipped_is_there_once() {
        let sources = step::output_of("git grep -hw fn -- *.rs").unwrap();
        for step in steps(Lane::value_variants()).unwrap() {
            let words: Vec<&str> = step.command.split_whitespace().collect();
            for pair in words.windows(2).filter(|pair| pair[0] == "--skip") {
                let found = sources.matches(&format!("fn {}", pair[1])).count();
                assert_eq!(found, 1, "{}: {}", step.name, pair[1]);
            }
        }
    }

    /// The dependencies of each crate on Linux, with default features.
    #[test]
    fn crates_that_promise_few_dependencies_have_no_others() {
        for (name, expected) in [
            ("tickline-core", &[] as &[&str]),
            ("tickline", &["libc", "once_cell", "tickline-core"]),
        ] {
            let tree = step::output_of(&format!(
                "cargo tree -p {name} -e normal --prefix none --target x86_64-unknown-linux-gnu"
            ));
            let tree = tree.unwrap();
            let mut brought: BTreeSet<&str> = tree
                .lines()
                .filter_map(|line| line.split_whitespace().next())
                .collect();
            brought.remove(name);
            assert!(brought.iter().eq(expected), "{name} brings {brought:?}");
        }
    }
}
