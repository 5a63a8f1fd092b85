//! Explains a slow clock by the kernel's clocksource, and by whether the vDSO can read it.

use super::facts::{is_counter, is_slow};
use super::finding::Finding;
use super::fix::Fix;
use super::{fix, steps, texts};
use crate::document::Document;
use crate::machine::CLOCKSOURCE;
use crate::measure::served_by::ServedBy;

/// At most one finding: the deepest cause with evidence. A slow clocksource is always a finding.
/// Any other is a finding only if a system call answers, or if its name is unreadable.
pub(super) fn slow(facts: &Document) -> Option<Finding> {
    let current = facts.clocksource();
    let served = facts.precise_served_by();
    let is_slow = current.is_some_and(is_slow);
    let by_call = matches!(served, Some((_, ServedBy::SystemCall)));
    if !is_slow && !by_call {
        return unknown_clocksource(facts);
    }
    let bypassed = if is_slow { None } else { vdso_bypassed(facts) };
    let finding = match (bypassed, current) {
        (Some(finding), _) => finding,
        (None, current) => slow_clocksource(current, facts),
    };
    let asked = served
        .filter(|_| by_call)
        .map(|(clock, _)| format!("a system call answers {clock}, not the vDSO"));
    let words = facts
        .clocksource_parameters()
        .map(|word| format!("the kernel's command line has {word}"));
    Some(
        finding
            .with_evidence(words)
            .with_evidence(asked)
            .with_evidence(fix::provider(facts))
            .with_gain(facts),
    )
}

/// The vDSO reads the hypervisor's clock, which takes longer than a read of the TSC, because the
/// vDSO must also check whether the hypervisor has changed the parameters (`vread_pvclock`).
pub(super) fn paravirtual_dearer(facts: &Document) -> Option<Finding> {
    let name = facts
        .paravirtual_clock()
        .filter(|_| facts.is_answered_by_vdso())?;
    if facts.avoidable_cost_ns().is_none() || !may_use_tsc(facts) {
        return None;
    }
    let finding = named("paravirtual_clock_dearer", name).with_fix(fix::use_tsc(facts));
    Some(finding.with_gain(facts).with_evidence(fix::provider(facts)))
}

/// Whether the kernel accepts the TSC, and no comparison has found unsynchronised counters.
fn may_use_tsc(facts: &Document) -> bool {
    facts.accepts_tsc() == Some(true) && !facts.are_unsynchronised()
}

/// The finding that the vDSO could read another clocksource on offer. A switch to it is the fix.
fn not_chosen(name: &str, facts: &Document) -> Option<Finding> {
    let other = facts.other_for_vdso()?;
    let finding = Finding::new(
        "clocksource_not_chosen",
        &[("clocksource", &name), ("other", &other)],
    );
    Some(finding.with_fix(fix::switch_to(other, facts)))
}

/// A finding whose text names the clocksource.
fn named(key: &'static str, name: &str) -> Finding {
    Finding::new(key, &[("clocksource", &name)])
}

/// The finding about a clocksource that is slow, or that the vDSO does not read.
fn slow_clocksource(current: Option<&str>, facts: &Document) -> Finding {
    match current {
        Some(name) if is_counter(name) => vdso_unused(name, facts),
        Some("kvm-clock") => kvm_clock(facts),
        Some("xen") => xen(facts),
        Some(name @ ("hyperv_clocksource_msr" | "hyperv_clocksource")) => hyperv(name, facts),
        Some(name) if facts.is_x86() => without_tsc(name, facts),
        Some(name) => not_chosen(name, facts).unwrap_or_else(|| slow_elsewhere(name, facts)),
        None if facts.hypervisor() == "gvisor" => unreadable("clocksource_unknown/gvisor"),
        None => unreadable("clocksource_unknown/system_call"),
    }
}

