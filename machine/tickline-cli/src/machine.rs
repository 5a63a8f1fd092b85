//! Collects the facts of the machine; `diagnose` judges them. An unreadable fact is `None`, and
//! null in JSON. `--facts` reads the facts of a recorded machine back from that JSON.

mod cpuid;
#[cfg(target_os = "linux")]
mod host_clock;
#[cfg(target_os = "linux")]
mod log;
#[cfg(target_os = "linux")]
mod ntp_daemon;
#[cfg(target_os = "linux")]
pub(crate) mod page;
mod platform;
#[cfg(target_os = "linux")]
mod ptp4l;
#[cfg_attr(not(target_os = "linux"), path = "machine/unsupported.rs")]
mod system;
#[cfg(test)]
mod tests;
#[cfg(target_os = "linux")]
mod vmclock;

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tickline::{CounterComparison, Status};
use tickline_core::reference::{kernel_rate_ppb, steering_from_timex_ppb};
use tickline_utc::kernel::set_esterror_us;

pub(crate) use cpuid::Cpuid;
#[cfg(target_os = "linux")]
pub(crate) use host_clock::now as host_clock_now;
use platform::Text;
#[cfg(not(target_os = "linux"))]
pub(crate) use system::host_clock_now;
#[cfg(target_os = "linux")]
pub(crate) use system::ntp;
pub(crate) use system::{allow_counter, clock_gettime_file, may_read_counter};

/// See the kernel's `Documentation/ABI/testing/sysfs-devices-system-clocksource`.
pub(crate) const CLOCKSOURCE: &str = "/sys/devices/system/clocksource/clocksource0";

/// Whether a file that provides `clock_gettime` is a libc by its name: glibc (up to 2.16 in librt),
/// musl, or Android's libc.
pub(crate) fn is_libc(file: &str) -> bool {
    const BEGINNINGS: [&str; 6] = [
        "libc.so",
        "libc-",
        "libc.musl",
        "ld-musl",
        "librt.so",
        "librt-",
    ];
    let name = file.rsplit('/').next().unwrap_or(file);
    BEGINNINGS.iter().any(|library| name.starts_with(library))
}

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
    /// The kernel's messages about clocks; null if the process may not read the log.
    pub(crate) kernel_log: Option<Vec<String>>,
    /// The kernel's clocksource.
    pub(crate) clocksource: Option<String>,
    /// The clocksources that the kernel lists, separated by spaces. The list may end with a TSC
    /// that the kernel has rejected.
    pub(crate) available_clocksources: Option<String>,
    /// The hypervisor below this machine, as a stable code; `none` if the processor has CPUID, and
    /// no fact names a hypervisor.
    pub(crate) hypervisor: Option<String>,
    /// The vendor and the product that the firmware names.
    pub(crate) product: Option<String>,
    /// The cloud that the firmware names, as a stable code: `ec2_nitro`, `ec2_xen`, `google`,
    /// `azure`; null if the firmware names none of these.
    pub(crate) cloud: Option<String>,
    /// The facts from CPUID; null on processors without it.
    pub(crate) cpuid: Option<Cpuid>,
    /// Whether the process may read the counter (`prctl(PR_GET_TSC)`).
    pub(crate) counter_readable: Option<bool>,
    /// Whether the kernel has mapped its vDSO into the process.
    pub(crate) vdso_mapped: Option<bool>,
    /// The process that traces this process (ptrace(2)); 0 if there is no tracer.
    pub(crate) tracer_pid: Option<u32>,
    /// The file that provides the process's `clock_gettime`; null if the program itself does.
    pub(crate) clock_gettime_file: Option<String>,
    /// The Unix time of libc's `clock_gettime` minus the Unix time of the system call, ns.
    pub(crate) clock_gettime_difference_ns: Option<i64>,
    /// The process's time namespace; null if the kernel has no time namespaces.
    pub(crate) time_namespace: Option<TimeNamespace>,
    /// The CPUs that the process may use, as a list of ranges.
    pub(crate) allowed_cpus: Option<String>,
    /// The CPUs that are online, as a list of ranges.
    pub(crate) online_cpus: Option<String>,
    /// The number of processes that have the machine's or the user's page mapped (`tickline
    /// serve`), with the server if it belongs to another user; null if there is no page, or if none
    /// was found and the user may not examine every process.
    pub(crate) page_readers: Option<usize>,
    /// What the hypervisor tells by its VMClock; null if there is none.
    pub(crate) vmclock: Option<VmClock>,
    /// The kernel's NTP state.
    pub(crate) ntp: Option<Ntp>,
    /// The state that an NTP daemon on this machine reports; null if no daemon answers.
    pub(crate) ntp_daemon: Option<NtpDaemon>,
    /// An answer in chronyd's place that does not count; null if there was none.
    pub(crate) ignored_answer: Option<IgnoredAnswer>,
    /// The state of ptp4l; null if it does not run, or this user may not ask it.
    pub(crate) ptp4l: Option<Ptp4l>,
    /// Whether systemd runs the machine (sd_booted(3)).
    pub(crate) systemd: Option<bool>,
    /// The number of CPUs whose counters the clock has compared and found synchronised; null unless
    /// all compared counters are synchronised.
    pub(crate) synchronised_cpus: Option<u32>,
    /// The result of the clock's comparison of the CPUs' counters, in words.
    pub(crate) counters: String,
    /// The least possible difference between the counters of two CPUs, ticks; null unless they are
    /// unsynchronised.
    pub(crate) counter_difference_ticks: Option<u64>,
}

