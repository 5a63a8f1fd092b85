//! Tests of `--save-baseline`, `--baseline` and `--update-on-pass`.

use std::fs;
use std::process::Output;

use tickline_observe::skip;

use crate::programs::{Programs, texts};
use crate::refusals::assert_refused;

/// Saves the baseline `main` of the build with 100 steps.
fn save_main(programs: &Programs, filter: &str) {
    save_main_of(programs, 100, filter);
}

/// Saves the baseline `main` of the build with these steps.
pub(crate) fn save_main_of(programs: &Programs, steps: u64, filter: &str) {
    assert!(programs.run(steps, filter, &["-smain"]).status.success());
}

pub(crate) fn a_saved_baseline_has_the_parts_of_its_run(programs: &Programs) {
    save_main(programs, "work");
    for (file, key) in [
        ("spin/main/pairs.json", "sample_times_ns"),
        ("sides/main/comparison.json", "rounds_ns"),
    ] {
        let parts = programs.json(&format!("work/{file}"))[key]
            .as_array()
            .map(Vec::len);
        assert!(parts.is_some_and(|parts| parts >= 10), "{file}: {parts:?}");
    }
}

/// Symptom: only the run that was compared with it said so, when it was too late.
pub(crate) fn a_short_routine_is_named_when_it_is_saved(programs: &Programs) {
    let line = "baseline main: this run is too short for a percentage: ";
    for (steps, arguments, is_named) in [
        (1, &["-smain"][..], true),
        (1, &[], false),
        (3_000, &["-smain"], false),
    ] {
        let (out, err) = texts(&programs.run(steps, "work/spin", arguments));
        assert_eq!(out.contains(line), is_named, "{steps}: {out}\n{err}");
    }
}

/// Symptom: a routine of 0.25 ns read as 5.6 ns, and only a run that was saved or compared said
/// why.
pub(crate) fn a_line_says_once_that_pairs_are_short(programs: &Programs) {
    save_main(programs, "work/spin");
    for (steps, arguments, short, long) in [
        (1, &[][..], 1, 0),
        (3_000, &[], 0, 0),
        (1, &["-smain"], 0, 1),
        (1, &["-bmain"], 0, 1),
        (1, &["--quick"], 1, 0),
        (3_000, &["--quick"], 0, 0),
        (1, &["--quick", "-smain"], 0, 1),
        (1, &["--quick", "-bmain"], 1, 0), // which has too few samples
    ] {
        let (out, _) = texts(&programs.run(steps, "work/spin", arguments));
        let count = |words| out.matches(words).count();
        let found = [
            count(", and a pair adds some ns to each time; "),
            count("too short for a percentage: "),
        ];
        assert_eq!(found, [short, long], "{steps} {arguments:?}: {out}");
    }
}

/// Symptom: a run with a baseline was never called short if it was not compared with it.
pub(crate) fn a_run_that_is_not_compared_with_its_baseline_is_called_short(programs: &Programs) {
    save_main(programs, "work/spin");
    // As of the quick mode, which has too few samples.
    let file = programs.0.join("work/spin/main/pairs.json");
    let mut json = programs.json("work/spin/main/pairs.json");
    json["sample_times_ns"] = [20.0].as_slice().into();
    fs::write(&file, json.to_string()).expect("the baseline");
    for (option, tickline) in [
        ("-bmain", "on"),
        ("-bmain", "off"), // by another clock
        ("--baseline-lenient=none", "on"),
    ] {
        let mut command = programs.command(1, "work/spin", &[option]);
        let output = command.env("TICKLINE", tickline).output();
        let (out, err) = texts(&output.expect("a program"));
        let lines = out.matches(" % of a pair is the cost of its readings");
        assert_eq!(lines.count(), 1, "{option} {tickline}: {out}\n{err}");
    }
}

