//! The elapsed time by a clock that no library replaces.

use std::time::Duration;

use super::calls::kernel_ns;

/// Bounds a loop. A library such as libfaketime may slow, freeze or turn back the clocks of libc
/// and std, by which the loop would never end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch {
    start_ns: u64,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self {
            start_ns: kernel_ns(),
        }
    }

    pub(crate) fn elapsed(self) -> Duration {
        Duration::from_nanos(kernel_ns().saturating_sub(self.start_ns))
    }
}
