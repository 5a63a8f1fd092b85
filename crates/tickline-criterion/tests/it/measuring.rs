//! Measured times, compared with clocks that must agree, alone and run by criterion.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use criterion::measurement::{Measurement, WallTime};
use criterion::{BatchSize, Throughput};
use tickline_criterion::{CounterTime, Elapsed};
use tickline_observe::skip;

use crate::directory::Directory;

fn by_counter() -> Option<CounterTime> {
    CounterTime::builder()
        .quiet()
        .build()
        .inspect_err(|error| skip(error.to_string()))
        .ok()
}

fn ns(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e9
}

/// The OS clock measures inside and outside of the measurement. The inner time can't be longer, and
/// the outer time can't be shorter.
#[test]
fn a_time_is_between_the_os_clocks_inner_and_outer_times() {
    let Some(time) = by_counter() else { return };
    for _ in 0..10 {
        let outer = Instant::now();
        let start = time.start();
        let inner = Instant::now();
        thread::sleep(Duration::from_millis(30));
        let inner_ns = ns(inner.elapsed());
        let elapsed = time.end(start);
        let outer_ns = ns(outer.elapsed());
        let elapsed_ns = time.to_f64(&elapsed);
        let calibration = time.calibration().expect("by the counter");
        // The OS clock rounds to ns, and the counter may be off by its resolution at each end.
        let slack_ns =
            elapsed_ns * calibration.uncertainty_ppb / 1e9 + 2.0 + 2.0 * calibration.resolution_ns;
        let subtracted_ns = calibration.pair_cost_ns;
        assert!(
            elapsed_ns >= inner_ns - subtracted_ns - slack_ns,
            "{elapsed_ns} inside of it {inner_ns}"
        );
        assert!(
            elapsed_ns <= outer_ns + slack_ns,
            "{elapsed_ns} outside of it {outer_ns}"
        );
    }
}

#[test]
fn a_rate_is_uncertain() {
    let Some(time) = by_counter() else { return };
    let calibration = time.calibration().expect("by the counter");
    assert!(calibration.uncertainty_ppb > 0.0, "{calibration:?}");
}

#[test]
fn each_conversion_counts_as_a_sample() {
    let Some(time) = by_counter() else { return };
    for _ in 0..10 {
        time.to_f64(&time.end(time.start()));
    }
    assert_eq!(time.incidents().samples, 10);
}

/// A thread that sleeps may go on on another CPU.
#[test]
fn no_sample_of_a_trusted_counter_is_backwards() {
    let Some(time) = by_counter() else { return };
    for _ in 0..10 {
        let start = time.start();
        thread::sleep(Duration::from_millis(30));
        time.to_f64(&time.end(start));
    }
    let incidents = time.incidents();
    assert_eq!(incidents.backwards_samples, 0, "{incidents:?}");
}

/// Divisions, each of which needs the result of the division before. They take about 200 ns, but
/// are few instructions. When the first has completed, the processor may already hold all of them,
/// and later instructions, in its pipeline.
#[inline(never)]
fn divisions(mut value: f64) -> f64 {
    macro_rules! four_times {
        ($step:stmt) => {
            $step
            $step
            $step
            $step
        };
    }
    four_times!(four_times!(four_times!(value = 1.5 / value)));
    value
}

fn work() {
    black_box(divisions(black_box(1.25)));
}

fn do_nothing() {}

/// The time between the readings, ns, with work before, between and after them.
fn time_ns(time: &CounterTime, before: fn(), between: fn(), after: fn()) -> f64 {
    before();
    let start = time.start();
    between();
    let elapsed = time.end(start);
    after();
    time.to_f64(&elapsed)
}

/// The time of the work, ns, without anything between two pieces of it.
fn time_alone_ns() -> f64 {
    let start = Instant::now();
    black_box((0..100).fold(1.25, |value, _| divisions(value)));
    ns(start.elapsed()) / 100.0
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_unstable_by(f64::total_cmp);
    samples[samples.len() / 2]
}

/// Symptom without fences: work that is still in progress at the start counts, and work between the
/// readings ends after the second reading.
#[test]
fn only_work_between_the_readings_counts() {
    let Some(time) = by_counter() else { return };
    // By turns: the processor's rate may change, and another program may use a part of it.
    let mut samples = [const { Vec::new() }; 4];
    for _ in 0..500 {
        samples[0].push(time_ns(&time, work, do_nothing, do_nothing));
        samples[1].push(time_ns(&time, do_nothing, work, do_nothing));
        samples[2].push(time_ns(&time, do_nothing, do_nothing, work));
        samples[3].push(time_alone_ns());
    }
    let [before_ns, between_ns, after_ns, alone_ns] = samples.map(median);
    let all =
        format!("{before_ns} before, {between_ns} between, {after_ns} after, {alone_ns} alone");
    assert!(
        between_ns > 0.75 * alone_ns && between_ns < 1.5 * alone_ns,
        "{all}"
    );
    assert!(
        before_ns < 0.25 * alone_ns && after_ns < 0.25 * alone_ns,
        "{all}"
    );
}

