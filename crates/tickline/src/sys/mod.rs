//! The operating system: its clocks, and what the drivers need. The drivers need a token of the
//! process that a `fork` changes, a notice that the clock was set, the attributes of a quiet
//! thread, its CPUs, and whether it may read the counter.
//!
//! Miri executes neither system calls nor counter instructions. For it this is a system without
//! files of its own, and without a counter: std's clocks serve.
//!
//! Files in this folder import each other by name. Everybody else imports from here.

mod counter;
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) mod linux;
#[cfg(any(not(target_os = "linux"), miri))]
mod other;
#[cfg(any(not(any(target_os = "linux", windows)), miri))]
mod pin_other;
#[cfg(all(windows, not(miri)))]
mod pin_windows;
pub(crate) mod reference;

pub(crate) use counter::COUNTER;
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) use linux::affinity::{CpuMask, comparable_cpus, cpu_ids, pin_this_thread};
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) use linux::counter::counter_readable;
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) use linux::errno::PreserveErrno;
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) use linux::fork::{forgo_page, lock_token, token};
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) use linux::mark::ThreadMark;
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) use linux::parking::{sleep_while, wake_one};
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) use linux::sleep::{ClockSetNotifier, Woken};
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) use linux::thread::{SignalsBlocked, make_realtime};
#[cfg(any(not(target_os = "linux"), miri))]
pub(crate) use other::{
    ClockSetNotifier, CpuMask, PreserveErrno, SignalsBlocked, ThreadMark, Woken, counter_readable, cpu_ids,
    forgo_page, lock_token, make_realtime, sleep_while, token, wake_one,
};
#[cfg(any(not(any(target_os = "linux", windows)), miri))]
pub(crate) use pin_other::{comparable_cpus, pin_this_thread};
#[cfg(all(windows, not(miri)))]
pub(crate) use pin_windows::{comparable_cpus, pin_this_thread};
