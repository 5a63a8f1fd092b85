//! The facts that the gates judge. Other code collects them; this file knows the names that
//! kernels and processors use.

use super::Reason;
use crate::comparison::CounterComparison;
use crate::reference::{ReferenceKind, Resolutions};

crate::named! {
    /// The authority whose verdict on the counter counts.
    ///
    /// ```
    /// use tickline_core::gate::Trust;
    ///
    /// // In `tickline`: `Clock::builder().trust(Trust::Kernel)`.
    /// assert_eq!(Trust::default(), Trust::Auto);
    /// ```
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub enum Trust {
        /// Only the kernel: the counter is used where the kernel keeps time with it.
        Kernel => "kernel",
        /// The kernel, where its verdict is for or against the counter. Elsewhere a comparison of
        /// the CPUs' counters decides: if the administrator chose another clock, a hypervisor's
        /// clock is in use, or the kernel can't be asked.
        #[default]
        Auto => "auto",
        /// The comparison, even against the kernel's verdict. This is for machines whose kernel
        /// rejected the counter for a reason that does not matter to the program. A comparison at
        /// one moment can't show drift, or an effect of power states, which the kernel may have
        /// seen.
        Measured => "measured",
    }
}

/// The kernel's clock: the counter or timer with which it keeps time.
///
/// ```
/// use tickline_core::gate::Clocksource;
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
    /// `jiffies` or `refined-jiffies`: timer interrupts.
    Jiffies,
    /// Any other name.
    Other,
    /// The name could not be read.
    Unknown,
}

impl Clocksource {
    /// Every clocksource that has a name here, with that name.
    pub(super) const NAMED: [(&'static str, Self); 11] = [
        ("tsc", Self::Tsc),
        ("tsc-early", Self::TscEarly),
        ("arch_sys_counter", Self::ArchSysCounter),
        ("riscv_clocksource", Self::Riscv),
        ("kvm-clock", Self::KvmClock),
        ("hyperv_clocksource_tsc_page", Self::HypervPage),
        ("xen", Self::Xen),
        ("hpet", Self::Hpet),
        ("acpi_pm", Self::AcpiPm),
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
    /// `available_clocksource` in sysfs spells it; `None` for an empty list.
    ///
    /// The list begins with the clocksource that the kernel rates highest (`clocksource_enqueue`,
    /// `kernel/time/clocksource.c`). A kernel rates each counter above the timers hpet (250),
    /// `acpi_pm` (200) and jiffies (1). It gives a counter that it has marked unstable the rating 0
    /// (`__clocksource_watchdog_kthread`), but still lists that counter, unless the tick is in
    /// one-shot mode (`available_clocksource_show`). So a counter behind a timer is not accepted.
    ///
    /// ```
    /// use tickline_core::gate::Clocksource;
    ///
    /// assert_eq!(Clocksource::Tsc.is_accepted(b"tsc hpet acpi_pm \n"), Some(true));
    /// assert_eq!(Clocksource::Tsc.is_accepted(b"hpet acpi_pm jiffies tsc \n"), Some(false));
    /// ```
    #[must_use]
    pub fn is_accepted(self, list: &[u8]) -> Option<bool> {
        let mut accepts = None;
        for name in list.split(u8::is_ascii_whitespace) {
            match Self::from_name(name) {
                Self::Unknown => {} // empty, at a second space
                named if named == self => return Some(true),
                Self::Hpet | Self::AcpiPm | Self::Jiffies => return Some(false),
                _ => accepts = Some(false),
            }
        }
        accepts
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
            // 100 Hz is the slowest tick that Linux can be built with.
            (Self::Jiffies, _) => (10_000_000, ReferenceKind::Independent),
            // 3.579545 MHz (ACPI specification 6.5, 4.8.2.1). Any other clock may be as coarse as
            // this coarsest timer that a PC has.
            (Self::AcpiPm | Self::Other | Self::Unknown, _) => (280, ReferenceKind::Independent),
        };
        Resolutions {
            counter_ticks,
            reference_ns,
            reference_kind,
        }
    }
}

/// The durations of three calls, picoseconds. All three are measured in the same way, in one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// A reading by the counter.
    pub counter_ps: u64,
    /// A reading of monotonic time by the OS.
    pub os_ps: u64,
    /// A reading of Unix time by the OS. Some systems answer one of the two clocks in user mode,
    /// and the other by a system call.
    pub os_unix_ps: u64,
}

/// The facts that the gates judge. Begin with [`UNKNOWN`](Self::UNKNOWN), with which the counter
/// may not be used, and set the fields whose facts are known. Later versions may add fields.
///
/// ```
/// use tickline_core::gate::{Facts, Gate, Reason, judge};
///
/// let mut facts = Facts::UNKNOWN;
/// assert_eq!(judge(Gate::Supported, &facts).closed_by, Some(Reason::NoCounter));
/// facts.has_counter = true;
/// assert_ne!(judge(Gate::Supported, &facts).closed_by, Some(Reason::NoCounter));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Facts {
    /// Why the counter is switched off: [`Reason::DisabledByProgram`] or
    /// [`Reason::DisabledByEnvironment`]; `None` if it is on.
    pub switched_off_by: Option<Reason>,
    /// The authority whose verdict on the counter counts.
    pub trust: Trust,
    /// Whether the program assumes that the counter is invariant, even if the processor denies it.
    pub assume_invariant: bool,
    /// Whether the target has a counter.
    pub has_counter: bool,
    /// Whether the processor can swap the state of a clock:
    /// [`has_atomics`](crate::cell::has_atomics).
    pub has_atomics: bool,
    /// Whether the process may read the counter.
    pub may_read_counter: bool,
    /// Whether the counter is invariant. On ARM and RISC-V it always is: the architecture demands
    /// it.
    pub is_invariant: bool,
    /// Whether a hypervisor runs the machine.
    pub is_virtual: bool,
    /// The clocksource with which the kernel keeps time.
    pub clocksource: Clocksource,
    /// The clocksource that a kernel names if it keeps time with this target's counter.
    pub matching_clocksource: Clocksource,
    /// Whether the kernel would accept that clocksource; `None` if it does not say.
    pub kernel_accepts: Option<bool>,
    /// The result of a comparison of the CPUs' counters.
    pub comparison: CounterComparison,
    /// Whether each CPU has a line of its own.
    pub has_line_per_cpu: bool,
    /// The cost of readings; `None` if the counter may not be read, or the cost was not measured
    /// yet.
    pub cost: Option<Cost>,
    /// Whether the last judgement found the counter slower than the OS for monotonic time.
    pub was_slower_than_os: bool,
    /// Whether the last judgement found the counter slower than the OS for Unix time.
    pub unix_was_slower_than_os: bool,
    /// Resolution of the counter, ticks; 0 if it stood still, `None` if it may not be read.
    pub resolution_ticks: Option<u64>,
}

impl Facts {
    /// The facts before any is known: no counter, and no kernel.
    pub const UNKNOWN: Self = Self {
        switched_off_by: None,
        trust: Trust::Auto,
        assume_invariant: false,
        has_counter: false,
        has_atomics: false,
        may_read_counter: false,
        is_invariant: false,
        is_virtual: true,
        clocksource: Clocksource::Unknown,
        matching_clocksource: Clocksource::Unknown,
        kernel_accepts: None,
        comparison: CounterComparison::Pending,
        has_line_per_cpu: false,
        cost: None,
        was_slower_than_os: false,
        unix_was_slower_than_os: false,
        resolution_ticks: None,
    };
}
