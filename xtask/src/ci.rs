//! Runs the checks of CI. Each lane has a file with its steps: `ci/check.rs`, `ci/deep.rs` and
//! `ci/nightly.rs`; the steps of the workspaces beside the main one are in `ci/workspaces.rs`. A
//! step runs in the root of the workspace. Steps run in the order of the file (`step.rs`).
//!
//! A step that runs tests lets them show their output, because a test that can't do its work prints
//! `SKIPPED: REASON`, and passes; the summary counts these tests. Steps that need other flags or
//! another compiler build into a directory of their own, so that cargo does not build everything
//! again in the next step. A step that runs only some tests names them by `only_tests`, and fails
//! if one of the names chooses no test.
//!
//! A new step is a `Step` in the file of its lane, at the place where it is to run. Its words are
//! those of the command line. A comment says what it shows, if the name does not. `needs` is a
//! command that fails where a tool is missing, and changes nothing; `.ci/run` installs the tools.
//! `prepare_by` is a command that fetches, installs or makes what the step uses. The name is also
//! the key of a row in `docs/nightly.md`, if the lane is `nightly`.
//! `cargo xtask ci deep "NAME"` runs a step of the lane `deep` alone.

mod check;
mod deep;
mod nightly;
mod results;
mod workspaces;

use clap::{Args, ValueEnum};

use crate::command::output_of;
use crate::step::{self, Step};
use crate::targets::{PUBLISHED, package_options};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// One lane in place of `check` and `deep`
    lane: Option<Lane>,
    /// Only the lane's steps of these names, as in the files of xtask/src/ci/
    #[arg(value_name = "STEP", requires = "lane")]
    names: Vec<String>,
    /// Runs nothing; says which stored results of the lane nightly are of the present code
    #[arg(long = "stored", requires = "lane")]
    only_compares: bool,
}

/// A list of steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Lane {
    /// For each commit: format, clippy, docs, tests, stored API
    Check,
    /// For each change: loom, Miri, simulator, guests, fuzzing
    Deep,
    /// What takes too long for every change; stores the results in docs/nightly.md
    Nightly,
}

/// Runs the steps of these names, or all steps of these lanes, in order. Stores the results
/// of the nightly lane. With `--stored`, only says which of these results are of the present code.
pub(crate) fn run(arguments: &Arguments) -> Result<u8, String> {
    let Arguments {
        lane,
        names,
        only_compares,
    } = arguments;
    let is_nightly = *lane == Some(Lane::Nightly);
    if *only_compares && !is_nightly {
        return Err("only the lane nightly stores results".to_owned());
    }
    let both = [Lane::Check, Lane::Deep];
    let of_lanes = || steps(lane.as_ref().map_or(&both, std::slice::from_ref));
    let mut chosen = of_lanes();
    for name in names {
        if !chosen.iter().any(|step| step.name == *name) {
            let all: Vec<_> = chosen.iter().map(|step| step.name).collect();
            return Err(format!(
                "this lane has no step '{name}'; there are\n  {}",
                all.join("\n  ")
            ));
        }
    }
    chosen.retain(|step| names.is_empty() || names.iter().any(|name| name == step.name));
    if *only_compares {
        return results::compare_with_present_code(&chosen);
    }
    // Read the commit before the steps run, because each step reads the tree when it begins.
    let [commit, date] = [results::present_commit(), output_of("date -u +%F")];
    let done = step::run_all(&chosen);
    if std::env::var_os("GITHUB_ACTIONS").is_some() {
        print!("{}", done.annotations);
    }
    if is_nightly {
        results::store(&of_lanes(), &done.rows, &commit?, &date?)?;
    }
    Ok(done.code)
}

/// The steps of these lanes.
pub(crate) fn steps(lanes: &[Lane]) -> Vec<Step> {
    let of_lane = |lane: &Lane| match lane {
        Lane::Check => check::steps(),
        Lane::Deep => deep::steps(),
        Lane::Nightly => nightly::steps(),
    };
    lanes.iter().flat_map(of_lane).collect()
}

/// The options of cargo that choose the published crates.
fn published() -> impl Iterator<Item = &'static str> {
    package_options(PUBLISHED)
}

/// The oldest supported compiler.
const OLDEST: &str = "1.88";

