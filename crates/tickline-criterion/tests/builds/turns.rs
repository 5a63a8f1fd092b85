//! Tests of builds in turns: `--against` and `--layout`.

use std::env::consts::EXE_SUFFIX;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tickline_observe::skip;

use crate::benchmarks::{ADDED, ENDS, REORDERS, SAYS, STARTS};
use crate::programs::{Programs, texts};

/// The output of this build against another, and the stored comparison.
pub(crate) fn compared(programs: &Programs, steps: u64, other: u64) -> (String, Value) {
    let output = programs.against(steps, "work/spin", other);
    let (out, err) = texts(&output);
    assert!(
        output.status.success() && out.contains(" couples of "),
        "{out}\n{err}"
    );
    (out, programs.json("work/spin/new/comparison.json"))
}

fn ns(json: &Value, key: &str) -> f64 {
    json[key].as_f64().expect("ns")
}

pub(crate) fn a_build_with_more_work_is_slower(programs: &Programs) {
    let (out, json) = compared(programs, 300, 100);
    assert_eq!(json["is_different"], true, "{out}");
    assert!(out.contains("this build is slower"), "{out}");
    let factor = ns(&json, "median_b_ns") / ns(&json, "median_a_ns");
    assert!((1.5..6.0).contains(&factor), "{factor}: {out}");
}

pub(crate) fn a_build_with_less_work_is_faster(programs: &Programs) {
    let (out, json) = compared(programs, 100, 300);
    assert_eq!(json["is_different"], true, "{out}");
    assert!(out.contains("this build is faster"), "{out}");
}

/// False differences between equal builds depend on the load, so unit tests check their number.
pub(crate) fn builds_of_the_same_work_differ_little(programs: &Programs) {
    let (out, json) = compared(programs, 130, 130);
    let percent = ns(&json["difference_percent"], "estimate");
    assert!(percent.abs() < 50.0, "{percent}: {out}");
}

/// Also after a second run.
pub(crate) fn both_plots_are_in_criterions_report(programs: &Programs) {
    for _ in 0..2 {
        compared(programs, 130, 100);
    }
    let folder = programs.0.join("work/spin/report");
    let report = fs::read_to_string(folder.join("index.html")).expect("criterion's report");
    for plot in ["pairs.svg", "comparison.svg"] {
        let image = format!("<img src=\"{plot}\"");
        assert_eq!(report.matches(&image).count(), 1, "{plot}");
    }
    assert!(report.contains("<h3>In turns: the other build and this build</h3>"));
    let plot = fs::read_to_string(folder.join("comparison.svg")).expect("the plot");
    assert!(
        plot.contains("the other build") && plot.contains("this build"),
        "{plot}"
    );
}

pub(crate) fn builds_take_turns_on_one_cpu(programs: &Programs) {
    if !cfg!(target_os = "linux") {
        return skip("the CPU of a turn is known only on Linux");
    }
    compared(programs, 130, 100);
    let log = fs::read_to_string(programs.0.join("log")).expect("the log");
    let lines: Vec<(&str, &str)> = log
        .lines()
        .filter_map(|line| line.rsplit_once(' ')?.0.split_once(' '))
        .collect();
    let processes: Vec<&[(&str, &str)]> = lines.chunk_by(|one, other| one.0 == other.0).collect();
    assert!(processes.len() > 7, "they took no turns: {log}");
    let moved = lines
        .windows(2)
        .filter(|two| two[0].0 != two[1].0 && two[0].1 != two[1].1)
        .count();
    // Before the first turn, this process may have been on another CPU.
    assert!(moved <= 1, "{moved} moves between CPUs: {log}");
}

/// Symptom: above "no difference found" criterion printed "Performance has regressed", which was
/// about the run before, of whatever build.
pub(crate) fn turns_are_not_compared_with_the_last_run(programs: &Programs) {
    assert!(programs.run(300, "work/spin", &[]).status.success());
    let (out, _) = compared(programs, 130, 130);
    assert!(!out.contains("change:"), "{out}");
}

/// Both files of the last run, which the next one is compared with.
pub(crate) fn turns_do_not_replace_the_last_run(programs: &Programs) {
    assert!(programs.run(300, "work/spin", &[]).status.success());
    let last_run = || {
        let files = ["estimates.json", "pairs.json"].map(|file| format!("work/spin/base/{file}"));
        files.map(|file| programs.json(&file))
    };
    let before = last_run();
    compared(programs, 130, 130);
    assert!(last_run() == before, "it was replaced");
}

/// The interval has the noise of placement only if each replicate has its own processes.
pub(crate) fn each_pair_of_processes_is_a_replicate(programs: &Programs) {
    let (out, json) = compared(programs, 130, 100);
    assert!(out.contains("over 10 processes of each build"), "{out}");
    assert_eq!(json["replicates"], "processes of each build");
    assert_eq!(json["replicates_ns"].as_array().map(Vec::len), Some(10));
}

/// The build of 300 steps against that of 100, with six layouts of each: the last ones are given.
pub(crate) fn six_layouts(
    programs: &Programs,
    filter: &str,
    last_of_other: &Path,
    last_of_this: &Path,
) -> Output {
    let [ours, other] = [300, 100].map(|steps| programs.path(steps));
    let mut command = programs.command(300, filter, &[]);
    for _ in 0..5 {
        command.arg("--against").arg(&other);
    }
    for _ in 0..4 {
        command.arg("--layout").arg(&ours);
    }
    command.arg("--against").arg(last_of_other);
    command.arg("--layout").arg(last_of_this);
    command.output().expect("a program")
}

