//! Compares tickline's times with kernel traces, by a mark in ftrace's buffer.
//!
//! `cargo run --release --example kernel_trace`
//!
//! Its output has: "a trace shows", "ftrace", "readings come from".
//!
//! A kernel trace with the clock `mono` shows `CLOCK_MONOTONIC`, and so does `tickline::now_ns`.
//! Choose this clock when you record a trace:
//!
//! | tool | setting |
//! |---|---|
//! | ftrace, trace-cmd | `echo mono > /sys/kernel/tracing/trace_clock`; `trace-cmd record -C mono` |
//! | perf | `perf record -k CLOCK_MONOTONIC`; `perf script --ns` |
//! | bpftrace, BPF | `nsecs`, `bpf_ktime_get_ns()` use it already |
//!
//! This program changes no setting. If the clock is already `mono`, and the process may write
//! marks, the program makes its mark. Otherwise it prints the reason.
#![expect(clippy::print_stdout, reason = "an example that prints its results")]

use std::fs;
use std::process;
use std::thread;
use std::time::Duration;

use tickline::Clock;

const FOLDER: &str = "/sys/kernel/tracing";

/// A time in the format of traces: seconds and microseconds.
fn as_in_traces(ns: u64) -> String {
    format!("{}.{:06}", ns / 1_000_000_000, ns % 1_000_000_000 / 1_000)
}

/// The time, us, of the line with `mark` in ftrace's output:
/// `name-id [cpu] flags 1234.567890: tracing_mark_write: mark`.
fn stamp_us(trace: &str, mark: &str) -> Option<u64> {
    let line = trace.lines().find(|line| line.ends_with(mark))?;
    let (before, _) = line.split_once(": tracing_mark_write")?;
    let (seconds, micros) = before.split_whitespace().last()?.split_once('.')?;
    Some(seconds.parse::<u64>().ok()? * 1_000_000 + micros.parse::<u64>().ok()?)
}

/// Makes a mark between two readings. Returns both readings and the kernel's time of the mark, us.
fn mark() -> Result<[u64; 3], String> {
    let read = |name: &str| {
        fs::read_to_string(format!("{FOLDER}/{name}")).map_err(|error| format!("{name}: {error}"))
    };
    let clock = read("trace_clock")?;
    if !clock.contains("[mono]") {
        return Err(format!("trace_clock is not mono: {}", clock.trim()));
    }
    let mark = format!("tickline {}", process::id());
    let before_ns = tickline::now_ordered_ns();
    fs::write(format!("{FOLDER}/trace_marker"), &mark)
        .map_err(|error| format!("trace_marker: {error}"))?;
    let after_ns = tickline::now_ordered_ns();
    let stamp_us = stamp_us(&read("trace")?, &mark).ok_or("the mark is not in the trace")?;
    // ftrace rounds to the nearest microsecond.
    Ok([before_ns / 1_000, stamp_us, after_ns.div_ceil(1_000)])
}

fn main() -> Result<(), tickline::Error> {
    let _thread = tickline::start()?;
    thread::sleep(Duration::from_millis(10)); // The first line is published after about 0.2 ms.
    let ns = tickline::now_ns();
    println!(
        "what happens at {ns} ns, a trace shows at {}",
        as_in_traces(ns)
    );
    match mark() {
        Ok([before, stamp, after]) => {
            println!(
                "ftrace stamped a mark at {stamp} us, our readings around it are {before} and {after}"
            );
        }
        Err(why) => println!("no mark in ftrace's buffer: {why}"),
    }
    println!("{}", Clock::global().status().state);
    Ok(())
}
