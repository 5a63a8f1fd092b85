//! Unmodified programs on Debian. They read the clock natively, under `tickline run`, and with the
//! library in LD_PRELOAD, also while the server is killed, stopped and started again.
//!
//! `/opt/programs.json` lists the programs. Each program is a load that prints `ready`. It then
//! reads lines with a number of calls, makes these calls, and answers each line by a line of JSON
//! (`tests/vm/programs/load.c`).

mod exchange;
mod load;
pub(crate) mod units;

use std::fs::{self, File};
use std::io;
use std::process::{Child, Command};

use serde::Deserialize;

use crate::agreed::{Mode, Program};
use crate::doctor::tickline;
use crate::phase::{self, Counted, Measured, Native, Phase};
use crate::{machine, report, served};
use load::Load;

/// The number of calls for the count of system calls. It is small, because strace stops a program
/// twice at each system call.
const COUNTED_CALLS: u64 = 300;

/// The number of counts of a program's system calls, at most. On a busy host the server is late, so
/// the smallest result counts.
const COUNTS: u32 = 5;

/// The number of times that each mode of a program is measured. The modes take turns, because the
/// speed of a busy host changes within minutes, and a ratio of modes compares the fastest of each.
const ROUNDS: u32 = 5;

/// The same for a server, which takes long to start, and the number of measurements in each round.
const SERVER_ROUNDS: u32 = 2;
const SERVER_MEASUREMENTS: u32 = 3;

/// The file with the messages of all servers.
const LOG: &str = "/tmp/serve";

fn serve() -> io::Result<Child> {
    served::serve(File::options().create(true).append(true).open(LOG)?.into())
}

/// Runs all programs, one after the other, and then all at once.
///
/// # Errors
///
/// If the list cannot be read, or no server can be started.
pub(crate) fn run() -> io::Result<()> {
    report::send(machine::facts());
    let programs: Vec<Program> = serde_json::from_slice(&fs::read("/opt/programs.json")?)?;
    let (programs, missing): (Vec<_>, Vec<_>) = programs.into_iter().partition(Program::is_built);
    for Program { name, .. } in missing {
        let what = format!("{name}: not built, and NOT checked");
        report::send(Phase::unavailable(what, Some(name)));
    }
    install()?;
    let server = serve()?;
    let at_first = status();
    let mut leads = Leads::default();
    leads.add(&page_of(&at_first));
    report::send(at_first);
    for program in &programs {
        for phase in run_in_turns(program, &mut leads) {
            report::send(phase);
        }
    }
    exchange::run(&programs, server)?;
    report::send(Phase {
        text: fs::read_to_string(LOG).ok(),
        ..Phase::named(phase::END)
    });
    Ok(())
}

/// Installs the package, and links the program to its path in the other guests.
fn install() -> io::Result<()> {
    // The first process has no PATH, and dpkg needs one.
    let path = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
    let installed = Command::new("env")
        .args([path, "dpkg", "-i", "/opt/tickline.deb"])
        .output()?;
    if !installed.status.success() {
        return Err(io::Error::other(last_lines(&installed.stderr, 10)));
    }
    std::os::unix::fs::symlink("/usr/bin/tickline", "/tickline")
}

/// The largest leads that the server has stated so far, ns: they change from line to line.
#[derive(Debug, Default)]
struct Leads {
    lead_ns: u64,
    unix_lead_ns: u64,
}

impl Leads {
    fn add(&mut self, page: &Page) {
        let stated_ns = |lead_ns: Option<i64>| lead_ns.unwrap_or(0).max(0).unsigned_abs();
        self.lead_ns = self.lead_ns.max(stated_ns(page.lead_ns));
        self.unix_lead_ns = self.unix_lead_ns.max(stated_ns(page.unix_lead_ns));
    }
}

