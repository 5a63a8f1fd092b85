//! criterion's folder of a benchmark, found by the benchmark's times.
//!
//! No function of criterion returns its output directory, and a measurement is not told which
//! benchmark it measures. But criterion stores the times that it gets, unchanged, in
//! `new/sample.json`. This crate finds a benchmark's folder by these times. It searches criterion's
//! default directories: `$CRITERION_HOME`, `$CARGO_TARGET_DIR/criterion`, `criterion` in each
//! folder above the program, and `target/criterion`. If the program has called
//! [`CounterTimeBuilder::output_directory`](crate::measurement::CounterTimeBuilder::output_directory),
//! the search begins there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{self, Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::Value;

/// The depth of the search: group, function, parameter, and one spare level.
const DEPTH: u32 = 4;

/// criterion's files of a benchmark's last run, in the benchmark's folder: the times, and the
/// names.
const SAMPLE: &str = "new/sample.json";
const BENCHMARK: &str = "new/benchmark.json";

/// The largest rounding of file times: 2 s (FAT).
const ROUNDING: Duration = Duration::from_secs(2);

pub(crate) fn read(path: &Path) -> Result<Value, String> {
    let text = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// The directories in which criterion may have written: at least one.
fn roots(chosen: Option<&Path>) -> Vec<PathBuf> {
    let mut roots: Vec<PathBuf> = chosen.map(Path::to_path_buf).into_iter().collect();
    roots.extend(std::env::var_os("CRITERION_HOME").map(PathBuf::from));
    roots.extend(
        std::env::var_os("CARGO_TARGET_DIR").map(|path| PathBuf::from(path).join("criterion")),
    );
    let program = std::env::current_exe().unwrap_or_default();
    roots.extend(
        program
            .ancestors()
            .skip(1)
            .map(|folder| folder.join("criterion")),
    );
    roots.push(PathBuf::from("target/criterion"));
    roots
}

/// The directory in which criterion most likely writes. Under cargo, criterion asks `cargo metadata`
/// for the folder of this program's target.
pub(crate) fn likely_root(chosen: Option<&Path>) -> PathBuf {
    let from = |variable| std::env::var_os(variable).map(PathBuf::from);
    let named = chosen
        .map(Path::to_path_buf)
        .or_else(|| from("CRITERION_HOME"))
        .or_else(|| Some(from("CARGO_TARGET_DIR")?.join("criterion")));
    let of_cargo = || {
        from("CARGO")?;
        let program = std::env::current_exe().ok()?;
        // `target/release/deps/PROGRAM`, or with a folder for the platform before `release`.
        let mut above = program.ancestors().skip(3).take(2);
        let found = above
            .clone()
            .find(|folder| folder.join("criterion").is_dir());
        Some(found.or_else(|| above.next())?.join("criterion"))
    };
    let root = named
        .or_else(of_cargo)
        .unwrap_or_else(|| PathBuf::from("target/criterion"));
    path::absolute(&root).unwrap_or(root)
}

/// Why criterion can't write in the directory, with the folder that refuses a file: the directory,
/// or the one in which criterion has to make it.
pub(crate) fn why_not_writable(root: &Path) -> Option<String> {
    let folder = root.ancestors().find(|folder| folder.exists())?;
    let probe = folder.join(format!("tickline-probe-{}", std::process::id()));
    let made = fs::File::create_new(&probe);
    let error = made.err();
    if error.is_none() {
        _ = fs::remove_file(&probe);
    }
    error.map(|error| format!("{} takes no file: {error}", folder.display()))
}

/// Finds the folder of a benchmark, in the directory that the program has chosen or in criterion's
/// default ones: the folder in which criterion has stored `returned_ns` after `since`. Routines
/// that take no time have equal times, so several folders may match. The result is then the folder
/// that was written last.
pub(crate) fn find(
    chosen: Option<&Path>,
    returned_ns: &[f64],
    since: SystemTime,
) -> Option<PathBuf> {
    find_below(&roots(chosen), returned_ns, since)
}

fn find_below(roots: &[PathBuf], returned_ns: &[f64], since: SystemTime) -> Option<PathBuf> {
    let candidates: Vec<_> = folders_below(roots)
        .into_iter()
        .filter_map(|folder| Some((written(&folder.join(SAMPLE))?, folder)))
        .filter(|(written, folder)| {
            *written >= since - ROUNDING && has_times(&folder.join(SAMPLE), returned_ns)
        })
        .collect();
    // criterion saves the baseline `parser/new` as a copy of the run, in `parser/new` of the
    // benchmark's folder. `parser` then looks like the folder of a benchmark.
    let has_copy = |folder: &Path| {
        let name = full_name(folder);
        candidates.iter().any(|(_, above)| {
            let is_below = folder != above && folder.starts_with(above);
            is_below && name.is_some() && name == full_name(above)
        })
    };
    candidates
        .iter()
        .filter(|(_, folder)| !has_copy(folder))
        .max_by_key(|(written, _)| *written)
        .map(|(_, folder)| folder.clone())
}

/// The full names of the benchmarks that criterion has stored since then, in its default
/// directories: of this program, and of others that have run meanwhile. The search does not allow
/// for rounded file times: it would then find the benchmarks of a program that has just ended.
pub(crate) fn stored_since(since: SystemTime) -> BTreeSet<String> {
    names_below(&roots(None), since)
}

fn names_below(roots: &[PathBuf], since: SystemTime) -> BTreeSet<String> {
    folders_below(roots)
        .iter()
        .filter(|folder| written(&folder.join(BENCHMARK)).is_some_and(|written| written >= since))
        .filter_map(|folder| full_name(folder))
        .collect()
}

/// The roots, and all folders below them that may be a benchmark's.
fn folders_below(roots: &[PathBuf]) -> Vec<PathBuf> {
    let mut all = roots.to_vec();
    let mut level = roots.to_vec();
    for _ in 0..DEPTH {
        level = level
            .iter()
            .filter_map(|folder| fs::read_dir(folder).ok())
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.is_dir())
            .collect();
        all.extend_from_slice(&level);
    }
    all
}

