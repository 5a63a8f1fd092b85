//! Explains why the kernel of an x86 machine does not use the TSC.

use super::clocksource::{self, not_chosen};
use super::shared_fixes;
use crate::document::Block::{Commands, Prose};
use crate::document::{Document, Explained, Explanation, Finding, Fix};
use crate::machine::kernel_log::{Cause, Rejection};

/// The finding for an x86 machine whose clocksource is not the TSC, and not a hypervisor's clock.
pub(super) fn not_used(name: &str, document: &Document) -> Finding {
    if document.machine.accepts_tsc() == Some(true) {
        let fix = if document.are_unsynchronised() {
            Fix::none("the counters are unsynchronised")
        } else {
            shared_fixes::use_tsc(document)
        };
        return Finding::slow(
            Code::NotChosen,
            format!("the kernel keeps time with {name}, though it would accept tsc"),
        )
        .seen(format!("current_clocksource is {name}"))
        .seen("available_clocksource has tsc")
        .fix(fix);
    }
    if let Some(finding) = not_chosen(name, document) {
        return finding;
    }
    if let Some(parameter) = parameter_against_tsc(document) {
        return Finding::slow(
            Code::SwitchedOff,
            format!(
                "the kernel's command line switches the TSC off, and the kernel keeps time with \
                 {name}"
            ),
        )
        .seen(format!("current_clocksource is {name}"))
        .seen(format!("the kernel's command line has {parameter}"))
        .fix(shared_fixes::without_parameter(parameter, document));
    }
    rejected(name, document).unwrap_or_else(|| unexplained(name, document))
}

/// The parameter on the kernel's command line that switches the TSC off. While it stays, no other
/// parameter leads the kernel to the TSC.
pub(super) fn parameter_against_tsc(document: &Document) -> Option<&'static str> {
    ["notsc", "tsc=unstable"]
        .into_iter()
        .find(|parameter| document.machine.has_parameter(parameter))
}

/// The finding if the kernel's log says why the kernel has rejected the TSC.
fn rejected(name: &str, document: &Document) -> Option<Finding> {
    let rejection = document.machine.rejection()?;
    let what = sentence(&rejection, name, document);
    let mut finding = Finding::slow(code_of(rejection.cause), what)
        .seen(format!("current_clocksource is {name}"))
        .seen_all(offer(document))
        .seen_all(rejection.messages)
        .fix(fix_for_rejected(document));
    if rejection.cause == Cause::Skew {
        finding = finding.seen_all(document.machine.skew());
        // An hpet that stops explains the skew by itself.
        if !blames_stopping_hpet(document) {
            finding = finding.seen_all(
                document
                    .machine
                    .skew_after_resume()
                    .map(|when| format!("that was {when}, at which firmware may set the counter")),
            );
        }
    }
    finding = finding.seen_all(stopping_hpet(document));
    // The kernel's verdict may be old, so also show the present comparison.
    let counters = document.counters_in_words();
    if !counters.is_empty() {
        finding = finding.seen(format!("the counters today: {counters}"));
    }
    Some(finding)
}

/// The code of the finding that the kernel has rejected the TSC for this cause.
fn code_of(cause: Cause) -> Code {
    match cause {
        Cause::Warp => Code::Warp,
        Cause::Skew => Code::Skew,
        Cause::Delay => Code::WatchdogDelay,
        Cause::Watchdog => Code::Watchdog,
        Cause::Unsynchronised => Code::Unsynchronised,
        Cause::Halts => Code::Halts,
        Cause::Parameter(_) => Code::SwitchedOff,
        Cause::NoFrequency | Cause::VaryingRate | Cause::Other => Code::Unstable,
    }
}

/// The finding's sentence. `name` is that of the present clocksource.
fn sentence(rejection: &Rejection, name: &str, document: &Document) -> String {
    let cause = match rejection.cause {
        Cause::Skew if blames_stopping_hpet(document) => {
            return "the kernel has rejected the TSC by a comparison with hpet, and keeps time \
                    with hpet, which is the broken clock: on this processor it stops in deep idle \
                    states"
                .to_owned();
        }
        Cause::VaryingRate | Cause::Other => {
            let reason = &rejection.reason;
            return format!(
                "the kernel keeps time with {name}, because it rejected the TSC: {reason}"
            );
        }
        Cause::Warp => "the kernel saw the counters of two CPUs differ",
        Cause::Skew => "the kernel saw the TSC's rate differ from another clock's",
        Cause::Delay => {
            "the kernel could not read its clocks fast enough to compare the TSC with another one"
        }
        Cause::Watchdog if document.machine.is_kernel_at_least(7, 1) != Some(false) => {
            "the kernel's watchdog rejected the TSC, for its rate or for counters that differ"
        }
        Cause::Watchdog => {
            "the kernel could not confirm the TSC's rate by another clock, for a reason that its \
             log does not give"
        }
        Cause::Unsynchronised => "the kernel has no guarantee that the TSCs of several CPUs agree",
        Cause::NoFrequency => "the kernel could not find out the TSC's frequency",
        Cause::Halts => "the kernel found that the TSC stops when a CPU sleeps",
        Cause::Parameter(_) => "the kernel has a parameter that switches the TSC off",
    };
    let stops = may_stop(document);
    format!("{cause}, and keeps time with {name}{stops}")
}

