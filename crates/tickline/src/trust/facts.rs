//! Collectors of the facts that gates judge. They decide nothing, allocate nothing, and may run in
//! a signal handler.

mod collector;
mod cost;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod cpu;
#[cfg(any(not(target_arch = "x86_64"), miri))]
#[path = "facts/cpu_other.rs"]
mod cpu;
mod environment;
#[cfg(all(target_os = "linux", not(miri)))]
#[path = "facts/linux.rs"]
mod kernel;
#[cfg(any(not(target_os = "linux"), miri))]
#[path = "facts/other.rs"]
mod kernel;

pub(crate) use collector::Collector;
#[cfg(test)]
pub(crate) use cost::played;
pub(crate) use cpu::hypervisor;
pub(crate) use environment::{environment, learn_environment};
pub(crate) use kernel::{LIST_BYTES, clocksource, is_accepted};

use crate::options::Probes;

/// The counter's frequency as the processor, the firmware or the hypervisor names it, Hz. With
/// minimal probes it is unknown where the process needs a right to read it.
pub(crate) fn nominal_hz(probes: Probes) -> Option<u64> {
    let may_ask = probes == Probes::Full && crate::sys::may_read_counter();
    if cpu::NAMED_BESIDE_THE_COUNTER && !may_ask { None } else { cpu::nominal_hz() }
}