/// A slow clocksource on a machine that is not x86 and offers no better clocksource.
fn slow_elsewhere(name: &str, facts: &Document) -> Finding {
    // Before ARMv7, Linux lets programs read no processor's counter.
    let is_armv6 = facts
        .machine
        .cpu
        .as_deref()
        .is_some_and(|cpu| cpu.contains("ARMv6"));
    named(
        if is_armv6 {
            "clocksource_slow/no_counter"
        } else {
            "clocksource_slow"
        },
        name,
    )
}

fn unreadable(key: &'static str) -> Finding {
    Finding::new(key, &[("folder", &CLOCKSOURCE)])
}

/// The finding that the clocksource's name is unreadable, a note if no clock is slow.
fn unknown_clocksource(facts: &Document) -> Option<Finding> {
    // Without a kernel release, no facts were collected, or the system is not Linux.
    if facts.clocksource().is_some() || facts.machine.kernel.is_none() {
        return None;
    }
    let served = match facts.precise_served_by() {
        Some((clock, ServedBy::Vdso)) => Some(format!("the vDSO answers {clock} all the same")),
        _ => None,
    };
    Some(unreadable("clocksource_unknown").with_evidence(served))
}

/// The finding that the process does not use the vDSO. `None` if the vDSO answers the coarse clock.
fn vdso_bypassed(facts: &Document) -> Option<Finding> {
    let coarse = facts.coarse_served_by();
    if coarse == Some(ServedBy::Vdso) {
        return None;
    }
    // `Documentation/admin-guide/kernel-parameters.txt`: `vdso32=0` applies to 32-bit processes.
    let words = ["vdso=0", "vdso32=0"]
        .into_iter()
        .filter(|word| *word == "vdso=0" || facts.is_x86_32());
    // If the vDSO is mapped in spite of the parameter, it is not off.
    let word = words.into_iter().find(|word| facts.has_parameter(word));
    if let Some(word) = word.filter(|_| facts.machine.vdso_mapped != Some(true)) {
        return Some(parameter_finding("vdso_off", word));
    }
    // An unknown clocksource may be slow by itself. On 32-bit Arm, the kernel removes every clock
    // from the vDSO if the vDSO cannot read a counter (PLATFORM.md).
    let name = facts
        .clocksource()
        .filter(|_| facts.machine.architecture.as_deref() != Some("arm"))?;
    (coarse == Some(ServedBy::SystemCall))
        .then(|| named("vdso_unused", name).with_evidence(mapping(facts)))
}

/// The finding that a parameter of the kernel's command line, to be removed, disables the vDSO.
fn parameter_finding(key: &'static str, word: &'static str) -> Finding {
    Finding::new(key, &[("word", &word)]).with_steps(steps::remove_parameter(word))
}

/// The finding that the vDSO can read the clocksource, but does not answer.
fn vdso_unused(name: &str, facts: &Document) -> Finding {
    let arm = if facts.is_x86() {
        ""
    } else {
        ", or on Arm, a counter with an erratum (dmesg | grep -i erratum)"
    };
    let finding = |key| Finding::new(key, &[("clocksource", &name), ("arm", &arm)]);
    match facts.coarse_served_by() {
        // The vDSO answers the coarse clock, so the process uses the vDSO.
        Some(ServedBy::Vdso) => finding("vdso_unused/in_use"),
        _ => finding("vdso_unused/readable").with_evidence(mapping(facts)),
    }
}

fn mapping(facts: &Document) -> Option<String> {
    Some(match facts.machine.vdso_mapped? {
        false => "/proc/self/maps has no [vdso]".to_owned(),
        true => "/proc/self/maps has a [vdso], so the callers bypass it".to_owned(),
    })
}

fn kvm_clock(facts: &Document) -> Finding {
    const NO_VSYSCALL: &str = "no-kvmclock-vsyscall";
    if facts.has_parameter(NO_VSYSCALL) {
        return parameter_finding("vdso_off/kvm_clock", NO_VSYSCALL);
    }
    // A 64-bit vDSO reads kvm-clock if the host sets PVCLOCK_TSC_STABLE_BIT (PLATFORM.md).
    let in_use = facts.coarse_served_by() == Some(ServedBy::Vdso) && !facts.is_x86_32();
    let key = if in_use {
        "kvm_clock_unstable/in_use"
    } else {
        "kvm_clock_unstable"
    };
    let finding = Finding::new(key, &[]).with_evidence(rejection_evidence(facts));
    if may_use_tsc(facts) {
        return with_switch_to_tsc(finding, facts);
    }
    let host = fix::host_fix(facts)
        .or_else(|| fix::fix_for_hypervisor("kvm", facts))
        .unwrap_or_default();
    finding.with_fix(host.reworded(|host| {
        format!("{host}; the host's kernel must not have marked its TSC unstable; after that the guest may use tsc itself")
    }))
}