/// Runs a program in its modes, which take turns, and returns a phase for each mode.
fn run_in_turns(program: &Program, leads: &mut Leads) -> Vec<Phase> {
    let modes = Mode::ALL.into_iter();
    let mut trials: Vec<(Mode, Trial)> = modes
        .filter(|mode| program.has(*mode))
        .map(|mode| (mode, Trial::default()))
        .collect();
    let rounds = if program.is_server {
        SERVER_ROUNDS
    } else {
        ROUNDS
    };
    for round in 1..=rounds {
        let running = trials.iter_mut().filter(|(_, trial)| trial.error.is_none());
        for (mode, trial) in running {
            // The host takes a guest that is silent for minutes for a hung one.
            let what = format!("{} {mode}, round {round} of {rounds}", program.name);
            report::send(Phase {
                text: Some(what),
                ..Phase::named("measuring")
            });
            if let Err(error) = trial.measure(program, *mode) {
                trial.error = Some(error.to_string());
            }
            leads.add(&page_of(&status()));
        }
    }
    // The native mode comes first.
    let mut native = None;
    trials
        .into_iter()
        .map(|(mode, trial)| {
            let measured = Measured {
                lead_ns: leads.lead_ns,
                unix_lead_ns: leads.unix_lead_ns,
                ..trial.measured
            };
            let native_before = native.clone();
            if mode == Mode::Native {
                native = Some(Native {
                    ns: measured.ns,
                    figures: measured.figures.clone(),
                });
            }
            Phase {
                error: trial.error,
                messages: Some(trial.messages),
                measured: Some(measured),
                counted: trial.counted,
                native: native_before,
                ..Phase::named(mode.phase_of(&program.name))
            }
        })
        .collect()
}

/// A program in one mode, over several processes.
#[derive(Debug, Default)]
struct Trial {
    measured: Measured,
    /// The system calls of a few calls, by strace.
    counted: Option<Counted>,
    messages: String,
    /// Why there are no further rounds.
    error: Option<String>,
}

impl Trial {
    /// Starts a process, and measures many calls. The first process's system calls are counted.
    fn measure(&mut self, program: &Program, mode: Mode) -> load::Result<()> {
        let mut load = Load::start(program, mode)?;
        if self.counted.is_none() {
            self.counted = Some(count_several_times(&mut load, mode)?);
        }
        let measurements = if program.is_server {
            SERVER_MEASUREMENTS
        } else {
            1
        };
        for _ in 0..measurements {
            self.measured
                .add(&load.ask(program.calls)?, program.calls)?;
        }
        (self.measured.exit_code, self.messages) = load.end()?;
        if self.measured.exit_code != Some(0) {
            return Err("it has not ended in order".into());
        }
        Ok(())
    }
}

/// The smallest of several counts, if the program is served.
fn count_several_times(load: &mut Load, mode: Mode) -> load::Result<Counted> {
    let mut least = count(load)?;
    for _ in 1..COUNTS {
        if mode == Mode::Native || least.served_clocks == 0 {
            break;
        }
        let again = count(load)?;
        if again.served_clocks < least.served_clocks {
            least = again;
        }
    }
    Ok(least)
}

/// The count of system calls, with the server's messages meanwhile. If the page had no line, the
/// system calls are not a fault of the program.
fn count(load: &mut Load) -> load::Result<Counted> {
    let log = || fs::read_to_string(LOG).unwrap_or_default();
    let before = log().len();
    let counted = load.count_system_calls(COUNTED_CALLS)?;
    let server = log().get(before..).unwrap_or_default().to_owned();
    Ok(Counted { server, ..counted })
}

/// The state of the page in the JSON of `tickline serve status`. Without a page there is none.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Page {
    serving: bool,
    lead_ns: Option<i64>,
    unix_lead_ns: Option<i64>,
}

/// The report of `tickline serve status`.
fn status() -> Phase {
    report::output(
        "serve",
        tickline().args(["serve", "status", "--json", "-"]).output(),
    )
}

fn page_of(status: &Phase) -> Page {
    report::parsed(status).unwrap_or_default()
}

/// Whether a page is served now.
fn is_serving() -> bool {
    page_of(&status()).serving
}

fn last_lines(text: &[u8], count: usize) -> String {
    let text = String::from_utf8_lossy(text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// A command from a line of words that are separated by spaces.
fn command(line: &str) -> Command {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words);
    command
}
