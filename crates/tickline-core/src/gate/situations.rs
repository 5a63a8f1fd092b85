//! Machines as they describe themselves, and the expected verdicts. The texts are those of
//! `current_clocksource` and `available_clocksource`, and CPUID's signature of the hypervisor,
//! each with its source.

use super::tests::healthy;
use super::tests::judged;
use super::{Clocksource, Cost, Facts, Hypervisor, Reason, Trust, first_closed};
use crate::compare::{Comparison, Difference, Pair};

/// One machine.
struct Situation {
    name: &'static str,
    current: &'static [u8],
    available: &'static [u8],
    /// Empty for none.
    signature: &'static [u8],
    invariant: Option<bool>,
    counters: Clocksource,
    cost: (u64, u64),
    /// What a comparison finds there.
    comparison: Comparison,
    /// For each trust (kernel, auto, measured): the reason before the comparison, and after it.
    expected: [(Option<Reason>, Option<Reason>); 3],
}

const IN_STEP: Comparison = Comparison::Synchronised { cpus: 8 };

/// "Measured 66930 cycles TSC warp between CPUs, turning off TSC clock": from a kernel's log.
const WARPED: Comparison = Comparison::Unsynchronised(Pair {
    here: 0,
    there: 1,
    difference: Difference { least_ticks: 66_930, most_ticks: 67_400 },
});

const OPEN: (Option<Reason>, Option<Reason>) = (None, None);
const FAST_PS: (u64, u64) = (9_000, 25_000);

const fn closed(reason: Reason) -> (Option<Reason>, Option<Reason>) {
    (Some(reason), Some(reason))
}

/// Untested before, open after.
const TESTED: (Option<Reason>, Option<Reason>) = (Some(Reason::Untested), None);

const X86: Situation = Situation {
    name: "",
    current: b"tsc\n",
    available: b"tsc hpet acpi_pm \n",
    signature: b"",
    invariant: Some(true),
    counters: Clocksource::Tsc,
    cost: FAST_PS,
    comparison: IN_STEP,
    expected: [OPEN; 3],
};

