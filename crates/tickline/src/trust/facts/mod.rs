//! Collectors of the facts that gates judge. They decide nothing, allocate nothing, and may run in
//! a signal handler.

mod collector;
mod cost;
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
mod cpu;
#[cfg(any(not(any(target_arch = "x86_64", target_arch = "aarch64")), miri))]
#[path = "cpu_other.rs"]
mod cpu;
mod environment;
#[cfg(all(target_os = "linux", not(miri)))]
#[path = "linux.rs"]
mod kernel;
#[cfg(any(not(target_os = "linux"), miri))]
#[path = "other.rs"]
mod kernel;
mod nominal;

#[cfg(test)]
pub(crate) use collector::collect;
pub(crate) use collector::{Collector, OsClockFacts};
#[cfg(test)]
pub(crate) use cost::played;
pub(crate) use cpu::hypervisor;
pub(crate) use environment::{environment, learn_environment};
pub(crate) use kernel::{LIST_BYTES, clocksource, is_available};
pub(crate) use nominal::nominal_hz;
