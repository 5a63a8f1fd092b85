//! Explains why the kernel of an x86 machine does not use the TSC.

use super::clocksource::not_chosen;
use super::fix;
use crate::document::kernel_log::Cause;
use crate::document::{Document, Finding, Fix};
use crate::machine::CLOCKSOURCE;

/// The finding for an x86 machine whose clocksource is not the TSC, and not a hypervisor's clock.
pub(super) fn not_used(name: &str, facts: &Document) -> Finding {
    if facts.accepts_tsc() == Some(true) {
        let fix = if facts.are_unsynchronised() {
            Fix::none("the counters are unsynchronised")
        } else {
            fix::use_tsc(facts)
        };
        return Finding::slow(
            "tsc_not_chosen",
            format!("the kernel keeps time with {name}, though it would accept tsc"),
        )
        .seen(format!("current_clocksource is {name}"))
        .seen("available_clocksource has tsc")
        .fix(fix);
    }
    if let Some(finding) = not_chosen(name, facts) {
        return finding;
    }
    for word in ["notsc", "tsc=unstable"] {
        if facts.has_parameter(word) {
            return Finding::slow(
                "tsc_switched_off",
                format!(
                    "the kernel's command line switches the TSC off, and the kernel keeps time \
                     with {name}"
                ),
            )
            .seen(format!("current_clocksource is {name}"))
            .seen(format!("the kernel's command line has {word}"))
            .fix(fix::without_parameter(word, facts));
        }
    }
    rejected(name, facts).unwrap_or_else(|| unexplained(name, facts))
}

/// The finding if the kernel's log says why the kernel has rejected the TSC.
fn rejected(name: &str, facts: &Document) -> Option<Finding> {
    let rejection = facts.rejection()?;
    let reason = &rejection.reason;
    let mut finding = match rejection.cause {
        Cause::Warp => Finding::slow(
            "tsc_warp",
            format!("the kernel saw the counters of two CPUs differ, and keeps time with {name}"),
        ),
        Cause::Skew => Finding::slow(
            "tsc_skew",
            format!(
                "the kernel saw the TSC's rate differ from another clock's, and keeps time with \
                 {name}"
            ),
        ),
        Cause::Delay => Finding::slow(
            "tsc_watchdog_delay",
            format!(
                "the kernel could not read its clocks fast enough to compare the TSC with another \
                 one, and keeps time with {name}"
            ),
        ),
        Cause::Watchdog => Finding::slow(
            "tsc_watchdog",
            format!(
                "the kernel could not confirm the TSC's rate by another clock, for a reason that \
                 its log does not give, and keeps time with {name}"
            ),
        ),
        Cause::Unsynchronised => Finding::slow(
            "tsc_unsynchronised",
            format!(
                "the kernel has no guarantee that the TSCs of several CPUs agree, and keeps time \
                 with {name}"
            ),
        ),
        Cause::Halts => Finding::slow(
            "tsc_halts",
            format!(
                "the kernel found that the TSC stops when a CPU sleeps, and keeps time with {name}"
            ),
        ),
        Cause::Parameter => Finding::slow(
            "tsc_switched_off",
            format!(
                "the kernel has a parameter that calls the TSC unstable, and keeps time with {name}"
            ),
        ),
        Cause::Other => Finding::slow(
            "tsc_unstable",
            format!("the kernel keeps time with {name}, because it rejected the TSC: {reason}"),
        ),
    }
    .seen(format!("current_clocksource is {name}"))
    .seen_all(offer(facts))
    .seen_all(rejection.messages)
    .fix(fix_for_rejected(facts));
    // The kernel's verdict may be old, so also show the present comparison.
    let counters = facts.counters();
    if !counters.is_empty() {
        finding = finding.seen(format!("the counters today: {counters}"));
    }
    Some(finding)
}

/// The list of available clocksources, which does not offer the TSC; `None` if it is unreadable.
fn offer(facts: &Document) -> Option<String> {
    let list = facts.machine.available_clocksources.as_deref()?;
    Some(if facts.lists("tsc") {
        format!("available_clocksource has tsc, but the kernel has rejected it: {list}")
    } else {
        format!("available_clocksource has no tsc: {list}")
    })
}

