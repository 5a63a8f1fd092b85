//! Findings about the counters, about settings, and about the program's own process: its rights,
//! its tracer, and a library that replaces its clocks. A finding about the process says nothing
//! about other processes.

use clap::ValueEnum;

use super::{Rule, hosts, shared_fixes};
use crate::document::Block::{Commands, Prose};
use crate::document::facts::is_counter;
use crate::document::{Document, Explained, Explanation, Finding, Fix};
use crate::machine::{self, Ntp};
use crate::measure::calls::GETPPID;
use crate::measure::served_by::ServedBy;
use crate::words::frequency;

/// The rules before those about the clocksource: why readings of a clock fail or mislead.
pub(super) const BEFORE_CLOCKSOURCE: [Rule; 4] = [
    counter_denied,
    counters_unsynchronised,
    clock_interposed,
    counter_trapped,
];

/// The rules between those about the clocksource and those about Unix time.
pub(super) const BEFORE_UNIX_TIME: [Rule; 3] = [traced, no_thread, not_invariant];

/// The rules after all others. A new rule goes here.
pub(super) const LAST: [Rule; 4] = [
    frequency_implausible,
    firmware_writes_tsc,
    switched_off,
    environment_unrecognised,
];

/// `PR_SET_TSC` denies the counter. libc's clocks then raise SIGSEGV where the vDSO reads it.
fn counter_denied(facts: &Document) -> Option<Finding> {
    if facts.machine.counter_readable != Some(false) {
        return None;
    }
    let killed = facts
        .costs
        .iter()
        .filter(|row| row.served_by == Some(ServedBy::Nobody))
        .count();
    let finding =
        if killed > 0 {
            Finding::wrong(
            Code::CounterDenied,
            "this process may not read the counter, and a call of a libc clock kills the process \
             with SIGSEGV",
        )
        .seen("prctl(PR_GET_TSC) says PR_TSC_SIGSEGV")
        .seen(format!("calls of these clocks killed the calling process: {killed}"))
        } else {
            Finding::note(
            Code::CounterDenied,
            "this process may not read the counter, so no code in this process can use the counter",
        )
        .seen("prctl(PR_GET_TSC) says PR_TSC_SIGSEGV")
        };
    let fix = Fix::from(
        "find the parent process that calls prctl(PR_SET_TSC, PR_TSC_SIGSEGV), which children \
         inherit",
    )
    .then("it must call prctl(PR_SET_TSC, PR_TSC_ENABLE) before it starts the program");
    Some(finding.fix(fix))
}

/// The counters of two CPUs differ.
fn counters_unsynchronised(facts: &Document) -> Option<Finding> {
    if !facts.are_unsynchronised() {
        return None;
    }
    // The vDSO computes a hypervisor's clock from the counter. It uses one CPU's parameters,
    // because the host guarantees that they hold for all CPUs (`__arch_get_hw_counter` and
    // `vread_pvclock` in `arch/x86/include/asm/vdso/gettimeofday.h`). A system call uses its own
    // CPU's parameters.
    let kernel_uses_them = facts.clocksource().is_some_and(is_counter)
        || facts.paravirtual_clock().is_some() && facts.is_answered_by_vdso();
    let host = shared_fixes::host_or_firmware_fix(facts);
    let mut finding = if kernel_uses_them {
        let fix = match other_timer(facts) {
            Some(timer) => shared_fixes::switch_to(timer, facts).then_fix("then ", host),
            None => host,
        };
        Finding::wrong(
            Code::CountersUnsynchronised,
            "the counters of two CPUs differ, and the kernel keeps time with them: threads see \
             time step back",
        )
        .fix(fix)
    } else {
        Finding::note(
            Code::CountersUnsynchronised,
            "the counters of two CPUs differ: programs that read them directly see time step back",
        )
        .fix(host)
    };
    if facts.are_unsynchronised_by_clock() {
        finding = finding.seen(match facts.machine.counters.as_str() {
            // Facts that a person has written may lack this text.
            "" => "a comparison of the CPUs' counters",
            words => words,
        });
    }
    finding = finding.seen_all(facts.unsynchronised_pairs());
    if facts.has_parameter("tsc=reliable") {
        finding = finding.seen(
            "the kernel's command line has tsc=reliable, so the kernel has not compared the \
             counters",
        );
    }
    Some(finding)
}

