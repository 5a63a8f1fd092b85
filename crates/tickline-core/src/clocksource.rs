//! The kernel's clocksources: their names, the kernel's list of them, and their resolutions.

use core::ffi::CStr;

use crate::reference::{ReferenceKind, Resolutions};
use crate::units::NS_PER_S;

/// The kernel's clock: the counter or timer with which it keeps time.
///
/// ```
/// use tickline_core::clocksource::Clocksource;
///
/// assert_eq!(Clocksource::from_name(b"arch_sys_counter\n"), Clocksource::ArchSysCounter);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Clocksource {
    /// `tsc`: the x86 counter.
    Tsc,
    /// `tsc-early`: the x86 counter, before the kernel has decided about it.
    TscEarly,
    /// `arch_sys_counter`: the ARM generic timer.
    ArchSysCounter,
    /// `riscv_clocksource`: the RISC-V wall-clock counter.
    Riscv,
    /// `kvm-clock`: the counter, scaled by the KVM host.
    KvmClock,
    /// `hyperv_clocksource_tsc_page`: the counter, scaled by Hyper-V.
    HypervPage,
    /// `xen`: the counter, scaled by the Xen host.
    Xen,
    /// `hpet`: the high precision event timer.
    Hpet,
    /// `acpi_pm`: the ACPI power management timer.
    AcpiPm,
    /// `pit`: the programmable interval timer of a PC.
    Pit,
    /// `timer_us` or `usec`: a timer of 1 MHz (Tegra).
    Timer1Mhz,
    /// `32k_counter` (OMAP) or `sprd_suspend_timer` (Spreadtrum): a timer of 32,768 Hz.
    Timer32Khz,
    /// `tegra_suspend_timer`: a timer of 1 kHz.
    Timer1Khz,
    /// `jiffies` or `refined-jiffies`: timer interrupts.
    Jiffies,
    /// Any other name. Its resolution is taken to be that of the ACPI timer, 280 ns. If it is
    /// coarser, the bounds are too narrow by the difference.
    Other,
    /// The name could not be read.
    Unknown,
}

/// Whether a kernel accepts a CPU counter's clocksource: [`Clocksource::acceptance`].
///
/// ```
/// use tickline_core::clocksource::Acceptance;
/// use tickline_core::gate::Facts;
///
/// assert_eq!(Facts::UNKNOWN.kernel_acceptance, Acceptance::Unknown);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Acceptance {
    /// The kernel would keep time with the counter.
    Accepted,
    /// The kernel does not list the counter, or has marked it unstable.
    Rejected,
    /// Not known: there is no list, or nobody has read it.
    Unknown,
}

impl Clocksource {
    /// The file of sysfs with the name of the kernel's clocksource, for
    /// [`from_name`](Self::from_name): `Documentation/ABI/testing/sysfs-devices-system-clocksource`
    /// of the kernel.
    ///
    /// ```
    /// use tickline_core::clocksource::Clocksource;
    ///
    /// let file = Clocksource::CURRENT_FILE.to_str().unwrap();
    /// let clocksource = std::fs::read(file).map_or(Clocksource::Unknown, |name| Clocksource::from_name(&name));
    /// println!("{clocksource:?}");
    /// ```
    pub const CURRENT_FILE: &'static CStr =
        c"/sys/devices/system/clocksource/clocksource0/current_clocksource";

    /// The file of sysfs with the list of clocksources, for [`acceptance`](Self::acceptance).
    pub const AVAILABLE_FILE: &'static CStr =
        c"/sys/devices/system/clocksource/clocksource0/available_clocksource";

    /// Every clocksource that has a name here, with that name.
    pub(crate) const NAMED: [(&'static str, Self); 17] = [
        ("tsc", Self::Tsc),
        ("tsc-early", Self::TscEarly),
        ("arch_sys_counter", Self::ArchSysCounter),
        ("riscv_clocksource", Self::Riscv),
        ("kvm-clock", Self::KvmClock),
        ("hyperv_clocksource_tsc_page", Self::HypervPage),
        ("xen", Self::Xen),
        ("hpet", Self::Hpet),
        ("acpi_pm", Self::AcpiPm),
        ("pit", Self::Pit),
        ("timer_us", Self::Timer1Mhz),
        ("usec", Self::Timer1Mhz),
        ("32k_counter", Self::Timer32Khz),
        ("sprd_suspend_timer", Self::Timer32Khz),
        ("tegra_suspend_timer", Self::Timer1Khz),
        ("jiffies", Self::Jiffies),
        ("refined-jiffies", Self::Jiffies),
    ];

    /// The clocksource of exactly this name, as `current_clocksource` in sysfs spells it; a
    /// trailing line break is allowed. Never a substring: `hyperv_clocksource_tsc_page` is not
    /// `tsc`.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Self {
        let name = name.strip_suffix(b"\n").unwrap_or(name);
        if name.is_empty() {
            return Self::Unknown;
        }
        Self::NAMED
            .iter()
            .find(|(known, _)| known.as_bytes() == name)
            .map_or(Self::Other, |(_, clocksource)| *clocksource)
    }

