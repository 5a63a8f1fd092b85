//! The manual driver: an event loop that calibrates its own clock, beside its sockets and timers,
//! without a thread.
//!
//! `cargo run --release --example event_loop`
//!
//! Its output has: "requests", "timers", "iterations of the clock", "serves".
#![expect(clippy::print_stdout, reason = "an example that says what it did")]

use std::collections::VecDeque;
use std::error::Error;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use mio::net::UdpSocket;
use mio::{Events, Interest, Poll, Token};
use tickline::{Clock, Driver};

const SOCKET: Token = Token(0);
const REQUESTS: usize = 100;

/// Each request is answered so much later, ns.
const ANSWER_AFTER_NS: u64 = 3_000_000;

/// The loop ends when it has heard nothing for so long, ns: packets may be lost.
const PATIENCE_NS: u64 = 500_000_000;

/// The clock of an event loop, and when it wants its next iteration.
struct LoopClock {
    clock: Clock,
    due_ns: u64,
    /// Iterations so far, and the time until the next one.
    rounds: u32,
    interval: Duration,
}

impl LoopClock {
    fn start() -> Result<Self, tickline::Error> {
        let clock = Clock::builder().driver(Driver::Manual).start()?;
        Ok(Self { clock, due_ns: 0, rounds: 0, interval: Duration::ZERO })
    }

    /// The time, ns, after an iteration if one is due. It is read once in each turn of the loop,
    /// so that the whole turn has one time.
    fn turn(&mut self) -> u64 {
        if self.clock.now_ns() >= self.due_ns {
            self.interval = self.clock.maintain();
            self.due_ns = self.clock.now_ns() + u64::try_from(self.interval.as_nanos()).unwrap_or(u64::MAX);
            self.rounds += 1;
        }
        self.clock.now_ns()
    }
}

/// A client that sends a request every 2 ms.
fn ask(server: SocketAddr) -> std::io::Result<()> {
    let socket = std::net::UdpSocket::bind(("127.0.0.1", 0))?;
    for _ in 0..REQUESTS {
        socket.send_to(b"?", server)?;
        thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut clock = LoopClock::start()?;
    let mut poll = Poll::new()?;
    let mut socket = UdpSocket::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    poll.registry().register(&mut socket, SOCKET, Interest::READABLE)?;
    let server = socket.local_addr()?;
    let asker = thread::spawn(move || ask(server));

    let mut timers = VecDeque::new(); // all of one length, so in order
    let (mut requests, mut answers, mut latest_ns) = (0, 0, 0);
    let mut end_ns = clock.turn() + PATIENCE_NS;
    let mut events = Events::with_capacity(16);
    while answers < REQUESTS {
        // The clock's iterations are a timer like others.
        let now_ns = clock.turn();
        let next_ns = timers.front().copied().unwrap_or(end_ns).min(clock.due_ns).min(end_ns);
        poll.poll(&mut events, Some(Duration::from_nanos(next_ns.saturating_sub(now_ns))))?;

        let now_ns = clock.turn();
        while socket.recv_from(&mut [0; 16]).is_ok() {
            requests += 1;
            timers.push_back(now_ns + ANSWER_AFTER_NS);
            end_ns = now_ns + PATIENCE_NS;
        }
        while let Some(late_ns) = timers.front().and_then(|timer_ns| now_ns.checked_sub(*timer_ns)) {
            timers.pop_front();
            latest_ns = latest_ns.max(late_ns);
            answers += 1;
        }
        if now_ns >= end_ns {
            break;
        }
    }
    asker.join().map_err(|_| "the asker panicked")??;

    println!("{requests} requests, {answers} timers that ended, the latest {latest_ns} ns late");
    println!("{} iterations of the clock, the next one after {:?}", clock.rounds, clock.interval);
    println!("{}", clock.clock.status().state);
    Ok(())
}
