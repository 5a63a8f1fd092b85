//! Findings about the CPUs' counters: whether they agree, whether a read is fast, and their rate.

use super::{hosts, process, shared_fixes};
use crate::clocksources::{is_computed_from_counter, is_counter, is_tick};
use crate::document::Block::{Commands, Prose};
use crate::document::{Document, Explained, Explanation, Finding, Fix};
use crate::measure::calls::GETPPID;
use crate::words::frequency;

/// The counters of two CPUs differ.
pub(super) fn counters_unsynchronised(document: &Document) -> Option<Finding> {
    if !document.are_unsynchronised() {
        return None;
    }
    // The vDSO computes a hypervisor's clock from the counter. It uses one CPU's parameters,
    // because the host guarantees that they hold for all CPUs (`__arch_get_hw_counter` and
    // `vread_pvclock` in `arch/x86/include/asm/vdso/gettimeofday.h`). A system call uses its own
    // CPU's parameters. A vDSO that answers the precise clock computes it from the counter, also
    // where the name of the clocksource is hidden. gVisor has no other source, in its system calls
    // either (`CalibratedClock.GetTime` in `pkg/sentry/time`).
    let computes_from_counter =
        document.machine.paravirtual_clock().is_some() || document.machine.clocksource().is_none();
    let kernel_uses_them = document.machine.is_gvisor()
        || document.machine.clocksource().is_some_and(is_counter)
        || computes_from_counter && document.is_answered_by_vdso();
    let host = shared_fixes::synchronise(document);
    let mut finding = if kernel_uses_them {
        let fix = match other_timer(document) {
            Some(timer) => shared_fixes::switch_to(timer, document).then_fix("then", host),
            None => host,
        };
        let kernel = if document.machine.is_gvisor() {
            "gVisor"
        } else {
            "the kernel"
        };
        Finding::wrong(
            Code::CountersUnsynchronised,
            format!(
                "the counters of two CPUs differ, and {kernel} keeps time with them: threads see \
                 time step back"
            ),
        )
        .fix(fix)
    } else {
        Finding::note(
            Code::CountersUnsynchronised,
            "the counters of two CPUs differ: programs that read them directly see time step back",
        )
        .fix(host)
    };
    if document.are_unsynchronised_by_clock() {
        finding = finding.seen(match document.machine.counters.as_str() {
            // Facts that a person has written may lack this text.
            "" => "a comparison of the CPUs' counters",
            words => words,
        });
    }
    finding = finding.seen_all(document.unsynchronised_pairs());
    if document.machine.has_parameter("tsc=reliable") {
        finding = finding.seen(
            "the kernel's command line has tsc=reliable, so the kernel has not compared the \
             counters",
        );
    }
    Some(finding)
}

/// The first clocksource on offer that is not computed from the counter, except the timer tick and
/// an hpet that may stop, which keep time badly. gVisor uses none of its host's.
fn other_timer(document: &Document) -> Option<&str> {
    if document.machine.is_gvisor() {
        return None;
    }
    let offered = document.machine.available_clocksources.as_deref()?;
    let is_bad = |name: &str| {
        is_tick(name) || name == "hpet" && shared_fixes::may_have_stopping_hpet(document)
    };
    offered.split_whitespace().find(|name| {
        !is_computed_from_counter(name)
            && !is_bad(name)
            && document.machine.clocksource() != Some(name)
    })
}

