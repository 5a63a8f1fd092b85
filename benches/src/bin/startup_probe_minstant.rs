//! A child of `startup`: the first readings of minstant, which calibrates before `main`.

use std::hint::black_box;

#[path = "../probe.rs"]
mod probe;

use probe::{Serves, probe};

fn main() {
    let serves = if minstant::is_tsc_available() { Serves::AtOnce } else { Serves::Never };
    probe(
        || {
            let anchor = minstant::Anchor::new();
            black_box(minstant::Instant::now().as_unix_nanos(&anchor));
        },
        serves,
    );
}
