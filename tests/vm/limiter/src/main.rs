//! Sends messages to a limiter of governor from two CPUs in turn (boinkor-net/governor#299). The
//! limiter must let all pass. Prints the number of refused messages, and of backward steps.

use std::thread::sleep;
use std::time::Duration;

use core_affinity::CoreId;
use governor::{Quota, RateLimiter};
use quanta::Instant;

/// The time in which one message may pass.
const PERIOD: Duration = Duration::from_millis(5);

/// The number of messages, each after twice that time.
const MESSAGES: usize = 100;

fn main() {
    let run_on = |id| assert!(core_affinity::set_for_current(CoreId { id }), "no CPU {id}");
    run_on(0); // quanta calibrates on this CPU.
    let limiter = RateLimiter::direct(Quota::with_period(PERIOD).expect("more than zero"));
    let mut refused = 0;
    let mut backward = 0;
    let mut last = Instant::now();
    for message in 0..MESSAGES {
        run_on(message % 2);
        sleep(2 * PERIOD);
        let now = Instant::now();
        backward += u32::from(now < last);
        last = now;
        refused += u32::from(limiter.check().is_err());
    }
    println!(r#"{{ "messages": {MESSAGES}, "refused": {refused}, "backward": {backward} }}"#);
}
