//! Interprets the kernel's messages about the TSC.
//!
//! | message | source file |
//! |---|---|
//! | `Measured N cycles TSC warp between CPUs, turning off TSC clock.`, `TSC warped randomly between CPUs` | `arch/x86/kernel/tsc_sync.c` |
//! | `Marking TSC unstable due to REASON`; newer kernels put `tsc: ` in front, some older ones a colon before the reason | `arch/x86/kernel/tsc.c` |
//! | `notsc: Kernel compiled with CONFIG_X86_TSC, cannot disable TSC completely.`, in kernels whose REASON is not yet `boot parameter notsc` | the same (`notsc_setup`) |
//! | `timekeeping watchdog on CPUn: Marking clocksource 'tsc' as unstable because the skew is too large:` | `kernel/time/clocksource.c` |
//! | then `'hpet' wd_nsec: N ...` and `'tsc' cs_nsec: N ...`, the same interval by both clocks (before Linux 5.14, and in all of the series 5.10: `'hpet' wd_now: ...`, cycles alone) | the same |
//! | `Clocksource 'tsc' skewed N ns (M ms) over watchdog 'hpet' interval of ...` | `kernel/time/clocksource.c` |
//! | `timekeeping watchdog on CPUn: ... read-back delay of ..., marking unstable`, later `marking tsc unstable` | `kernel/time/clocksource.c` |
//! | `CPUs N behind CPU M for clocksource tsc.`, or `ahead of` | `kernel/time/clocksource.c`, `clocksource_verify_percpu` of Linux 5.13 to 7.0 |
//! | `Clocksource tsc unstable (delta = N ns)` | `kernel/time/clocksource.c`, in kernels older than the four above |
//! | `Marking clocksource tsc unstable due to inter CPU skew`, then `CPUn TICKS < CPUm TICKS (cycles)` | `kernel/time/clocksource.c` since the watchdog was rewritten (Linux 7.1, commit 763aacf86f1b) |
//! | `Marking clocksource tsc unstable due to frequency skew`, then `Watchdog hpet interval: N ns` and `Clocksource tsc interval: N ns`; early in the boot `tsc-early` in place of `tsc` | the same |
//! | `PM: suspend entry`, `PM: suspend exit`, `PM: hibernation: hibernation exit`, `ACPI: PM: Waking up from system sleep state S3` | `kernel/power/`, `drivers/acpi/sleep.c` |
//! | `TSC found unstable after boot` | `kernel/sched/clock.c` |
//! | `Override clocksource tsc is unstable and not HRT compatible` | `kernel/time/clocksource.c` |
//! | `Marking TSC unstable due to KVM discovered backwards TSC` | `arch/x86/kvm/x86.c`, on a host |
//! | `[Firmware Bug]: TSC ADJUST ...` | `arch/x86/kernel/tsc_sync.c` |
//! | `Detected N MHz processor`, `Detected N MHz TSC`, `Refined TSC clocksource calibration: N MHz` | `arch/x86/kernel/tsc.c` |
//! | `PIT calibration deviates from HPET: KHZ KHZ` | the same |

use super::Machine;
use super::resume::{is_end, is_resume, is_suspend};
use crate::float::signed_f64;
use crate::words::{rate, time};

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
    /// The kernel could not find out the TSC's frequency.
    NoFrequency,
    /// The TSC stops when a CPU sleeps.
    Halts,
    /// The TSC's rate changes with the processor's (`time_cpufreq_notifier` in
    /// `arch/x86/kernel/tsc.c`).
    VaryingRate,
    /// This parameter of the kernel's command line.
    Parameter(&'static str),
    /// Another reason, which the kernel names.
    Other,
}

/// The parameter of `notsc_setup` in `arch/x86/kernel/tsc.c`.
const NOTSC: Cause = Cause::Parameter("notsc");

/// Linux keeps time with `tsc-early` until it has refined the TSC's frequency.
const TSC_EARLY_INTERVAL: &str = "tsc-early interval: ";

