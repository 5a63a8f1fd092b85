//! Targets without a counter that this crate can read.

use super::Counter;

/// No counter: there is no value of this type.
#[derive(Debug, Clone, Copy)]
pub enum HardwareCounter {}

impl HardwareCounter {
    /// Bits of the counter.
    pub const BITS: u32 = 64;

    /// Always `None`.
    #[must_use]
    pub const fn if_present() -> Option<Self> {
        None
    }
}

impl Counter for HardwareCounter {
    fn now(&self) -> u64 {
        match *self {}
    }
    fn now_ordered(&self) -> u64 {
        match *self {}
    }
    fn barrier(&self) {
        match *self {}
    }
}
