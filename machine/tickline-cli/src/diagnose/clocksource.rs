//! Explains a slow clock by the kernel's clocksource, and by whether the vDSO can read it.
//! `tsc.rs` explains why the kernel of an x86 machine does not use the TSC; `not_kept.rs` has a
//! rule about what the next restart brings.

use super::{hosts, shared_fixes, steps, tsc};
use crate::clocksources::{
    CURRENT_FILE, SHOW_AVAILABLE, SHOW_CURRENT, is_counter, is_plain_counter, is_slow,
};
use crate::document::Block::{Commands, Prose};
use crate::document::{Document, Explained, Explanation, Finding, Fix};
use crate::measure::calls::MONOTONIC_COARSE;
use crate::measure::served_by::ServedBy;

/// At most one finding: the deepest cause with evidence. A slow clocksource is always a finding.
/// Any other is a finding only if a system call answers, or if its name is unreadable.
pub(super) fn slow(document: &Document) -> Option<Finding> {
    let clocksource = document.machine.clocksource();
    let is_slow = clocksource.is_some_and(is_slow);
    let called_clock = match document.precise_served_by() {
        Some((clock, ServedBy::SystemCall)) => Some(clock),
        _ => None,
    };
    if !is_slow && called_clock.is_none() {
        return unknown_clocksource(document);
    }
    let bypassed = if is_slow {
        None
    } else {
        vdso_bypassed(document)
    };
    let mut finding = bypassed.unwrap_or_else(|| slow_clocksource(clocksource, document));
    for parameter in document.machine.clocksource_parameters() {
        finding = finding.seen(format!("the kernel's command line has {parameter}"));
    }
    if let Some(clock) = called_clock {
        finding = finding.seen(format!("a system call answers {clock}, not the vDSO"));
    }
    let finding = finding
        .seen_all(page(document).map(str::to_owned))
        .seen_all(shared_fixes::provider(document));
    Some(with_gain(finding, document))
}

/// What a page changes for programs; `None` if there is no page, or if it is unknown whether the
/// page serves a line.
fn page(document: &Document) -> Option<&'static str> {
    if document.machine.page_served? {
        return Some(
            "there is a page (`tickline serve status`): a program that `tickline run` starts takes \
             the time from it, without system calls",
        );
    }
    if document.machine.page_switched_off == Some(true) {
        return Some(
            "there is a page, but it is switched off (`tickline serve status` says what ends \
             this), so `tickline run` changes nothing",
        );
    }
    // Beside a hypervisor's clock, a comparison of the counters is enough (`Trust::Auto`).
    let is_rejected = document.machine.is_x86()
        && !document.machine.has_host_clock()
        && document.machine.accepts_tsc() == Some(false);
    Some(if is_rejected {
        "there is a page, but it serves nothing now (`tickline serve status`), so `tickline run` \
         changes nothing: `tickline serve` serves a line only where the kernel accepts the counter \
         as a clocksource"
    } else {
        "there is a page, but it serves nothing now (`tickline serve status`), so `tickline run` \
         changes nothing"
    })
}

/// The vDSO reads the hypervisor's clock, which takes longer than a read of the TSC, because the
/// vDSO must also check whether the hypervisor has changed the parameters (`vread_pvclock`).
pub(super) fn paravirtual_dearer(document: &Document) -> Option<Finding> {
    let name = document.machine.paravirtual_clock()?;
    let is_dearer = document.avoidable_cost_ns().is_some();
    if !document.is_answered_by_vdso() || !document.may_use_tsc() || !is_dearer {
        return None;
    }
    let recommended = document.machine.cloud.as_ref().and_then(hosts::recommended);
    let fix = if recommended == Some(name) {
        Fix::none("the cloud's provider recommends this clock")
    } else {
        shared_fixes::use_tsc(document)
    };
    let finding = Finding::note(
        Code::ParavirtualClockDearer,
        format!("the vDSO reads {name}, which takes longer than the TSC would"),
    )
    .seen(format!("current_clocksource is {name}"))
    .seen("available_clocksource has tsc")
    .fix(fix);
    Some(with_gain(finding, document).seen_all(shared_fixes::provider(document)))
}

