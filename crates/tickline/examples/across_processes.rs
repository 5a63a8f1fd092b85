//! One timescale for all processes: a process sends a time to another process, and that process
//! compares the time with its own reading.
//!
//! `cargo run --release --example across_processes`
//!
//! Its output has: "there", "back", "0 of them backward", "readings come from".
//!
//! All times are `CLOCK_MONOTONIC` of the time namespace, from the counter or from the OS clock.
//! The program can therefore measure each direction of a round trip. Between processes, and between
//! threads, only `now_ordered_ns` keeps the order. Between processes a later time may be smaller by
//! the bounds of the two clocks, because each process has calibrated its own clock.
#![expect(
    clippy::print_stdout,
    reason = "an example that prints a table, and a child that answers through a pipe"
)]

use std::env;
use std::error::Error;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use tickline::Clock;

const ROUND_TRIPS: usize = 2_000;

/// The argument that makes this program the other process.
const CHILD: &str = "child";

/// Answers each line with the time of its arrival.
fn child() -> io::Result<()> {
    for line in io::stdin().lock().lines() {
        line?;
        println!("{}", tickline::now_ordered_ns());
    }
    Ok(())
}

fn show(way: &str, mut times_ns: Vec<i64>) {
    times_ns.sort_unstable();
    let backward = times_ns.iter().filter(|ns| **ns < 0).count();
    let least = times_ns[0];
    let median = times_ns[times_ns.len() / 2];
    println!("{way:<5} at least {least} ns, median {median} ns, {backward} of them backward");
}

fn main() -> Result<(), Box<dyn Error>> {
    let _thread = tickline::start()?;
    if env::args().nth(1).as_deref() == Some(CHILD) {
        return Ok(child()?);
    }
    let mut other = Command::new(env::current_exe()?)
        .arg(CHILD)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut to = other.stdin.take().ok_or("no pipe to the child")?;
    let mut from = BufReader::new(other.stdout.take().ok_or("no pipe from the child")?);

    let mut there_ns = Vec::new();
    let mut back_ns = Vec::new();
    let mut line = String::new();
    for _ in 0..ROUND_TRIPS {
        line.clear();
        let sent_ns = tickline::now_ordered_ns();
        to.write_all(b"\n")?;
        from.read_line(&mut line)?;
        let received_ns = tickline::now_ordered_ns();
        let its_ns: u64 = line.trim().parse()?;
        there_ns.push(its_ns.wrapping_sub(sent_ns).cast_signed());
        back_ns.push(received_ns.wrapping_sub(its_ns).cast_signed());
    }
    drop(to); // The child ends when its input ends.
    other.wait()?;

    show("there", there_ns);
    show("back", back_ns);
    println!("{}", Clock::global().status().state);
    Ok(())
}
