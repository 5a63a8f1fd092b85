//! UTC by the global clock, for the whole process.

use std::sync::OnceLock;

use tickline::Clock;
use tickline_utc::{Utc, UtcReading, UtcUnknown};

/// The one of this process. Its thread runs to the end of the process.
static UTC: OnceLock<Utc> = OnceLock::new();

/// Starts the thread that asks the sources of UTC. If it can't be started, UTC stays unknown:
/// `no_thread`.
pub(crate) fn start() {
    if let Ok(utc) = Utc::start(Clock::global()) {
        UTC.set(utc).ok();
    }
}

/// UTC now. It is unknown before [`start`], and without a thread.
pub(crate) fn utc_now() -> Result<UtcReading, UtcUnknown> {
    UTC.get().ok_or(UtcUnknown::NoThread)?.now()
}
