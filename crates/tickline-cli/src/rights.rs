//! The right to read the counter, which `PR_SET_TSC` may have taken from the process. Without it,
//! a call of a libc or std clock ends the process where the vDSO reads the counter. Therefore
//! tickline first judges its gates with the rights that the process was started with. Then the
//! program takes the right, for itself alone.

use std::thread;
use std::time::Duration;

use tickline::{Clock, ClockGuard};

use crate::machine;

/// Starts the global clock's thread, which keeps the rights that the process was started with.
/// Where the process may start no thread, the error is that of the system, and the clock goes on
/// without: its readers do the work.
pub(crate) fn start_clock() -> Result<ClockGuard, String> {
    let counter_readable = machine::counter_readable();
    let guard = start_thread();
    take(counter_readable);
    guard
}

/// The same without the right to read the counter.
pub(crate) fn start_thread() -> Result<ClockGuard, String> {
    let guard = tickline::start().map_err(|error| error.to_string());
    if guard.is_err() {
        Clock::global().maintain();
    }
    guard
}

/// Takes the right if the process has none, for the calling thread and the threads that it starts.
/// The global clock's thread must run.
pub(crate) fn take(counter_readable: Option<bool>) {
    if counter_readable == Some(false) {
        await_judgement();
        machine::allow_counter();
    }
}

/// Waits until the clock's thread has judged the gates, which takes some 60 us; gives up after 0.2
/// s.
pub(crate) fn await_judgement() {
    const TRIES: u32 = 200;
    for _ in 0..TRIES {
        if Clock::global().status().judged {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
}
