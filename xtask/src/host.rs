//! Describes the machine that runs a command.

use std::thread;

use crate::files;

/// The host in words: the number of CPUs, and the processor's name.
pub(crate) fn host_description() -> String {
    let text = files::read("/proc/cpuinfo").unwrap_or_default();
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    format!(
        "{cpus} CPUs of {}",
        name.map_or("an unknown processor", |(_, name)| name)
    )
}
