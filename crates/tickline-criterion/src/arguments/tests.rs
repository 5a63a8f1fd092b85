//! Tests of which arguments are taken, which are refused and how, and what is passed on.

use super::*;

fn take(line: &str) -> Result<(Options, Vec<OsString>), String> {
    Options::take(line.split(' ').map(OsString::from))
}

/// What the process of the command gets.
fn passed_text(command: &Command) -> &str {
    command
        .get_envs()
        .find(|(name, _)| *name == PASSED)
        .and_then(|(_, text)| text?.to_str())
        .expect("the variable")
}

#[test]
fn the_next_start_of_the_program_has_the_same_options() {
    let options = Options {
        include_disturbed: true,
        verdicts: Some("verdicts.json".into()),
        ..Options::default()
    };
    let mut command = Command::new("program");
    options.pass_on(command.arg("--bench")).expect("JSON");
    let passed = PassedSettings::read(passed_text(&command), texts(["--bench"]));
    assert_eq!(passed.options, options);
}

/// Symptom: a benchmark program that a benchmark starts took part in the turns.
#[test]
fn what_is_passed_on_is_for_a_process_with_these_arguments() {
    let mut command = Command::new("program");
    prepare_serving(command.args(["--test", "a b"]), Some(0.5), String::new()).expect("JSON");
    let text = passed_text(&command);
    let passed = PassedSettings::read(text, texts(["--test", "a b"]));
    assert_eq!((passed.role, passed.ns_per_tick), (Role::Serve, Some(0.5)));
    for arguments in [&["--test", "a"][..], &["--test", "a b", "c"], &[]] {
        assert_eq!(
            PassedSettings::read(text, texts(arguments)),
            PassedSettings::default()
        );
    }
}

/// Options of this crate and of criterion.
const MIXED: &str = "--bench --against a/b work --max-regression=3% --max-noise 2 --baseline main \
    --update-on-pass --verdicts=out.json --include-disturbed --noplot";

#[test]
fn each_own_option_is_taken() {
    let (options, _) = take(MIXED).expect("right");
    let expected = Options {
        include_disturbed: true,
        against: vec!["a/b".into()],
        layouts: Vec::new(),
        max_regression_percent: Some(3.0),
        max_noise_percent: Some(2.0),
        update_on_pass: true,
        verdicts: Some("out.json".into()),
    };
    assert_eq!(options, expected);
}

#[test]
fn options_that_are_not_own_are_left_to_criterion() {
    let (_, others) = take(MIXED).expect("right");
    assert_eq!(
        others,
        ["--bench", "work", "--baseline", "main", "--noplot"]
    );
}

/// criterion's arguments for these of the user.
fn for_criterion(line: &str) -> Vec<OsString> {
    let (own, others) = take(line).expect("right");
    own.for_criterion(others)
}

/// Symptom: criterion's "Performance has regressed", which was about the last run of whatever
/// build, was above this crate's "no difference found".
#[test]
fn in_turns_with_another_build_criterion_compares_with_no_run() {
    let found = for_criterion("--bench --against x -- work");
    let no = "--baseline-lenient=tickline-no-baseline";
    assert_eq!(found, [no, "--bench", "--", "work"]);
}

#[test]
fn what_criterion_compares_with_and_saves_is_the_users_choice() {
    for choice in [
        "--baseline=main",
        "--baseline-lenient main",
        "-nbmain",
        "--save-baseline main",
        "-smain",
        "--discard-baseline",
        "--load-baseline main",
    ] {
        let expected: Vec<&str> = choice.split(' ').collect();
        let found = for_criterion(&format!("--against x {choice}"));
        assert_eq!(found, expected);
    }
}

#[test]
fn without_another_build_criterion_compares_as_it_does() {
    assert_eq!(for_criterion("--verdicts x --bench"), ["--bench"]);
}

