//! Gates: facts -> verdicts. Pure functions; other code collects the facts.
//!
//! | the kernel keeps time with | and | [`Trust::Kernel`] | [`Trust::Auto`] | [`Trust::Measured`] |
//! |---|---|---|---|---|
//! | the counter | | open until a comparison says otherwise | same | same |
//! | `tsc-early` | | `kernel_undecided` | same | same |
//! | `kvm-clock`, `xen` | | `kernel_uses_other` | if compared | if compared |
//! | `hyperv_clocksource_tsc_page` | | `hypervisor_policy` | if compared | if compared |
//! | anything else | would accept the counter | `kernel_uses_other` | if compared | if compared |
//! | anything else | does not accept the counter | `kernel_rejected` | `kernel_rejected` | if compared |
//! | anything else | does not say | `kernel_unknown` | if compared | if compared |
//! | not known | | `kernel_unknown` | if compared | if compared |
//!
//! *If compared*: the counters of all CPUs that the process may use have been
//! [compared](CounterComparison), and are synchronised. If the last comparison found counters that
//! differ, [`Gate::Synchronised`] is closed in every row. A comparison takes a thread, so a clock
//! that readers drive never compares. A thread compares if the machine has a hypervisor, if the
//! kernel does not keep time with the counter, or if the last comparison found a difference. Trust
//! does not change the verdict of any other gate.
//!
//! Readings use the counter if every gate except [`Gate::UnixCost`] is open. `UnixCost` concerns
//! only Unix time. A closed gate names its [`Reason`], whose code is stable. A status shows the
//! first closed gate, in the order of [`Gate`].
//!
//! Costs are judged separately for monotonic and for Unix time, because some systems answer one in
//! user mode and the other by a system call. A read of the counter costs the same for both:
//!
//! | by the OS, monotonic time is | and Unix time | monotonic time | Unix time |
//! |---|---|---|---|
//! | dearer than by the counter | dearer | by the counter | by the counter |
//! | dearer | cheaper | by the counter | by the OS |
//! | cheaper | cheaper | by the OS | by the OS |
//! | cheaper by a tenth at most | dearer by more than a tenth | by the counter, with a warning | by the counter |
//! | cheaper by more, or Unix time dearer by a tenth at most | dearer | by the OS | by the OS |
//!
//! The last row is a choice. OS readings of monotonic time need a high-water mark. A cell holds
//! either a line or a mark, so there can't be a line only for Unix time. On no known system does
//! the OS read monotonic time faster than a program reads the counter from which the OS computes
//! it.

mod facts;
pub mod keeper;
#[cfg(test)]
mod tests;

pub use facts::{Cost, Facts, SwitchedOffBy, Trust};

use crate::clocksource::{Acceptance, Clocksource};
use crate::comparison::CounterComparison;
use crate::shared::Figures;

crate::named! {
    /// A condition for using the counter. The gates are judged in this order.
    ///
    /// ```
    /// use tickline_core::gate::Gate;
    ///
    /// assert_eq!(Gate::ALL.first().map(|gate| gate.code()), Some("user"), "in the order in which they are judged");
    /// ```
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Gate {
        /// Neither the program nor the environment has switched the counter off.
        User => "user",
        /// The machine can serve a clock by a counter: the target has one that this crate reads,
        /// and the processor can swap the state of a clock.
        Supported => "supported",
        /// The process may read the counter.
        Readable => "readable",
        /// The counter runs at one rate in all power states.
        Invariant => "invariant",
        /// The kernel keeps time with the counter, or [`Trust`] permits its use all the same.
        Kernel => "kernel",
        /// The counters of all CPUs are synchronised, or each CPU has a line of its own.
        Synchronised => "synchronised",
        /// Reading the counter is not slower than asking the OS for monotonic time. A read may be
        /// slower by up to a tenth where Unix time gains more than a tenth.
        Cost => "cost",
        /// Reading the counter is not slower than asking the OS for Unix time. Where this gate is
        /// closed, the OS serves Unix time, and the counter everything else.
        UnixCost => "unix_cost",
        /// The counter is calibrated, or can be. Warns while readings come from the OS clock
        /// because the last line has ended. Closed while no line can be made: the machine is too
        /// slow, or the thread that drives the clock has stopped.
        Calibration => "calibration",
    }
}

