//! Machines, described by their differences from a PC whose kernel keeps time with the TSC.

use crate::clocksource::{Acceptance, Clocksource};
use crate::comparison::{CounterComparison, CounterDifference};
use crate::gate::{Cost, Facts, Gate, Reason, SwitchedOffBy, Trust, Verdict, first_closed, judge};

pub(super) const SYNCHRONISED: CounterComparison = CounterComparison::Synchronised {
    cpus: 8,
    max_difference_ticks: 400,
};

/// "Measured 66930 cycles TSC warp between CPUs, turning off TSC clock": from a kernel's log.
pub(super) const WARPED: CounterComparison = CounterComparison::Unsynchronised {
    cpu: 0,
    other_cpu: 1,
    difference: CounterDifference {
        min_ticks: 66_930,
        max_ticks: 67_400,
    },
};

/// The facts of a machine, and the result that a comparison of its counters has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Machine {
    facts: Facts,
    pub(super) comparison: CounterComparison,
}

/// The reason of the first closed gate before a comparison, and after it; `None` for open.
pub(super) type Reasons = [Option<Reason>; 2];

/// The counter may be used, compared or not.
pub(super) const OPEN: Reasons = [None, None];

/// The counter may be used once the counters of all CPUs were compared.
pub(super) const OPEN_IF_COMPARED: Reasons = [Some(Reason::Untested), None];

/// The comparison does not matter.
pub(super) fn closed(reason: Reason) -> Reasons {
    [Some(reason); 2]
}

/// A PC without a hypervisor, whose kernel keeps time with the TSC. A read of the counter takes
/// 9 ns, and one of the OS clock 25.
pub(super) fn pc() -> Machine {
    let counter = Clocksource::Tsc;
    Machine {
        facts: Facts {
            has_counter: true,
            has_atomics: true,
            may_read_counter: true,
            is_invariant: true,
            is_virtual: false, // asks for a comparison, and judges nothing
            clocksource: counter,
            matching_clocksource: counter,
            kernel_acceptance: Acceptance::Accepted,
            cost: None,
            resolution_ticks: Some(26),
            ..Facts::UNKNOWN
        },
        comparison: SYNCHRONISED,
    }
    .with_costs_ps(9_000, 25_000, 25_000)
}

/// A machine with another processor, whose kernel lists only this clocksource for its counter.
fn other_cpu(counter: Clocksource, name: &str) -> Machine {
    let mut machine = pc();
    machine.facts.matching_clocksource = counter;
    machine.with_kernel(name, name)
}

impl Machine {
    /// The kernel's `current_clocksource` and `available_clocksource`, without line breaks.
    pub(super) fn with_kernel(mut self, current: &str, available: &str) -> Self {
        let facts = &mut self.facts;
        facts.clocksource = Clocksource::from_name(format!("{current}\n").as_bytes());
        facts.kernel_acceptance = facts
            .matching_clocksource
            .acceptance(format!("{available} \n").as_bytes());
        self
    }

    /// The durations of a reading by the counter, of monotonic time by the OS, and of Unix time by
    /// the OS.
    pub(super) fn with_costs_ps(mut self, counter_ps: u64, os_ps: u64, os_unix_ps: u64) -> Self {
        self.facts.cost = Some(Cost {
            counter_ps,
            os_ps,
            os_unix_ps,
        });
        self
    }

    /// A machine with one other fact.
    pub(super) fn where_fact(mut self, set: impl FnOnce(&mut Facts)) -> Self {
        set(&mut self.facts);
        self
    }

    /// A machine whose counters a comparison finds like this.
    pub(super) fn where_comparison_finds(mut self, comparison: CounterComparison) -> Self {
        self.comparison = comparison;
        self
    }

    /// The verdicts after this result of a comparison.
    pub(super) fn verdicts(
        &self,
        trust: Trust,
        comparison: CounterComparison,
    ) -> impl Iterator<Item = Verdict> {
        let facts = Facts {
            trust,
            comparison,
            ..self.facts
        };
        Gate::ALL.iter().map(move |gate| judge(*gate, &facts))
    }

    /// The reason of the first closed gate after this result of a comparison.
    pub(super) fn first_closed(
        &self,
        trust: Trust,
        comparison: CounterComparison,
    ) -> Option<Reason> {
        first_closed(self.verdicts(trust, comparison))
    }

