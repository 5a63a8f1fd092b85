//! The recorded machines, and what the program must find on each.

/// A recorded machine, and what the program must find.
pub(super) struct Recorded {
    /// The name of its file in `tests/facts`.
    pub(super) name: &'static str,
    /// The codes of the findings, the most severe first.
    pub(super) findings: &'static [&'static str],
    /// A part of the first finding's fix.
    pub(super) fix: &'static str,
}

/// A machine without findings.
const fn well(name: &'static str) -> Recorded {
    found(name, &[], "")
}

const fn found(
    name: &'static str,
    findings: &'static [&'static str],
    fix: &'static str,
) -> Recorded {
    Recorded {
        name,
        findings,
        fix,
    }
}

pub(super) const MACHINES: [Recorded; 68] = [
    found(
        "an-hour-off",
        &["ntp_unsynchronised"],
        "sudo timedatectl set-ntp true",
    ),
    found(
        "arm-chosen-timer",
        &["clocksource_not_chosen"],
        "echo arch_sys_counter",
    ),
    found(
        "bare-metal-watchdog",
        &["tsc_skew"],
        "the kernel may be right",
    ),
    found("behind-a-local-clock", &["utc_unproven"], "chronyc sources"),
    found(
        "bhyve-acpi-pm",
        &["tsc_skew"],
        "on the host: compare its counters",
    ),
    found(
        "busybox-ntpd",
        &["ntp_unsynchronised"],
        "start no second one",
    ),
    found(
        "calibration-failed-jiffies",
        &["tsc_missing"],
        "tsc_early_khz=KHZ",
    ),
    found("chrony-plain", &["ntp_flag"], "chronyc tracking"),
    well("chrony-rtcsync"),
    found("chrony-slewing", &["ntp_slewing", "ntp_flag"], "makestep"),
    found("chronyd-7-percent", &["clock_rate_wrong"], "restart"),
    found("chronyd-alone", &["ntp_unsynchronised"], "chronyc sources"),
    found("chronyd-bad-server", &["clock_rate_wrong"], "other servers"),
    well("chronyd-phc"),
    found("chronyd-x", &["ntp_flag"], "chronyc tracking"),
    well("cloudrun-leaf15"),
    found("coffee-lake-hpet-broken", &["tsc_skew"], "hpet=disable"),
    found(
        "container-masked",
        &["clocksource_unknown"],
        "mount -t sysfs",
    ),
    found(
        "cpu-behind-after-watchdog",
        &["tsc_warp"],
        "update the firmware (BIOS)",
    ),
    found(
        "daemon-dead",
        &["utc_error_large"],
        "timedatectl timesync-status",
    ),
    found(
        "ec2-nitro-kvm-clock",
        &["paravirtual_clock_dearer"],
        "none: the cloud",
    ),
    found(
        "firecracker-kvm-clock",
        &["paravirtual_clock_dearer"],
        "decide first whether the host ever suspends",
    ),
    well("firecracker-scaled"),
    found("guest-hpet", &["tsc_not_chosen"], "echo tsc | sudo tee"),
    found("guest-warp-kvm", &["tsc_warp"], "on the host: start QEMU"),
    found(
        "gvisor-amd",
        &["counters_unsynchronised", "clocksource_unknown"],
        "run the sandbox on a host",
    ),
    found("hpet-listed-tsc", &["tsc_skew"], "the kernel may be right"),
    found(
        "hyperv-chosen-acpi-pm",
        &["clocksource_not_chosen", "counter_not_invariant"],
        "echo hyperv_clocksource_tsc_page",
    ),
    found(
        "hyperv-msr",
        &["hyperv_without_page"],
        "hyperv_clocksource_tsc_page",
    ),
    well("hyperv-page"),
    found("ice-lake-hpet-broken", &["tsc_watchdog"], "hpet=disable"),
    well("kvm-clickhouse"),
    found(
        "kvm-host-backwards",
        &["tsc_warp"],
        "update the firmware (BIOS)",
    ),
    well("leap-over"),
    found("leap-pending", &["leap_second"], "Bulletin C"),
    found("leap-slewed", &["leap_second"], "Bulletin C"),
    found(
        "linux71-first-line-only",
        &["tsc_warp"],
        "update the firmware (BIOS)",
    ),
    found("linux71-frequency-skew", &["tsc_skew"], "500 ppm"),
    found(
        "linux71-inter-cpu-skew",
        &["tsc_warp"],
        "update the firmware (BIOS)",
    ),
    found("mips-openwrt", &["vdso_unused"], "look for"),
    found("no-tsc-khz", &["tsc_unstable"], "tsc_early_khz=KHZ"),
    found(
        "nominal-11000-ppm",
        &["frequency_implausible"],
        "restart the guest",
    ),
    found("ntpd-at-its-limit", &["clock_rate_wrong"], "restart"),
    found(
        "numa-watchdog",
        &["tsc_watchdog_delay"],
        "tsc=nowatchdog clocksource=tsc",
    ),
    found("offset-at-the-limit", &["ntp_slewing"], "ntpq -p"),
    well("openntpd"),
    found(
        "parallels-warp",
        &["tsc_warp"],
        "on the host: compare its counters",
    ),
    found(
        "phc2sys-1",
        &["ntp_unsynchronised"],
        "see whether a program steers the clock",
    ),
    well("phc2sys"),
    found("pll-480-ms", &["ntp_slewing"], "ntpq -p"),
    found("ptpd", &["utc_unproven"], "phc2sys"),
    found(
        "qubes-xen",
        &["xen_clocksource"],
        "decide first whether the host ever suspends",
    ),
    found(
        "raspberry-pi-1",
        &["clocksource_slow"],
        "none: a processor of ARMv6",
    ),
    well("raspberry-pi-4"),
    found(
        "riscv64-emulated",
        &["counter_trapped"],
        "none: the processor",
    ),
    found(
        "slew-8-percent",
        &["ntp_slewing", "ntp_flag"],
        "wait until the NTP daemon",
    ),
    found(
        "unknown-hypervisor-unsynchronised",
        &["counters_unsynchronised"],
        "on the host: compare its counters",
    ),
    found(
        "virtualbox-chosen-acpi-pm",
        &["clocksource_not_chosen", "ntp_unsynchronised"],
        "echo kvm-clock",
    ),
    found(
        "virtualbox-debian7",
        &["tsc_warp"],
        "VBoxManage modifyvm NAME --paravirtprovider kvm",
    ),
    well("vmware-debian7"),
    found(
        "vmware-no-log",
        &["tsc_missing"],
        "monitor_control.virtual_rdtsc = \"FALSE\"",
    ),
    found(
        "vmware-synology",
        &["tsc_skew"],
        "boot with tsc=reliable clocksource=tsc (kernel 3.3 or later)",
    ),
    found(
        "wsl2-fast-steps",
        &["clock_rate_wrong", "unix_stepped"],
        "three or more servers",
    ),
    found("wsl2", &["ntp_unsynchronised"], "sudo hwclock -s"),
    found(
        "xen-aws-p3",
        &["xen_clocksource"],
        "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource",
    ),
    found("xen-emulated", &["counter_trapped"], "tsc_mode"),
    found(
        "xen-pv",
        &["xen_clocksource", "counter_not_invariant"],
        "nomigrate=1",
    ),
    found("xeon-hpet", &["tsc_skew"], "the kernel may be right"),
];
