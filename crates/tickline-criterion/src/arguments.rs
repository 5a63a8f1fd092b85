//! Arguments and environment variables of the benchmark program.
//!
//! criterion refuses arguments that it does not know, and reads them itself. [`run`](crate::run)
//! therefore starts the program again without this crate's own, which then are in a variable.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

/// The environment variable, and its value, for `--include-disturbed`.
const VARIABLE: &str = "TICKLINE_CRITERION";
const INCLUDE_VALUE: &str = "include-disturbed";

/// The variable with this crate's own options, as JSON.
const OPTIONS: &str = "TICKLINE_CRITERION_OPTIONS";

/// The variable with the role of a process that this crate starts.
const ROLE: &str = "TICKLINE_CRITERION_ROLE";

/// The variable with the duration of the counter's tick, ns. Without it, the OS clock measures.
const NS_PER_TICK: &str = "TICKLINE_CRITERION_NS_PER_TICK";

/// The variable whose length shifts the stack of a process.
const PADDING: &str = "TICKLINE_CRITERION_PADDING";

/// The smallest number of orders in which builds are linked: each is a replicate.
pub(crate) const MIN_ORDERS: usize = 6;

/// This crate's own options.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Options {
    /// All pairs count, including disturbed ones.
    pub(crate) include_disturbed: bool,
    /// The other build, which takes turns with this one; several if it was linked in several orders.
    pub(crate) against: Vec<PathBuf>,
    /// This build, linked in other orders.
    pub(crate) layouts: Vec<PathBuf>,
    /// The program fails if a benchmark is slower by more than this.
    pub(crate) max_regression_percent: Option<f64>,
    /// The program can't tell if the result of a benchmark is less certain than this.
    pub(crate) max_noise_percent: Option<f64>,
    /// The baseline becomes this run if all benchmarks pass.
    pub(crate) update_on_pass: bool,
    /// The file for the verdicts.
    pub(crate) verdicts: Option<PathBuf>,
}

/// This crate's own options, each with what its value is.
const OWN: [(&str, Option<&str>); 7] = [
    ("--include-disturbed", None),
    ("--against", Some("the path of a program")),
    ("--layout", Some("the path of a program")),
    ("--max-regression", Some("a percentage such as 3%")),
    ("--max-noise", Some("a percentage such as 2%")),
    ("--update-on-pass", None),
    ("--verdicts", Some("the path of a file")),
];

/// The option of this crate that the argument is, and its value after `=`.
fn own_option(argument: &OsStr) -> Option<(&'static str, Option<&'static str>, Option<&str>)> {
    let text = argument.to_str()?;
    let (name, joined) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (text, None),
    };
    let (own, value) = OWN.into_iter().find(|(own, _)| *own == name)?;
    Some((own, value, joined))
}

/// A percentage that is not negative: `3%` or `3`.
fn percent(text: &OsStr) -> Option<f64> {
    let text = text.to_str()?;
    let number: f64 = text.strip_suffix('%').unwrap_or(text).trim().parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number)
}

impl Options {
    /// Takes this crate's own options out of `arguments`; the others are criterion's.
    pub(crate) fn take(
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<(Self, Vec<OsString>), String> {
        let (mut options, mut others) = (Self::default(), Vec::new());
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let Some((name, needs, joined)) = own_option(&argument) else {
                others.push(argument);
                continue;
            };
            let value = match (needs, joined) {
                (None, None) => OsString::new(),
                (None, Some(_)) => return Err(format!("{name} takes no value")),
                (Some(_), Some(joined)) => joined.into(),
                (Some(needs), None) => arguments
                    .next()
                    .ok_or_else(|| format!("{name} needs {needs}"))?,
            };
            let percent = || {
                percent(&value).ok_or_else(|| {
                    let needs = needs.unwrap_or_default();
                    format!("{name}: {} is not {needs}", value.display())
                })
            };
            match name {
                "--include-disturbed" => options.include_disturbed = true,
                "--against" => options.against.push(PathBuf::from(&value)),
                "--layout" => options.layouts.push(PathBuf::from(&value)),
                "--max-regression" => options.max_regression_percent = Some(percent()?),
                "--max-noise" => options.max_noise_percent = Some(percent()?),
                "--update-on-pass" => options.update_on_pass = true,
                _ => options.verdicts = Some(PathBuf::from(&value)),
            }
        }
        options.check(&others)?;
        Ok((options, others))
    }

