//! Other systems. On Unix a reading does not ask for the variable: the reading may be in a signal
//! handler, which std's lock could stop, and `getenv` has none. A reading does not need to know it
//! there, because no system but Linux and Windows lets the counter serve.

use crate::options::{Environment, Probes};

/// What the variable says at the first reading, where there are no signal handlers.
pub(super) fn at_start(_: Probes) -> Option<Environment> {
    if cfg!(unix) { None } else { Some(super::through_std()) }
}
