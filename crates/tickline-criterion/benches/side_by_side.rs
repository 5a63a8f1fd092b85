//! The same benchmarks by `WallTime` and by `TscTime`, in turns.
//!
//! `cargo bench -p tickline-criterion`; reports are in `target/criterion/report/index.html`. What takes some ns, and must be set up
//! for each iteration, shows the difference; what takes long, or runs in a loop, shows none.

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::hint::black_box;
use std::sync::mpsc;

use criterion::measurement::Measurement;
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use tickline_criterion::TscTime;

/// Nothing: what is reported is the clock.
fn empty<M: Measurement + 'static>(criterion: &mut Criterion<M>, clock: &str) {
    let mut group = criterion.benchmark_group("empty");
    group.bench_function(clock, |bencher| bencher.iter_batched(|| (), |()| (), BatchSize::PerIteration));
    group.finish();
}

fn hash<M: Measurement + 'static>(criterion: &mut Criterion<M>, clock: &str) {
    let mut group = criterion.benchmark_group("hash");
    for length in [64, 1 << 16] {
        let bytes = vec![7_u8; length];
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function(BenchmarkId::new(clock, format_args!("{length} bytes")), |bencher| {
            bencher.iter_batched(
                DefaultHasher::new,
                |mut hasher| {
                    hasher.write(black_box(&bytes));
                    black_box(hasher.finish())
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

fn allocation<M: Measurement + 'static>(criterion: &mut Criterion<M>, clock: &str) {
    let mut group = criterion.benchmark_group("allocation");
    group.throughput(Throughput::Elements(1));
    group.bench_function(BenchmarkId::new(clock, "64 bytes"), |bencher| {
        bencher.iter_batched(
            || 64,
            |length| black_box(Vec::<u8>::with_capacity(length)),
            BatchSize::PerIteration,
        );
    });
    group.throughput(Throughput::BytesDecimal(1 << 16));
    group.bench_function(BenchmarkId::new(clock, "64 KiB, zeroed"), |bencher| {
        bencher.iter_batched(|| 1 << 16, |length| black_box(vec![0_u8; length]), BatchSize::PerIteration);
    });
    group.finish();
}

fn channel<M: Measurement + 'static>(criterion: &mut Criterion<M>, clock: &str) {
    let mut group = criterion.benchmark_group("channel");
    let (sender, receiver) = mpsc::channel::<u64>();
    group.throughput(Throughput::ElementsAndBytes { elements: 1, bytes: 8 });
    group.bench_function(BenchmarkId::new(clock, "send"), |bencher| {
        bencher.iter_batched(
            || while receiver.try_recv().is_ok() {},
            |()| black_box(sender.send(black_box(7)).is_ok()),
            BatchSize::PerIteration,
        );
    });
    group.throughput(Throughput::Bits(64));
    group.bench_function(BenchmarkId::new(clock, "send and receive, in a loop"), |bencher| {
        bencher.iter(|| {
            let sent = sender.send(black_box(7)).is_ok();
            (sent, receiver.recv())
        });
    });
    group.finish();
}

fn main() {
    let mut wall = Criterion::default().configure_from_args();
    let mut counter = Criterion::default().with_measurement(TscTime::or_wall_time()).configure_from_args();
    empty(&mut wall, "WallTime");
    empty(&mut counter, "TscTime");
    hash(&mut wall, "WallTime");
    hash(&mut counter, "TscTime");
    allocation(&mut wall, "WallTime");
    allocation(&mut counter, "TscTime");
    channel(&mut wall, "WallTime");
    channel(&mut counter, "TscTime");
    drop(counter); // says what went wrong, if anything did
    wall.final_summary();
}
