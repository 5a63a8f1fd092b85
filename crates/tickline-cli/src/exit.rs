//! Exit codes.

/// How the program ends; the texts in `help/` explain it to users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command worked, and the answer is yes. No clock was found slow or wrong, and the counter
    /// is read; counters are synchronised; documents agree.
    Success = 0,
    /// The command worked, and the answer is no:
    ///
    /// - Something is slow or wrong, or with `--check` not known to be right.
    /// - A gate is closed.
    /// - Counters are unsynchronised.
    /// - Costs or documents differ.
    /// - Calls can't be counted.
    /// - `--fix` has changed nothing.
    Negative = 1,
    /// An error; for `--check`, something is wrong.
    Error = 2,
    /// For `--check`: unknown. For `warp`: untested.
    Unknown = 3,
}
