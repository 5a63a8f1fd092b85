//! Tests of builds in turns and baselines with whole programs. This program contains the tests
//! and the benchmark. A copy of it named `work-130` does 130 steps; the copy `work-100` represents
//! the old build.

mod baselines;
mod benchmarks;
mod copies;
mod disturbed;
mod latency;
mod programs;
mod refusals;
mod turns;
mod verdicts;

use std::path::Path;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

use crate::benchmarks::run_benchmarks;
use crate::programs::Programs;

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
    turns::a_build_with_more_work_is_slower,
    turns::a_build_with_less_work_is_faster,
    turns::builds_of_the_same_work_differ_little,
    turns::both_plots_are_in_criterions_report,
    turns::builds_take_turns_on_one_cpu,
    latency::with_latency_pairs_in_turns_have_one_iteration,
    latency::with_latency_pairs_of_batched_inputs_have_one_iteration,
    latency::the_build_that_is_started_decides_whether_it_is_latency,
    latency::a_limit_of_the_latency_of_a_short_routine_is_undecided,
    copies::each_process_of_a_pair_runs_a_copy_that_is_removed,
    copies::the_next_comparison_removes_the_copies_of_a_killed_one,
    copies::a_folder_that_takes_no_copy_is_named,
    turns::turns_are_not_compared_with_the_last_run,
    turns::turns_do_not_replace_the_last_run,
    turns::each_pair_of_processes_is_a_replicate,
    turns::each_layout_is_a_replicate,
    turns::a_benchmark_that_the_other_build_lacks_is_measured_alone,
    turns::a_benchmark_that_the_list_has_at_another_number_is_not_compared,
    turns::a_benchmark_with_a_long_name_has_its_place_in_the_list,
    turns::a_filter_may_follow_two_dashes,
    refusals::builds_without_a_common_benchmark_are_refused,
    refusals::a_benchmark_of_bench_function_is_named,
    refusals::a_layout_that_is_no_program_is_refused,
    refusals::a_layout_of_another_build_is_refused,
    turns::a_build_whose_partner_ends_is_measured_alone,
    turns::a_build_whose_partner_ends_is_undecided,
    turns::a_line_names_the_command_for_a_partner_that_ends,
    turns::a_process_that_the_benchmark_starts_takes_no_turn,
    refusals::a_path_without_a_program_is_refused_with_its_folder,
    refusals::a_path_of_nothing_is_named_with_what_is_expected,
    refusals::a_folder_is_named_with_what_is_expected,
    #[cfg(unix)]
    refusals::a_file_that_may_not_be_executed_is_named_with_what_is_expected,
    #[cfg(target_os = "linux")]
    refusals::a_file_that_is_no_program_is_named_with_what_is_expected,
    #[cfg(unix)]
    refusals::a_program_without_its_interpreter_is_named_with_what_is_expected,
    turns::a_program_of_the_present_folder_needs_no_more_than_its_name,
    refusals::turns_without_a_measurement_are_refused,
    refusals::a_program_may_be_tested_without_another_build,
    refusals::a_list_has_nothing_to_compare,
    refusals::the_help_has_nothing_to_compare,
    refusals::the_help_has_this_crates_options,
    refusals::a_program_without_benchmarks_is_refused,
    refusals::the_harness_of_a_program_without_benchmarks_is_named,
    refusals::a_wrong_argument_ends_with_a_text,
    refusals::the_name_of_the_last_run_is_refused_for_a_baseline,
    #[cfg(target_os = "linux")]
    verdicts::a_stream_is_refused_for_the_verdicts,
    verdicts::after_an_error_the_verdicts_say_so,
    verdicts::the_verdicts_name_the_error_that_is_printed,
    verdicts::the_verdicts_of_a_run_that_measured_nothing_have_its_error,
    verdicts::the_path_of_the_verdicts_is_printed_once,
    verdicts::a_folder_that_is_missing_is_named_with_where_its_path_begins,
    verdicts::a_run_that_ends_early_leaves_its_verdicts,
    verdicts::the_exit_code_and_a_line_say_that_a_build_is_slower,
    verdicts::a_slower_build_is_named_if_its_verdicts_cannot_be_stored,
    verdicts::the_last_line_has_the_exit_code_if_the_verdicts_cannot_be_stored,
    verdicts::a_run_that_passes_is_named_if_its_verdicts_cannot_be_stored,
    verdicts::an_error_is_named_if_the_verdicts_cannot_be_stored,
    verdicts::the_file_has_the_limit_and_the_difference_of_a_slower_build,
    verdicts::a_line_and_the_file_say_that_each_build_has_one_link_order,
    verdicts::the_exit_code_says_that_noise_hides_the_result,
    verdicts::a_build_without_a_regression_passes,
    verdicts::a_build_whose_every_fourth_call_is_slow_is_slower,
    verdicts::a_line_names_each_benchmark_that_is_not_judged,
    verdicts::the_file_has_what_is_not_judged_and_is_not_new,
    verdicts::a_benchmark_that_only_the_other_build_has_is_named,
    turns::words_of_a_program_that_lists_its_benchmarks_are_not_shown,
    disturbed::the_option_lets_disturbed_pairs_count,
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
