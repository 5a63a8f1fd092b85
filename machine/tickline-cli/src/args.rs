//! The command line.

pub(crate) mod help;
mod values;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::cpu_list;
use crate::measure::warp::Pattern;
use crate::screen::columns;

use values::{
    finding_code, interval, percent, process_id, span, span_ns, up_to_a_year, up_to_an_hour, whole,
};

/// Measures and explains the clocks of this machine.
///
/// Without a command it runs `tickline doctor`. Only `doctor --fix` changes a setting of the
/// machine: it switches the clocksource. Only `doctor --fix`, `who` and the machine's page of
/// `serve` need root.
#[derive(Debug, Parser)]
#[command(name = "tickline", version = env!("TICKLINE_VERSION"))]
#[command(term_width = columns().clamp(20, help::COLUMNS), args_conflicts_with_subcommands = true)]
#[command(after_help = help::SHORT_OF_PROGRAM, after_long_help = help::text(help::PROGRAM))]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    #[command(flatten)]
    pub(crate) doctor: Doctor,
}

impl Args {
    /// The parser for the command line, with the sections of each command's help. The short help of
    /// the program is the list of its commands: the options of the default command are in the short
    /// help of `doctor`.
    pub(crate) fn parser() -> clap::Command {
        let mut program = Self::command().mut_args(|arg| arg.hide_short_help(true));
        for (name, sections) in help::COMMANDS {
            program = program.mut_subcommand(name, |command| {
                command.after_long_help(help::text(sections))
            });
        }
        program
    }

    /// The arguments of this process.
    pub(crate) fn try_of_process() -> Result<Self, clap::Error> {
        let first = std::env::args_os().nth(1).unwrap_or_default();
        let matches = Self::parser().try_get_matches();
        let matches = matches.map_err(|error| with_advice(error, &first))?;
        Self::from_arg_matches(&matches)
    }
}

/// The error, with advice in place of clap's for what users guess. `first` is the first argument:
/// the command, if there is one.
fn with_advice(mut error: clap::Error, first: &OsStr) -> clap::Error {
    let is_serve = first == "serve";
    let advice = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(option)) => match option.as_str() {
            "--sec" | "--secs" | "--second" | "--seconds" => {
                "doctor, watch, report and who take a span of time with its unit: --duration 5s"
            }
            "--wait" => "`tickline wait` is a command",
            "--json" if is_serve => "it is for status: tickline serve status --json FILE",
            "--openmetrics" if is_serve => {
                "it is for status: tickline serve status --openmetrics FILE"
            }
            _ => return error,
        },
        _ if is_serve && error.kind() == ErrorKind::InvalidSubcommand => {
            "the actions are status, off and on"
        }
        _ => return error,
    };
    error.remove(ContextKind::SuggestedArg);
    error.remove(ContextKind::SuggestedSubcommand);
    let advice = ContextValue::StyledStrs(vec![advice.into()]);
    error.insert(ContextKind::Suggested, advice);
    error
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Doctor(Doctor),
    Wait(Wait),
    Bench(Bench),
    Warp(Warp),
    Watch(Watch),
    Report(Report),
    Who(Who),
    Serve(Serve),
    Run(Run),
    Explain(Explain),
    Compare(Compare),
    Flight(Flight),
    Completions(Completions),
    Man(Man),
}

/// Explains the clocks, their faults and fixes (the default)
///
/// It says what each clock of this machine costs, who answers it, what is wrong, and how to fix it.
#[derive(Debug, clap::Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) json: Json,

    /// Prints one line, as a monitoring plugin does
    ///
    /// The line has performance data. The exit code is 0 for ok, 1 for slow or not known to be
    /// right, 2 for wrong, and 3 for unknown.
    #[arg(long)]
    pub(crate) check: bool,

    /// With --check: findings that do not count
    ///
    /// CODES are the codes of findings that you know and want to keep, such as
    /// tsc_not_chosen,ntp_unsynchronised. The line marks them as accepted, and they do not change
    /// the status and the exit code. `tickline explain` lists the codes.
    #[arg(long, value_name = "CODES", requires = "check", value_delimiter = ',', value_parser = finding_code)]
    pub(crate) accept: Vec<String>,

    /// Largest acceptable error of Unix time, such as 100ms
    ///
    /// If the known offset is larger, the first line says WRONG. If the NTP daemon claims a larger
    /// error, or states no error, the line says NOT KNOWN RIGHT. The default is 128ms for the
    /// offset, and 2s for the claim.
    #[arg(long = "max-error", value_name = "TIME", allow_hyphen_values = true, value_parser = span_ns)]
    pub(crate) max_error_ns: Option<i64>,

    /// How long to watch the offset, 1s to 1h
    ///
    /// The offset is that of tickline's clock from CLOCK_MONOTONIC.
    #[arg(long, value_name = "TIME", overrides_with = "duration", default_value = "1s", allow_hyphen_values = true, value_parser = up_to_an_hour)]
    pub(crate) duration: Duration,

    /// Writes the main figures to FILE as OpenMetrics
    ///
    /// `-` is standard output, and the figures then take the place of the text. node_exporter's
    /// textfile collector reads such a file.
    #[arg(long, value_name = "FILE")]
    pub(crate) openmetrics: Option<PathBuf>,

    /// Diagnoses another machine by its --json FILE
    ///
    /// `-` is standard input. The program measures nothing. It exits with 0 if it finds nothing
    /// slow or wrong on that machine, else with 1.
    #[arg(long, value_name = "FILE", conflicts_with = "duration")]
    pub(crate) facts: Option<PathBuf>,

    /// Switches the clocksource if that fixes a finding
    ///
    /// After the diagnosis, it shows the steps of the switch, and those that undo it.
    /// If the new clocksource is tsc, it compares the CPUs' counters. Then it asks. Needs root.
    /// Where no switch fixes a finding, it changes nothing, and shows the steps of all findings.
    #[arg(long, conflicts_with_all = ["facts", "check"])]
    pub(crate) fix: bool,

    /// With --fix: does not ask
    #[arg(long, requires = "fix")]
    pub(crate) yes: bool,
}