    /// The reasons before and after the comparison.
    pub(super) fn judged_by(&self, trust: Trust) -> Reasons {
        [CounterComparison::Pending, self.comparison]
            .map(|comparison| self.first_closed(trust, comparison))
    }

    /// The reasons, which are the same by every trust.
    #[track_caller]
    pub(super) fn judged_by_any(&self) -> Reasons {
        let [kernel, auto, measured] =
            [Trust::Kernel, Trust::Auto, Trust::Measured].map(|trust| self.judged_by(trust));
        assert!(kernel == auto && auto == measured, "trust matters");
        auto
    }

    /// The verdict on a gate for which trust and comparison do not matter.
    pub(super) fn verdict(&self, gate: Gate) -> Verdict {
        judge(gate, &self.facts)
    }
}

pub(super) fn pc_in_early_boot() -> Machine {
    pc().with_kernel("tsc-early", "tsc-early hpet acpi_pm")
}

/// The clocksource watchdog has demoted the TSC at run time.
pub(super) fn pc_demoted_by_watchdog() -> Machine {
    pc().with_kernel("hpet", "hpet acpi_pm")
        .with_costs_ps(9_000, 700_000, 700_000)
}

/// The same without one-shot ticks (`highres=off nohz=off`): the TSC stays on the list, at rating
/// 0.
pub(super) fn pc_demoted_without_one_shot_ticks() -> Machine {
    pc().with_kernel("hpet", "hpet acpi_pm jiffies tsc")
        .with_costs_ps(9_000, 700_000, 700_000)
}

/// A kernel without one-shot ticks lists a TSC that it has marked unstable behind jiffies.
pub(super) fn pc_on_jiffies() -> Machine {
    pc().with_kernel("refined-jiffies", "refined-jiffies tsc")
}

/// The administrator has chosen hpet.
pub(super) fn pc_on_hpet() -> Machine {
    pc().with_kernel("hpet", "tsc hpet acpi_pm")
        .with_costs_ps(9_000, 700_000, 700_000)
}

pub(super) fn pc_without_invariant_counter() -> Machine {
    pc().with_kernel("hpet", "hpet acpi_pm")
        .where_fact(|facts| facts.is_invariant = false)
}

pub(super) fn pc_whose_counters_differ() -> Machine {
    pc().where_comparison_finds(WARPED)
}

/// KVM with an invariant counter, clocksource tsc: the machine these lines were written on.
pub(super) fn kvm_on_tsc() -> Machine {
    pc().with_kernel("tsc", "kvm-clock tsc hpet acpi_pm")
}

/// KVM with an invariant counter, clocksource kvm-clock.
pub(super) fn kvm_on_kvm_clock() -> Machine {
    pc().with_kernel("kvm-clock", "kvm-clock tsc hpet acpi_pm")
}

/// QEMU's default, because invtsc bars migration.
pub(super) fn kvm_without_invariant_counter() -> Machine {
    pc().with_kernel("kvm-clock", "kvm-clock hpet acpi_pm")
        .where_fact(|facts| facts.is_invariant = false)
}

/// No hpet, no acpi_pm.
pub(super) fn firecracker() -> Machine {
    pc().with_kernel("tsc", "tsc kvm-clock")
}

/// Xen HVM on AWS: the vDSO of clocksource xen asks the kernel each time.
pub(super) fn xen_on_aws() -> Machine {
    pc().with_kernel("xen", "xen tsc hpet acpi_pm")
        .with_costs_ps(9_000, 1_000_000, 1_000_000)
}

/// Xen that emulates `rdtsc`, which then takes as long as the system call.
pub(super) fn xen_that_emulates_the_counter() -> Machine {
    pc().with_kernel("xen", "xen")
        .with_costs_ps(1_100_000, 1_000_000, 1_000_000)
}

/// Hyper-V and WSL2. The page's name contains "tsc".
pub(super) fn hyper_v() -> Machine {
    pc().with_kernel(
        "hyperv_clocksource_tsc_page",
        "hyperv_clocksource_tsc_page acpi_pm",
    )
}

/// "Skipped synchronization checks as TSC is reliable".
pub(super) fn vmware() -> Machine {
    pc().with_kernel("tsc", "tsc acpi_pm")
}

