//! The facts of the machine. The code here collects, and judges nothing. An unreadable fact is
//! `None`, in JSON null. The facts of a recorded machine are read back from that JSON.

mod cpuid;
#[cfg(target_os = "linux")]
mod log;
#[cfg(target_os = "linux")]
mod ntp_daemon;
mod platform;
#[cfg_attr(not(target_os = "linux"), path = "machine/other.rs")]
mod system;

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tickline::{CounterComparison, Hypervisor, Status};

pub(crate) use cpuid::Cpuid;
pub(crate) use system::{allow_counter, counter_readable};

/// `Documentation/ABI/testing/sysfs-devices-system-clocksource` of the kernel.
pub(crate) const CLOCKSOURCE: &str = "/sys/devices/system/clocksource/clocksource0";

/// The facts of the machine.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub(crate) struct Machine {
    /// The processor's name.
    pub(crate) cpu: Option<String>,
    /// The architecture that the program was compiled for, by Rust's name.
    pub(crate) architecture: Option<String>,
    /// The kernel's release.
    pub(crate) kernel: Option<String>,
    /// The kernel's command line.
    pub(crate) kernel_command_line: Option<String>,
    /// The kernel's messages about clocks; null where the process may not read the log.
    pub(crate) kernel_log: Option<Vec<String>>,
    /// The kernel's clocksource.
    pub(crate) clocksource: Option<String>,
    /// The clocksources that the kernel lists, separated by spaces. The list may end with a TSC
    /// that the kernel has rejected.
    pub(crate) available_clocksources: Option<String>,
    /// The hypervisor below this machine, as a stable code; `none` where no fact names one, and the
    /// processor has CPUID.
    pub(crate) hypervisor: Option<String>,
    /// Vendor and product, by the firmware.
    pub(crate) product: Option<String>,
    /// The cloud that runs this machine, by the firmware, as a stable code: `ec2_nitro`, `ec2_xen`,
    /// `google`, `azure`; null where it names none of them.
    pub(crate) cloud: Option<String>,
    /// The facts from CPUID; null on processors without it.
    pub(crate) cpuid: Option<Cpuid>,
    /// Whether the process may read the counter (`prctl(PR_GET_TSC)`).
    pub(crate) counter_readable: Option<bool>,
    /// Whether the kernel has mapped its vDSO into the process.
    pub(crate) vdso_mapped: Option<bool>,
    /// The process that traces this one (ptrace(2)); 0 if none does.
    pub(crate) tracer_pid: Option<u32>,
    /// The file from which the process has its `clock_gettime`; null where that is the program
    /// itself.
    pub(crate) clock_gettime_file: Option<String>,
    /// The Unix time of libc's `clock_gettime` minus that of the system call, ns.
    pub(crate) clock_gettime_difference_ns: Option<i64>,
    /// The process's time namespace; null where the kernel has no time namespaces.
    pub(crate) time_namespace: Option<TimeNamespace>,
    /// The CPUs that the process may use, as a list of ranges.
    pub(crate) allowed_cpus: Option<String>,
    /// The CPUs that are online, as a list of ranges.
    pub(crate) online_cpus: Option<String>,
    /// How many processes have the machine's page, or the user's, mapped (`tickline serve`), the
    /// server among them if it is another user's; null where there is no page.
    pub(crate) page_readers: Option<usize>,
    /// The kernel's NTP state.
    pub(crate) ntp: Option<Ntp>,
    /// What an NTP daemon on this machine says of itself; null where none answers.
    pub(crate) ntp_daemon: Option<NtpDaemon>,
    /// Whether systemd runs the machine (sd_booted(3)).
    pub(crate) systemd: Option<bool>,
    /// How many CPUs' counters the clock has compared and found synchronised; null unless all of
    /// them are.
    pub(crate) synchronised_cpus: Option<u32>,
    /// The result of the clock's comparison of the CPUs' counters, in words.
    pub(crate) counters: String,
    /// The least possible difference between the counters of two CPUs, ticks; null unless they are
    /// unsynchronised.
    pub(crate) counter_difference_ticks: Option<u64>,
}

