//! Arguments and environment variables of the benchmark program. The [crate's
//! documentation](crate#environment) lists the variables.
//!
//! criterion refuses arguments that it does not know, and reads them itself. [`run`](crate::run)
//! therefore starts the program again without this crate's own, which then are in a variable. The
//! processes that a benchmark starts inherit the variable. The variable names the arguments of the
//! process that it is for, so that another benchmark program that inherits it ignores it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::iter::Peekable;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

pub(crate) mod criterion;
pub(crate) mod hints;
#[cfg(test)]
mod tests;

use self::criterion::CriterionArguments;

/// The environment variable, and its value, for `--include-disturbed`.
const VARIABLE: &str = "TICKLINE_CRITERION";
const INCLUDE_VALUE: &str = "include-disturbed";

/// The variable with what a process of this crate passes on to one that it starts:
/// [`PassedSettings`], as JSON.
const PASSED: &str = "TICKLINE_CRITERION_PASSED";

/// The variable whose length shifts the stack of a process.
const PADDING: &str = "TICKLINE_CRITERION_PADDING";

/// The smallest number of layouts, if builds have several: each is a replicate.
pub(crate) const MIN_LAYOUTS: usize = 6;

/// The smallest difference of two builds that counts, %. A smaller one can come from the addresses
/// of code that the interval does not have in it.
pub(crate) const MIN_BUILDS_PERCENT: f64 = 0.5;

/// The smallest difference from a stored run that counts, %. A smaller one may come from a change
/// of the core's frequency that is not noticed within a run ([`crate::pairs::system_facts`]).
pub(crate) const MIN_BASELINE_PERCENT: f64 = 2.0;

/// This crate's own options.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Options {
    /// All pairs count, including disturbed ones.
    pub(crate) include_disturbed: bool,
    /// The other build, which takes turns with this one; several if it has several layouts.
    pub(crate) against: Vec<PathBuf>,
    /// The other layouts of this build.
    pub(crate) layouts: Vec<PathBuf>,
    /// The program fails if a benchmark is slower by more than this.
    pub(crate) max_regression_percent: Option<f64>,
    /// A benchmark is undecided if its result is less certain than this.
    pub(crate) max_noise_percent: Option<f64>,
    /// The baseline becomes this run if all benchmarks pass.
    pub(crate) update_on_pass: bool,
    /// The file for the verdicts.
    pub(crate) verdicts: Option<PathBuf>,
}

/// One of this crate's own options.
#[derive(Debug)]
struct OwnOption {
    name: &'static str,
    /// Its value's name in the help, and what that should be; `None` if it takes no value.
    value: Option<(&'static str, &'static str)>,
    /// What it does, for the help.
    purpose: &'static str,
    /// Stores it in the options, with its value, which is empty if it takes none.
    store: fn(&mut Options, &Self, OsString) -> Result<(), String>,
}

/// This crate's own options, in the order of the help.
static OWN: [OwnOption; 7] = [
    OwnOption {
        name: "--include-disturbed",
        value: None,
        purpose: "Count disturbed pairs, and subtract no lost time",
        store: |options, _, _| {
            options.include_disturbed = true;
            Ok(())
        },
    },
    OwnOption {
        name: "--against",
        value: Some(("<PROGRAM>", "the path of a program")),
        purpose: "Compare with this other build, in turns",
        store: |options, own, value| own.path(value).map(|path| options.against.push(path)),
    },
    OwnOption {
        name: "--layout",
        value: Some(("<PROGRAM>", "the path of a program")),
        purpose: "Another layout of this build: one --against for each",
        store: |options, own, value| own.path(value).map(|path| options.layouts.push(path)),
    },
    OwnOption {
        name: "--max-regression",
        value: Some(("<PERCENT>", "a percentage such as 3%")),
        purpose: "Exit code 1 if a benchmark is slower by more (at least 0.5 %; 2 % with a baseline)",
        store: |options, own, value| {
            options.max_regression_percent = Some(own.percent(&value)?);
            Ok(())
        },
    },
    OwnOption {
        name: "--max-noise",
        value: Some(("<PERCENT>", "a percentage such as 2%")),
        purpose: "Exit code 3 if a result is less certain",
        store: |options, own, value| {
            options.max_noise_percent = Some(own.percent(&value)?);
            Ok(())
        },
    },
    OwnOption {
        name: "--update-on-pass",
        value: None,
        purpose: "Make this run the baseline of --baseline if all pass",
        store: |options, _, _| {
            options.update_on_pass = true;
            Ok(())
        },
    },
    OwnOption {
        name: "--verdicts",
        value: Some(("<FILE>", "the path of a file")),
        purpose: "Write the verdicts to this file, as JSON",
        store: |options, own, value| own.path(value).map(|path| options.verdicts = Some(path)),
    },
];

