//! Systems without a file of their own: what cannot be asked is unknown.

use tickline_core::gate::Clocksource;

use crate::status::Environment;

/// Unknown.
pub(crate) fn clocksource() -> Clocksource {
    Clocksource::Unknown
}

/// Unknown.
pub(crate) fn is_available(_: Clocksource) -> Option<bool> {
    None
}

/// Nobody can deny the counter here.
pub(crate) fn counter_readable() -> bool {
    true
}

/// What the environment variable `TICKLINE` says.
pub(crate) fn environment() -> Environment {
    match std::env::var_os("TICKLINE") {
        None => Environment::Unset,
        Some(value) => Environment::from_value(value.as_encoded_bytes()),
    }
}
