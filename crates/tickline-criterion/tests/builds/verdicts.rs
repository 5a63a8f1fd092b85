//! Tests of `--max-regression`, `--max-noise` and `--verdicts`.

use std::fs;

use tickline_criterion::results::{ComparedWith, Conclusion, ReasonCode, RunState, Verdicts};

use crate::baselines::save_main_of;
use crate::benchmarks::{BLOCKS, ENDS, LATENCY, SLOW_CALLS};
use crate::programs::{Programs, texts};
use crate::refusals::tested;

/// Symptom: the verdicts of an earlier run stayed, with exit code 0 in them.
pub(crate) fn after_an_error_the_verdicts_say_so(programs: &Programs) {
    let file = programs.0.join("verdicts.json");
    let verdicts = format!("--verdicts={}", file.display());
    for (wrong, state) in [
        ("--max-noise=much", "failed"),
        ("--bogus", "unfinished"), // criterion itself ends the program
        ("--against=no/such/program", "failed"),
    ] {
        judged(programs, 100, 300, "--max-regression=10%");
        let output = programs.run(100, "work/spin", &[&verdicts, wrong]);
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        let found = programs.json("verdicts.json");
        assert_eq!(found["state"], state, "{wrong}");
        assert_eq!(found["benchmarks"].as_array().map(Vec::len), Some(0));
    }
}

