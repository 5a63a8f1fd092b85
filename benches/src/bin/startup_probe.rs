//! A child of `startup`: the first readings of the clock that the argument names. Those with code
//! before `main` have programs of their own.

use std::hint::black_box;
use tickline::{Clock, State};

#[path = "../probe.rs"]
mod probe;

use probe::{Serves, probe};

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("tickline") => probe(
            || _ = black_box(tickline::now_ns()),
            Serves::Later(
                || _ = black_box(tickline::now_ns()),
                || match Clock::global().status().state {
                    State::Calibrating => None,
                    state => Some(state == State::Fast),
                },
            ),
        ),
        Some("libc") => probe(|| _ = black_box(probe::monotonic_ns()), Serves::Never),
        Some("std") => probe(|| _ = black_box(std::time::Instant::now()), Serves::Never),
        Some("quanta") => probe(|| _ = black_box(quanta::Instant::now()), Serves::AtOnce),
        Some("coarsetime") => probe(|| _ = black_box(coarsetime::Instant::now()), Serves::Never),
        other => panic!("{other:?} is no clock"),
    }
}