/// The process's time namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub(crate) struct TimeNamespace {
    /// CLOCK_MONOTONIC minus the machine's, ns. Null where the process's children receive another
    /// namespace, since the kernel then shows theirs.
    pub(crate) monotonic_offset_ns: Option<i64>,
    /// CLOCK_BOOTTIME minus the machine's, ns; null in the same case.
    pub(crate) boottime_offset_ns: Option<i64>,
    /// Whether the process's children receive another namespace.
    pub(crate) children_elsewhere: bool,
}

/// The kernel's NTP state, by `adjtimex(2)` with modes 0, which changes nothing.
// Serde requires every field: a missing figure must not become zero.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Ntp {
    /// Whether an NTP daemon keeps Unix time near UTC.
    pub(crate) synchronised: bool,
    /// The correction of the clock's rate, ppb, without `tick_us`.
    pub(crate) frequency_ppb: i64,
    /// The length of a hundredth of a second, us: 10,000, unless the NTP daemon slews by it.
    pub(crate) tick_us: i64,
    /// The offset that is still to be slewed, ns.
    pub(crate) offset_ns: i64,
    /// The largest error against UTC, by the NTP daemon's claim, us.
    pub(crate) maximum_error_us: i64,
    /// The likely error against UTC, by the NTP daemon's claim, us.
    pub(crate) estimated_error_us: i64,
    /// The names of the bits of its status, such as `PLL` (the kernel steers), `UNSYNC`, `INS` (a leap
    /// second is due).
    pub(crate) flags: Option<Vec<String>>,
}

impl Ntp {
    /// The correction of the clock's rate, ppb: one microsecond more or less in a hundredth of a
    /// second is 100 ppm.
    pub(crate) const fn rate_ppb(&self) -> i64 {
        self.frequency_ppb.saturating_add(self.tick_us.saturating_sub(10_000).saturating_mul(100_000))
    }
}

/// An NTP daemon.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub(crate) struct NtpDaemon {
    /// `chronyd`, `systemd-timesyncd`, or `ntpd` for any other that serves NTP.
    pub(crate) name: String,
    /// Whether it follows another clock.
    pub(crate) synchronised: bool,
    /// The clock that it follows: a name, such as PHC0 for a hardware clock, or an address.
    pub(crate) reference: Option<String>,
    /// How many clocks are between it and a reference clock.
    pub(crate) stratum: Option<u16>,
    /// The offset that it has left to remove, ns; null where it does not tell.
    pub(crate) offset_ns: Option<i64>,
    /// Its bound of Unix time's distance from UTC, ns; null where it does not tell.
    pub(crate) bound_ns: Option<i64>,
    /// How long ago it learnt the time, s.
    pub(crate) updated_s: Option<u64>,
}