const SITUATIONS: [Situation; 22] = [
    Situation { name: "bare metal, Intel", ..X86 },
    Situation { name: "bare metal, AMD", available: b"tsc hpet acpi_pm \n", ..X86 },
    Situation {
        name: "bare metal, early boot",
        current: b"tsc-early\n",
        available: b"tsc-early hpet acpi_pm \n",
        expected: [closed(Reason::KernelUndecided); 3],
        ..X86
    },
    Situation {
        name: "bare metal, demoted at run time by the clocksource watchdog",
        current: b"hpet\n",
        available: b"hpet acpi_pm \n",
        cost: (9_000, 700_000),
        expected: [closed(Reason::KernelRejected), closed(Reason::KernelRejected), TESTED],
        ..X86
    },
    Situation {
        name: "the same without one-shot ticks (highres=off nohz=off), where the TSC stays on the list, at rating 0",
        current: b"hpet\n",
        available: b"hpet acpi_pm jiffies tsc \n",
        cost: (9_000, 700_000),
        expected: [closed(Reason::KernelRejected), closed(Reason::KernelRejected), TESTED],
        ..X86
    },
    Situation {
        name: "bare metal, hpet chosen by the administrator",
        current: b"hpet\n",
        cost: (9_000, 700_000),
        expected: [closed(Reason::KernelUsesOther), TESTED, TESTED],
        ..X86
    },
    Situation {
        name: "bare metal, an old processor without an invariant counter",
        current: b"hpet\n",
        available: b"hpet acpi_pm \n",
        invariant: Some(false),
        expected: [closed(Reason::NotInvariant); 3],
        ..X86
    },
    Situation {
        name: "KVM, invariant counter exposed, clocksource tsc (the machine these lines were written on)",
        available: b"kvm-clock tsc hpet acpi_pm \n",
        signature: b"KVMKVMKVM\0\0\0",
        ..X86
    },
    Situation {
        name: "KVM, invariant counter exposed, kvm-clock",
        current: b"kvm-clock\n",
        available: b"kvm-clock tsc hpet acpi_pm \n",
        signature: b"KVMKVMKVM\0\0\0",
        expected: [closed(Reason::KernelUsesOther), TESTED, TESTED],
        ..X86
    },
    Situation {
        name: "KVM, invariant counter hidden, kvm-clock (QEMU's default: invtsc bars migration)",
        current: b"kvm-clock\n",
        available: b"kvm-clock hpet acpi_pm \n",
        signature: b"KVMKVMKVM\0\0\0",
        invariant: Some(false),
        expected: [closed(Reason::NotInvariant); 3],
        ..X86
    },
    Situation {
        name: "Firecracker: no hpet, no acpi_pm, kvm-clock or tsc",
        available: b"tsc kvm-clock \n",
        signature: b"KVMKVMKVM\0\0\0",
        ..X86
    },
    Situation {
        name: "Xen HVM on AWS: clocksource xen, whose vDSO asks the kernel each time",
        current: b"xen\n",
        available: b"xen tsc hpet acpi_pm \n",
        signature: b"XenVMMXenVMM",
        cost: (9_000, 1_000_000),
        expected: [closed(Reason::KernelUsesOther), TESTED, TESTED],
        ..X86
    },
    Situation {
        name: "Xen that emulates rdtsc: as slow as the system call",
        current: b"xen\n",
        available: b"xen \n",
        signature: b"XenVMMXenVMM",
        cost: (1_100_000, 1_000_000),
        expected: [
            closed(Reason::KernelUsesOther),
            (Some(Reason::Untested), Some(Reason::Slow)),
            (Some(Reason::Untested), Some(Reason::Slow)),
        ],
        ..X86
    },
    Situation {
        name: "Hyper-V and WSL2: the page's name contains tsc",
        current: b"hyperv_clocksource_tsc_page\n",
        available: b"hyperv_clocksource_tsc_page acpi_pm \n",
        signature: b"Microsoft Hv",
        expected: [closed(Reason::HypervisorPolicy), TESTED, TESTED],
        ..X86
    },
    Situation {
        name: "VMware: tsc, \"Skipped synchronization checks as TSC is reliable\"",
        available: b"tsc acpi_pm \n",
        signature: b"VMwareVMware",
        ..X86
    },
    Situation {
        name: "VirtualBox, several vCPUs, acpi_pm only",
        current: b"acpi_pm\n",
        available: b"acpi_pm \n",
        signature: b"VBoxVBoxVBox",
        cost: (45_000, 2_000_000),
        comparison: WARPED,
        expected: [
            closed(Reason::KernelRejected),
            closed(Reason::KernelRejected),
            (Some(Reason::Untested), Some(Reason::Unsynchronised)),
        ],
        ..X86
    },
    Situation {
        name: "a hypervisor with tsc=reliable and unsynchronised counters: only the comparison knows",
        available: b"tsc acpi_pm \n",
        signature: b"KVMKVMKVM\0\0\0",
        comparison: WARPED,
        expected: [(None, Some(Reason::Unsynchronised)); 3],
        ..X86
    },
    Situation {
        name: "gVisor, or a container with /sys masked",
        current: b"",
        available: b"",
        expected: [closed(Reason::KernelUnknown), TESTED, TESTED],
        ..X86
    },
    Situation {
        name: "aarch64: Graviton, Ampere, Raspberry Pi",
        current: b"arch_sys_counter\n",
        available: b"arch_sys_counter \n",
        invariant: None,
        counters: Clocksource::ArchSysCounter,
        ..X86
    },
    Situation {
        name: "riscv64: `timer-riscv.c` registers the only clocksource that boards with Zicntr have",
        current: b"riscv_clocksource\n",
        available: b"riscv_clocksource \n",
        invariant: None,
        counters: Clocksource::Riscv,
        ..X86
    },
    Situation {
        name: "riscv64 where rdtime is a trap into firmware, and clock_gettime the same trap with some code around it",
        current: b"riscv_clocksource\n",
        available: b"riscv_clocksource \n",
        invariant: None,
        counters: Clocksource::Riscv,
        cost: (1_000_000, 1_050_000),
        ..X86
    },
    Situation {
        name: "macOS on x86_64, Windows with more than 64 CPUs: CPUID is all that can be asked, threads cannot be bound to every CPU",
        current: b"",
        available: b"",
        comparison: Comparison::Impossible,
        expected: [
            closed(Reason::KernelUnknown),
            (Some(Reason::Untested), Some(Reason::Untestable)),
            (Some(Reason::Untested), Some(Reason::Untestable)),
        ],
        ..X86
    },
];

fn facts(situation: &Situation, trust: Trust, comparison: Comparison) -> Facts {
    let hypervisor = situation.signature.try_into().map_or(Hypervisor::None, Hypervisor::from_signature);
    let (counter_ps, os_ps) = situation.cost;
    Facts {
        trust,
        hypervisor,
        comparison,
        invariant: situation.invariant,
        clocksource: Clocksource::from_name(situation.current),
        counters_clocksource: situation.counters,
        available: situation.counters.is_accepted(situation.available),
        cost: Some(Cost { counter_ps, os_ps, os_unix_ps: os_ps }),
        ..healthy()
    }
}

#[test]
fn every_situation_leads_to_its_verdicts() {
    for situation in &SITUATIONS {
        for (trust, (before, after)) in
            [Trust::Kernel, Trust::Auto, Trust::Measured].into_iter().zip(situation.expected)
        {
            let reason = |comparison| first_closed(judged(&facts(situation, trust, comparison)));
            assert_eq!(reason(Comparison::Pending), before, "{}, {trust:?}, before", situation.name);
            assert_eq!(reason(situation.comparison), after, "{}, {trust:?}, after", situation.name);
        }
    }
}

#[test]
fn a_comparison_that_cannot_be_made_opens_nothing() {
    for situation in &SITUATIONS {
        for trust in [Trust::Kernel, Trust::Auto, Trust::Measured] {
            let reason = |comparison| first_closed(judged(&facts(situation, trust, comparison)));
            let (pending, impossible) = (reason(Comparison::Pending), reason(Comparison::Impossible));
            assert_eq!(pending.is_some(), impossible.is_some(), "{}, {trust:?}", situation.name);
            // There is nothing from which a single CPU could differ.
            let (single, in_step) = (reason(Comparison::Single), reason(IN_STEP));
            assert_eq!(single, in_step, "{}, {trust:?}", situation.name);
        }
    }
}