    /// Whether a kernel accepts this CPU counter's clocksource, by its list as
    /// `available_clocksource` in sysfs spells it. [`Unknown`](Acceptance::Unknown) for an empty
    /// list.
    ///
    /// The list begins with the clocksource that the kernel rates highest (`clocksource_enqueue`,
    /// `kernel/time/clocksource.c`). A kernel rates each counter above the timers hpet (250),
    /// `acpi_pm` (200) and jiffies (1). It gives a counter that it has marked unstable the rating 0
    /// (`__clocksource_watchdog_kthread`), but still lists that counter, unless the tick is in
    /// one-shot mode (`available_clocksource_show`). So a counter behind a timer is not accepted.
    ///
    /// ```
    /// use tickline_core::clocksource::{Acceptance, Clocksource};
    ///
    /// let acceptance = |list: &str| Clocksource::Tsc.acceptance(list.as_bytes());
    /// assert_eq!(acceptance("tsc hpet acpi_pm \n"), Acceptance::Accepted);
    /// assert_eq!(acceptance("hpet acpi_pm jiffies tsc \n"), Acceptance::Rejected);
    /// ```
    #[must_use]
    pub fn acceptance(self, list: &[u8]) -> Acceptance {
        let mut acceptance = Acceptance::Unknown;
        for name in list.split(u8::is_ascii_whitespace) {
            match Self::from_name(name) {
                Self::Unknown => {} // empty, at a second space
                named if named == self => return Acceptance::Accepted,
                Self::Hpet | Self::AcpiPm | Self::Jiffies => return Acceptance::Rejected,
                _ => acceptance = Acceptance::Rejected,
            }
        }
        acceptance
    }

    /// The resolutions of a counter that moves by `counter_ticks` at a time, and of the clock that
    /// the kernel keeps with this clocksource. A kernel that keeps time with the same counter adds
    /// only a nanosecond of rounding. Only on x86 does the kernel's read of the counter take as
    /// long as a read here. Both execute the same instruction there, behind the same barrier
    /// (`rdtsc_ordered`). On Arm the kernel may have a quicker instruction (`CNTVCTSS_EL0`); on
    /// RISC-V it has no barrier.
    #[must_use]
    pub const fn resolutions(self, matching_clocksource: Self, counter_ticks: u64) -> Resolutions {
        let (reference_ns, reference_kind) = match (self, matching_clocksource) {
            (Self::Tsc, Self::Tsc) => (1, ReferenceKind::SameRead),
            (Self::TscEarly, Self::Tsc)
            | (Self::ArchSysCounter, Self::ArchSysCounter)
            | (Self::Riscv, Self::Riscv) => (1, ReferenceKind::SameCounter),
            // On Arm a clocksource of this name is a register of 31.25 MHz (Linux,
            // `drivers/clocksource/timer-tegra186.c`).
            (Self::Tsc, Self::ArchSysCounter) => {
                (period_ns(31_250_000), ReferenceKind::Independent)
            }
            (
                Self::Tsc
                | Self::TscEarly
                | Self::ArchSysCounter
                | Self::Riscv
                | Self::KvmClock
                | Self::Xen,
                _,
            ) => (1, ReferenceKind::Independent),
            // Units of 100 ns (Hypervisor Top Level Functional Specification, "Reference
            // Counter"); the HPET's period is at most 100 ns (IA-PC HPET specification 1.0a,
            // 2.3.4).
            (Self::HypervPage | Self::Hpet, _) => (100, ReferenceKind::Independent),
            // 100 Hz is the slowest tick on x86, arm64 and riscv (Linux, `kernel/Kconfig.hz`).
            (Self::Jiffies, _) => (10_000_000, ReferenceKind::Independent),
            // `PIT_TICK_RATE` (Linux, `include/linux/timex.h`).
            (Self::Pit, _) => (period_ns(1_193_182), ReferenceKind::Independent),
            // Linux, `drivers/clocksource`: `timer-tegra.c`, `timer-tegra186.c`, `timer-ti-32k.c`,
            // and `timer-sprd.c`, whose device tree usually names a clock of 32,768 Hz.
            (Self::Timer1Mhz, _) => (period_ns(1_000_000), ReferenceKind::Independent),
            (Self::Timer32Khz, _) => (period_ns(32_768), ReferenceKind::Independent),
            (Self::Timer1Khz, _) => (period_ns(1_000), ReferenceKind::Independent),
            // ACPI specification 6.5, 4.8.2.1. A clocksource without a name here is taken to be as
            // coarse.
            (Self::AcpiPm | Self::Other | Self::Unknown, _) => {
                (period_ns(3_579_545), ReferenceKind::Independent)
            }
        };
        Resolutions {
            counter_ticks,
            reference_ns,
            reference_kind,
        }
    }
}

/// The period of a timer of this frequency, ns, rounded up.
const fn period_ns(hz: u64) -> i64 {
    NS_PER_S.div_ceil(hz).cast_signed()
}

#[cfg(test)]
mod tests;