/// The evidence that the process uses the vDSO, whatever the clocksource.
fn coarse_by_vdso() -> String {
    format!("the vDSO answers {MONOTONIC_COARSE}, so it is in use")
}

/// Adds the present and the attainable cost of a call, and the gain if there is a fix. Adds
/// nothing for a fix to a clocksource other than the counter, whose cost was not measured.
fn with_gain(finding: Finding, document: &Document) -> Finding {
    let target = finding.fix.clocksource();
    let reads_counter = match target.or(document.machine.clocksource()) {
        Some("xen") => document.machine.has_invariant_tsc() != Some(false),
        Some(name) => is_plain_counter(name),
        None => true,
    };
    let Some((now_ns, then_ns)) = document.avoidable_cost_ns() else {
        return finding;
    };
    // The fix of such a finding leads to the TSC, also if it names no clocksource.
    let is_about_tsc = tsc::Code::ALL
        .iter()
        .any(|code| code.code() == finding.code);
    if !finding.fix.is_impossible() && !is_about_tsc && !reads_counter {
        return finding;
    }
    let mut finding = finding.seen(format!(
        "a call takes {now_ns:.0} ns; {then_ns:.0} ns (a coarse clock plus a counter read) is \
         attainable"
    ));
    if !finding.fix.is_impossible() {
        finding.gain_ratio = Some(now_ns / then_ns);
    }
    finding
}

/// The finding that the vDSO could read another clocksource on offer. A switch to it is the fix.
pub(super) fn not_chosen(name: &str, document: &Document) -> Option<Finding> {
    let other = document.other_for_vdso()?;
    Some(
        Finding::slow(
            Code::ClocksourceNotChosen,
            format!(
                "the kernel keeps time with {name}, though it offers {other}, which the vDSO reads"
            ),
        )
        .seen(format!("current_clocksource is {name}"))
        .seen(format!("available_clocksource has {other}"))
        .fix(shared_fixes::switch_to(other, document)),
    )
}

/// The finding about a clocksource that is slow, or that the vDSO does not read.
fn slow_clocksource(clocksource: Option<&str>, document: &Document) -> Finding {
    match clocksource {
        Some(name) if is_counter(name) => vdso_unused(name, document),
        Some("kvm-clock") => kvm_clock(document),
        Some("xen") => xen(document),
        Some(name @ ("hyperv_clocksource_msr" | "hyperv_clocksource")) => hyperv(name, document),
        Some(name) if document.machine.is_x86() => tsc::not_used(name, document),
        Some(name) => not_chosen(name, document).unwrap_or_else(|| slow_elsewhere(name, document)),
        None => unreadable_and_slow(document),
    }
}

/// The CPU's own counter as a clocksource of Linux on PowerPC, s390, MIPS, LoongArch and SPARC
/// (`arch/*/kernel/time.c`, `drivers/clocksource/mips-gic-timer.c`).
const OTHER_COUNTERS: [&str; 7] = [
    "timebase", "tod", "MIPS", "GIC", "Constant", "tick", "stick",
];

/// A slow clocksource on a machine that is not x86 and offers no better clocksource.
fn slow_elsewhere(name: &str, document: &Document) -> Finding {
    if OTHER_COUNTERS.contains(&name) {
        return vdso_unused(name, document);
    }
    let fix = if is_before_armv7(document) {
        Fix::none(
            "a processor of ARMv6 or older, such as that of the first Raspberry Pi, has no counter \
             that programs may read",
        )
    } else if document.are_unsynchronised() {
        Fix::none("the counters are unsynchronised")
    } else if document.machine.architecture.as_deref() == Some("arm") {
        // ARMv7 leaves the generic timer to the processor, and Linux names no processor but
        // "ARMv7". A5 and A9 have a timer in memory, which no vDSO reads.
        "if the processor has a counter that programs may read (Cortex-A7, A15 or later: A5, A8 \
         and A9 have none), describe it in the device tree, so that the kernel uses it"
            .into()
    } else if is_arm_or_riscv(document) {
        "describe the CPU's own counter in the device tree or ACPI, so that the kernel uses it"
            .into()
    } else {
        Fix::from("use a kernel whose vDSO reads the CPU's own counter")
            .then(shared_fixes::see_offer().text())
    };
    Finding::slow(
        Code::ClocksourceSlow,
        format!("the kernel keeps time with {name}, which the vDSO does not read"),
    )
    .seen(format!("current_clocksource is {name}"))
    .fix(fix)
}

