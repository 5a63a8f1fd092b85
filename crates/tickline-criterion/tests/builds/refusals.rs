//! Tests of runs for which there is nothing to compare, and of wrong arguments.

use std::path::Path;
use std::process::{Command, Output};

use crate::programs::{Programs, texts};
use crate::turns::six_layouts;

/// Symptom: only an error listed this crate's options.
pub(crate) fn the_help_has_this_crates_options(programs: &Programs) {
    for help in ["--help", "-h"] {
        let output = tested(programs, &["--bench", help]);
        let (out, err) = texts(&output);
        assert!(output.status.success(), "{err}");
        let (_, own) = out.split_once("faq.html").expect("criterion's help");
        assert!(own.contains("  --max-regression <PERCENT>  "), "{out}");
        assert_eq!(out.matches("--update-on-pass").count(), 1, "{out}");
    }
}

/// Symptom: the exit code was 0, after one line on the standard error stream.
pub(crate) fn builds_without_a_common_benchmark_are_refused(programs: &Programs) {
    let output = programs.against(130, "added/spin", 100);
    assert_refused(
        &output,
        "it compares benchmarks of bench_pairs that both builds have: this build has added/spin; ",
    );
    let (_, err) = texts(&output);
    assert!(
        err.contains(
            "work-100 has no benchmark that fits the filter; write bench_pairs in both builds"
        ),
        "{err}"
    );
}

/// Symptom: two equal builds had no benchmark in common, and nothing said why.
pub(crate) fn a_benchmark_of_bench_function_is_named(programs: &Programs) {
    let output = programs.against(130, "plain", 100);
    assert_refused(
        &output,
        "this build has only benchmarks of bench_function or compare (plain); ",
    );
}

/// Symptom: it was noticed only at its turn, after the time of the layouts before it.
pub(crate) fn a_layout_that_is_no_program_is_refused(programs: &Programs) {
    let missing = Path::new("no/such/layout");
    for output in [
        six_layouts(programs, "spin", &programs.path(100), missing),
        six_layouts(programs, "spin", missing, &programs.path(300)),
    ] {
        assert_refused(&output, "no/such/layout (in ");
    }
}

pub(crate) fn a_layout_of_another_build_is_refused(programs: &Programs) {
    let [old, new] = [programs.path(100), programs.path(300)];
    let output = six_layouts(programs, "spin", &old, &old);
    assert_refused(&output, "work-100 lacks added/spin, which the others have");
    let output = six_layouts(programs, "spin", &new, &new);
    assert_refused(&output, "work-300 has added/spin, which the others lack");
}

/// Checks that nothing was measured, the exit code, and a line.
pub(crate) fn assert_refused(output: &Output, line: &str) {
    let (out, err) = texts(output);
    assert_eq!(output.status.code(), Some(2), "{out}\n{err}");
    assert!(err.contains("tickline: ") && err.contains(line), "{err}");
    assert!(!err.contains("panicked"), "{err}");
    assert!(!out.contains("pairs:"), "nothing is measured: {out}");
}

/// Symptom: the file was there, in the folder in which the user had called cargo.
pub(crate) fn a_path_without_a_program_is_refused_with_its_folder(programs: &Programs) {
    let output = programs.run(130, "work/spin", &["--against=no/such/program"]);
    let here = std::env::current_dir().expect("a folder");
    let expected = format!("--against: no/such/program (in {}; ", here.display());
    assert_refused(&output, &expected);
}

/// Runs against a path where there is no program. Checks that the error has the path, what is
/// wrong with it, and the command that makes a program.
fn assert_names_the_wrong_path(programs: &Programs, path: &Path, wrong: &str) {
    let path = path.display();
    let output = programs.run(130, "work/spin", &[&format!("--against={path}")]);
    assert_refused(&output, &format!("--against: {path}: {wrong}"));
    let (_, err) = texts(&output);
    let expected = "; a benchmark program is expected: `cargo bench --bench NAME --no-run` makes one, \
                    and prints its path\n";
    assert!(err.contains(expected), "{err}");
}

/// Symptom: "No such file or directory" was all that was said.
pub(crate) fn a_path_of_nothing_is_named_with_what_is_expected(programs: &Programs) {
    let missing = programs.0.join("missing");
    assert_names_the_wrong_path(programs, &missing, "there is no such file");
}

/// Symptom: "Permission denied" was all that was said.
pub(crate) fn a_folder_is_named_with_what_is_expected(programs: &Programs) {
    let wrong = "it is a folder, and no program";
    assert_names_the_wrong_path(programs, &programs.0, wrong);
}

/// A file with this mode, which is no program.
#[cfg(unix)]
fn file(programs: &Programs, mode: u32) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let file = programs.0.join("file");
    std::fs::write(&file, "no program").expect("a file");
    let permissions = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(&file, permissions).expect("own file");
    file
}

