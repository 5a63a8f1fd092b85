//! Tests of interleaved builds and baselines with whole programs. This program contains the tests
//! and the benchmark. A copy of it named `work-130` does 130 steps; the copy `work-100` represents
//! the old build.

use std::env::consts::EXE_SUFFIX;
use std::fs;
use std::hint::black_box;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use criterion::Criterion;
use serde_json::Value;
use tickline_criterion::{BenchPairs, CounterTime, compare};

/// The variable with the path of the log, which has process and CPU of each sample.
const LOG: &str = "TICKLINE_CRITERION_TEST_LOG";

type Test = fn(&Programs);

fn main() {
    let program = std::env::current_exe().expect("this program");
    let name = program
        .file_stem()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    if let Some(steps) = name.strip_prefix("work-") {
        return benchmarks(steps.parse().expect("a number"));
    }
    let tests: [(&str, Test); 4] = [
        (
            "more_work_is_found_but_not_in_equal_builds",
            more_work_is_found_but_not_in_equal_builds,
        ),
        (
            "builds_that_take_no_turns_say_why",
            builds_that_take_no_turns_say_why,
        ),
        (
            "a_baseline_is_saved_and_compared",
            a_baseline_is_saved_and_compared,
        ),
        (
            "a_missing_baseline_is_named_with_its_folder",
            a_missing_baseline_is_named_with_its_folder,
        ),
    ];
    let filters: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    for (name, test) in tests {
        if filters.is_empty() || filters.iter().any(|filter| name.contains(filter)) {
            test(&Programs::new(&program, name));
            writeln!(std::io::stderr(), "test {name} ... ok").ok();
        }
    }
}

/// Does `steps` steps, each of which needs the result of the step before.
#[inline(never)]
fn spin(steps: u64) -> u64 {
    (0..black_box(steps)).fold(1, |value, step| black_box(value ^ step))
}