/// Whether the processor is Arm before ARMv7, by the last word of its name: `(v5l)`, or `(v6b)`
/// with the bytes in the other order (`c_show` in `arch/arm/kernel/setup.c`). Linux lets programs
/// read no counter of these.
fn is_before_armv7(document: &Document) -> bool {
    let cpu = document.machine.cpu.as_deref().unwrap_or_default();
    ["(v4", "(v5", "(v6"].iter().any(|word| cpu.contains(word))
}

/// Whether the machine is Arm or RISC-V. If the architecture was not recorded, the clocksource
/// decides.
fn is_arm_or_riscv(document: &Document) -> bool {
    match document.machine.architecture.as_deref() {
        Some(name) => ["arm", "aarch64", "riscv"]
            .iter()
            .any(|start| name.starts_with(start)),
        None => {
            document.machine.lists_clocksource("arch_sys_counter")
                || document.machine.lists_clocksource("riscv_clocksource")
        }
    }
}

/// The finding that the clocksource's name is unreadable, although no clock is slow.
fn unknown_clocksource(document: &Document) -> Option<Finding> {
    // Without a kernel release, no facts were collected, or the system is not Linux.
    if document.machine.clocksource().is_some() || document.machine.kernel.is_none() {
        return None;
    }
    let mut finding = Finding::note(
        Code::ClocksourceUnknown,
        "the name of the kernel's clocksource is unreadable",
    )
    .seen(format!("{CURRENT_FILE} can't be read"))
    .fix(unmask(document));
    if let Some((clock, ServedBy::Vdso)) = document.precise_served_by() {
        finding = finding.seen(format!("the vDSO answers {clock} all the same"));
    }
    Some(finding)
}

/// The finding that a system call answers, and the clocksource's name is unreadable.
fn unreadable_and_slow(document: &Document) -> Finding {
    let what = if document.machine.is_gvisor() {
        "each call for the time is a call into gVisor, which hides the host's clocksource"
    } else {
        "each call for the time is a system call, and the name of the kernel's clocksource is \
         unreadable"
    };
    Finding::slow(Code::ClocksourceUnknown, what)
        .seen(format!("{CURRENT_FILE} can't be read"))
        .fix(unmask(document))
}

/// Makes the clocksource's name readable.
fn unmask(document: &Document) -> &'static str {
    if document.machine.is_gvisor() {
        "run tickline on the host: gVisor shows no clocksource"
    } else {
        "give the container the host's /sys, read-only (mount -t sysfs -o ro sysfs /sys), or run \
         tickline outside of the container"
    }
}

/// The finding that the process does not use the vDSO. `None` if the vDSO answers the coarse clock.
fn vdso_bypassed(document: &Document) -> Option<Finding> {
    let coarse_served_by = document.coarse_served_by();
    if coarse_served_by == Some(ServedBy::Vdso) {
        return None;
    }
    // If the vDSO is mapped in spite of the parameter, it is not off.
    if let Some(parameter) = vdso_parameter(document)
        && document.machine.vdso_mapped != Some(true)
    {
        return Some(
            Finding::slow(
                Code::VdsoOff,
                "the vDSO is switched off, so each call for the time is a system call",
            )
            .seen(format!("the kernel's command line has {parameter}"))
            .fix(without_vdso_parameter(parameter, document)),
        );
    }
    // An unknown clocksource may be slow by itself. On 32-bit Arm, the kernel removes every clock
    // from the vDSO if the vDSO cannot read a counter (PLATFORM.md).
    let name = document.machine.clocksource()?;
    let is_arm_32 = document.machine.architecture.as_deref() == Some("arm");
    if is_arm_32 || coarse_served_by != Some(ServedBy::SystemCall) {
        return None;
    }
    Some(
        Finding::slow(
            Code::VdsoUnused,
            "this process does not use the vDSO, so each call for the time is a system call",
        )
        .seen(format!("current_clocksource is {name}"))
        .seen(format!(
            "a system call answers {MONOTONIC_COARSE}, which a vDSO in use answers with any \
             clocksource"
        ))
        .seen_all(mapping(document))
        .fix(LOOK_BETWEEN),
    )
}

