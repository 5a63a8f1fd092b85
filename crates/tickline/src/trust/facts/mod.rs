//! Collectors of the facts that gates judge. They decide nothing, allocate nothing, and may run in
//! a signal handler.

mod collector;
mod cost;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod cpu;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[path = "cpu_other.rs"]
mod cpu;
#[cfg(not(unix))]
#[path = "std_env.rs"]
mod environment;
#[cfg(unix)]
#[path = "getenv.rs"]
mod environment;
#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod kernel;
#[cfg(not(target_os = "linux"))]
#[path = "other.rs"]
mod kernel;
mod nominal;

#[cfg(test)]
pub(crate) use collector::collect;
pub(crate) use collector::{Collector, OsClockFacts};
#[cfg(test)]
pub(crate) use cost::played;
pub(crate) use cpu::hypervisor;
pub(crate) use environment::environment;
pub(crate) use kernel::{LIST_BYTES, clocksource, is_available};
pub(crate) use nominal::nominal_hz;
