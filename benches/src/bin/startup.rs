//! Start-up: the first call, the time until the clock is fast under steady use, the slowest call on the way, and what a
//! program that only says hello takes longer with tickline than with std.
//!
//! Each figure is from fresh processes: `startup_probe`, `hello_std` and `hello_tickline` beside this program.
//!
//! `cargo build --release -p tickline-benches && target/release/startup [--runs 101]`
#![expect(clippy::print_stdout, reason = "a program that prints a table")]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tickline_benches::args;

/// One of the programs beside this one. They do not use this package's library: its peers run code before `main`.
fn sibling(name: &str) -> Command {
    let own = std::env::current_exe().expect("this program's path");
    Command::new(own.with_file_name(name))
}

fn main() {
    let runs = usize::try_from(args::number("runs", 101)).unwrap_or(101);
    let mut figures: [Vec<f64>; 3] = Default::default();
    for _ in 0..runs {
        let output = sibling("startup_probe").output().expect("a child");
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
        let (a, b) = (process_us("hello_std"), process_us("hello_tickline"));
        with_std.push(a);
        with_tickline.push(b);
        extra.push(b - a);
    }
    println!("  hello with std           {}", summary(&mut with_std));
    println!("  hello with tickline      {}", summary(&mut with_tickline));
    println!("  difference in pairs      {}", summary(&mut extra));
}

fn process_us(name: &str) -> f64 {
    let start = Instant::now();
    let status = sibling(name).stdout(Stdio::null()).status().expect("a child");
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
