//! Targets without a counter that this crate can read.

use super::Counter;
use crate::clocksource::Clocksource;

/// A counter that does not exist: there is no value of this type.
#[derive(Debug, Clone, Copy)]
pub enum HardwareCounter {}

impl HardwareCounter {
    /// The instruction of a plain read, by name.
    pub const NAME: &'static str = "counter";

    /// The instructions of an ordered read, by name.
    pub const NAME_ORDERED: &'static str = "counter, ordered";

    /// The clocksource of a kernel that keeps time with this counter.
    pub const CLOCKSOURCE: Clocksource = Clocksource::Other;

    /// Always `None`.
    #[must_use]
    pub const fn if_present() -> Option<Self> {
        None
    }

    /// `None`: this crate reads the frequency that the firmware states, Hz, only on aarch64.
    #[must_use]
    pub fn nominal_hz(self) -> Option<u64> {
        None
    }
}

impl Counter for HardwareCounter {
    fn now(&self) -> u64 {
        match *self {}
    }
    fn barrier(&self) {
        match *self {}
    }
}
