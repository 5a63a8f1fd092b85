//! Backward steps between threads, for as long as is asked for.

use std::process::ExitCode;

use crate::step::{self, Step};

/// The longest run, s: a day.
const MAX_SECONDS: u64 = 86_400;

/// Runs the measurement `order` for as long as the arguments say.
pub(crate) fn run(arguments: &[&str]) -> ExitCode {
    match seconds(arguments) {
        Ok(seconds) => {
            let command = format!(
                "cargo run --release -q -p tickline-benches --bin order -- --secs {seconds} --clock-ms 0"
            );
            step::run_all(&[Step::new("order between threads", command)])
        }
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::from(2)
        }
    }
}

fn seconds(arguments: &[&str]) -> Result<u64, String> {
    let text = match arguments {
        [] => return Ok(60),
        ["--secs", text] => text,
        ["--secs"] => return Err("--secs needs a number of seconds".into()),
        _ => return Err(format!("stress takes --secs N, not '{}'", arguments.join(" "))),
    };
    match text.parse() {
        Ok(seconds) if (1..=MAX_SECONDS).contains(&seconds) => Ok(seconds),
        _ => Err(format!("--secs {text} is not a whole number from 1 to {MAX_SECONDS}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_checked() {
        assert_eq!(seconds(&[]), Ok(60));
        assert_eq!(seconds(&["--secs", "5"]), Ok(5));
        for text in ["0", "-1", "1.5", "", "x", "86401", "99999999999999999999999"] {
            let message = seconds(&["--secs", text]).unwrap_err();
            assert!(message.contains(text) && message.contains("86400"), "{message}");
        }
        assert!(seconds(&["--secs"]).is_err());
        assert!(seconds(&["--second", "5"]).is_err());
        assert!(seconds(&["--secs", "5", "6"]).is_err());
    }
}
