//! The fixes that several rules share: parameters of the kernel, and the choice between a setting
//! of the host and one of this machine.
//!
//! What a fix may not do:
//!
//! - It does not recommend the TSC if the counters are unsynchronised, if the kernel has measured a
//!   warp, if the TSC is not invariant, or if the kernel may have its frequency wrong.
//! - In a guest, or if that is unknown, a fix that leads to the TSC begins with what the host may
//!   do (`after_decision`).
//! - Firmware is a fix on bare metal only (`host_or_firmware_fix`; for counters that differ,
//!   `synchronise`).
//!
//! `tests/harm.rs` and `tests/guests.rs` test it.

mod counter_frequency;
mod stopping_hpet;
mod tsc_frequency;

use super::{hosts, steps};
use crate::clocksources::{SHOW_AVAILABLE, SHOW_CURRENT};
use crate::document::{Document, Fix};
use crate::machine::kernel_log::Cause;
use crate::machine::{Cloud, Hypervisor};

pub(super) use counter_frequency::{
    SHOW_ON_EACH_PROCESSOR, correct_frequency, show_frequency, stated_by,
};
pub(super) use stopping_hpet::{has_stopping_hpet, may_have_stopping_hpet, without_hpet};
use tsc_frequency::state_frequency;

/// The fix for firmware that has written to the counters, or has left them unsynchronised. It is a
/// fix on bare metal only: a guest has no firmware that sets the counters.
const FIRMWARE: &str = "update the firmware (BIOS), and switch the machine off and on again, which \
                        sets all counters to 0";

/// The same for processors that are not x86.
const OTHER_FIRMWARE: &str =
    "update the firmware, which starts the counters, and switch the machine off and on again";

/// The condition under which the kernel may be told not to check the TSC.
const RELIABLE_ONLY_WHERE: &str = "which switches off both the kernel's watchdog and its \
                                   comparison of the CPUs' counters at boot: use it only if \
                                   `tickline warp` finds the counters of all CPUs synchronised, \
                                   and the machine stays on its host";

/// The condition of each override if the kernel's reason is unknown: it may have measured a warp.
const NO_WARP: &str = "no message of the kernel (sudo dmesg) says that counters differ: a warp, an \
                       inter CPU skew, or a backwards TSC";

/// The look at the clocksources that the kernel offers, if they are unknown.
pub(super) fn see_offer() -> Fix {
    format!("see what it would accept: {SHOW_AVAILABLE}").into()
}

/// The switch of the kernel to another clocksource that it accepts, now and after a restart.
pub(super) fn switch_to(clocksource: &str, document: &Document) -> Fix {
    let now = steps::switch_command(clocksource);
    let at_next_start = match document.machine.last_parameter("clocksource=") {
        Some(parameter) if parameter.strip_prefix("clocksource=") == Some(clocksource) => {
            format!("the kernel's command line has `{parameter}` already, for the next start")
        }
        // Without any such parameter, the kernel would choose a clocksource by its own preferences.
        Some(parameter) => {
            format!("to keep it, boot with clocksource={clocksource} instead of `{parameter}`")
        }
        None => format!("to keep it, boot with clocksource={clocksource}"),
    };
    Fix::from(now)
        .then(at_next_start)
        .with_switch(clocksource, steps::switch(clocksource, document))
}

