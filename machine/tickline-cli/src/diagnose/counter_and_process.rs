//! Findings about the counters, about settings, and about the program's own process: its rights,
//! its tracer, and a library that replaces its clocks. A finding about the process says nothing
//! about other processes.

use super::facts::is_counter;
use super::finding::Finding;
use super::texts::{self, TEXTS};
use super::{fix, log};
use crate::document::Document;
use crate::machine::Ntp;
use crate::measure::calls::GETPPID;
use crate::measure::served_by::ServedBy;
use crate::words::frequency;

/// `PR_SET_TSC` denies the counter. libc's clocks then raise SIGSEGV where the vDSO reads it.
pub(super) fn counter_denied(facts: &Document) -> Option<Finding> {
    if facts.machine.counter_readable != Some(false) {
        return None;
    }
    let killed = facts
        .costs
        .iter()
        .filter(|row| row.served_by == Some(ServedBy::Nobody))
        .count();
    let key = if killed > 0 {
        "counter_denied/deadly"
    } else {
        "counter_denied"
    };
    Some(Finding::new(key, &[("killed", &killed)]))
}

/// The counters of two CPUs differ.
pub(super) fn counters_unsynchronised(facts: &Document) -> Option<Finding> {
    if !facts.are_unsynchronised() {
        return None;
    }
    // The vDSO computes a hypervisor's clock from the counter. It uses one CPU's parameters,
    // because the host guarantees that they hold for all CPUs (`__arch_get_hw_counter` and
    // `vread_pvclock` in `arch/x86/include/asm/vdso/gettimeofday.h`). A system call uses its own
    // CPU's parameters.
    let used = facts.clocksource().is_some_and(is_counter)
        || facts.paravirtual_clock().is_some() && facts.is_answered_by_vdso();
    let key = if used {
        "counters_unsynchronised/used"
    } else {
        "counters_unsynchronised"
    };
    let host = fix::host_or_firmware_fix(facts);
    let others = facts
        .machine
        .available_clocksources
        .as_deref()
        .unwrap_or_default();
    let is_other = |name: &&str| !is_counter(name) && facts.clocksource() != Some(name);
    let other = others.split_whitespace().find(is_other).filter(|_| used);
    let fix = match other {
        Some(other) => {
            fix::switch_to(other, facts).reworded(|switch| format!("{switch}; then {}", host.text))
        }
        None => host,
    };
    let evidence =
        facts
            .are_unsynchronised_by_clock()
            .then(|| match facts.machine.counters.as_str() {
                // Facts that a person has written may lack this text.
                "" => "a comparison of the CPUs' counters".to_owned(),
                words => words.to_owned(),
            });
    let forced = facts.has_parameter("tsc=reliable").then(|| {
        "the kernel's command line has tsc=reliable, so the kernel has not compared the counters".to_owned()
    });
    let evidence = evidence
        .into_iter()
        .chain(facts.unsynchronised_pairs())
        .chain(forced);
    Some(Finding::new(key, &[]).with_evidence(evidence).with_fix(fix))
}

/// A read of the counter takes longer than a system call that reads no clock. Only a trapped
/// instruction is that slow.
pub(super) fn counter_trapped(facts: &Document) -> Option<Finding> {
    let ((name, counter), call) = (facts.counter()?, facts.cost_ns(GETPPID)?);
    if counter <= call {
        return None;
    }
    // On Arm, Linux itself may trap the instruction as a workaround for an erratum
    // (`drivers/clocksource/arm_arch_timer.c`).
    let key = match name {
        "cntvct_el0" => "counter_trapped/arm",
        "rdtime" => "counter_trapped/riscv",
        _ => "counter_trapped",
    };
    let finding = Finding::new(key, &[]);
    let host = TEXTS
        .hosts
        .get(facts.hypervisor())
        .filter(|_| key == "counter_trapped");
    let fix = host
        .and_then(|host| host.untrapped.clone())
        .map_or_else(|| finding.fix.clone(), Into::into);
    let evidence = format!(
        "{name} takes {counter:.0} ns, a system call that reads no clock (getppid) {call:.0} ns"
    );
    let clock = facts.precise_ns().zip(facts.precise_served_by());
    let clock =
        clock.map(|(ns, (clock, _))| format!("{clock}, which reads the counter, takes {ns:.0} ns"));
    Some(
        finding
            .with_evidence([evidence])
            .with_evidence(clock)
            .with_fix(fix),
    )
}