/// The first clocksource on offer that does not read the counter.
fn other_timer(facts: &Document) -> Option<&str> {
    let offered = facts.machine.available_clocksources.as_deref()?;
    offered
        .split_whitespace()
        .find(|name| !is_counter(name) && facts.clocksource() != Some(name))
}

/// A read of the counter takes longer than a system call that reads no clock. Only a trapped
/// instruction is that slow.
fn counter_trapped(facts: &Document) -> Option<Finding> {
    let (name, counter_ns) = facts.counter()?;
    let call_ns = facts.cost_ns(GETPPID)?;
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
                "see whether the kernel works around an erratum of the counter (dmesg | grep -i \
                 erratum)",
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
        .fix(hosts::untrapped_tsc(facts.hypervisor()).unwrap_or(
            "on the host: use a processor that scales the guest's TSC (tsc_scaling, or VMX TSC \
             scaling), or restart the guest, if it was moved from a host with another frequency",
        )),
    };
    let mut finding = finding.seen(format!(
        "{name} takes {counter_ns:.0} ns, a system call that reads no clock (getppid) \
         {call_ns:.0} ns"
    ));
    if let (Some(ns), Some((clock, _))) = (facts.precise_ns(), facts.precise_served_by()) {
        finding = finding.seen(format!(
            "{clock}, which reads the counter, takes {ns:.0} ns"
        ));
    }
    Some(finding)
}

/// CPUID does not state that the counter runs at a constant rate.
fn not_invariant(facts: &Document) -> Option<Finding> {
    if facts.invariant() != Some(false) {
        return None;
    }
    Some(
        Finding::note(
            Code::CounterNotInvariant,
            "CPUID does not say that the counter runs at one rate in all power states",
        )
        .seen("CPUID 8000_0007h, EDX bit 8 is 0")
        .fix(shared_fixes::invariant_tsc(facts)),
    )
}

/// The largest plausible difference between the measured and the nominal frequency, ppm. Crystals
/// are off by at most 100 ppm, and hypervisors and firmware round to MHz.
const PLAUSIBLE_PPM: u64 = 5_000;

/// The measured frequency differs from the nominal one.
fn frequency_implausible(facts: &Document) -> Option<Finding> {
    let nominal_hz = facts.clock.nominal_frequency_hz?;
    let measured_hz = facts.clock.frequency_hz?;
    // A fast slew of CLOCK_MONOTONIC changes the measured frequency. It is a finding of its own.
    let rate_ppb = facts.machine.ntp.as_ref().map_or(0, Ntp::rate_ppb);
    if rate_ppb.unsigned_abs() / 1_000 > PLAUSIBLE_PPM {
        return None;
    }
    if nominal_hz.abs_diff(measured_hz) <= nominal_hz / 1_000_000 * PLAUSIBLE_PPM {
        return None;
    }
    let nominal = frequency(nominal_hz);
    let measured = frequency(measured_hz);
    Some(
        Finding::unsure(
            Code::FrequencyImplausible,
            "the counter's frequency differs from the one that the processor or the hypervisor \
             reports: the kernel's clocks may run at a wrong rate",
        )
        .seen(format!(
            "nominal {nominal}, measured {measured} against CLOCK_MONOTONIC"
        ))
        .fix(
            "see whether the kernel has calibrated the counter wrongly (dmesg | grep -i 'tsc:'; \
             compare after a restart), or the guest was moved to a host with another frequency \
             (restart the guest)",
        ),
    )
}

/// Firmware writes to the TSC.
fn firmware_writes_tsc(facts: &Document) -> Option<Finding> {
    let messages = facts.firmware_writes()?;
    let first = *messages.first()?;
    Some(
        Finding::note(
            Code::FirmwareWritesTsc,
            format!(
                "the firmware writes to the counter of a CPU; the kernel has undone such writes \
                 {} times",
                messages.len()
            ),
        )
        .seen(first)
        .fix(shared_fixes::FIRMWARE),
    )
}

