//! The commands of the fixes for the recorded machines.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{entries, text};
use crate::recorded::diagnosed;

/// Shells that an administrator may have; those that are missing are left out. `sh` is there.
const SHELLS: [&[&str]; 4] = [&["sh"], &["dash"], &["bash"], &["busybox", "sh"]];

/// The name and the text of each command of a recorded machine.
fn commands() -> Vec<(String, String)> {
    let facts = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/facts"));
    let mut commands = Vec::new();
    for name in entries(facts) {
        let recorded = fs::read_to_string(facts.join(&name)).unwrap();
        let (document, _) = diagnosed(&serde_json::from_str(&recorded).unwrap());
        for finding in document["findings"].as_array().unwrap() {
            for step in ["check", "now", "undo", "keep", "undo_keep"] {
                if let Some(command) = finding["steps"][step].as_str() {
                    commands.push((format!("{name}: {step}"), command.to_owned()));
                }
            }
        }
    }
    commands
}

#[test]
fn each_command_of_a_fix_is_one_that_each_shell_can_read() {
    let commands = commands();
    assert!(commands.len() > 20, "{commands:?}");
    for shell in SHELLS {
        for (name, command) in &commands {
            let mut shell_command = Command::new(shell[0]);
            let output = shell_command.args(&shell[1..]).args(["-n", "-c", command]);
            let Ok(output) = output.output() else {
                eprintln!("SKIPPED: there is no {}", shell.join(" "));
                break;
            };
            let errors = text(&output.stderr);
            assert!(output.status.success(), "{name}: {shell:?}: {errors}");
        }
    }
}

#[test]
fn each_command_that_changes_something_can_be_undone() {
    let names: Vec<String> = commands().into_iter().map(|(name, _)| name).collect();
    for (step, undo) in [(": now", ": undo"), (": keep", ": undo_keep")] {
        let changes = names.iter().filter(|name| name.ends_with(step));
        for name in changes {
            let undone = name.replace(step, undo);
            assert!(names.contains(&undone), "{name}");
        }
    }
}
