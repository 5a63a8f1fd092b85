//! The environment of systems without signal handlers.

use crate::options::Environment;

/// What the environment variable `TICKLINE` says.
pub(crate) fn environment() -> Environment {
    match std::env::var_os("TICKLINE") {
        None => Environment::Unset,
        Some(value) => Environment::from_value(value.as_encoded_bytes()),
    }
}