/// What the host may do to a guest that keeps time with the TSC, and the condition under which the
/// guest may use it all the same. Sources:
///
/// - Xen: QubesOS/qubes-issues#8061, QubesOS/qubes-core-admin#545. Firecracker: e2b-dev/infra#638.
/// - Hyper-V offers an invariant TSC only if the processor can scale the counter (Linux commit
///   dce7cd62754b). VMware provides "a reliable virtual TSC that is suitable for timekeeping"
///   (`vmware_set_capabilities` in `arch/x86/kernel/cpu/vmware.c`). Neither says what becomes of
///   the counter's value, and no source is known for Google's hosts.
fn decision(document: &Document) -> (String, &'static str) {
    const DECIDE: &str = "decide first whether the host ever suspends this guest, saves and \
                          restores it, starts it from a snapshot, or migrates it";
    const NONE_OF_THESE: &str = "it does none of these";
    const OR_NO_HARM: &str = "it does none of these, or that does no harm";
    let machine = &document.machine;
    let is_of_hyperv =
        machine.hypervisor == Some(Hypervisor::HyperV) || machine.cloud == Some(Cloud::Azure);
    let (effect, condition) = if is_of_hyperv && machine.has_invariant_tsc() == Some(true) {
        (
            "Hyper-V keeps the counter's rate, but with tsc the guest may then keep the old time \
             until NTP corrects it",
            OR_NO_HARM,
        )
    } else if machine.hypervisor == Some(Hypervisor::Vmware) {
        (
            "VMware keeps the counter's rate, unless the .vmx has monitor_control.virtual_rdtsc = \
             \"FALSE\", but with tsc the guest may then keep the old time until NTP corrects it",
            OR_NO_HARM,
        )
    } else if machine.cloud == Some(Cloud::Google) {
        (
            "Google does not say what becomes of the counter, so with tsc the guest may then keep \
             the old time until NTP corrects it, or run at another rate",
            OR_NO_HARM,
        )
    } else {
        (
            "with tsc the guest then keeps the old time until NTP corrects it, runs at another \
             rate, or does not resume",
            NONE_OF_THESE,
        )
    };
    (format!("{DECIDE}: {effect}"), condition)
}

/// Whether the machine is a guest, also by its clocksource if nothing else tells. Xen's dom0 has a
/// host's clock, and is no guest.
fn is_guest(document: &Document) -> Option<bool> {
    let by_clock = document.machine.has_host_clock().then_some(true);
    document.machine.is_guest().or(by_clock)
}

/// Puts before a fix that leads to the TSC what the host may do to a guest, also if it is unknown
/// whether the machine is one.
pub(super) fn after_decision(fix: Fix, document: &Document) -> Fix {
    let (decision, condition) = decision(document);
    match is_guest(document) {
        Some(true) => fix
            .with_caution(&decision)
            .preceded_by(decision, &format!("if {condition}:")),
        Some(false) => fix,
        None => {
            let if_guest = format!("if this machine is a guest, {decision}");
            fix.with_caution(&if_guest)
                .preceded_by(if_guest, &format!("if there is no host, or {condition}:"))
        }
    }
}

/// The switch of the kernel to the TSC, which the kernel must accept, with the checks that must
/// come first. If CPUID does not call the TSC invariant, its rate may vary, which one comparison of
/// the CPUs can't show. The fix then has no commands. If the kernel may have the TSC's frequency
/// wrong, there is no fix.
///
/// In a guest, the fix says first what the host may do. The hypervisor's own clock survives that,
/// so a switch from it has no commands, unless the provider recommends the TSC.
pub(super) fn use_tsc(document: &Document) -> Fix {
    let recommended = document.machine.cloud.as_ref().and_then(hosts::recommended);
    match recommended {
        Some(name) if name != "tsc" && document.machine.clocksource() == Some(name) => {
            let host = host_fix(document).unwrap_or_default();
            let tsc = checked_switch_to_tsc(document);
            return host.or_unless_impossible(
                &format!("or, against the provider's recommendation of {name}:"),
                &tsc,
            );
        }
        Some(name) if name != "tsc" && document.machine.lists_clocksource(name) => {
            return switch_to(name, document);
        }
        _ => {}
    }
    let fix = checked_switch_to_tsc(document);
    if document.machine.has_host_clock() && recommended != Some("tsc") {
        fix.without_steps()
    } else {
        fix
    }
}

