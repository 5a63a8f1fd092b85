//! The same benchmarks by `WallTime` and by `CounterTime`, one after the other.
//!
//! `cargo bench -p tickline-criterion`; reports are in `target/criterion/report/index.html`. The
//! clocks differ for routines of some ns with a setup for each iteration. They agree for long
//! routines, and for those that run in a loop.

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::hint::black_box;
use std::sync::mpsc;

use criterion::measurement::{Measurement, WallTime};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use tickline_criterion::CounterTime;

fn benches(clock: &str, measurement: impl Measurement) {
    let mut criterion = Criterion::default().with_measurement(measurement).configure_from_args();
    let mut group = criterion.benchmark_group(clock);
    // Measures nothing, so the result is the cost of the clock.
    group.bench_function("empty", |bencher| {
        bencher.iter_batched(|| (), |()| (), BatchSize::PerIteration);
    });
    for length in [64, 1 << 16] {
        let bytes = vec![7_u8; length];
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function(BenchmarkId::new("hash", length), |bencher| {
            let hash = |mut hasher: DefaultHasher| {
                hasher.write(black_box(&bytes));
                black_box(hasher.finish())
            };
            bencher.iter_batched(DefaultHasher::new, hash, BatchSize::PerIteration);
        });
    }
    group.throughput(Throughput::Elements(1));
    group.bench_function("allocation of 64 KiB, zeroed", |bencher| {
        bencher.iter_batched(|| 1 << 16, |length| black_box(vec![0_u8; length]), BatchSize::PerIteration);
    });
    group.bench_function("send and receive, in a loop", |bencher| {
        let (sender, receiver) = mpsc::channel::<u64>();
        bencher.iter(|| {
            let sent = sender.send(black_box(7)).is_ok();
            (sent, receiver.recv())
        });
    });
    group.finish();
}

fn main() {
    benches("WallTime", WallTime);
    benches("CounterTime", CounterTime::or_wall_time());
    Criterion::default().configure_from_args().final_summary();
}
