//! What is measured, and nothing about what it means.

pub(crate) mod calls;
pub(crate) mod costs;
pub(crate) mod latency;
pub(crate) mod migration;
pub(crate) mod pattern;
pub(crate) mod resolution;
pub(crate) mod served;
pub(crate) mod served_by;
pub(crate) mod track;
pub(crate) mod warp;
pub(crate) mod watch;

use std::thread;
use std::time::{Duration, Instant};

use tickline::{Clock, Status};

/// The global clock's status as soon as it is so, or when the time is over.
pub(crate) fn status_when(is_so: impl Fn(&Status) -> bool, patience: Duration) -> Status {
    let start = Instant::now();
    loop {
        let status = Clock::global().status();
        if is_so(&status) || start.elapsed() > patience {
            return status;
        }
        thread::sleep(Duration::from_millis(1));
    }
}