/// Symptom: after an error, the file was that of a run that goes on or was killed.
pub(crate) fn the_verdicts_name_the_error_that_is_printed(programs: &Programs) {
    let file = programs.0.join("verdicts.json");
    let verdicts = format!("--verdicts={}", file.display());
    let against = format!("--against={}", programs.path(100).display());
    for (filter, arguments) in [
        ("plain", &["--max-noise=much"][..]),
        ("plain", &[&against]),
        ("work/spin", &["--baseline=nowhere"]),
        ("plain", &["--baseline-lenient=main", "--max-regression=3%"]),
    ] {
        let output = programs.run(100, filter, &[&[verdicts.as_str()], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let error = programs.json("verdicts.json")["error"].clone();
        let line = format!("tickline: {}\n", error.as_str().expect("an error"));
        assert!(texts(&output).1.contains(&line), "{arguments:?}: {line}");
    }
}

/// Symptom: exit code 0 and no benchmark, which a script took for a comparison that passed.
pub(crate) fn the_verdicts_of_a_run_that_measured_nothing_have_its_error(programs: &Programs) {
    let verdicts = format!("--verdicts={}", programs.0.join("verdicts.json").display());
    let against = format!("--against={}", programs.path(100).display());
    tested(programs, &[&verdicts, &against]);
    let found = programs.json("verdicts.json");
    let error = found["error"].as_str().unwrap_or_default();
    assert!(error.ends_with("; add --bench"), "{found}");
}

/// Runs this build with a file for the verdicts, of the path's own folder.
fn with_verdicts_in(programs: &Programs, path: &str) -> String {
    let mut command = programs.command(100, "plain", &["--verdicts", path]);
    let output = command.current_dir(&programs.0).output();
    texts(&output.expect("a program")).1
}

/// Symptom: a script looked for the file in the folder in which it had called cargo.
pub(crate) fn the_path_of_the_verdicts_is_printed_once(programs: &Programs) {
    let err = with_verdicts_in(programs, "verdicts.json");
    let file = fs::canonicalize(programs.0.join("verdicts.json")).expect("the file");
    let line = format!("tickline: the verdicts are in {}\n", file.display());
    assert_eq!(err.matches(&line).count(), 1, "{err}");
}

pub(crate) fn a_folder_that_is_missing_is_named_with_where_its_path_begins(programs: &Programs) {
    let err = with_verdicts_in(programs, "missing/verdicts.json");
    let here = programs.0.display();
    let line = format!("tickline: --verdicts: missing/verdicts.json (in {here}; ");
    assert!(err.contains(&line), "{err}");
}

/// Symptom: a time limit ended the run, and the file had none of the verdicts that were printed.
pub(crate) fn a_run_that_ends_early_leaves_its_verdicts(programs: &Programs) {
    let (other, file) = (programs.path(100), programs.0.join("verdicts.json"));
    let mut command = programs.command(130, "spin", &[]);
    command.arg("--against").arg(other);
    command.arg("--verdicts").arg(file);
    // This build ends in its second benchmark.
    let output = command.env(ENDS, "130").output().expect("a program");
    let (out, err) = texts(&output);
    assert_eq!(out.matches("pairs:  p50").count(), 1, "{out}\n{err}");
    let verdicts: Verdicts =
        serde_json::from_value(programs.json("verdicts.json")).expect("verdicts");
    let found: Vec<&str> = verdicts
        .benchmarks
        .iter()
        .map(|one| one.benchmark.as_str())
        .collect();
    assert_eq!(found, ["added/spin"]);
    assert_eq!(verdicts.state, RunState::Unfinished);
}

/// Symptom: the file, which had criterion's output, was replaced by one with the verdicts. The
/// second write replaced `/dev/stdout` itself.
#[cfg(target_os = "linux")]
pub(crate) fn a_stream_is_refused_for_the_verdicts(programs: &Programs) {
    // A link, so that a program with the fault replaces that, and not the machine's stream.
    let link = programs.0.join("stream");
    std::os::unix::fs::symlink("/dev/stdout", &link).expect("a link");
    let verdicts = format!("--verdicts={}", link.display());
    let output = programs.run(100, "work/spin", &[&verdicts]);
    let line = format!("--verdicts: {}: ", link.display());
    crate::refusals::assert_refused(&output, &line);
    assert!(link.is_symlink());
}

/// Runs this build against another with limits. Returns the exit code, the standard error stream,
/// and the verdicts.
fn judged(programs: &Programs, steps: u64, other: u64, limit: &str) -> (i32, String, Verdicts) {
    let (other, file) = (programs.path(other), programs.0.join("verdicts.json"));
    let output = programs.run(
        steps,
        "work/spin",
        &[
            "--against",
            &other.to_string_lossy(),
            limit,
            "--verdicts",
            &file.to_string_lossy(),
        ],
    );
    let verdicts: Verdicts =
        serde_json::from_value(programs.json("verdicts.json")).expect("verdicts");
    let code = output.status.code().expect("an exit code");
    let exit_code = verdicts.state.exit_code().expect("an end");
    assert_eq!(i32::from(exit_code), code);
    assert_eq!(verdicts.benchmarks.len(), 1);
    assert_eq!(verdicts.benchmarks[0].benchmark, "work/spin");
    assert_eq!(
        verdicts.benchmarks[0].compared_with,
        ComparedWith::OtherBuild
    );
    (code, texts(&output).1, verdicts)
}

pub(crate) fn the_exit_code_and_a_line_say_that_a_build_is_slower(programs: &Programs) {
    let (code, err, _) = judged(programs, 300, 100, "--max-regression=10%");
    assert_eq!(code, 1, "{err}");
    assert!(
        err.contains("SLOWER: work/spin: slower by more than 10 %: +"),
        "{err}"
    );
}

/// Runs this build with a file for the verdicts that can't be written at the end. Returns the
/// standard error stream.
fn with_verdicts_not_stored(programs: &Programs, steps: u64, arguments: &[&str]) -> String {
    let file = programs.0.join("verdicts.json");
    let mut command = programs.command(steps, "work/spin", arguments);
    command.arg("--verdicts").arg(&file);
    let output = command.env(BLOCKS, &file).output().expect("a program");
    let (_, err) = texts(&output);
    assert_eq!(output.status.code(), Some(2), "{err}");
    let line = format!("tickline: --verdicts: {}: ", file.display());
    assert_eq!(err.matches(&line).count(), 1, "{err}");
    err
}

/// The same, against the build with 100 steps.
fn slower_with_verdicts_not_stored(programs: &Programs) -> String {
    let against = format!("--against={}", programs.path(100).display());
    with_verdicts_not_stored(programs, 300, &["--max-regression=10%", &against])
}

/// Symptom: the error of the file was the only line, and the slower build had none.
pub(crate) fn a_slower_build_is_named_if_its_verdicts_cannot_be_stored(programs: &Programs) {
    let err = slower_with_verdicts_not_stored(programs);
    assert!(err.contains("SLOWER: work/spin: slower by"), "{err}");
}

/// Symptom: "0 pass, 1 slower, 0 undecided: exit code 1" of a run that ended with 2.
pub(crate) fn the_last_line_has_the_exit_code_if_the_verdicts_cannot_be_stored(
    programs: &Programs,
) {
    let err = slower_with_verdicts_not_stored(programs);
    let line = "tickline: 0 pass, 1 slower, 0 undecided: exit code 2\n";
    assert!(err.contains(line), "{err}");
}

/// Symptom: the error of the file was the only line.
pub(crate) fn a_run_that_passes_is_named_if_its_verdicts_cannot_be_stored(programs: &Programs) {
    save_main_of(programs, 3_000, "work/spin");
    let arguments = [
        "--baseline=main",
        "--update-on-pass",
        "--max-regression=5000%",
    ];
    let err = with_verdicts_not_stored(programs, 3_000, &arguments);
    for line in [
        "1 pass, 0 slower, 0 undecided: exit code 2",
        "the baseline main stays as it was",
    ] {
        assert!(err.contains(&format!("tickline: {line}\n")), "{err}");
    }
}

/// Symptom: the error of the file was the only line.
pub(crate) fn an_error_is_named_if_the_verdicts_cannot_be_stored(programs: &Programs) {
    let benchmark = programs.0.join("work").join("spin");
    fs::create_dir_all(&benchmark).expect("a folder");
    fs::write(benchmark.join("main"), "in the way").expect("own file");
    let arguments = ["--save-baseline", "main", "--noplot"];
    let err = with_verdicts_not_stored(programs, 100, &arguments);
    let line = "tickline: the baseline main is not saved: ";
    assert!(err.contains(line), "{err}");
}

pub(crate) fn the_file_has_the_limit_and_the_difference_of_a_slower_build(programs: &Programs) {
    let (_, _, verdicts) = judged(programs, 300, 100, "--max-regression=10%");
    assert_eq!(verdicts.max_regression_percent, Some(10.0));
    assert_eq!(verdicts.benchmarks[0].conclusion, Conclusion::Slower);
    let difference = verdicts.benchmarks[0].difference_percent.expect("compared");
    assert!(difference.low > 10.0 && difference.estimate <= difference.high);
}

pub(crate) fn a_line_and_the_file_say_that_each_build_has_one_link_order(programs: &Programs) {
    let (_, err, verdicts) = judged(programs, 300, 100, "--max-regression=10%");
    let in_line = err.contains("each build is in one link order");
    let reason = verdicts.benchmarks[0].reason.as_ref().expect("a reason");
    let in_file = reason.text.contains("one link order");
    assert!(in_line && in_file, "{err}");
}

/// An interval has a width, so that noise of 0 % can't be kept.
pub(crate) fn the_exit_code_says_that_noise_hides_the_result(programs: &Programs) {
    let (code, err, verdicts) = judged(programs, 130, 100, "--max-noise=0%");
    assert_eq!(code, 3, "{err}");
    assert!(
        err.contains("UNDECIDED: work/spin: ") && err.contains("the noise of "),
        "{err}"
    );
    assert_eq!(verdicts.benchmarks[0].conclusion, Conclusion::Undecided);
}

/// Runs all benchmarks of this build against another, with a limit that each passes. Returns the
/// standard error stream, and the verdicts.
fn all_judged(programs: &Programs, steps: u64, other: u64) -> (String, Verdicts) {
    let (other, file) = (programs.path(other), programs.0.join("verdicts.json"));
    let mut command = programs.command(steps, "", &["--max-regression=5000%"]);
    command.arg("--against").arg(other);
    command.arg("--verdicts").arg(file);
    let (_, err) = texts(&command.output().expect("a program"));
    let verdicts = serde_json::from_value(programs.json("verdicts.json")).expect("verdicts");
    (err, verdicts)
}

/// Symptom: the limit seemed to hold for all benchmarks, and no line said which it had judged.
pub(crate) fn a_line_names_each_benchmark_that_is_not_judged(programs: &Programs) {
    let (err, _) = all_judged(programs, 130, 100);
    let of_other_kind =
        "(--against compares benchmarks of bench_pairs; it is of bench_function or compare)";
    for line in [
        format!("plain {of_other_kind}"),
        format!("work/sides {of_other_kind}"),
        "added/spin (new: the other build has no such benchmark)".to_owned(),
    ] {
        let line = format!("tickline: not judged: {line}\n");
        assert_eq!(err.matches(&line).count(), 1, "{line}{err}");
    }
    assert_eq!(err.matches("tickline: not judged: ").count(), 3, "{err}");
}

pub(crate) fn the_file_has_what_is_not_judged_and_is_not_new(programs: &Programs) {
    let (err, verdicts) = all_judged(programs, 130, 100);
    let names: Vec<&str> = verdicts
        .not_judged
        .iter()
        .map(|one| one.benchmark.as_str())
        .collect();
    assert_eq!(names, ["plain", "work/sides"], "{err}");
    let codes = verdicts.not_judged.iter().map(|one| one.reason.code);
    assert!(codes.eq([ReasonCode::NotOfBenchPairs; 2]), "{verdicts:?}");
}

/// Symptom: a benchmark that was slow could be removed, or get another name, without a word.
pub(crate) fn a_benchmark_that_only_the_other_build_has_is_named(programs: &Programs) {
    let (err, _) = all_judged(programs, 100, 130);
    let line = "not judged: added/spin (only the other build has it)";
    assert!(err.contains(line), "{err}");
}

pub(crate) fn a_build_without_a_regression_passes(programs: &Programs) {
    let (code, err, verdicts) = judged(programs, 100, 300, "--max-regression=10%");
    assert_eq!(code, 0, "{err}");
    assert!(
        err.contains("1 pass, 0 slower, 0 undecided: exit code 0"),
        "{err}"
    );
    assert_eq!(verdicts.benchmarks[0].conclusion, Conclusion::Passes);
    assert!(verdicts.benchmarks[0].is_different);
}

/// Symptom: "+0.20 %: no difference found", and exit code 0, about a mean that was 3.5 times as
/// long: the medians were equal.
pub(crate) fn a_build_whose_every_fourth_call_is_slow_is_slower(programs: &Programs) {
    let (other, file) = (programs.path(3_000), programs.0.join("verdicts.json"));
    let output = programs
        .command(9_000, "work/spin", &["--max-regression=60%"])
        .arg("--against")
        .arg(other)
        .arg("--verdicts")
        .arg(&file)
        .env(SLOW_CALLS, "9000")
        // Of pairs of two or more iterations the medians may differ.
        .env(LATENCY, "9000")
        .output()
        .expect("a program");
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(1), "{out}\n{err}");
    assert!(out.contains(": slower in some calls\n"), "{out}");
    let line = "SLOWER: work/spin: its mean is slower by more than 60 %, in some calls: +";
    assert!(err.contains(line), "{err}");
    let text = fs::read_to_string(file).expect("the verdicts");
    let verdicts: Verdicts = serde_json::from_str(&text).expect("verdicts");
    let verdict = &verdicts.benchmarks[0];
    let reason = verdict.reason.as_ref().expect("a reason");
    assert_eq!(reason.code, ReasonCode::MeanAboveLimit);
    let mean = verdict.mean_difference_percent.expect("compared");
    assert!(verdict.is_mean_different && mean.low > 60.0, "{verdict:?}");
}
