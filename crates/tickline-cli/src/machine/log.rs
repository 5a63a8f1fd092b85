//! The kernel's messages about clocks, where the process may read them, by syslog(2): containers
//! and sandboxes may lack `/dev/kmsg`.

#![allow(unsafe_code, reason = "klogctl, which no crate wraps that this program needs otherwise")]

/// Words, in lower case, that mark a message about clocks. The last three name the hypervisor.
const TOPICS: [&str; 11] = [
    "clocksource",
    "tsc",
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

/// The number of messages to keep from the beginning, which is the boot, and from the end.
const KEPT: usize = 100;

/// The messages about clocks, oldest first; `None` where there is no log, or the process may not
/// read it.
pub(super) fn read() -> Option<Vec<String>> {
    let log = whole().filter(|log| !log.is_empty())?;
    let mut messages: Vec<String> = log
        .lines()
        .map(without_level)
        .filter(|message| is_about_clocks(message))
        .map(str::to_owned)
        .collect();
    if messages.len() > 2 * KEPT {
        messages.drain(KEPT..messages.len() - KEPT);
    }
    Some(messages)
}

/// The kernel's log by syslog(2).
fn whole() -> Option<String> {
    const READ_ALL: libc::c_int = 3; // SYSLOG_ACTION_READ_ALL
    const SIZE_BUFFER: libc::c_int = 10; // SYSLOG_ACTION_SIZE_BUFFER
    // SAFETY: this asks for a size, and writes nothing.
    let size = unsafe { libc::klogctl(SIZE_BUFFER, std::ptr::null_mut(), 0) };
    // The kernel keeps only texts, and puts level and time in front of each line.
    let size = size.saturating_mul(2);
    let mut log = vec![0_u8; usize::try_from(size).ok()?];
    // SAFETY: the memory is valid for writes of that size.
    let length = unsafe { libc::klogctl(READ_ALL, log.as_mut_ptr().cast(), size) };
    log.truncate(usize::try_from(length).ok()?);
    Some(String::from_utf8_lossy(&log).into_owned())
}

fn is_about_clocks(message: &str) -> bool {
    let message = message.to_lowercase();
    TOPICS.iter().any(|topic| message.contains(topic))
}

/// A line is `<level>[ seconds] text`.
fn without_level(line: &str) -> &str {
    match line.split_once('>') {
        Some((level, rest)) if level.starts_with('<') => rest,
        _ => line,
    }
}