/// Symptom: with `--baseline-lenient` such a benchmark was new, so it passed, and
/// `--update-on-pass` replaced the file.
pub(crate) fn a_baseline_that_cannot_be_read_is_undecided(programs: &Programs) {
    save_main(programs, "work/spin");
    let file = programs.0.join("work/spin/main/pairs.json");
    fs::write(&file, "{").expect("the baseline");
    let options = [
        "--baseline-lenient=main",
        "--max-regression=60%",
        "--update-on-pass",
    ];
    let output = programs.run(100, "work/spin", &options);
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(3), "{out}\n{err}");
    assert!(err.contains("the baseline main can't be read: "), "{err}");
    assert_eq!(fs::read_to_string(file).expect("the baseline"), "{");
}

/// Symptom: with `--against` no benchmark was called short, although this one takes no turns.
pub(crate) fn a_short_routine_that_the_other_build_lacks_is_called_short(programs: &Programs) {
    let (out, err) = texts(&programs.against(130, "spin", 100));
    let (added, _) = out.split_once("work/spin").expect("both benchmarks");
    let line = " % of a pair is the cost of its readings";
    assert_eq!(added.matches(line).count(), 1, "{out}\n{err}");
}

/// Compares a run with its baseline, which did fewer steps: 100 in place of 3,000, and in the
/// second routine of `compare` 200 in place of 3,100. On a busy machine times scatter by a factor
/// of two. Returns the standard output.
fn compared_with_main(programs: &Programs, filter: &str) -> String {
    save_main(programs, filter);
    let output = programs.run(3_000, filter, &["--baseline", "main"]);
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{out}\n{err}");
    out
}

pub(crate) fn a_run_with_more_work_differs_from_its_baseline(programs: &Programs) {
    let out = compared_with_main(programs, "work");
    for path in ["work/spin/new/pairs.json", "work/sides/new/comparison.json"] {
        let found = programs.json(path)["baseline"].clone();
        assert_eq!(found["name"], "main", "{found}");
        assert_eq!(found["is_different"], true, "{path}: {found}\n{out}");
        assert!(
            found["percent"].as_f64().expect("a number") > 50.0,
            "{found}"
        );
    }
    // Of the two routines both the medians and the means.
    for (finding, count) in [("slower", 1), ("more", 2)] {
        let line = format!(": {finding} now, by more than either run scatters");
        assert_eq!(out.matches(&line).count(), count, "{out}");
    }
}

pub(crate) fn a_comparison_with_a_baseline_says_that_it_took_no_turns(programs: &Programs) {
    let out = compared_with_main(programs, "work/spin");
    let line = "the two runs did not take turns: what else changed between them is unknown";
    assert_eq!(out.matches(line).count(), 1, "{out}");
}

pub(crate) fn a_line_says_how_to_hide_criterions_comparison(programs: &Programs) {
    let out = compared_with_main(programs, "work/spin");
    assert_eq!(out.matches("; --quiet hides it").count(), 1, "{out}");
}

/// Symptom: criterion called equal runs different, above this crate's "no difference found".
pub(crate) fn quiet_leaves_only_this_crates_comparison_with_a_baseline(programs: &Programs) {
    save_main(programs, "work/spin");
    let output = programs.run(100, "work/spin", &["--baseline", "main", "--quiet"]);
    let (out, err) = texts(&output);
    assert!(!out.contains("change:"), "{out}\n{err}");
    let own = "baseline main: median of samples";
    assert!(out.contains(own), "{out}\n{err}");
}

pub(crate) fn the_plot_of_a_run_has_its_baseline(programs: &Programs) {
    compared_with_main(programs, "work/spin");
    let plot = fs::read_to_string(programs.0.join("work/spin/report/pairs.svg")).expect("the plot");
    assert!(plot.contains("main") && plot.contains("this run"), "{plot}");
}

pub(crate) fn a_comparison_with_a_baseline_does_not_replace_it(programs: &Programs) {
    save_main(programs, "work/spin");
    let saved = || programs.json("work/spin/main/pairs.json");
    let before = saved();
    let output = programs.run(300, "work/spin", &["--baseline", "main"]);
    assert!(output.status.success());
    assert_eq!(saved(), before);
}

/// Runs the build with these steps against the baseline `main`. Returns the exit code and the
/// standard error stream. To be decided, both builds need pairs that are long against their cost,
/// also where the OS clock is a system call: 3,000 steps or more.
fn update(programs: &Programs, steps: u64, limit: &str) -> (Option<i32>, String) {
    let arguments = ["--baseline=main", "--update-on-pass", limit];
    let output = programs.run(steps, "work/spin", &arguments);
    (output.status.code(), texts(&output).1)
}