/// The switch to the TSC, with the checks and the decision that must come first.
fn checked_switch_to_tsc(document: &Document) -> Fix {
    if let Some(doubt) = document.tsc_frequency_doubt() {
        return Fix::none(&format!(
            "with tsc the kernel's clocks would run at a wrong rate: {doubt}"
        ))
        .then("`tickline explain frequency_implausible` says what to look at");
    }
    let is_invariant = document.machine.has_invariant_tsc() != Some(false);
    let mut checks = Vec::new();
    // A host whose own clock the kernel uses does not guarantee its TSC, so the counters must be
    // compared first. For a TSC that is not invariant, the text below contains that condition.
    if document.machine.paravirtual_clock().is_some()
        && is_invariant
        && !document.are_synchronised()
    {
        checks.push(
            "that `tickline warp` finds the counters synchronised, which the host does not \
             guarantee"
                .to_owned(),
        );
        // The vDSO reads kvm-clock if the host vouches for its TSC. A cloud's customer can't look.
        let host_may_doubt =
            document.machine.clocksource() == Some("kvm-clock") && !document.is_answered_by_vdso();
        if host_may_doubt && document.machine.cloud.is_none() {
            checks.push(format!(
                "that the host's kernel keeps time with tsc ({SHOW_CURRENT} there)"
            ));
        }
    }
    if document.machine.kernel_log.is_none() {
        checks.push(
            "that the kernel's log, which could not be read here, does not call the TSC unstable \
             (sudo dmesg | grep -iE 'tsc|clocksource')"
                .to_owned(),
        );
    }
    let mut switch = switch_to("tsc", document);
    if !checks.is_empty() {
        let checks = checks.join(", and ");
        switch = switch.preceded_by(format!("check first {checks}"), "then:");
    }
    switch = after_decision(switch, document);
    if is_invariant {
        return switch;
    }
    let invariant = invariant_tsc(document);
    if invariant.is_impossible() {
        return invariant;
    }
    invariant.or_fix(
        "or, as CPUID does not call the TSC invariant, only where the host's processors are known \
         to keep their TSC at one rate, `tickline warp` finds the counters synchronised, and the \
         machine is not moved to another host:",
        &switch,
    )
}

/// The fix for a TSC that CPUID does not call invariant: the host must offer an invariant TSC.
pub(super) fn invariant_tsc(document: &Document) -> Fix {
    if let Some(host) = host_fix(document) {
        return host;
    }
    if is_guest(document) == Some(true) {
        return "on the host: let the hypervisor show the processor's invariant TSC to the guest"
            .into();
    }
    Fix::none("the processor has no invariant TSC")
        .then("leave the choice of clocksource to the kernel")
}

/// Makes the kernel trust a TSC that it doubts. If the TSC's rate depends on power states, the
/// kernel is right, and there is no fix.
pub(super) fn trust_tsc(document: &Document) -> Fix {
    // A kernel without the frequency doubts nothing.
    if document.machine.lacks_tsc_frequency() {
        return state_frequency(document);
    }
    if document.machine.has_invariant_tsc() == Some(false) {
        return Fix::none("by CPUID the TSC is not invariant, so the kernel's doubts are right");
    }
    if document.machine.has_parameter("tsc=reliable") {
        return Fix::none("the kernel's command line has tsc=reliable already");
    }
    // Older kernels compare the counters in spite of the parameter (`unsynchronized_tsc` in
    // `arch/x86/kernel/tsc.c`).
    let kernel = match document.machine.kernel.as_deref() {
        Some(older) if document.machine.is_kernel_at_least(3, 3) == Some(false) => {
            format!("with a kernel 3.3 or later: this one is {older}")
        }
        _ => "kernel 3.3 or later".to_owned(),
    };
    // `Documentation/admin-guide/kernel-parameters.txt`
    let clocksource = clocksource_tsc(document);
    let mut parameters =
        format!("boot with tsc=reliable {clocksource} ({kernel}), {RELIABLE_ONLY_WHERE}");
    if document.machine.rejection().is_none() {
        parameters += &format!(", and {NO_WARP}");
    }
    after_decision(parameters.into(), document)
}