/// Waits until Unix time is near to UTC
///
/// Put it before a program that must not start with a wrong clock. The command measures nothing,
/// and asks once a second. It says on standard error what it waits for. At the end it prints one
/// line on standard output.
#[derive(Debug, clap::Args)]
pub(crate) struct Wait {
    /// Largest acceptable error of Unix time, such as 250ms
    #[arg(long = "max-error", value_name = "TIME", allow_hyphen_values = true, value_parser = span_ns)]
    pub(crate) max_error_ns: i64,

    /// Gives up after TIME, such as 10s or 5m
    #[arg(long, value_name = "TIME", default_value = "60s", allow_hyphen_values = true, value_parser = span)]
    pub(crate) timeout: Duration,
}

/// Measures for some seconds, and writes a report as HTML
///
/// The report has health, findings, costs, offset, facts, and the data itself. It is one file that
/// loads nothing from elsewhere. It contains facts of the machine, such as the kernel's command
/// line and its messages about clocks: read it before you share it.
#[derive(Debug, clap::Args)]
pub(crate) struct Report {
    #[command(flatten)]
    pub(crate) json: Json,

    /// How long to watch the offset, 1s to 1h
    ///
    /// The offset is that of tickline's clock from CLOCK_MONOTONIC.
    #[arg(long, value_name = "TIME", overrides_with = "duration", default_value = "10s", allow_hyphen_values = true, value_parser = up_to_an_hour)]
    pub(crate) duration: Duration,

    /// Writes the report to FILE (`-`: standard output)
    ///
    /// Without this option the report goes to standard output, unless that is a terminal.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// Explains a finding by its code, such as tsc_skew
///
/// It also explains the states, events, gates and reasons that other commands show, and the phases
/// of a page. Without a code, it lists the codes of findings.
#[derive(Debug, clap::Args)]
pub(crate) struct Explain {
    /// The code of a finding, which the doctor prints in brackets behind it; or of a state, an event,
    /// a gate, a reason or a phase of a page
    pub(crate) code: Option<String>,

    /// Lists the codes of all findings, each with a sentence about it
    #[arg(long, conflicts_with = "code")]
    pub(crate) all: bool,
}

/// Runs a program with the clock of `tickline serve` (Linux x86_64)
///
/// The program, and the dynamic programs that it starts, get their time from the served page
/// instead of by slow system calls. The program is not changed, and need not be linked with a
/// library. Its exit code, its signals and its process number are its own. Where the kernel's clock
/// is fast, or where no page is served, the program runs as if it had been started without this
/// command.
#[derive(Debug, Parser)]
pub(crate) struct Run {
    /// The page's file
    ///
    /// The default is $TICKLINE_PAGE. Without it: of /run/tickline/page.v1 and
    /// $XDG_RUNTIME_DIR/tickline/page.v1, the first that serves a line, or else has a server, or
    /// else exists.
    #[arg(long, value_name = "FILE")]
    pub(crate) page: Option<PathBuf>,

    /// The file of libtickline_preload.so
    ///
    /// The default is the first in the folder of this program, in ../lib beside it, in
    /// /usr/local/lib, /usr/lib, /usr/lib64 or /usr/lib/x86_64-linux-gnu that is of this version,
    /// and that only root or this user may write to, as to its folder. In a clone, `cargo build
    /// --profile preload -p tickline-preload` makes it in target/preload.
    #[arg(long, value_name = "FILE")]
    pub(crate) library: Option<PathBuf>,

