//! What kind of machine the guest is.

use std::fs;

use serde_json::{Value, json};

use crate::system;

/// `Documentation/ABI/testing/sysfs-devices-system-clocksource` of the kernel.
const CLOCKSOURCE: &str = "/sys/devices/system/clocksource/clocksource0";

/// Flags of the processor, in `/proc/cpuinfo`, that concern clocks.
const FLAGS: [&str; 8] = [
    "constant_tsc",
    "nonstop_tsc",
    "tsc_known_freq",
    "tsc_reliable",
    "tsc_adjust",
    "rdtscp",
    "rdpid",
    "hypervisor",
];

/// What in a kernel message makes it one about clocks.
const TOPICS: [&str; 4] = ["clocksource", "TSC", "tsc:", "hpet"];

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// What the kernel keeps time with.
pub(crate) fn clocksource() -> String {
    read(&format!("{CLOCKSOURCE}/current_clocksource"))
}

/// Has the kernel keep time with another clocksource.
pub(crate) fn choose_clocksource(name: &str) -> std::io::Result<()> {
    fs::write(format!("{CLOCKSOURCE}/current_clocksource"), name)
}

/// Takes a clocksource away from the kernel for good, as it does itself with one that it finds
/// unstable: it uses another one, and offers this one no more.
pub(crate) fn take_clocksource(name: &str) -> std::io::Result<()> {
    fs::write(format!("{CLOCKSOURCE}/unbind_clocksource"), name)
}

/// What the kernel could keep time with.
pub(crate) fn clocksources() -> String {
    read(&format!("{CLOCKSOURCE}/available_clocksource"))
}

/// CPUs that are there.
pub(crate) fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A setting from the kernel's command line: `name=value`.
pub(crate) fn setting(name: &str) -> Option<String> {
    let line = read("/proc/cmdline");
    line.split_whitespace().find_map(|word| Some(word.strip_prefix(name)?.strip_prefix('=')?.to_owned()))
}

/// Everything of interest.
pub(crate) fn facts() -> Value {
    let processor = read("/proc/cpuinfo");
    let field = |name: &str| {
        let line = processor.lines().find(|line| line.split('\t').next() == Some(name));
        line.and_then(|line| line.split(": ").nth(1)).unwrap_or_default().to_owned()
    };
    let flags = field("flags");
    let flags: Vec<&str> = flags.split(' ').filter(|flag| FLAGS.contains(flag)).collect();
    let messages = system::kernel_log();
    let messages: Vec<&str> =
        messages.lines().filter(|line| TOPICS.iter().any(|topic| line.contains(topic))).collect();
    json!({
        "phase": "machine",
        "kernel": read("/proc/sys/kernel/osrelease"),
        "command_line": read("/proc/cmdline"),
        "cpus": cpus(),
        "clocksource": clocksource(),
        "clocksources": clocksources(),
        "processor": field("model name"),
        "flags": flags,
        "sleep_states": read("/sys/power/state"),
        "messages": messages,
    })
}