/// The parameter that chooses the TSC, and the one that it replaces. Of several such parameters the
/// kernel obeys the last.
fn clocksource_tsc(document: &Document) -> String {
    match document.machine.last_parameter("clocksource=") {
        Some(parameter) if parameter != "clocksource=tsc" => {
            format!("clocksource=tsc instead of `{parameter}`")
        }
        _ => "clocksource=tsc".to_owned(),
    }
}

/// Keeps the kernel's watchdog from checking the TSC. The kernel still compares the CPUs' counters
/// at boot (`no_tsc_watchdog` in `arch/x86/kernel/tsc.c`; git pull "x86/timers updates for v5.2").
pub(super) fn no_watchdog(document: &Document) -> Fix {
    if document.machine.has_invariant_tsc() == Some(false) {
        return trust_tsc(document);
    }
    if document.machine.has_parameter("tsc=nowatchdog") {
        return Fix::none("the kernel's command line has tsc=nowatchdog already");
    }
    let clocksource = clocksource_tsc(document);
    // The watchdog itself compares the counters since Linux 7.1.
    let at_run_time = if document.machine.is_kernel_at_least(7, 1) == Some(true) {
        ", and ends the one at run time"
    } else {
        ""
    };
    let mut newer = format!(
        "boot with tsc=nowatchdog {clocksource} (kernel 5.2 or later), which leaves the kernel's \
         comparison of the CPUs' counters at boot in force{at_run_time}"
    );
    if document.machine.rejection().is_none() {
        newer += &format!(": use it only if {NO_WARP}");
    }
    match document.machine.is_kernel_at_least(5, 2) {
        Some(true) => after_decision(newer.into(), document),
        Some(false) => trust_tsc(document),
        None => {
            let older = format!(
                "on an older kernel, boot with tsc=reliable {clocksource}, {RELIABLE_ONLY_WHERE}"
            );
            after_decision(Fix::from(newer).or(older), document)
        }
    }
}

/// The difference between rates from which on one of the clocks is wrong, whatever the kernel
/// tolerates, ppm: NTP corrects no more (`MAXFREQ`, `include/linux/timex.h`). `tickline explain
/// tsc_skew` names it, too.
const BAD_RATE_PPM: u32 = 500;

/// The fix if the kernel's watchdog has, or may have, measured a wrong rate of the TSC. The
/// watchdog tolerates 400 ppm or more (`Machine::tolerates_jumps`). `tickline warp` measures
/// the rate more precisely, even if a read of hpet takes 700 ns. It measures by the kernel's
/// present clock, so a difference does not show which of the two is wrong.
pub(super) fn check_tsc(document: &Document) -> Fix {
    if document.machine.has_invariant_tsc() == Some(false) {
        return host_fix_or(trust_tsc, document);
    }
    let clock = document
        .machine
        .clocksource()
        .unwrap_or("the kernel's clock");
    let is_early = document.machine.has_early_skew();
    let mut check = format!(
        "run `tickline warp` when idle, under load, and hours later, while NTP slews nothing: it \
         measures the TSC's rate by {clock}. If the rates differ by {BAD_RATE_PPM} ppm or more, \
         the kernel may be right, or {clock} is the wrong clock of the two, which NTP shows as a \
         changing frequency (chronyc tracking). The rates do not show a single jump"
    );
    if is_early {
        check += ", a reading that came late, or a wrong frequency: early in the boot, where this \
                  skew was, the kernel has only a first calibration, or what the processor or a \
                  hypervisor states. Compare that frequency (sudo dmesg | grep MHz) with the rate: \
                  if it is wrong, `tsc_early_khz=` states the right one (kernel 5.8 or later)";
    } else if document.machine.tolerates_jumps() {
        check += ", or a reading that came late; here it was rather one of these, because this \
                  kernel tolerates 62.5 ms in half a second";
    }
    let may_be_warp = may_be_warp(document);
    let mut fix = if may_be_warp {
        Fix::from(
            "compare the counters: `tickline warp`. If they differ, or the kernel's older messages \
             say \"inter CPU skew\", the kernel is right",
        )
        .then_fix("if not,", check.into())
    } else {
        check.into()
    };
    if document.machine.clocksource() == Some("hpet") && may_have_stopping_hpet(document) {
        fix = fix.or_fix(
            "if hpet is wrong, which may stop in deep idle states on this processor:",
            &without_hpet(document),
        );
    }
    let fix = if may_be_warp {
        fix.then_fix("if the kernel is right:", synchronise(document))
            .or_unless_impossible(
                "only if the counters are synchronised and the rate is steady:",
                &no_watchdog(document),
            )
    } else {
        // Without its watchdog, the kernel would keep time by a wrong frequency.
        let steady = if is_early {
            "only if the rate is steady and the kernel's frequency right:"
        } else {
            "only if the rate is steady:"
        };
        fix.then_fix("if the kernel is right:", host_or_firmware_fix(document))
            .or_unless_impossible(steady, &no_watchdog(document))
    };
    let Some(when) = document.machine.skew_after_resume() else {
        return fix;
    };
    let firmware = match document.machine.is_guest() {
        Some(true) => "the hypervisor sets the counter then: let the guest not suspend",
        _ => {
            "firmware sets the counter then: update the firmware (BIOS), or let the machine not suspend"
        }
    };
    fix.preceded_by(
        format!(
            "the skew came {when}: restart, and see whether it comes without a suspend, \
             too. If it comes only after a resume, {firmware}"
        ),
        "if it comes without one:",
    )
}

