//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

/// Measures the clocks of this machine, and what tickline makes of them.
///
/// Prints a verdict, the gates with their reasons, what each clock costs, and how far tickline is from CLOCK_MONOTONIC.
/// Changes nothing on the machine and needs no privileges.
#[derive(Debug, Parser)]
#[command(name = "tickline", version, max_term_width = 100)]
#[command(after_help = "\
Exit codes:
  0  tickline reads the counter: fast and trusted
  1  tickline works, but a gate is closed and the OS clock serves
  2  an error: bad arguments, or output that could not be written

Environment:
  TICKLINE=off  do not use the counter (on: do, the default; anything else is ignored, and said)

Examples:
  tickline
  tickline --json report.json
  tickline --secs 10 --json - | jq .verdict")]
pub(crate) struct Args {
    /// Writes everything as JSON to FILE (`-`: to standard output, instead of the text)
    #[arg(long, value_name = "FILE", value_parser = json_target)]
    pub(crate) json: Option<JsonTarget>,

    /// How long to watch the offset from CLOCK_MONOTONIC, s (1 to 3600)
    #[arg(long = "secs", value_name = "N", overrides_with = "time", default_value = "5", value_parser = seconds)]
    pub(crate) time: Duration,
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
    fn a_dash_means_standard_output() {
        let args = Args::try_parse_from(["tickline", "--json", "-"]).unwrap();
        assert_eq!(args.json, Some(JsonTarget::Stdout));
        let args = Args::try_parse_from(["tickline", "--json=a/b.json", "--secs", "7"]).unwrap();
        assert_eq!(args.json, Some(JsonTarget::File("a/b.json".into())));
        assert_eq!(args.time, Duration::from_secs(7));
    }
}