crate::named! {
    /// Why a gate is closed, or why it warns. The codes are stable. The texts are for any program
    /// that drives a clock: they say the fact, and what to do about it depends on the program. Two
    /// texts name what the crate `tickline` has decided: its variable `TICKLINE`, and the second
    /// after which it calls a driver stopped. A program with a switch or a limit of its own has its
    /// own texts for these.
    ///
    /// ```
    /// use tickline_core::gate::Reason;
    ///
    /// assert_eq!(Reason::DisabledByEnvironment.code(), "disabled_by_environment"); // for programs
    /// assert_eq!(Reason::DisabledByEnvironment.to_string(), "the environment variable TICKLINE is off"); // for people
    /// ```
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum Reason {
        /// `disable()` was called.
        DisabledByProgram => "disabled_by_program": "the program called disable()",
        /// The environment says `TICKLINE=off`.
        DisabledByEnvironment => "disabled_by_environment": "the environment variable TICKLINE is off",
        /// The target has no counter that this crate reads.
        NoCounter => "no_counter": "this target has no counter that tickline reads",
        /// The processor cannot swap 128 bits at once, which publishing a line takes.
        NoAtomics => "no_atomics": "the processor has no compare-and-swap of 128 bits (cmpxchg16b)",
        /// The process has been denied the counter (`PR_SET_TSC`).
        Denied => "denied": "the process may not read the counter (prctl PR_SET_TSC)",
        /// CPUID does not call the counter invariant.
        NotInvariant => "not_invariant":
            "CPUID does not call the counter invariant: its rate may change with power states",
        /// The kernel is still deciding about the counter (`tsc-early`).
        KernelUndecided => "kernel_undecided": "the kernel is still deciding whether it trusts the counter",
        /// The kernel does not accept the counter, and keeps time with something else.
        KernelRejected => "kernel_rejected": "the kernel does not accept the counter as a clocksource",
        /// The kernel keeps time with something else, though it would accept the counter.
        KernelUsesOther => "kernel_uses_other": "the kernel keeps time with another clocksource",
        /// Under Hyper-V the kernel keeps time with Hyper-V's clock, even if the counter is good.
        HypervisorPolicy => "hypervisor_policy":
            "Hyper-V's clocksource is in use, which says nothing about the counter",
        /// It is not known whether the kernel trusts the counter: the kernel's clocksource could
        /// not be read or was not asked for, or the kernel does not say whether it accepts the
        /// counter. On Windows no program can ask.
        KernelUnknown => "kernel_unknown": "it is not known whether the kernel trusts the counter",
        /// The counters of the CPUs have not been compared yet.
        Untested => "untested": "the counters of the CPUs have not been compared yet",
        /// The counters of the CPUs could not be compared
        /// ([`Impossible`](CounterComparison::Impossible) says why), or not closely enough.
        Untestable => "untestable": "the counters of the CPUs could not be compared",
        /// The counters of two CPUs differ. [`Facts::comparison`] names the CPUs and the
        /// difference, and so does `Status::comparison` of `tickline`.
        Unsynchronised => "unsynchronised": "the counters of two CPUs differ",
        /// Reading the counter takes longer than asking the OS for monotonic time. [`Facts::cost`]
        /// states the figures, and so does `Status::cost` of `tickline`.
        Slow => "slow": "reading the counter takes longer than asking the OS",
        /// Reading the counter takes longer than asking the OS for Unix time. This reason stops
        /// only Unix time, so no clock falls back for it alone.
        SlowForUnixTime => "slow_for_unix_time":
            "reading the counter takes longer than asking the OS for Unix time",
        /// The counter stood still while its resolution was measured.
        Stuck => "stuck": "the counter stands still",
        /// The counter ticks so slowly that it can't be used: no line fits it
        /// ([`LineCell`](crate::cell::LineCell)).
        CounterTooSlow => "counter_too_slow":
            "the counter ticks too slowly for a line, which needs more than 7.8125 MHz",
        /// The OS clock takes so long to read that the counter can't be calibrated by it: samples
        /// are too old for a line when they are complete.
        SamplesTooOld => "samples_too_old":
            "sampling the OS clock takes longer here than the interval allows",
        /// Readings come from the OS clock until the counter is calibrated: there is no line. For a
        /// gate this is only a warning: the last line has ended, as after a pause in readings, and
        /// the gate stays open. With a line for each CPU it is the reason on a CPU that has none,
        /// whether its line has ended or it never had one.
        NoLine => "no_line": "there is no line",
        /// Readings come from the OS clock until a thread goes on that has held the clock's lock
        /// for more than a second: there is no line, and meanwhile no other thread can make one.
        /// The thread may be slow, because it calibrates many busy CPUs. It may also have been
        /// stopped or killed in the middle of a recalibration. The system does not say which.
        DriverStopped => "driver_stopped":
            "a thread has held the clock's lock for more than a second: it is slow, as on many busy \
            CPUs, or was stopped or killed",
    }
}

