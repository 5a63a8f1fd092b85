//! Timeouts with `Instant`: waiting for others until a deadline, and computing until one.
//!
//! `cargo run --release --example deadline`
//!
//! Its output has: "answers within", "steps within", "past the deadline", "serves".
//!
//! A reading that costs as little as the counter can be part of every step of a computation. So
//! the program need not guess how many steps fit into a millisecond.
#![expect(clippy::print_stdout, reason = "an example that says what it did")]

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tickline::{Clock, Instant};

/// As many answers as come until the deadline. std's waiting functions take a duration: the time
/// that is left.
fn collect(answers: &mpsc::Receiver<u64>, deadline: Instant) -> usize {
    let mut count = 0;
    // Saturates at zero past the deadline: then answers that are there already are still taken.
    while answers.recv_timeout(deadline - Instant::now()).is_ok() {
        count += 1;
    }
    count
}

/// Looks for the longest Collatz sequence until the deadline. Returns the steps made.
fn compute(deadline: Instant) -> u64 {
    let (mut steps, mut first, mut longest) = (0_u64, 1_u64, 0_u64);
    loop {
        let (mut n, mut length) = (first, 1_u64);
        while n != 1 {
            n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
            length += 1;
            steps += 1;
            if Instant::now() >= deadline {
                return steps;
            }
        }
        longest = longest.max(length);
        first += 1;
    }
}

fn main() -> Result<(), tickline::Error> {
    let _clock = tickline::start()?;
    let budget = Duration::from_millis(50);

    let (sender, answers) = mpsc::channel();
    let worker = thread::spawn(move || {
        // The receiver goes away when its deadline has passed, and then so does this thread.
        for answer in 0.. {
            thread::sleep(Duration::from_millis(answer % 7));
            if sender.send(answer).is_err() {
                break;
            }
        }
    });
    let deadline = Instant::now() + budget;
    let count = collect(&answers, deadline);
    println!("{count} answers within {budget:?}, done {:?} past the deadline", deadline.elapsed());
    drop(answers);
    worker.join().expect("the worker does not panic");

    let deadline = Instant::now() + budget;
    let steps = compute(deadline);
    println!("{steps} steps within {budget:?}, done {:?} past the deadline", deadline.elapsed());

    println!("{}", Clock::global().status().state);
    Ok(())
}