/// Finds what keeps a process from the vDSO.
const LOOK_BETWEEN: &str = "look for what stands between program and vDSO: an interposed libc \
                            (LD_PRELOAD), a recorder or debugger (rr, valgrind), a sandbox, a libc \
                            without vDSO";

/// The parameter on the kernel's command line that switches the vDSO off.
fn vdso_parameter(document: &Document) -> Option<&'static str> {
    if document.machine.has_parameter("vdso=0") {
        return Some("vdso=0");
    }
    // `Documentation/admin-guide/kernel-parameters.txt`: `vdso32=0` applies to 32-bit processes.
    if document.machine.is_x86_32() && document.machine.has_parameter("vdso32=0") {
        return Some("vdso32=0");
    }
    None
}

/// The removal of a parameter that keeps the kernel's clocks from the vDSO.
fn without_vdso_parameter(parameter: &str, document: &Document) -> Fix {
    Fix::from(format!("take `{parameter}` off the kernel's command line"))
        .with_steps(steps::remove_parameter(parameter, document))
}

/// The finding that the vDSO can read the clocksource, but does not answer.
fn vdso_unused(name: &str, document: &Document) -> Finding {
    let finding = Finding::slow(
        Code::VdsoUnused,
        format!("the kernel keeps time with {name}, which the vDSO can read, but does not here"),
    )
    .seen(format!("current_clocksource is {name}"));
    let erratum = if name == "arch_sys_counter" {
        ", or a counter with an erratum (sudo dmesg | grep -i erratum)"
    } else if OTHER_COUNTERS.contains(&name) {
        ", or a processor whose counter programs may not read"
    } else {
        ""
    };
    let old_kernel = format!("a kernel too old for its vDSO to read that clocksource{erratum}");
    // The vDSO answers the coarse clock, so the process uses the vDSO.
    if document.coarse_served_by() == Some(ServedBy::Vdso) {
        return finding
            .seen(coarse_by_vdso())
            .fix(format!("look for {old_kernel}"));
    }
    finding
        .seen_all(mapping(document))
        .fix(Fix::from(LOOK_BETWEEN).or(format!("or for {old_kernel}")))
}

/// Whether the kernel has mapped its vDSO, in words.
fn mapping(document: &Document) -> Option<String> {
    let text = if document.machine.vdso_mapped? {
        "/proc/self/maps has a [vdso], so the callers bypass it"
    } else {
        "/proc/self/maps has no [vdso]"
    };
    Some(text.to_owned())
}

/// The vDSO does not read KVM's clock.
fn kvm_clock(document: &Document) -> Finding {
    const NO_VSYSCALL: &str = "no-kvmclock-vsyscall";
    if document.machine.has_parameter(NO_VSYSCALL) {
        return Finding::slow(
            Code::VdsoOff,
            "the kernel's command line keeps kvm-clock from the vDSO",
        )
        .seen("current_clocksource is kvm-clock")
        .seen(format!("the kernel's command line has {NO_VSYSCALL}"))
        .fix(without_vdso_parameter(NO_VSYSCALL, document));
    }
    // A 64-bit vDSO reads kvm-clock if the host sets PVCLOCK_TSC_STABLE_BIT (PLATFORM.md).
    let lacks_bit =
        document.coarse_served_by() == Some(ServedBy::Vdso) && !document.machine.is_x86_32();
    let finding = if lacks_bit {
        Finding::slow(
            Code::KvmClockUnstable,
            "the vDSO can't read kvm-clock here: the host does not guarantee a stable TSC \
             (PVCLOCK_TSC_STABLE_BIT)",
        )
        .seen("current_clocksource is kvm-clock")
        .seen(coarse_by_vdso())
    } else {
        Finding::slow(
            Code::KvmClockUnstable,
            "the kernel keeps time with kvm-clock, which the vDSO does not read here; usually the \
             host does not guarantee a stable TSC",
        )
        .seen("current_clocksource is kvm-clock")
    }
    .seen_all(tsc::rejection_evidence(document));
    if document.may_use_tsc() {
        return with_switch_to_tsc(finding, document);
    }
    let host = shared_fixes::host_fix(document)
        .or_else(|| Some(hosts::kvm(document)))
        .unwrap_or_default();
    finding.fix(
        host.then("the host's kernel must not have marked its TSC unstable")
            .then(
                "after that the guest may use tsc itself, if the host never suspends it, saves and \
                 restores it, starts it from a snapshot, or migrates it",
            ),
    )
}

