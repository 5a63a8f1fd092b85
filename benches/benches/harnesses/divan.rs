//! divan on the routines A and B: `DIVAN_TIMER=tsc cargo bench -p tickline-benches --bench
//! harness_divan`.

#[path = "../../../examples/known_delays/delays.rs"]
#[allow(dead_code, reason = "another program needs the rest")]
mod delays;
mod routine;

use divan::Bencher;
use routine::multiplications;

fn main() {
    divan::main();
}

#[divan::bench]
fn routine_a(bencher: Bencher) {
    bencher.bench_local(routine::a(multiplications()));
}

#[divan::bench]
fn routine_b(bencher: Bencher) {
    bencher.bench_local(routine::b(multiplications()));
}