/// Whether the kernel's watchdog may have rejected the TSC for counters that differ. From Linux 7.1
/// it compares those of all CPUs, too, and its last message does not say which of its checks has
/// failed (`watchdog_check_result` in `kernel/time/clocksource.c`).
fn may_be_warp(document: &Document) -> bool {
    document.machine.is_kernel_at_least(7, 1) != Some(false)
        && document
            .machine
            .rejection()
            .is_none_or(|rejection| rejection.cause == Cause::Watchdog)
}

/// The removal of a parameter that keeps the kernel from the TSC, with the checks that must come
/// first: somebody may have set it because the TSC is bad. If the TSC is known to be bad, the
/// parameter stays. If the command line also selects another clocksource, the fix replaces that
/// selection, too, because the kernel would obey it.
pub(super) fn without_parameter(parameter: &str, document: &Document) -> Fix {
    let has_warp = document
        .machine
        .rejection()
        .is_some_and(|rejection| rejection.cause == Cause::Warp);
    if document.are_unsynchronised() || has_warp {
        return synchronise(document);
    }
    if !document.may_have_good_tsc() {
        return invariant_tsc(document);
    }
    let steps = if document.machine.has_parameter(parameter) {
        steps::remove_parameter_against_tsc(parameter, document)
    } else {
        None
    };
    let mut text = format!("take `{parameter}` off the kernel's command line");
    let others = document.machine.selections_against_tsc();
    if !others.is_empty() {
        text += &format!(
            ", and put clocksource=tsc in place of `{}`",
            others.join("` and `")
        );
    }
    let fix = Fix::from(text).with_steps(steps);
    let check = "find out first who set the parameter, and why; then check that `tickline warp` \
                 finds the counters of all CPUs synchronised";
    after_decision(fix.preceded_by(check.to_owned(), "if so:"), document)
}

/// The fix on the host, or the fix in the kernel, which is none for a TSC that is not invariant. If
/// the host is unknown, only the fix in the kernel remains.
pub(super) fn host_fix_or(kernel: fn(&Document) -> Fix, document: &Document) -> Fix {
    match host_fix(document) {
        Some(host) => host.or_unless_impossible("or, on this machine:", &kernel(document)),
        None => kernel(document),
    }
}

/// The fix for counters that differ. The settings of a host only let the guest trust its counters,
/// so those of the host must agree. An emulated counter is not the host's, and a cloud's customer
/// has no host.
pub(super) fn synchronise(document: &Document) -> Fix {
    let fix = host_or_firmware_fix(document);
    let has_setting = document.machine.may_be_x86() && hosts::trusted_tsc(document).is_some();
    let is_emulated = document.machine.hypervisor == Some(Hypervisor::Tcg);
    if !has_setting || document.machine.cloud.is_some() || is_emulated {
        return fix;
    }
    let compare = "on the host: compare its counters (`tickline warp`); if they differ, update its \
                   firmware, or move the guest to another host";
    fix.preceded_by(compare.to_owned(), "if they agree:")
}

