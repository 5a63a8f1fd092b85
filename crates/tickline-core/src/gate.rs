//! Gates: facts -> verdicts. Pure functions; who collects the facts is elsewhere.
//!
//! Every gate must be open for the counter to be used. A closed one names its [`Reason`], whose code is stable. The
//! first closed gate, in the order of [`Gate`], is the one that a status shows.

use crate::cell::Support;

/// What a gate looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Gate {
    /// Nobody has switched the counter off.
    User,
    /// The target has a counter that this crate reads, and a cell to publish lines in.
    Exists,
    /// The process may read the counter.
    Readable,
    /// The counter runs at one rate in all power states.
    Invariant,
    /// The kernel keeps time with the same counter.
    Kernel,
    /// Reading the counter is not slower than the OS clock.
    Cost,
}

impl Gate {
    /// Every gate, in the order in which they are judged.
    pub const ALL: [Self; 6] =
        [Self::User, Self::Exists, Self::Readable, Self::Invariant, Self::Kernel, Self::Cost];

    /// A stable name, in snake case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Exists => "counter_exists",
            Self::Readable => "readable",
            Self::Invariant => "invariant",
            Self::Kernel => "kernel",
            Self::Cost => "cost",
        }
    }
}

/// Why a gate is closed. The codes are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// `disable()` was called.
    Disabled,
    /// The environment says `TICKLINE=off`.
    SwitchedOff,
    /// The target has no counter that this crate reads.
    NoCounter,
    /// The processor has no 128-bit compare-and-swap.
    NoAtomics,
    /// The process has been denied the counter (`PR_SET_TSC`).
    Denied,
    /// CPUID does not call the counter invariant.
    NotInvariant,
    /// The kernel is still deciding about the counter (`tsc-early`).
    KernelUndecided,
    /// The kernel keeps time with something else.
    KernelUsesOther,
    /// What the kernel keeps time with could not be read.
    KernelUnknown,
    /// Reading the counter takes longer than asking the OS.
    Slow,
    /// The counter stood still while its cost was measured.
    Stuck,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Self; 11] = [
        Self::Disabled,
        Self::SwitchedOff,
        Self::NoCounter,
        Self::NoAtomics,
        Self::Denied,
        Self::NotInvariant,
        Self::KernelUndecided,
        Self::KernelUsesOther,
        Self::KernelUnknown,
        Self::Slow,
        Self::Stuck,
    ];

    /// A stable name, in snake case.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::SwitchedOff => "switched_off",
            Self::NoCounter => "no_counter",
            Self::NoAtomics => "no_atomics",
            Self::Denied => "denied",
            Self::NotInvariant => "not_invariant",
            Self::KernelUndecided => "kernel_undecided",
            Self::KernelUsesOther => "kernel_uses_other",
            Self::KernelUnknown => "kernel_unknown",
            Self::Slow => "slow",
            Self::Stuck => "stuck",
        }
    }

    /// One sentence for people, without a full stop.
    #[must_use]
    pub const fn explanation(self) -> &'static str {
        match self {
            Self::Disabled => "the program called disable()",
            Self::SwitchedOff => "the environment variable TICKLINE is off",
            Self::NoCounter => "this target has no counter that tickline reads",
            Self::NoAtomics => "the processor has no 128-bit compare-and-swap",
            Self::Denied => "the process may not read the counter (prctl PR_SET_TSC)",
            Self::NotInvariant => "CPUID does not say that the counter runs at one rate in all power states",
            Self::KernelUndecided => "the kernel is still deciding whether it trusts the counter",
            Self::KernelUsesOther => "the kernel keeps time with another clocksource",
            Self::KernelUnknown => "the kernel's clocksource could not be read",
            Self::Slow => "reading the counter takes longer than asking the OS",
            Self::Stuck => "the counter stands still",
        }
    }
}

impl core::fmt::Display for Reason {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.explanation())
    }
}

