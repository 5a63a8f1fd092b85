//! Systems without a file of their own: all is unknown.

use tickline_core::gate::Clocksource;

/// Unknown.
pub(crate) fn clocksource() -> Clocksource {
    Clocksource::Unknown
}

/// There is no such file.
pub(crate) fn find_clocksource() {}

/// Unknown.
pub(crate) fn is_accepted() -> Option<bool> {
    None
}
