//! Linux.

mod affinity;
mod clocksource;
mod environment;
mod file;
mod fork;
#[cfg(test)]
mod interrupted;
mod process;
mod releases;
mod robust_futex;
mod sleep;
mod thread;
mod thread_end;

pub(crate) use affinity::{AffinityGuard, CpuMask, comparable_cpus, cpu_ids, pin_this_thread};
pub(crate) use clocksource::{acceptance_of_counter, clocksource};
pub(crate) use environment::variable_at_start;
pub(crate) use file::map_beginning;
pub(crate) use fork::{disable_fork_token, lock_token, process_number, process_token};
#[cfg(test)]
pub(crate) use interrupted::interrupted;
pub(crate) use process::{PreserveErrno, SignalsBlocked, may_read_counter};
pub(crate) use releases::Releases;
pub(crate) use robust_futex::RobustFutex;
pub use sleep::StoppableSleep;
pub(crate) use thread::Thread;
pub(crate) use thread_end::{forbid_reading_files, naming_this_thread};