/// Symptom: "Permission denied" was all that was said, as of a folder.
#[cfg(unix)]
pub(crate) fn a_file_that_may_not_be_executed_is_named_with_what_is_expected(programs: &Programs) {
    let file = file(programs, 0o644);
    let wrong = "it is a file that may not be executed";
    assert_names_the_wrong_path(programs, &file, wrong);
}

/// Symptom: "Exec format error" was all that was said. Other systems may start a shell instead, as
/// `execvp` does.
#[cfg(target_os = "linux")]
pub(crate) fn a_file_that_is_no_program_is_named_with_what_is_expected(programs: &Programs) {
    let file = file(programs, 0o755);
    assert_names_the_wrong_path(programs, &file, "it can't be started: ");
}

/// Symptom: "No such file or directory" of a file that was there.
#[cfg(unix)]
pub(crate) fn a_program_without_its_interpreter_is_named_with_what_is_expected(
    programs: &Programs,
) {
    let file = file(programs, 0o755);
    std::fs::write(&file, "#!/no/such/shell\n").expect("own file");
    let wrong = "it is there, but not what starts it, such as a loader";
    assert_names_the_wrong_path(programs, &file, wrong);
}

/// Symptom: the exit code was 0, and criterion had called each benchmark once.
pub(crate) fn turns_without_a_measurement_are_refused(programs: &Programs) {
    let against = format!("--against={}", programs.path(100).display());
    for (arguments, what) in [
        (&["work/spin"][..], "add --bench"),
        (&["--bench", "--test"], "leave --test out"),
    ] {
        let output = tested(programs, &[arguments, &[&against]].concat());
        assert_refused(&output, what);
    }
}

/// Runs a copy as `cargo test --benches -- ARGUMENTS` does.
pub(crate) fn tested(programs: &Programs, arguments: &[&str]) -> Output {
    let mut command = Command::new(programs.path(130));
    command.args(arguments).env("CRITERION_HOME", &programs.0);
    command.output().expect("a program")
}

pub(crate) fn a_program_may_be_tested_without_another_build(programs: &Programs) {
    let output = tested(programs, &[]);
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{out}\n{err}");
    assert!(out.contains("Testing work/spin"), "{out}");
}

pub(crate) fn a_list_has_nothing_to_compare(programs: &Programs) {
    let output = tested(programs, &["--list", "--against=no/such/program"]);
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{err}");
    assert!(out.contains("work/spin: benchmark"), "{out}");
}

/// Symptom: the builds had no benchmark in common, because they printed criterion's help.
pub(crate) fn the_help_has_nothing_to_compare(programs: &Programs) {
    let output = tested(programs, &["--help", "--against=no/such/program"]);
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{err}");
    assert!(out.contains("Usage: "), "{out}");
}

/// Symptom: the exit code was 0, after one line on the standard error stream.
pub(crate) fn a_program_without_benchmarks_is_refused(programs: &Programs) {
    let output = programs.run(130, "work/spin", &["--against", env!("CARGO")]);
    assert_refused(&output, "its main does not call tickline_criterion::run");
}

/// Symptom: the program's own `main` called `run`, and cargo had put another one in its place.
pub(crate) fn the_harness_of_a_program_without_benchmarks_is_named(programs: &Programs) {
    let output = programs.run(130, "work/spin", &["--against", env!("CARGO")]);
    assert_refused(&output, "its [[bench]] has no `harness = false`, ");
}

/// Symptom: criterion emptied its own file of the run, by a copy onto itself. `New` did the same
/// where the file system ignores case.
pub(crate) fn the_name_of_the_last_run_is_refused_for_a_baseline(programs: &Programs) {
    for name in ["new", "./new", "New"] {
        let output = programs.run(100, "work/spin", &["--save-baseline", name]);
        let line = format!(
            "--save-baseline {name}: `new`, in capitals or not, is criterion's own folder of the last run: choose \
             another name"
        );
        assert_refused(&output, &line);
    }
}

/// Symptom: the program ended by a panic, with exit code 101.
pub(crate) fn a_wrong_argument_ends_with_a_text(programs: &Programs) {
    let other = programs.path(100).to_string_lossy().into_owned();
    let output = programs.run(130, "work/spin", &["--against", &other, "--bogus"]);
    assert_refused(
        &output,
        "--against: this build: it can't list its benchmarks",
    );
    let (_, err) = texts(&output);
    assert!(
        err.contains("unexpected argument"),
        "criterion's words: {err}"
    );
    assert!(err.contains("\"--bogus\""), "{err}");
    let output = programs.run(130, "work/spin", &["--max-noise=much"]);
    assert_refused(&output, "--max-noise: much is not a percentage such as 2%");
}
