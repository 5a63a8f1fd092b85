//! A child of `startup`, which makes the first readings of the clock that the argument names. A
//! clock that runs code before `main` has a program of its own.

mod probe;
mod probe_times;

use std::hint::black_box;

use tickline::{Clock, ClockState};
use tickline_observe::monotonic_ns;

use probe::probe;

/// Whether the counter serves; `None` while that is undecided. A status takes longer than a
/// reading, so only every 16th call reads it.
fn tickline_serves(calls: u32) -> Option<bool> {
    if !calls.is_multiple_of(16) {
        return None;
    }
    let state = Clock::global().status().state;
    (state != ClockState::Calibrating).then_some(state == ClockState::Fast)
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("tickline") => probe(|| _ = black_box(tickline::now_ns()), tickline_serves),
        Some("libc") => probe(|| _ = black_box(monotonic_ns()), |_| Some(false)),
        Some("std") => probe(|| _ = black_box(std::time::Instant::now()), |_| Some(false)),
        // quanta does not report whether it falls back to the OS clock.
        Some("quanta") => probe(|| _ = black_box(quanta::Instant::now()), |_| Some(true)),
        Some("coarsetime") => probe(
            || _ = black_box(coarsetime::Instant::now()),
            |_| Some(false),
        ),
        other => panic!("{other:?} is no clock"),
    }
}