/// So many options `--against` and `--layout`.
fn layouts(against: usize, layouts: usize) -> Result<Options, String> {
    let own = "--against x ".repeat(against) + &"--layout y ".repeat(layouts);
    take(own.trim()).map(|(options, _)| options)
}

#[test]
fn each_layout_is_a_program_of_both_builds() {
    for (against, ours) in [(6, 5), (9, 8), (1, 0)] {
        let options = layouts(against, ours).expect("as many of both");
        assert_eq!(
            (options.against.len(), options.layouts.len()),
            (against, ours)
        );
    }
}

#[test]
fn too_few_layouts_or_not_as_many_of_both_builds_are_refused() {
    for (against, ours) in [(6, 4), (5, 4), (2, 0), (1, 1), (1, 5)] {
        let error = layouts(against, ours).expect_err("not as many, or too few");
        assert!(error.contains("6 or more layouts"), "{error}");
    }
}

#[test]
fn an_error_about_layouts_has_the_numbers_that_are_needed_and_given() {
    assert_eq!(
        layouts(6, 4).expect_err("one is missing"),
        "6 or more layouts are needed, with one --against each, and one --layout each except this \
         program's; got 6 --against and 4 --layout"
    );
}

/// Symptom: with a wrong argument beside it, `--verdicts -out.json` wrote to `-o`, and the file
/// kept the verdicts of an earlier run.
#[test]
fn the_file_for_the_verdicts_is_the_same_beside_a_wrong_argument() {
    for (line, file) in [
        ("--verdicts -out.json", "-out.json"),
        ("--verdicts=a --verdicts b", "b"),
    ] {
        let (options, _) = take(line).expect("right");
        assert_eq!(options.verdicts, Some(file.into()), "{line}");
        let wrong = format!("{line} --agianst x");
        let found = verdicts(wrong.split(' ').map(OsString::from));
        assert_eq!(found, Some(file.into()), "{wrong}");
    }
}

#[test]
fn an_option_without_its_value_does_not_hide_the_file_for_the_verdicts() {
    let line = "--against --verdicts b";
    assert!(take(line).is_err());
    let found = verdicts(line.split(' ').map(OsString::from));
    assert_eq!(found, Some("b".into()));
}

/// An option and its value, as two arguments and as one.
#[cfg(unix)]
fn both_forms(option: &str, value: &[u8]) -> [Vec<OsString>; 2] {
    use std::os::unix::ffi::OsStringExt;
    let joined = [option.as_bytes(), b"=", value].concat();
    [
        vec![option.into(), OsString::from_vec(value.to_vec())],
        vec![OsString::from_vec(joined)],
    ]
}

/// Symptom: the file was written, although its path was refused.
#[test]
#[cfg(unix)]
fn a_refused_path_is_no_file_for_the_verdicts() {
    for arguments in both_forms("--verdicts", b"a\xff") {
        assert_eq!(verdicts(arguments), None);
    }
}

/// Symptoms: "path contains invalid UTF-8 characters", without the path; after `=` such a path was
/// left to criterion.
#[test]
#[cfg(unix)]
fn a_path_that_is_not_utf_8_is_named_with_that_limit() {
    for (option, what) in [
        ("--against", "the path of a program"),
        ("--layout", "the path of a program"),
        ("--verdicts", "the path of a file"),
    ] {
        let expected = format!("{option}: a\u{fffd}.json is not {what} in UTF-8");
        for arguments in both_forms(option, b"a\xff.json") {
            let error = Options::take(arguments).expect_err("no UTF-8");
            assert_eq!(error, expected);
        }
    }
}

#[test]
fn an_unknown_argument_is_left_to_criterion() {
    let (options, others) = take("--bogus --against-main=y againts").expect("criterion's");
    assert_eq!(options, Options::default());
    assert_eq!(others, ["--bogus", "--against-main=y", "againts"]);
}

