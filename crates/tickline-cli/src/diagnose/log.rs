//! What the kernel's messages say about the TSC.
//!
//! | message | where it comes from |
//! |---|---|
//! | `Measured N cycles TSC warp between CPUs, turning off TSC clock.` | `arch/x86/kernel/tsc_sync.c` |
//! | `Marking TSC unstable due to REASON`, today with `tsc: ` in front, once with a colon before the reason | `arch/x86/kernel/tsc.c` |
//! | `timekeeping watchdog on CPUn: Marking clocksource 'tsc' as unstable because the skew is too large:` | `kernel/time/clocksource.c` |
//! | `Clocksource 'tsc' skewed N ns (M ms) over watchdog 'hpet' interval of ...` | the same |
//! | `timekeeping watchdog on CPUn: ... read-back delay of ..., marking unstable`, later `marking tsc unstable` | the same |
//! | `Clocksource tsc unstable (delta = N ns)` | the same, before the three above |
//! | `[Firmware Bug]: TSC ADJUST ...` | `tsc_sync.c` |

/// Why the kernel has given up the TSC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Blame {
    /// The counters of two CPUs were seen to differ when the second one was started.
    Warp,
    /// The watchdog has seen it run differently from another clock.
    Skew,
    /// The watchdog could not read its clocks fast enough to compare them: no word about the TSC.
    Delay,
    /// The watchdog, for one of these two reasons.
    Watchdog,
    /// Nobody vouches for it on a machine with several CPUs.
    Unsynchronised,
    /// It stops in some power state.
    HaltsInIdle,
    /// `tsc=unstable`.
    Parameter,
    /// Something else, in the kernel's words.
    Other(String),
}

/// Why the kernel has given up the TSC, with the messages that say so; `None` if the log does not say that it has.
pub(super) fn blame(log: &[String]) -> Option<(Blame, Vec<String>)> {
    let lines_with = |words: &[&str]| -> Vec<String> {
        log.iter().filter(|line| words.iter().all(|word| line.contains(word))).cloned().collect()
    };
    let warp = lines_with(&["cycles TSC warp between CPUs"]);
    let marked = lines_with(&["Marking TSC unstable due to"]);
    let skew = [
        lines_with(&["clocksource 'tsc", "as unstable because the skew is too large"]),
        lines_with(&["Clocksource 'tsc", "skewed"]),
        lines_with(&["Clocksource tsc", "unstable (delta ="]),
    ]
    .concat();
    // Delays that were forgiven are told as well, without these words.
    let delay = [
        lines_with(&["read-back delay of", "marking unstable"]),
        lines_with(&["read-back delay of", "marking tsc"]),
    ]
    .concat();
    // One that was measured weighs more than one that could not be.
    let watchdog =
        [(Blame::Skew, &skew), (Blame::Delay, &delay)].into_iter().find(|(_, lines)| !lines.is_empty());
    let watchdog = watchdog.map(|(blame, _)| blame);
    let reason = marked.first().and_then(|line| line.split("unstable due to").nth(1));
    let reason = reason.map(|reason| reason.trim_matches([':', ' ', '.']).to_owned());
    let blame = match reason.as_deref() {
        Some("check_tsc_sync_source failed") => Blame::Warp,
        Some("clocksource watchdog") => watchdog.unwrap_or(Blame::Watchdog),
        Some("TSCs unsynchronized") => Blame::Unsynchronised,
        Some("boot parameter") => Blame::Parameter,
        Some(reason) if reason.contains("halt") => Blame::HaltsInIdle,
        Some(reason) => Blame::Other(reason.to_owned()),
        None if !warp.is_empty() => Blame::Warp,
        None => watchdog?,
    };
    let mut lines = match blame {
        Blame::Warp => warp,
        Blame::Skew => skew,
        Blame::Delay => delay,
        _ => Vec::new(),
    };
    lines.extend(marked.into_iter().take(1));
    Some((blame, lines))
}

/// The messages by which the kernel complains that firmware has written to the TSC.
pub(super) fn firmware_writes_tsc(log: &[String]) -> Vec<&String> {
    log.iter().filter(|line| line.contains("[Firmware Bug]: TSC ADJUST")).collect()
}