/// The fix for the counters' rates and values: on the host of a guest, or in the firmware of bare
/// metal.
pub(super) fn host_or_firmware_fix(document: &Document) -> Fix {
    if document.machine.is_gvisor() {
        return hosts::synchronised_sandbox();
    }
    if let Some(host) = host_fix(document) {
        return host;
    }
    let (firmware, host) = if document.machine.may_be_x86() {
        (FIRMWARE, hosts::synchronised_tsc())
    } else {
        (OTHER_FIRMWARE, hosts::synchronised_counter())
    };
    match document.machine.is_guest() {
        Some(true) => host,
        Some(false) => firmware.into(),
        None => Fix::from(format!("on bare metal: {firmware}"))
            .or(format!("in a guest: {}", host.text())),
    }
}

/// The fix that lets a guest's kernel trust the TSC, for the host's administrator or for the
/// customer of a cloud. `None` without a known hypervisor or cloud, and in gVisor, whose kernel
/// has no TSC of its own to trust.
pub(super) fn host_fix(document: &Document) -> Option<Fix> {
    if document.machine.is_gvisor() {
        return None;
    }
    if let Some(cloud) = &document.machine.cloud
        && let Some(text) = hosts::other_host(cloud, document)
    {
        return Some(text.into());
    }
    if !document.machine.may_be_x86() {
        return None;
    }
    hosts::trusted_tsc(document)
}

/// The cloud provider's own recommendation; `None` outside of the known clouds, and if the kernel
/// does not list the recommended clock. It does not on Arm, nor on bare metal.
pub(super) fn provider(document: &Document) -> Option<String> {
    let cloud = document.machine.cloud.as_ref()?;
    if let Some(name) = hosts::recommended(cloud) {
        let is_there = document.machine.lists_clocksource(name)
            || document.machine.clocksource() == Some(name);
        // The finding about the counters forbids this clock.
        let is_bad = name == "tsc" && document.are_unsynchronised();
        if !is_there || is_bad {
            return None;
        }
    }
    let advice = hosts::advice(cloud)?;
    Some(advice.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Cpuid;

    /// A machine with this kernel.
    fn with_kernel(release: &str) -> Document {
        let mut document = Document::default();
        document.machine.kernel = Some(release.to_owned());
        document
    }

    /// The kernel obeys `tsc=reliable` since 3.3.
    #[test]
    fn an_old_kernel_is_named_where_it_has_to_be_replaced() {
        let fix = trust_tsc(&with_kernel("2.6.32-754.el6")).text();
        let part = "(with a kernel 3.3 or later: this one is 2.6.32-754.el6)";
        assert!(fix.contains(part), "{fix}");
        for release in ["3.3.0", "6.18.0", "unknown"] {
            let fix = trust_tsc(&with_kernel(release)).text();
            assert!(fix.contains("(kernel 3.3 or later)"), "{fix}");
        }
    }

    #[test]
    fn a_tsc_that_is_not_invariant_can_be_fixed_by_the_host_alone() {
        let mut document = with_kernel("6.18.0");
        document.machine.hypervisor = Some(Hypervisor::Kvm);
        let [either, host] = [true, false].map(|invariant| {
            document.machine.cpuid = Some(Cpuid {
                invariant_tsc: Some(invariant),
                ..Cpuid::default()
            });
            host_fix_or(trust_tsc, &document).text()
        });
        assert!(
            either.contains("; or, on this machine: decide first"),
            "{either}"
        );
        assert!(either.contains("boot with tsc=reliable"), "{either}");
        assert!(host.starts_with("on the host: start QEMU"), "{host}");
        assert!(!host.contains("by CPUID"), "{host}");
    }
}
