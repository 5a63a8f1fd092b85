//! Why calls cannot be counted, and what to run then.

use std::fmt;
use std::io;

/// Why calls could not be counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// tracefs is not mounted, or empty.
    NotMounted,
    /// This user may not read it, or may not count.
    Denied,
    /// The kernel was built without CONFIG_FTRACE_SYSCALLS.
    NotBuilt,
    /// Another one, in words.
    Other(String),
}

impl Obstacle {
    /// The commands, the most useful first. `seconds` is how long to count.
    pub(super) fn instead(&self, process: Option<u32>, seconds: u64) -> Vec<String> {
        let mut commands = Vec::new();
        if *self == Self::NotMounted {
            commands.push("sudo mount -t tracefs tracefs /sys/kernel/tracing".to_owned());
        }
        if matches!(self, Self::NotMounted | Self::Denied) {
            let target = process.map_or_else(String::new, |pid| format!(" {pid}"));
            commands.push(format!("sudo tickline who{target} --secs {seconds}"));
        }
        if !matches!(self, Self::NotBuilt) {
            let which = process.map_or_else(|| "-a".to_owned(), |pid| format!("-p {pid}"));
            commands.push(format!("sudo perf trace -s -e '{EVENTS}' {which} -- sleep {seconds}"));
        }
        // Needs no tracepoints, but stops the program twice at each call.
        let pid = process.map_or_else(|| "PID".to_owned(), |pid| pid.to_string());
        commands.push(format!("sudo timeout -s INT {seconds} strace -f -c -e trace='{CALLS}' -p {pid}"));
        commands
    }
}

/// The calls for `perf trace`, which refuses names that the kernel does not have.
#[cfg(target_arch = "x86_64")]
const EVENTS: &str = "clock_gettime,gettimeofday,time";
#[cfg(not(target_arch = "x86_64"))]
const EVENTS: &str = "clock_gettime,gettimeofday";

/// The calls for `strace`, which ignores an unknown name after a question mark.
const CALLS: &str = "?clock_gettime,?clock_gettime64,?gettimeofday,?time";

impl From<io::Error> for Obstacle {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::Denied,
            _ => Self::Other(format!("the kernel refused a counter: {error}")),
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotMounted => f.write_str("tracefs, which names the kernel's tracepoints, is not mounted"),
            Self::Denied => f.write_str(
                "this user may not count the calls of others at the kernel's tracepoints (root may, or CAP_PERFMON with a readable tracefs)",
            ),
            Self::NotBuilt => {
                f.write_str("this kernel has no tracepoints at system calls (CONFIG_FTRACE_SYSCALLS)")
            }
            Self::Other(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_fit_the_obstacle() {
        let denied = Obstacle::from(io::Error::from_raw_os_error(13));
        let other = Obstacle::from(io::Error::from_raw_os_error(24));
        for (obstacle, process, begins) in [
            (denied, Some(71), &["sudo tickline who 71 --secs 5", "sudo perf trace -s -e "][..]),
            (
                Obstacle::NotMounted,
                None,
                &["sudo mount -t tracefs ", "sudo tickline who --secs 5", "sudo perf "],
            ),
            // perf needs tracepoints, too.
            (Obstacle::NotBuilt, None, &[]),
            (other, None, &["sudo perf "]),
        ] {
            let commands = obstacle.instead(process, 5);
            let begins: Vec<_> = begins.iter().chain(&["sudo timeout -s INT "]).collect();
            assert_eq!(commands.len(), begins.len(), "{commands:?}");
            assert!(
                commands.iter().zip(begins).all(|(command, begin)| command.starts_with(begin)),
                "{commands:?}"
            );
        }
    }
}
