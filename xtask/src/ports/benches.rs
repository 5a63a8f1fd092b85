//! Published benchmarks of criterion's, over `tickline-criterion`.

use std::path::Path;

use super::{Failure, Result, cargo, folder, host, output, over_the_network, root, target};

/// A published crate with benchmarks for criterion 0.8.
pub(super) struct Bench {
    pub(super) name: &'static str,
    pub(super) version: &'static str,
    edits: &'static [(&'static str, &'static str)],
    /// Which of its benchmarks run, and how many there are: enough for each changed line.
    filter: &'static str,
    benchmarks: usize,
}

pub(super) const BENCHES: [Bench; 2] = [
    Bench {
        name: "itoa",
        version: "1.0.18",
        edits: &[
            (
                "use criterion::{criterion_group, criterion_main, Criterion};",
                "use {criterion::{criterion_group, criterion_main, Criterion}, tickline_criterion::{BenchPairs, CounterTime}};",
            ),
            (
                "fn do_bench(c: &mut Criterion, group_name: &str, int: impl itoa::Integer + Display) {",
                "fn do_bench(c: &mut Criterion<CounterTime>, group_name: &str, int: impl itoa::Integer + Display) {",
            ),
            ("group.bench_function(\"itoa\", |b| {", "group.bench_pairs(\"itoa\", |b| {"),
            ("group.bench_function(\"std::fmt\", |b| {", "group.bench_pairs(\"std::fmt\", |b| {"),
            ("fn bench(c: &mut Criterion) {", "fn bench(c: &mut Criterion<CounterTime>) {"),
            (
                "criterion_group!(benches, bench);",
                "criterion_group!(name = benches; config = Criterion::default().with_measurement(CounterTime::or_wall_time()); targets = bench);",
            ),
        ],
        filter: "",
        benchmarks: 14,
    },
    Bench {
        name: "crc32fast",
        version: "1.5.4",
        edits: &[
            (
                "use criterion::{criterion_group, criterion_main, BenchmarkId, Criterion, Throughput};",
                "use {criterion::{criterion_group, criterion_main, BenchmarkId, Criterion, Throughput}, tickline_criterion::{BenchPairs, CounterTime}};",
            ),
            (
                "fn bench_update(c: &mut Criterion, group_name: &str, sizes: &[usize], hasher_init: Hasher) {",
                "fn bench_update(c: &mut Criterion<CounterTime>, group_name: &str, sizes: &[usize], hasher_init: Hasher) {",
            ),
            ("fn baseline(c: &mut Criterion) {", "fn baseline(c: &mut Criterion<CounterTime>) {"),
            ("fn specialized(c: &mut Criterion) {", "fn specialized(c: &mut Criterion<CounterTime>) {"),
            ("fn combine(c: &mut Criterion) {", "fn combine(c: &mut Criterion<CounterTime>) {"),
            ("fn hash(c: &mut Criterion) {", "fn hash(c: &mut Criterion<CounterTime>) {"),
            (
                "group.bench_with_input(BenchmarkId::from_parameter(size), &bytes, |b, bytes| {",
                "group.bench_pairs_with_input(BenchmarkId::from_parameter(size), &bytes, |b, bytes| {",
            ),
            (
                "group.bench_function(BenchmarkId::from_parameter(bits), |b| {",
                "group.bench_pairs(BenchmarkId::from_parameter(bits), |b| {",
            ),
            (
                "criterion_group!(benches, baseline, specialized, combine, hash);",
                "criterion_group!(name = benches; config = Criterion::default().with_measurement(CounterTime::or_wall_time()); targets = baseline, specialized, combine, hash);",
            ),
        ],
        filter: "^(baseline|combine|hash)",
        benchmarks: 10,
    },
];

/// How long each is measured: that it works is shown here, not how fast it is.
const TIMES: [&str; 5] = ["--noplot", "--warm-up-time", "0.1", "--measurement-time", "0.3"];

/// What `bench_pairs` prints for each benchmark.
const DISTRIBUTION: &str = "pairs:  p50 ";

/// Lays a crate out, ports its benchmarks, and runs them.
pub(super) fn run(bench: &Bench, source: &Path) -> Result<String> {
    let folder = target().join(format!("{}-{}", bench.name, bench.version));
    let path = root().join("crates/tickline-criterion");
    let dependency = format!("\n[dev-dependencies.tickline-criterion]\npath = {path:?}\n");
    let changes = folder::lay(source, &folder, "benches", bench.edits, Some(&dependency))?;
    over_the_network(cargo("fetch --target", &folder)?.arg(host()?))?;
    let mut command = cargo("bench --offline --bench bench", &folder)?;
    command.arg("--target-dir").arg(target().join("build")).args(["--", bench.filter]).args(TIMES);
    let (is_good, text) = output(&mut command)?;
    let lines: Vec<_> = text.lines().filter(|line| line.contains(DISTRIBUTION)).collect();
    for line in &lines {
        println!("{line}");
    }
    if !is_good || lines.len() != bench.benchmarks {
        let why = format!("{} of {} benchmarks have a distribution:\n{text}", lines.len(), bench.benchmarks);
        return Err(Failure::Failed(why));
    }
    Ok(format!("{changes}; {} benchmarks have a distribution", lines.len()))
}
