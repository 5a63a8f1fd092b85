//! The stored results of the lane `nightly`: writes the table of `docs/nightly.md`, and says which
//! rows hold for the present code.

use crate::changes::{Other, changed_files};
use crate::command::output_of;
use crate::files::{self, root};
use crate::host::host_description;
use crate::step::Step;

const PAGE: &str = "docs/nightly.md";
const BLOCK: &str = "nightly";

/// All code of the repository, which decides the result of a step. Documents and the figures of
/// `benches/record` are no code. Nor does this file count, which only stores and compares rows, and
/// which the lane `check` compiles and tests.
const CODE: &str = ". :(exclude)docs :(exclude)benches/record :(exclude,glob)**/*.md :(exclude)xtask/src/ci/results.rs";

/// The integration tests of the libraries, which few steps compile: guests, programs and the lane's
/// measurements contain the libraries alone, and the mutants are run by unit tests and models.
pub(super) const LIBRARY_TESTS: &str = "crates/*/tests/**";

/// tickline-criterion, on which only the benches depend, as a test of `repository/wings.rs` shows.
pub(super) const CRITERION: &str = "crates/tickline-criterion/**";

/// The program `tickline`, on which no crate depends, as a test of `repository/wings.rs` shows.
pub(super) const PROGRAM: &str = "machine/tickline-cli/**";

/// The number of changed files that [`compare_with_present_code`] names for a step.
const NAMED: usize = 3;

/// The present commit, for the rows of steps that run now. It says so if code has changed since the
/// commit.
pub(super) fn present_commit() -> Result<String, String> {
    let commit = output_of("git rev-parse --short HEAD")?;
    let changed = changed_files(root(), "HEAD", Other::PresentFiles, CODE);
    let is_changed = changed.is_none_or(|files| !files.is_empty());
    Ok(commit + if is_changed { " with changes" } else { "" })
}

/// The beginning of the row of each step.
fn starts(steps: &[Step]) -> Vec<String> {
    let start = |step: &Step| format!("| {} |", step.name);
    steps.iter().map(start).collect()
}

/// Stores rows of new results, each without its commit and date. `steps` are those of the whole
/// lane.
pub(super) fn store(steps: &[Step], results: &str, commit: &str, date: &str) -> Result<(), String> {
    let starts = starts(steps);
    let end = format!(" {commit} | {date} |\n");
    let new: String = results.lines().map(|row| format!("{row}{end}")).collect();
    // `merged` keeps the first row of each step: a new one, a stored one, or one of these.
    let none: String = starts
        .iter()
        .map(|start| format!("{start} not run | | | |\n"))
        .collect();
    let stored = files::block(PAGE, BLOCK)? + &none;
    let table = files::merged(&starts, &new, &stored)?;
    let head = "| step | | s | commit | date |\n|---|---|---|---|---|\n";
    let block = format!(
        "The newest rows are from {}.\n\n{head}{table}",
        host_description()
    );
    files::store_block(PAGE, BLOCK, &block)
}

/// Prints for each step what its stored row says of the present code. Returns 1 unless each step
/// has passed on the present code.
pub(super) fn compare_with_present_code(steps: &[Step]) -> Result<u8, String> {
    let stored = files::block(PAGE, BLOCK)?;
    let mut code = 0;
    for (step, start) in steps.iter().zip(starts(steps)) {
        let row = stored.lines().find_map(|row| row.strip_prefix(&start));
        let paths = code_of(step);
        let changed = |commit: &str| changed_files(root(), commit, Other::PresentFiles, &paths);
        let standing = standing(row, changed);
        code |= u8::from(standing.is_err());
        let (Ok(words) | Err(words)) = standing;
        println!("{}: {words}", step.name);
    }
    Ok(code)
}

/// The code that decides the result of this step.
fn code_of(step: &Step) -> String {
    let mut code = CODE.to_owned();
    for not_compiled in &step.not_compiled {
        code += &format!(" :(exclude,glob){not_compiled}");
    }
    code
}

