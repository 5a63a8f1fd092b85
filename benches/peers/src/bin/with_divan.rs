//! The routines under divan.

use std::hint::black_box;

use divan::Bencher;
use peers::steps;

#[divan::bench]
fn chain(bencher: Bencher) {
    let steps = steps();
    bencher.bench_local(|| peers::chain(black_box(steps)));
}

#[divan::bench]
fn hash(bencher: Bencher) {
    let steps = steps();
    bencher.bench_local(|| peers::hash(black_box(steps)));
}

#[divan::bench]
fn walk(bencher: Bencher) {
    let table = peers::table();
    let steps = steps();
    bencher.bench_local(|| peers::walk(&table, black_box(steps)));
}

#[divan::bench]
fn boxes(bencher: Bencher) {
    let steps = steps();
    bencher.bench_local(|| peers::boxes(black_box(steps)));
}

#[divan::bench]
fn texts(bencher: Bencher) {
    let steps = steps();
    bencher.bench_local(|| peers::texts(black_box(steps)));
}

#[divan::bench]
fn lists(bencher: Bencher) {
    let steps = steps();
    bencher.bench_local(|| peers::lists(black_box(steps)));
}

fn main() {
    divan::main();
}
