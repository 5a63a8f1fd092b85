//! Exit codes.

use std::process::ExitCode;

/// How the program ends; `help.rs` explains it to users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Fast and trusted; or success, for a command that judges nothing.
    Fast = 0,
    /// Works, but a gate is closed, or `warp` or `report` has found unsynchronised counters.
    Closed = 1,
    /// An error.
    Error = 2,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
