//! Timeouts with `Instant`: a wait for another thread, and a computation, until a deadline.
//!
//! `cargo run --release --example deadline`
//!
//! Its output has: "answers within", "steps within", "past the deadline", "readings come from".
//!
//! A reading is so cheap that the program can take one in every step of a computation. It need not
//! guess how many steps fit into a millisecond.
#![expect(clippy::print_stdout, reason = "an example that prints its results")]

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tickline::{Clock, Instant};

fn main() -> Result<(), tickline::Error> {
    let _thread = tickline::start()?;
    let budget = Duration::from_millis(50);

    let (sender, answers) = mpsc::channel();
    // The thread ends when the receiver has been dropped.
    let worker = thread::spawn(move || {
        while sender.send(()).is_ok() {
            thread::sleep(Duration::from_millis(3));
        }
    });
    let deadline = Instant::now() + budget;
    let mut count = 0;
    // The functions of std take a duration: the time that is left. Past the deadline it is zero,
    // and `recv_timeout` then only returns an answer that has already arrived.
    while answers.recv_timeout(deadline - Instant::now()).is_ok() {
        count += 1;
    }
    println!(
        "{count} answers within {budget:?}, done {:?} past the deadline",
        deadline.elapsed()
    );
    drop(answers);
    worker.join().expect("the worker does not panic");

    let deadline = Instant::now() + budget;
    let mut steps = 0;
    let mut number = 3_u64;
    while Instant::now() < deadline {
        number = number.wrapping_mul(number).rotate_left(7);
        steps += 1;
    }
    println!(
        "{steps} steps within {budget:?}, to {number}, done {:?} past the deadline",
        deadline.elapsed()
    );

    println!("{}", Clock::global().status().state);
    Ok(())
}
