//! The frequency by which the kernel converts the counter into time: how a user sees it, and what
//! corrects it.
//!
//! | processor | the kernel's frequency | source file |
//! |---|---|---|
//! | x86 | measured at boot, or stated by CPUID | `arch/x86/kernel/tsc.c` |
//! | Arm, with a device tree | its `clock-frequency`, or else the register CNTFRQ_EL0, which firmware sets | `arch_timer_of_configure_rate` in `drivers/clocksource/arm_arch_timer.c` |
//! | Arm, with ACPI | CNTFRQ_EL0 | `arch_timer_acpi_init` there |
//! | RISC-V | `timebase-frequency` of the device tree, or ACPI | `arch/riscv/kernel/time.c` |

use crate::document::Document;

/// The command that shows the kernel's frequency, whatever the processor.
pub(in crate::diagnose) const SHOW_ON_EACH_PROCESSOR: &str =
    "sudo dmesg | grep -iE 'tsc:|arch_timer|sched_clock'";

/// The command that shows the kernel's frequency on this machine.
pub(in crate::diagnose) fn show_frequency(document: &Document) -> &'static str {
    if document.machine.may_be_x86() {
        "sudo dmesg | grep -i 'tsc:'"
    } else {
        "sudo dmesg | grep -E 'arch_timer|sched_clock'"
    }
}

/// What corrects the kernel's frequency, if it is wrong.
pub(in crate::diagnose) fn correct_frequency(document: &Document) -> String {
    let show = show_frequency(document);
    if document.machine.may_be_x86() {
        format!("restart, so that the kernel measures the counter's frequency again ({show})")
    } else {
        format!(
            "correct the frequency that {} states: the kernel measures none, but uses that one \
             ({show})",
            stated_by(document)
        )
    }
}

/// What states the frequency to the kernel of a processor that is not x86.
pub(in crate::diagnose) fn stated_by(document: &Document) -> &'static str {
    let architecture = document.machine.architecture.as_deref().unwrap_or_default();
    if architecture == "arm" || architecture == "aarch64" {
        "the device tree (clock-frequency) or the firmware (CNTFRQ_EL0)"
    } else if architecture.starts_with("riscv") {
        "the device tree (timebase-frequency) or ACPI"
    } else {
        "the device tree or the firmware"
    }
}
