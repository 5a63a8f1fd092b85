//! Reads the kernel's messages about clocks by syslog(2), because containers and sandboxes may lack
//! `/dev/kmsg`.

#![allow(
    unsafe_code,
    reason = "klogctl, which none of this program's other dependencies wraps"
)]

use crate::machine::resume::{is_resume, is_suspend, is_waking};

/// Words, in lower case, of messages about clocks, besides the TSC. The last three name the
/// hypervisor.
const TOPICS: [&str; 10] = [
    "clocksource",
    "hpet",
    "kvm-clock",
    "pvclock",
    "sched_clock",
    "timekeeping",
    "refined-jiffies",
    "hypervisor detected",
    "fireck",
    "starting gvisor",
];

/// The number of messages to keep from the log's beginning, which is the boot, and from its end.
const KEPT: usize = 100;

/// The messages about clocks, oldest first; `None` if there is no log, or if the process may not
/// read it.
pub(super) fn read() -> Option<Vec<String>> {
    let log = read_all().filter(|log| !log.is_empty())?;
    Some(messages_about_clocks(&log))
}

/// The messages about clocks. Before each stands the newest message of a suspend or a resume, if
/// there was one since the message about clocks before. If there are very many, keeps those of the
/// boot, the newest, and all about a rejection.
fn messages_about_clocks(log: &str) -> Vec<String> {
    let mut found: Vec<(Option<&str>, &str)> = Vec::new();
    let mut slept = None;
    for message in log.lines().map(without_level) {
        // A suspend lasts until its end, whatever wakes up meanwhile.
        let is_within = is_waking(message) && slept.is_some_and(is_suspend);
        if is_resume(message) || is_suspend(message) {
            if !is_within {
                slept = Some(message);
            }
        } else if is_about_clocks(message) {
            found.push((slept.take(), message));
        }
    }
    let newest = found.len().saturating_sub(KEPT);
    let mut kept = Vec::new();
    let mut slept = None;
    for (number, (before, message)) in found.into_iter().enumerate() {
        slept = before.or(slept);
        if number < KEPT || number >= newest || is_rejection(message) {
            kept.extend(slept.take());
            kept.push(message);
        }
    }
    kept.into_iter().map(str::to_owned).collect()
}

/// Whether a message may be about a rejection of the TSC, or may have its figures.
fn is_rejection(message: &str) -> bool {
    const WORDS: [&str; 8] = [
        "unstable",
        "tsc warp",
        "skewed",
        "behind cpu",
        "ahead of cpu",
        "(cycles)",
        "wd_now:",
        "cs_now:",
    ];
    let message = message.to_lowercase();
    let has = |part: &&str| message.contains(*part);
    let is_interval = ["clocksource: watchdog ", "clocksource: clocksource "]
        .iter()
        .any(has)
        && message.contains("interval:");
    is_interval || WORDS.iter().any(has)
}

/// The whole kernel log, by syslog(2).
fn read_all() -> Option<String> {
    const READ_ALL: libc::c_int = 3; // SYSLOG_ACTION_READ_ALL
    const SIZE_BUFFER: libc::c_int = 10; // SYSLOG_ACTION_SIZE_BUFFER
    // SAFETY: this request returns a size, and writes to no memory.
    let size = unsafe { libc::klogctl(SIZE_BUFFER, std::ptr::null_mut(), 0) };
    // The kernel stores only texts, and adds level and time in front of each line.
    let size = size.saturating_mul(2);
    let mut log = vec![0_u8; usize::try_from(size).ok()?];
    // SAFETY: the kernel writes at most `size` bytes, which `log` has.
    let length = unsafe { libc::klogctl(READ_ALL, log.as_mut_ptr().cast(), size) };
    log.truncate(usize::try_from(length).ok()?);
    Some(String::from_utf8_lossy(&log).into_owned())
}

fn is_about_clocks(message: &str) -> bool {
    let message = message.to_lowercase();
    TOPICS.iter().any(|topic| message.contains(topic)) || is_about_the_tsc(&message)
}

/// Whether a message in lower case has the TSC as a word. Other devices have these letters in their
/// names: `prtsc`, the key; `tsc2007` and `ti_am335x_tsc`, touch screens.
fn is_about_the_tsc(message: &str) -> bool {
    let is_part = |character: char| character.is_ascii_alphanumeric();
    message.match_indices("tsc").any(|(place, word)| {
        let (before, after) = (&message[..place], &message[place + word.len()..]);
        let before = before.strip_suffix("rd").unwrap_or(before);
        let after = after.strip_prefix(['s', 'p']).unwrap_or(after);
        !before.ends_with(|character| is_part(character) || character == '_')
            && !after.starts_with(is_part)
    })
}

