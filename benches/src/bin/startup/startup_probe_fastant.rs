//! A child of `startup`: the first readings of fastant, which calibrates before `main`.

mod probe;
mod probe_times;

use std::hint::black_box;

fn main() {
    let read = || {
        let anchor = fastant::Anchor::new();
        black_box(fastant::Instant::now().as_unix_nanos(&anchor));
    };
    probe::probe(read, |_| Some(fastant::is_tsc_available()));
}
