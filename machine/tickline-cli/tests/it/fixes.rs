//! The steps of the fixes for the recorded machines.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::common::{entries, skip, text};
use crate::recorded::diagnosed;

/// Shells that an administrator may have; those that are missing are left out. `sh` is there.
const SHELLS: [&[&str]; 4] = [&["sh"], &["dash"], &["bash"], &["busybox", "sh"]];

/// The steps of each finding of a recorded machine, with the machine's name.
fn steps() -> Vec<(String, Value)> {
    let facts = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/facts"));
    let mut all = Vec::new();
    for name in entries(facts) {
        let recorded = fs::read_to_string(facts.join(&name)).unwrap();
        let (document, _) = diagnosed(&serde_json::from_str(&recorded).unwrap());
        for finding in document["findings"].as_array().unwrap() {
            if finding["steps"].is_object() {
                all.push((name.clone(), finding["steps"].clone()));
            }
        }
    }
    all
}

/// The name and the text of each command.
fn commands() -> Vec<(String, String)> {
    let mut commands = Vec::new();
    for (name, steps) in steps() {
        for step in ["check", "now", "undo", "keep", "undo_keep"] {
            if let Some(command) = steps[step].as_str() {
                commands.push((format!("{name}: {step}"), command.to_owned()));
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
                skip(format_args!("there is no {}", shell.join(" ")));
                break;
            };
            let errors = text(&output.stderr);
            assert!(output.status.success(), "{name}: {shell:?}: {errors}");
        }
    }
}

#[test]
fn each_step_that_changes_something_can_be_undone() {
    let steps = steps();
    let mut changes: usize = 0;
    for (name, steps) in &steps {
        for step in ["now", "keep", "keep_by_hand"] {
            let undo = step.replace("now", "undo").replace("keep", "undo_keep");
            let is_there = |step: &str| match &steps[step] {
                Value::Array(texts) => !texts.is_empty(),
                text => text.is_string(),
            };
            assert_eq!(is_there(step), is_there(&undo), "{name}: {step}");
            changes += usize::from(is_there(step));
        }
    }
    assert!(changes > 10, "{changes}");
}

/// Symptom: a reader of JSON found a shell program of 1,000 characters in `keep`.
#[test]
fn an_edit_by_hand_stands_in_place_of_a_command() {
    let mut has_words = false;
    for (name, steps) in steps() {
        let words = steps["keep_by_hand"].as_array().expect("a list");
        assert!(steps["keep"].is_null() || words.is_empty(), "{name}");
        assert!(words.iter().all(Value::is_string), "{name}");
        has_words |= !words.is_empty();
    }
    assert!(has_words);
}
