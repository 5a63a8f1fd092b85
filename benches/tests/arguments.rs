//! A program measures nothing if it does not know all of its arguments: with the default in place
//! of a misspelt one, the figures would look as if they were those that were asked for.

use std::process::{Command, Output};

/// The programs, and arguments that are wrong for each.
const WRONG: [(&str, &[&str]); 11] = [
    (env!("CARGO_BIN_EXE_accuracy"), &["--driver", "nobody"]),
    (env!("CARGO_BIN_EXE_drift"), &["--sec", "1"]),
    (env!("CARGO_BIN_EXE_drift"), &["--secs"]),
    (env!("CARGO_BIN_EXE_drift"), &["--secs", "soon"]),
    (env!("CARGO_BIN_EXE_order"), &["--clock_ms", "0"]),
    (env!("CARGO_BIN_EXE_ratios"), &["--round", "1"]),
    (env!("CARGO_BIN_EXE_soak"), &["1"]),
    (env!("CARGO_BIN_EXE_spans"), &["--round", "1"]),
    (env!("CARGO_BIN_EXE_startup"), &["--runs", "-1"]),
    (env!("CARGO_BIN_EXE_traces"), &["--record", "1"]),
    (env!("CARGO_BIN_EXE_under_load"), &["--load", "disks"]),
];

fn output_of(program: &str, arguments: &[&str]) -> Output {
    let output = Command::new(program).args(arguments).output();
    output.expect("a program of this package")
}

#[test]
fn a_program_refuses_an_argument_that_it_does_not_know() {
    for (program, arguments) in WRONG {
        let output = output_of(program, arguments);
        assert_eq!(output.status.code(), Some(2), "{program} {arguments:?}");
    }
}

#[test]
fn a_refusal_names_the_argument() {
    let output = output_of(env!("CARGO_BIN_EXE_drift"), &["--sec", "1"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("unexpected argument '--sec'"), "{said}");
}