/// What a hypervisor tells its guest by a VMClock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub(crate) struct VmClock {
    /// The device.
    pub(crate) device: String,
    /// Why this user can't read the device, in the system's words; null if the user can.
    pub(crate) unreadable: Option<String>,
    /// The number that changes when the guest was moved to another host, or restored from a snapshot.
    pub(crate) disruption_marker: Option<u64>,
    /// The state of the clock that the hypervisor tells: `synchronised`, `free_running`,
    /// `initialising`, `unreliable` or `unknown`.
    pub(crate) clock_status: Option<String>,
    /// The number that changes when the guest was restored from a snapshot; null if the hypervisor
    /// does not state it.
    pub(crate) vm_generation: Option<u64>,
}

/// The host's clock at one moment, by a PTP device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostMoment {
    pub(crate) device: String,
    pub(crate) name: String,
    /// The host's Unix time, ns.
    pub(crate) host_ns: i64,
    /// `CLOCK_MONOTONIC_RAW` before and after that, ns.
    pub(crate) raw_ns: [i64; 2],
}

/// The rate of a guest's clock against its host's, by a PTP device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub(crate) struct HostClock {
    /// The device.
    pub(crate) device: String,
    /// The clock's name, as the kernel has it.
    pub(crate) name: String,
    /// The rate of CLOCK_MONOTONIC_RAW, which nobody steers, minus that of the host's clock, ppb.
    pub(crate) raw_rate_ppb: i64,
    /// The largest error of that rate by the time that the reads took, ppb.
    pub(crate) uncertainty_ppb: i64,
    /// The time between the two reads, ns.
    pub(crate) span_ns: i64,
}

impl HostClock {
    /// The rate between two moments of one device; `None` if the host's clock did not go on.
    pub(crate) fn between(first: &HostMoment, last: &HostMoment) -> Option<Self> {
        let span_ns = last.host_ns.checked_sub(first.host_ns)?;
        if span_ns <= 0 || first.device != last.device {
            return None;
        }
        let [first_raw, last_raw] =
            [first.raw_ns, last.raw_ns].map(|raw_ns| raw_ns.map(i128::from));
        let span = i128::from(span_ns);
        // Twice the raw time, from middle to middle.
        let raw = last_raw[0] + last_raw[1] - first_raw[0] - first_raw[1];
        let widths = last_raw[1] - last_raw[0] + first_raw[1] - first_raw[0];
        let ppb = |double_ns: i128| i64::try_from(double_ns * 500_000_000 / span).ok();
        Some(Self {
            device: last.device.clone(),
            name: last.name.clone(),
            raw_rate_ppb: ppb(raw - 2 * span)?,
            uncertainty_ppb: ppb(widths)?.saturating_add(1),
            span_ns,
        })
    }
}

