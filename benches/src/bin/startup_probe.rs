//! The child of `startup`: prints the first call, the time until fast and the slowest call on the way, us.
#![expect(clippy::print_stdout, reason = "a program that prints figures")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use tickline::{Clock, State};

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn main() {
    black_box(Instant::now()); // the loader's work for the vDSO is not ours
    let start = Instant::now();
    black_box(tickline::now_ns());
    let first = start.elapsed();
    let (mut slowest, mut last, mut calls) = (Duration::ZERO, Instant::now(), 0);
    let fast = loop {
        black_box(tickline::now_ns());
        let now = Instant::now();
        slowest = slowest.max(now - last);
        // A status takes a system call, so it is asked now and then only.
        calls += 1_u32;
        if calls.trailing_zeros() >= 4 && Clock::global().status().state != State::Calibrating {
            break start.elapsed();
        }
        last = Instant::now();
        assert!(start.elapsed() < Duration::from_secs(10), "never fast");
    };
    println!("{} {} {}", micros(first), micros(fast), micros(slowest));
}
