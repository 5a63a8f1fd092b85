//! tango on the routines A and B: `cargo bench -p tickline-benches --bench harness_tango -- compare
//! --strip-baseline 'a/**' --strip-candidate 'b/**' -t 1`.
#![allow(missing_docs, unreachable_pub, clippy::all, reason = "what the macros of the harness make")]

#[path = "../../../examples/known_delays/delays.rs"]
#[allow(dead_code, reason = "another program needs the rest")]
mod delays;
mod routine;

use routine::multiplications;
use tango_bench::{IntoBenchmarks, benchmark_fn, tango_benchmarks};

fn benchmarks() -> impl IntoBenchmarks {
    [
        benchmark_fn("a/routine", |bencher| bencher.iter(routine::a(multiplications()))),
        benchmark_fn("b/routine", |bencher| bencher.iter(routine::b(multiplications()))),
    ]
}

tango_benchmarks!(benchmarks());
