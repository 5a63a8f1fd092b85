//! Exit codes.

/// The program's exit code; the texts in `args/help.rs` explain it to users. With `doctor --check` the
/// codes are those of a monitoring plugin (`PluginStatus` in `commands/doctor.rs`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command worked, and the answer is yes: no clock was found slow or wrong and tickline
    /// reads the counter, the counters are synchronised, or the documents agree.
    Success = 0,
    /// The command worked, and the answer is no:
    ///
    /// - A clock is slow or wrong.
    /// - A gate is closed.
    /// - Counters are unsynchronised.
    /// - Costs or documents differ.
    /// - Calls can't be counted.
    /// - `--fix` has changed nothing.
    Negative = 1,
    /// An error.
    Error = 2,
    /// For `warp`: CPUs remain untested.
    Unknown = 3,
    /// For `serve`: an error that remains until somebody removes its cause, so another start is of
    /// no use. This is `EX_CONFIG` of sysexits.h, which systemd shows as `78/CONFIG`.
    #[cfg(target_os = "linux")]
    Permanent = 78,
    /// For `run`: the program cannot be executed. This code and the next are those of a shell and
    /// of env(1).
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    NotExecuted = 126,
    /// For `run`: the program is missing.
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    NotFound = 127,
}