/// What the kernel keeps time with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Clocksource {
    /// `tsc`: the x86 counter.
    Tsc,
    /// `tsc-early`: the x86 counter, before the kernel has made up its mind.
    TscEarly,
    /// `arch_sys_counter`: the ARM generic timer.
    ArchSysCounter,
    /// Any other name.
    Other,
    /// Not readable.
    Unknown,
}

impl Clocksource {
    /// The clocksource of exactly this name, as `current_clocksource` in sysfs spells it; a trailing line break is
    /// allowed. Never a substring: `hyperv_clocksource_tsc_page` is not `tsc`.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Self {
        match name.strip_suffix(b"\n").unwrap_or(name) {
            b"tsc" => Self::Tsc,
            b"tsc-early" => Self::TscEarly,
            b"arch_sys_counter" => Self::ArchSysCounter,
            b"" => Self::Unknown,
            _ => Self::Other,
        }
    }
}

/// Time of one call, picoseconds, both measured alike in one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// A reading by the counter.
    pub counter_ps: u64,
    /// A reading by the OS.
    pub os_ps: u64,
}

/// Who switched the counter off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// Nobody.
    On,
    /// `disable()`.
    Disabled,
    /// `TICKLINE=off`.
    SwitchedOff,
}

/// What the gates judge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// Who switched the counter off.
    pub switch: Switch,
    /// Whether the target has a counter.
    pub counter_present: bool,
    /// What the processor offers for the cell.
    pub cell: Support,
    /// Whether the process may read the counter.
    pub readable: bool,
    /// Whether the counter is invariant; `None` where the architecture demands it (ARM).
    pub invariant: Option<bool>,
    /// What the kernel keeps time with.
    pub clocksource: Clocksource,
    /// What a kernel would keep time with that uses this target's counter.
    pub counters_clocksource: Clocksource,
    /// What readings cost; `None` if the counter may not be read, or not yet measured.
    pub cost: Option<Cost>,
    /// Largest step of the counter, ticks; 0 if it stood still, `None` if it may not be read.
    pub quantum_ticks: Option<u64>,
}

/// What a gate says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// The gate.
    pub gate: Gate,
    /// Why it is closed; `None` if it is open.
    pub closed: Option<Reason>,
}

/// Judges one gate.
#[must_use]
pub const fn judge(gate: Gate, facts: &Facts) -> Verdict {
    let closed = match gate {
        Gate::User => match facts.switch {
            Switch::On => None,
            Switch::Disabled => Some(Reason::Disabled),
            Switch::SwitchedOff => Some(Reason::SwitchedOff),
        },
        Gate::Exists => match (facts.counter_present, facts.cell) {
            (false, _) => Some(Reason::NoCounter),
            (true, Support::Missing) => Some(Reason::NoAtomics),
            (true, _) => None,
        },
        Gate::Readable if facts.readable => None,
        Gate::Readable => Some(Reason::Denied),
        Gate::Invariant => match facts.invariant {
            Some(false) => Some(Reason::NotInvariant),
            Some(true) | None => None,
        },
        Gate::Kernel => match (facts.clocksource, facts.counters_clocksource) {
            (Clocksource::Tsc, Clocksource::Tsc) => None,
            (Clocksource::ArchSysCounter, Clocksource::ArchSysCounter) => None,
            (Clocksource::TscEarly, Clocksource::Tsc) => Some(Reason::KernelUndecided),
            (Clocksource::Unknown, _) => Some(Reason::KernelUnknown),
            _ => Some(Reason::KernelUsesOther),
        },
        Gate::Cost => match (facts.quantum_ticks, facts.cost) {
            (Some(0), _) => Some(Reason::Stuck),
            (_, Some(cost)) if cost.counter_ps > cost.os_ps => Some(Reason::Slow),
            _ => None,
        },
    };
    Verdict { gate, closed }
}

