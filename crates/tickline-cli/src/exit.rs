//! Exit codes.

use std::process::ExitCode;

/// How the program ends; `help.rs` explains it to users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Nothing is wrong or slow, and the counter serves; or success, for a command that judges
    /// less.
    Fast = 0,
    /// Works, but something is slow or wrong, a gate is closed, or `warp` or `report` has found
    /// unsynchronised counters.
    Closed = 1,
    /// An error; for `--check`, something is wrong.
    Error = 2,
    /// For `--check`: not known.
    Unknown = 3,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