/// When a file was written; `None` without one.
fn written(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|data| data.modified()).ok()
}

/// Whether a folder of a benchmark, such as that of a baseline, has the run with these times.
pub(crate) fn is_run(folder: &Path, returned_ns: &[f64]) -> bool {
    has_times(&folder.join("sample.json"), returned_ns)
}

fn has_times(path: &Path, returned_ns: &[f64]) -> bool {
    let stored = read(path).unwrap_or_default();
    let Some(times) = stored["times"].as_array() else {
        return false;
    };
    // criterion's quick mode stores only the last two samples.
    let last = returned_ns.iter().rev().zip(times.iter().rev());
    // serde_json sometimes reads the last of 16 digits wrongly.
    let mut same = last.map(|(ns, time)| {
        time.as_f64()
            .is_some_and(|time| (time - ns).abs() <= ns * 1e-12)
    });
    !times.is_empty() && !returned_ns.is_empty() && same.all(|is_same| is_same)
}

/// criterion's full name of the benchmark in a folder.
pub(crate) fn full_name(folder: &Path) -> Option<String> {
    name_of(folder, "full_id")
}

/// The name that criterion prints and lists for the benchmark in a folder: a long one is cut, and a
/// repeated one has a number.
pub(crate) fn title(folder: &Path) -> Option<String> {
    name_of(folder, "title")
}

