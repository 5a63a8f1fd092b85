//! `--name value` and `--name` arguments, without a parser's dependency.

use std::process::exit;

/// The value after `--name`, or `default`. Ends the program with a message if it is not a number.
#[must_use]
pub fn number(name: &str, default: u64) -> u64 {
    let Some(text) = text(name) else { return default };
    text.parse().unwrap_or_else(|_| {
        eprintln_and_exit(&format!("--{name} {text} is not a whole number"));
    })
}

/// The value after `--name`.
#[must_use]
pub fn text(name: &str) -> Option<String> {
    let flag = format!("--{name}");
    std::env::args().skip_while(|argument| *argument != flag).nth(1)
}

#[expect(clippy::print_stderr, reason = "a program's message about its arguments")]
fn eprintln_and_exit(message: &str) -> ! {
    eprintln!("{message}");
    exit(2);
}
