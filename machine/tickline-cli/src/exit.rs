//! Exit codes.

/// How the program ends; the texts in `args/help.rs` explain it to users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command worked, without an answer for which another value stands.
    Success,
    /// The command worked, and the answer is no:
    ///
    /// - A clock is slow or wrong.
    /// - A gate is closed.
    /// - Counters are unsynchronised.
    /// - Costs or documents differ.
    /// - Calls can't be counted.
    /// - `--fix` has changed nothing, or has undone its change.
    /// - At the timeout of `wait`, Unix time is not known to be near UTC.
    /// - The trace of `flight` lacks records.
    /// - The page of `serve status` serves no line.
    /// - This program's own child can't block system calls (`served_by.rs`).
    Negative,
    /// An error.
    Error,
    /// For `warp`: CPUs remain untested.
    Untested,
    /// For `doctor --check`.
    Plugin(PluginStatus),
    /// For `serve`: an error that remains until somebody removes its cause, so another start is of
    /// no use.
    #[cfg(target_os = "linux")]
    Permanent,
    /// For `run`: the program cannot be executed.
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    NotExecuted,
    /// For `run`: the program is missing.
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    NotFound,
}

impl Exit {
    /// The exit code.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Negative => 1,
            Self::Error => 2,
            Self::Untested => 3,
            Self::Plugin(status) => status as u8,
            // EX_CONFIG of sysexits.h, which systemd shows as `78/CONFIG`.
            #[cfg(target_os = "linux")]
            Self::Permanent => 78,
            // As of a shell and of env(1).
            #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
            Self::NotExecuted => 126,
            #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
            Self::NotFound => 127,
        }
    }
}

/// The status of `doctor --check`, with the exit codes of the Monitoring Plugins Development
/// Guidelines ("Plugin Return Codes"). They mean something else than those of other commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum PluginStatus {
    Ok = 0,
    Warning = 1,
    Critical = 2,
    Unknown = 3,
}
