//! Facts about the guest's machine, and changes of its clocksource.

use std::fs;
use std::io;

use crate::phase::{self, Machine, Phase};

/// `Documentation/ABI/testing/sysfs-devices-system-clocksource` of Linux describes this folder.
const CLOCKSOURCE: &str = "/sys/devices/system/clocksource/clocksource0";

fn read(path: &str) -> String {
    fs::read_to_string(path)
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// The clocksource with which the kernel keeps time.
pub(crate) fn clocksource() -> String {
    read(&format!("{CLOCKSOURCE}/current_clocksource"))
}

/// Makes the kernel keep time with another clocksource.
pub(crate) fn choose_clocksource(name: &str) -> io::Result<()> {
    fs::write(format!("{CLOCKSOURCE}/current_clocksource"), name)
}

/// Makes the kernel reject a clocksource permanently. The kernel then uses another clocksource, and
/// no longer offers this one, as if it had found it unstable.
pub(crate) fn unbind_clocksource(name: &str) -> io::Result<()> {
    fs::write(format!("{CLOCKSOURCE}/unbind_clocksource"), name)
}

/// The number of CPUs in the machine.
pub(crate) fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The facts for the report. The kernel's messages are on the console.
pub(crate) fn facts() -> Phase {
    Phase {
        clocksource: Some(clocksource()),
        machine: Some(Machine {
            kernel: read("/proc/sys/kernel/osrelease"),
            command_line: read("/proc/cmdline"),
            cpus: cpus(),
            clocksources: read(&format!("{CLOCKSOURCE}/available_clocksource")),
        }),
        ..Phase::named(phase::MACHINE)
    }
}
