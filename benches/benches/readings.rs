//! `cargo bench`: the cost of each reading, by criterion. The program `ratios` of this package
//! measures ratios in interleaved rounds.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use tickline::Clock;
use tickline_benches::clocks::subjects;

/// One call after the other.
fn tight(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("tight");
    for subject in subjects() {
        group.bench_function(subject.name, |bencher| bencher.iter_custom(|calls| run(subject.tight, calls)));
    }
    group.finish();
}

/// Each call waits for the result of the one before.
fn awaited(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("awaited");
    for subject in subjects() {
        group
            .bench_function(subject.name, |bencher| bencher.iter_custom(|calls| run(subject.awaited, calls)));
    }
    group.finish();
}

/// Another thread makes the same calls, and the clock's thread publishes a line every millisecond.
fn two_threads(criterion: &mut Criterion) {
    let guard = Clock::builder()
        .interval(Duration::from_millis(1))
        .start_global()
        .expect("the global clock's thread");
    let mut group = criterion.benchmark_group("two threads");
    for subject in subjects() {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // ORDERING: Relaxed, a flag on its own.
                while !stop.load(Ordering::Relaxed) {
                    (subject.tight)(1_000);
                }
            });
            group.bench_function(subject.name, |bencher| {
                bencher.iter_custom(|calls| run(subject.tight, calls))
            });
            // ORDERING: Relaxed, as above.
            stop.store(true, Ordering::Relaxed);
        });
    }
    group.finish();
    drop(guard);
}

/// Arithmetic on readings.
fn arithmetic(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("arithmetic");
    let start = tickline::Instant::now();
    group.bench_function("tickline Instant::elapsed", |bencher| bencher.iter(|| black_box(start).elapsed()));
    let std_start = Instant::now();
    group.bench_function("std Instant::elapsed", |bencher| bencher.iter(|| black_box(std_start).elapsed()));
    let quanta_start = quanta::Instant::now();
    group.bench_function("quanta Instant::elapsed", |bencher| {
        bencher.iter(|| black_box(quanta_start).elapsed())
    });
    let minstant_start = minstant::Instant::now();
    group.bench_function("minstant Instant::elapsed", |bencher| {
        bencher.iter(|| black_box(minstant_start).elapsed())
    });
    let fastant_start = fastant::Instant::now();
    group.bench_function("fastant Instant::elapsed", |bencher| {
        bencher.iter(|| black_box(fastant_start).elapsed())
    });
    group.finish();
}

fn run(calls: fn(u32), count: u64) -> Duration {
    let start = Instant::now();
    let mut left = count;
    while left > 0 {
        let now = u32::try_from(left).unwrap_or(u32::MAX);
        calls(now);
        left -= u64::from(now);
    }
    start.elapsed()
}

criterion_group!(benches, tight, awaited, arithmetic, two_threads);
criterion_main!(benches);