/// `TICKLINE=off` switches the counter off.
fn switched_off(facts: &Document) -> Option<Finding> {
    if facts.reason.as_deref() != Some("disabled_by_environment") {
        return None;
    }
    Some(
        Finding::note(
            Code::SwitchedOff,
            "the user has switched off the counter for tickline",
        )
        .seen("the environment variable TICKLINE is off")
        .fix("unset TICKLINE"),
    )
}

/// `TICKLINE` is neither `on` nor `off`.
fn environment_unrecognised(facts: &Document) -> Option<Finding> {
    if !facts.clock.environment_unrecognised {
        return None;
    }
    Some(
        Finding::note(
            Code::EnvironmentUnrecognised,
            "the environment variable TICKLINE has a value that is ignored",
        )
        .seen("TICKLINE is neither on nor off")
        .fix("unset TICKLINE"),
    )
}

/// The least difference that shows a faked time, ns. It is longer than an interruption between the
/// two calls.
const FAKED_NS: u64 = 1_000_000_000;

/// A library such as libfaketime replaces libc's `clock_gettime`.
fn clock_interposed(facts: &Document) -> Option<Finding> {
    let file = facts.machine.clock_gettime_file.as_deref()?;
    if machine::is_libc(file) {
        return None;
    }
    let name = file.rsplit('/').next().unwrap_or(file);
    let seen_file = format!("the dynamic linker has clock_gettime from {file}");
    let difference_ns = facts.machine.clock_gettime_difference_ns.unwrap_or(0);
    let finding = if difference_ns.unsigned_abs() > FAKED_NS {
        let difference_s = difference_ns / 1_000_000_000;
        Finding::wrong(
            Code::ClockInterposed,
            format!("{name} replaces libc's clock_gettime, and gives this process another time"),
        )
        .seen(seen_file)
        .seen(format!(
            "Unix time by clock_gettime minus that by the system call: {difference_s} s"
        ))
    } else {
        Finding::note(
            Code::ClockInterposed,
            format!("{name} replaces libc's clock_gettime in this process"),
        )
        .seen(seen_file)
    };
    Some(
        finding
            .fix("start the program without that library: see LD_PRELOAD and /etc/ld.so.preload"),
    )
}

/// A tracer, such as a debugger, stops the process at system calls or signals.
fn traced(facts: &Document) -> Option<Finding> {
    let pid = facts.machine.tracer_pid?;
    if pid == 0 {
        return None;
    }
    Some(
        Finding::note(
            Code::Traced,
            "another process traces this one, so its system calls may take many times as long as \
             usual",
        )
        .seen(format!("/proc/self/status: TracerPid is {pid}"))
        .fix(format!(
            "measure without strace, gdb or other tracers: ps -p {pid} names the tracer"
        )),
    )
}

/// tickline's clock could not start its thread.
fn no_thread(facts: &Document) -> Option<Finding> {
    let error = facts.clock.thread_error.as_ref()?;
    Some(
        Finding::note(
            Code::NoThread,
            "tickline's clock has no thread, so the readers renew its lines, and the CPUs' \
             counters are not compared",
        )
        .seen(format!("starting it failed: {error}"))
        .fix(
            "allow the user more processes (ulimit -u, prlimit --nproc), or the container more \
             tasks (pids.max)",
        ),
    )
}

/// The codes of the findings of this file, in the order of the alphabet.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Code {
    ClockInterposed,
    CounterDenied,
    CounterNotInvariant,
    CounterTrapped,
    CountersUnsynchronised,
    EnvironmentUnrecognised,
    FirmwareWritesTsc,
    FrequencyImplausible,
    NoThread,
    SwitchedOff,
    Traced,
}

