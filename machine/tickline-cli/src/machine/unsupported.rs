//! Replaces `system.rs` on systems other than Linux, where all these facts are unknown.

use super::{HostMoment, Machine};

pub(super) fn facts() -> Machine {
    Machine::default()
}

pub(super) fn unix_time_facts() -> Machine {
    Machine::default()
}

pub(crate) const fn host_clock_now() -> Option<HostMoment> {
    None
}

/// Asked where root may lack a right that only Linux has.
pub(crate) const fn is_root() -> bool {
    false
}

pub(crate) const fn may_read_counter() -> Option<bool> {
    None
}

pub(crate) const fn allow_counter() {}

pub(crate) const fn clock_gettime_file() -> Option<String> {
    None
}