/// A hypervisor with `tsc=reliable` and unsynchronised counters.
pub(super) fn reliable_in_name_only() -> Machine {
    vmware().where_comparison_finds(WARPED)
}

/// VirtualBox with several vCPUs, which has only acpi_pm.
pub(super) fn virtual_box() -> Machine {
    pc().with_kernel("acpi_pm", "acpi_pm")
        .with_costs_ps(45_000, 2_000_000, 2_000_000)
        .where_comparison_finds(WARPED)
}

/// gVisor, or a container with /sys masked.
pub(super) fn without_sysfs() -> Machine {
    pc().with_kernel("", "")
}

/// macOS on x86_64, or Windows with more than 64 CPUs. Only CPUID can be asked, and threads can't
/// be bound to every CPU.
pub(super) fn incomparable() -> Machine {
    pc().with_kernel("", "")
        .where_comparison_finds(CounterComparison::Impossible)
}

/// Graviton, Ampere, Raspberry Pi.
pub(super) fn aarch64() -> Machine {
    other_cpu(Clocksource::ArchSysCounter, "arch_sys_counter")
}

/// The kernel rates a timer of the board above the counter.
pub(super) fn exynos() -> Machine {
    aarch64().with_kernel("mct-frc", "mct-frc arch_sys_counter")
}

/// `timer-riscv.c` registers the only clocksource that boards with Zicntr have.
pub(super) fn riscv64() -> Machine {
    other_cpu(Clocksource::Riscv, "riscv_clocksource")
}

/// `rdtime` is a trap into firmware, and `clock_gettime` the same trap with some code around it.
pub(super) fn riscv64_that_traps() -> Machine {
    riscv64().with_costs_ps(1_000_000, 1_050_000, 1_050_000)
}

pub(super) fn switched_off(by: SwitchedOffBy) -> Machine {
    pc().where_fact(|facts| facts.switched_off_by = Some(by))
}

pub(super) fn without_counter() -> Machine {
    pc().where_fact(|facts| facts.has_counter = false)
}

pub(super) fn without_atomics() -> Machine {
    pc().where_fact(|facts| facts.has_atomics = false)
}

/// `prctl(PR_SET_TSC)`.
pub(super) fn denied() -> Machine {
    pc().where_fact(|facts| facts.may_read_counter = false)
}

pub(super) fn with_stuck_counter() -> Machine {
    pc().where_fact(|facts| facts.resolution_ticks = Some(0))
}

/// A counter that traps, where the OS answers at once.
pub(super) fn with_slow_counter() -> Machine {
    pc().with_costs_ps(40_000, 35_000, 36_000)
}

/// Every machine of this file, one for each reason at least.
pub(super) fn all() -> Vec<Machine> {
    vec![
        pc(),
        pc_in_early_boot(),
        pc_demoted_by_watchdog(),
        pc_demoted_without_one_shot_ticks(),
        pc_on_jiffies(),
        pc_on_hpet(),
        pc_without_invariant_counter(),
        pc_whose_counters_differ(),
        kvm_on_tsc(),
        kvm_on_kvm_clock(),
        kvm_without_invariant_counter(),
        firecracker(),
        xen_on_aws(),
        xen_that_emulates_the_counter(),
        hyper_v(),
        vmware(),
        reliable_in_name_only(),
        virtual_box(),
        without_sysfs(),
        incomparable(),
        aarch64(),
        exynos(),
        riscv64(),
        riscv64_that_traps(),
        switched_off(SwitchedOffBy::Program),
        switched_off(SwitchedOffBy::Environment),
        without_counter(),
        without_atomics(),
        denied(),
        with_stuck_counter(),
        with_slow_counter(),
    ]
}

#[test]
fn every_machine_of_this_file_is_in_the_list_of_all() {
    let source = include_str!("machines.rs");
    let (machines, list) = source.split_once("fn all() -> Vec<Machine>").unwrap();
    for line in machines.lines() {
        let Some(function) = line.strip_prefix("pub(super) fn ") else {
            continue;
        };
        let (name, rest) = function.split_once('(').unwrap();
        if rest.ends_with("-> Machine {") {
            assert!(list.contains(&format!(" {name}(")), "{name}");
        }
    }
}