/// A benchmark's mean, ns, from criterion's file.
fn mean_ns(directory: &Directory, benchmark: &str) -> f64 {
    let estimates = directory.json(&format!("{benchmark}/new/estimates.json"));
    estimates["mean"]["point_estimate"]
        .as_f64()
        .expect("a number")
}

/// criterion computes the number of iterations from the time of one, which is nearly 0. With a long
/// measurement this number overflows.
const MEASUREMENT: Duration = Duration::from_millis(2);

/// criterion refuses a benchmark if one sample is 0.
#[test]
fn samples_of_no_time_are_not_refused() {
    let directory = Directory::new("no_time");
    let mut criterion = directory.by_counter().measurement_time(MEASUREMENT);
    criterion.bench_function("custom", |bencher| {
        bencher.iter_custom(|_| Elapsed::default())
    });
    assert!(mean_ns(&directory, "custom") < 1e-3);
}

/// criterion's plots must not panic if many samples are equal.
#[test]
fn an_empty_routine_has_a_report() {
    let directory = Directory::new("nothing");
    let mut criterion = directory.by_counter().measurement_time(MEASUREMENT);
    criterion.bench_function("batched", |bencher| {
        bencher.iter_batched(|| (), |()| (), BatchSize::PerIteration);
    });
    assert!(directory.0.join("batched/report/index.html").exists());
}

/// The cost of the readings, which is subtracted, is as large as such a sample.
#[test]
fn an_empty_routine_takes_some_time() {
    let directory = Directory::new("empty");
    let mut criterion = directory.by_counter().measurement_time(MEASUREMENT);
    criterion.bench_function("batched", |bencher| {
        bencher.iter_batched(|| (), |()| (), BatchSize::PerIteration);
    });
    assert!(mean_ns(&directory, "batched") > 0.0);
}

/// Reports by both clocks can be compared.
#[test]
fn times_have_the_format_of_wall_time() {
    let (time, wall) = (CounterTime::new_or_wall_time(), WallTime);
    let (ours, theirs) = (time.formatter(), wall.formatter());
    for ns in [0.04, 7.0, 2_000.0, 5e6, 3e9] {
        assert_eq!(ours.format_value(ns), theirs.format_value(ns));
    }
    assert_eq!(ours.format_value(2_000.0).trim(), "2.0000 \u{b5}s");
}

#[test]
fn a_throughput_is_in_bytes_a_second() {
    let time = CounterTime::new_or_wall_time();
    let bytes = Throughput::Bytes(1 << 20);
    let text = time.formatter().format_throughput(&bytes, 2_000.0);
    assert_eq!(text.trim(), "488.28 GiB/s");
}

#[test]
fn times_for_machines_are_nanoseconds() {
    let time = CounterTime::new_or_wall_time();
    let mut values = [0.5, 2.5e9];
    assert_eq!(time.formatter().scale_for_machines(&mut values), "ns");
    assert_eq!(values, [0.5, 2.5e9]);
}

/// criterion refuses a sample of 0, and divides by it.
#[test]
fn the_time_of_nothing_is_an_attosecond() {
    for time in [
        Some(CounterTime::builder().quiet().build_or_wall_time()),
        by_counter(),
    ] {
        let Some(time) = time else { return };
        assert_eq!(time.to_f64(&time.zero()), 1e-9);
    }
}

#[test]
fn criterion_adds_samples_as_programs_do() {
    let time = CounterTime::builder().quiet().build_or_wall_time();
    let [first, second] = [3, 5].map(|us| Elapsed::from(Duration::from_micros(us)));
    assert_eq!(time.add(&first, &second), first + second);
}

#[test]
fn a_clone_measures_on_another_thread_by_the_same_clock() {
    let Some(time) = by_counter() else { return };
    let elsewhere = time.clone();
    let sample = thread::spawn(move || elsewhere.end(elsewhere.start()))
        .join()
        .expect("a thread");
    assert!(time.to_f64(&sample) > 0.0);
    assert_eq!(time.clone().incidents().samples, 1);
}
