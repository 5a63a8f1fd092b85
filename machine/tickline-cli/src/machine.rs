//! Collects the facts of the machine. An unreadable fact is `None`, and null in JSON. `--facts`
//! reads the facts of a recorded machine back. `questions` and `kernel_log` say what the facts
//! mean, and `diagnose` judges them.

mod container;
mod cpuid;
mod daemon_state;
pub(crate) mod kernel_log;
mod kernel_ntp;
mod platform;
mod questions;
pub(crate) mod resume;
#[cfg_attr(not(target_os = "linux"), path = "machine/unsupported.rs")]
mod system;
#[cfg(test)]
mod tests;
mod told_by_host;

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tickline::{CounterComparison, Status};

use crate::clocksources::{AVAILABLE_FILE, CURRENT_FILE};

pub(crate) use cpuid::Cpuid;
#[cfg(target_os = "linux")]
pub(crate) use daemon_state::IgnoredBecause;
pub(crate) use daemon_state::{
    CHRONYD, Channel, IgnoredAnswer, NTPD, NtpDaemon, PTP4L, Ptp4l, TIMESYNCD,
};
pub(crate) use kernel_ntp::{Leap, MAX_PHASE_NS, Ntp};
use platform::Text;
pub(crate) use platform::{Cloud, Hypervisor};
pub(crate) use system::{
    allow_counter, clock_gettime_file, host_clock_now, is_root, may_read_counter,
};
// For commands that only Linux has.
#[cfg(target_os = "linux")]
pub(crate) use system::{ntp, page, process_name};
// For `run`.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(crate) use system::library;
pub(crate) use told_by_host::{HostClock, HostMoment, VmClock};