/// What a row says of the present code: `Ok` if its step has passed on it. `row` is the rest of the
/// row after the step's name. `changed` lists the files that have changed since a commit, and
/// returns `None` if this clone does not have the commit.
fn standing(
    row: Option<&str>,
    changed: impl FnOnce(&str) -> Option<Vec<String>>,
) -> Result<String, String> {
    let cells = row.unwrap_or_default().split('|').map(str::trim);
    let cells: Vec<&str> = cells.collect();
    let never_run = Err("never run".to_owned());
    let [result, _, commit, ..] = cells[..] else {
        return never_run;
    };
    if result == "not run" {
        return never_run;
    }
    let on_commit = format!("on {commit}: {result}");
    if !result.starts_with("passed") || commit.contains(' ') {
        return Err(on_commit);
    }
    match changed(commit) {
        None => Err(format!("{on_commit}; this clone does not have the commit")),
        Some(files) if files.is_empty() => Ok(format!("on the present code: {result}")),
        Some(files) => {
            let (named, others) = files.split_at(files.len().min(NAMED));
            let mut named = named.join(", ");
            if !others.is_empty() {
                named += &format!(" and {} more", others.len());
            }
            Err(format!("{on_commit}; code has changed since in {named}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::tests::changed_after;

    /// What a row says if these files have changed since its commit.
    fn standing_after(row: &str, changed: &[&str]) -> Result<String, String> {
        let files = changed.iter().map(|file| (*file).to_owned()).collect();
        standing(Some(row), |commit| {
            assert_eq!(commit, "4b0301dd");
            Some(files)
        })
    }

    const PASSED: &str = " passed | 270 | 4b0301dd | 2026-11-28 |";

    #[test]
    fn a_step_that_passed_holds_while_no_code_has_changed() {
        let words = "on the present code: passed".to_owned();
        assert_eq!(standing_after(PASSED, &[]), Ok(words));
    }

    #[test]
    fn a_step_that_passed_on_other_code_names_the_first_files_that_have_changed() {
        for (changed, expected) in [
            (&["a.rs"] as &[&str], "a.rs"),
            (&["a", "b", "c", "d"], "a, b, c and 1 more"),
        ] {
            let words = format!("on 4b0301dd: passed; code has changed since in {expected}");
            assert_eq!(standing_after(PASSED, changed), Err(words));
        }
    }

    #[test]
    fn skips_within_a_step_are_named_beside_its_result() {
        let row = PASSED.replace("passed", "passed, skips within: 2");
        let words = "on the present code: passed, skips within: 2".to_owned();
        assert_eq!(standing_after(&row, &[]), Ok(words));
    }

    #[test]
    fn a_step_that_failed_or_was_skipped_has_not_passed() {
        for word in ["FAILED", "SKIPPED"] {
            let standing = standing_after(&PASSED.replace("passed", word), &[]);
            assert_eq!(standing, Err(format!("on 4b0301dd: {word}")));
        }
    }

    #[test]
    fn a_step_without_a_result_has_never_run() {
        for row in [None, Some(" not run | | | |")] {
            let standing = standing(row, |_| Some(Vec::new()));
            assert_eq!(standing, Err("never run".to_owned()), "{row:?}");
        }
    }

    /// The commit does not say which code has run.
    #[test]
    fn a_step_that_passed_on_a_commit_with_changes_does_not_hold() {
        let row = PASSED.replace("4b0301dd", "4b0301dd with changes");
        let standing = standing_after(&row, &[]);
        assert_eq!(standing, Err("on 4b0301dd with changes: passed".to_owned()));
    }

    #[test]
    fn a_step_that_passed_on_a_commit_of_another_clone_does_not_hold() {
        let words = "on 4b0301dd: passed; this clone does not have the commit".to_owned();
        assert_eq!(standing(Some(PASSED), |_| None), Err(words));
    }

    #[test]
    fn all_code_is_code_of_a_step_but_what_it_does_not_compile() {
        let of_a_library = "crates/a/tests/it.rs";
        let of_criterion = "crates/tickline-criterion/src/a.rs";
        let others = ["crates/a/src/tests/it.rs", "machine/a/tests/it.rs"];
        let all = [others[0], of_a_library, of_criterion, others[1]];
        let changes = all.map(|path| [path, "1\n", "2\n"]);
        let changed = |name, step| changed_after(name, &changes, &code_of(&step));
        let step = || Step::new("a step", ["true"]);
        assert_eq!(changed("all-code", step()), all);
        let without = step().without(LIBRARY_TESTS).without(CRITERION);
        assert_eq!(changed("some-code", without), others);
    }

    #[test]
    fn documents_and_records_are_no_code_of_a_step() {
        let code = [
            ".ci/run",
            "Cargo.lock",
            "benches/src/a.rs",
            "crates/a/docs/a.rs",
            "crates/a/tests/it.rs",
            "examples/a.rs",
            "fuzz/a.rs",
            "machine/a.rs",
            "tests/vm/guests.toml",
            "xtask/src/a.rs",
        ];
        let others = [
            "README.md",
            "crates/a/README.md",
            "docs/api/a.txt",
            "benches/record/a.json",
            "benches/record/older/a.json",
        ];
        let changes = code.iter().chain(&others);
        let changes: Vec<_> = changes.map(|path| [*path, "1\n", "2\n"]).collect();
        assert_eq!(changed_after("steps", &changes, CODE), code);
    }
}