/// Two parts of each message that states a cause by itself, without "Marking TSC unstable".
const MESSAGES: [(Cause, [&str; 2]); 18] = [
    (Cause::Warp, ["cycles TSC warp", "between CPUs"]),
    (Cause::Warp, ["TSC warped randomly", "between CPUs"]),
    (
        Cause::Warp,
        ["Marking clocksource tsc", "unstable due to inter CPU skew"],
    ),
    (Cause::Warp, ["clocksource: CPU", " (cycles)"]),
    (Cause::Warp, ["behind CPU", "for clocksource tsc"]),
    (Cause::Warp, ["ahead of CPU", "for clocksource tsc"]),
    (
        Cause::Skew,
        ["Marking clocksource tsc", "unstable due to frequency skew"],
    ),
    (Cause::Skew, ["clocksource: Watchdog ", "interval: "]),
    (Cause::Skew, ["clocksource: Clocksource ", "tsc interval: "]),
    (
        Cause::Skew,
        ["clocksource: Clocksource ", TSC_EARLY_INTERVAL],
    ),
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
    // Without the last word, an older kernel says that it has not obeyed.
    (
        NOTSC,
        ["notsc: Kernel compiled", "cannot disable TSC completely"],
    ),
    // Both messages follow from a rejection, and give no reason.
    (Cause::Watchdog, ["TSC found unstable", "after boot"]),
    (Cause::Watchdog, ["Override clocksource tsc", "is unstable"]),
];

/// An extended regular expression, for `grep -i`, that finds each message about a rejection of the
/// TSC. A user reads it in a command, so it is shorter than [`MESSAGES`], and names no cause. The
/// tests of `steps.rs` compare the two. It leaves out [`NOTSC`]'s message: such a kernel offers no
/// TSC to which a command could switch.
pub(crate) const ANY_REJECTION: &str = concat!(
    "TSC warp",
    "|(^|[^a-z])tsc.*(unstable|skewed)",
    "|marking (tsc )?unstable",
    "|CPU.*(<|behind|ahead of) CPU.*(cycles|clocksource tsc)",
    "|clocksource.*(watchdog|tsc|tsc-early) +interval:",
    "|clocksource: watchdog .*interval:",
);

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
    // Unsynchronised counters say more than a skew, which they can cause. A measured skew says more
    // than a failed measurement.
    let by_watchdog = [Cause::Warp, Cause::Skew, Cause::Delay, Cause::Watchdog]
        .into_iter()
        .find(|cause| has_message(*cause));
    let cause = match reason {
        Some("check_tsc_sync_source failed" | "KVM discovered backwards TSC") => Cause::Warp,
        Some("could not calculate TSC khz") => Cause::NoFrequency,
        Some("clocksource watchdog") => by_watchdog.unwrap_or(Cause::Watchdog),
        Some("TSCs unsynchronized") => Cause::Unsynchronised,
        Some("cpufreq changes") => Cause::VaryingRate,
        // `tsc_setup` names no parameter, `notsc_setup` does.
        Some("boot parameter") => Cause::Parameter("tsc=unstable"),
        Some("boot parameter notsc") => NOTSC,
        Some(reason) if reason.contains("halt") => Cause::Halts,
        Some(_) => Cause::Other,
        None => by_watchdog.or_else(|| has_message(NOTSC).then_some(NOTSC))?,
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

/// A skew that the kernel's watchdog has measured.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Skew {
    /// The TSC's time minus the other clock's, ns.
    difference_ns: i64,
    /// The interval by the other clock, ns; `None` if the message does not have it.
    interval_ns: Option<i64>,
}

