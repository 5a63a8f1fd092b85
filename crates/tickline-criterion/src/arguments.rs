//! Arguments of the benchmark program.

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// With this, all pairs count, including disturbed ones.
const INCLUDE: &str = "--include-disturbed";

/// The same, as an environment variable and its value.
const VARIABLE: &str = "TICKLINE_CRITERION";
const INCLUDE_VALUE: &str = "include-disturbed";

/// With this and the path of another program, both run alternately; and the same as a variable.
const AGAINST: &str = "--against";
const PEER_BUILD: &str = "TICKLINE_CRITERION_AGAINST";

/// Set for a process that another one starts: what it is for.
const ROLE: &str = "TICKLINE_CRITERION_ROLE";

/// What this process is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Benchmarks, as always.
    Measures,
    /// To name its benchmarks.
    Lists,
    /// To take slices of one benchmark when it is asked to.
    Serves,
}

pub(crate) fn role() -> Role {
    match env::var_os(ROLE) {
        Some(role) if role == "lists" => Role::Lists,
        Some(role) if role == "serves" => Role::Serves,
        _ => Role::Measures,
    }
}

/// Prepares a process with this role, whose output is read.
pub(crate) fn start(command: &mut Command, role: Role) -> &mut Command {
    let role = if role == Role::Lists { "lists" } else { "serves" };
    command.env(ROLE, role).env_remove(PEER_BUILD).stdout(Stdio::piped()).stderr(Stdio::null())
}

/// The program that is interleaved with this one.
pub(crate) fn peer_build() -> Option<OsString> {
    env::var_os(PEER_BUILD)
}

/// The baseline that criterion compares with.
pub(crate) fn baseline() -> Option<String> {
    value(env::args_os(), &["--baseline", "--baseline-lenient", "-b"])
}

/// The baseline as which criterion saves this run, if it does not compare with one.
pub(crate) fn saved_as() -> String {
    value(env::args_os(), &["--save-baseline", "-s"]).unwrap_or_else(|| "base".to_owned())
}

/// The value of one of these options, in an argument of its own or behind `=`.
fn value(arguments: impl Iterator<Item = OsString>, options: &[&str]) -> Option<String> {
    let mut arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
    arguments
        .find_map(|argument| match argument.split_once('=') {
            Some((option, value)) => options.contains(&option).then(|| Some(value.to_owned())),
            None => options.contains(&argument.as_str()).then_some(None),
        })?
        .or_else(|| arguments.next())
}

/// Whether one of these is among the arguments.
fn has(options: &[&str]) -> bool {
    env::args_os().any(|argument| options.iter().any(|option| argument == *option))
}

/// Whether the program only names its benchmarks.
pub(crate) fn is_list() -> bool {
    has(&["--list"])
}

/// Whether criterion stores what it measures: not if it compares stored numbers, is asked to store
/// none, or sends all to cargo-criterion.
pub(crate) fn lets_criterion_store() -> bool {
    !has(&["--discard-baseline"])
        && value(env::args_os(), &["--load-baseline"]).is_none()
        && env::var_os("CARGO_CRITERION_PORT").is_none()
}

/// Whether criterion draws no plots.
pub(crate) fn forbids_plots() -> bool {
    has(&["--noplot", "-n"])
}

/// Whether the environment asks for all pairs to count.
pub(crate) fn includes_disturbed() -> bool {
    env::var_os(VARIABLE).is_some_and(|value| value == INCLUDE_VALUE)
}

/// criterion refuses arguments that it does not know, after its configuration was made. If some of
/// this crate's are among them, the function runs the program again without them, and with
/// variables set. This process then exits with the exit code of that second process. If the second
/// process cannot be started, criterion refuses the argument. A path that is not a file ends this
/// process.
pub(crate) fn run_again_without_own() {
    let Ok(program) = env::current_exe() else { return };
    let (mut again, mut is_own) = (Command::new(program), false);
    let mut arguments = env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == INCLUDE {
            again.env(VARIABLE, INCLUDE_VALUE);
        } else if argument == AGAINST {
            let other = arguments.next().unwrap_or_default();
            if !Path::new(&other).is_file() {
                writeln!(io::stderr(), "tickline: {AGAINST}: {} is no program", other.display()).ok();
                std::process::exit(2);
            }
            again.env(PEER_BUILD, other);
        } else {
            again.arg(argument);
            continue;
        }
        is_own = true;
    }
    if is_own && let Ok(status) = again.status() {
        std::process::exit(status.code().unwrap_or(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_options_value_follows_it_or_an_equals_sign() {
        let of = |line: &str| value(line.split(' ').map(OsString::from), &["--baseline", "-b"]);
        for line in ["a --baseline main", "a x --baseline=main --bench", "a -b main --bench"] {
            assert_eq!(of(line).as_deref(), Some("main"), "{line}");
        }
        assert_eq!(of("a --save-baseline main --bench"), None);
    }
}
