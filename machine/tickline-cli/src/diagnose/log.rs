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

/// The finding's key in `texts.json`, and two parts of the message that states this reason.
const MESSAGES: [(&str, [&str; 2]); 6] = [
    ("tsc_warp", ["cycles TSC warp", "between CPUs"]),
    (
        "tsc_skew",
        [
            "clocksource 'tsc",
            "as unstable because the skew is too large",
        ],
    ),
    ("tsc_skew", ["Clocksource 'tsc", "skewed"]),
    ("tsc_skew", ["Clocksource tsc", "unstable (delta ="]),
    // The kernel also logs delays that it tolerates, without these words.
    (
        "tsc_watchdog_delay",
        ["read-back delay of", "marking unstable"],
    ),
    ("tsc_watchdog_delay", ["read-back delay of", "marking tsc"]),
];

/// The kernel's rejection of the TSC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rejection {
    /// The finding's key in `texts.json`.
    pub(super) key: &'static str,
    /// The reason in the kernel's words; empty if the kernel states none.
    pub(super) reason: String,
    /// The kernel's messages about the rejection.
    pub(super) messages: Vec<String>,
}

/// The kernel's rejection of the TSC; `None` if the log has no message about one.
pub(super) fn rejection(log: &[String]) -> Option<Rejection> {
    let messages_of = |key: &str| -> Vec<String> {
        let kinds = MESSAGES.iter().filter(|(its_key, _)| *its_key == key);
        let messages = kinds.flat_map(|(_, parts)| {
            log.iter()
                .filter(|line| parts.iter().all(|part| line.contains(part)))
        });
        messages.cloned().collect()
    };
    // A measured skew says more than a failed measurement.
    let watchdog = ["tsc_skew", "tsc_watchdog_delay"]
        .into_iter()
        .find(|key| !messages_of(key).is_empty());
    let marked = log
        .iter()
        .find(|line| line.contains("Marking TSC unstable due to"));
    let reason = marked.and_then(|line| line.split("unstable due to").nth(1));
    let reason = reason.map(|reason| reason.trim_matches([':', ' ', '.']));
    let key = match reason {
        Some("check_tsc_sync_source failed") => "tsc_warp",
        // A failed measurement (`tsc_watchdog_delay`) says nothing about the TSC.
        Some("clocksource watchdog") => watchdog.unwrap_or("tsc_watchdog"),
        Some("TSCs unsynchronized") => "tsc_unsynchronised",
        Some("boot parameter") => "tsc_switched_off/by_log",
        Some(reason) if reason.contains("halt") => "tsc_halts",
        Some(_) => "tsc_unstable/reason",
        None if !messages_of("tsc_warp").is_empty() => "tsc_warp",
        None => watchdog?,
    };
    let messages = messages_of(key)
        .into_iter()
        .chain(marked.cloned())
        .collect();
    Some(Rejection {
        key,
        reason: reason.unwrap_or_default().to_owned(),
        messages,
    })
}

/// A shell command that fails in three cases:
///
/// - The log has a message about a rejection of the TSC, such as those of [`MESSAGES`].
/// - The log is empty, or the user may not read it.
/// - `then` fails.
pub(super) fn check(then: &str) -> String {
    const REJECTED: &str = "TSC warp|tsc.*(unstable|skewed)|marking (tsc )?unstable";
    format!(
        "log=$(sudo dmesg) && [ -n \"$log\" ] && ! printf '%s\\n' \"$log\" | grep -iE '{REJECTED}' && {then}"
    )
}

/// The kernel's messages that firmware has written to the TSC.
pub(super) fn firmware_writes_tsc(log: &[String]) -> Vec<&String> {
    log.iter()
        .filter(|line| line.contains("[Firmware Bug]: TSC ADJUST"))
        .collect()
}
