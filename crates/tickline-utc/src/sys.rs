//! The system calls that this crate makes itself. The clocks, the thread and its sleep are those of
//! `tickline`.
//!
//! Miri executes no system calls. Under Miri this is a system without a source.

#[cfg(all(target_os = "linux", not(miri)))]
#[path = "sys/linux.rs"]
mod system;
#[cfg(any(not(target_os = "linux"), miri))]
#[path = "sys/other.rs"]
mod system;

pub(crate) use system::{kernel_clock, map_beginning};
