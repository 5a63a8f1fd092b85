//! What the drivers need from the operating system: who we are across `fork`, the notice that the clock was set, the
//! attributes of a quiet thread, and where it runs.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod mask;
#[cfg(target_os = "linux")]
mod notice;
#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(target_os = "linux")]
mod parking;
#[cfg(not(any(target_os = "linux", windows)))]
mod pin_other;
#[cfg(windows)]
mod pin_windows;

#[cfg(target_os = "linux")]
pub(crate) use linux::{PreserveErrno, SignalsBlocked, forgo_page, prefer_realtime, token};
#[cfg(target_os = "linux")]
pub(crate) use mask::{CpuMask, comparable_cpus, cpu_ids, pin_this_thread};
#[cfg(target_os = "linux")]
pub(crate) use notice::{ClockSetNotifier, Woken};
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{
    ClockSetNotifier, CpuMask, PreserveErrno, SignalsBlocked, Woken, cpu_ids, forgo_page, prefer_realtime,
    token,
};
#[cfg(not(any(target_os = "linux", windows)))]
pub(crate) use pin_other::{comparable_cpus, pin_this_thread};
#[cfg(windows)]
pub(crate) use pin_windows::{comparable_cpus, pin_this_thread};
