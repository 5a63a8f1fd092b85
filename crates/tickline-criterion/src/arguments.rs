//! Arguments of the benchmark program.

use std::ffi::OsString;
use std::process::Command;

/// criterion names benchmarks and runs none.
const LIST: &str = "--list";

/// All pairs count.
const INCLUDE: &str = "--include-disturbed";

/// The same, as an environment variable and its value.
const VARIABLE: &str = "TICKLINE_CRITERION";
const INCLUDE_VALUE: &str = "include-disturbed";

/// Whether the program only names its benchmarks.
pub(crate) fn is_list() -> bool {
    std::env::args_os().any(|argument| argument == LIST)
}

/// Whether all pairs should count, as far as the environment says.
pub(crate) fn includes_disturbed() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|value| value == INCLUDE_VALUE)
}

/// criterion refuses arguments that it does not know, after its configuration was made. So where
/// `--include-disturbed` is one of them, the program runs again without it, with the variable set,
/// and this process ends as that one does. If it cannot be started, criterion refuses the argument.
pub(crate) fn act() {
    let (own, others): (Vec<OsString>, Vec<OsString>) =
        std::env::args_os().skip(1).partition(|argument| argument == INCLUDE);
    if own.is_empty() {
        return;
    }
    let Ok(program) = std::env::current_exe() else { return };
    if let Ok(status) = Command::new(program).args(others).env(VARIABLE, INCLUDE_VALUE).status() {
        std::process::exit(status.code().unwrap_or(1));
    }
}
