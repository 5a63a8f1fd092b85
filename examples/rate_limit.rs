//! A rate limiter (governor) by tickline's clock: the lines that connect the two, and a test that waits for nothing.
//!
//! `cargo run --release --features mock --example rate_limit`
//!
//! Its output has: "3 of 5 pass", "1 of 5 pass after 100ms", "by the counter's clock: true".
//!
//! governor's traits are for the user to implement, and these ten lines are all that there is to it. A feature of tickline would
//! tie it to one minor version of governor, and its eight dependencies.
#![expect(clippy::print_stdout, reason = "an example that says what it did")]

use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock as GovernorClock, ReasonablyRealtime};
use governor::{Quota, RateLimiter};
use tickline::Clock;
use tickline::mock::MockClock;

/// tickline's clock for governor.
#[derive(Debug, Clone)]
struct Ticking(Clock);

impl GovernorClock for Ticking {
    /// Since the zero of `CLOCK_MONOTONIC`; governor computes with durations as they are.
    type Instant = Duration;

    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.now_ordered_ns())
    }
}

/// For `until_ready`, which waits by a timer of its own.
impl ReasonablyRealtime for Ticking {}

fn main() {
    let quota = Quota::per_second(const { NonZeroU32::new(10).unwrap() })
        .allow_burst(const { NonZeroU32::new(3).unwrap() });

    // In a test: the clock is moved by hand, for all threads.
    let mock = MockClock::new();
    let limiter = RateLimiter::direct_with_clock(quota, Ticking(mock.clock()));
    let passes = || (0..5).filter(|_| limiter.check().is_ok()).count();
    println!("{} of 5 pass", passes());
    mock.advance(Duration::from_millis(100));
    println!("{} of 5 pass after 100ms", std::thread::scope(|scope| scope.spawn(passes).join().unwrap_or(0)));

    // In the program.
    let limiter = RateLimiter::direct_with_clock(quota, Ticking(Clock::default()));
    println!("by the counter's clock: {}", limiter.check().is_ok());
}
