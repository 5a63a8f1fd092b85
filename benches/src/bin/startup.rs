//! Start-up: the first call, the time until the clock is fast under steady use, the slowest call on the way, and what a
//! program that only says hello takes longer with tickline than with std.
//!
//! Each figure is from fresh processes: the program starts itself again.
//!
//! `cargo run --release -p tickline-benches --bin startup [-- --runs 101]`
#![expect(clippy::print_stdout, reason = "a program that prints a table")]

use std::hint::black_box;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tickline::{Clock, State};
use tickline_benches::args;

fn main() {
    match args::text("as").as_deref() {
        Some("probe") => probe(),
        Some("std") => {
            println!("hello after {:?}", Instant::now().elapsed());
        }
        Some("tickline") => {
            println!("hello after {:?}", tickline::Instant::now().elapsed());
        }
        _ => parent(),
    }
}

fn own(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program's path"));
    command.args(["--as", role]);
    command
}

fn parent() {
    let runs = usize::try_from(args::number("runs", 101)).unwrap_or(101);
    let mut figures: [Vec<f64>; 3] = Default::default();
    for _ in 0..runs {
        let output = own("probe").output().expect("a child");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let values: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        assert_eq!(values.len(), figures.len(), "the child said: {text}");
        for (figure, value) in figures.iter_mut().zip(values) {
            figure.push(value);
        }
    }
    println!("{runs} fresh processes, us: median (largest)");
    for (name, figure) in ["first call", "until fast", "slowest call on the way"].iter().zip(&mut figures) {
        println!("  {name:<24} {}", summary(figure));
    }
    // In pairs, so that the machine's moods hit both alike.
    let (mut with_std, mut with_tickline, mut extra) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..runs {
        let (a, b) = (process_us("std"), process_us("tickline"));
        with_std.push(a);
        with_tickline.push(b);
        extra.push(b - a);
    }
    println!("  hello with std           {}", summary(&mut with_std));
    println!("  hello with tickline      {}", summary(&mut with_tickline));
    println!("  difference in pairs      {}", summary(&mut extra));
}

fn process_us(role: &str) -> f64 {
    let start = Instant::now();
    let status = own(role).stdout(Stdio::null()).status().expect("a child");
    assert!(status.success());
    micros(start.elapsed())
}

fn summary(figure: &mut [f64]) -> String {
    figure.sort_by(f64::total_cmp);
    format!("{:>9.2} ({:.2})", figure[figure.len() / 2], figure[figure.len() - 1])
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn probe() {
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
