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

#[cfg(target_os = "linux")]
pub(crate) use linux::{PreserveErrno, SignalsBlocked, forgo_page, prefer_realtime, token};
#[cfg(target_os = "linux")]
pub(crate) use mask::{CpuMask, comparable_cpus, cpu_ids, pin_this_thread};
#[cfg(target_os = "linux")]
pub(crate) use notice::{Notice, Woken};
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{
    CpuMask, Notice, PreserveErrno, SignalsBlocked, Woken, comparable_cpus, cpu_ids, forgo_page,
    pin_this_thread, prefer_realtime, token,
};