fn name_of(folder: &Path, key: &str) -> Option<String> {
    let benchmark = read(&folder.join(BENCHMARK)).ok()?;
    benchmark[key].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::test_folder::Folder;

    /// The benchmark with these times in `folder` that was measured since the moment.
    fn found(folder: &Folder, returned_ns: &[f64], since: SystemTime) -> Option<PathBuf> {
        let roots = [folder.0.join("nowhere"), folder.0.clone()];
        find_below(&roots, returned_ns, since)
    }

    /// criterion's files of two benchmarks, which took 20.25 and 20.5 ns, among others.
    fn two_benchmarks(test: &str) -> (Folder, SystemTime) {
        let folder = Folder::new(test);
        let sample = |last_ns| format!(r#"{{"iters":[1.0,2.0],"times":[10.5,{last_ns}]}}"#);
        folder.write("group/a/new/sample.json", &sample(20.25));
        folder.write("group/b/7/new/sample.json", &sample(20.5));
        folder.write("group/b/7/base/sample.json", &sample(20.75));
        folder.write("broken/new/sample.json", "{");
        folder.write("empty/new/sample.json", r#"{"times":[]}"#);
        (folder, SystemTime::now())
    }

    #[test]
    fn a_benchmark_is_found_by_its_times() {
        let (folder, now) = two_benchmarks("find");
        let found = found(&folder, &[10.5, 20.5], now);
        assert_eq!(found, Some(folder.0.join("group/b/7")));
    }

    #[test]
    fn in_the_quick_mode_a_benchmark_is_found_by_its_last_times() {
        let (folder, now) = two_benchmarks("find-quick");
        let found = found(&folder, &[5.0, 10.5, 20.25], now);
        assert_eq!(found, Some(folder.0.join("group/a")));
    }

    #[test]
    fn the_times_of_the_run_before_find_no_benchmark() {
        let (folder, now) = two_benchmarks("find-base");
        assert_eq!(found(&folder, &[10.5, 20.75], now), None);
    }

    #[test]
    fn without_times_no_benchmark_is_found() {
        let (folder, now) = two_benchmarks("find-nothing");
        assert_eq!(found(&folder, &[], now), None);
    }

    #[test]
    fn of_benchmarks_with_the_same_times_the_last_is_found() {
        let (folder, now) = two_benchmarks("find-last");
        std::thread::sleep(Duration::from_millis(20));
        let sample = r#"{"iters":[1.0,2.0],"times":[10.5,20.5]}"#;
        folder.write("later/new/sample.json", sample);
        let found = found(&folder, &[10.5, 20.5], now);
        assert_eq!(found, Some(folder.0.join("later")));
    }

    /// Writes criterion's files of a run, which took as long as `group/b/7`, of this benchmark.
    fn write_run(folder: &Folder, run: &str, full_name: &str) {
        let sample = r#"{"iters":[1.0,2.0],"times":[10.5,20.5]}"#;
        let benchmark = format!(r#"{{"full_id":"{full_name}"}}"#);
        folder.write(&format!("{run}/sample.json"), sample);
        folder.write(&format!("{run}/benchmark.json"), &benchmark);
    }

    /// Symptom: after `--save-baseline parser/new`, a good run ended with exit code 2.
    #[test]
    fn a_baseline_whose_name_ends_with_new_is_no_benchmark() {
        let (folder, now) = two_benchmarks("find-new");
        for run in ["new", "parser/new"] {
            write_run(&folder, &format!("group/b/7/{run}"), "group/b/7");
        }
        let found = found(&folder, &[10.5, 20.5], now);
        assert_eq!(found, Some(folder.0.join("group/b/7")));
    }

    #[test]
    fn a_benchmark_below_another_with_the_same_times_is_found() {
        let (folder, now) = two_benchmarks("find-below");
        write_run(&folder, "sort/new", "sort");
        std::thread::sleep(Duration::from_millis(20));
        write_run(&folder, "sort/small/new", "sort/small");
        let found = found(&folder, &[10.5, 20.5], now);
        assert_eq!(found, Some(folder.0.join("sort/small")));
    }

    #[test]
    fn folders_without_a_name_are_not_those_of_one_benchmark() {
        let (folder, now) = two_benchmarks("find-nameless");
        std::thread::sleep(Duration::from_millis(20));
        let sample = r#"{"iters":[1.0,2.0],"times":[10.5,20.5]}"#;
        folder.write("group/b/7/small/new/sample.json", sample);
        let found = found(&folder, &[10.5, 20.5], now);
        assert_eq!(found, Some(folder.0.join("group/b/7/small")));
    }

    /// Symptom: nothing named the benchmarks of `bench_function` that a limit did not judge.
    #[test]
    fn the_benchmarks_that_were_stored_since_a_moment_are_named() {
        let folder = Folder::new("stored-since");
        let names = ["old", "group/new"];
        for name in names {
            let text = format!(r#"{{"full_id":"{name}"}}"#);
            folder.write(&format!("{name}/{BENCHMARK}"), &text);
        }
        let since = SystemTime::now() - Duration::from_secs(60);
        let old = fs::File::options()
            .append(true)
            .open(folder.0.join("old").join(BENCHMARK));
        let made_old = old.and_then(|old| old.set_modified(since - Duration::from_secs(1)));
        made_old.expect("own file");
        let found = names_below(std::slice::from_ref(&folder.0), since);
        assert!(found.iter().eq(["group/new"]), "{found:?}");
    }

    #[test]
    fn files_from_before_the_benchmark_are_not_found() {
        let (folder, now) = two_benchmarks("find-old");
        let found = found(&folder, &[10.5, 20.5], now + Duration::from_secs(60));
        assert_eq!(found, None);
    }
}
