//! The right to read the counter, of which `PR_SET_TSC` may have deprived the process: without it, every look at a clock of
//! libc or std is the end. So before anything else is done, tickline's gates are judged with the rights that the process was
//! started with; then the program takes the right, for itself alone.

use std::io;
use std::thread;
use std::time::Duration;

use tickline::{Clock, ClockGuard};

use crate::machine;

/// Starts the global clock's thread, which goes on without the right where the process had none.
pub(crate) fn start_clock() -> io::Result<ClockGuard> {
    let counter_readable = machine::counter_readable();
    let guard = tickline::start().map_err(io::Error::other)?;
    take(counter_readable);
    Ok(guard)
}

/// Takes the right if the process has none, for the calling thread and those that it starts. The global clock's thread must run.
pub(crate) fn take(counter_readable: Option<bool>) {
    if counter_readable == Some(false) {
        await_judgement();
        machine::allow_counter();
    }
}

/// Until the clock's thread has judged the gates, which takes it some 60 us, or until it is clear that it does not get to it.
pub(crate) fn await_judgement() {
    const TRIES: u32 = 200;
    for _ in 0..TRIES {
        if Clock::global().status().judged {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
}
