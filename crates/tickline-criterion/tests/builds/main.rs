//! Tests of builds in turns and baselines with whole programs. This program contains the tests
//! and the benchmark. A copy of it named `work-130` does 130 steps; the copy `work-100` represents
//! the old build.

mod baselines;
mod copies;
mod latency;
mod refusals;
mod verdicts;

use std::env::consts::EXE_SUFFIX;
use std::fs;
use std::hint::black_box;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use std::time::Duration;

use criterion::{BatchSize, Criterion};
use libtest_mimic::{Arguments, Trial};
use serde_json::Value;
use tickline_criterion::{BenchPairs, CounterTime, compare};

/// The variable with the path of the log, which has process, CPU and program of each sample.
const LOG: &str = "TICKLINE_CRITERION_TEST_LOG";

/// The variable with the steps of the copy that ends in the middle of a benchmark.
const ENDS: &str = "TICKLINE_CRITERION_TEST_ENDS";

/// The variable with which the benchmark starts another process that has its streams.
const STARTS: &str = "TICKLINE_CRITERION_TEST_STARTS";

/// The variable with which the benchmarks print a line.
const SAYS: &str = "TICKLINE_CRITERION_TEST_SAYS";

/// The variable with the name of the benchmark that the old build lacks.
const ADDED: &str = "TICKLINE_CRITERION_TEST_ADDED";

/// The variable with the steps of the copy whose pairs have one iteration.
const LATENCY: &str = "TICKLINE_CRITERION_TEST_LATENCY";

/// The variable with the steps of the copy that does 3,000, and in every fourth call 33,000.
const SLOW_CALLS: &str = "TICKLINE_CRITERION_TEST_SLOW_CALLS";

/// The variable with which each iteration has an input of its own.
const BATCHES: &str = "TICKLINE_CRITERION_TEST_BATCHES";

/// The variable with which a list of the benchmarks has a first one that no measuring run has.
const REORDERS: &str = "TICKLINE_CRITERION_TEST_REORDERS";

type Test = fn(&Programs);

fn main() -> ExitCode {
    let program = std::env::current_exe().expect("this program");
    let name = program
        .file_stem()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    // `--against` starts copies, to whose names it adds a beginning.
    if let Some((_, steps)) = name.rsplit_once("work-") {
        let steps = steps.parse().expect("a number");
        return tickline_criterion::run(|| run_benchmarks(steps));
    }
    run_tests(&program)
}