/// Judges every gate, in order.
#[must_use]
pub fn judge_all(facts: &Facts) -> [Verdict; Gate::ALL.len()] {
    Gate::ALL.map(|gate| judge(gate, facts))
}

/// The reason of the first closed gate; `None` if all are open.
#[must_use]
pub fn first_closed(verdicts: &[Verdict]) -> Option<Reason> {
    verdicts.iter().find_map(|verdict| verdict.closed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn healthy() -> Facts {
        Facts {
            switch: Switch::On,
            counter_present: true,
            cell: Support::Full,
            readable: true,
            invariant: Some(true),
            clocksource: Clocksource::Tsc,
            counters_clocksource: Clocksource::Tsc,
            cost: Some(Cost { counter_ps: 9_000, os_ps: 25_000 }),
            quantum_ticks: Some(26),
        }
    }

    fn reason(change: impl FnOnce(&mut Facts)) -> Option<Reason> {
        let mut facts = healthy();
        change(&mut facts);
        first_closed(&judge_all(&facts))
    }

    #[test]
    fn a_healthy_machine_opens_every_gate() {
        assert_eq!(reason(|_| {}), None);
        assert_eq!(reason(|facts| facts.cell = Support::Guarded), None);
        assert_eq!(reason(|facts| facts.invariant = None), None);
        let arm = |clocksource| {
            reason(|facts| {
                (facts.clocksource, facts.counters_clocksource) = (clocksource, Clocksource::ArchSysCounter);
            })
        };
        assert_eq!(arm(Clocksource::ArchSysCounter), None);
        assert_eq!(arm(Clocksource::Tsc), Some(Reason::KernelUsesOther), "an emulator on an x86 host");
    }

    #[test]
    fn each_fault_closes_its_gate_with_its_reason() {
        type Fault = fn(&mut Facts);
        let cases: [(Reason, Fault); 11] = [
            (Reason::Disabled, |facts| facts.switch = Switch::Disabled),
            (Reason::SwitchedOff, |facts| facts.switch = Switch::SwitchedOff),
            (Reason::NoCounter, |facts| facts.counter_present = false),
            (Reason::NoAtomics, |facts| facts.cell = Support::Missing),
            (Reason::Denied, |facts| facts.readable = false),
            (Reason::NotInvariant, |facts| facts.invariant = Some(false)),
            (Reason::KernelUndecided, |facts| facts.clocksource = Clocksource::TscEarly),
            (Reason::KernelUsesOther, |facts| facts.clocksource = Clocksource::Other),
            (Reason::KernelUnknown, |facts| facts.clocksource = Clocksource::Unknown),
            (Reason::Slow, |facts| facts.cost = Some(Cost { counter_ps: 25_001, os_ps: 25_000 })),
            (Reason::Stuck, |facts| facts.quantum_ticks = Some(0)),
        ];
        assert_eq!(cases.map(|(expected, _)| expected), Reason::ALL);
        for (expected, fault) in cases {
            assert_eq!(reason(fault), Some(expected));
        }
    }

    #[test]
    fn clocksource_names_are_exact() {
        for (name, expected) in [
            (&b"tsc\n"[..], Clocksource::Tsc),
            (b"tsc", Clocksource::Tsc),
            (b"tsc-early\n", Clocksource::TscEarly),
            (b"arch_sys_counter\n", Clocksource::ArchSysCounter),
            (b"hyperv_clocksource_tsc_page\n", Clocksource::Other),
            (b"tsc \n", Clocksource::Other),
            (b"kvm-clock\n", Clocksource::Other),
            (b"\n", Clocksource::Unknown),
            (b"", Clocksource::Unknown),
        ] {
            assert_eq!(Clocksource::from_name(name), expected, "{name:?}");
        }
    }

    #[test]
    fn codes_are_distinct() {
        let codes = Reason::ALL.map(Reason::code);
        for (index, code) in codes.iter().enumerate() {
            assert!(!codes[..index].contains(code), "{code} twice");
        }
    }
}