/// The fix for a TSC that the kernel has rejected for this cause.
fn fix_for(cause: Cause, document: &Document) -> Fix {
    match cause {
        // Neither on bare metal nor in a guest may the kernel be told to ignore a warp.
        Cause::Warp => shared_fixes::synchronise(document),
        Cause::Skew | Cause::Watchdog if blames_stopping_hpet(document) => {
            shared_fixes::without_hpet(document)
        }
        Cause::Skew | Cause::Watchdog => shared_fixes::check_tsc(document),
        // Only the watchdog's measurement has failed, so the TSC may be good.
        Cause::Delay => shared_fixes::host_fix_or(shared_fixes::no_watchdog, document),
        Cause::Unsynchronised => shared_fixes::host_fix_or(shared_fixes::trust_tsc, document),
        Cause::NoFrequency => shared_fixes::trust_tsc(document),
        Cause::Halts => keep_running(document),
        Cause::VaryingRate => Fix::none(
            "the TSC's rate changes with the processor's, so the kernel's verdict is right",
        ),
        Cause::Parameter(parameter) => shared_fixes::without_parameter(parameter, document),
        // Hyper-V has not promised that the TSC's rate survives a move to another host
        // (`ms_hyperv_init_platform` in `arch/x86/kernel/cpu/mshyperv.c`).
        Cause::Other if is_reason("running on Hyper-V", document) => {
            shared_fixes::invariant_tsc(document)
        }
        Cause::Other => shared_fixes::host_fix_or(overrule_if_understood, document),
    }
}

/// The evidence that hpet is, or may be, the broken clock.
fn stopping_hpet(document: &Document) -> Option<String> {
    let text = "the processor is of a kind whose hpet can stop in deep idle states \
                (https://bugzilla.kernel.org/show_bug.cgi?id=203183)";
    may_blame_stopping_hpet(document).then(|| text.to_owned())
}

/// What follows the clocksource's name if that is an hpet that may be the broken clock. Without the
/// kernel's reason it is never known to be: the firmware may forbid deep idle states.
fn may_stop(document: &Document) -> &'static str {
    if may_blame_stopping_hpet(document) {
        ", which may stop in deep idle states on this processor"
    } else {
        ""
    }
}

/// Whether the kernel's reason for its rejection of the TSC has this part.
fn is_reason(part: &str, document: &Document) -> bool {
    document
        .machine
        .rejection()
        .is_some_and(|rejection| rejection.reason.contains(part))
}

/// The fix for a TSC that stops when a CPU sleeps. The kernel takes one that is not invariant for
/// such a TSC, and in a guest the hypervisor may hide that it is invariant.
fn keep_running(document: &Document) -> Fix {
    if document.machine.is_guest() == Some(true) {
        return shared_fixes::invariant_tsc(document);
    }
    // The chipset enters C1E from C1, so a limit of the states does not prevent it.
    let fix = if is_reason("C1E", document) {
        Fix::from("switch C1E off in the firmware's settings (BIOS), which costs power")
    } else {
        // A parameter for each of the two idle drivers, one of which is in use.
        Fix::from("boot with processor.max_cstate=1 intel_idle.max_cstate=1, which costs power")
    };
    fix.then("the TSC of newer processors does not stop")
}

/// Whether the kernel has, or may have, rejected the TSC by an hpet that stops in deep idle states,
/// and keeps time with it.
fn blames_stopping_hpet(document: &Document) -> bool {
    may_be_rejected_by_hpet(document) && shared_fixes::has_stopping_hpet(document)
}

/// As [`blames_stopping_hpet`], also if the kernel's release does not say whether it uses such an
/// hpet, or if the machine may be a guest.
fn may_blame_stopping_hpet(document: &Document) -> bool {
    may_be_rejected_by_hpet(document) && shared_fixes::may_have_stopping_hpet(document)
}