impl Reason {
    /// The gate that is closed for this reason, or that warns.
    ///
    /// ```
    /// use tickline_core::gate::{Gate, Reason};
    ///
    /// assert_eq!(Reason::Denied.gate(), Gate::Readable);
    /// ```
    #[must_use]
    pub const fn gate(self) -> Gate {
        match self {
            Self::DisabledByProgram | Self::DisabledByEnvironment => Gate::User,
            Self::NoCounter | Self::NoAtomics => Gate::Supported,
            Self::Denied => Gate::Readable,
            Self::NotInvariant => Gate::Invariant,
            Self::KernelUndecided
            | Self::KernelRejected
            | Self::KernelUsesOther
            | Self::HypervisorPolicy
            | Self::KernelUnknown => Gate::Kernel,
            Self::Untested | Self::Untestable | Self::Unsynchronised => Gate::Synchronised,
            Self::Slow | Self::Stuck => Gate::Cost,
            Self::SlowForUnixTime => Gate::UnixCost,
            Self::CounterTooSlow | Self::SamplesTooOld | Self::NoLine | Self::DriverStopped => {
                Gate::Calibration
            }
        }
    }

    /// Whether a gate that is closed for this reason is expected to open within seconds, although
    /// neither the program nor the machine changes. A program that starts may wait so long.
    ///
    /// [`Untested`](Self::Untested) is temporary only where a thread compares the CPUs' counters,
    /// which the caller must know. Two reasons that may go away are not temporary.
    /// [`Slow`](Self::Slow): another measurement rarely differs.
    /// [`DriverStopped`](Self::DriverStopped): the thread has been away for a second already, and
    /// may be gone for good.
    ///
    /// ```
    /// use tickline_core::gate::Reason;
    ///
    /// assert!(Reason::KernelUndecided.is_temporary(), "the kernel decides within seconds of boot");
    /// assert!(!Reason::KernelRejected.is_temporary());
    /// ```
    #[must_use]
    pub const fn is_temporary(self) -> bool {
        match self {
            Self::Untested | Self::KernelUndecided | Self::SamplesTooOld | Self::NoLine => true,
            Self::DisabledByProgram
            | Self::DisabledByEnvironment
            | Self::NoCounter
            | Self::NoAtomics
            | Self::Denied
            | Self::NotInvariant
            | Self::KernelRejected
            | Self::KernelUsesOther
            | Self::HypervisorPolicy
            | Self::KernelUnknown
            | Self::Untestable
            | Self::Unsynchronised
            | Self::Slow
            | Self::SlowForUnixTime
            | Self::Stuck
            | Self::CounterTooSlow
            | Self::DriverStopped => false,
        }
    }
}

/// The verdict on a gate: the gate is open, open with a warning, or closed.
///
/// ```
/// use tickline_core::gate::{Facts, Gate, Reason, judge};
///
/// let verdict = judge(Gate::Readable, &Facts::UNKNOWN);
/// assert_eq!((verdict.closed_by(), verdict.warning()), (Some(Reason::Denied), None));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Verdict {
    gate: Gate,
    opening: Opening,
}

/// Whether a gate is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Opening {
    Open,
    OpenWithWarning(Reason),
    Closed(Reason),
}

impl Verdict {
    /// The gate is open, without a warning.
    #[must_use]
    pub const fn open(gate: Gate) -> Self {
        Self {
            gate,
            opening: Opening::Open,
        }
    }

    /// The reason's [gate](Reason::gate) is open, and warns.
    #[must_use]
    pub const fn with_warning(reason: Reason) -> Self {
        Self {
            gate: reason.gate(),
            opening: Opening::OpenWithWarning(reason),
        }
    }

    /// The reason's [gate](Reason::gate) is closed.
    #[must_use]
    pub const fn closed(reason: Reason) -> Self {
        Self {
            gate: reason.gate(),
            opening: Opening::Closed(reason),
        }
    }

    /// The gate.
    #[must_use]
    pub const fn gate(&self) -> Gate {
        self.gate
    }

    /// Why the gate is closed; `None` if it is open.
    #[must_use]
    pub const fn closed_by(&self) -> Option<Reason> {
        match self.opening {
            Opening::Closed(reason) => Some(reason),
            Opening::Open | Opening::OpenWithWarning(_) => None,
        }
    }

