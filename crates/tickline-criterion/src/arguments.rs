//! Arguments of the benchmark program.

use std::ffi::OsString;
use std::process::Command;

/// With this, criterion names its benchmarks and runs none.
const LIST: &str = "--list";

/// With this, all pairs count, including disturbed ones.
const INCLUDE: &str = "--include-disturbed";

/// The same, as an environment variable and its value.
const VARIABLE: &str = "TICKLINE_CRITERION";
const INCLUDE_VALUE: &str = "include-disturbed";

/// Whether the program only names its benchmarks.
pub(crate) fn is_list() -> bool {
    std::env::args_os().any(|argument| argument == LIST)
}

/// Whether criterion stores what it measures: not if it compares stored numbers, is asked to store
/// none, or sends all to cargo-criterion.
pub(crate) fn lets_criterion_store() -> bool {
    let forbids = |argument: OsString| {
        let text = argument.to_string_lossy();
        ["--load-baseline", "--discard-baseline"].iter().any(|option| text.starts_with(option))
    };
    !std::env::args_os().any(forbids) && std::env::var_os("CARGO_CRITERION_PORT").is_none()
}

/// Whether criterion draws no plots.
pub(crate) fn forbids_plots() -> bool {
    std::env::args_os().any(|argument| argument == "--noplot" || argument == "-n")
}

/// Whether the environment asks for all pairs to count.
pub(crate) fn includes_disturbed() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|value| value == INCLUDE_VALUE)
}

/// criterion refuses arguments that it does not know, after its configuration was made. If
/// `--include-disturbed` is among them, this runs the program again without it, and with the
/// variable set. This process then exits with the exit code of the other one. If the other one
/// cannot be started, criterion refuses the argument.
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
