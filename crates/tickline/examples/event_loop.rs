//! The manual driver: an event loop calibrates its own clock, besides its work for a socket and for
//! timers. It needs no thread.
//!
//! `cargo run --release --example event_loop`
//!
//! Its output has: "requests", "timers", "iterations of the clock", "readings come from".
#![expect(clippy::print_stdout, reason = "an example that prints its results")]

use std::collections::VecDeque;
use std::error::Error;
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

use tickline::{Clock, Driver};

const REQUESTS: u32 = 100;

/// The delay of each answer, ns.
const ANSWER_AFTER_NS: u64 = 3_000_000;

/// The loop ends after this time, ns, because packets may be lost.
const PATIENCE_NS: u64 = 2_000_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let clock = Clock::builder().driver(Driver::Manual).build()?;
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let server = socket.local_addr()?;
    // A client that sends a request every 2 ms.
    let client = thread::spawn(move || -> std::io::Result<()> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        for _ in 0..REQUESTS {
            socket.send_to(b"?", server)?;
            thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    });

    let mut timers_ns = VecDeque::new(); // All timers have the same length, so they are in order.
    let mut due_ns = 0;
    let mut iterations = 0;
    let mut requests = 0;
    let mut answers = 0;
    let mut latest_ns = 0;
    let end_ns = clock.now().as_nanos() + PATIENCE_NS;
    while answers < REQUESTS {
        // The loop takes one reading in each turn, so that the whole turn has one time.
        let now_ns = clock.now().as_nanos();
        if now_ns >= due_ns {
            due_ns = now_ns + u64::try_from(clock.maintain().as_nanos())?;
            iterations += 1;
        }
        while let Some(late_ns) = timers_ns
            .front()
            .and_then(|timer_ns| now_ns.checked_sub(*timer_ns))
        {
            timers_ns.pop_front();
            latest_ns = latest_ns.max(late_ns);
            answers += 1;
        }
        if now_ns >= end_ns {
            break;
        }
        // The clock's iterations are a timer, too. A time-out of zero would mean no time-out.
        let next_ns = timers_ns
            .front()
            .copied()
            .unwrap_or(end_ns)
            .min(due_ns)
            .min(end_ns);
        socket.set_read_timeout(Some(Duration::from_nanos(
            next_ns.saturating_sub(now_ns).max(1_000),
        )))?;
        if socket.recv(&mut [0; 16]).is_ok() {
            requests += 1;
            timers_ns.push_back(clock.now().as_nanos() + ANSWER_AFTER_NS);
        }
    }
    client.join().map_err(|_| "the client panicked")??;

    println!("{requests} requests, {answers} timers that ended, the latest {latest_ns} ns late");
    println!("{iterations} iterations of the clock");
    println!("{}", clock.status().state);
    Ok(())
}
