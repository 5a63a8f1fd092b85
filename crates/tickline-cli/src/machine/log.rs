//! The kernel's messages about clocks, where the process may read them: `/dev/kmsg`, else
//! syslog(2).

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;

use super::system;

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
    // A log without any message is a container's substitute for `/dev/kmsg`.
    let said = |messages: &Vec<String>| !messages.is_empty();
    let messages = records().ok().filter(said).or_else(|| syslog().ok().filter(said))?;
    let mut messages: Vec<String> = messages.into_iter().filter(|message| is_about_clocks(message)).collect();
    if messages.len() > 2 * KEPT {
        messages.drain(KEPT..messages.len() - KEPT);
    }
    Some(messages)
}

fn is_about_clocks(message: &str) -> bool {
    let message = message.to_lowercase();
    TOPICS.iter().any(|topic| message.contains(topic))
}

/// `Documentation/ABI/testing/dev-kmsg` of the kernel: each read is a record; EPIPE says that the
/// next one was overwritten.
fn records() -> io::Result<Vec<String>> {
    /// The longest record, bytes (`PRINTK_MESSAGE_MAX` in `kernel/printk/internal.h` is 2,048;
    /// 8,192 in old ones).
    const RECORD_BYTES: usize = 8_192;
    // At its end it does not wait for more.
    let mut file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg")?;
    let mut buffer = vec![0; RECORD_BYTES];
    let mut messages = Vec::new();
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(messages),
            Ok(length) => messages.extend(record(&String::from_utf8_lossy(&buffer[..length]))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(messages),
            Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
    }
}

/// `prefix,sequence,microseconds,flags;text`, and lines of continuation that begin with a space.
fn record(record: &str) -> Option<String> {
    let (head, text) = record.split_once(';')?;
    let micros: u64 = head.split(',').nth(2)?.parse().ok()?;
    let text = text.lines().next()?;
    Some(format!("[{:5}.{:06}] {text}", micros / 1_000_000, micros % 1_000_000))
}

/// Lines of `<level>[ seconds] text`.
fn syslog() -> io::Result<Vec<String>> {
    let text = system::syslog()?;
    let without_level = |line: &str| match line.split_once('>') {
        Some((level, rest)) if level.starts_with('<') => rest.to_owned(),
        _ => line.to_owned(),
    };
    Ok(text.lines().map(without_level).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_its_time_and_its_text() {
        let text = record("6,282,370933,-;clocksource: Switched to clocksource tsc\n SUBSYSTEM=x\n");
        assert_eq!(text.as_deref(), Some("[    0.370933] clocksource: Switched to clocksource tsc"));
        assert_eq!(record("garbage"), None);
    }

    #[test]
    fn messages_about_clocks_are_told_from_others() {
        for message in ["tsc: Marking TSC unstable due to boot parameter", "hpet0: 3 comparators"] {
            assert!(is_about_clocks(message), "{message}");
        }
        assert!(!is_about_clocks("EXT4-fs (vda): mounted filesystem"));
    }
}