/// The newest skew of the TSC: the place of its last message in the log, and its figures; `None`
/// for the figures if the log does not have them.
fn newest_skew(log: &[String]) -> Option<(usize, Option<Skew>)> {
    let is_skew = |line: &str| {
        let mut of_skew = MESSAGES.iter().filter(|(cause, _)| *cause == Cause::Skew);
        of_skew.any(|(_, parts)| parts.iter().all(|part| line.contains(part)))
    };
    (0..log.len()).rev().find_map(|place| {
        let line = &log[place];
        let before = place.checked_sub(1).map(|place| log[place].as_str());
        let skew = skew_of(before.unwrap_or_default(), line);
        (skew.is_some() || is_skew(line)).then_some((place, skew))
    })
}

/// The skew whose figures end with this line.
fn skew_of(before: &str, line: &str) -> Option<Skew> {
    /// The words before the figure of the other clock, and of the TSC in the next line.
    const TWO_LINES: [[[&str; 2]; 2]; 3] = [
        [["'", "' wd_nsec: "], ["'tsc", " cs_nsec: "]],
        [
            ["clocksource: Watchdog ", "interval: "],
            ["clocksource: Clocksource ", "tsc interval: "],
        ],
        [
            ["clocksource: Watchdog ", "interval: "],
            ["clocksource: Clocksource ", TSC_EARLY_INTERVAL],
        ],
    ];
    let in_one_line = || {
        Some(Skew {
            difference_ns: figure_after(["Clocksource 'tsc", "skewed "], line)?,
            interval_ns: figure_after(["over watchdog ", "interval of "], line),
        })
    };
    let in_two_lines = || {
        TWO_LINES.into_iter().find_map(|[other, tsc]| {
            let interval_ns = figure_after(other, before)?;
            Some(Skew {
                difference_ns: figure_after(tsc, line)?.checked_sub(interval_ns)?,
                interval_ns: Some(interval_ns),
            })
        })
    };
    let in_old_kernels = || {
        Some(Skew {
            difference_ns: figure_after(["Clocksource tsc", "unstable (delta = "], line)?,
            interval_ns: None,
        })
    };
    in_one_line().or_else(in_two_lines).or_else(in_old_kernels)
}