/// A command of cargo by the oldest supported compiler, which is installed for it.
fn by_oldest_compiler(name: &'static str, command: &str) -> Step {
    let toolchain = format!("+{OLDEST}");
    Step::new(name, ["cargo", &toolchain, command])
        .args(["--target-dir", "target/msrv"])
        .prepare_by([
            "rustup",
            "toolchain",
            "install",
            OLDEST,
            "--profile",
            "minimal",
        ])
        // A cargo that is not rustup's proxy takes no toolchain.
        .prepare_by(["cargo", &toolchain, "--version"])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::command::{command, output};
    use crate::files;

    #[test]
    fn a_step_that_a_lane_does_not_have_is_refused_with_those_that_it_has() {
        let error = run(&Arguments {
            lane: Some(Lane::Check),
            names: vec!["clipy".to_owned()],
            only_compares: false,
        });
        let error = error.unwrap_err();
        assert!(error.starts_with("this lane has no step 'clipy'; there are\n"));
        for step in steps(&[Lane::Check]) {
            assert!(error.contains(step.name), "{error}");
        }
    }

    #[test]
    fn the_lanes_have_steps_of_distinct_names() {
        let steps = steps(Lane::value_variants());
        let names: BTreeSet<&str> = steps.iter().map(|step| step.name).collect();
        assert_eq!(names.len(), steps.len());
    }

    /// Two words in one string would be one argument, and a brace is a name that `format!` did not
    /// see.
    #[test]
    fn every_word_of_a_command_is_one_argument() {
        for step in steps(Lane::value_variants()) {
            for word in &step.command {
                assert!(!word.contains([' ', '{']), "{}: {word}", step.name);
            }
        }
    }

    /// A question must not act. What fetches, installs or makes something is a preparation.
    #[test]
    fn what_a_step_needs_is_only_looked_for() {
        /// The last word of the question that does not end in `version`.
        const OTHER: &str = "prometheus_client.openmetrics.parser";
        for step in steps(Lane::value_variants()) {
            for need in &step.needs {
                let last = need.last().map_or("", String::as_str);
                let is_question = last.ends_with("version") || last == OTHER;
                assert!(is_question, "{}: {need:?}", step.name);
            }
        }
    }

    /// Where the repository's tools don't run, `.ci/run` tests these crates without them.
    #[test]
    fn other_systems_test_the_published_crates() {
        let script = files::read(".ci/run").unwrap();
        let (_, rest) = script.split_once("cargo test --no-fail-fast").unwrap();
        let (options, _) = rest.split_once("\nfi").unwrap();
        let words = options.split_whitespace().filter(|word| *word != "\\");
        assert!(words.eq(published()), "{options}");
    }

    #[test]
    fn the_oldest_compiler_is_the_one_that_the_crates_name() {
        let manifest = files::read("Cargo.toml").unwrap();
        assert!(manifest.contains(&format!("\nrust-version = \"{OLDEST}\"\n")));
    }

    /// A step that is renamed loses its stored result.
    #[test]
    fn the_stored_results_are_those_of_present_steps() {
        let steps = steps(&[Lane::Nightly]);
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
        let steps = steps(Lane::value_variants());
        let tests = || steps.iter().filter(|step| step.runs_tests());
        assert!(tests().count() > 10);
        for step in tests() {
            let shows = ["--show-output", "--nocapture"];
            let is_shown = step
                .command
                .iter()
                .any(|word| shows.contains(&word.as_str()));
            assert!(is_shown, "{}", step.name);
        }
    }

    /// Another filter might choose no test, and the step would pass.
    #[test]
    fn every_filter_of_tests_is_one_of_only_tests() {
        let steps = steps(Lane::value_variants());
        for step in steps.iter().filter(|step| step.runs_tests()) {
            let words = step.command.iter().skip_while(|word| *word != "--");
            let words: Vec<&str> = words.map(String::as_str).collect();
            let pairs = words.windows(2).filter(|pair| pair[0] != "--skip");
            let others = pairs.map(|pair| pair[1]);
            let others: Vec<&str> = others.filter(|word| !word.starts_with('-')).collect();
            assert_eq!(others, step.filters, "{}", step.name);
        }
    }

    /// The step would fail, but in another lane.
    #[test]
    fn every_filter_of_tests_chooses_one() {
        let sources = output_of("git grep -hwE fn|mod -- *.rs").unwrap();
        for step in steps(Lane::value_variants()) {
            for filter in &step.filters {
                // Colons after the name leave out tests that have the module's name in theirs.
                let name = filter.trim_end_matches("::");
                let is_there = ["fn", "mod"].map(|kind| format!("{kind} {name}"));
                let is_there = is_there.iter().any(|text| sources.contains(text));
                assert!(is_there, "{}: {filter}", step.name);
            }
        }
    }

    /// The name of a skipped test leaves out each test whose name begins with it. With colons
    /// behind it, it names a module.
    #[test]
    fn every_test_that_is_skipped_is_there_once() {
        let sources = output_of("git grep -hwE fn|mod -- *.rs").unwrap();
        for step in steps(Lane::value_variants()) {
            for pair in step.command.windows(2).filter(|pair| pair[0] == "--skip") {
                let text = match pair[1].strip_suffix("::") {
                    Some(module) => format!("mod {module};"),
                    None => format!("fn {}", pair[1]),
                };
                let found = sources.matches(&text).count();
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
            let mut tree =
                command("cargo tree -e normal --prefix none --target x86_64-unknown-linux-gnu -p");
            let tree = output(tree.arg(name)).unwrap();
            let mut brought: BTreeSet<&str> = tree
                .lines()
                .filter_map(|line| line.split_whitespace().next())
                .collect();
            brought.remove(name);
            assert!(brought.iter().eq(expected), "{name} brings {brought:?}");
        }
    }
}