/// Adds the switch to the TSC, which the kernel accepts, as the fix.
fn with_switch_to_tsc(finding: Finding, document: &Document) -> Finding {
    finding
        .seen("available_clocksource has tsc")
        .fix(shared_fixes::use_tsc(document))
}

/// The vDSO does not read Xen's clock.
fn xen(document: &Document) -> Finding {
    let finding = Finding::slow(
        Code::XenClocksource,
        "the kernel keeps time with xen's clock, which the vDSO can't read here",
    )
    .seen("current_clocksource is xen");
    if document.are_unsynchronised() {
        let help = if document.machine.cloud.is_some() {
            "use another type of instance"
        } else {
            "the finding counters_unsynchronised says what can be done about the counters"
        };
        return finding.fix(Fix::none("the counters are unsynchronised").then(help));
    }
    let finding = finding.seen_all(tsc::rejection_evidence(document));
    let accepts_tsc = document.machine.accepts_tsc();
    if accepts_tsc == Some(true) {
        return with_switch_to_tsc(finding, document);
    }
    if let Some(parameter) = tsc::parameter_against_tsc(document) {
        return finding
            .seen(format!("the kernel's command line has {parameter}"))
            .fix(shared_fixes::without_parameter(parameter, document));
    }
    if document.machine.rejection().is_some() || document.machine.lists_clocksource("tsc") {
        return finding.fix(tsc::fix_for_rejected(document));
    }
    if document.machine.has_invariant_tsc() == Some(false) {
        return finding.fix(shared_fixes::host_fix_or(shared_fixes::trust_tsc, document));
    }
    if accepts_tsc.is_none() {
        return finding.fix(
            shared_fixes::see_offer().then_fix("if tsc is there,", shared_fixes::use_tsc(document)),
        );
    }
    finding.fix(shared_fixes::trust_tsc(document))
}

/// The vDSO does not read Hyper-V's clock without the reference TSC page.
fn hyperv(name: &str, document: &Document) -> Finding {
    let finding = Finding::slow(
        Code::HypervWithoutPage,
        "each call for the time is a call of Hyper-V: the kernel does not use the page that has \
         the TSC's rate",
    )
    .seen(format!("current_clocksource is {name}"))
    .seen_all(tsc::rejection_evidence(document))
    .fix(
        "use a host that offers the reference TSC page (privilege AccessPartitionReferenceTsc), \
         and a kernel with CONFIG_HYPERV_TIMER: the clocksource is then \
         hyperv_clocksource_tsc_page, which the vDSO reads",
    );
    if document.may_use_tsc() {
        return with_switch_to_tsc(finding, document);
    }
    not_chosen(name, document).unwrap_or(finding)
}

tickline_core::named! {
    /// The codes of the findings of this file, in the order of the alphabet.
    #[derive(Debug, Clone, Copy)]
    pub(super) enum Code {
        ClocksourceNotChosen => "clocksource_not_chosen",
        ClocksourceSlow => "clocksource_slow",
        ClocksourceUnknown => "clocksource_unknown",
        HypervWithoutPage => "hyperv_without_page",
        KvmClockUnstable => "kvm_clock_unstable",
        ParavirtualClockDearer => "paravirtual_clock_dearer",
        VdsoOff => "vdso_off",
        VdsoUnused => "vdso_unused",
        XenClocksource => "xen_clocksource",
    }
}

