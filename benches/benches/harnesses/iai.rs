//! iai-callgrind on the routines A and B: `cargo bench -p tickline-benches --bench harness_iai`. It
//! needs valgrind and `cargo install iai-callgrind-runner --version 0.16.1`.
#![allow(missing_docs, unreachable_pub, clippy::all, reason = "what the macros of the harness make")]

#[path = "../../../examples/known_delays/delays.rs"]
#[allow(dead_code, reason = "another program needs the rest")]
mod delays;
mod routine;

use std::hint::black_box;

use iai_callgrind::{LibraryBenchmarkConfig, library_benchmark, library_benchmark_group, main};
use routine::{VARIABLE, multiplications};

#[library_benchmark]
#[bench::routine(multiplications())]
fn a(count: u32) -> u64 {
    black_box(routine::call_a(count))
}

#[library_benchmark]
#[bench::routine(multiplications())]
fn b(count: u32) -> u64 {
    black_box(routine::call_b(count))
}

library_benchmark_group!(name = harness; benchmarks = a, b);
main!(
    config = LibraryBenchmarkConfig::default().pass_through_env(VARIABLE);
    library_benchmark_groups = harness
);