/// CPUID does not state that the counter runs at a constant rate.
pub(super) fn not_invariant(facts: &Document) -> Option<Finding> {
    (!facts.invariant()?)
        .then(|| Finding::new("counter_not_invariant", &[]).with_fix(fix::invariant_tsc(facts)))
}

/// The largest plausible difference between the measured and the nominal frequency, ppm. Crystals
/// are off by at most 100 ppm, and hypervisors and firmware round to MHz.
const PLAUSIBLE_PPM: u64 = 5_000;

/// The measured frequency differs from the nominal one.
pub(super) fn frequency_implausible(facts: &Document) -> Option<Finding> {
    let (nominal, measured) = (facts.clock.nominal_frequency_hz?, facts.clock.frequency_hz?);
    // A fast slew of CLOCK_MONOTONIC changes the measured frequency. It is a finding of its own.
    let rate_ppb = facts.machine.ntp.as_ref().map_or(0, Ntp::rate_ppb);
    if rate_ppb.unsigned_abs() / 1_000 > PLAUSIBLE_PPM {
        return None;
    }
    let differs = nominal.abs_diff(measured) > nominal / 1_000_000 * PLAUSIBLE_PPM;
    let values: texts::Values<'_> = &[
        ("nominal", &frequency(nominal)),
        ("measured", &frequency(measured)),
    ];
    differs.then(|| Finding::new("frequency_implausible", values))
}

/// Firmware writes to the TSC.
pub(super) fn firmware_writes_tsc(facts: &Document) -> Option<Finding> {
    let lines = log::firmware_writes_tsc(facts.machine.kernel_log.as_deref()?);
    let values: texts::Values<'_> = &[("times", &lines.len()), ("first", lines.first()?)];
    Some(Finding::new("firmware_writes_tsc", values).with_fix(texts::phrase("firmware")))
}

/// `TICKLINE=off` switches the counter off.
pub(super) fn switched_off(facts: &Document) -> Option<Finding> {
    (facts.reason.as_deref() == Some("disabled_by_environment"))
        .then(|| Finding::new("switched_off", &[]))
}

/// `TICKLINE` is neither `on` nor `off`.
pub(super) fn environment_unrecognised(facts: &Document) -> Option<Finding> {
    facts
        .clock
        .environment_unrecognised
        .then(|| Finding::new("environment_unrecognised", &[]))
}

/// The beginnings of the file names of libraries that provide `clock_gettime`: glibc (up to 2.16 in
/// librt), musl, and Android's libc.
const LIBRARIES: [&str; 6] = [
    "libc.so",
    "libc-",
    "libc.musl",
    "ld-musl",
    "librt.so",
    "librt-",
];

/// The least difference that shows a faked time, ns. It is longer than an interruption between the
/// two calls.
const FAKED_NS: u64 = 1_000_000_000;

/// A library such as libfaketime replaces libc's `clock_gettime`.
pub(super) fn clock_interposed(facts: &Document) -> Option<Finding> {
    let file = facts.machine.clock_gettime_file.as_deref()?;
    let name = file.rsplit('/').next().unwrap_or(file);
    if LIBRARIES.iter().any(|library| name.starts_with(library)) {
        return None;
    }
    let difference_ns = facts.machine.clock_gettime_difference_ns.unwrap_or(0);
    let faked = difference_ns.unsigned_abs() > FAKED_NS;
    let key = if faked {
        "clock_interposed/faked"
    } else {
        "clock_interposed"
    };
    let difference_s = difference_ns / 1_000_000_000;
    Some(Finding::new(
        key,
        &[
            ("name", &name),
            ("file", &file),
            ("difference_s", &difference_s),
        ],
    ))
}

/// A tracer, such as a debugger, stops the process at system calls or signals.
pub(super) fn traced(facts: &Document) -> Option<Finding> {
    let pid = facts.machine.tracer_pid.filter(|pid| *pid != 0)?;
    Some(Finding::new("traced", &[("pid", &pid)]))
}

/// tickline's clock could not start its thread.
pub(super) fn no_thread(facts: &Document) -> Option<Finding> {
    Some(Finding::new(
        "no_thread",
        &[("error", facts.clock.thread_error.as_ref()?)],
    ))
}
