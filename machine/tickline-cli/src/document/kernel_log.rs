//! Interprets the kernel's messages about the TSC.
//!
//! | message | source file |
//! |---|---|
//! | `Measured N cycles TSC warp between CPUs, turning off TSC clock.` | `arch/x86/kernel/tsc_sync.c` |
//! | `Marking TSC unstable due to REASON`; newer kernels put `tsc: ` in front, some older ones a colon before the reason | `arch/x86/kernel/tsc.c` |
//! | `timekeeping watchdog on CPUn: Marking clocksource 'tsc' as unstable because the skew is too large:` | `kernel/time/clocksource.c` |
//! | `Clocksource 'tsc' skewed N ns (M ms) over watchdog 'hpet' interval of ...` | `kernel/time/clocksource.c` |
//! | `timekeeping watchdog on CPUn: ... read-back delay of ..., marking unstable`, later `marking tsc unstable` | `kernel/time/clocksource.c` |
//! | `Clocksource tsc unstable (delta = N ns)` | `kernel/time/clocksource.c`, in kernels older than the three above |
//! | `[Firmware Bug]: TSC ADJUST ...` | `arch/x86/kernel/tsc_sync.c` |

use super::Document;

/// Why the kernel has rejected the TSC, by its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A comparison of the CPUs' counters found them unsynchronised.
    Warp,
    /// The watchdog measured a wrong rate.
    Skew,
    /// The watchdog could not read the clocks fast enough for a measurement.
    Delay,
    /// The watchdog, for a reason that the log does not give.
    Watchdog,
    /// Nothing guarantees that the counters of several CPUs agree.
    Unsynchronised,
    /// The TSC stops when a CPU sleeps.
    Halts,
    /// A parameter of the kernel's command line.
    Parameter,
    /// Another reason, which the kernel names.
    Other,
}

/// Two parts of each message that states a cause by itself, without "Marking TSC unstable".
const MESSAGES: [(Cause, [&str; 2]); 6] = [
    (Cause::Warp, ["cycles TSC warp", "between CPUs"]),
    (
        Cause::Skew,
        [
            "clocksource 'tsc",
            "as unstable because the skew is too large",
        ],
    ),
    (Cause::Skew, ["Clocksource 'tsc", "skewed"]),
    (Cause::Skew, ["Clocksource tsc", "unstable (delta ="]),
    // The kernel also logs delays that it tolerates, without these words.
    (Cause::Delay, ["read-back delay of", "marking unstable"]),
    (Cause::Delay, ["read-back delay of", "marking tsc"]),
];

/// An extended regular expression, for `grep -i`, that finds each message about a rejection of the
/// TSC.
pub(crate) const ANY_REJECTION: &str = "TSC warp|tsc.*(unstable|skewed)|marking (tsc )?unstable";

/// The kernel's rejection of the TSC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rejection {
    pub(crate) cause: Cause,
    /// The reason in the kernel's words; empty if the kernel states none.
    pub(crate) reason: String,
    /// The kernel's messages about the rejection.
    pub(crate) messages: Vec<String>,
}

/// The kernel's rejection of the TSC; `None` if the log has no message about one.
pub(crate) fn rejection(log: &[String]) -> Option<Rejection> {
    let marked = log
        .iter()
        .find(|line| line.contains("Marking TSC unstable due to"));
    let reason = marked.and_then(|line| {
        let (_, reason) = line.split_once("unstable due to")?;
        Some(reason.trim_matches([':', ' ', '.']))
    });
    let has_message = |cause| !messages(log, cause).is_empty();
    // A measured skew says more than a failed measurement.
    let by_watchdog = [Cause::Skew, Cause::Delay]
        .into_iter()
        .find(|cause| has_message(*cause));
    let cause = match reason {
        Some("check_tsc_sync_source failed") => Cause::Warp,
        Some("clocksource watchdog") => by_watchdog.unwrap_or(Cause::Watchdog),
        Some("TSCs unsynchronized") => Cause::Unsynchronised,
        Some("boot parameter") => Cause::Parameter,
        Some(reason) if reason.contains("halt") => Cause::Halts,
        Some(_) => Cause::Other,
        None if has_message(Cause::Warp) => Cause::Warp,
        None => by_watchdog?,
    };
    let mut messages = messages(log, cause);
    messages.extend(marked.cloned());
    Some(Rejection {
        cause,
        reason: reason.unwrap_or_default().to_owned(),
        messages,
    })
}

/// The messages that state this cause by themselves.
fn messages(log: &[String], cause: Cause) -> Vec<String> {
    let mut found = Vec::new();
    for (its_cause, parts) in MESSAGES {
        if its_cause == cause {
            let lines = log
                .iter()
                .filter(|line| parts.iter().all(|part| line.contains(part)));
            found.extend(lines.cloned());
        }
    }
    found
}

impl Document {
    /// Why the kernel has rejected the TSC, with its messages; `None` if its log does not say so.
    pub(crate) fn rejection(&self) -> Option<Rejection> {
        rejection(self.machine.kernel_log.as_deref()?)
    }

    /// The kernel's messages that firmware has written to the TSC; `None` if the log is unreadable.
    pub(crate) fn firmware_writes(&self) -> Option<Vec<&str>> {
        let log = self.machine.kernel_log.as_deref()?;
        let lines = log
            .iter()
            .filter(|line| line.contains("[Firmware Bug]: TSC ADJUST"));
        Some(lines.map(String::as_str).collect())
    }
}
