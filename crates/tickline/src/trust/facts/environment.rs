//! The environment variable `TICKLINE` at the start of the process.
//!
//! The program may change its environment at any time, by `std::env::set_var` on one thread while
//! another one reads the time. `getenv` then reads memory that is being moved. So the variable is
//! read once, and never by a racing `getenv`:
//!
//! - Any reading may be the first one ([`environment_switch`]), perhaps in a signal handler. On
//!   Linux it reads the environment of the start from the kernel (`sys/linux/environment.rs`).
//! - A thread that starts a clock, or a clock's thread, first reads the variable in the same way,
//!   or else through std's lock, which waits for `set_var` ([`read_environment`]).

use core::sync::atomic::{AtomicU8, Ordering};

use crate::options::{EnvironmentSwitch, Probes};
use crate::sys::environment_at_start;

/// The variable's value: its index in [`KINDS`] plus 1; [`NOT_READ`] before the first read.
static CACHED: AtomicU8 = AtomicU8::new(NOT_READ);
const NOT_READ: u8 = 0;

/// The values of the variable, in the order of the variants.
const KINDS: [EnvironmentSwitch; 4] = [
    EnvironmentSwitch::Unset,
    EnvironmentSwitch::On,
    EnvironmentSwitch::Off,
    EnvironmentSwitch::Unrecognised,
];

fn cached() -> Option<EnvironmentSwitch> {
    // ORDERING: Relaxed, the number publishes no other memory.
    let code = CACHED.load(Ordering::Relaxed);
    KINDS.get(usize::from(code).checked_sub(1)?).copied()
}

/// Caches the variable's value, if none is cached yet. Returns the cached value.
fn cache(found: EnvironmentSwitch) -> EnvironmentSwitch {
    // ORDERING: Relaxed, as in `cached`.
    CACHED
        .compare_exchange(
            NOT_READ,
            found as u8 + 1,
            Ordering::Relaxed,
            Ordering::Relaxed,
        )
        .ok();
    cached().unwrap_or(found)
}

/// The value of the environment variable `TICKLINE` when the process started. As long as it can't
/// be read, it counts as not set. A signal handler may call this.
pub(crate) fn environment_switch(probes: Probes) -> EnvironmentSwitch {
    cached().unwrap_or_else(|| environment_at_start(probes).map_or(EnvironmentSwitch::Unset, cache))
}

/// Reads the variable, unless a reading has. Returns whether it is `off`, and was not known before.
/// Not for signal handlers.
pub(crate) fn read_environment(probes: Probes) -> bool {
    let find = || environment_at_start(probes).unwrap_or_else(EnvironmentSwitch::through_std);
    cached().is_none() && cache(find()) == EnvironmentSwitch::Off
}
