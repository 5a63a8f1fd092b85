//! A child of `startup`: the first readings of fastant, which calibrates before `main`.

use std::hint::black_box;

#[path = "../probe.rs"]
mod probe;

use probe::{Serves, probe};

fn main() {
    let serves = if fastant::is_tsc_available() { Serves::AtOnce } else { Serves::Never };
    probe(
        || {
            let anchor = fastant::Anchor::new();
            black_box(fastant::Instant::now().as_unix_nanos(&anchor));
        },
        serves,
    );
}