/// Whether the kernel keeps time with hpet, and may have rejected a good TSC by it.
fn may_be_rejected_by_hpet(document: &Document) -> bool {
    let by_watchdog = document
        .machine
        .rejection()
        .is_none_or(|rejection| matches!(rejection.cause, Cause::Skew | Cause::Watchdog));
    by_watchdog && document.machine.clocksource() == Some("hpet") && document.may_have_good_tsc()
}

/// The list of available clocksources, which does not offer the TSC; `None` if it is unreadable.
fn offer(document: &Document) -> Option<String> {
    let list = document.machine.available_clocksources.as_deref()?;
    Some(if document.machine.lists_clocksource("tsc") {
        format!("available_clocksource has tsc, but the kernel has rejected it: {list}")
    } else {
        format!("available_clocksource has no tsc: {list}")
    })
}

/// The finding if the log does not say why the kernel does not use the TSC.
fn unexplained(name: &str, document: &Document) -> Finding {
    let is_listed = document.machine.lists_clocksource("tsc");
    let has_log = document.machine.kernel_log.is_some();
    let mut fix = if is_listed {
        fix_for_rejected(document)
    } else {
        fix_for_missing(document)
    };
    // If there is no fix, the log cannot change that.
    if !has_log && !fix.is_impossible() {
        let read = Fix::from("read why: sudo dmesg | grep -iE 'tsc|clocksource'");
        fix = if may_blame_stopping_hpet(document) {
            unless_counters_differ(read, fix, document)
        } else {
            read.then_fix("then", fix)
        };
    }
    let Some(offer) = offer(document) else {
        return offer_unknown(name, fix, document);
    };
    let failures = document.machine.failed_calibrations();
    if !failures.is_empty() {
        return Finding::slow(
            Code::Missing,
            format!(
                "the kernel could not find out the TSC's frequency, and keeps time with {name}"
            ),
        )
        .seen(format!("current_clocksource is {name}"))
        .seen(offer)
        .seen_all(failures)
        .fix(fix);
    }
    let stops = may_stop(document);
    let finding = if is_listed {
        Finding::slow(
            Code::Unstable,
            format!("the kernel has marked the TSC unstable, and keeps time with {name}{stops}"),
        )
    } else {
        Finding::slow(
            Code::Missing,
            format!("the kernel does not offer tsc, and keeps time with {name}{stops}"),
        )
    };
    finding
        .seen(format!("current_clocksource is {name}"))
        .seen(offer)
        .seen_all(stopping_hpet(document))
        .seen(if has_log {
            "the kernel's log does not say why, or no longer does"
        } else {
            "the kernel's log, which says why, may not be read by this user"
        })
        .fix(fix)
}

/// Adds to the look at the log the fix for counters that differ, and this fix for others.
fn unless_counters_differ(read: Fix, fix: Fix, document: &Document) -> Fix {
    let differ = shared_fixes::synchronise(document);
    let read = read.then_fix("if it says that counters differ:", differ);
    if blames_stopping_hpet(document) {
        read.or_fix("else:", &fix)
    } else {
        // This fix has alternatives with letters of their own.
        read.then_fix("else:", fix)
    }
}

/// The finding that the clocksource is slow, if it is unknown which others the kernel accepts.
/// `fix_for_missing` is the fix if the kernel does not accept the TSC.
fn offer_unknown(name: &str, fix_for_missing: Fix, document: &Document) -> Finding {
    let fix = if document.may_have_good_tsc() {
        shared_fixes::see_offer()
            .then_fix("if tsc is there,", shared_fixes::use_tsc(document))
            .or_fix("if not:", &fix_for_missing)
    } else {
        fix_for_missing
    };
    Finding::slow(
        clocksource::Code::ClocksourceSlow,
        format!("the kernel keeps time with {name}; whether it would accept tsc is unknown"),
    )
    .seen(format!("current_clocksource is {name}"))
    .seen_all(stopping_hpet(document))
    .fix(fix)
}

/// The kernel's messages about its rejection of the TSC. Without a message, the position of the TSC
/// at the end of the list of clocksources may show the rejection.
pub(super) fn rejection_evidence(document: &Document) -> Vec<String> {
    if let Some(rejection) = document.machine.rejection() {
        return rejection.messages;
    }
    if document.machine.lists_clocksource("tsc") && document.machine.accepts_tsc() == Some(false) {
        return vec![
            "available_clocksource has tsc at its end, where the kernel puts one that it has \
             marked unstable"
                .to_owned(),
        ];
    }
    Vec::new()
}

