//! Systems without a file of their own: the clocks of `std`, `Instant` counted from its first use.
//! Without any clock, as on `wasm32-unknown-unknown`, those panic. A reading never panics, so there
//! it is 0.

use std::sync::OnceLock;
use std::time::Instant;

use tickline_core::reference::Reference;

use super::{HAS_CLOCK, OsClock, unix_ns_by_std};
use crate::sys::vmclock::VMCLOCK;

impl Reference for OsClock {
    fn monotonic_ns(&self) -> i64 {
        static ORIGIN: OnceLock<Instant> = OnceLock::new();
        if !HAS_CLOCK {
            return 0;
        }
        i64::try_from(ORIGIN.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(i64::MAX)
    }

    fn unix_ns(&self) -> i64 {
        if !HAS_CLOCK {
            return 0;
        }
        unix_ns_by_std()
    }

    #[inline]
    fn disruption_marker(&self) -> Option<u64> {
        VMCLOCK.marker()
    }
}
