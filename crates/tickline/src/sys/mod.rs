//! The operating system: its clocks, and what the drivers need. The drivers need a token of the
//! process that a `fork` changes, a notice that the clock was set, the attributes of a quiet
//! thread, its CPUs, and whether it may read the counter.
//!
//! Files in this folder import each other by name. Everybody else imports from here.

mod counter;
#[cfg(target_os = "linux")]
pub(crate) mod linux;
#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(any(target_os = "linux", windows)))]
mod pin_other;
#[cfg(windows)]
mod pin_windows;
pub(crate) mod reference;

pub(crate) use counter::COUNTER;
#[cfg(target_os = "linux")]
pub(crate) use linux::affinity::{CpuMask, comparable_cpus, cpu_ids, pin_this_thread};
#[cfg(target_os = "linux")]
pub(crate) use linux::counter::counter_readable;
#[cfg(target_os = "linux")]
pub(crate) use linux::errno::PreserveErrno;
#[cfg(target_os = "linux")]
pub(crate) use linux::fork::{forgo_page, token};
#[cfg(target_os = "linux")]
pub(crate) use linux::sleep::{ClockSetNotifier, Woken};
#[cfg(target_os = "linux")]
pub(crate) use linux::thread::{SignalsBlocked, make_realtime};
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{
    ClockSetNotifier, CpuMask, PreserveErrno, SignalsBlocked, Woken, counter_readable, cpu_ids, forgo_page,
    make_realtime, token,
};
#[cfg(not(any(target_os = "linux", windows)))]
pub(crate) use pin_other::{comparable_cpus, pin_this_thread};
#[cfg(windows)]
pub(crate) use pin_windows::{comparable_cpus, pin_this_thread};