impl OwnOption {
    fn what(&self) -> &'static str {
        self.value.map_or("", |(_, what)| what)
    }

    /// The error of a value that is not what it should be.
    fn wrong(&self, value: &OsStr, limit: &str) -> String {
        let (name, what) = (self.name, self.what());
        format!("{name}: {} is not {what}{limit}", value.display())
    }

    /// The error of a value that is not there.
    fn missing(&self) -> String {
        format!("{} needs {}", self.name, self.what())
    }

    /// The value as a percentage that is not negative: `3%` or `3`.
    fn percent(&self, value: &OsStr) -> Result<f64, String> {
        percent(value).ok_or_else(|| self.wrong(value, ""))
    }

    /// The value as a path. It is passed on as JSON, which has only UTF-8.
    fn path(&self, value: OsString) -> Result<PathBuf, String> {
        match value.to_str() {
            Some("") => Err(self.missing()),
            Some(_) => Ok(value.into()),
            None => Err(self.wrong(&value, " in UTF-8")),
        }
    }
}

/// An argument that is one of this crate's own options.
#[derive(Debug, Clone, Copy)]
struct GivenOption<'a> {
    option: &'static OwnOption,
    /// The value after its `=`, which may be no text.
    joined: Option<&'a [u8]>,
}

impl<'a> GivenOption<'a> {
    /// `None` if the argument is none of these options.
    fn read(argument: &'a OsStr) -> Option<Self> {
        let bytes = argument.as_encoded_bytes();
        let mut parts = bytes.splitn(2, |byte| *byte == b'=');
        let (name, joined) = (parts.next()?, parts.next());
        let option = OWN.iter().find(|own| own.name.as_bytes() == name)?;
        Some(Self { option, joined })
    }

    /// Stores it in the options, with its value, which may be the next of the arguments.
    fn store(
        self,
        options: &mut Options,
        arguments: &mut Peekable<impl Iterator<Item = OsString>>,
    ) -> Result<(), String> {
        let value = self.value(arguments)?;
        (self.option.store)(options, self.option, value)
    }

    /// The value: what is after its `=`, or else the next of the arguments. Empty if it takes none.
    fn value(
        self,
        arguments: &mut Peekable<impl Iterator<Item = OsString>>,
    ) -> Result<OsString, String> {
        let name = self.option.name;
        match (self.option.value, self.joined) {
            (None, None) => Ok(OsString::new()),
            (None, Some(joined)) => {
                let shown = String::from_utf8_lossy(joined);
                Err(format!("{name} takes no value: leave ={shown} out"))
            }
            (Some(_), Some(joined)) => match str::from_utf8(joined) {
                Ok(text) => Ok(text.into()),
                Err(_) => {
                    let shown = OsString::from(String::from_utf8_lossy(joined).into_owned());
                    Err(self.option.wrong(&shown, " in UTF-8"))
                }
            },
            (Some(_), None) => {
                let is_option = |next: &OsString| next.as_encoded_bytes().starts_with(b"--");
                if let Some(next) = arguments.peek().filter(|next| is_option(next)) {
                    // It stands where the value should be, as after an empty variable of a shell.
                    let missing = self.option.missing();
                    return Err(format!("{missing}; {} follows it", next.display()));
                }
                arguments.next().ok_or_else(|| self.option.missing())
            }
        }
    }
}