/// The finding if the log does not say why the kernel does not use the TSC.
fn unexplained(name: &str, facts: &Document) -> Finding {
    let is_listed = facts.lists("tsc");
    let has_log = facts.machine.kernel_log.is_some();
    let mut fix = if is_listed {
        fix_for_rejected(facts)
    } else {
        fix_for_missing(facts)
    };
    // If there is no fix, the log cannot change that.
    if !has_log && !fix.is_none {
        fix = format!(
            "read why: sudo dmesg | grep -iE 'tsc|clocksource'; then {}",
            fix.text
        )
        .into();
    }
    let Some(offer) = offer(facts) else {
        return offer_unknown(name, fix, facts);
    };
    let finding = if is_listed {
        Finding::slow(
            "tsc_unstable",
            format!("the kernel has marked the TSC unstable, and keeps time with {name}"),
        )
    } else {
        Finding::slow(
            "tsc_missing",
            format!("the kernel does not offer tsc, and keeps time with {name}"),
        )
    };
    finding
        .seen(format!("current_clocksource is {name}"))
        .seen(offer)
        .seen(if has_log {
            "the kernel's log does not say why, or no longer does"
        } else {
            "the kernel's log, which says why, may not be read by this user"
        })
        .fix(fix)
}

/// The finding that the clocksource is slow, if it is unknown which others the kernel accepts.
/// `fix_for_missing` is the fix if the kernel does not accept the TSC.
fn offer_unknown(name: &str, fix_for_missing: Fix, facts: &Document) -> Finding {
    let fix = if facts.may_have_good_tsc() {
        let switch = fix::use_tsc(facts).text;
        format!(
            "see what it would accept: cat {CLOCKSOURCE}/available_clocksource; if tsc is there, \
             {switch}; if not, {}",
            fix_for_missing.text
        )
        .into()
    } else {
        fix_for_missing
    };
    Finding::slow(
        "clocksource_slow",
        format!("the kernel keeps time with {name}; whether it would accept tsc is unknown"),
    )
    .seen(format!("current_clocksource is {name}"))
    .fix(fix)
}

/// The kernel's messages about its rejection of the TSC. Without a message, the position of the TSC
/// at the end of the list of clocksources may show the rejection.
pub(super) fn rejection_evidence(facts: &Document) -> Vec<String> {
    if let Some(rejection) = facts.rejection() {
        return rejection.messages;
    }
    if facts.lists("tsc") && facts.accepts_tsc() == Some(false) {
        return vec![
            "available_clocksource has tsc at its end, where the kernel puts one that it has \
             marked unstable"
                .to_owned(),
        ];
    }
    Vec::new()
}

/// The fix for a TSC that the kernel does not offer, for an unknown reason.
fn fix_for_missing(facts: &Document) -> Fix {
    if let Some(host) = fix::host_fix(facts) {
        return host;
    }
    if facts.are_unsynchronised() {
        return fix::FIRMWARE.into();
    }
    fix::trust_tsc(facts)
}

/// The fix for a TSC that the kernel has rejected. Without a message, the watchdog has probably
/// rejected it, because the kernel had registered the TSC before.
pub(super) fn fix_for_rejected(facts: &Document) -> Fix {
    // A comparison agrees with the kernel, so do not override the kernel's verdict.
    if facts.are_unsynchronised() {
        return fix::host_or_firmware_fix(facts);
    }
    let rejection = facts.rejection();
    match rejection.map_or(Cause::Watchdog, |rejection| rejection.cause) {
        Cause::Warp if fix::host_fix(facts).is_none() => fix::FIRMWARE.into(),
        Cause::Skew | Cause::Watchdog => fix::check_tsc(facts),
        // Only the watchdog's measurement has failed, so the TSC may be good.
        Cause::Delay => fix::host_fix_or(fix::no_watchdog, facts),
        // The text names a parameter for each of the two idle drivers, one of which is in use.
        Cause::Halts => "boot with processor.max_cstate=1 intel_idle.max_cstate=1, which costs \
            power; the TSC of newer processors does not stop"
            .into(),
        Cause::Parameter => fix::without_parameter("tsc=unstable", facts),
        Cause::Warp | Cause::Unsynchronised | Cause::Other => {
            fix::host_fix_or(fix::trust_tsc, facts)
        }
    }
}
