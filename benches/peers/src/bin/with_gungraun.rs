//! The routines under gungraun, which counts instructions with valgrind.

use std::hint::black_box;

use gungraun::{library_benchmark, library_benchmark_group, main};
use peers::steps;

#[library_benchmark]
#[bench::steps(steps())]
fn chain(steps: u64) -> u64 {
    black_box(peers::chain(black_box(steps)))
}

#[library_benchmark]
#[bench::steps(steps())]
fn hash(steps: u64) -> u64 {
    black_box(peers::hash(black_box(steps)))
}

#[library_benchmark]
#[bench::steps(peers::table(), steps())]
fn walk(table: Vec<u16>, steps: u64) -> u16 {
    black_box(peers::walk(&table, black_box(steps)))
}

#[library_benchmark]
#[bench::steps(steps())]
fn boxes(steps: u64) -> usize {
    black_box(peers::boxes(black_box(steps)))
}

#[library_benchmark]
#[bench::steps(steps())]
fn texts(steps: u64) -> usize {
    black_box(peers::texts(black_box(steps)))
}

#[library_benchmark]
#[bench::steps(steps())]
fn lists(steps: u64) -> usize {
    black_box(peers::lists(black_box(steps)))
}

library_benchmark_group!(
    name = routines,
    benchmarks = [chain, hash, walk, boxes, texts, lists]
);
main!(library_benchmark_groups = routines);
