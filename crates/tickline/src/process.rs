//! Whether the program was forked.

use crate::sys;

/// A number that is the same for all threads of this process, and differs from every ancestor's
/// number; never 0. A value other than an earlier one shows that the process was forked. With
/// [`Probes::Full`](crate::Probes::Full) on Linux 4.14 or later the call costs a few loads,
/// elsewhere a call of `getpid`. (There a child could have the id of an ancestor that has ended.)
///
/// ```
/// use tickline::process_token;
///
/// let before = process_token();
/// let was_forked = || process_token() != before;
/// assert!(!was_forked());
/// ```
#[must_use]
pub fn process_token() -> u64 {
    sys::process_token()
}