/// Adds the switch to the TSC, which the kernel accepts, as the fix.
fn with_switch_to_tsc(finding: Finding, facts: &Document) -> Finding {
    let evidence = "available_clocksource has tsc".to_owned();
    finding
        .with_evidence([evidence])
        .with_fix(fix::use_tsc(facts))
}

fn xen(facts: &Document) -> Finding {
    let finding = Finding::new("xen_clocksource", &[]);
    if facts.are_unsynchronised() {
        return finding.with_fix(Fix::none(
            "the counters are unsynchronised; use another type of instance",
        ));
    }
    let finding = finding.with_evidence(rejection_evidence(facts));
    if facts.accepts_tsc() == Some(true) {
        return with_switch_to_tsc(finding, facts);
    }
    if facts.rejection().is_some() || facts.lists("tsc") {
        return finding.with_fix(tsc_fix(facts));
    }
    finding.with_fix(match (facts.accepts_tsc(), facts.invariant()) {
        (_, Some(false)) => fix::host_fix_or(fix::trust_tsc, facts),
        (None, _) => {
            let then = fix::use_tsc(facts).text;
            format!(
                "see what it would accept: cat {CLOCKSOURCE}/available_clocksource; if tsc is there, {then}"
            )
            .into()
        }
        _ => fix::trust_tsc(facts),
    })
}

fn hyperv(name: &str, facts: &Document) -> Finding {
    let finding = named("hyperv_without_page", name).with_evidence(rejection_evidence(facts));
    if may_use_tsc(facts) {
        return with_switch_to_tsc(finding, facts);
    }
    not_chosen(name, facts).unwrap_or(finding)
}

/// The finding for an x86 machine whose clocksource is not the TSC.
fn without_tsc(name: &str, facts: &Document) -> Finding {
    if facts.accepts_tsc() == Some(true) {
        let fix = match facts.are_unsynchronised() {
            true => Fix::none("the counters are unsynchronised"),
            false => fix::use_tsc(facts),
        };
        return named("tsc_not_chosen", name).with_fix(fix);
    }
    if let Some(finding) = not_chosen(name, facts) {
        return finding;
    }
    if let Some(word) = ["notsc", "tsc=unstable"]
        .into_iter()
        .find(|word| facts.has_parameter(word))
    {
        return Finding::new(
            "tsc_switched_off",
            &[("clocksource", &name), ("word", &word)],
        )
        .with_fix(remove_parameter(word, facts));
    }
    let offered = facts.machine.available_clocksources.as_deref();
    let missing = offered.map(|list| match facts.lists("tsc") {
        true => format!("available_clocksource has tsc, but the kernel has rejected it: {list}"),
        false => format!("available_clocksource has no tsc: {list}"),
    });
    let Some(rejection) = facts.rejection() else {
        return unexplained(name, missing, facts);
    };
    let finding = Finding::new(
        rejection.key,
        &[("clocksource", &name), ("reason", &rejection.reason)],
    );
    // The kernel's verdict may be old, so also show the present comparison.
    let today = facts.counters();
    let today = (!today.is_empty()).then(|| format!("the counters today: {today}"));
    finding
        .with_evidence(missing.into_iter().chain(rejection.messages).chain(today))
        .with_fix(tsc_fix(facts))
}

