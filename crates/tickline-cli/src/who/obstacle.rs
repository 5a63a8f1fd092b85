//! Why calls cannot be counted.

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