/// The fix for a TSC that the kernel does not offer, for an unknown reason.
fn fix_for_missing(document: &Document) -> Fix {
    if document.are_unsynchronised() {
        return shared_fixes::synchronise(document);
    }
    if document.machine.lacks_tsc_frequency() {
        return shared_fixes::trust_tsc(document);
    }
    if blames_stopping_hpet(document) {
        return shared_fixes::without_hpet(document);
    }
    if may_blame_stopping_hpet(document) {
        return shared_fixes::check_tsc(document);
    }
    shared_fixes::host_fix(document).unwrap_or_else(|| shared_fixes::trust_tsc(document))
}

/// The fix for a TSC that the kernel has rejected. Without a message, the watchdog has probably
/// rejected it, because the kernel had registered the TSC before.
pub(super) fn fix_for_rejected(document: &Document) -> Fix {
    // A comparison agrees with the kernel, so do not override the kernel's verdict.
    if document.are_unsynchronised() {
        return shared_fixes::synchronise(document);
    }
    let rejection = document.machine.rejection();
    let cause = rejection.map_or(Cause::Watchdog, |rejection| rejection.cause);
    fix_for(cause, document)
}

/// The kernel's reason may be one that no comparison of the counters shows.
fn overrule_if_understood(document: &Document) -> Fix {
    let trust = shared_fixes::trust_tsc(document);
    if trust.is_impossible() {
        return trust;
    }
    let reason = document
        .machine
        .rejection()
        .map(|rejection| rejection.reason);
    Fix::from(format!(
        "find out what the kernel means by \"{}\"",
        reason.unwrap_or_default()
    ))
    .then_fix("only if that does not concern this machine:", trust)
}

tickline_core::named! {
    /// The codes of the findings of this file, in the order of the alphabet.
    #[derive(Debug, Clone, Copy)]
    pub(super) enum Code {
        Halts => "tsc_halts",
        Missing => "tsc_missing",
        NotChosen => "tsc_not_chosen",
        Skew => "tsc_skew",
        SwitchedOff => "tsc_switched_off",
        Unstable => "tsc_unstable",
        Unsynchronised => "tsc_unsynchronised",
        Warp => "tsc_warp",
        Watchdog => "tsc_watchdog",
        WatchdogDelay => "tsc_watchdog_delay",
    }
}