/// The own option that the user means by an argument such as `--agianst`: criterion would refuse it
/// without its name. None of criterion's options is as near to one of these.
fn meant_option(argument: &OsStr) -> Option<&'static str> {
    /// Letters that are inserted, removed or replaced: two in the wrong order are two changes.
    const MAX_CHANGES: usize = 2;
    let name = argument.to_str()?.split('=').next()?;
    if !name.starts_with("--") {
        return None;
    }
    let mut names = OWN.iter().map(|own| own.name);
    names.find(|own| strsim::levenshtein(name, own) <= MAX_CHANGES)
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
        let mut arguments = arguments.into_iter().peekable();
        while let Some(argument) = arguments.next() {
            let Some(given) = GivenOption::read(&argument) else {
                if let Some(meant) = meant_option(&argument) {
                    return Err(format!(
                        "there is no option {}; did you mean {meant}?",
                        argument.display()
                    ));
                }
                others.push(argument);
                continue;
            };
            given.store(&mut options, &mut arguments)?;
        }
        options.check(&others)?;
        Ok((options, others))
    }

    /// Whether there is a limit for the benchmarks.
    pub(crate) const fn have_limits(&self) -> bool {
        self.max_regression_percent.is_some() || self.max_noise_percent.is_some()
    }

    /// Whether the options fit each other and criterion's.
    fn check(&self, others: &[OsString]) -> Result<(), String> {
        let compares = CriterionArguments::of(others).compares();
        if self.update_on_pass && !compares {
            return Err(
                "--update-on-pass needs --baseline NAME, the baseline to update".to_owned(),
            );
        }
        if self.update_on_pass && self.max_regression_percent.is_none() {
            return Err(
                "--update-on-pass needs --max-regression, such as 10%: without it a slower run passes, and would \
                 become the baseline"
                    .to_owned(),
            );
        }
        let has_layouts = self.against.len() > 1 || !self.layouts.is_empty();
        let ours = self.layouts.len() + 1;
        if has_layouts && (self.against.len() != ours || ours < MIN_LAYOUTS) {
            return Err(format!(
                "{MIN_LAYOUTS} or more layouts are needed, with one --against each, and one --layout \
                 each except this program's; got {} --against and {} --layout",
                self.against.len(),
                self.layouts.len()
            ));
        }
        if self.have_limits() && self.against.is_empty() && !compares {
            return Err(
                "--max-regression and --max-noise need --against PROGRAM or --baseline NAME"
                    .to_owned(),
            );
        }
        self.check_max_regression(compares)
    }

    /// Whether the limit is as large as a difference that counts: with a smaller limit, a benchmark
    /// of which a line says that no difference was found might not pass.
    fn check_max_regression(&self, has_baseline: bool) -> Result<(), String> {
        let (least, from) = if has_baseline {
            (MIN_BASELINE_PERCENT, "a stored run")
        } else {
            (MIN_BUILDS_PERCENT, "the other build")
        };
        match self.max_regression_percent {
            Some(limit) if limit < least => Err(format!(
                "--max-regression {limit}% is too small: a difference from {from} counts from {least} % on; give \
                 {least}% or more"
            )),
            _ => Ok(()),
        }
    }

    /// Whether criterion measures, if an option needs that.
    ///
    /// # Errors
    ///
    /// If it does not. The text says which argument is missing, or one too many.
    pub(crate) fn check_that_criterion_measures(&self, others: &[OsString]) -> Result<(), String> {
        let needing = if !self.against.is_empty() {
            "--against"
        } else if self.max_regression_percent.is_some() {
            "--max-regression"
        } else if self.max_noise_percent.is_some() {
            "--max-noise"
        } else {
            return Ok(());
        };
        match CriterionArguments::of(others).why_nothing_is_measured() {
            Some(why) => Err(format!("{needing} compares nothing: {why}")),
            None => Ok(()),
        }
    }

    /// The arguments for criterion: the others; in turns with another build, also one that turns
    /// criterion's own comparison off. Without that one, criterion compares with this folder's last
    /// run, of whatever build, and prints that beside the result of the turns.
    pub(crate) fn for_criterion(&self, others: Vec<OsString>) -> Vec<OsString> {
        if self.against.is_empty() {
            others
        } else {
            criterion::comparing_with_no_run(others)
        }
    }

    /// The options that the process with the arguments has passed on.
    pub(crate) fn of_this_process() -> &'static Self {
        &PassedSettings::of_this_process().options
    }

    /// Passes the options on to a process, whose arguments `command` already has.
    pub(crate) fn pass_on(&self, command: &mut Command) -> Result<(), String> {
        let passed = PassedSettings {
            options: self.clone(),
            is_again: true,
            ..PassedSettings::default()
        };
        passed.on(command).map_err(|error| error.to_string())
    }
}

/// The lines about this crate's own options below criterion's help.
pub(crate) fn own_help() -> String {
    let line = |own: &OwnOption| {
        let value = own.value.map_or("", |(name, _)| name);
        let left = format!("{} {value}", own.name);
        format!("  {left:<28}  {}\n", own.purpose)
    };
    let lines: String = OWN.iter().map(line).collect();
    format!("\nOptions of tickline-criterion, which take effect with --bench:\n{lines}")
}

/// Whether [`run`](crate::run) has started this process in place of its own.
pub(crate) fn is_again() -> bool {
    PassedSettings::of_this_process().is_again
}

/// What a process of this crate gets from the one that has started it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct PassedSettings {
    /// The arguments of the process that all this is for.
    arguments: Vec<String>,
    role: Role,
    /// Whether this is the program that the user has started, started again.
    #[serde(default)]
    is_again: bool,
    options: Options,
    /// The duration of the counter's tick, ns. Without it, the OS clock measures.
    ns_per_tick: Option<f64>,
}