/// All programs of one layout have one place for their code.
pub(crate) fn each_layout_is_a_replicate(programs: &Programs) {
    let output = six_layouts(
        programs,
        "work/spin",
        &programs.path(100),
        &programs.path(300),
    );
    let (out, err) = texts(&output);
    assert!(out.contains("over 6 layouts"), "{out}\n{err}");
    assert!(out.contains("this build is slower"), "{out}");
}

pub(crate) fn a_benchmark_that_the_other_build_lacks_is_measured_alone(programs: &Programs) {
    let (out, err) = texts(&programs.against(130, "spin", 100));
    assert_eq!(out.matches("pairs:  p50").count(), 2, "{out}");
    assert_eq!(out.matches(" processes of each build").count(), 1, "{out}");
    assert!(
        err.contains("not compared: the other build has no such benchmark"),
        "{err}"
    );
}

/// Symptom: it was compared under the name of another benchmark, and no line said so.
pub(crate) fn a_benchmark_that_the_list_has_at_another_number_is_not_compared(programs: &Programs) {
    let mut command = programs.command(100, "spin|listed", &[]);
    command.arg("--against").arg(programs.path(100));
    let output = command.env(REORDERS, "1").output().expect("a program");
    assert_eq!(output.status.code(), Some(3));
    let (_, err) = texts(&output);
    let error = "not compared with the other build: it is work/spin, where the list of benchmarks has listed: ";
    assert!(err.contains(error), "{err}");
}

/// criterion cuts it in the list. Symptom: the benchmark seemed to be another one.
pub(crate) fn a_benchmark_with_a_long_name_has_its_place_in_the_list(programs: &Programs) {
    let mut command = programs.command(130, "spin", &[]);
    command.arg("--against").arg(programs.path(100));
    let name = format!("spin{}", "-and-again".repeat(12));
    let (_, err) = texts(&command.env(ADDED, name).output().expect("a program"));
    let error = "not compared: the other build has no such benchmark";
    assert!(err.contains(error), "{err}");
}

/// Symptom: the program could not list its benchmarks, because `--list` was after the `--`.
pub(crate) fn a_filter_may_follow_two_dashes(programs: &Programs) {
    let mut command = Command::new(programs.path(130));
    command.arg("--bench").arg("--against");
    command.arg(programs.path(100)).args(["--", "work/spin"]);
    let output = command.env("CRITERION_HOME", &programs.0).output();
    let (out, err) = texts(&output.expect("a program"));
    assert!(out.contains(" couples of "), "{out}\n{err}");
}

/// Runs this build against another, which ends in its benchmark.
fn against_one_that_ends(programs: &Programs) -> Output {
    let other = programs.path(100).to_string_lossy().into_owned();
    let mut command = programs.command(130, "work/spin", &["--against", &other]);
    command.env(ENDS, "100").output().expect("a program")
}

pub(crate) fn a_build_whose_partner_ends_is_measured_alone(programs: &Programs) {
    let (out, err) = texts(&against_one_that_ends(programs));
    assert!(out.contains("pairs:  p50"), "{out}\n{err}");
}

pub(crate) fn a_build_whose_partner_ends_is_undecided(programs: &Programs) {
    let output = against_one_that_ends(programs);
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(3), "all is undecided: {err}");
    assert!(!out.contains("this build is"), "{out}");
}

pub(crate) fn a_line_names_the_command_for_a_partner_that_ends(programs: &Programs) {
    let (_, err) = texts(&against_one_that_ends(programs));
    let line =
        "not compared with the other build: a process took no turn, because it failed: try `";
    assert_eq!(err.matches(line).count(), 1, "{err}");
    assert!(
        err.contains("work-100") && err.contains("--exact -- work/spin`"),
        "the command for a try: {err}"
    );
}

/// Symptom: the other process took a request, or its line was taken for a reply.
pub(crate) fn a_process_that_the_benchmark_starts_takes_no_turn(programs: &Programs) {
    if !cfg!(target_os = "linux") {
        return skip("the benchmark starts a shell, which every Linux has");
    }
    let other = programs.path(100).to_string_lossy().into_owned();
    let output = programs
        .command(130, "work/spin", &["--against", &other])
        .env(STARTS, "1")
        .output()
        .expect("a program");
    let (out, err) = texts(&output);
    assert!(out.contains(" couples of "), "{out}\n{err}");
}

/// Symptom: no such file, because the system looked for it in folders of its own.
pub(crate) fn a_program_of_the_present_folder_needs_no_more_than_its_name(programs: &Programs) {
    let name = format!("work-100{EXE_SUFFIX}");
    let mut command = programs.command(130, "work/spin", &["--against", &name]);
    let output = command.current_dir(&programs.0).output();
    let (out, err) = texts(&output.expect("a program"));
    assert!(out.contains(" couples of "), "{out}\n{err}");
}

/// Symptom: "Gnuplot not found" was printed twice: also by the program that lists its benchmarks.
pub(crate) fn words_of_a_program_that_lists_its_benchmarks_are_not_shown(programs: &Programs) {
    let other = programs.path(100).to_string_lossy().into_owned();
    let mut command = programs.command(130, "work/spin", &["--against", &other]);
    let (out, err) = texts(&command.env(SAYS, "1").output().expect("a program"));
    assert!(out.contains(" couples of "), "{out}\n{err}");
    assert_eq!(err.matches("own words").count(), 1, "{err}");
}
