//! The same benchmarks by `WallTime` and by `TscTime`, side by side in criterion's reports.
//!
//! `cargo bench -p tickline-criterion`, then `target/criterion/report/index.html`. What takes some ns, or must be set up for each
//! iteration, shows the difference; what takes long shows none.

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::hint::black_box;
use std::sync::mpsc;

use criterion::measurement::Measurement;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
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
        group.bench_function(format!("{clock}, {length} bytes"), |bencher| {
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
    group.bench_function(format!("{clock}, 64 bytes"), |bencher| {
        bencher.iter_batched(
            || 64,
            |length| black_box(Vec::<u8>::with_capacity(length)),
            BatchSize::PerIteration,
        );
    });
    group.throughput(Throughput::BytesDecimal(1 << 16));
    group.bench_function(format!("{clock}, 64 KiB, zeroed"), |bencher| {
        bencher.iter_batched(|| 1 << 16, |length| black_box(vec![0_u8; length]), BatchSize::PerIteration);
    });
    group.finish();
}

fn channel<M: Measurement + 'static>(criterion: &mut Criterion<M>, clock: &str) {
    let mut group = criterion.benchmark_group("channel");
    let (sender, receiver) = mpsc::channel::<u64>();
    group.throughput(Throughput::ElementsAndBytes { elements: 1, bytes: 8 });
    group.bench_function(format!("{clock}, send"), |bencher| {
        bencher.iter_batched(
            || while receiver.try_recv().is_ok() {},
            |()| black_box(sender.send(black_box(7)).is_ok()),
            BatchSize::PerIteration,
        );
    });
    group.throughput(Throughput::Bits(64));
    group.bench_function(format!("{clock}, send and receive, in a loop"), |bencher| {
        bencher.iter(|| {
            let sent = sender.send(black_box(7)).is_ok();
            (sent, receiver.recv())
        });
    });
    group.finish();
}

fn suite<M: Measurement + 'static>(criterion: &mut Criterion<M>, clock: &str) {
    empty(criterion, clock);
    hash(criterion, clock);
    allocation(criterion, clock);
    channel(criterion, clock);
}

fn wall_time(criterion: &mut Criterion) {
    suite(criterion, "WallTime");
}

fn by_counter(criterion: &mut Criterion<TscTime>) {
    suite(criterion, "TscTime");
}

criterion_group!(wall, wall_time);
criterion_group!(
    name = counter;
    config = Criterion::default().with_measurement(TscTime::or_wall_time());
    targets = by_counter
);
criterion_main!(wall, counter);