impl Explained for Code {
    fn explanation(&self) -> Explanation {
        let code = self.code();
        match self {
            Self::Halts => Explanation {
                code,
                summary: "The TSC stops when a CPU sleeps (slow).",
                text: "By CPUID the processor's counter may not run in deep power states, so the \
                       kernel keeps time with a slower clock. This happens on processors of about \
                       15 years ago. Without deep sleep states the counter would run on, but the \
                       CPU would use more power. In a guest, usually the hypervisor hides an \
                       invariant TSC: the host must show it.",
                more: &[],
            },
            Self::Missing => Explanation {
                code,
                summary: "The kernel does not offer the TSC as a clocksource (slow).",
                text: "Its log does not say why, or may not be read by this user. In a guest, \
                       usually the hypervisor hides an invariant TSC, or the kernel was built \
                       without support for this hypervisor. To see what the log says:",
                more: &[Commands(&["sudo dmesg | grep -iE 'tsc|clocksource'"])],
            },
            Self::NotChosen => Explanation {
                code,
                summary: "The kernel would accept the TSC, but keeps time with a slower clock (slow).",
                text: "An administrator or a program has chosen the slower clock, on the kernel's \
                       command line or since the start. A switch to the TSC takes effect at once \
                       for all programs, and can be undone as easily. First compare the CPUs' \
                       counters:",
                more: &[Commands(&["tickline warp", "sudo tickline doctor --fix"])],
            },
            Self::Skew => Explanation {
                code,
                summary: "The kernel's watchdog has measured that the TSC's rate differs from \
                          another clock's (slow).",
                text: "Each half second the kernel compares the TSC with hpet or acpi_pm. If they \
                       differ by more than it tolerates, it marks the TSC unstable until the \
                       machine restarts. Then each call for the time is a system call. Before \
                       Linux 5.14 (5.10.y: before January 2022) the kernel tolerates 62.5 ms, \
                       which is rather a jump than a rate; from then on usually 400 to 1,000 ppm, \
                       as it was built; from Linux 7.1 500 ppm (4,000 ppm, if one of the two has \
                       no calibrated rate).",
                more: &[
                    Prose(
                        "The difference does not show which of the two clocks was wrong. On a busy \
                         machine or in a guest, a delayed reading of the other clock looks like a \
                         skew; broken firmware causes a real skew. A skew in the seconds after a \
                         resume may be one jump: firmware set the counter while the machine slept, \
                         or the other clock stood still. So first see whether it comes without a \
                         suspend, too, and whether the TSC keeps one rate:",
                    ),
                    Commands(&["tickline warp"]),
                    Prose(
                        "The command prints the rate by the kernel's present clock. Compare the \
                         rates when the machine is idle, under load, and hours later, while NTP \
                         slews nothing. If they stay the same, within 500 ppm, the TSC is good, \
                         and `tsc=nowatchdog` (Linux 5.2 or later) keeps the watchdog from marking \
                         the TSC unstable. If they differ by more, one of the two clocks is wrong: \
                         on some of Intel's client processors hpet stops in deep idle states \
                         (kernel bug 203183), and `hpet=disable` is the fix. A frequency that \
                         changes in `chronyc tracking` shows that the present clock is the wrong \
                         one. Otherwise the kernel is right: leave the clocksource as it is.",
                    ),
                    Prose(
                        "A skew of tsc-early, in the first seconds after the start, may also be a \
                         wrong frequency: the kernel has not refined it yet. Then the rates are \
                         steady, but not the frequency that the kernel logged:",
                    ),
                    Commands(&["sudo dmesg | grep MHz"]),
                ],
            },
            Self::SwitchedOff => Explanation {
                code,
                summary: "A parameter of the kernel switches the TSC off (slow).",
                text: "`notsc` and `tsc=unstable` are often left from an older machine or an old \
                       workaround. But somebody may have found the TSC of this machine bad: find \
                       out who set the parameter, and why. Then check whether the counters are \
                       good before you remove the parameter:",
                more: &[Commands(&["tickline warp"])],
            },
            Self::Unstable => Explanation {
                code,
                summary: "The kernel has marked the TSC unstable (slow).",
                text: "The kernel's log names the reason, if it still has the message. The mark \
                       stays until the machine restarts. A kernel that could not find out the \
                       TSC's frequency (\"could not calculate TSC khz\") needs it from its command \
                       line (`tsc_early_khz=`) or from the host; `tsc=reliable` does not state it. \
                       If the reason is the watchdog: `tickline explain tsc_watchdog`.",
                more: &[Commands(&["sudo dmesg | grep -iE 'tsc|clocksource'"])],
            },
            Self::Unsynchronised => Explanation {
                code,
                summary: "The kernel has no guarantee that the TSCs of several CPUs agree (slow).",
                text: "This is so on a machine with more than one socket, if the processors or the \
                       hypervisor show no invariant TSC. The counters may still agree, but nothing \
                       keeps them together. In a guest, the host must offer an invariant TSC.",
                more: &[],
            },
            Self::Warp => Explanation {
                code,
                summary: "The kernel saw the counters of two CPUs differ (slow).",
                text: "The kernel compares them pair by pair at boot, from Linux 7.1 also while it \
                       runs (\"inter CPU skew\"), and rejects the TSC if one counter is behind. On \
                       bare metal the firmware has set them apart: newer firmware may help, and \
                       switching the machine off and on again helps. In a guest the host has set \
                       them apart. Never override this: with the TSC, threads would see time step \
                       back.",
                more: &[],
            },
            Self::Watchdog => Explanation {
                code,
                summary: "The kernel's watchdog has rejected the TSC, and the log does not say why \
                          (slow).",
                text: "The kernel's log no longer has the messages that state the difference; \
                       older logs may have them: systemd's journal, or the files of the system's \
                       log. Up to Linux 7.0 the TSC's rate differed from another clock's, or could \
                       not be measured: `tickline explain tsc_skew`. From Linux 7.1 the watchdog \
                       also rejects counters that differ between CPUs, for which there is no \
                       override: `tickline explain tsc_warp`. So compare the counters first \
                       (`tickline warp`).",
                more: &[Commands(&[
                    "sudo journalctl -k | grep -iE 'tsc|clocksource'",
                    "sudo grep -iE 'tsc|clocksource' /var/log/kern.log* /var/log/messages*",
                ])],
            },
            Self::WatchdogDelay => Explanation {
                code,
                summary: "The kernel could not read its clocks fast enough to compare them (slow).",
                text: "The reading of hpet or acpi_pm took too long, so the watchdog gave up, and \
                       marked the TSC unstable. That is no evidence against the TSC. It happens in \
                       guests, and on large machines under load, where many CPUs wait for one \
                       hpet. `tsc=nowatchdog` (Linux 5.2 or later) keeps the watchdog from marking \
                       the TSC unstable.",
                more: &[],
            },
        }
    }
}
