//! Systems without a file of their own: the clocks of `std`. Without any clock, as on
//! `wasm32-unknown-unknown`, those panic. A reading never panics, so there it is 0.

use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tickline_core::sample::Reference;

use super::HAS_CLOCK;

/// `std::time::Instant`, counted from its first use, and `std::time::SystemTime`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OsClock;

impl Reference for OsClock {
    fn monotonic_ns(&self) -> i64 {
        static ORIGIN: OnceLock<Instant> = OnceLock::new();
        if !HAS_CLOCK {
            return 0;
        }
        i64::try_from(ORIGIN.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(i64::MAX)
    }

    fn realtime_ns(&self) -> i64 {
        if !HAS_CLOCK {
            return 0;
        }
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, i64::wrapping_neg),
        }
    }
}