/// A line of the form `<level>[ seconds] text`, without its level.
fn without_level(line: &str) -> &str {
    match line.split_once('>') {
        Some((level, rest)) if level.starts_with('<') => rest,
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tests::{machine_by_facts_sh, write_sign};

    #[test]
    fn messages_about_clocks_are_kept_without_their_level() {
        let log = "\
<6>[    0.370933] clocksource: Switched to clocksource tsc
<6>[    0.400000] EXT4-fs (vda): mounted filesystem
<4>[    0.500000] tsc: Marking TSC unstable due to boot parameter
<6>[    0.600000] hpet0: 3 comparators
[    0.700000] Hypervisor detected: KVM
";
        let expected = [
            "[    0.370933] clocksource: Switched to clocksource tsc",
            "[    0.500000] tsc: Marking TSC unstable due to boot parameter",
            "[    0.600000] hpet0: 3 comparators",
            "[    0.700000] Hypervisor detected: KVM",
        ];
        assert_eq!(messages_about_clocks(log), expected);
    }

    /// A laptop resumes hundreds of times, and most resumes say nothing about a clock.
    #[test]
    fn the_newest_resume_before_a_message_about_clocks_is_kept() {
        let log = "\
<6>[    1.000000] tsc: Detected 2600.000 MHz processor
<6>[  900.000000] PM: suspend exit
<6>[ 9000.900000] ACPI: PM: Waking up from system sleep state S3
<6>[ 9001.200000] PM: suspend exit
<6>[ 9002.000000] EXT4-fs (vda): mounted filesystem
<4>[ 9003.000000] clocksource: Switched to clocksource hpet
<6>[ 9900.000000] PM: suspend exit
";
        let expected = [
            "[    1.000000] tsc: Detected 2600.000 MHz processor",
            "[ 9001.200000] PM: suspend exit",
            "[ 9003.000000] clocksource: Switched to clocksource hpet",
        ];
        assert_eq!(messages_about_clocks(log), expected);
    }

    /// With s2idle, the devices resume before the suspend's end.
    #[test]
    fn the_beginning_of_a_suspend_is_kept_before_a_message_of_its_time() {
        let log = "\
<6>[  900.000000] PM: suspend exit
<6>[ 9000.000000] PM: suspend entry (deep)
<6>[ 9040.900000] ACPI: PM: Waking up from system sleep state S3
<4>[ 9041.000000] clocksource: Switched to clocksource hpet
<6>[ 9042.000000] PM: suspend exit
";
        let expected = [
            "[ 9000.000000] PM: suspend entry (deep)",
            "[ 9041.000000] clocksource: Switched to clocksource hpet",
        ];
        assert_eq!(messages_about_clocks(log), expected);
    }

    #[test]
    fn messages_of_a_resume_take_no_room_of_others() {
        let log: String = (0..200)
            .map(|number| format!("PM: suspend exit\ntsc {number}\n"))
            .collect();
        assert_eq!(messages_about_clocks(&log).len(), 400);
    }

    /// Symptom: after hundreds of resumes, the log had no word of why the TSC was rejected.
    #[test]
    fn each_message_about_a_rejection_is_kept_with_its_resume() {
        const FILLING: &str = "Timekeeping suspended for 4 seconds\n";
        for message in [
            "Measured 66930 cycles TSC warp between CPUs, turning off TSC clock.",
            "clocksource: Marking clocksource tsc unstable due to inter CPU skew",
            "clocksource: CPU1 5 < CPU2 9 (cycles)",
            "clocksource:         CPUs 3 behind CPU 1 for clocksource tsc.",
            "clocksource:         CPUs 3 ahead of CPU 1 for clocksource tsc.",
            "clocksource: Watchdog                    hpet interval:        499958332ns",
            "clocksource: Clocksource                  tsc interval:        500987654ns",
            "clocksource:                       'hpet' wd_nsec: 503207012 wd_now: 48a38f74",
            "clocksource:                       'tsc' cs_nsec: 501207012 cs_now: 3224653e7bd",
            "clocksource: Clocksource 'tsc' skewed 436888 ns (0 ms) over watchdog 'hpet'",
            "hpet read-back delay of 162520ns, attempt 4, tsc, marking unstable",
            "TSC found unstable after boot",
        ] {
            let before = FILLING.repeat(150);
            let log = format!("{before}PM: suspend exit\n{FILLING}{message}\n{before}");
            let kept = messages_about_clocks(&log);
            assert_eq!(kept.len(), 202, "{message}");
            assert_eq!(kept[100..102], ["PM: suspend exit", message]);
        }
    }

    /// Symptom: messages about keys and touch screens took the place of the TSC's.
    #[test]
    fn other_words_with_the_letters_tsc_are_not_about_clocks() {
        for message in [
            "input: PrtSc key as /devices/platform/keys",
            "tsc2007 1-0048: touchscreen",
            "ti_am335x_tsc: IRQ 30",
            "utscopy: done",
        ] {
            assert!(!is_about_clocks(message), "{message}");
        }
        for message in [
            "tsc: Detected 2600.000 MHz processor",
            "[Firmware Bug]: TSC ADJUST: CPU0: -5",
            "Marking TSC unstable due to: TSCs unsynchronized.",
            "TSC_DEADLINE disabled",
            "kvm: rdtscp is not there",
            "wd-tsc-wd read-back delay",
        ] {
            assert!(is_about_clocks(message), "{message}");
        }
    }

    #[test]
    fn of_very_many_messages_those_of_the_boot_and_the_newest_are_kept() {
        let log: String = (0..300).map(|number| format!("tsc {number}\n")).collect();
        let kept = messages_about_clocks(&log);
        assert_eq!(kept.len(), 200);
        assert_eq!((kept[0].as_str(), kept[99].as_str()), ("tsc 0", "tsc 99"));
        assert_eq!(
            (kept[100].as_str(), kept[199].as_str()),
            ("tsc 200", "tsc 299")
        );
        let all: String = (0..200).map(|number| format!("tsc {number}\n")).collect();
        assert_eq!(messages_about_clocks(&all).len(), 200);
    }

    #[test]
    fn up_to_200_messages_are_all_kept() {
        for count in [1, 99, 101, 150, 199] {
            let all: String = (0..count).map(|number| format!("tsc {number}\n")).collect();
            assert_eq!(messages_about_clocks(&all).len(), count);
        }
    }

    #[test]
    fn an_arrow_in_a_message_is_not_the_end_of_its_level() {
        let line = "[    0.1] clocksource: tsc -> hpet";
        assert_eq!(without_level(line), line);
    }

    /// More messages may come at any time.
    #[test]
    fn the_kernels_log_is_read_whole_and_only_messages_about_clocks_are_kept() {
        let kept = || {
            let log = read_all().filter(|log| !log.is_empty());
            log.map(|log| messages_about_clocks(&log))
        };
        let before = kept();
        let found = read();
        assert!(found == before || found == kept(), "{found:?}, {before:?}");
    }

    #[test]
    fn the_kernels_log_is_read_by_whom_the_kernel_lets() {
        let mut newest = vec![0_u8; 1 << 16];
        // SAFETY: the kernel writes at most as many bytes as `newest` has.
        let length = unsafe { libc::klogctl(3, newest.as_mut_ptr().cast(), 1 << 16) };
        let log = read_all();
        assert_eq!(log.is_some(), length >= 0);
        assert_eq!(
            log.is_some_and(|log| log.starts_with('<')),
            length > 0,
            "a level"
        );
    }

    /// Symptom: `facts.sh` kept the first 200 lines, so the rejection of the TSC was not among
    /// them.
    #[test]
    fn facts_sh_keeps_the_messages_that_the_program_keeps() {
        let root = tempfile::tempdir().unwrap();
        write_sign(root.path(), &[]);
        let resumes: String = (0..150)
            .map(|number| {
                format!(
                    "[ {number}.1] PM: suspend entry (s2idle)\n[ {number}.2] Timekeeping suspended\n\
                     [ {number}.3] ACPI: PM: Waking up from system sleep state S3\n\
                     [ {number}.4] PM: suspend exit\n"
                )
            })
            .collect();
        let rejections = "[ 151.1] PM: suspend entry (deep)
[ 151.2] ACPI: PM: Waking up from system sleep state S3
[ 151.3] clocksource: Marking clocksource tsc unstable due to inter CPU skew
[ 151.3] clocksource: CPU1 5 < CPU2 9 (cycles)
[ 151.3] clocksource:         CPUs 3 ahead of CPU 1 for clocksource tsc.
[ 151.3] clocksource: Watchdog                    hpet interval:        499958332ns
[ 151.3] clocksource: Clocksource                  tsc interval:        500987654ns
[ 151.3] clocksource:                       'hpet' wd_nsec: 503207012 wd_now: 48a38f74
[ 151.3] clocksource: Clocksource 'tsc' skewed 436888 ns (0 ms) over watchdog 'hpet'
[ 151.3] Measured 66930 cycles TSC warp between CPUs, turning off TSC clock.
[ 151.4] PM: suspend exit
";
        let log = format!("{resumes}{rejections}{resumes}");
        let facts = machine_by_facts_sh(root.path(), &log);
        let found = facts.kernel_log.expect("a readable log");
        assert_eq!(found, messages_about_clocks(&log));
        assert_eq!(found.len(), 2 * 200 + 1 + 8);
    }
}