/// The process's time namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub(crate) struct TimeNamespace {
    /// The process's CLOCK_MONOTONIC minus the machine's, ns. Null if the process's children get
    /// another namespace, because the kernel then shows the offsets of that namespace.
    pub(crate) monotonic_offset_ns: Option<i64>,
    /// The process's CLOCK_BOOTTIME minus the machine's, ns; null in the same case.
    pub(crate) boottime_offset_ns: Option<i64>,
    /// Whether the process's children get another namespace.
    pub(crate) children_elsewhere: bool,
}

/// The kernel's NTP state, by `adjtimex(2)` with modes 0, which changes nothing.
// There is no `serde(default)`, because a missing figure must not become zero.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Ntp {
    /// Whether an NTP daemon keeps Unix time near UTC.
    pub(crate) synchronised: bool,
    /// The correction of the clock's rate, ppb, without the correction by `tick_us`.
    pub(crate) frequency_ppb: i64,
    /// The length of a hundredth of a second, us: 10,000, unless the NTP daemon slews by it.
    pub(crate) tick_us: i64,
    /// The offset that the kernel has still to slew after this second, ns.
    pub(crate) offset_ns: i64,
    /// The time constant of that slew: each second the kernel removes one part in 2^(2 + constant)
    /// of the offset at the second's start. Null if it is unknown.
    pub(crate) time_constant: Option<i64>,
    /// The kernel's maximum error against UTC, us: what the NTP daemon has set, plus 500 ppm of the
    /// time since.
    pub(crate) maximum_error_us: i64,
    /// The likely error against UTC that the NTP daemon claims, us; 16,000,000, the kernel's value
    /// at its start, if no daemon has set it.
    pub(crate) estimated_error_us: i64,
    /// The names of the status bits that are set, such as `PLL` (the kernel steers the clock),
    /// `UNSYNC`, `INS` (a leap second is due).
    pub(crate) flags: Option<Vec<String>>,
    /// The kernel's leap second; null if it is unknown.
    pub(crate) leap: Option<Leap>,
    /// TAI minus UTC, s; null if no daemon has told the kernel.
    pub(crate) tai_offset_s: Option<i64>,
}

/// The state of a leap second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Leap {
    /// None is due.
    None,
    /// A second is inserted at the end of this UTC day.
    Insert,
    /// A second is left out at the end of this UTC day.
    Delete,
    /// The inserted second is passing.
    InProgress,
    /// It is over, and the daemon has not yet withdrawn its announcement.
    Done,
}

/// The names of the bits of `timex.status`, from the lowest (`include/uapi/linux/timex.h`).
const FLAGS: [&str; 16] = [
    "PLL",
    "PPSFREQ",
    "PPSTIME",
    "FLL",
    "INS",
    "DEL",
    "UNSYNC",
    "FREQHOLD",
    "PPSSIGNAL",
    "PPSJITTER",
    "PPSWANDER",
    "PPSERROR",
    "CLOCKERR",
    "NANO",
    "MODE",
    "CLK",
];

/// The names of the bits that are set.
#[cfg(target_os = "linux")]
fn flags_of(status: i32) -> Vec<String> {
    let names = FLAGS.iter().enumerate();
    names
        .filter(|(bit, _)| (status >> bit) & 1 == 1)
        .map(|(_, name)| (*name).to_owned())
        .collect()
}

impl Ntp {
    /// The status bits as one number (`timex.status`); `None` if they were not recorded.
    pub(crate) fn status(&self) -> Option<i32> {
        let flags = self.flags.as_ref()?;
        let bits = FLAGS.iter().enumerate();
        Some(
            bits.filter(|(_, name)| flags.iter().any(|flag| flag == *name))
                .map(|(bit, _)| 1 << bit)
                .sum(),
        )
    }