    /// Uses the page even where the kernel's clock is fast
    ///
    /// It is fast where reading it needs no system call.
    #[arg(long)]
    pub(crate) always: bool,

    /// Prints nothing of its own on standard error
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// The program, and its arguments, whatever they are
    #[arg(value_names = ["CMD", "ARGS"], required = true, num_args = 1.., trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,
}

/// Prints a shell's completions for this program
#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Prints the manual of this program, or of a command
///
/// The format is roff.
#[derive(Debug, clap::Args)]
pub(crate) struct Man {
    /// The command; without one, the program
    pub(crate) command: Option<String>,
}

/// Measures what the clocks cost
///
/// It shows the fastest, median and slow rounds of each clock, and a long run of the kernel's
/// clocks.
#[derive(Debug, clap::Args)]
pub(crate) struct Bench {
    #[command(flatten)]
    pub(crate) json: Json,

    /// Rounds over all clocks, 1 to 100000
    ///
    /// In each round every clock is called for 0.1 ms.
    #[arg(long, value_name = "N", default_value = "200", value_parser = |value: &str| whole(value, 100_000))]
    pub(crate) rounds: u32,

    /// Calls of each clock in the long run
    ///
    /// From 1 to 1000000000.
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = |value: &str| whole(value, 1_000_000_000))]
    pub(crate) calls: u32,
}

/// Compares the counters of the CPUs
///
/// For each pair of CPUs it finds the backward steps (warps), and bounds for the difference between
/// the two counters.
#[derive(Debug, clap::Args)]
pub(crate) struct Warp {
    #[command(flatten)]
    pub(crate) json: Json,

    /// The CPUs to compare, such as 0-3,8
    ///
    /// By default, all on which this process may run.
    #[arg(long, value_name = "LIST", value_parser = cpu_list::parse)]
    pub(crate) cpus: Option<BTreeSet<u32>>,

    /// Which pairs to compare
    ///
    /// By default, all for up to 64 CPUs, and star for more.
    #[arg(long, value_name = "WHICH")]
    pub(crate) pairs: Option<Pattern>,
}

/// Shows the clock live: offset, bound, skew, state, events
///
/// It prints a line for each sample, until Ctrl-C, and a summary at the end. On a terminal the line
/// has a plot, and the columns that fit; a line below the third sample under each heading has the
/// other figures, such as the offset of each CPU. Elsewhere it prints plain rows with all columns.
///
/// The offset of a sample is known to within the bracket: half the time between two reads of
/// CLOCK_MONOTONIC. So a bound counts as violated only if CLOCK_MONOTONIC lies beyond it by more
/// than the bracket.
#[derive(Debug, clap::Args)]
pub(crate) struct Watch {
    #[command(flatten)]
    pub(crate) json: Json,

    /// How long to watch, 1s to 8760h
    ///
    /// By default, until it is stopped.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = up_to_a_year)]
    pub(crate) duration: Option<Duration>,

    /// Time between two samples, 50ms to 1h
    #[arg(long, value_name = "TIME", default_value = "1s", allow_hyphen_values = true, value_parser = interval)]
    pub(crate) interval: Duration,

    /// Writes each sample as a row to FILE
    ///
    /// `-` is standard output, and the rows then take the place of the view.
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,

    /// The CPUs to sample one by one, such as 0-3,8
    ///
    /// By default, the first 64 on which this process may run.
    #[arg(long, value_name = "LIST", value_parser = cpu_list::parse)]
    pub(crate) cpus: Option<BTreeSet<u32>>,
}

/// Counts the system calls that read a clock, by process (Linux)
///
/// It shows how often each process makes them, and what they cost now and after the fix. It counts
/// at the kernel's tracepoints, which needs root. Where it can't count, it prints other commands to
/// run. It does not see the calls that the vDSO answers, since they are no system calls.
#[derive(Debug, clap::Args)]
pub(crate) struct Who {
    #[command(flatten)]
    pub(crate) json: Json,

    /// The process; by default, all processes
    ///
    /// Its calls are counted with those of all its threads.
    #[arg(value_name = "PID", value_parser = process_id)]
    pub(crate) process: Option<u32>,

    /// How long to count, 1s to 1h
    #[arg(long, value_name = "TIME", overrides_with = "duration", default_value = "5s", allow_hyphen_values = true, value_parser = up_to_an_hour)]
    pub(crate) duration: Duration,
}

