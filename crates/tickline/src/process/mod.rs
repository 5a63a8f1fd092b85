//! What the drivers need from the operating system: who we are across `fork`, the notice that the clock was set, and
//! the attributes of a quiet thread.

#[cfg(target_os = "linux")]
mod affinity;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod notice;
#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(target_os = "linux")]
mod parking;

#[cfg(target_os = "linux")]
pub(crate) use affinity::{comparable_cpus, pin_this_thread};
#[cfg(target_os = "linux")]
pub(crate) use linux::{PreserveErrno, SignalsBlocked, forgo_page, prefer_realtime, token};
#[cfg(target_os = "linux")]
pub(crate) use notice::{Notice, Woken};
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{
    Notice, PreserveErrno, SignalsBlocked, Woken, comparable_cpus, forgo_page, pin_this_thread,
    prefer_realtime, token,
};
