//! Systems without a file of their own: all is unknown.

use tickline_core::gate::Clocksource;

/// There is no list.
pub(crate) const LIST_BYTES: usize = 0;

/// Unknown.
pub(crate) fn clocksource() -> Clocksource {
    Clocksource::Unknown
}

/// There is no such file.
pub(crate) fn find_clocksource() {}

/// Unknown.
pub(crate) fn is_accepted(_: &mut [u8; LIST_BYTES]) -> Option<bool> {
    None
}