    /// Why the open gate warns; `None` without a warning.
    #[must_use]
    pub const fn warning(&self) -> Option<Reason> {
        match self.opening {
            Opening::OpenWithWarning(reason) => Some(reason),
            Opening::Open | Opening::Closed(_) => None,
        }
    }
}

/// The kernel's verdict on the counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KernelVerdict {
    /// The kernel keeps time with the counter.
    Uses,
    /// The kernel has not decided yet.
    Undecided,
    /// The kernel would accept the counter, or keeps time with a hypervisor's clock that is made of
    /// the counter.
    NotRejected,
    /// The kernel keeps time with Hyper-V's clock, which is made of the counter.
    HypervisorPolicy,
    /// The kernel does not accept the counter.
    Rejects,
    /// There is no kernel to ask, or it does not answer.
    Unknown,
}

const fn kernel_verdict(facts: &Facts) -> KernelVerdict {
    match (facts.clocksource, facts.matching_clocksource) {
        (Clocksource::Tsc, Clocksource::Tsc)
        | (Clocksource::ArchSysCounter, Clocksource::ArchSysCounter)
        | (Clocksource::Riscv, Clocksource::Riscv) => KernelVerdict::Uses,
        (Clocksource::TscEarly, Clocksource::Tsc) => KernelVerdict::Undecided,
        (Clocksource::KvmClock | Clocksource::Xen, Clocksource::Tsc) => KernelVerdict::NotRejected,
        (Clocksource::HypervPage, Clocksource::Tsc) => KernelVerdict::HypervisorPolicy,
        (Clocksource::Unknown, _) => KernelVerdict::Unknown,
        _ => match facts.kernel_acceptance {
            Acceptance::Accepted => KernelVerdict::NotRejected,
            Acceptance::Rejected => KernelVerdict::Rejects,
            Acceptance::Unknown => KernelVerdict::Unknown,
        },
    }
}

const fn judge_kernel(facts: &Facts) -> Option<Reason> {
    match (kernel_verdict(facts), facts.trust) {
        (KernelVerdict::Uses, _) => None,
        // The kernel decides within seconds after boot. The clock waits for the decision.
        (KernelVerdict::Undecided, _) => Some(Reason::KernelUndecided),
        (_, Trust::Measured) => None,
        (KernelVerdict::Rejects, _) => Some(Reason::KernelRejected),
        (_, Trust::Auto) => None,
        (KernelVerdict::NotRejected, Trust::Kernel) => Some(Reason::KernelUsesOther),
        (KernelVerdict::HypervisorPolicy, Trust::Kernel) => Some(Reason::HypervisorPolicy),
        (KernelVerdict::Unknown, Trust::Kernel) => Some(Reason::KernelUnknown),
    }
}

/// Whether the counters should be compared on this machine. A kernel that keeps time with the
/// counter has compared them itself, except under a hypervisor, where it may have skipped its
/// checks. If an earlier comparison found that they differ, only another one can open the gate: the
/// kernel may have switched to the counter since.
///
/// [`CounterDifference`](crate::comparison::CounterDifference) computes a comparison; its result
/// belongs in [`Facts::comparison`].
///
/// ```
/// use tickline_core::clocksource::Clocksource;
/// use tickline_core::gate::{Facts, needs_comparison};
///
/// let mut facts = Facts::UNKNOWN;
/// facts.matching_clocksource = Clocksource::Tsc;
/// (facts.clocksource, facts.is_virtual) = (Clocksource::Tsc, false);
/// assert!(!needs_comparison(&facts), "the kernel has compared them");
/// facts.clocksource = Clocksource::Hpet;
/// assert!(needs_comparison(&facts));
/// ```
#[must_use]
pub const fn needs_comparison(facts: &Facts) -> bool {
    let differed = matches!(facts.comparison, CounterComparison::Unsynchronised { .. });
    facts.is_virtual || differed || !matches!(kernel_verdict(facts), KernelVerdict::Uses)
}

const fn judge_synchronised(facts: &Facts) -> Option<Reason> {
    if facts.has_line_per_cpu {
        return None; // counters of one rate may start anywhere
    }
    match (facts.comparison, kernel_verdict(facts)) {
        (CounterComparison::Unsynchronised { .. }, _) => Some(Reason::Unsynchronised),
        (CounterComparison::Single | CounterComparison::Synchronised { .. }, _) => None,
        (_, KernelVerdict::Uses) => None,
        // Neither the kernel nor tickline has compared the counters.
        (CounterComparison::Pending, _) => Some(Reason::Untested),
        (CounterComparison::Impossible, _) => Some(Reason::Untestable),
    }
}