impl Explained for Code {
    fn explanation(&self) -> Explanation {
        match self {
            Self::ClockInterposed => Explanation {
                code: "clock_interposed",
                summary: "A library stands between programs and libc's clock (note; wrong, if it fakes \
                  the time).",
                text: "The dynamic linker found `clock_gettime` in a file other than libc, because of \
               LD_PRELOAD or /etc/ld.so.preload. libfaketime replaces the function to change the \
               time; profilers do so to count calls. The doctor compares the library's time with \
               that of a system call. If they differ by more than a second, the time is faked.",
                more: &[
                    Prose(
                        "Programs that are started with the same environment have the same clock. A \
                   service has an environment of its own. To see the environment of a process:",
                    ),
                    Commands(&["tr '\\0' '\\n' < /proc/PID/environ | grep LD_"]),
                ],
            },
            Self::CounterDenied => Explanation {
                code: "counter_denied",
                summary: "The process may not read the CPU's counter (note; wrong, if a clock ends the \
                  process).",
                text: "A parent process or a sandbox has called prctl(PR_SET_TSC, PR_TSC_SIGSEGV), which \
               children inherit. If the vDSO reads the counter, a call of clock_gettime then ends \
               the program by SIGSEGV. Other processes of the machine are not affected.",
                more: &[],
            },
            Self::CounterNotInvariant => Explanation {
                code: "counter_not_invariant",
                summary: "The counter may change its rate with the CPU's power states (note).",
                text: "CPUID does not call it invariant. On a processor of the last 15 years this usually \
               means that the hypervisor hides the feature: ask its administrator to show an \
               invariant TSC. Until then, do not force the kernel to use the TSC, unless you know \
               that the host's processors keep it at one rate.",
                more: &[],
            },
            Self::CounterTrapped => Explanation {
                code: "counter_trapped",
                summary: "Reading the counter takes longer than a system call (slow).",
                text: "The hypervisor emulates the instruction, or, on Arm, the kernel works around an \
               erratum of the counter. Hypervisors emulate it after a guest was moved to a host \
               with another frequency, if the processor can't scale the counter. Even a call that \
               the vDSO answers is then slow.",
                more: &[],
            },
            Self::CountersUnsynchronised => Explanation {
                code: "counters_unsynchronised",
                summary: "The counters of two CPUs differ (wrong, if the kernel keeps time with them; \
                  else a note).",
                text: "A thread that moves from one CPU to the other sees time step back. Either the \
               firmware has set the counters to different values, or the host's own counters \
               differ, and the hypervisor moves virtual CPUs between them. If the kernel keeps \
               time with the counter, first switch to another clocksource, and then remove the \
               cause. To see which CPUs differ:",
                more: &[Commands(&["tickline warp"])],
            },
            Self::EnvironmentUnrecognised => Explanation {
                code: "environment_unrecognised",
                summary: "The environment variable TICKLINE has a value that tickline ignores (note).",
                text: "Only `on` and `off` mean something. tickline behaves as if the variable were not \
               set.",
                more: &[],
            },
            Self::FirmwareWritesTsc => Explanation {
                code: "firmware_writes_tsc",
                summary: "The firmware writes to the counter of a CPU (note).",
                text: "The kernel noticed the write through the register TSC_ADJUST, and undid it, as the \
               kernel's log says. The counter is good as long as the kernel undoes each such \
               write. A newer firmware (BIOS) may leave the counter alone.",
                more: &[],
            },
            Self::FrequencyImplausible => Explanation {
                code: "frequency_implausible",
                summary: "The counter does not run at the frequency that the processor or the hypervisor \
                  names (unsure).",
                text: "The measured and the named frequency differ by more than 5,000 ppm; crystals are \
               off by at most 100 ppm. Either the kernel has calibrated the counter wrongly, and \
               its clock gains or loses 0.5 % or more, or the guest was moved to a host with \
               another frequency. Compare the kernel's calibration before and after a restart:",
                more: &[Commands(&["sudo dmesg | grep -i 'tsc:'"])],
            },
            Self::NoThread => Explanation {
                code: "no_thread",
                summary: "tickline's own clock could not start its thread (note).",
                text: "The user, or the container, may have no more processes. Readers then renew the \
               clock themselves, and the CPUs' counters are not compared. The kernel's clocks are \
               not affected.",
                more: &[],
            },
            Self::SwitchedOff => Explanation {
                code: "switched_off",
                summary: "The environment variable TICKLINE is off (note).",
                text: "tickline does not use the counter in this process: readings come from the OS \
               clock. Everything else that the doctor says still holds.",
                more: &[],
            },
            Self::Traced => Explanation {
                code: "traced",
                summary: "Another process traces this one (note).",
                text: "strace, gdb and recorders stop a program at each system call, so measured costs \
               may be many times as high as usual. Measure without the tracer.",
                more: &[],
            },
        }
    }
}