    /// Whether this status bit is set.
    pub(crate) fn has_flag(&self, name: &str) -> bool {
        let mut flags = self.flags.iter().flatten();
        flags.any(|flag| flag == name)
    }

    /// The kernel's leap second. A document of an older version has the status bits only.
    pub(crate) fn leap(&self) -> Option<Leap> {
        if self.leap.is_some() {
            return self.leap;
        }
        self.flags.as_ref()?;
        if self.has_flag("INS") {
            Some(Leap::Insert)
        } else if self.has_flag("DEL") {
            Some(Leap::Delete)
        } else {
            Some(Leap::None)
        }
    }

    /// The likely error that a daemon has set, us; `None` if it is the kernel's value at its start.
    pub(crate) fn set_estimated_error_us(&self) -> Option<i64> {
        set_esterror_us(self.estimated_error_us)
    }

    /// The correction of the clock's rate without the slew of `offset_ns`, ppb.
    pub(crate) fn steering_ppb(&self) -> i64 {
        steering_from_timex_ppb(self.frequency_ppb, self.tick_us)
    }

    /// The whole correction of the clock's rate, ppb. Leaves out a slew of `offset_ns` whose time
    /// constant is unknown.
    pub(crate) fn rate_ppb(&self) -> i64 {
        kernel_rate_ppb(self.steering_ppb(), self.offset_ns, self.time_constant)
    }
}

/// The state that an NTP daemon reports.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub(crate) struct NtpDaemon {
    /// `chronyd`, `systemd-timesyncd`, or `ntpd` for any other daemon that serves NTP.
    pub(crate) name: String,
    /// Whether the daemon follows another clock.
    pub(crate) synchronised: bool,
    /// The clock that the daemon follows: a name, such as PHC0 for a hardware clock, or an address.
    pub(crate) reference: Option<String>,
    /// The daemon's distance from a reference clock (NTP's stratum).
    pub(crate) stratum: Option<u16>,
    /// The offset that the daemon has still to remove, ns; null if it does not report the offset.
    pub(crate) offset_ns: Option<i64>,
    /// The daemon's bound of Unix time's offset from UTC, ns; null if it does not report a bound.
    pub(crate) bound_ns: Option<i64>,
    /// The time since the daemon's last update of its clock, s.
    pub(crate) updated_s: Option<u64>,
    /// The leap second that the daemon announces; null if it does not report it.
    pub(crate) leap: Option<Leap>,
    /// The rate of Unix time without the daemon's correction minus the rate of the daemon's
    /// reference, ppb; null if it does not report it.
    pub(crate) frequency_ppb: Option<i64>,
    /// The daemon's estimate of the error of that rate, ppb; null if it does not report it.
    pub(crate) skew_ppb: Option<i64>,
    /// The round trip to the reference clock at the root, ns.
    pub(crate) root_delay_ns: Option<i64>,
    /// The error that has gathered on the way from that clock, ns.
    pub(crate) root_dispersion_ns: Option<i64>,
    /// How chronyd was asked: `socket` by its Unix socket, which nobody else can have; `udp` at its
    /// port, which another program of root or of this user may have. Null for other daemons.
    pub(crate) channel: Option<String>,
    /// The number of the user who has that socket; null if it is unknown.
    pub(crate) user: Option<u32>,
}

/// An answer in chronyd's place that does not count.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub(crate) struct IgnoredAnswer {
    /// Where it came from: `socket` for chronyd's Unix socket, `udp` for its port.
    pub(crate) channel: String,
    /// Why it does not count: `unreadable` if it is not chronyd's state, `stranger` if the socket is
    /// not root's, chronyd's user's or this program's user's.
    pub(crate) reason: String,
    /// The number of the user who has the socket; null if the answer is unreadable, if every user
    /// may write the socket's folder, or if the port's socket is gone.
    pub(crate) user: Option<u32>,
}

