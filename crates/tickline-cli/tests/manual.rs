//! Completions and the manual, in the programs that read them.

mod common;

use std::io::Write;
use std::process::{Command, Output, Stdio};

use common::text;

fn tickline(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tickline")).args(arguments).output().expect("the program")
}

/// A program's output for an input; `None` if the program is not installed.
fn fed(program: &str, arguments: &[&str], input: &[u8]) -> Option<Output> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().ok()?;
    child.stdin.take()?.write_all(input).ok();
    child.wait_with_output().ok()
}

const COMMANDS: [&str; 10] =
    ["doctor", "bench", "warp", "watch", "report", "who", "serve", "compare", "completions", "man"];

#[test]
fn every_command_has_help_with_examples_and_a_manual_page() {
    let help = text(&tickline(&["--help"]).stdout);
    let renderers: [(&str, &[&str]); 2] =
        [("man", &["--warnings", "-l", "-"]), ("mandoc", &["-T", "html", "-W", "error"])];
    let mut rendered = 0;
    for command in COMMANDS {
        assert!(help.contains(&format!("\n  {command} ")), "{command} is not in:\n{help}");
        let own = text(&tickline(&[command, "--help"]).stdout);
        assert!(own.contains("Examples:\n  tickline"), "{own}");
        let page = tickline(&["man", command]);
        assert!(page.status.success());
        for (program, arguments) in renderers {
            let Some(output) = fed(program, arguments, &page.stdout) else { continue };
            assert!(output.status.success(), "{program}, {command}: {output:?}");
            assert_eq!(text(&output.stderr), "", "{program}, {command}");
            let lines = text(&output.stdout);
            assert!(lines.contains("NAME") && lines.contains("EXAMPLES"), "{program}, {command}: {lines}");
            rendered += 1;
        }
    }
    if rendered == 0 {
        eprintln!("SKIPPED: neither man nor mandoc is here; no manual page was rendered");
    }
}

#[test]
fn a_page_for_nothing_is_an_error_that_names_the_commands() {
    let output = tickline(&["man", "nonsense"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("nonsense is no command: doctor"), "{}", text(&output.stderr));
    let output = tickline(&["completions", "nonsense"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("bash"), "{}", text(&output.stderr));
}

/// The completions that bash offers for `words`.
fn offered(script: &[u8], words: &[&str]) -> Option<String> {
    let mut input = script.to_vec();
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let (last, before) = (words.last()?, words.get(words.len().checked_sub(2)?)?);
    let line = format!(
        "\nCOMP_WORDS=({}); COMP_CWORD={}; _tickline tickline '{last}' '{before}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
        quoted.join(" "),
        words.len() - 1
    );
    input.extend(line.as_bytes());
    let output = fed("bash", &["--norc"], &input)?;
    assert!(output.status.success(), "{output:?}");
    assert_eq!(text(&output.stderr), "");
    Some(text(&output.stdout))
}

#[test]
fn bash_completes_commands_and_options() {
    let script = tickline(&["completions", "bash"]);
    assert!(script.status.success());
    let Some(commands) = offered(&script.stdout, &["tickline", ""]) else {
        eprintln!("SKIPPED: there is no bash here");
        return;
    };
    for command in COMMANDS {
        assert!(commands.lines().any(|line| line == command), "{command} is not in:\n{commands}");
    }
    assert!(!commands.contains("__"), "a hidden command is offered:\n{commands}");
    let options = offered(&script.stdout, &["tickline", "report", "--"]).unwrap();
    assert!(
        options.contains("--out") && options.contains("--secs") && !options.contains("--csv"),
        "{options}"
    );
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    for arguments in [["man", "report"], ["completions", "zsh"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tickline"));
        let mut child =
            command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(text(&output.stderr), "");
    }
}
