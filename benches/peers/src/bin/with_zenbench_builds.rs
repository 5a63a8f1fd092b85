//! The routines under zenbench, one closure in a group: a stored run of another build is what they
//! are compared with.

use std::hint::black_box;

use peers::steps;
use zenbench::Suite;

fn six(suite: &mut Suite) {
    let table: &[u16] = peers::table().leak();
    let steps = steps();
    suite.bench_fn("chain", move || peers::chain(black_box(steps)));
    suite.bench_fn("hash", move || peers::hash(black_box(steps)));
    suite.bench_fn("walk", move || peers::walk(table, black_box(steps)));
    suite.bench_fn("boxes", move || peers::boxes(black_box(steps)));
    suite.bench_fn("texts", move || peers::texts(black_box(steps)));
    suite.bench_fn("lists", move || peers::lists(black_box(steps)));
}

zenbench::main!(six);
