//! Routines for measurements of the verdicts: `cargo xtask verdicts` copies this program, and runs
//! the copies against each other. Three of the six routines allocate. A copy whose name ends in
//! `-103` does 3 % more work. `pair/N` compares two closures of equal text.

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::hint::black_box;
use std::process::ExitCode;

use criterion::Criterion;
use tickline_criterion::{BenchPairs, CounterTime, compare, group, run};

/// The steps of a routine: 100, or the number at the end of this program's name.
fn steps() -> u64 {
    let program = std::env::current_exe().unwrap_or_default();
    let name = program.file_stem().unwrap_or_default().to_string_lossy();
    let number = name
        .rsplit_once('-')
        .and_then(|(_, number)| number.parse().ok());
    // The hash that cargo puts at the end of a program's name may be a number.
    number.filter(|steps| *steps < 1_000).unwrap_or(100)
}

/// Multiplications in registers.
fn chain(steps: u64) -> u64 {
    (0..steps).fold(black_box(3_u64), |value, _| {
        black_box(value.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 1)
    })
}

fn hash(steps: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    (0..steps).for_each(|step| hasher.write_u64(step));
    hasher.finish()
}

/// Loads, each of which needs the result of the load before.
fn walk(table: &[u16], steps: u64) -> u16 {
    (0..steps).fold(0, |place, _| table[usize::from(place)])
}

fn boxes(steps: u64) -> usize {
    let boxed = |step| Box::new([step; 6]);
    (0..steps)
        .filter(|step| black_box(boxed(*step))[5] > 7)
        .count()
}

fn texts(steps: u64) -> usize {
    let text = |step: u64| format!("{step}.{}", step + 1);
    (0..steps).map(|step| black_box(text(step)).len()).sum()
}

fn lists(steps: u64) -> usize {
    let list = |step: u64| -> Vec<Vec<u64>> { (0..3).map(|part| vec![step; 2 + part]).collect() };
    (0..steps).map(|step| black_box(list(step)).len()).sum()
}

fn six(criterion: &mut Criterion<CounterTime>) {
    let steps = steps();
    let table: Vec<u16> = (0..1_024).map(|place| (place * 5 + 1) % 1_024).collect();
    criterion.bench_pairs("chain", |bencher| bencher.iter(|| chain(black_box(steps))));
    criterion.bench_pairs("hash", |bencher| bencher.iter(|| hash(black_box(steps))));
    criterion.bench_pairs("walk", |bencher| {
        bencher.iter(|| walk(&table, black_box(steps)));
    });
    criterion.bench_pairs("boxes", |bencher| bencher.iter(|| boxes(black_box(steps))));
    criterion.bench_pairs("texts", |bencher| bencher.iter(|| texts(black_box(steps))));
    criterion.bench_pairs("lists", |bencher| bencher.iter(|| lists(black_box(steps))));
}

/// Closures of equal text. A function would give all pairs the same code.
macro_rules! pairs {
    ($criterion:ident: $($number:literal)*) => { $(
        let parts = black_box(">=1.2.3, <2.0.0");
        compare(
            $criterion,
            concat!("pair/", $number),
            || black_box(parts).split(',').map(|part| part.trim().to_owned()).collect::<Vec<_>>(),
            || black_box(parts).split(',').map(|part| part.trim().to_owned()).collect::<Vec<_>>(),
        );
    )* };
}

/// `PAIRS` of `cargo xtask verdicts` has their number.
fn pairs(criterion: &mut Criterion<CounterTime>) {
    pairs!(criterion: 0 1 2 3 4 5 6 7);
}

/// A function that no routine calls, and that moves their code.
#[cfg(tickline_unrelated)]
#[inline(never)]
fn unrelated(numbers: &mut [u64]) -> String {
    numbers.sort_by_key(|number| std::cmp::Reverse(*number));
    numbers.iter().map(|number| format!("{number:x}")).collect()
}

fn main() -> ExitCode {
    #[cfg(tickline_unrelated)]
    black_box(unrelated(&mut [3, 1, 2]));
    run(|| group(&[six, pairs]))
}