pub(crate) fn a_run_that_does_not_pass_leaves_the_baseline(programs: &Programs) {
    save_main_of(programs, 3_000, "work/spin");
    let files =
        || ["pairs", "sample"].map(|name| programs.json(&format!("work/spin/main/{name}.json")));
    let before = files();
    let (code, err) = update(programs, 9_000, "--max-regression=10%");
    // 3 if other programs take the CPU, so that it is undecided.
    assert!(matches!(code, Some(1 | 3)), "{code:?}: {err}");
    assert!(err.contains("the baseline main stays as it was"), "{err}");
    assert_eq!(files(), before);
}

pub(crate) fn a_run_that_passes_becomes_the_baseline(programs: &Programs) {
    save_main_of(programs, 3_000, "work/spin");
    let file = |run: &str, name: &str| programs.json(&format!("work/spin/{run}/{name}.json"));
    let before = file("main", "pairs");
    let (code, err) = update(programs, 3_000, "--max-regression=5000%");
    assert_eq!(code, Some(0), "{err}");
    if err.contains("of this run's samples can't be trusted") {
        return skip("the clock did not trust the counter for a moment");
    }
    assert!(err.contains("the baseline main is now this run"), "{err}");
    assert_ne!(file("main", "pairs"), before);
    for name in ["pairs", "sample", "benchmark", "estimates"] {
        assert_eq!(file("main", name), file("new", name), "{name}");
    }
}

/// Symptom: "the baseline main is now this run", which was by `WallTime`.
pub(crate) fn a_run_by_another_clock_leaves_the_baseline(programs: &Programs) {
    save_main(programs, "work/spin");
    let saved = || programs.json("work/spin/main/pairs.json");
    let before = saved();
    if before["measured_by"] == "os_clock" {
        return skip("no usable counter");
    }
    let file = programs.0.join("verdicts.json");
    let output = programs
        .command(100, "work/spin", &["--baseline=main", "--update-on-pass"])
        .args(["--max-regression=5000%", "--verdicts"])
        .arg(&file)
        .env("TICKLINE", "off")
        .output()
        .expect("a program");
    let (_, err) = texts(&output);
    assert_eq!(output.status.code(), Some(3), "{err}");
    let line =
        "UNDECIDED: work/spin: the baseline main is by the counter, and this run by the OS clock";
    assert!(err.contains(line), "{err}");
    assert_eq!(saved(), before);
    let verdict = &programs.json("verdicts.json")["benchmarks"][0];
    assert_eq!(verdict["measured_by"], "os_clock", "{verdict}");
}

/// Symptom: a slowdown of 25 % passed a limit of 3 %, because it read as 2 %.
pub(crate) fn a_limit_of_a_short_routine_is_undecided(programs: &Programs) {
    save_main_of(programs, 3_000, "work/spin");
    let file = programs.0.join("work/spin/main/pairs.json");
    let mut json = programs.json("work/spin/main/pairs.json");
    assert!(json["pair_cost_share"].is_f64(), "{json}");
    json["pair_cost_share"] = 0.5.into();
    fs::write(&file, json.to_string()).expect("the baseline");
    // Slower, because a run that is faster by chance would pass.
    let (code, err) = update(programs, 9_000, "--max-regression=5000%");
    assert_eq!(code, Some(3), "{err}");
    let line = "UNDECIDED: work/spin: too short for a percentage: 50 % of a pair is the cost";
    assert!(err.contains(line), "{err}");
    assert_eq!(programs.json("work/spin/main/pairs.json"), json);
}

/// Symptoms: after a filter that no benchmark matched, the baseline was said to be this run, and
/// the exit code was 0.
pub(crate) fn a_run_that_measures_nothing_updates_no_baseline(programs: &Programs) {
    let arguments = ["--baseline=main", "--update-on-pass", "--max-regression=3%"];
    let output = programs.run(100, "no/such/benchmark", &arguments);
    assert_refused(&output, "nothing was compared: ");
}