impl Explained for Code {
    fn explanation(&self) -> Explanation {
        let code = self.code();
        match self {
            Self::ClocksourceNotChosen => Explanation {
                code,
                summary: "The kernel keeps time with a slow clock, though it offers one that the \
                          vDSO reads (slow).",
                text: "An administrator or a program has chosen the slow clock, on the kernel's \
                       command line or since the start. A switch to the other clock takes effect \
                       at once for all programs, and can be undone as easily. To see what the \
                       kernel offers:",
                more: &[Commands(&[SHOW_AVAILABLE])],
            },
            Self::ClocksourceSlow => Explanation {
                code,
                summary: "The kernel keeps time with a clock that the vDSO does not read (slow).",
                text: "Each call for the time therefore enters the kernel, which then reads a \
                       device or a slow register. Either the kernel knows no faster counter on \
                       this machine, or its list of clocksources could not be read.",
                more: &[
                    Prose(
                        "On Arm and RISC-V the CPU's counter must be described in the device tree \
                         or in ACPI. Some older processors of Arm have no counter that programs \
                         may read: those before ARMv7, and Cortex-A5, A8 and A9. To see what the \
                         kernel would accept:",
                    ),
                    Commands(&[SHOW_AVAILABLE]),
                ],
            },
            Self::ClocksourceUnknown => Explanation {
                code,
                summary: "The name of the kernel's clocksource is unreadable (note; slow, if calls \
                          for the time are system calls).",
                text: "A container may mask /sys, and gVisor hides it. The doctor then can't say \
                       why the clock is slow or fast. Run the doctor on the host, or give the \
                       container the host's /sys, read-only.",
                more: &[],
            },
            Self::HypervWithoutPage => Explanation {
                code,
                summary: "Each call for the time is a call of the hypervisor Hyper-V (slow).",
                text: "The kernel keeps time with `hyperv_clocksource_msr`, a register that leads \
                       to the host. Where the host offers the reference TSC page, and the kernel \
                       has CONFIG_HYPERV_TIMER, the clocksource is `hyperv_clocksource_tsc_page`, \
                       and the vDSO reads it.",
                more: &[],
            },
            Self::KvmClockUnstable => Explanation {
                code,
                summary: "The vDSO does not read kvm-clock here (slow).",
                text: "The vDSO reads it only if the host guarantees that the parameters hold for \
                       all CPUs (PVCLOCK_TSC_STABLE_BIT). The host does not give this guarantee if \
                       its own kernel has marked the TSC unstable, or keeps time with another \
                       clocksource than tsc. So first check the host's clocksource, on the host:",
                more: &[Commands(&[SHOW_CURRENT])],
            },
            Self::ParavirtualClockDearer => Explanation {
                code,
                summary: "The vDSO reads the hypervisor's clock, which takes longer than the TSC \
                          would (note).",
                text: "After each reading the vDSO must check whether the hypervisor has changed \
                       the parameters. The kernel accepts tsc as well. Switch only if calls for \
                       the time matter, and the host never suspends the guest, saves and restores \
                       it, starts it from a snapshot, or migrates it: the host moves kvm-clock on, \
                       but with tsc the guest keeps the old time, runs at another rate, or does \
                       not resume. Some clouds recommend one of the two; the doctor then says \
                       which one.",
                more: &[],
            },
            Self::VdsoOff => Explanation {
                code,
                summary: "The vDSO is switched off (slow).",
                text: "A parameter of the kernel (`vdso=0`, `vdso32=0`, `no-kvmclock-vsyscall`) \
                       takes the vDSO, or its use of kvm-clock, away from all programs, so each \
                       call for the time is a system call. Remove the parameter from the kernel's \
                       command line, and restart.",
                more: &[],
            },
            Self::VdsoUnused => Explanation {
                code,
                summary: "The vDSO could answer, but the process does not use it (slow).",
                text: "A recorder or a debugger (rr, valgrind), a sandbox, a library in \
                       LD_PRELOAD, or a libc that knows no vDSO stands between the process and the \
                       vDSO. Other programs of the machine may be fast: run the doctor as you run \
                       them, in the same container and with the same environment.",
                more: &[],
            },
            Self::XenClocksource => Explanation {
                code,
                summary: "The vDSO can't read Xen's clock here (slow).",
                text: "Each call for the time is a system call. If the kernel accepts tsc, AWS \
                       recommends it for its instances on Xen. Elsewhere, first decide whether the \
                       host suspends the guest, saves and restores it, or migrates it: with tsc it \
                       then keeps the old time, or does not resume (Qubes OS). If Xen shows no \
                       invariant TSC, change the domain's configuration (`nomigrate=1`), or take \
                       another type of instance.",
                more: &[],
            },
        }
    }
}
