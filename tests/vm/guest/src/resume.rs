//! Suspends the machine, and watches the clock after a resume or a move.

use std::fs;
use std::io;
use std::thread;
use std::time::Duration;

use tickline::{Clock, ClockState};
use tickline_observe::{Bounded, clock_ns, monotonic_ns};

use crate::phase::Resumed;

/// The time for which the guest watches the clock after a suspend.
const WATCHED: Duration = Duration::from_secs(2);

/// Sleeps in suspend to RAM. Returns the time suspended by the kernel, ns.
pub(crate) fn suspend_for(seconds: u64) -> io::Result<u64> {
    // CLOCK_BOOTTIME counts suspended time, and CLOCK_MONOTONIC does not.
    let slept_ns = || clock_ns(libc::CLOCK_BOOTTIME) - monotonic_ns();
    let before_ns = slept_ns();
    fs::write("/sys/class/rtc/rtc0/wakealarm", format!("+{seconds}"))?;
    fs::write("/sys/power/mem_sleep", "deep").ok();
    fs::write("/sys/power/state", "mem")?;
    Ok(slept_ns() - before_ns)
}

/// Watches the clock directly after a resume.
pub(crate) fn watch_resumed(clock: &Clock) -> Resumed {
    let start_ns = monotonic_ns();
    let mut outside_ms = 0;
    let mut unreported_ms = 0;
    let mut ahead_ns = 0;
    let mut disrupted_ms = 0;
    loop {
        let at_ms = (monotonic_ns() - start_ns) / 1_000_000;
        if u128::from(at_ms) > WATCHED.as_millis() {
            break;
        }
        let is_disrupted = || clock.status().state == ClockState::Disrupted;
        let before = is_disrupted();
        let bounded = Bounded::read(clock);
        let is_reported = before || is_disrupted();
        ahead_ns = ahead_ns.max(bounded.bracket.ahead_ns());
        if is_reported {
            disrupted_ms = at_ms + 1;
        }
        if bounded.missed_ns() > 0 {
            outside_ms = at_ms + 1;
            if !is_reported {
                unreported_ms = at_ms + 1;
            }
        }
        thread::sleep(Duration::from_micros(200));
    }
    Resumed {
        outside_ms,
        unreported_ms,
        disrupted_ms,
        ahead_us: ahead_ns / 1_000,
    }
}