/// The state of ptp4l (IEEE 1588, linuxptp), by its management socket.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub(crate) struct Ptp4l {
    /// The domain.
    pub(crate) domain: u8,
    /// The state of the port that follows a master: `slave` if the servo is locked, `uncalibrated` if
    /// it is not, `other` if no port follows one.
    pub(crate) port_state: String,
    /// The grandmaster's identity; null if this clock is the grandmaster.
    pub(crate) grandmaster: Option<String>,
    /// The grandmaster's class: 6 and 7 follow a primary reference.
    pub(crate) clock_class: u8,
    /// The grandmaster's accuracy, ns; null if it states none.
    pub(crate) accuracy_ns: Option<i64>,
    /// The number of boundary clocks to the grandmaster, plus 1.
    pub(crate) steps_removed: u16,
    /// The local clock minus the master's, by the last Sync, ns.
    pub(crate) offset_ns: i64,
    /// The mean delay of the path to the master, one way, ns.
    pub(crate) mean_path_delay_ns: i64,
    /// TAI minus UTC, s; null if the grandmaster does not vouch for it.
    pub(crate) utc_offset_s: Option<i16>,
    /// The bound of the local clock's offset from UTC at the last Sync, ns; null if there is none.
    pub(crate) bound_ns: Option<i64>,
    /// Why there is no bound, in words; null if there is one.
    pub(crate) unbounded: Option<String>,
}

impl Machine {
    /// Collects all facts except `counter_readable`, which this program may have changed since its
    /// start (`setup.rs`).
    pub(crate) fn read(status: &Status) -> Self {
        let product = product_name(DMI);
        let system = system::facts();
        let text_of = |text: Text| match text {
            Text::KernelVersion => read_line("/proc/version"),
            Text::KernelLog => system.kernel_log.as_ref().map(|log| log.join("\n")),
            Text::AcpiDevices => Some(acpi_devices()),
            Text::VendorAndProduct => product.clone(),
            Text::Dmi(field) => dmi_field(DMI, field),
        };
        let hypervisor = platform::first_match(&platform::HYPERVISORS, text_of);
        let (synchronised_cpus, counter_difference_ticks) = match status.comparison {
            CounterComparison::Synchronised { cpus } => (Some(cpus), None),
            CounterComparison::Unsynchronised { difference, .. } => {
                (None, Some(difference.size_ticks()))
            }
            _ => (None, None),
        };
        Self {
            cpu: cpu_name(),
            architecture: Some(std::env::consts::ARCH.to_owned()),
            kernel: read_line("/proc/sys/kernel/osrelease"),
            kernel_command_line: read_line("/proc/cmdline"),
            clocksource: clocksource(),
            available_clocksources: read_line(&format!("{CLOCKSOURCE}/available_clocksource")),
            hypervisor: hypervisor.or_else(|| cpuid::hypervisor().map(str::to_owned)),
            cloud: platform::first_match(&platform::CLOUDS, text_of),
            product,
            cpuid: cpuid::read(),
            vdso_mapped: read_text("/proc/self/maps").map(|maps| maps.contains("[vdso]")),
            tracer_pid: status_line("TracerPid:").and_then(|pid| pid.parse().ok()),
            allowed_cpus: status_line("Cpus_allowed_list:"),
            online_cpus: online_cpus(),
            systemd: fs::exists("/run/systemd/system").ok(),
            synchronised_cpus,
            counters: comparison_text(status.comparison),
            counter_difference_ticks,
            ..system
        }
    }

    /// Collects the facts about Unix time alone.
    pub(crate) fn read_unix_time() -> Self {
        system::unix_time_facts()
    }

    /// The counter's frequency that the hypervisor, the processor or the firmware states, Hz.
    /// `None` in a guest whose hypervisor states none.
    pub(crate) fn nominal_hz(&self) -> Option<u64> {
        let Some(cpuid) = &self.cpuid else {
            return cpuid::hz_by_firmware();
        };
        if let Some(khz) = cpuid.hypervisor_khz {
            return Some(u64::from(khz) * 1_000);
        }
        // A hypervisor hands the host's leaf on, and may scale the guest's counter to another rate.
        if self.is_guest() == Some(true) {
            return None;
        }
        cpuid.leaf_15h_hz
    }

