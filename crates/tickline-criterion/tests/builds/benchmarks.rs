//! The benchmarks of this program, and the variables that change them.

use std::hint::black_box;
use std::io::Write;
use std::process::Command;
use std::time::Duration;

use criterion::{BatchSize, Criterion};
use tickline_criterion::{BenchPairs, CounterTime, compare};

/// The variable with the path of the log, which has process, CPU and program of each sample.
pub(crate) const LOG: &str = "TICKLINE_CRITERION_TEST_LOG";

/// The variable with the steps of the copy that ends in the middle of a benchmark.
pub(crate) const ENDS: &str = "TICKLINE_CRITERION_TEST_ENDS";

/// The variable with the path of a file in whose place the benchmark makes a folder.
pub(crate) const BLOCKS: &str = "TICKLINE_CRITERION_TEST_BLOCKS";

/// The variable with which the benchmark starts another process that has its streams.
pub(crate) const STARTS: &str = "TICKLINE_CRITERION_TEST_STARTS";

/// The variable with which the benchmarks print a line.
pub(crate) const SAYS: &str = "TICKLINE_CRITERION_TEST_SAYS";

/// The variable with the name of the benchmark that the old build lacks.
pub(crate) const ADDED: &str = "TICKLINE_CRITERION_TEST_ADDED";

/// The variable with the steps of the copy whose pairs have one iteration.
pub(crate) const LATENCY: &str = "TICKLINE_CRITERION_TEST_LATENCY";

/// The variable with the steps of the copy that does 3,000, and in every fourth call 33,000.
pub(crate) const SLOW_CALLS: &str = "TICKLINE_CRITERION_TEST_SLOW_CALLS";

/// The variable with which each iteration has an input of its own.
pub(crate) const BATCHES: &str = "TICKLINE_CRITERION_TEST_BATCHES";

/// The variable with which a list of the benchmarks has a first one that no measuring run has.
pub(crate) const REORDERS: &str = "TICKLINE_CRITERION_TEST_REORDERS";

/// Does `steps` steps, each of which needs the result of the step before.
#[inline(never)]
fn spin(steps: u64) -> u64 {
    (0..black_box(steps)).fold(1, |value, step| black_box(value ^ step))
}

pub(crate) fn run_benchmarks(steps: u64) {
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
        if let Some(path) = std::env::var_os(BLOCKS) {
            std::fs::remove_file(&path).ok();
            std::fs::create_dir(&path).ok();
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
    let mut file = std::fs::File::options()
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
