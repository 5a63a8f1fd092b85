use super::*;

#[test]
fn a_step_passes_fails_or_is_skipped_and_says_so() {
    let steps = [
        Step::new("passes", ["true"]),
        Step::new("fails", ["false"]),
        Step::new("lacks", ["true"])
            .needs(["true"])
            .needs(["no-such-program-of-tickline"]),
    ];
    let AllDone { code, rows, .. } = run_all(&steps);
    assert_eq!(code, 1);
    let words: Vec<Vec<&str>> = rows
        .lines()
        .map(|row| row.split(" | ").take(2).collect())
        .collect();
    assert_eq!(
        words,
        [
            ["| passes", "passed"],
            ["| fails", "FAILED"],
            ["| lacks", "SKIPPED"]
        ]
    );
}

fn why_skipped(step: &Step) -> String {
    match run(step, &mut Vec::new()) {
        Err(Skipped(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_step_whose_tool_is_missing_is_not_prepared() {
    let lacks = Step::new("lacks", ["true"])
        .needs(["no-such-program-of-tickline"])
        .prepare_by(["no-such-preparation-of-tickline"]);
    let why = why_skipped(&lacks);
    assert!(why.contains("`no-such-program-of-tickline`"), "{why}");
}

#[test]
fn a_step_that_can_not_be_prepared_is_skipped_with_the_cause() {
    let unprepared = Step::new("unprepared", ["true"]).prepare_by(["ls", "no-such-folder"]);
    let why = why_skipped(&unprepared);
    assert!(why.contains("`ls no-such-folder`: exit status"), "{why}");
    assert!(why.lines().count() > 1, "{why}");
}

/// The harness calls such a test passed.
#[test]
fn a_step_that_passes_names_the_tests_that_skipped_themselves() {
    let tests = Step::new("tests", ["echo", "SKIPPED: no root"]);
    let done = run_step(&tests);
    assert!(done.result.is_ok());
    assert_eq!(done.skips, ["no root"]);
    assert_eq!(done.words(), "passed, skips within: 1");
}

/// Symptom: after a test was renamed, cargo ran none, and the step passed.
#[test]
fn a_step_fails_if_one_of_its_filters_chooses_no_test() {
    let words = "cargo test: test a::is_kept ... ok";
    let result = |filters: [&'static str; 2]| {
        let step = Step::new("filters", ["echo", words]).only_tests(filters);
        run(&step, &mut Vec::new())
    };
    assert!(result(["is_kept", "a::"]).is_ok());
    let failed = result(["is_kept", "is_gone"]);
    let expected = "no test has run whose path has `is_gone`";
    assert!(
        matches!(&failed, Err(Failed(why)) if why == expected),
        "{failed:?}"
    );
}

/// A command says by its exit code that it has skipped some of its checks.
fn skips_parts() -> Step {
    Step::new("parts", ["sh", "-c", "exit 77"])
}

#[test]
fn a_command_that_skips_parts_has_neither_passed_nor_failed() {
    let result = run(&skips_parts(), &mut Vec::new());
    assert_eq!(code([result].iter()), SOME_SKIPPED);
}

#[test]
fn a_step_whose_command_skips_parts_says_that_the_output_names_them() {
    let why = why_skipped(&skips_parts());
    assert_eq!(
        why,
        "parts of it were NOT checked, and its output names them"
    );
}

fn done(name: &'static str, result: Result<(), NotPassed>, skips: &[&str]) -> Done<'static> {
    Done {
        name,
        result,
        skips: skips.iter().map(|why| (*why).to_owned()).collect(),
        seconds: 1.25,
    }
}

/// Symptom: of the log of a failed run, all but the end was cut, and with it the failed step.
#[test]
fn failed_steps_are_last_in_the_summary() {
    let steps = [
        done("format", Err(Failed("a line".to_owned())), &[]),
        done("docs", Ok(()), &[]),
    ];
    assert_eq!(
        summary(&steps),
        "summary
  passed     1.2 s  docs
  FAILED     1.2 s  format
      a line
1 passed, 1 failed, 0 skipped; skips within steps: 0"
    );
}

#[test]
fn the_summary_counts_the_tests_that_skipped_themselves() {
    let steps = [
        done("format", Ok(()), &[]),
        done("tests", Ok(()), &["no root", "no compiler", "no root"]),
        done(
            "docs",
            Err(Failed("exit status: 1\nerror: a link".to_owned())),
            &[],
        ),
    ];
    assert_eq!(
        summary(&steps),
        "summary
  passed                      1.2 s  format
  passed, skips within: 3     1.2 s  tests
      SKIPPED within, 1 times: no compiler
      SKIPPED within, 2 times: no root
  FAILED                      1.2 s  docs
      exit status: 1
      error: a link
2 passed, 1 failed, 0 skipped; skips within steps: 3"
    );
    assert_eq!(steps[1].words(), "passed, skips within: 3");
}

/// Symptom: a run on the forge was green, and only its log told that clippy had not run.
#[test]
fn the_forge_is_told_what_was_skipped() {
    let steps = [
        done("clippy", Err(Skipped("no clippy\nat all".to_owned())), &[]),
        done("tests", Ok(()), &["no root", "no root"]),
        done("docs", Err(Failed("a link".to_owned())), &[]),
    ];
    assert_eq!(
        annotations(&steps),
        "::warning::SKIPPED clippy: no clippy
::notice::SKIPPED within tests, 2 times: no root
"
    );
}

#[test]
fn a_step_with_tests_is_known_by_its_command() {
    assert!(Step::new("x", ["cargo", "+nightly", "miri", "test", "--lib"]).runs_tests());
    assert!(!Step::new("x", ["cargo", "xtask", "vm", "tsc"]).runs_tests());
    assert!(!Step::new("x", ["sh", "tests/openmetrics.sh"]).runs_tests());
}