/// A list of tests, each with its path.
macro_rules! tests {
    ($($(#[$attribute:meta])* $test:path),+ $(,)?) => {
        [$($(#[$attribute])* (stringify!($test), $test as Test)),+]
    };
}

/// The tests, in order.
const TESTS: &[(&str, Test)] = &tests![
    a_build_with_more_work_is_slower,
    a_build_with_less_work_is_faster,
    builds_of_the_same_work_differ_little,
    both_plots_are_in_criterions_report,
    builds_take_turns_on_one_cpu,
    latency::with_latency_pairs_in_turns_have_one_iteration,
    latency::with_latency_pairs_of_batched_inputs_have_one_iteration,
    latency::the_build_that_is_started_decides_whether_it_is_latency,
    latency::a_limit_of_the_latency_of_a_short_routine_is_undecided,
    copies::each_process_of_a_duel_runs_a_copy_that_is_removed,
    copies::the_next_comparison_removes_the_copies_of_a_killed_one,
    copies::a_folder_that_takes_no_copy_is_named,
    turns_are_not_compared_with_the_last_run,
    turns_do_not_replace_the_last_run,
    each_duel_is_a_replicate,
    each_layout_is_a_replicate,
    a_benchmark_that_the_other_build_lacks_is_measured_alone,
    a_benchmark_that_the_list_has_at_another_number_is_not_compared,
    a_benchmark_with_a_long_name_has_its_place_in_the_list,
    a_filter_may_follow_two_dashes,
    refusals::builds_without_a_common_benchmark_are_refused,
    refusals::a_benchmark_of_bench_function_is_named,
    refusals::a_layout_that_is_no_program_is_refused,
    refusals::a_layout_of_another_build_is_refused,
    a_build_whose_partner_ends_is_measured_alone,
    a_build_whose_partner_ends_is_undecided,
    a_line_names_the_command_for_a_partner_that_ends,
    a_process_that_the_benchmark_starts_takes_no_turn,
    refusals::a_path_without_a_program_is_refused_with_its_folder,
    refusals::a_path_of_nothing_is_named_with_what_is_expected,
    refusals::a_folder_is_named_with_what_is_expected,
    #[cfg(unix)]
    refusals::a_file_that_may_not_be_executed_is_named_with_what_is_expected,
    #[cfg(target_os = "linux")]
    refusals::a_file_that_is_no_program_is_named_with_what_is_expected,
    #[cfg(unix)]
    refusals::a_program_without_its_interpreter_is_named_with_what_is_expected,
    a_program_of_the_present_folder_needs_no_more_than_its_name,
    refusals::turns_without_a_measurement_are_refused,
    refusals::a_program_may_be_tested_without_another_build,
    refusals::a_list_has_nothing_to_compare,
    refusals::the_help_has_nothing_to_compare,
    refusals::the_help_has_this_crates_options,
    refusals::a_program_without_benchmarks_is_refused,
    refusals::the_harness_of_a_program_without_benchmarks_is_named,
    refusals::a_wrong_argument_ends_with_a_text,
    refusals::the_name_of_the_last_run_is_refused_for_a_baseline,
    refusals::an_option_that_criterion_refuses_is_named,
    verdicts::verdicts_may_go_to_a_stream,
    verdicts::verdicts_follow_the_output_in_a_file,
    verdicts::after_an_error_the_verdicts_say_so,
    verdicts::the_verdicts_name_the_error_that_is_printed,
    verdicts::the_verdicts_of_a_run_that_measured_nothing_have_its_error,
    verdicts::the_path_of_the_verdicts_is_printed_once,
    verdicts::a_folder_that_is_missing_is_named_with_where_its_path_begins,
    verdicts::a_run_that_ends_early_leaves_its_verdicts,
    verdicts::the_exit_code_and_a_line_say_that_a_build_is_slower,
    verdicts::the_file_has_the_limit_and_the_difference_of_a_slower_build,
    verdicts::a_line_and_the_file_say_that_each_build_has_one_link_order,
    verdicts::the_exit_code_says_that_noise_hides_the_result,
    verdicts::a_build_without_a_regression_passes,
    verdicts::a_build_whose_every_fourth_call_is_slow_is_slower,
    verdicts::a_line_names_each_benchmark_that_is_not_judged,
    verdicts::the_file_has_what_is_not_judged_and_is_not_new,
    verdicts::a_benchmark_that_only_the_other_build_has_is_named,
    words_of_a_program_that_lists_its_benchmarks_are_not_shown,
    the_option_lets_disturbed_pairs_count,
    baselines::a_saved_baseline_has_the_parts_of_its_run,
    baselines::a_short_routine_is_named_when_it_is_saved,
    baselines::a_line_says_once_that_pairs_are_short,
    baselines::a_run_that_is_not_compared_with_its_baseline_is_called_short,
    baselines::a_baseline_that_cannot_be_read_is_undecided,
    baselines::a_short_routine_that_the_other_build_lacks_is_called_short,
    baselines::a_run_with_more_work_differs_from_its_baseline,
    baselines::a_comparison_with_a_baseline_says_that_it_took_no_turns,
    baselines::a_line_says_how_to_hide_criterions_comparison,
    baselines::quiet_leaves_only_this_crates_comparison_with_a_baseline,
    baselines::the_plot_of_a_run_has_its_baseline,
    baselines::a_comparison_with_a_baseline_does_not_replace_it,
    baselines::a_run_that_does_not_pass_leaves_the_baseline,
    baselines::a_run_that_passes_becomes_the_baseline,
    baselines::a_run_by_another_clock_leaves_the_baseline,
    baselines::a_limit_of_a_short_routine_is_undecided,
    baselines::a_run_that_measures_nothing_updates_no_baseline,
    baselines::a_filter_that_fits_nothing_is_named,
    baselines::a_limit_for_benchmarks_that_are_not_compared_is_refused,
    baselines::a_benchmark_that_no_baseline_judges_is_named,
    baselines::too_few_couples_for_a_limit_is_undecided,
    baselines::a_list_is_not_judged,
    baselines::a_quick_run_has_too_few_parts_for_a_baseline,
    baselines::a_baseline_that_cannot_be_written_is_named,
    baselines::a_folder_that_takes_no_baseline_is_named,
    baselines::a_baseline_that_criterion_cannot_write_is_named,
    baselines::a_run_that_criterion_cannot_write_has_criterions_line,
    baselines::a_plot_that_cannot_be_written_changes_no_verdict,
    baselines::a_baseline_that_criterion_lacks_is_named,
    baselines::a_missing_baseline_and_another_build_end_with_a_text,
    baselines::a_baseline_that_this_crate_lacks_is_named_with_its_folder,
];

/// Runs the tests with the options of the built-in harness, and one filter. libtest-mimic does not
/// know the variable.
fn run_tests(program: &Path) -> ExitCode {
    let mut arguments = Arguments::from_args();
    let threads = std::env::var("RUST_TEST_THREADS").ok();
    arguments.test_threads = arguments.test_threads.or_else(|| threads?.parse().ok());
    let tests = TESTS.iter().map(|&(path, test)| {
        let program = program.to_owned();
        Trial::test(path, move || {
            let name = path.rsplit("::").next().unwrap_or(path);
            test(&Programs::new(&program, name));
            Ok(())
        })
    });
    libtest_mimic::run(&arguments, tests.collect()).exit_code()
}

/// Reports that a test did not run.
fn skip(reason: &str) {
    writeln!(std::io::stderr(), "SKIPPED: {reason}").ok();
}

/// Does `steps` steps, each of which needs the result of the step before.
#[inline(never)]
fn spin(steps: u64) -> u64 {
    (0..black_box(steps)).fold(1, |value, step| black_box(value ^ step))
}

fn run_benchmarks(steps: u64) {
    if std::env::var_os(SAYS).is_some() {
        writeln!(std::io::stderr(), "own words").ok();
    }
    let time = CounterTime::new_or_wall_time();
    let mut criterion = Criterion::default()
        .with_measurement(time)
        // Several times as long as a preemption, or criterion takes the preemption for the time of
        // an iteration, and each sample is one cold pair.
        .warm_up_time(Duration::from_millis(50))
        .measurement_time(Duration::from_millis(200))
        .sample_size(20)
        .nresamples(1_000)
        .configure_from_args();
    criterion.bench_function("plain", |bencher| bencher.iter(|| black_box(3)));
    if steps > 100 {
        // The old build lacks this benchmark.
        criterion.benchmark_group("added").bench_pairs(
            std::env::var(ADDED).unwrap_or("spin".to_owned()),
            |bencher| bencher.iter(|| spin(10)),
        );
    }
    if std::env::var_os(REORDERS).is_some() && std::env::args().any(|option| option == "--list") {
        criterion.bench_pairs("listed", |bencher| bencher.iter(|| spin(10)));
    }
    let mut group = criterion.benchmark_group("work");
    let is_about_this =
        |variable| std::env::var(variable).is_ok_and(|value| value == steps.to_string());
    let (ends, is_latency) = (is_about_this(ENDS), is_about_this(LATENCY));
    let has_slow_calls = is_about_this(SLOW_CALLS);
    let (mut calls, mut iterations) = (0, 0_u64);
    let starts = std::env::var_os(STARTS).is_some();
    group.bench_pairs("spin", |bencher| {
        log();
        if starts {
            let script = "echo 'tickline-criterion: {}'; cat";
            let status = Command::new("sh").args(["-c", script]).status();
            status.expect("a shell");
        }
        calls += 1;
        if ends && calls > 3 {
            std::process::exit(0);
        }
        if is_latency {
            bencher.latency();
        }
        if std::env::var_os(BATCHES).is_some() {
            bencher.iter_batched(|| steps, spin, BatchSize::SmallInput);
        } else if has_slow_calls {
            bencher.iter(|| {
                iterations += 1;
                spin(if iterations.is_multiple_of(4) {
                    33_000
                } else {
                    3_000
                })
            });
        } else {
            bencher.iter(|| spin(steps));
        }
    });
    compare(&mut group, "sides", || spin(100), || spin(100 + steps));
}

#[cfg(target_os = "linux")]
fn log() {
    let Some(path) = std::env::var_os(LOG) else {
        return;
    };
    let mut file = fs::File::options()
        .append(true)
        .create(true)
        .open(path)
        .expect("the log");
    let cpu = nix::sched::sched_getcpu().expect("a CPU");
    let program = std::env::current_exe().expect("this program");
    writeln!(file, "{} {cpu} {}", std::process::id(), program.display()).expect("the log");
}

#[cfg(not(target_os = "linux"))]
fn log() {}

/// A folder with copies of this program, and with criterion's files. It is removed after the test.
struct Programs(PathBuf);

impl Programs {
    fn new(program: &Path, test: &str) -> Self {
        let folder =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let programs = Self(folder);
        for steps in [1, 2, 8, 100, 130, 300, 3_000, 9_000] {
            let copy = programs.path(steps);
            fs::hard_link(program, &copy)
                .or_else(|_| fs::copy(program, &copy).map(drop))
                .expect("a copy");
        }
        programs
    }

    fn path(&self, steps: u64) -> PathBuf {
        self.0.join(format!("work-{steps}{EXE_SUFFIX}"))
    }

    /// Runs a copy as `cargo bench -- FILTER ARGUMENTS` does.
    fn run(&self, steps: u64, filter: &str, arguments: &[&str]) -> Output {
        let mut command = self.command(steps, filter, arguments);
        command.output().expect("a program")
    }

    fn command(&self, steps: u64, filter: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.path(steps));
        command
            .args(["--bench", filter])
            .args(arguments)
            .env("CRITERION_HOME", &self.0)
            .env(LOG, self.0.join("log"));
        command
    }

    fn against(&self, steps: u64, filter: &str, other: u64) -> Output {
        self.run(
            steps,
            filter,
            &["--against", &self.path(other).to_string_lossy()],
        )
    }

    fn json(&self, path: &str) -> Value {
        let text = fs::read(self.0.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        serde_json::from_slice(&text).expect("JSON")
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Standard output and error.
fn texts(output: &Output) -> (String, String) {
    let [out, err] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    (out, err)
}

/// The output of this build against another, and the stored comparison.
fn compared(programs: &Programs, steps: u64, other: u64) -> (String, Value) {
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

fn a_build_with_more_work_is_slower(programs: &Programs) {
    let (out, json) = compared(programs, 300, 100);
    assert_eq!(json["is_different"], true, "{out}");
    assert!(out.contains("this build is slower"), "{out}");
    let factor = ns(&json, "median_b_ns") / ns(&json, "median_a_ns");
    assert!((1.5..6.0).contains(&factor), "{factor}: {out}");
}

fn a_build_with_less_work_is_faster(programs: &Programs) {
    let (out, json) = compared(programs, 100, 300);
    assert_eq!(json["is_different"], true, "{out}");
    assert!(out.contains("this build is faster"), "{out}");
}

/// False differences between equal builds depend on the load, so unit tests check their number.
fn builds_of_the_same_work_differ_little(programs: &Programs) {
    let (out, json) = compared(programs, 130, 130);
    let percent = ns(&json["difference_percent"], "estimate");
    assert!(percent.abs() < 50.0, "{percent}: {out}");
}

/// Also after a second run.
fn both_plots_are_in_criterions_report(programs: &Programs) {
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

fn builds_take_turns_on_one_cpu(programs: &Programs) {
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
fn turns_are_not_compared_with_the_last_run(programs: &Programs) {
    assert!(programs.run(300, "work/spin", &[]).status.success());
    let (out, _) = compared(programs, 130, 130);
    assert!(!out.contains("change:"), "{out}");
}

/// Both files of the last run, which the next one is compared with.
fn turns_do_not_replace_the_last_run(programs: &Programs) {
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
fn each_duel_is_a_replicate(programs: &Programs) {
    let (out, json) = compared(programs, 130, 100);
    assert!(out.contains("over 10 processes of each build"), "{out}");
    assert_eq!(json["replicates"], "processes of each build");
    assert_eq!(json["replicates_ns"].as_array().map(Vec::len), Some(10));
}

/// The build of 300 steps against that of 100, with six layouts of each: the last ones are given.
fn six_layouts(
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
fn each_layout_is_a_replicate(programs: &Programs) {
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

fn a_benchmark_that_the_other_build_lacks_is_measured_alone(programs: &Programs) {
    let (out, err) = texts(&programs.against(130, "spin", 100));
    assert_eq!(out.matches("pairs:  p50").count(), 2, "{out}");
    assert_eq!(out.matches(" processes of each build").count(), 1, "{out}");
    assert!(
        err.contains("not compared: the other build has no such benchmark"),
        "{err}"
    );
}

/// Symptom: it was compared under the name of another benchmark, and no line said so.
fn a_benchmark_that_the_list_has_at_another_number_is_not_compared(programs: &Programs) {
    let mut command = programs.command(100, "spin|listed", &[]);
    command.arg("--against").arg(programs.path(100));
    let output = command.env(REORDERS, "1").output().expect("a program");
    assert_eq!(output.status.code(), Some(3));
    let (_, err) = texts(&output);
    let error = "not compared with the other build: it is work/spin, where the list of benchmarks has listed: ";
    assert!(err.contains(error), "{err}");
}

/// criterion cuts it in the list. Symptom: the benchmark seemed to be another one.
fn a_benchmark_with_a_long_name_has_its_place_in_the_list(programs: &Programs) {
    let mut command = programs.command(130, "spin", &[]);
    command.arg("--against").arg(programs.path(100));
    let name = format!("spin{}", "-and-again".repeat(12));
    let (_, err) = texts(&command.env(ADDED, name).output().expect("a program"));
    let error = "not compared: the other build has no such benchmark";
    assert!(err.contains(error), "{err}");
}

/// Symptom: the program could not list its benchmarks, because `--list` was after the `--`.
fn a_filter_may_follow_two_dashes(programs: &Programs) {
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

fn a_build_whose_partner_ends_is_measured_alone(programs: &Programs) {
    let (out, err) = texts(&against_one_that_ends(programs));
    assert!(out.contains("pairs:  p50"), "{out}\n{err}");
}

fn a_build_whose_partner_ends_is_undecided(programs: &Programs) {
    let output = against_one_that_ends(programs);
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(3), "all is undecided: {err}");
    assert!(!out.contains("this build is"), "{out}");
}

fn a_line_names_the_command_for_a_partner_that_ends(programs: &Programs) {
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
fn a_process_that_the_benchmark_starts_takes_no_turn(programs: &Programs) {
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
fn a_program_of_the_present_folder_needs_no_more_than_its_name(programs: &Programs) {
    let name = format!("work-100{EXE_SUFFIX}");
    let mut command = programs.command(130, "work/spin", &["--against", &name]);
    let output = command.current_dir(&programs.0).output();
    let (out, err) = texts(&output.expect("a program"));
    assert!(out.contains(" couples of "), "{out}\n{err}");
}

/// Symptom: "Gnuplot not found" was printed twice: also by the program that lists its benchmarks.
fn words_of_a_program_that_lists_its_benchmarks_are_not_shown(programs: &Programs) {
    let other = programs.path(100).to_string_lossy().into_owned();
    let mut command = programs.command(130, "work/spin", &["--against", &other]);
    let (out, err) = texts(&command.env(SAYS, "1").output().expect("a program"));
    assert!(out.contains(" couples of "), "{out}\n{err}");
    assert_eq!(err.matches("own words").count(), 1, "{err}");
}

fn the_option_lets_disturbed_pairs_count(programs: &Programs) {
    for (arguments, are) in [
        (&[][..], "excluded"),
        (&["--include-disturbed"], "included"),
    ] {
        assert!(programs.run(100, "work/spin", arguments).status.success());
        assert_eq!(
            programs.json("work/spin/new/pairs.json")["disturbed_are"],
            are
        );
    }
}