/// The finding if the log does not say why the kernel does not use the TSC.
fn unexplained(name: &str, missing: Option<String>, facts: &Document) -> Finding {
    let then = match facts.lists("tsc") {
        true => tsc_fix(facts),
        false => missing_tsc_fix(facts),
    };
    let has_log = facts.machine.kernel_log.is_some();
    let why = match has_log {
        true => "the kernel's log does not say why, or no longer does",
        false => "the kernel's log, which says why, may not be read by this user",
    };
    // If there is no fix, the log cannot change that.
    let then = if has_log || then.is_none {
        then
    } else {
        format!(
            "read why: sudo dmesg | grep -iE 'tsc|clocksource'; then {}",
            then.text
        )
        .into()
    };
    if missing.is_none() {
        return offer_unknown(name, facts, then);
    }
    let key = if facts.lists("tsc") {
        "tsc_unstable"
    } else {
        "tsc_missing"
    };
    named(key, name)
        .with_evidence(missing)
        .with_evidence([why.to_owned()])
        .with_fix(then)
}

/// The kernel's messages about its rejection of the TSC. Without a message, the position of the TSC
/// at the end of the list of clocksources may show the rejection.
fn rejection_evidence(facts: &Document) -> Vec<String> {
    match facts.rejection() {
        Some(rejection) => rejection.messages,
        None if facts.lists("tsc") && facts.accepts_tsc() == Some(false) => {
            vec!["available_clocksource has tsc at its end, where the kernel puts one that it has marked unstable".to_owned()]
        }
        None => Vec::new(),
    }
}

/// The fix for a TSC that the kernel does not offer, for an unknown reason.
fn missing_tsc_fix(facts: &Document) -> Fix {
    match fix::host_fix(facts) {
        Some(host) => host,
        None if facts.are_unsynchronised() => texts::phrase("firmware").into(),
        None => fix::trust_tsc(facts),
    }
}

/// The finding that the clocksource is slow, if it is unknown which others the kernel accepts.
/// `then` is the fix if the kernel does not accept the TSC.
fn offer_unknown(name: &str, facts: &Document, then: Fix) -> Finding {
    let finding = named("clocksource_slow/offer_unknown", name);
    if !facts.may_have_good_tsc() {
        return finding.with_fix(then);
    }
    let (switch, then) = (fix::use_tsc(facts).text, then.text);
    finding.with_fix(format!(
        "see what it would accept: cat {CLOCKSOURCE}/available_clocksource; if tsc is there, {switch}; if not, {then}"
    ))
}

/// The fix for a TSC that the kernel has rejected. Without a message, the watchdog has probably
/// rejected it, because the kernel had registered the TSC before.
fn tsc_fix(facts: &Document) -> Fix {
    match facts
        .rejection()
        .map_or("tsc_watchdog", |rejection| rejection.key)
    {
        // A comparison agrees with the kernel, so do not override the kernel's verdict.
        _ if facts.are_unsynchronised() => fix::host_or_firmware_fix(facts),
        "tsc_warp" if fix::host_fix(facts).is_none() => texts::phrase("firmware").into(),
        "tsc_skew" | "tsc_watchdog" => fix::check_tsc(facts),
        // Only the watchdog's measurement has failed, so the TSC may be good.
        "tsc_watchdog_delay" => fix::host_fix_or(fix::no_watchdog, facts),
        // The text names a parameter for each of the two idle drivers, one of which is in use.
        "tsc_halts" => texts::phrase("halts").into(),
        "tsc_switched_off/by_log" => remove_parameter("tsc=unstable", facts),
        _ => fix::host_fix_or(fix::trust_tsc, facts),
    }
}

/// The fix for a parameter that keeps the kernel from the TSC. If the TSC is bad, the parameter
/// stays.
fn remove_parameter(word: &str, facts: &Document) -> Fix {
    if facts.are_unsynchronised() {
        return fix::host_or_firmware_fix(facts);
    }
    if !facts.may_have_good_tsc() {
        return fix::invariant_tsc(facts);
    }
    let steps = facts
        .has_parameter(word)
        .then(|| steps::remove_parameter(word));
    Fix {
        text: format!("take `{word}` off the kernel's command line"),
        steps,
        is_none: false,
    }
}