fn benchmarks(steps: u64) {
    let time = CounterTime::or_wall_time();
    let mut criterion = Criterion::default()
        .with_measurement(time)
        .warm_up_time(Duration::from_millis(50))
        .measurement_time(Duration::from_secs(1))
        .sample_size(20)
        .nresamples(1_000)
        .configure_from_args();
    criterion.bench_function("plain", |bencher| bencher.iter(|| black_box(3)));
    if steps > 100 {
        // The old build lacks this benchmark.
        criterion
            .benchmark_group("added")
            .bench_pairs("spin", |bencher| bencher.iter(|| spin(10)));
    }
    let mut group = criterion.benchmark_group("work");
    group.bench_pairs("spin", |bencher| {
        log();
        bencher.iter(|| spin(steps));
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
    writeln!(file, "{} {cpu}", std::process::id()).expect("the log");
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
        for steps in [100, 130, 300] {
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
        Command::new(self.path(steps))
            .args(["--bench", filter])
            .args(arguments)
            .env("CRITERION_HOME", &self.0)
            .env(LOG, self.0.join("log"))
            .output()
            .expect("a program")
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

fn more_work_is_found_but_not_in_equal_builds(programs: &Programs) {
    let compared = |steps: u64, other: u64| {
        let output = programs.against(steps, "work/spin", other);
        let (out, err) = texts(&output);
        assert!(
            output.status.success() && out.contains(" couples of "),
            "{out}\n{err}"
        );
        let json = programs.json("work/spin/new/comparison.json");
        (json["is_different"] == true, out, json)
    };
    let (is_different, out, json) = compared(300, 100);
    assert!(
        is_different && out.contains("this build is slower"),
        "{out}"
    );
    let factor =
        json["median_b_ns"].as_f64().expect("ns") / json["median_a_ns"].as_f64().expect("ns");
    assert!((1.5..6.0).contains(&factor), "{factor}: {out}");
    let (is_different, out, _) = compared(100, 300);
    assert!(
        is_different && out.contains("this build is faster"),
        "{out}"
    );
    // False differences between equal builds depend on the load, so unit tests check their number.
    let (_, out, json) = compared(130, 130);
    let ratio =
        json["difference_ns"].as_f64().expect("ns") / json["median_a_ns"].as_f64().expect("ns");
    assert!(ratio.abs() < 0.5, "{ratio}: {out}");
    let report = fs::read_to_string(programs.0.join("work/spin/report/index.html"))
        .expect("criterion's report");
    for plot in ["pairs.svg", "comparison.svg"] {
        assert_eq!(
            report.matches(&format!("<img src=\"{plot}\"")).count(),
            1,
            "{plot}"
        );
    }
    let plot =
        fs::read_to_string(programs.0.join("work/spin/report/comparison.svg")).expect("the plot");
    assert!(
        plot.contains("the other build") && plot.contains("this build"),
        "{plot}"
    );
    if cfg!(target_os = "linux") {
        one_cpu(&fs::read_to_string(programs.0.join("log")).expect("the log"));
    }
}

/// Asserts that the two processes alternated, and that both were on one CPU.
fn one_cpu(log: &str) {
    let lines: Vec<(&str, &str)> = log
        .lines()
        .filter_map(|line| line.split_once(' '))
        .collect();
    let processes: Vec<&[(&str, &str)]> = lines.chunk_by(|one, other| one.0 == other.0).collect();
    assert!(processes.len() > 20, "they did not alternate: {log}");
    let moved = lines
        .windows(2)
        .filter(|two| two[0].0 != two[1].0 && two[0].1 != two[1].1)
        .count();
    // Each of the three runs may be on a CPU of its own.
    assert!(moved <= 3, "{moved} moves between CPUs: {log}");
}

fn builds_that_take_no_turns_say_why(programs: &Programs) {
    let (out, err) = texts(&programs.against(130, "added/spin", 100));
    assert!(
        out.contains("pairs:  p50") && !out.contains("this build is"),
        "it is measured alone: {out}"
    );
    assert!(
        err.contains("not compared with the other build: it took no turn"),
        "{err}"
    );
    assert!(
        err.contains("work-100") && err.contains("added/spin"),
        "{err}"
    );
    let output = programs.run(130, "work/spin", &["--against=no/such/program"]);
    let (out, err) = texts(&output);
    assert!(
        !output.status.success() && err.contains("--against: no/such/program"),
        "{out}\n{err}"
    );
    assert!(!out.contains("pairs:"), "nothing is measured: {out}");
}

fn a_baseline_is_saved_and_compared(programs: &Programs) {
    assert!(programs.run(100, "work", &["-smain"]).status.success());
    for stem in ["spin/main/pairs.json", "sides/main/comparison.json"] {
        let rounds = programs.json(&format!("work/{stem}"))["rounds_ns"]
            .as_array()
            .map(Vec::len);
        assert!(
            rounds.is_some_and(|rounds| rounds >= 10),
            "{stem}: {rounds:?}"
        );
    }
    // The second routine of `compare` does 400 steps in place of 200.
    let output = programs.run(300, "work", &["--baseline", "main"]);
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{out}\n{err}");
    for path in ["work/spin/new/pairs.json", "work/sides/new/comparison.json"] {
        let found = programs.json(path)["baseline"].clone();
        assert_eq!(found["name"], "main", "{found}");
        assert_eq!(found["is_different"], true, "{path}: {found}\n{out}");
        assert!(
            found["percent"].as_f64().expect("a number") > 50.0,
            "{found}"
        );
    }
    assert_eq!(
        out.matches(": more now, by more than either run scatters")
            .count(),
        2,
        "{out}"
    );
    let plot = fs::read_to_string(programs.0.join("work/spin/report/pairs.svg")).expect("the plot");
    assert!(plot.contains("main") && plot.contains("this run"), "{plot}");
    let saved = programs.json("work/spin/main/pairs.json");
    assert!(
        saved["baseline"].is_null(),
        "a comparison with a baseline does not replace it"
    );
    // Symptom: in the quick mode, nothing was printed of a routine that takes longer than the limit.
    let output = programs.run(
        100,
        "work/spin",
        &["--quick", "--measurement-time=1e-6", "-bmain"],
    );
    let (out, err) = texts(&output);
    assert!(
        out.contains("pairs:  p50") && out.contains("1 pairs"),
        "{out}\n{err}"
    );
    assert!(
        err.contains("tickline: not compared with the baseline: a run has fewer than 10"),
        "{err}"
    );
    // A failed write leaves no partial file.
    let file = programs.0.join("work/spin/main/pairs.json");
    fs::remove_file(&file).expect("it was there");
    fs::create_dir_all(file.join("in the way")).expect("a folder");
    let before = fs::read_dir(programs.0.join("work/spin/main"))
        .expect("the baseline")
        .count();
    let (_, err) = texts(&programs.run(100, "work/spin", &["--save-baseline", "main"]));
    assert!(
        err.contains("tickline: not stored: ") && err.contains("pairs.json"),
        "{err}"
    );
    assert_eq!(
        fs::read_dir(programs.0.join("work/spin/main"))
            .expect("the baseline")
            .count(),
        before
    );
}

fn a_missing_baseline_is_named_with_its_folder(programs: &Programs) {
    let output = programs.run(100, "work/spin", &["--baseline", "nowhere"]);
    let (_, err) = texts(&output);
    assert!(
        !output.status.success() && err.contains("--save-baseline nowhere"),
        "by criterion: {err}"
    );
    // criterion has this baseline, but this crate's file is missing, as from an older version.
    assert!(
        programs
            .run(100, "work/spin", &["--save-baseline", "old"])
            .status
            .success()
    );
    fs::remove_file(programs.0.join("work/spin/old/pairs.json")).expect("it was there");
    let (out, err) = texts(&programs.run(100, "work/spin", &["--baseline", "old"]));
    assert!(!out.contains("baseline old: "), "{out}");
    let folder = programs.0.join("work").join("spin");
    let expected = format!(
        "tickline: not compared: no baseline old in {}: ",
        folder.display()
    );
    assert!(
        err.contains(&expected) && err.contains("pairs.json"),
        "{err}"
    );
}