/// A read of the counter takes longer than a system call that reads no clock. Only a trapped
/// instruction is that slow.
pub(super) fn counter_trapped(document: &Document) -> Option<Finding> {
    let (name, counter_ns) = document.bare_counter_read()?;
    let call_ns = document.cost_ns(GETPPID)?;
    if counter_ns <= call_ns {
        return None;
    }
    let finding = match name {
        // Linux itself may trap the instruction as a workaround for an erratum
        // (`drivers/clocksource/arm_arch_timer.c`).
        "cntvct_el0" => Finding::slow(
            Code::CounterTrapped,
            "reading the counter takes longer than a system call: kernel or hypervisor emulates \
             the instruction",
        )
        .fix(
            Fix::from(
                "see whether the kernel works around an erratum of the counter (sudo dmesg | \
                 grep -i erratum)",
            )
            .then("if so, only another processor helps"),
        ),
        "rdtime" => Finding::slow(
            Code::CounterTrapped,
            "reading the counter takes longer than a system call: the firmware emulates rdtime",
        )
        .fix(Fix::none(
            "the processor or the hypervisor has no register `time`, so the firmware (OpenSBI) \
             emulates the register",
        )),
        _ => Finding::slow(
            Code::CounterTrapped,
            "reading the counter takes longer than a system call: the hypervisor emulates the \
             instruction",
        )
        .fix(hosts::untrapped_tsc(document).unwrap_or(
            "on the host: use a processor that scales the guest's TSC (tsc_scaling, or VMX TSC \
             scaling), or restart the guest, if it was moved from a host with another frequency",
        )),
    };
    let mut finding = finding.seen(format!(
        "{name} takes {counter_ns:.0} ns, a system call that reads no clock (getppid) \
         {call_ns:.0} ns"
    ));
    if let (Some(ns), Some((clock, _))) = (document.precise_cost_ns(), document.precise_served_by())
    {
        finding = finding.seen(format!(
            "{clock}, which reads the counter, takes {ns:.0} ns"
        ));
    }
    Some(finding)
}

/// CPUID does not state that the counter runs at a constant rate.
pub(super) fn not_invariant(document: &Document) -> Option<Finding> {
    if document.machine.has_invariant_tsc() != Some(false) {
        return None;
    }
    Some(
        Finding::note(
            Code::CounterNotInvariant,
            "CPUID does not say that the counter runs at one rate in all power states",
        )
        .seen("CPUID 8000_0007h, EDX bit 8 is 0")
        .fix(shared_fixes::invariant_tsc(document)),
    )
}

/// The measured frequency differs from the nominal one, or from one in the kernel's log.
pub(super) fn frequency_implausible(document: &Document) -> Option<Finding> {
    if !is_clock_by_counter(document) {
        return None;
    }
    wrong_frequency(document)
}

/// The same on a clocksource that does not use the counter: the clocks' present rate may be right.
pub(super) fn unused_frequency_implausible(document: &Document) -> Option<Finding> {
    if is_clock_by_counter(document) {
        return None;
    }
    wrong_frequency(document)
}

/// Whether the kernel's clocks are computed from the counter, for all that is known.
fn is_clock_by_counter(document: &Document) -> bool {
    document
        .machine
        .clocksource()
        .is_none_or(is_computed_from_counter)
}

fn wrong_frequency(document: &Document) -> Option<Finding> {
    // The frequency was measured against a clock that is not the kernel's.
    if process::faked_pace_ppb(document).is_some() {
        return None;
    }
    let measured_hz = document.clock.frequency_hz?;
    let nominal_hz = document
        .recorded_nominal_hz()
        .filter(|hz| document.is_implausible(measured_hz, *hz));
    let doubt = document.tsc_frequency_doubt();
    let finding = if let Some(nominal_hz) = nominal_hz {
        let nominal = frequency(nominal_hz);
        let measured = frequency(measured_hz);
        let what = if document.machine.may_be_x86() {
            "the counter's frequency differs from the one that the processor or the hypervisor \
             reports: the kernel's clocks may run at a wrong rate"
        } else {
            // The device tree may correct a wrong register, and the kernel is then right.
            "the counter's frequency differs from the one that the firmware or the hypervisor \
             states: either that is wrong, or the kernel's clocks run at a wrong rate"
        };
        Finding::unsure(Code::FrequencyImplausible, what).seen(format!(
            "nominal {nominal}, measured {measured} against CLOCK_MONOTONIC"
        ))
    } else if doubt.is_some() {
        Finding::unsure(
            Code::FrequencyImplausible,
            "the counter's frequency differs from one in the kernel's log: the kernel's clocks \
             run at a wrong rate, or would with the TSC",
        )
    } else {
        return None;
    };
    Some(finding.seen_all(doubt).fix(find_wrong_frequency(document)))
}

/// Finds out why the counter has another frequency than the nominal one.
fn find_wrong_frequency(document: &Document) -> Fix {
    let show = shared_fixes::show_frequency(document);
    let look = if document.machine.may_be_x86() {
        format!(
            "see whether the kernel has calibrated the counter wrongly ({show}; compare after a \
             restart)"
        )
    } else {
        let stated_by = shared_fixes::stated_by(document);
        format!(
            "see which frequency the kernel uses ({show}): it takes that of {stated_by}, and one \
             of them may be wrong"
        )
    };
    if document.machine.is_guest() == Some(false) {
        return look.into();
    }
    Fix::from(format!(
        "{look}, or the guest was moved to a host with another frequency (restart the guest)"
    ))
}

