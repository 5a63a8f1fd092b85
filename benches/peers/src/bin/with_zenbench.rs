//! The routines under zenbench: two closures in a group, of which the second does as much work as
//! the program's name says.

use std::hint::black_box;

use peers::steps;
use zenbench::Suite;

/// Closures of equal text: a function would give both the same code.
macro_rules! pair {
    ($suite:ident, $name:literal, $routine:expr) => {
        $suite.group($name, |group| {
            let first = 100;
            let second = steps();
            group.bench("first", move |bencher| {
                bencher.iter(|| $routine(black_box(first)))
            });
            group.bench("second", move |bencher| {
                bencher.iter(|| $routine(black_box(second)))
            });
        });
    };
}

fn six(suite: &mut Suite) {
    let table: &[u16] = peers::table().leak();
    pair!(suite, "chain", peers::chain);
    pair!(suite, "hash", peers::hash);
    pair!(suite, "walk", |steps| peers::walk(table, steps));
    pair!(suite, "boxes", peers::boxes);
    pair!(suite, "texts", peers::texts);
    pair!(suite, "lists", peers::lists);
}

zenbench::main!(six);
