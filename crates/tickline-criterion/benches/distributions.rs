//! Distributions of a hash, an allocation and a sort, and a comparison of two ways to add numbers.
//!
//! Run it by `cargo bench -p tickline-criterion --bench distributions`. Each benchmark's page (such
//! as `target/criterion/hash/64/report/index.html`) has its distribution at the end.

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::hint::black_box;
use std::process::ExitCode;

use criterion::{BatchSize, BenchmarkId, Criterion};
use tickline_criterion::{BenchPairs, CounterTime, compare, group, run};

fn hash(criterion: &mut Criterion<CounterTime>) {
    let mut group = criterion.benchmark_group("hash");
    for length in [64, 4_096] {
        let id = BenchmarkId::from_parameter(length);
        group.bench_pairs_with_input(id, &vec![7_u8; length], |bencher, bytes| {
            bencher.iter(|| {
                let mut hasher = DefaultHasher::new();
                hasher.write(black_box(bytes));
                hasher.finish()
            });
        });
    }
    group.finish();
}

/// Most pushes are quick, but a few move all elements. The mean shows neither kind.
fn push(criterion: &mut Criterion<CounterTime>) {
    let mut vec = Vec::new();
    criterion.bench_pairs("push", |bencher| {
        bencher.iter(|| {
            if vec.len() == 4_096 {
                vec = Vec::new();
            }
            vec.push(black_box(7_u64));
        });
    });
}

fn sort(criterion: &mut Criterion<CounterTime>) {
    criterion.bench_pairs("sort", |bencher| {
        let input: Vec<u32> = (0..100).map(|number| number * 7_919 % 101).collect();
        bencher.iter_batched_ref(
            || input.clone(),
            |vec| vec.sort_unstable(),
            BatchSize::SmallInput,
        );
    });
}

fn sums(criterion: &mut Criterion<CounterTime>) {
    let values: Vec<u64> = (0..64).collect();
    compare(
        criterion,
        "sum, loop against iterator",
        || {
            let mut sum = 0_u64;
            for value in black_box(&values) {
                sum = black_box(sum.wrapping_add(*value));
            }
            sum
        },
        || black_box(&values).iter().sum::<u64>(),
    );
}

fn main() -> ExitCode {
    run(|| group(&[hash, push, sort, sums]))
}
