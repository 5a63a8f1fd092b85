//! The routines under tango-bench, which runs two programs in turns.

use std::hint::black_box;

use peers::steps;
use tango_bench::{IntoBenchmarks, benchmark_fn, tango_benchmarks};

fn routines() -> impl IntoBenchmarks {
    let steps = steps();
    [
        benchmark_fn("chain", move |bencher| {
            bencher.iter(move || peers::chain(black_box(steps)))
        }),
        benchmark_fn("hash", move |bencher| {
            bencher.iter(move || peers::hash(black_box(steps)))
        }),
        benchmark_fn("walk", move |bencher| {
            let table = peers::table();
            bencher.iter(move || peers::walk(&table, black_box(steps)))
        }),
        benchmark_fn("boxes", move |bencher| {
            bencher.iter(move || peers::boxes(black_box(steps)))
        }),
        benchmark_fn("texts", move |bencher| {
            bencher.iter(move || peers::texts(black_box(steps)))
        }),
        benchmark_fn("lists", move |bencher| {
            bencher.iter(move || peers::lists(black_box(steps)))
        }),
    ]
}

tango_benchmarks!(routines());
