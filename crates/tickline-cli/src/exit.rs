//! Exit codes.

/// How the program ends; the texts in `help/` explain it to users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command worked, and nothing speaks against what it is asked about: no clock was found
    /// slow or wrong, and the counter is read; counters are synchronised, documents agree.
    Success = 0,
    /// The command worked, and the answer is no: something is slow or wrong, or with `--check` not
    /// known to be right; a gate is closed, counters are unsynchronised, costs or documents differ,
    /// calls can't be counted, or `--fix` has changed nothing.
    Negative = 1,
    /// An error; for `--check`, something is wrong.
    Error = 2,
    /// For `--check`: unknown. For `warp`: untested.
    Unknown = 3,
}
