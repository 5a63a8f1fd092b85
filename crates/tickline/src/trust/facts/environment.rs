//! The environment variable `TICKLINE`, as the process was started with it.
//!
//! The program may change its environment at any time, by `std::env::set_var` on one thread while
//! another one reads the time. `getenv` then reads memory that is being moved. So the variable is
//! read once, and never by a racing `getenv`:
//!
//! - Any reading may be the first one ([`environment`]), perhaps in a signal handler. On Linux it
//!   asks the kernel for the environment of the start (`sys/linux/environment.rs`).
//! - A thread that starts a clock or another thread reads it before that ([`learn_environment`]):
//!   as above, or through std's lock, which waits for `set_var`.

use core::sync::atomic::{AtomicU8, Ordering};

use crate::options::{Environment, Probes};
use crate::sys::environment_at_start;

/// What the variable says: its place in [`KINDS`], counted from 1; [`NOT_READ`] before that.
static CACHED: AtomicU8 = AtomicU8::new(NOT_READ);
const NOT_READ: u8 = 0;

/// In the order of the variants.
const KINDS: [Environment; 4] =
    [Environment::Unset, Environment::On, Environment::Off, Environment::Unrecognised];

fn cached() -> Option<Environment> {
    // ORDERING: Relaxed, the number itself is all there is.
    let code = CACHED.load(Ordering::Relaxed);
    KINDS.get(usize::from(code).checked_sub(1)?).copied()
}

/// Stores what the variable says. The first one stays. Returns that.
fn cache(found: Environment) -> Environment {
    // ORDERING: Relaxed, as in `cached`.
    CACHED.compare_exchange(NOT_READ, found as u8 + 1, Ordering::Relaxed, Ordering::Relaxed).ok();
    cached().unwrap_or(found)
}

/// What the environment variable `TICKLINE` said when the process started. As long as it can't be
/// read, it counts as not set. A signal handler may ask.
pub(crate) fn environment(probes: Probes) -> Environment {
    cached().unwrap_or_else(|| environment_at_start(probes).map_or(Environment::Unset, cache))
}

/// Reads the variable, before a clock starts. Returns whether this is news that a judgement
/// should know. Not for signal handlers.
pub(crate) fn learn_environment(probes: Probes) -> bool {
    if cached().is_some() {
        return false;
    }
    cache(environment_at_start(probes).unwrap_or_else(Environment::through_std)) != Environment::Unset
}
