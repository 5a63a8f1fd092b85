//! The environment variable `TICKLINE` at the start of the process: its value, read once.
//!
//! The program may change its environment at any time, by `std::env::set_var` on one thread while
//! another one reads the time. `getenv` then reads memory that is being moved. So the variable is
//! read once, and never by a racing `getenv`:
//!
//! - Any reading may be the first one ([`environment_switch`]), perhaps in a signal handler. On
//!   Linux it reads the environment of the start from the kernel (`sys/linux/environment.rs`).
//! - A thread that starts a clock, or a clock's thread, first reads the variable in the same way,
//!   or else through std's lock, which waits for `set_var` ([`read_environment`]). Its caller is
//!   `engine/late_environment.rs`, which tells the global clock, and has the public
//!   [`EnvironmentSwitch::read`].

use core::sync::atomic::{AtomicU8, Ordering};
use std::env;
use std::ffi::OsStr;

use crate::settings::Probes;
use crate::sys::variable_at_start;

/// The variable's name.
const NAME: &str = "TICKLINE";

tickline_core::named! {
    /// The value of the environment variable `TICKLINE` when the process started.
    ///
    /// The clock reads it once. Later changes of the environment have no effect: a program switches
    /// the counter off by [`Clock::disable`](crate::Clock::disable). A set-user-id process of Linux
    /// ignores the variable, and treats it as [`Unset`](Self::Unset).
    ///
    /// On Linux the first reading reads `/proc/self/environ`. If that file can't be read, or with
    /// [`Probes::Minimal`], the first start of a clock or of a thread asks `std::env` instead. The
    /// same holds on other Unix systems, where readings don't use the counter: readings alone leave
    /// the value `Unset` there.
    ///
    /// ```
    /// use tickline::{Clock, EnvironmentSwitch};
    ///
    /// if Clock::global().status().environment == EnvironmentSwitch::Unrecognised {
    ///     eprintln!("TICKLINE should be on or off");
    /// }
    /// ```
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum EnvironmentSwitch {
        /// The variable is not set.
        Unset => "unset",
        /// `on`: nothing is changed.
        On => "on",
        /// `off`: the counter is not used.
        Off => "off",
        /// Any other value, also `OFF` or `0`. The clock ignores it, and only shows it here and in
        /// the text of its [`Status`](crate::Status).
        Unrecognised => "unrecognised",
    }
}

impl EnvironmentSwitch {
    /// The switch that `value` stands for. `value` is `None` if the variable is not set.
    fn from_value(value: Option<&[u8]>) -> Self {
        match value {
            None => Self::Unset,
            Some(b"on") => Self::On,
            Some(b"off") => Self::Off,
            Some(_) => Self::Unrecognised,
        }
    }

    /// The switch by `std::env`, whose lock excludes a concurrent `set_var`.
    fn through_std() -> Self {
        let value = env::var_os(NAME);
        Self::from_value(value.as_deref().map(OsStr::as_encoded_bytes))
    }

    /// The switch by the system, which has kept the environment of the start; `None` if the system
    /// doesn't say.
    fn through_system(probes: Probes) -> Option<Self> {
        variable_at_start(NAME, probes, Self::from_value)
    }
}

/// One more than the index of the variable's value in [`EnvironmentSwitch::ALL`]; [`NOT_READ`]
/// before the first read.
static CACHED: AtomicU8 = AtomicU8::new(NOT_READ);
const NOT_READ: u8 = 0;

fn cached() -> Option<EnvironmentSwitch> {
    // ORDERING: Relaxed, the number publishes no other memory.
    let index = usize::from(CACHED.load(Ordering::Relaxed)).checked_sub(1)?;
    EnvironmentSwitch::ALL.get(index).copied()
}

/// Caches the variable's value, if none is cached yet. Returns the cached value.
fn cache(found: EnvironmentSwitch) -> EnvironmentSwitch {
    // ORDERING: Relaxed for both, as in `cached`.
    let order = Ordering::Relaxed;
    CACHED
        .compare_exchange(NOT_READ, found as u8 + 1, order, order)
        .ok();
    cached().unwrap_or(found)
}

/// The value of the environment variable `TICKLINE` when the process started. As long as it can't
/// be read, it counts as not set. A signal handler may call this.
pub(crate) fn environment_switch(probes: Probes) -> EnvironmentSwitch {
    let read = || EnvironmentSwitch::through_system(probes).map(cache);
    cached().or_else(read).unwrap_or(EnvironmentSwitch::Unset)
}

/// The variable's value, and when this process has read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadEnvironment {
    /// An earlier call has read it.
    Before(EnvironmentSwitch),
    /// This call has read it. Readings that could not read it have taken it for unset.
    Now(EnvironmentSwitch),
}

/// Reads the variable, unless it was read before. Not for signal handlers.
pub(crate) fn read_environment(probes: Probes) -> ReadEnvironment {
    if let Some(switch) = cached() {
        return ReadEnvironment::Before(switch);
    }
    let found =
        EnvironmentSwitch::through_system(probes).unwrap_or_else(EnvironmentSwitch::through_std);
    ReadEnvironment::Now(cache(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_recognised_by_its_whole_value() {
        for (value, expected) in [
            ("on", EnvironmentSwitch::On),
            ("off", EnvironmentSwitch::Off),
            ("", EnvironmentSwitch::Unrecognised),
            ("of", EnvironmentSwitch::Unrecognised),
            ("offf", EnvironmentSwitch::Unrecognised),
        ] {
            let switch = EnvironmentSwitch::from_value(Some(value.as_bytes()));
            assert_eq!(switch, expected, "{value:?}");
        }
    }

    #[test]
    fn the_reason_of_the_environment_names_this_variable() {
        let text = tickline_core::gate::Reason::DisabledByEnvironment.to_string();
        assert_eq!(text, format!("the environment variable {NAME} is off"));
    }
}