pub(crate) fn a_filter_that_fits_nothing_is_named(programs: &Programs) {
    let arguments = ["--baseline=main", "--max-regression=3%"];
    let output = programs.run(100, "no/such/benchmark", &arguments);
    assert_refused(
        &output,
        "no benchmark that measures by CounterTime fits the filter",
    );
}

/// Symptom: ten times slower, the exit code was 0.
pub(crate) fn a_limit_for_benchmarks_that_are_not_compared_is_refused(programs: &Programs) {
    save_main(programs, "plain");
    let arguments = ["--baseline=main", "--max-regression=3%"];
    let output = programs.run(100, "plain", &arguments);
    assert_refused(
        &output,
        "all that was measured are benchmarks of bench_function",
    );
}

/// Symptom: nothing named the benchmarks to which the limit did not apply.
pub(crate) fn a_benchmark_that_no_baseline_judges_is_named(programs: &Programs) {
    save_main(programs, "");
    let arguments = ["--baseline=main", "--max-regression=5000%"];
    let (_, err) = texts(&programs.run(100, "", &arguments));
    let line = "tickline: not judged: plain (--baseline compares benchmarks of bench_pairs and compare; it is of \
                bench_function)\n";
    assert!(err.contains(line), "{err}");
    assert!(err.contains(", 1 not judged: exit code 0"), "{err}");
}

/// Symptom: the line was printed, and the exit code was 0.
pub(crate) fn too_few_couples_for_a_limit_is_undecided(programs: &Programs) {
    save_main(programs, "work/sides");
    let arguments = [
        "--quick",
        "--measurement-time=1e-6",
        "-bmain",
        "--max-regression=3%",
    ];
    let output = programs.run(100, "work/sides", &arguments);
    let (_, err) = texts(&output);
    assert_eq!(output.status.code(), Some(3), "{err}");
    // A wait for a CPU gives some copies of the code couples enough.
    assert!(err.contains("UNDECIDED: work/sides: "), "{err}");
    assert!(err.contains(" copies of the code have 3 couples"), "{err}");
}

pub(crate) fn a_list_is_not_judged(programs: &Programs) {
    let arguments = ["--baseline=main", "--max-regression=3%", "--list"];
    let output = programs.run(100, "", &arguments);
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{err}");
    assert!(out.contains("work/spin: benchmark"), "{out}");
}

/// Symptom: in the quick mode, nothing was printed of a routine that takes longer than the limit.
pub(crate) fn a_quick_run_has_too_few_parts_for_a_baseline(programs: &Programs) {
    save_main(programs, "work/spin");
    let output = programs.run(
        100,
        "work/spin",
        &["--quick", "--measurement-time=1e-6", "-bmain"],
    );
    let (out, err) = texts(&output);
    assert!(out.contains("pairs:  p50"), "{out}\n{err}");
    assert!(
        err.contains("tickline: not compared with the baseline: a run has fewer than 10"),
        "{err}"
    );
}

pub(crate) fn a_baseline_that_cannot_be_written_is_named(programs: &Programs) {
    save_main(programs, "work/spin");
    let folder = programs.0.join("work/spin/main");
    let file = folder.join("pairs.json");
    fs::remove_file(&file).expect("it was there");
    fs::create_dir_all(file.join("in the way")).expect("a folder");
    let output = programs.run(100, "work/spin", &["--save-baseline", "main"]);
    let (_, err) = texts(&output);
    assert!(
        err.contains("tickline: not stored: ") && err.contains("pairs.json"),
        "{err}"
    );
    assert_eq!(output.status.code(), Some(2), "{err}");
}

/// Symptom: the text was about `Criterion::output_directory`, and the exit code 0.
pub(crate) fn a_folder_that_takes_no_baseline_is_named(programs: &Programs) {
    let file = programs.0.join("no folder");
    fs::write(&file, "").expect("own file");
    let mut command = programs.command(100, "work/spin", &["--save-baseline", "main"]);
    let output = command.env("CRITERION_HOME", file.join("criterion"));
    let output = output.output().expect("a program");
    let (_, err) = texts(&output);
    let expected = format!("tickline: not stored: {} takes no file: ", file.display());
    assert!(err.contains(&expected), "{err}");
    assert!(!err.contains("output_directory"), "{err}");
    assert_eq!(output.status.code(), Some(2), "{err}");
}

