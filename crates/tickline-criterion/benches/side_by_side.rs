//! The same benchmarks by `WallTime` and by `CounterTime`, in turns.
//!
//! `cargo bench -p tickline-criterion`; reports are in `target/criterion/report/index.html`. Each
//! group has both clocks in one plot (`target/criterion/empty/report/index.html`), and so has each
//! of its parameters (`hash/64 bytes/report/index.html`). The clocks differ for routines of some ns
//! with a setup for each iteration. They agree for long routines, and for those that run in a loop.

mod clocks;

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::hint::black_box;
use std::sync::mpsc;

use criterion::{BatchSize, Bencher, BenchmarkGroup, BenchmarkId, Criterion, Throughput};
use tickline_criterion::CounterTime;

use clocks::{Clocks, Which};

/// A group of benchmarks, each by both clocks.
struct Group<'a> {
    group: BenchmarkGroup<'a, Clocks>,
    clocks: &'a Clocks,
}

impl<'a> Group<'a> {
    fn new(criterion: &'a mut Criterion<Clocks>, clocks: &'a Clocks, name: &str) -> Self {
        Self { group: criterion.benchmark_group(name), clocks }
    }

    fn throughput(&mut self, throughput: Throughput) -> &mut Self {
        self.group.throughput(throughput);
        self
    }

    fn bench(&mut self, parameter: &str, mut routine: impl FnMut(&mut Bencher<'_, Clocks>)) {
        for which in Which::BOTH {
            let clock = self.clocks.choose(which);
            self.group.bench_function(BenchmarkId::new(clock, parameter), &mut routine);
        }
    }
}

/// Measures nothing, so the result is the cost of the clock.
fn empty(mut group: Group<'_>) {
    group.bench("PerIteration", |bencher| {
        bencher.iter_batched(|| (), |()| (), BatchSize::PerIteration);
    });
}

fn hash(mut group: Group<'_>) {
    for length in [64, 1 << 16] {
        let bytes = vec![7_u8; length];
        group.throughput(Throughput::Bytes(bytes.len() as u64)).bench(
            &format!("{length} bytes"),
            |bencher| {
                bencher.iter_batched(
                    DefaultHasher::new,
                    |mut hasher| {
                        hasher.write(black_box(&bytes));
                        black_box(hasher.finish())
                    },
                    BatchSize::PerIteration,
                );
            },
        );
    }
}

fn allocation(mut group: Group<'_>) {
    group.throughput(Throughput::Elements(1)).bench("64 bytes", |bencher| {
        bencher.iter_batched(
            || 64,
            |length| black_box(Vec::<u8>::with_capacity(length)),
            BatchSize::PerIteration,
        );
    });
    group.throughput(Throughput::BytesDecimal(1 << 16)).bench("64 KiB, zeroed", |bencher| {
        bencher.iter_batched(|| 1 << 16, |length| black_box(vec![0_u8; length]), BatchSize::PerIteration);
    });
}

fn channel(mut group: Group<'_>) {
    let (sender, receiver) = mpsc::channel::<u64>();
    group.throughput(Throughput::ElementsAndBytes { elements: 1, bytes: 8 }).bench("send", |bencher| {
        bencher.iter_batched(
            || while receiver.try_recv().is_ok() {},
            |()| black_box(sender.send(black_box(7)).is_ok()),
            BatchSize::PerIteration,
        );
    });
    group.throughput(Throughput::Bits(64)).bench("send and receive, in a loop", |bencher| {
        bencher.iter(|| {
            let sent = sender.send(black_box(7)).is_ok();
            (sent, receiver.recv())
        });
    });
}

fn main() {
    let clocks = Clocks::new(CounterTime::or_wall_time());
    let mut criterion = Criterion::default().with_measurement(clocks.clone()).configure_from_args();
    empty(Group::new(&mut criterion, &clocks, "empty"));
    hash(Group::new(&mut criterion, &clocks, "hash"));
    allocation(Group::new(&mut criterion, &clocks, "allocation"));
    channel(Group::new(&mut criterion, &clocks, "channel"));
    criterion.final_summary();
    // Both clones of the clock are dropped here. The last one reports incidents, if there were any.
}
