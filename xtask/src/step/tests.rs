use super::*;

/// The output of a test program by `--show-output`, with a test that skips itself.
const OUTPUT: &str = "\
running 3 tests
test one ... ok
test two ... ok

successes:

---- one stdout ----
SKIPPED: no counter that may be read

---- two stdout ----
thread 'two' panicked at tests/two.rs:3: as it should

successes:
    one
    two

failures:

---- three stdout ----
thread 'three' panicked at tests/three.rs:7:
left: 1

failures:
    three

test result: FAILED. 2 passed; 1 failed; 0 ignored
";

#[test]
fn a_test_that_skips_itself_is_counted_whatever_is_before_its_mark() {
    let found: Vec<&str> = skips(OUTPUT).collect();
    assert_eq!(found, ["no counter that may be read"]);
    let found: Vec<&str> = skips("test one ... SKIPPED: no root\nok\nSKIPPED all guests").collect();
    assert_eq!(found, ["no root"]);
}

/// Tests that passed may print panics of their own.
#[test]
fn the_faults_of_a_step_are_those_of_tests_that_failed() {
    let faults = faults(&without_successes(OUTPUT));
    assert!(
        faults.contains("panicked at tests/three.rs:7:\nleft: 1"),
        "{faults}"
    );
    assert!(!faults.contains("two.rs"), "{faults}");
}

#[test]
fn an_output_without_a_sign_of_an_error_is_shown_at_its_end() {
    let output: String = (0..30).map(|line| format!("line {line}\n")).collect();
    let faults = faults(&output);
    assert!(faults.starts_with("line 14\n"), "{faults}");
    assert!(faults.ends_with("line 29"), "{faults}");
}

#[test]
fn a_step_passes_fails_or_is_skipped_and_says_so() {
    let steps = [
        Step::new("passes", ["true"]),
        Step::new("fails", ["false"]),
        Step::new("lacks", ["true"])
            .needs(["true"])
            .needs(["no-such-program-of-tickline"]),
    ];
    let AllDone { code, rows } = run_all(&steps);
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

/// The harness calls such a test passed.
#[test]
fn a_step_that_passes_names_the_tests_that_skipped_themselves() {
    let tests = Step::new("tests", ["echo", "SKIPPED: no root"]);
    let done = run_step(&tests);
    assert!(done.result.is_ok());
    assert_eq!(done.skips, ["no root"]);
    assert_eq!(done.words(), "passed, skips within: 1");
}

/// A command says by its exit code that it has skipped some of its checks.
#[test]
fn a_command_that_skips_parts_has_neither_passed_nor_failed() {
    let mut skips = Vec::new();
    let exit = Step::new("parts", ["sh", "-c", "exit 77"]);
    let result = run(&exit, &mut skips);
    assert!(
        matches!(&result, Err(Skipped(why)) if why.is_empty()),
        "{result:?}"
    );
    assert_eq!(code([result].iter()), SOME_SKIPPED);
}

#[test]
fn a_command_fails_if_one_check_fails_and_skips_if_one_is_skipped() {
    let skipped = || Err::<(), _>(Skipped("no root".to_owned()));
    let failed = || Err::<(), _>(Failed("red".to_owned()));
    for (results, expected) in [
        (vec![], 0),
        (vec![Ok(())], 0),
        (vec![Ok(()), skipped()], SOME_SKIPPED),
        (vec![skipped(), failed(), Ok(())], 1),
    ] {
        assert_eq!(code(results.iter()), expected);
    }
    let results = [Ok(()), skipped(), failed(), skipped()];
    assert_eq!(counts(results.iter()), "1 passed, 1 failed, 2 skipped");
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

#[test]
fn a_step_with_tests_is_known_by_its_command() {
    assert!(Step::new("x", ["cargo", "+nightly", "miri", "test", "--lib"]).runs_tests());
    assert!(!Step::new("x", ["cargo", "xtask", "vm", "tsc"]).runs_tests());
    assert!(!Step::new("x", ["sh", "tests/openmetrics.sh"]).runs_tests());
}

#[test]
fn the_passes_of_all_test_programs_are_summed() {
    let one = "test result: ok. 12 passed; 0 failed; 1 ignored\n";
    assert_eq!(passed(&one.repeat(2)), 24);
    assert_eq!(passed("no test ran"), 0);
}