    /// Whether the options fit each other and criterion's.
    fn check(&self, others: &[OsString]) -> Result<(), String> {
        let compares = option_value(others.iter().cloned(), &BASELINE).is_some();
        if self.update_on_pass && !compares {
            return Err(
                "--update-on-pass needs --baseline NAME, the baseline to update".to_owned(),
            );
        }
        let has_layouts = self.against.len() > 1 || !self.layouts.is_empty();
        let ours = self.layouts.len() + 1;
        if has_layouts && (self.against.len() != ours || ours < MIN_ORDERS) {
            return Err(format!(
                "{} programs of --against and {} of --layout: {MIN_ORDERS} or more orders of linking need one \
                 --against each, and one --layout each but the first, which is this program",
                self.against.len(),
                self.layouts.len()
            ));
        }
        let limits = self.max_regression_percent.is_some() || self.max_noise_percent.is_some();
        if limits && self.against.is_empty() && !compares {
            return Err(
                "--max-regression and --max-noise need --against PROGRAM or --baseline NAME"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// The options that the process with the arguments has passed on.
    pub(crate) fn of_this_process() -> Self {
        let text = env::var(OPTIONS).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Passes the options on to a process.
    pub(crate) fn pass_on(&self, command: &mut Command) -> Result<(), String> {
        let text = serde_json::to_string(self).map_err(|error| error.to_string())?;
        command.env(OPTIONS, text);
        Ok(())
    }
}

/// This crate's own option among the arguments of this process, if there is one.
pub(crate) fn own_argument() -> Option<&'static str> {
    env::args_os()
        .skip(1)
        .find_map(|argument| Some(own_option(&argument)?.0))
}

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
        .env_remove(NS_PER_TICK)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
}

/// Prepares a process that serves: with the duration of the counter's tick if the counter measures,
/// and with a variable that shifts its stack.
pub(crate) fn prepare_serving(
    command: &mut Command,
    ns_per_tick: Option<f64>,
    padding: String,
) -> &mut Command {
    prepare(command, Role::Serve).env(PADDING, padding);
    if let Some(ns_per_tick) = ns_per_tick {
        command.env(NS_PER_TICK, ns_per_tick.to_string());
    }
    command.stdin(Stdio::piped())
}

/// The duration of the counter's tick for a process that serves, ns. `None` if the OS clock
/// measures.
pub(crate) fn counter_ns_per_tick() -> Option<f64> {
    env::var(NS_PER_TICK).ok()?.parse().ok()
}

/// criterion's options for a comparison with a baseline.
const BASELINE: [&str; 3] = ["--baseline", "--baseline-lenient", "-b"];

/// The name of the baseline with which criterion compares this run.
pub(crate) fn baseline() -> Option<String> {
    option_value(env::args_os(), &BASELINE)
}

/// Whether criterion measures benchmarks that the baseline lacks.
pub(crate) fn allows_missing_baseline() -> bool {
    has(&["--baseline-lenient"])
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

/// Whether all pairs count, including disturbed ones.
pub(crate) fn includes_disturbed() -> bool {
    env::var_os(VARIABLE).is_some_and(|value| value == INCLUDE_VALUE)
        || Options::of_this_process().include_disturbed
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

    fn take(line: &str) -> Result<(Options, Vec<OsString>), String> {
        Options::take(line.split(' ').map(OsString::from))
    }

    #[test]
    fn own_options_are_taken_out_and_the_others_are_criterions() {
        let (options, others) = take(
            "--bench --against a/b work --max-regression=3% --max-noise 2 --baseline main --update-on-pass \
             --verdicts=out.json --include-disturbed --noplot",
        )
        .expect("right");
        let expected = Options {
            include_disturbed: true,
            against: vec!["a/b".into()],
            layouts: Vec::new(),
            max_regression_percent: Some(3.0),
            max_noise_percent: Some(2.0),
            update_on_pass: true,
            verdicts: Some("out.json".into()),
        };
        assert_eq!(options, expected);
        assert_eq!(
            others,
            ["--bench", "work", "--baseline", "main", "--noplot"]
        );
    }

    #[test]
    fn each_order_of_linking_needs_a_program_of_both_builds() {
        let line = |against: usize, layouts: usize| {
            let own = "--against x ".repeat(against) + &"--layout y ".repeat(layouts);
            take(own.trim())
        };
        for (against, layouts) in [(6, 5), (9, 8), (1, 0)] {
            let (options, _) = line(against, layouts).expect("as many of both");
            assert_eq!(
                (options.against.len(), options.layouts.len()),
                (against, layouts)
            );
        }
        for (against, layouts) in [(6, 4), (5, 4), (2, 0), (1, 1), (1, 5)] {
            let error = line(against, layouts).expect_err("not as many, or too few");
            assert!(error.contains("6 or more orders of linking"), "{error}");
        }
    }

    #[test]
    fn an_unknown_argument_is_left_to_criterion() {
        let (options, others) = take("--bogus --againstx=y").expect("criterion's");
        assert_eq!(options, Options::default());
        assert_eq!(others, ["--bogus", "--againstx=y"]);
    }

    #[test]
    fn a_wrong_value_is_named_with_what_it_should_be() {
        for (line, error) in [
            ("--against", "--against needs the path of a program"),
            (
                "--against x --max-regression=much",
                "--max-regression: much is not a percentage such as 3%",
            ),
            (
                "--against x --max-noise -2%",
                "--max-noise: -2% is not a percentage such as 2%",
            ),
            ("--update-on-pass=yes", "--update-on-pass takes no value"),
            (
                "--update-on-pass",
                "--update-on-pass needs --baseline NAME, the baseline to update",
            ),
            (
                "--max-noise 2%",
                "--max-regression and --max-noise need --against PROGRAM or --baseline NAME",
            ),
        ] {
            assert_eq!(take(line), Err(error.to_owned()), "{line}");
        }
    }
}