/// Firmware writes to the TSC.
pub(super) fn firmware_writes_tsc(document: &Document) -> Option<Finding> {
    let messages = document.machine.firmware_writes()?;
    let first = *messages.first()?;
    let writer = match document.machine.is_guest() {
        Some(true) => "the host",
        Some(false) => "the firmware",
        None => "the firmware or the host",
    };
    Some(
        Finding::note(
            Code::FirmwareWritesTsc,
            format!(
                "{writer} writes to the counter of a CPU; the kernel has undone such writes {} \
                 times",
                messages.len()
            ),
        )
        .seen(first)
        .fix(shared_fixes::host_or_firmware_fix(document)),
    )
}

tickline_core::named! {
    /// The codes of the findings of this file, in the order of the alphabet.
    #[derive(Debug, Clone, Copy)]
    pub(super) enum Code {
        CounterNotInvariant => "counter_not_invariant",
        CounterTrapped => "counter_trapped",
        CountersUnsynchronised => "counters_unsynchronised",
        FirmwareWritesTsc => "firmware_writes_tsc",
        FrequencyImplausible => "frequency_implausible",
    }
}

impl Explained for Code {
    fn explanation(&self) -> Explanation {
        let code = self.code();
        match self {
            Self::CounterNotInvariant => Explanation {
                code,
                summary: "The counter may change its rate with the CPU's power states (note).",
                text: "CPUID does not call it invariant. On a processor of the last 15 years this \
                       usually means that the hypervisor hides the feature: ask its administrator \
                       to show an invariant TSC. Until then, do not force the kernel to use the \
                       TSC, unless you know that the host's processors keep it at one rate.",
                more: &[],
            },
            Self::CounterTrapped => Explanation {
                code,
                summary: "Reading the counter takes longer than a system call (slow).",
                text: "The hypervisor emulates the instruction, or, on Arm, the kernel works \
                       around an erratum of the counter. Hypervisors emulate it after a guest was \
                       moved to a host with another frequency, if the processor can't scale the \
                       counter. Even a call that the vDSO answers is then slow.",
                more: &[],
            },
            Self::CountersUnsynchronised => Explanation {
                code,
                summary: "The counters of two CPUs differ (wrong, if the kernel keeps time with \
                          them; else a note).",
                text: "A thread that moves from one CPU to the other sees time step back. Either \
                       the firmware has set the counters to different values, or the host's own \
                       counters differ, and the hypervisor moves virtual CPUs between them. If the \
                       kernel keeps time with the counter, first switch to another clocksource, \
                       and then remove the cause. To see which CPUs differ:",
                more: &[Commands(&["tickline warp"])],
            },
            Self::FirmwareWritesTsc => Explanation {
                code,
                summary: "The firmware writes to the counter of a CPU (note).",
                text: "The kernel noticed the write through the register TSC_ADJUST, and undid it, \
                       as the kernel's log says. The counter is good as long as the kernel undoes \
                       each such write. A newer firmware (BIOS) may leave the counter alone.",
                more: &[],
            },
            Self::FrequencyImplausible => Explanation {
                code,
                summary: "The counter does not run at the frequency that the processor, the \
                          hypervisor or the kernel's log names (unsure).",
                text: "The measured and the named frequency differ by more than 5,000 ppm; \
                       crystals are off by at most 100 ppm. Either the kernel has calibrated the \
                       counter wrongly, and its clock gains or loses 0.5 % or more with it, or the \
                       present clock runs at a wrong rate, or the guest was moved to a host with \
                       another frequency. Do not switch to tsc before the two agree. Compare the \
                       kernel's calibration before and after a restart:",
                more: &[
                    Commands(&[shared_fixes::SHOW_ON_EACH_PROCESSOR]),
                    Prose(
                        "On Arm and RISC-V the kernel measures nothing: the device tree or the \
                         firmware states the frequency. On Arm, `clock-frequency` of the device \
                         tree may correct what the firmware has left in CNTFRQ_EL0. The kernel's \
                         clocks are then right, and the register is wrong.",
                    ),
                ],
            },
        }
    }
}
