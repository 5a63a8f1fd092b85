//! The operating system: its clocks, and what the drivers need. The drivers need a token of the
//! process that a `fork` changes, a notice that the clock was set, the attributes of a quiet
//! thread, its CPUs, and whether it may read the counter.
//!
//! Miri executes neither system calls nor counter instructions. For it this is a system without
//! files of its own, and without a counter: std's clocks serve.
//!
//! Files in this folder import each other by name. Everybody else imports from here.

use tickline_core::counter::HardwareCounter;

#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) mod linux;
#[cfg(any(not(target_os = "linux"), miri))]
mod other;
#[cfg(all(windows, not(miri)))]
mod pin_windows;
pub(crate) mod reference;

#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) use linux::{
    affinity::{CpuMask, comparable_cpus, cpu_ids, pin_this_thread},
    fork::{forgo_wiped, lock_token, token},
    mark::ThreadMark,
    parking::{sleep_while, wake_one},
    process::{PreserveErrno, may_read_counter},
    sleep::ClockSetNotifier,
    thread::SignalsBlocked,
};
#[cfg(any(not(target_os = "linux"), miri))]
pub(crate) use other::{
    ClockSetNotifier, CpuMask, PreserveErrno, SignalsBlocked, ThreadMark, cpu_ids, forgo_wiped, lock_token,
    may_read_counter, sleep_while, token, wake_one,
};
#[cfg(any(not(any(target_os = "linux", windows)), miri))]
pub(crate) use other::{comparable_cpus, pin_this_thread};
#[cfg(all(windows, not(miri)))]
pub(crate) use pin_windows::{comparable_cpus, pin_this_thread};

/// The counter of this target. The gates find out whether the process may read it.
pub(crate) const COUNTER: Option<HardwareCounter> =
    if cfg!(miri) { None } else { HardwareCounter::if_present() };

/// Why a wait of a [`ClockSetNotifier`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The time is up.
    Timeout,
    /// The clock was set, or the machine was suspended.
    #[cfg_attr(any(not(target_os = "linux"), miri), expect(dead_code, reason = "no other system reports it"))]
    ClockSet,
    /// Somebody called [`ClockSetNotifier::stop`].
    Stopped,
}
