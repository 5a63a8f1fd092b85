//! The operating system: its clocks ([`reference`]), and the services that drivers need:
//!
//! - a token of the process, which a `fork` changes,
//! - a sleep that ends when the clock is set,
//! - a thread that starts even in a forked child,
//! - a thread that gets no signals, and an `errno` that stays the same,
//! - whether a thread has ended, and a wait for the release of a lock,
//! - the CPUs of a thread,
//! - whether a thread may read the counter,
//! - the kernel's clocksource, and the environment at the start of the process,
//! - the memory by which a hypervisor says that it has moved the machine.
//!
//! Miri executes neither system calls nor counter instructions. Under Miri this is one of the
//! systems of `other.rs`, without a counter: std's clocks serve.
//!
//! Files in this folder import each other by name. Other modules name only `reference` and
//! `vmclock`, which are the same on all systems. Everything else they import from here, so that
//! they need not know the system.

use tickline_core::counter::HardwareCounter;

// Only Linux has such lists; the tests of the parser run everywhere.
#[cfg(any(test, all(target_os = "linux", not(miri))))]
pub(crate) mod cpu_list;
#[cfg(all(target_os = "linux", not(miri)))]
mod linux;
#[cfg(any(not(target_os = "linux"), miri))]
mod other;
pub(crate) mod reference;
pub(crate) mod vmclock;

#[cfg(all(target_os = "linux", not(miri)))]
use linux as system;
#[cfg(any(not(target_os = "linux"), miri))]
use other as system;

#[cfg(all(test, target_os = "linux", not(miri)))]
pub(crate) use linux::interrupted;
pub use system::StoppableSleep;
pub(crate) use system::{
    AffinityGuard, CpuMask, PreserveErrno, Releases, RobustFutex, SignalsBlocked, Thread,
    acceptance_of_counter, clocksource, comparable_cpus, cpu_ids, disable_fork_token,
    forbid_reading_files, lock_token, map_beginning, may_read_counter, naming_this_thread,
    pin_this_thread, process_number, process_token, variable_at_start,
};

/// The counter of this target. The gates find out whether the process may read it.
pub(crate) const COUNTER: Option<HardwareCounter> = if cfg!(miri) {
    None
} else {
    HardwareCounter::if_present()
};

/// Whether [`pin_this_thread`] can succeed on this system. If not, no clock can compare the CPUs'
/// counters.
pub(crate) const CAN_PIN_THREADS: bool = cfg!(all(any(target_os = "linux", windows), not(miri)));

/// The stack of a thread, besides the least that libc needs. The figure is address space, not
/// memory.
pub(crate) const STACK_BYTES: usize = 256 * 1024;

/// Why a wait of a [`StoppableSleep`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeCause {
    /// The time is up, or a signal has ended the wait.
    Timeout,
    /// `CLOCK_REALTIME` was set, or the machine has resumed. Only Linux reports it, and not if the
    /// kernel has refused the timer, or the program has closed its descriptor. A kernel that
    /// measures a suspend of less than a second as 0 does not report that suspend.
    ClockSet,
    /// The thread shall end: its [`BackgroundThread`](crate::background::BackgroundThread) is being
    /// dropped, or ended without waiting.
    Stopped,
}
