//! The facts that the gates judge. Other code collects them.

use super::Reason;
use crate::clocksource::{Acceptance, Clocksource};
use crate::comparison::CounterComparison;

crate::named! {
    /// The authority whose verdict on the counter counts.
    ///
    /// ```
    /// use tickline_core::gate::Trust;
    ///
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

/// What has switched the counter off.
///
/// ```
/// use tickline_core::gate::{Facts, Gate, Reason, SwitchedOffBy, judge};
///
/// let mut facts = Facts::UNKNOWN;
/// facts.switched_off_by = Some(SwitchedOffBy::Program);
/// assert_eq!(judge(Gate::User, &facts).closed_by(), Some(Reason::DisabledByProgram));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SwitchedOffBy {
    /// The program: it has called `disable()`.
    Program,
    /// The environment: it says `TICKLINE=off`.
    Environment,
}

impl SwitchedOffBy {
    /// The reason for which [`Gate::User`](super::Gate::User) is closed.
    #[must_use]
    pub const fn reason(self) -> Reason {
        match self {
            Self::Program => Reason::DisabledByProgram,
            Self::Environment => Reason::DisabledByEnvironment,
        }
    }
}

/// The durations of three calls, picoseconds. All three are measured in the same way, in one run.
///
/// ```
/// use tickline_core::gate::{Cost, Facts, Gate, Reason, judge};
///
/// let mut facts = Facts::UNKNOWN;
/// facts.cost = Some(Cost { counter_ps: 60_000, os_ps: 25_000, os_unix_ps: 25_000 });
/// assert_eq!(judge(Gate::Cost, &facts).closed_by(), Some(Reason::Slow));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// A plain read of the counter, ps. It leaves out the arithmetic of a reading.
    pub counter_ps: u64,
    /// A reading of monotonic time by the OS, ps.
    pub os_ps: u64,
    /// A reading of Unix time by the OS, ps. Some systems answer one of the two clocks in user
    /// mode, and the other by a system call.
    pub os_unix_ps: u64,
}

/// The facts that the gates judge. Begin with [`UNKNOWN`](Self::UNKNOWN), with which the counter
/// may not be used, and set the fields whose facts are known. Later versions may add fields.
///
/// ```
/// use tickline_core::gate::{Facts, Gate, Reason, judge};
///
/// let mut facts = Facts::UNKNOWN;
/// assert_eq!(judge(Gate::Supported, &facts).closed_by(), Some(Reason::NoCounter));
/// facts.has_counter = true;
/// assert_ne!(judge(Gate::Supported, &facts).closed_by(), Some(Reason::NoCounter));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Facts {
    /// What has switched the counter off; `None` if it is on.
    pub switched_off_by: Option<SwitchedOffBy>,
    /// The authority whose verdict on the counter counts.
    pub trust: Trust,
    /// Whether the program assumes that the counter is invariant, even if the processor denies it.
    pub assume_invariant: bool,
    /// Whether the target has a counter.
    pub has_counter: bool,
    /// Whether the processor can swap the state of a clock:
    /// [`has_atomics`](crate::state::has_atomics).
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
    /// Whether the kernel would keep time with that clocksource. Not asked of a kernel that does.
    pub kernel_acceptance: Acceptance,
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
        is_virtual: true, // `needs_comparison` then holds, whatever else is known
        clocksource: Clocksource::Unknown,
        matching_clocksource: Clocksource::Unknown,
        kernel_acceptance: Acceptance::Unknown,
        comparison: CounterComparison::Pending,
        has_line_per_cpu: false,
        cost: None,
        was_slower_than_os: false,
        unix_was_slower_than_os: false,
        resolution_ticks: None,
    };
}
