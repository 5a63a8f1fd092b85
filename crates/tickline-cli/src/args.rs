//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};

/// Measures and explains the clocks of this machine.
///
/// Changes nothing on the machine and needs no privileges. Without a command it is `tickline doctor`.
#[derive(Debug, Parser)]
#[command(name = "tickline", version, max_term_width = 100, args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Exit codes:
  0  tickline reads the counter: fast and trusted
  1  tickline works, but a gate is closed and the OS clock serves
  2  an error: bad arguments, or output that could not be written

Environment:
  TICKLINE=off  do not use the counter (on: do, the default; anything else is ignored, and said)

Examples:
  tickline
  tickline doctor --json -
  tickline doctor --facts other-machine.json")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    doctor: Doctor,
}

impl Args {
    /// What to do; by default, the doctor's work.
    pub(crate) fn chosen(self) -> Command {
        self.command.unwrap_or(Command::Doctor(self.doctor))
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Doctor(Doctor),
    /// For the program itself: asks the clocks from this number on under a filter
    #[command(name = crate::measure::served::COMMAND, hide = true)]
    Served {
        from: usize,
    },
}

/// Explains this machine's clocks: what each costs, who serves it, what is wrong, and how to mend it (the default)
#[derive(Debug, clap::Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) json: Json,

    /// How long to watch the offset from CLOCK_MONOTONIC, s (1 to 3600)
    #[arg(long = "secs", value_name = "N", overrides_with = "time", default_value = "1", value_parser = seconds)]
    pub(crate) time: Duration,

    /// Measures nothing: diagnoses the machine whose facts are in FILE (`-`: standard input), as --json has written them
    /// there. Exits with 0 if nothing is wrong with that machine, else with 1
    #[arg(long, value_name = "FILE", conflicts_with = "time")]
    pub(crate) facts: Option<PathBuf>,
}

/// The option that every command has.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub(crate) struct Json {
    /// Writes everything as JSON to FILE (`-`: to standard output, instead of the text)
    #[arg(long = "json", value_name = "FILE", value_parser = json_target)]
    pub(crate) target: Option<JsonTarget>,
}

/// Where the JSON goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JsonTarget {
    Stdout,
    File(PathBuf),
}

fn json_target(value: &str) -> Result<JsonTarget, String> {
    match value {
        "" => Err("an empty name is neither a file nor -".to_owned()),
        "-" => Ok(JsonTarget::Stdout),
        name => Ok(JsonTarget::File(PathBuf::from(name))),
    }
}

fn seconds(value: &str) -> Result<Duration, String> {
    match value.parse::<u64>() {
        Ok(seconds @ 1..=3_600) => Ok(Duration::from_secs(seconds)),
        _ => Err(format!("{value} is not a whole number from 1 to 3600")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn doctor(arguments: &[&str]) -> Doctor {
        match Args::try_parse_from(arguments).unwrap().chosen() {
            Command::Doctor(doctor) => doctor,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Args::command().debug_assert();
    }

    #[test]
    fn bad_values_are_named_with_their_limits() {
        for value in ["0", "3601", "-1", "abc", "1.5", ""] {
            let error =
                Args::try_parse_from(["tickline", &format!("--secs={value}")]).unwrap_err().to_string();
            assert!(error.contains("1 to 3600") && error.contains(value), "{error}");
        }
    }

    #[test]
    fn an_empty_file_name_is_refused() {
        let error = Args::try_parse_from(["tickline", "--json="]).unwrap_err().to_string();
        assert!(error.contains("neither a file nor -"), "{error}");
    }

    #[test]
    fn the_doctor_comes_without_being_called() {
        for arguments in [
            &["tickline", "--json=a/b.json", "--secs", "7"][..],
            &["tickline", "doctor", "--json", "a/b.json", "--secs=7"],
        ] {
            let doctor = doctor(arguments);
            assert_eq!(doctor.json.target, Some(JsonTarget::File("a/b.json".into())));
            assert_eq!(doctor.time, Duration::from_secs(7));
        }
        assert_eq!(doctor(&["tickline", "--json", "-"]).json.target, Some(JsonTarget::Stdout));
    }
}
