//! Arguments and environment variables of the benchmark program.

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// The option that makes all pairs count, including disturbed ones.
const INCLUDE: &str = "--include-disturbed";

/// The environment variable, and its value, for the same setting.
const VARIABLE: &str = "TICKLINE_CRITERION";
const INCLUDE_VALUE: &str = "include-disturbed";

/// The option with the path of another build, which then runs alternately with this one; and the
/// variable for the same setting.
const AGAINST: &str = "--against";
const PEER_BUILD: &str = "TICKLINE_CRITERION_AGAINST";

/// The variable with the role of a process that this crate starts.
const ROLE: &str = "TICKLINE_CRITERION_ROLE";

/// The role of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Runs its benchmarks, as usual.
    Measure,
    /// Only lists its benchmarks.
    List,
    /// Takes slices of one benchmark on request.
    Serve,
}

impl Role {
    /// The value of [`ROLE`]. A process without that variable measures.
    const fn name(self) -> &'static str {
        match self {
            Self::Measure => "measures",
            Self::List => "lists",
            Self::Serve => "serves",
        }
    }
}

pub(crate) fn role() -> Role {
    let name = env::var_os(ROLE).unwrap_or_default();
    [Role::List, Role::Serve]
        .into_iter()
        .find(|role| name == role.name())
        .unwrap_or(Role::Measure)
}

/// Prepares a process with this role, whose standard output this process reads.
pub(crate) fn prepare(command: &mut Command, role: Role) -> &mut Command {
    command
        .env(ROLE, role.name())
        .env_remove(PEER_BUILD)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
}

/// The other build, which is interleaved with this one.
pub(crate) fn peer_build() -> Option<OsString> {
    env::var_os(PEER_BUILD)
}

/// The name of the baseline with which criterion compares this run.
pub(crate) fn baseline() -> Option<String> {
    option_value(env::args_os(), &["--baseline", "--baseline-lenient", "-b"])
}

/// The name of the baseline as which criterion saves this run, if it does not compare with one.
pub(crate) fn saved_as() -> String {
    option_value(env::args_os(), &["--save-baseline", "-s"]).unwrap_or_else(|| "base".to_owned())
}

/// The options and values, each by itself: `-n`, `-s` and `main` for criterion's `-nsmain`.
fn separated(arguments: impl Iterator<Item = OsString>) -> impl Iterator<Item = String> {
    arguments.flat_map(|argument| {
        let text = argument.to_string_lossy();
        let Some(letters) = text.strip_prefix('-').filter(|rest| !rest.starts_with('-')) else {
            let parts = 1 + usize::from(text.starts_with("--"));
            return text
                .splitn(parts, '=')
                .map(str::to_owned)
                .collect::<Vec<_>>();
        };
        // A value follows these letters.
        let end = letters
            .find(['b', 'c', 's'])
            .map_or(letters.len(), |at| at + 1);
        let (letters, value) = letters.split_at(end);
        let value =
            Some(value.trim_start_matches('=').to_owned()).filter(|value| !value.is_empty());
        letters
            .chars()
            .map(|letter| format!("-{letter}"))
            .chain(value)
            .collect()
    })
}

/// The value of one of these options.
fn option_value(arguments: impl Iterator<Item = OsString>, options: &[&str]) -> Option<String> {
    let mut arguments = separated(arguments);
    arguments.find(|argument| options.contains(&argument.as_str()))?;
    arguments.next()
}

/// Whether one of these options is among the arguments.
fn has(options: &[&str]) -> bool {
    separated(env::args_os()).any(|argument| options.contains(&argument.as_str()))
}

/// Whether the program only lists its benchmarks.
pub(crate) fn is_list() -> bool {
    has(&["--list"])
}

/// Whether criterion stores its measurements. It stores none if it loads stored ones, if an option
/// forbids it, or if it sends them to cargo-criterion.
pub(crate) fn lets_criterion_store() -> bool {
    !has(&["--discard-baseline", "--load-baseline"])
        && env::var_os("CARGO_CRITERION_PORT").is_none()
}

/// Whether criterion measures in its quick mode, in which one sample of a slow routine is enough.
pub(crate) fn is_quick() -> bool {
    has(&["--quick"]) && has(&["--bench"]) && !has(&["--test", "--profile-time"])
}

/// Whether criterion draws no plots.
pub(crate) fn forbids_plots() -> bool {
    has(&["--noplot", "-n"])
}

/// Whether the environment asks for all pairs to count.
pub(crate) fn includes_disturbed() -> bool {
    env::var_os(VARIABLE).is_some_and(|value| value == INCLUDE_VALUE)
}

/// Runs the program again without this crate's own arguments, if there are any, and with variables
/// in their place. criterion would refuse these arguments, after its configuration was made. This
/// process then exits with the exit code of the second process. If the second process can't be
/// started, this function returns, and criterion refuses the argument. If the path of the other
/// build is not a file, this process exits.
pub(crate) fn run_again_without_own() {
    let Ok(program) = env::current_exe() else {
        return;
    };
    let (mut again, mut is_own) = (Command::new(program), false);
    let mut arguments = env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        let joined = argument
            .to_str()
            .and_then(|text| text.strip_prefix(AGAINST)?.strip_prefix('='));
        if argument == INCLUDE {
            again.env(VARIABLE, INCLUDE_VALUE);
        } else if argument == AGAINST || joined.is_some() {
            let other = joined
                .map(OsString::from)
                .or_else(|| arguments.next())
                .unwrap_or_default();
            if !Path::new(&other).is_file() {
                _ = writeln!(
                    io::stderr(),
                    "tickline: {AGAINST}: {} is not a file",
                    other.display()
                );
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

    /// Symptom: `-smain` replaced the stored `base`, and `-bmain` compared with nothing.
    #[test]
    fn an_options_value_follows_it_or_an_equals_sign_or_its_letter() {
        let baseline =
            |line: &str| option_value(line.split(' ').map(OsString::from), &["--baseline", "-b"]);
        for line in [
            "a --baseline main",
            "a x --baseline=main --bench",
            "-b main",
            "-b=main -n",
            "-vnbmain",
        ] {
            assert_eq!(baseline(line).as_deref(), Some("main"), "{line}");
        }
        assert_eq!(baseline("a --save-baseline main -sb=main --bench"), None);
        assert!(separated(["-vn".into(), "a=-n".into()].into_iter()).eq(["-v", "-n", "a=-n"]));
    }
}