impl PassedSettings {
    fn of_this_process() -> &'static Self {
        static OWN: OnceLock<PassedSettings> = OnceLock::new();
        OWN.get_or_init(|| {
            let text = env::var(PASSED).unwrap_or_default();
            Self::read(&text, texts(env::args_os().skip(1)))
        })
    }

    /// What the text says, if it is for a process with these arguments.
    fn read(text: &str, arguments: Vec<String>) -> Self {
        let passed: Option<Self> = serde_json::from_str(text).ok();
        passed
            .filter(|passed| passed.arguments == arguments)
            .unwrap_or_default()
    }

    /// Passes this on to the process of `command`.
    fn on(mut self, command: &mut Command) -> serde_json::Result<()> {
        self.arguments = texts(command.get_args());
        command.env(PASSED, serde_json::to_string(&self)?);
        Ok(())
    }
}

fn texts(arguments: impl IntoIterator<Item: AsRef<OsStr>>) -> Vec<String> {
    arguments
        .into_iter()
        .map(|argument| argument.as_ref().to_string_lossy().into_owned())
        .collect()
}

/// The path of this process's program, which is to be started again.
pub(crate) fn this_program() -> Result<PathBuf, String> {
    env::current_exe().map_err(|error| format!("this program's path is unknown: {error}"))
}

/// This crate's own option among the arguments of this process, if cargo has started it to measure.
pub(crate) fn own_argument() -> Option<&'static str> {
    own_among(&env::args_os().skip(1).collect::<Vec<_>>())
}

/// This crate's own option among the arguments. Without cargo's `--bench` there is none: a program
/// with a command line of its own may have an option of the same name.
fn own_among(arguments: &[OsString]) -> Option<&'static str> {
    arguments.iter().find(|argument| *argument == "--bench")?;
    arguments
        .iter()
        .find_map(|argument| Some(GivenOption::read(argument)?.option.name))
}

/// The file for the verdicts, also if other arguments are wrong. A path that is refused is none.
pub(crate) fn verdicts(arguments: impl IntoIterator<Item = OsString>) -> Option<PathBuf> {
    let mut options = Options::default();
    let mut arguments = arguments.into_iter().peekable();
    while let Some(argument) = arguments.next() {
        if let Some(given) = GivenOption::read(&argument) {
            // A wrong value is an error of `Options::take`.
            _ = given.store(&mut options, &mut arguments);
        }
    }
    options.verdicts
}

/// The role of this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Role {
    /// Runs its benchmarks, as usual.
    #[default]
    Measure,
    /// Only lists its benchmarks.
    List,
    /// Takes slices of one benchmark on request.
    Serve,
}

pub(crate) fn role() -> Role {
    PassedSettings::of_this_process().role
}

/// Prepares a process with this role, whose arguments `command` already has, and whose standard
/// output this process reads.
pub(crate) fn prepare(command: &mut Command, role: Role) -> serde_json::Result<&mut Command> {
    prepare_with(command, role, None)
}

fn prepare_with(
    command: &mut Command,
    role: Role,
    ns_per_tick: Option<f64>,
) -> serde_json::Result<&mut Command> {
    let options = Options {
        include_disturbed: Options::of_this_process().include_disturbed,
        ..Options::default()
    };
    let passed = PassedSettings {
        role,
        options,
        ns_per_tick,
        ..PassedSettings::default()
    };
    passed.on(command)?;
    Ok(command.stdout(Stdio::piped()).stderr(Stdio::null()))
}

/// Prepares a process that serves: with the duration of the counter's tick if the counter measures,
/// and with a variable that shifts its stack.
pub(crate) fn prepare_serving(
    command: &mut Command,
    ns_per_tick: Option<f64>,
    padding: String,
) -> serde_json::Result<&mut Command> {
    let command = prepare_with(command, Role::Serve, ns_per_tick)?;
    Ok(command.env(PADDING, padding).stdin(Stdio::piped()))
}

/// The duration of the counter's tick for a process that serves, ns. `None` if the OS clock
/// measures.
pub(crate) fn counter_ns_per_tick() -> Option<f64> {
    PassedSettings::of_this_process().ns_per_tick
}

/// Whether all pairs count, including disturbed ones.
pub(crate) fn includes_disturbed() -> bool {
    env::var_os(VARIABLE).is_some_and(|value| value == INCLUDE_VALUE)
        || Options::of_this_process().include_disturbed
}
