//! What the drivers need from the operating system: who we are across `fork`, the notice that the clock was set, the
//! attributes of a quiet thread, and where it runs.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod notice;
#[cfg(not(target_os = "linux"))]
mod other;

#[cfg(target_os = "linux")]
pub(crate) use linux::{CpuMask, PreserveErrno, SignalsBlocked, cpu_ids, prefer_realtime, token};
#[cfg(target_os = "linux")]
pub(crate) use notice::{Notice, Woken};
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{
    CpuMask, Notice, PreserveErrno, SignalsBlocked, Woken, cpu_ids, prefer_realtime, token,
};
