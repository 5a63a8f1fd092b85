//! The CPUs that a command measures on.

use std::io;

use tickline::exchange;

use crate::cpu_list::{CpuList, ranges};

/// The CPUs of the list, if this process may run on each; without a list, all on which it may run.
pub(crate) fn chosen(list: Option<&CpuList>) -> io::Result<Vec<u32>> {
    let Some(CpuList(cpus)) = list else { return Ok(exchange::cpus()) };
    let Some(missing) = cpus.iter().find(|cpu| exchange::on_cpu(**cpu, || ()).is_none()) else {
        return Ok(cpus.clone());
    };
    let usable = exchange::cpus();
    let but = if usable.is_empty() { String::new() } else { format!(", but on {}", ranges(&usable)) };
    Err(io::Error::other(format!("--cpus: this process cannot run on CPU {missing}{but}")))
}