/// A tenth more, ps. A tenth is about the error of a measurement. A counter that was slower than
/// the OS must be a tenth cheaper to be used again.
const fn tenth_more(ps: u64) -> u64 {
    ps.saturating_add(ps / 10)
}

const fn judge_cost(facts: &Facts) -> Verdict {
    match (facts.resolution_ticks, facts.cost) {
        (Some(0), _) => Verdict::closed(Reason::Stuck),
        (
            _,
            Some(Cost {
                counter_ps,
                os_ps,
                os_unix_ps,
            }),
        ) => {
            let judged_ps = if facts.was_slower_than_os {
                tenth_more(counter_ps)
            } else {
                counter_ps
            };
            // The counter makes Unix time cheaper by more than a tenth, and monotonic time dearer
            // by at most a tenth. So no program is noticeably slower than with the OS.
            let is_worth_it = judged_ps <= tenth_more(os_ps) && os_unix_ps > tenth_more(counter_ps);
            if judged_ps > os_ps && !is_worth_it {
                Verdict::closed(Reason::Slow)
            } else if counter_ps > os_ps {
                Verdict::with_warning(Reason::Slow)
            } else {
                Verdict::open(Gate::Cost)
            }
        }
        (_, None) => Verdict::open(Gate::Cost),
    }
}

const fn judge_unix_cost(facts: &Facts) -> Verdict {
    let Some(cost) = facts.cost else {
        return Verdict::open(Gate::UnixCost);
    };
    let counter_ps = if facts.unix_was_slower_than_os {
        tenth_more(cost.counter_ps)
    } else {
        cost.counter_ps
    };
    if counter_ps > cost.os_unix_ps {
        Verdict::closed(Reason::SlowForUnixTime)
    } else {
        Verdict::open(Gate::UnixCost)
    }
}

/// Judges one gate. [`Calibration`](Gate::Calibration) is about the line, not about the machine:
/// this function finds it open. [`Figures`] say why there is no line.
#[must_use]
pub const fn judge(gate: Gate, facts: &Facts) -> Verdict {
    let closed_by = match gate {
        Gate::User => match facts.switched_off_by {
            Some(by) => Some(by.reason()),
            None => None,
        },
        Gate::Supported => match (facts.has_counter, facts.has_atomics) {
            (false, _) => Some(Reason::NoCounter),
            (true, false) => Some(Reason::NoAtomics),
            (true, true) => None,
        },
        Gate::Readable if facts.may_read_counter => None,
        Gate::Readable => Some(Reason::Denied),
        Gate::Invariant if facts.is_invariant || facts.assume_invariant => None,
        Gate::Invariant => Some(Reason::NotInvariant),
        Gate::Kernel => judge_kernel(facts),
        Gate::Synchronised => judge_synchronised(facts),
        Gate::Cost => return judge_cost(facts),
        Gate::UnixCost => return judge_unix_cost(facts),
        Gate::Calibration => None,
    };
    match closed_by {
        Some(reason) => Verdict::closed(reason),
        None => Verdict::open(gate),
    }
}

/// Judges [`Gate::Calibration`] of a clock that has no line, though every other gate is open. The
/// gate is closed on a machine that is too slow to make a line. Iterations go on, and the first one
/// that makes a line opens the gate. The gate warns if there was a line before.
///
/// ```
/// use tickline_core::gate::judge_missing_line;
/// use tickline_core::cell::LineCell;
/// use tickline_core::shared::SharedClock;
///
/// let clock: SharedClock = SharedClock::new(LineCell::new());
/// let verdict = judge_missing_line(&clock.readings().figures());
/// assert_eq!((verdict.closed_by(), verdict.warning()), (None, None), "it has just been made");
/// ```
#[must_use]
pub const fn judge_missing_line(figures: &Figures) -> Verdict {
    if figures.too_slow_counter_hz.is_some() {
        Verdict::closed(Reason::CounterTooSlow)
    } else if figures.too_old_sample.is_some() {
        Verdict::closed(Reason::SamplesTooOld)
    } else if figures.last_line.is_some() {
        Verdict::with_warning(Reason::NoLine)
    } else {
        Verdict::open(Gate::Calibration)
    }
}

/// The reason of the first closed gate; `None` if the counter may be used. Ignores
/// [`Gate::UnixCost`], which stops only Unix time.
#[must_use]
pub fn first_closed(verdicts: impl IntoIterator<Item = Verdict>) -> Option<Reason> {
    verdicts
        .into_iter()
        .filter(|verdict| verdict.gate() != Gate::UnixCost)
        .find_map(|verdict| verdict.closed_by())
}