/// The whole number after both words, with any spaces between them.
fn figure_after([first, second]: [&str; 2], line: &str) -> Option<i64> {
    let (_, rest) = line.split_once(first)?;
    let (_, rest) = rest.split_once(second)?;
    let rest = rest.trim_start();
    let end = rest
        .find(|character: char| !character.is_ascii_digit() && character != '-')
        .unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// When the newest skew came, in words, if it came between a suspend's beginning and its end, or
/// soon after a resume. `None` if it did not, or if that is unknown, as in a log without seconds
/// since boot.
fn skew_after_resume(log: &[String]) -> Option<String> {
    /// Twenty rounds of the watchdog (`WATCHDOG_INTERVAL` is half a second).
    const LONGEST_S: f64 = 10.0;
    let (place, _) = newest_skew(log)?;
    let newest = |is: fn(&str) -> bool| log[..place].iter().rev().find(|line| is(line));
    // With s2idle, the devices resume before the suspend's end.
    if newest(|line| is_suspend(line) || is_end(line)).is_some_and(|line| is_suspend(line)) {
        return Some("between the beginning of a suspend and its end".to_owned());
    }
    let after_s = seconds(&log[place])? - seconds(newest(is_resume)?)?;
    let is_soon = (0.0..=LONGEST_S).contains(&after_s);
    is_soon.then(|| format!("{} after a resume", time(after_s * 1e9)))
}

/// The seconds since boot at the start of a message: `[ 9001.200000]`.
fn seconds(message: &str) -> Option<f64> {
    let (seconds, _) = message.strip_prefix('[')?.split_once(']')?;
    seconds.trim().parse().ok()
}

/// The messages by which the kernel says that it could not find out the TSC's frequency
/// (`determine_cpu_tsc_frequencies` and `pit_hpet_ptimer_calibrate_cpu` in
/// `arch/x86/kernel/tsc.c`).
fn failed_calibrations(log: &[String]) -> Vec<String> {
    let has = |line: &String, words: &[&str]| words.iter().any(|part| line.contains(part));
    if log
        .iter()
        .any(|line| has(line, &["MHz processor", "MHz TSC"]))
    {
        return Vec::new();
    }
    let failures = [
        "HPET/PMTIMER calibration failed",
        "No reference (HPET/PMTIMER)",
        "could not calculate TSC khz",
    ];
    let lines = log.iter().filter(|line| has(line, &failures));
    lines.cloned().collect()
}

/// The TSC's frequency, Hz, by which the kernel converts the TSC into time, or would.
///
/// The kernel logs the TSC's frequency before a refinement only if it differs from the processor's.
fn tsc_hz(log: &[String]) -> Option<u64> {
    logged_hz(log, "Refined TSC clocksource calibration: ", " MHz")
        .or_else(|| logged_hz(log, "Detected ", " MHz TSC"))
}

/// The processor's frequency, Hz.
fn processor_hz(log: &[String]) -> Option<u64> {
    logged_hz(log, "Detected ", " MHz processor")
}

/// The last frequency between these texts, Hz.
fn logged_hz(log: &[String], before: &str, after: &str) -> Option<u64> {
    log.iter().rev().find_map(|line| {
        let (_, rest) = line.split_once(before)?;
        let (mhz, _) = rest.split_once(after)?;
        // The kernel prints kHz, with a point before the last three digits.
        let khz: u64 = mhz.replace('.', "").parse().ok()?;
        khz.checked_mul(1_000)
    })
}

/// The TSC's frequency, Hz, by the clock whose calibration the kernel has passed over: if two
/// calibrations disagree, the kernel takes that of the PIT, a timer.
fn passed_over_hz(log: &[String]) -> Option<u64> {
    if log.iter().any(|line| line.contains("Refined TSC")) {
        return None;
    }
    log.iter().rev().find_map(|line| {
        let (_, rest) = line.split_once("PIT calibration deviates from ")?;
        let khz: u64 = rest.rsplit(' ').next()?.parse().ok()?;
        khz.checked_mul(1_000)
    })
}

impl Machine {
    /// The TSC's frequency, Hz, by which the kernel converts the TSC into time, or would; `None` if
    /// the log does not say.
    pub(crate) fn tsc_hz_by_kernel(&self) -> Option<u64> {
        // Older kernels log only the processor's frequency, though the TSC's may differ by up to a
        // tenth. `tsc_init` of Linux 4.15 is the first that then logs the TSC's, too (commit
        // 4b5b2127238e, "Print tsc_khz, when it differs from cpu_khz").
        let is_processor_tsc = self.is_kernel_at_least(4, 15) != Some(false);
        let log = self.kernel_log.as_deref()?;
        tsc_hz(log).or_else(|| is_processor_tsc.then(|| processor_hz(log))?)
    }

    /// The TSC's frequency by the clock whose calibration the kernel has passed over, Hz; `None` if
    /// its log has no such disagreement.
    pub(crate) fn passed_over_tsc_hz(&self) -> Option<u64> {
        passed_over_hz(self.kernel_log.as_deref()?)
    }

    /// The messages by which the kernel says that it could not find out the TSC's frequency.
    pub(crate) fn failed_calibrations(&self) -> Vec<String> {
        let log = self.kernel_log.as_deref();
        log.map(failed_calibrations).unwrap_or_default()
    }

    /// Whether the kernel's log says that the kernel could not find out the TSC's frequency.
    pub(crate) fn lacks_tsc_frequency(&self) -> bool {
        !self.failed_calibrations().is_empty()
    }

    /// Whether the kernel's watchdog tolerates 62.5 ms in half a second. A larger difference is
    /// rather a jump or a late reading than a rate, because no crystal is off by 1 %. The watchdog
    /// compares two clocks each half second (`kernel/time/clocksource.c`):
    ///
    /// | Linux | what it tolerates | ppm |
    /// |---|---|---|
    /// | before 5.14; in the series 5.10 before January 2022 (about 5.10.94) | 62.5 ms (`WATCHDOG_THRESHOLD`) | 125,000 |
    /// | then, to 7.0 (commit 2e27e793e280) | the sum of two margins, each twice a limit that the kernel's builder may set to 50 us (the default of 5.14; 100 us from 5.17, commit c86ff8c55b8a; 125 us from 6.3, commit c37e85c135ce) | 400, by default up to 1,000 |
    /// | the same, `tsc-early` | its margin of 32 ms | 64,000 |
    /// | from 7.1 (`watchdog_check_freq`) | of two calibrated clocks | 500 |
    /// | the same | of others, such as `tsc-early` | 4,000 |
    ///
    /// Distributions add the commit of 5.14 to older kernels, so only the form of the messages
    /// shows the old limit. From 5.10 not even the form does: 5.10.94 has the commit, and the form
    /// that was there before.
    pub(crate) fn tolerates_jumps(&self) -> bool {
        let is_before_5_10 = self.is_kernel_at_least(5, 10) == Some(false);
        self.logs("Clocksource tsc unstable (delta =")
            || (is_before_5_10 && self.logs("wd_now:") && !self.logs("wd_nsec:"))
    }

    /// Whether the kernel's watchdog has rejected `tsc-early`: the TSC with a frequency that the
    /// kernel has not refined yet, and which may be wrong.
    pub(crate) fn has_early_skew(&self) -> bool {
        self.logs("clocksource 'tsc-early' as unstable because the skew is too large")
            || self.logs("Clocksource 'tsc-early' skewed")
            || self.logs("clocksource tsc-early unstable due to frequency skew")
            || self.logs(TSC_EARLY_INTERVAL)
    }

    /// Whether a message of the kernel's log has this part.
    fn logs(&self, part: &str) -> bool {
        let log = self.kernel_log.as_deref().unwrap_or_default();
        log.iter().any(|line| line.contains(part))
    }

    /// Why the kernel has rejected the TSC, with its messages; `None` if its log does not say so.
    pub(crate) fn rejection(&self) -> Option<Rejection> {
        rejection(self.kernel_log.as_deref()?)
    }

    /// How far the TSC was off by the kernel's watchdog, in words; `None` if the log does not say.
    pub(crate) fn skew(&self) -> Option<String> {
        let (_, skew) = newest_skew(self.kernel_log.as_deref()?)?;
        let Skew {
            difference_ns,
            interval_ns,
        } = skew?;
        let verb = match difference_ns.signum() {
            0 => return None,
            1 => "gained",
            _ => "lost",
        };
        let size = time(signed_f64(difference_ns.saturating_abs()));
        let Some(interval_ns) = interval_ns.filter(|ns| *ns > 0) else {
            return Some(format!("the TSC {verb} {size} against the other clock"));
        };
        let interval = time(signed_f64(interval_ns));
        // More than the whole interval is a jump, and no rate.
        let is_rate = difference_ns.unsigned_abs() < interval_ns.unsigned_abs();
        let ppb = i128::from(difference_ns) * 1_000_000_000 / i128::from(interval_ns);
        let ppb = if is_rate {
            i64::try_from(ppb).ok()
        } else {
            None
        };
        let rate = ppb.map_or_else(String::new, |ppb| format!(" ({})", rate(ppb)));
        Some(format!(
            "the TSC {verb} {size} in {interval} of the other clock{rate}"
        ))
    }

    /// When the kernel's watchdog saw that skew, in words, if a suspend or a resume may explain it;
    /// `None` if none may, or if that is unknown.
    pub(crate) fn skew_after_resume(&self) -> Option<String> {
        skew_after_resume(self.kernel_log.as_deref()?)
    }

    /// The kernel's messages that firmware has written to the TSC; `None` if the log is unreadable.
    pub(crate) fn firmware_writes(&self) -> Option<Vec<&str>> {
        let log = self.kernel_log.as_deref()?;
        let lines = log
            .iter()
            .filter(|line| line.contains("[Firmware Bug]: TSC ADJUST"));
        Some(lines.map(String::as_str).collect())
    }
}
