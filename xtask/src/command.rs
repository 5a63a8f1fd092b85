//! Runs commands in the root of the workspace.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::process::{Command, ExitStatus, Stdio};

use crate::files;

/// The command of this line, which is split at white space. The line is a constant, so that no path
/// is part of it: a path may have spaces. Paths are added as arguments.
pub(crate) fn command(line: &'static str) -> Command {
    command_of(line.split_whitespace())
}

/// The command of these words, of which each is one argument. The first is the program.
pub(crate) fn command_of<W: AsRef<OsStr>>(words: impl IntoIterator<Item = W>) -> Command {
    let mut words = words.into_iter();
    let program = words.next().expect("a command has a program");
    let mut command = Command::new(program);
    command.args(words).current_dir(files::root());
    // Cargo sets these variables for its children. They would keep `cargo +nightly` from choosing
    // another toolchain.
    for name in ["CARGO", "RUSTUP_TOOLCHAIN", "RUSTC", "RUSTDOC"] {
        command.env_remove(name);
    }
    command
}

/// The command's words, for people.
pub(crate) fn words(command: &Command) -> String {
    let words = [command.get_program()].into_iter();
    let words = words.chain(command.get_args()).map(OsStr::to_string_lossy);
    words.collect::<Vec<_>>().join(" ")
}

/// The output of a command that must succeed, without the line break at the end.
pub(crate) fn output_of(line: &'static str) -> Result<String, String> {
    output(&mut command(line))
}

/// As [`output_of`], for a command with further arguments or with an environment.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let output = command
        .output()
        .map_err(|error| format!("`{}`: {error}", words(command)))?;
    if !output.status.success() {
        return Err(format!(
            "`{}`: {}\n{}",
            words(command),
            output.status,
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    Ok(String::from_utf8_lossy(&output.stdout)
        .trim_end_matches('\n')
        .to_owned())
}

/// Runs a command, lets it print to the terminal, and returns its exit code.
pub(crate) fn exit_code(command: &mut Command) -> Result<u8, String> {
    let status = command
        .status()
        .map_err(|error| format!("`{}`: {error}", words(command)))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    code.ok_or_else(|| format!("`{}`: {status}", words(command)))
}

/// Runs a command that must succeed, and lets it print to the terminal.
pub(crate) fn must_succeed(command: &mut Command) -> Result<(), String> {
    match exit_code(command)? {
        0 => Ok(()),
        code => Err(format!("`{}`: exit code {code}", words(command))),
    }
}

/// Runs a command to its end. Returns both of its output streams, and keeps them in `target/ci`.
/// The command writes them to a file, because a process that it leaves running could keep a pipe
/// open.
pub(crate) fn run_logged(
    command: &mut Command,
    name: &str,
) -> Result<(ExitStatus, String), String> {
    let folder = files::target().join("ci");
    files::make_folder(&folder)?;
    let path = folder.join(name.replace(['/', ' '], "-") + ".log");
    let of_log = |error: io::Error| format!("{}: {error}", path.display());
    let log = File::create(&path).map_err(of_log)?;
    let status = command
        .stdin(Stdio::null())
        .stdout(log.try_clone().map_err(of_log)?)
        .stderr(log)
        .status()
        .map_err(|error| format!("`{}`: {error}", words(command)))?;
    let output = fs::read(&path).map_err(of_log)?;
    Ok((status, String::from_utf8_lossy(&output).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_with_a_space_stays_one_argument() {
        let shown = output(command("printf [%s]").args(["a b", "c"]));
        assert_eq!(shown.unwrap(), "[a b][c]");
    }

    #[test]
    fn a_command_that_fails_is_named_with_its_arguments() {
        let mut failing = command("ls no-such-folder-of-tickline");
        let error = output(failing.arg("-d")).unwrap_err();
        let named = "`ls no-such-folder-of-tickline -d`: exit status";
        assert!(error.starts_with(named), "{error}");
    }

    /// Symptom: a step failed with "No such file or directory", whatever its command was.
    #[test]
    fn a_logged_command_that_is_not_there_is_named() {
        let mut missing = command("no-such-program-of-tickline -d");
        let error = run_logged(&mut missing, "missing").unwrap_err();
        let named = "`no-such-program-of-tickline -d`: ";
        assert!(error.starts_with(named), "{error}");
    }
}
