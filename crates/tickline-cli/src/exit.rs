//! Exit codes.

use std::process::ExitCode;

/// How the program ends; `help.rs` says it to users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Fast and trusted; or done, where nothing was to be judged.
    Fast = 0,
    /// Works, but a gate is closed, or a comparison that was asked for has found the counters apart.
    Closed = 1,
    /// Something went wrong.
    Error = 2,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