/// Symptom: a program ended by exit code 2, because it has a `--layout` of its own.
#[test]
fn without_bench_an_option_may_be_the_programs_own() {
    let own = |line: &str| own_among(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
    assert_eq!(own("--layout wide"), None);
    assert_eq!(own("--layout wide --bench"), Some("--layout"));
}

/// Symptom: "unexpected argument found", without its name.
#[test]
fn an_argument_that_is_nearly_an_option_is_named_with_the_option() {
    for (wrong, meant) in [
        ("--agianst x", "--against"),
        ("--againstx=y", "--against"),
        ("--verdict x", "--verdicts"),
        ("--max-regresion 3%", "--max-regression"),
    ] {
        let error = take(wrong).expect_err("no such option");
        let argument = wrong.split(' ').next().unwrap_or_default();
        assert_eq!(
            error,
            format!("there is no option {argument}; did you mean {meant}?")
        );
    }
}

/// Those that are most like one of this crate's.
#[test]
fn an_option_of_criterion_is_no_misspelling() {
    for option in [
        "--include-ignored",
        "--color",
        "--list",
        "--verbose",
        "--noise-threshold=3",
    ] {
        let (_, others) = take(option).expect(option);
        assert_eq!(others, [option]);
    }
}

/// Symptom: "no difference found" was above exit code 1: of +0.3 % (0.1 to 0.5 %) with a limit of
/// 0 %, or of +1.5 % from a baseline with one of 1 %.
#[test]
fn a_limit_below_the_smallest_difference_that_counts_is_refused() {
    for (line, limit, from, least) in [
        ("--against x", "0", "the other build", "0.5"),
        ("--against x", "0.49", "the other build", "0.5"),
        ("--baseline main", "1.9", "a stored run", "2"),
        ("--against x --baseline main", "0.5", "a stored run", "2"),
    ] {
        let error = take(&format!("{line} --max-regression {limit}%"));
        let expected = format!(
            "--max-regression {limit}% is too small: a difference from {from} counts from {least} % on; give {least}% \
             or more"
        );
        assert_eq!(error, Err(expected), "{line}");
    }
}

/// Symptom: only the error told of the smallest limit.
#[test]
fn the_help_has_the_smallest_limits() {
    let limits =
        format!("(at least {MIN_BUILDS_PERCENT} %; {MIN_BASELINE_PERCENT} % with a baseline)");
    let help = own_help();
    assert!(help.contains(&limits), "{help}");
}

#[test]
fn a_limit_of_the_smallest_difference_that_counts_is_taken() {
    for line in [
        "--against x --max-regression 0.5%",
        "--baseline main --max-regression 2%",
    ] {
        assert!(take(line).is_ok(), "{line}");
    }
}

#[test]
fn a_wrong_value_is_named_with_what_it_should_be() {
    for (line, error) in [
        ("--against", "--against needs the path of a program"),
        ("--against=", "--against needs the path of a program"),
        (
            "--against --bench",
            "--against needs the path of a program; --bench follows it",
        ),
        (
            "--max-regression --against x",
            "--max-regression needs a percentage such as 3%; --against follows it",
        ),
        ("--verdicts=", "--verdicts needs the path of a file"),
        (
            "--against x --max-regression=much",
            "--max-regression: much is not a percentage such as 3%",
        ),
        (
            "--against x --max-noise -2%",
            "--max-noise: -2% is not a percentage such as 2%",
        ),
        (
            "--update-on-pass=yes",
            "--update-on-pass takes no value: leave =yes out",
        ),
        (
            "--update-on-pass",
            "--update-on-pass needs --baseline NAME, the baseline to update",
        ),
        (
            "--baseline main --update-on-pass --max-noise 2%",
            "--update-on-pass needs --max-regression, such as 10%: without it a slower run passes, and would \
             become the baseline",
        ),
        (
            "--max-noise 2%",
            "--max-regression and --max-noise need --against PROGRAM or --baseline NAME",
        ),
    ] {
        assert_eq!(take(line), Err(error.to_owned()), "{line}");
    }
}