/// Serves one fast clock to this machine's programs (Linux)
///
/// Programs read it from a page. The command calibrates the counter, compares the counters of the
/// CPUs, judges whether they can be trusted, and publishes the result until it is stopped. It runs
/// in the foreground. Each page has one server. With an action, this process does not serve the
/// page.
#[derive(Debug, clap::Args)]
#[command(subcommand_value_name = "ACTION", subcommand_help_heading = "Actions")]
#[command(disable_help_subcommand = true)]
pub(crate) struct Serve {
    #[command(subcommand)]
    pub(crate) action: Option<ServeAction>,

    #[command(flatten)]
    page: NamedPage,
}

impl Serve {
    /// The page that `--page` names, before or after the action.
    ///
    /// # Errors
    ///
    /// The option is there twice.
    pub(crate) fn named_page(&self) -> io::Result<Option<&Path>> {
        let of_action = match &self.action {
            Some(
                ServeAction::Status(ServeStatus { page, .. })
                | ServeAction::Off(page)
                | ServeAction::On(page),
            ) => page.path.as_deref(),
            None => None,
        };
        match (self.page.path.as_deref(), of_action) {
            (Some(before), Some(after)) => Err(io::Error::other(format!(
                "--page names two pages, {} and {}: name one",
                before.display(),
                after.display()
            ))),
            (before, after) => Ok(before.or(after)),
        }
    }
}

/// The option `--page` of `serve`, and of its actions.
#[derive(Debug, clap::Args)]
pub(crate) struct NamedPage {
    /// The page's file, in a folder that exists
    ///
    /// The default is /run/tickline/page.v1 for root, and $XDG_RUNTIME_DIR/tickline/page.v1 for
    /// others. The action status takes the first of these that serves a line, or else has a server,
    /// or else exists.
    #[arg(long = "page", value_name = "FILE")]
    path: Option<PathBuf>,
}

/// The actions of `serve` on a page, instead of serving it.
#[derive(Debug, Subcommand)]
pub(crate) enum ServeAction {
    Status(ServeStatus),

    /// Switches the page off at once for all programs
    ///
    /// This also works if its server is dead or stopped. Servers that start leave the page off.
    Off(NamedPage),

    /// Allows a page that was switched off to be served again; start a server afterwards
    On(NamedPage),
}

/// Prints what the page serves, by whom, and for how long; takes --json and --openmetrics
///
/// It also prints how far the page's time may be ahead of the OS clock, and which programs read the
/// page.
#[derive(Debug, clap::Args)]
pub(crate) struct ServeStatus {
    #[command(flatten)]
    page: NamedPage,

    #[command(flatten)]
    pub(crate) json: Json,

    /// Writes the page's figures to FILE as OpenMetrics
    ///
    /// `-` is standard output, and the figures then take the place of the text. If there is no
    /// page, the figures say so.
    #[arg(long, value_name = "FILE")]
    pub(crate) openmetrics: Option<PathBuf>,
}

/// Compares machines, or one machine at two dates
///
/// It lists the facts, findings and costs that differ between two files of --json. Of three files
/// or more, it says which machines differ from the rest, and in what.
#[derive(Debug, clap::Args)]
pub(crate) struct Compare {
    /// The first file of `tickline doctor --json`
    #[arg(value_name = "A")]
    pub(crate) first: PathBuf,

    /// The second file of `tickline doctor --json`
    #[arg(value_name = "B")]
    pub(crate) second: PathBuf,

    /// More such files
    #[arg(value_name = "MORE")]
    pub(crate) more: Vec<PathBuf>,

    /// Percent by which two costs must differ
    ///
    /// Two costs differ if the larger one exceeds the other by more than P percent, such as 10% (0
    /// to 10000). The default is 10% for two files, and 100% for more, since machines are not
    /// alike.
    #[arg(long, value_name = "P", allow_hyphen_values = true, value_parser = percent)]
    pub(crate) above: Option<f64>,

    #[command(flatten)]
    pub(crate) json: Json,
}

/// Turns the file of a flight recorder into a trace
///
/// How the recorded process has ended does not matter. A program makes such a file by
/// flight::FlightRecorderBuilder::in_file of tickline-tracing.
#[derive(Debug, clap::Args)]
pub(crate) struct Flight {
    /// The recorder's file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Writes the trace to TRACE (`-`: standard output)
    ///
    /// In Perfetto's format if TRACE ends in .pftrace or .perfetto-trace, and else as JSON. Without
    /// this option the trace goes to standard output, unless that is a terminal.
    #[arg(long, value_name = "TRACE")]
    pub(crate) out: Option<PathBuf>,
}

/// The option `--json` of every command that writes JSON.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub(crate) struct Json {
    /// Writes the results as JSON to FILE
    ///
    /// `-` is standard output, and the JSON then takes the place of the text.
    #[arg(long = "json", value_name = "FILE")]
    pub(crate) target: Option<PathBuf>,
}