/// Runs a benchmark of which a folder can't be made, because a file of this name is in the way.
/// Without plots, because criterion's plot of a group panics if the group has no stored run.
/// Returns the output.
fn save_main_with_a_file_in_place_of(programs: &Programs, folder: &str) -> Output {
    let benchmark = programs.0.join("work").join("spin");
    fs::create_dir_all(&benchmark).expect("a folder");
    fs::write(benchmark.join(folder), "in the way").expect("own file");
    programs.run(100, "work/spin", &["--save-baseline", "main", "--noplot"])
}

/// Symptom: criterion's line was the only one, and the exit code 0.
pub(crate) fn a_baseline_that_criterion_cannot_write_is_named(programs: &Programs) {
    let output = save_main_with_a_file_in_place_of(programs, "main");
    let (out, err) = texts(&output);
    assert!(out.contains("Criterion.rs ERROR: "), "{out}");
    let baseline = programs.0.join("work").join("spin").join("main");
    let expected = format!(
        "tickline: not stored: {}: criterion has",
        baseline.display()
    );
    assert!(err.contains(&expected), "{err}");
    assert_eq!(output.status.code(), Some(2), "{err}");
}

/// Symptom: the text was only about `Criterion::output_directory`.
pub(crate) fn a_run_that_criterion_cannot_write_has_criterions_line(programs: &Programs) {
    let output = save_main_with_a_file_in_place_of(programs, "new");
    let (out, err) = texts(&output);
    assert!(out.contains("Criterion.rs ERROR: "), "{out}");
    let expected = "; a line `Criterion.rs ERROR` above has the path if";
    assert!(err.contains(expected), "{err}");
    assert_eq!(output.status.code(), Some(2), "{err}");
}

/// Symptom: the benchmark had a second verdict, which was undecided, under its folder's path.
pub(crate) fn a_plot_that_cannot_be_written_changes_no_verdict(programs: &Programs) {
    save_main_of(programs, 3_000, "work/spin");
    let plot = programs.0.join("work/spin/report/pairs.svg");
    fs::remove_file(&plot).expect("it was there");
    fs::create_dir_all(plot.join("in the way")).expect("a folder");
    let (code, err) = update(programs, 3_000, "--max-regression=5000%");
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("tickline: not drawn: "), "{err}");
    assert!(err.contains("1 pass, 0 slower, 0 undecided"), "{err}");
}

/// Symptom: the program ended by criterion's panic, with exit code 101.
pub(crate) fn a_baseline_that_criterion_lacks_is_named(programs: &Programs) {
    let output = programs.run(100, "work/spin", &["--baseline", "nowhere"]);
    assert_refused(
        &output,
        "`cargo bench --bench NAME -- --save-baseline nowhere` saves one",
    );
    let place = format!(" in {}, unless the program calls", programs.0.display());
    assert_refused(&output, &place);
}

pub(crate) fn a_missing_baseline_and_another_build_end_with_a_text(programs: &Programs) {
    let other = programs.path(100).to_string_lossy().into_owned();
    let arguments = ["--baseline", "nowhere", "--against", &other];
    let output = programs.run(130, "work/spin", &arguments);
    assert_refused(&output, "there is no baseline nowhere of this benchmark");
}

/// criterion has this baseline, but this crate's file is missing, as of one saved by
/// `bench_function`.
pub(crate) fn a_baseline_that_this_crate_lacks_is_named_with_its_folder(programs: &Programs) {
    save_main(programs, "work/spin");
    fs::remove_file(programs.0.join("work/spin/main/pairs.json")).expect("it was there");
    let (out, err) = texts(&programs.run(100, "work/spin", &["--baseline", "main"]));
    assert!(!out.contains("baseline main: "), "{out}");
    let folder = programs.0.join("work").join("spin");
    let expected = format!(
        "tickline: not compared with the baseline: no baseline main in {}: ",
        folder.display()
    );
    assert!(
        err.contains(&expected) && err.contains("pairs.json"),
        "{err}"
    );
}