/// Whether a file that provides `clock_gettime` is a libc by its name: glibc (up to 2.16 in librt),
/// musl, or Android's libc. The preload library has a list of its own (`libc_name.rs`).
pub(crate) fn is_libc(file: &str) -> bool {
    const BEGINNINGS: [&str; 4] = ["libc.so", "libc.musl", "ld-musl", "librt.so"];
    let name = file.rsplit('/').next().unwrap_or(file);
    let has_version = |library: &str| {
        name.strip_prefix(library)
            .is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    BEGINNINGS.iter().any(|library| name.starts_with(library))
        || ["libc-", "librt-"].into_iter().any(has_version)
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
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    #[serde(deserialize_with = "platform::known_hypervisor")]
    pub(crate) hypervisor: Option<Hypervisor>,
    /// Whether the machine is Xen's first domain (dom0), which has the firmware and the counter of
    /// the host; null if the kernel does not say it, as without Xen.
    pub(crate) xen_dom0: Option<bool>,
    /// The vendor and the product that the firmware names.
    pub(crate) product: Option<String>,
    /// The cloud that the firmware names, as a stable code: `ec2_nitro`, `ec2_xen`, `google`,
    /// `azure`; null if the firmware names none of these.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) cloud: Option<Cloud>,
    /// The program that has made the container in which the process runs, by a name such as
    /// `docker`, `podman`, `lxc` or `kubernetes`; `other` if it is unknown; null if nothing shows a
    /// container.
    pub(crate) container: Option<String>,
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
    /// The pace of libc's `CLOCK_MONOTONIC` minus that of the system call's, as far as a short
    /// comparison proves a difference, ppb.
    pub(crate) clock_gettime_skew_ppb: Option<i64>,
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
    /// Whether that page serves a line now, from which programs take the time; null if there is no
    /// page, or if the process may not read the counter.
    pub(crate) page_served: Option<bool>,
    /// Whether `tickline serve off` has switched that page off; null if that is unknown.
    pub(crate) page_switched_off: Option<bool>,
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
    /// The tool or the file that changes the kernel's command line for the next start, as a stable
    /// code: `rpm_ostree`, `ostree` (without rpm-ostree), `proxmox` (proxmox-boot-tool),
    /// `kernelstub` (Pop!_OS), `grubby`, `grub` (Debian's update-grub), `extlinux` (Alpine's
    /// update-extlinux), `cmdline_txt` (that of the Raspberry Pi); null if there is none of these,
    /// or if systemd-boot may start the machine in place of GRUB.
    pub(crate) boot_loader: Option<String>,
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

impl Machine {
    /// Collects all facts but two, which `Setup::document` adds: `counter_readable`, which this
    /// program may have changed since its start, and `clock_gettime_skew_ppb`, whose measurement
    /// takes a while.
    pub(crate) fn read(status: &Status) -> Self {
        let system = system::facts();
        let log = system.kernel_log.as_ref().map(|log| log.join("\n"));
        let text_of = |text: Text| platform_text(text, "", log.as_deref());
        let hypervisor = platform::first_match(&platform::HYPERVISORS, text_of);
        let (synchronised_cpus, counter_difference_ticks) = match status.comparison {
            CounterComparison::Synchronised { cpus, .. } => (Some(cpus), None),
            CounterComparison::Unsynchronised { difference, .. } => {
                (None, Some(difference.smallest_ticks()))
            }
            _ => (None, None),
        };
        Self {
            cpu: cpu_name(),
            architecture: Some(std::env::consts::ARCH.to_owned()),
            kernel: read_line("/proc/sys/kernel/osrelease"),
            kernel_command_line: read_line("/proc/cmdline"),
            clocksource: clocksource(),
            available_clocksources: read_line(AVAILABLE_FILE),
            hypervisor: hypervisor.or_else(cpuid::hypervisor),
            xen_dom0: xen_dom0(""),
            cloud: platform::first_match(&platform::CLOUDS, text_of),
            product: product_name(DMI),
            container: container::name(),
            cpuid: cpuid::read(),
            vdso_mapped: read_text("/proc/self/maps").map(|maps| maps.contains("[vdso]")),
            tracer_pid: status_line("TracerPid:").and_then(|pid| pid.parse().ok()),
            allowed_cpus: status_line("Cpus_allowed_list:"),
            online_cpus: online_cpus(),
            boot_loader: boot_loader("").map(str::to_owned),
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

    /// Names the cloud of a recorded guest whose facts have the product alone, as those of older
    /// versions of `facts.sh`. EC2 on Xen, and Azure, can't be told by the product.
    pub(crate) fn add_cloud_of_product(&mut self) {
        if self.cloud.is_some() || self.is_guest() != Some(true) {
            return;
        }
        self.cloud = match self.product.as_deref() {
            Some("Google Google Compute Engine") => Some(Cloud::Google),
            Some(product) if product.starts_with("Amazon EC2") => Some(Cloud::Ec2Nitro),
            _ => None,
        };
    }

    /// The counter's frequency that the hypervisor, the processor or the firmware of this machine
    /// states, Hz. `None` in a guest whose hypervisor states none. A recorded machine's firmware
    /// can't be asked: see `Document::recorded_nominal_hz`.
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
    read_line(CURRENT_FILE)
}

/// The CPUs that are online, as a list of ranges.
pub(crate) fn online_cpus() -> Option<String> {
    read_line("/sys/devices/system/cpu/online")
}

fn cpu_name() -> Option<String> {
    let text = read_text("/proc/cpuinfo")?;
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))?;
    Some(name.1.to_owned())
}

/// A text about the platform, from the files below `root`, which is empty for this machine.
fn platform_text(text: Text, root: &str, kernel_log: Option<&str>) -> Option<String> {
    match text {
        Text::KernelVersion => read_line(&format!("{root}/proc/version")),
        Text::KernelLog => kernel_log.map(str::to_owned),
        Text::AcpiDevices => Some(acpi_devices(&format!("{root}{ACPI_DEVICES}"))),
        Text::VendorAndProduct => product_name(&format!("{root}{DMI}")),
        Text::Dmi(field) => dmi_field(&format!("{root}{DMI}"), field),
    }
}

/// The folder with the devices that the ACPI tables name.
const ACPI_DEVICES: &str = "/sys/bus/acpi/devices";

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

/// The devices of the ACPI tables in this folder, one on each line; empty without ACPI or `/sys`.
fn acpi_devices(folder: &str) -> String {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| format!("{}\n", entry.file_name().to_string_lossy()))
        .collect()
}

/// Whether the machine is Xen's first domain, by the files below `root`, which is empty for this
/// machine. The name of a hypervisor does not tell: CPUID and `/sys/hypervisor/type` name Xen in
/// dom0, too. `xenfs` may not be mounted, and Xen before 4.2 has no bit for dom0
/// (`capabilities_read` in `drivers/xen/xenfs/super.c`; `XENFEAT_dom0` in
/// `include/xen/interface/features.h`).
fn xen_dom0(root: &str) -> Option<bool> {
    const DOM0: u64 = 1 << 11;
    let by_features = read_line(&format!("{root}/sys/hypervisor/properties/features"))
        .and_then(|features| u64::from_str_radix(&features, 16).ok())
        .map(|features| features & DOM0 != 0);
    let has_control = |text: String| text.trim().split(',').any(|word| word == "control_d");
    let by_capabilities = read_text(format!("{root}/proc/xen/capabilities")).map(has_control);
    if by_capabilities == Some(true) {
        return by_capabilities;
    }
    by_features.or(by_capabilities)
}

// The codes of boot loaders.
pub(crate) const GRUBBY: &str = "grubby";
pub(crate) const GRUB: &str = "grub";
pub(crate) const EXTLINUX: &str = "extlinux";
pub(crate) const RPM_OSTREE: &str = "rpm_ostree";
pub(crate) const OSTREE: &str = "ostree";
pub(crate) const PROXMOX: &str = "proxmox";
pub(crate) const KERNELSTUB: &str = "kernelstub";
pub(crate) const CMDLINE_TXT: &str = "cmdline_txt";

/// The tool or the file that changes the kernel's command line, by the files below `root`, which is
/// empty for this machine. A system that ostree has started, the disks of proxmox-boot-tool, and
/// kernelstub with EFI have boot entries of their own, whatever other tools are installed.
fn boot_loader(root: &str) -> Option<&'static str> {
    let exists = |file: &str| Path::new(&format!("{root}{file}")).exists();
    if exists("/run/ostree-booted") {
        let has_rpm_ostree = exists("/usr/bin/rpm-ostree");
        Some(if has_rpm_ostree { RPM_OSTREE } else { OSTREE })
    } else if exists("/etc/kernel/proxmox-boot-uuids") {
        Some(PROXMOX)
    } else if exists("/usr/bin/kernelstub") && exists("/sys/firmware/efi") {
        Some(KERNELSTUB)
    } else if ["/usr/sbin/grubby", "/sbin/grubby", "/usr/bin/grubby"]
        .into_iter()
        .any(exists)
    {
        Some(GRUBBY)
    } else if exists("/usr/sbin/update-grub") && exists("/etc/default/grub") {
        // systemd-boot reads the other file.
        (!exists("/etc/kernel/cmdline")).then_some(GRUB)
    } else if exists("/etc/update-extlinux.conf") {
        Some(EXTLINUX)
    } else {
        ["/boot/firmware/cmdline.txt", "/boot/cmdline.txt"]
            .into_iter()
            .any(exists)
            .then_some(CMDLINE_TXT)
    }
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
        CounterComparison::Synchronised { cpus, .. } => format!("synchronised on {cpus} CPUs"),
        CounterComparison::Unsynchronised {
            cpu,
            other_cpu,
            difference,
        } => format!(
            "CPU {cpu} and CPU {other_cpu} are unsynchronised by at least {} ticks",
            difference.smallest_ticks()
        ),
        _ => "could not be compared".to_owned(),
    }
}