    /// Whether the machine is a guest of a hypervisor, known or not, or a sandbox; `None` if that is
    /// unknown.
    pub(crate) fn is_guest(&self) -> Option<bool> {
        /// Words in the vendor and product that the firmware of hypervisors names, some of which hide
        /// from CPUID.
        const PRODUCTS: [&str; 7] = [
            "QEMU", "Bochs", "KVM", "Virtual", "VMware", "BHYVE", "HVM domU",
        ];
        let product = self.product.as_deref().unwrap_or_default();
        if PRODUCTS.iter().any(|word| product.contains(word)) {
            return Some(true);
        }
        let by_cpuid = self.cpuid.as_ref().and_then(|cpuid| cpuid.hypervisor);
        match self.hypervisor.as_deref() {
            Some("none") => return Some(by_cpuid == Some(true)),
            Some("unknown") | None => {}
            Some(_) => return Some(true),
        }
        let log = self.kernel_log.as_deref().unwrap_or_default();
        let by_log = log
            .iter()
            .any(|line| line.to_lowercase().contains("hypervisor detected"));
        if by_log || self.has_host_clock() {
            return Some(true);
        }
        by_cpuid
    }

    /// Whether the clocksource is a clock that the host keeps for its guest.
    pub(crate) fn has_host_clock(&self) -> bool {
        self.clocksource.as_deref().is_some_and(|name| {
            matches!(name, "kvm-clock" | "xen") || name.starts_with("hyperv_clocksource")
        })
    }
}

/// The text of a file; `None` if the file is unreadable. It need not be UTF-8, because it may
/// contain names of files and processes.
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

/// The name of a process, which need not be UTF-8; `None` if the process has ended.
#[cfg(target_os = "linux")]
pub(crate) fn process_name(pid: u32) -> Option<String> {
    Some(
        read_text(format!("/proc/{pid}/comm"))?
            .trim_end_matches('\n')
            .to_owned(),
    )
}

fn cpu_name() -> Option<String> {
    let text = read_text("/proc/cpuinfo")?;
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))?;
    Some(name.1.to_owned())
}

/// The folder with the fields of the firmware's DMI tables.
const DMI: &str = "/sys/class/dmi/id";

/// A field of the DMI tables in this folder.
fn dmi_field(folder: &str, name: &str) -> Option<String> {
    read_line(&format!("{folder}/{name}"))
}

/// The vendor and the product in this folder.
fn product_name(folder: &str) -> Option<String> {
    let words = ["sys_vendor", "product_name"].map(|name| dmi_field(folder, name));
    Some(words.into_iter().flatten().collect::<Vec<_>>().join(" ")).filter(|text| !text.is_empty())
}

/// The devices that the ACPI tables name, one on each line; empty without ACPI or `/sys`.
fn acpi_devices() -> String {
    let entries = fs::read_dir("/sys/bus/acpi/devices")
        .into_iter()
        .flatten()
        .flatten();
    entries
        .map(|entry| format!("{}\n", entry.file_name().to_string_lossy()))
        .collect()
}

/// The value of the line of `/proc/self/status` with this name.
fn status_line(name: &str) -> Option<String> {
    let text = read_text("/proc/self/status")?;
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.trim().to_owned())
}

/// The result of the clock's comparison of the CPUs' counters, in words.
fn comparison_text(comparison: CounterComparison) -> String {
    match comparison {
        CounterComparison::Pending => "not compared by this program".to_owned(),
        CounterComparison::Single => "one CPU only".to_owned(),
        CounterComparison::Synchronised { cpus } => format!("synchronised on {cpus} CPUs"),
        CounterComparison::Unsynchronised {
            cpu,
            other_cpu,
            difference,
        } => format!(
            "CPU {cpu} and CPU {other_cpu} are unsynchronised by at least {} ticks",
            difference.size_ticks()
        ),
        _ => "could not be compared".to_owned(),
    }
}