impl Machine {
    /// Collects everything.
    pub(crate) fn read(status: &Status) -> Self {
        let (product, system) = (product(), system::facts());
        let text_of = |name: &str| match name {
            "version" => read_line("/proc/version"),
            "log" => system.kernel_log.as_ref().map(|log| log.join("\n")),
            "acpi" => Some(acpi_devices()),
            "product" => product.clone(),
            name => dmi(name),
        };
        // Where the processor has CPUID, which could have named one, and did not, there is none.
        let by_cpuid = Some(status.hypervisor).filter(|found| cpuid::EXISTS || *found != Hypervisor::None);
        let hypervisor = platform::find(&platform::HYPERVISORS, text_of);
        Self {
            cpu: cpu(),
            architecture: Some(std::env::consts::ARCH.to_owned()),
            kernel: read_line("/proc/sys/kernel/osrelease"),
            kernel_command_line: read_line("/proc/cmdline"),
            clocksource: clocksource(),
            available_clocksources: read_line(&format!("{CLOCKSOURCE}/available_clocksource")),
            hypervisor: hypervisor.or_else(|| by_cpuid.map(|found| found.code().to_owned())),
            cloud: platform::find(&platform::CLOUDS, text_of),
            product,
            cpuid: cpuid::read(),
            counter_readable: counter_readable(),
            vdso_mapped: read_text("/proc/self/maps").map(|maps| maps.contains("[vdso]")),
            tracer_pid: status_line("TracerPid:").and_then(|pid| pid.parse().ok()),
            allowed_cpus: status_line("Cpus_allowed_list:"),
            online_cpus: online_cpus(),
            page_readers: crate::serve::page_readers(),
            systemd: fs::exists("/run/systemd/system").ok(),
            synchronised_cpus: match status.comparison {
                CounterComparison::Synchronised { cpus } => Some(cpus),
                _ => None,
            },
            counters: comparison(status.comparison),
            counter_difference_ticks: match status.comparison {
                CounterComparison::Unsynchronised { difference, .. } => Some(difference.size_ticks()),
                _ => None,
            },
            ..system
        }
    }
}

/// What a file says, which need not be UTF-8: names of files and of processes stand in it. `None` if
/// it is unreadable.
fn read_text(path: impl AsRef<Path>) -> Option<String> {
    Some(String::from_utf8_lossy(&fs::read(path).ok()?).into_owned())
}

/// The only line of a file; `None` if the file is unreadable or empty.
fn read_line(path: &str) -> Option<String> {
    Some(read_text(path)?.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The kernel's clocksource.
pub(crate) fn clocksource() -> Option<String> {
    read_line(&format!("{CLOCKSOURCE}/current_clocksource"))
}

/// The CPUs that are online, as a list of ranges.
pub(crate) fn online_cpus() -> Option<String> {
    read_line("/sys/devices/system/cpu/online")
}

/// The name of a process, which need not be UTF-8; `None` if it has ended.
#[cfg(target_os = "linux")]
pub(crate) fn process_name(pid: u32) -> Option<String> {
    Some(read_text(format!("/proc/{pid}/comm"))?.trim_end_matches('\n').to_owned())
}

fn cpu() -> Option<String> {
    let text = read_text("/proc/cpuinfo")?;
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "))?;
    Some(name.1.to_owned())
}

/// A line of the firmware's tables.
fn dmi(name: &str) -> Option<String> {
    read_line(&format!("/sys/class/dmi/id/{name}"))
}

fn product() -> Option<String> {
    let words = ["sys_vendor", "product_name"].map(dmi);
    Some(words.into_iter().flatten().collect::<Vec<_>>().join(" ")).filter(|text| !text.is_empty())
}

/// The devices that ACPI tables name, a line each; empty without ACPI or `/sys`.
fn acpi_devices() -> String {
    let entries = fs::read_dir("/sys/bus/acpi/devices").into_iter().flatten().flatten();
    entries.map(|entry| format!("{}\n", entry.file_name().to_string_lossy())).collect()
}

/// A line of `/proc/self/status`, by its name.
fn status_line(name: &str) -> Option<String> {
    let text = read_text("/proc/self/status")?;
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.trim().to_owned())
}

/// The result of the clock's comparison, in words.
fn comparison(comparison: CounterComparison) -> String {
    match comparison {
        CounterComparison::Pending => "not compared by this program".to_owned(),
        CounterComparison::Single => "one CPU only".to_owned(),
        CounterComparison::Synchronised { cpus } => format!("synchronised on {cpus} CPUs"),
        CounterComparison::Unsynchronised { here, there, difference } => format!(
            "CPU {here} and CPU {there} are unsynchronised by at least {} ticks",
            difference.size_ticks()
        ),
        _ => "could not be compared".to_owned(),
    }
}
