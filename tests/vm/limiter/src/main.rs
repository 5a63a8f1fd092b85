//! Messages that a limiter of governor must let pass, one after the other, from each of two CPUs in
//! turn (boinkor-net/governor#299). Prints how many it has refused, and how often the clock stepped
//! back.

use std::thread::sleep;
use std::time::Duration;

use core_affinity::CoreId;
use governor::{Quota, RateLimiter};
use quanta::Instant;

/// In this time one message may pass.
const PERIOD: Duration = Duration::from_millis(5);

/// So many come, each after twice that time.
const MESSAGES: usize = 100;

fn main() {
    let run_on = |id| assert!(core_affinity::set_for_current(CoreId { id }), "no CPU {id}");
    run_on(0); // where quanta calibrates
    let limiter = RateLimiter::direct(Quota::with_period(PERIOD).expect("more than zero"));
    let (mut refused, mut backward, mut last) = (0, 0, Instant::now());
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
