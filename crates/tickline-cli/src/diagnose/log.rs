//! The kernel's messages about the TSC.
//!
//! | message | where it comes from |
//! |---|---|
//! | `Measured N cycles TSC warp between CPUs, turning off TSC clock.` | `arch/x86/kernel/tsc_sync.c` |
//! | `Marking TSC unstable due to REASON`; newer kernels put `tsc: ` in front, some older ones a colon before the reason | `arch/x86/kernel/tsc.c` |
//! | `timekeeping watchdog on CPUn: Marking clocksource 'tsc' as unstable because the skew is too large:` | `kernel/time/clocksource.c` |
//! | `Clocksource 'tsc' skewed N ns (M ms) over watchdog 'hpet' interval of ...` | the same |
//! | `timekeeping watchdog on CPUn: ... read-back delay of ..., marking unstable`, later `marking tsc unstable` | the same |
//! | `Clocksource tsc unstable (delta = N ns)` | the same, in kernels older than the three above |
//! | `[Firmware Bug]: TSC ADJUST ...` | `tsc_sync.c` |

/// Why the kernel has rejected the TSC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Blame {
    /// The kernel saw the counters of two CPUs differ when it started the second CPU.
    Warp,
    /// The watchdog has measured a rate that differs from another clock's.
    Skew,
    /// The watchdog could not read its clocks fast enough for a comparison, which says nothing
    /// about the TSC.
    Delay,
    /// The watchdog; the log does not say whether by `Skew` or by `Delay`.
    Watchdog,
    /// The machine has several CPUs, and nothing guarantees that their TSCs agree.
    Unsynchronised,
    /// The TSC stops in some power state.
    HaltsInIdle,
    /// `tsc=unstable`.
    Parameter,
    /// Another reason, in the kernel's words.
    Other(String),
}

/// Why the kernel has rejected the TSC, with the messages that say so; `None` if the log has no
/// such message.
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
    // The kernel also logs delays that it tolerates, without these words.
    let delay = [
        lines_with(&["read-back delay of", "marking unstable"]),
        lines_with(&["read-back delay of", "marking tsc"]),
    ]
    .concat();
    // A measured skew says more than a failed measurement.
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

/// The kernel's messages that firmware has written to the TSC.
pub(super) fn firmware_writes_tsc(log: &[String]) -> Vec<&String> {
    log.iter().filter(|line| line.contains("[Firmware Bug]: TSC ADJUST")).collect()
}
