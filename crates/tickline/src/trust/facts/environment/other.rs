//! Systems without signal handlers: std's lock serves every reading.

use crate::options::{Environment, Probes};

pub(super) const STD_FIRST: bool = true;

/// There are no such processes.
pub(super) fn is_privileged() -> bool {
    false
}

/// What the variable says at the first reading.
pub(super) fn at_start(_: Probes) -> Option<Environment> {
    Some(super::through_std())
}
