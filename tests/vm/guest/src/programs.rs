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

use serde_json::{Value, json};

use crate::doctor::tickline;
use crate::{machine, report, served};
use load::{Load, Measured, Mode, NATIVE, PRELOAD, Program, RUN};

/// The number of calls for the count of system calls. It is small, because strace stops a program
/// twice at each system call.
const COUNTED_CALLS: u64 = 300;

/// The number of measurements of a program, and the limit of counts of its system calls. On a busy
/// host programs are slow and the server is late, so the smallest result counts.
const TIMES: u32 = 5;

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
    report::send_line(&machine::facts());
    let programs: Vec<Program> = serde_json::from_slice(&fs::read("/opt/programs.json")?)?;
    let (programs, missing): (Vec<_>, Vec<_>) = programs.into_iter().partition(Program::is_built);
    for Program { name, .. } in missing {
        let message = format!("{name}: not built, and NOT checked");
        report::send_line(&json!({ "phase": "unavailable", "what": message, "program": name }));
    }
    install()?;
    let server = serve()?;
    let at_first = status();
    report::send_line(&json!({ "phase": "serve", "status": at_first }));
    let leads = ["lead_ns", "unix_lead_ns"];
    // The lead changes from line to line, so the largest so far counts.
    let mut largest_ns = leads.map(|lead| at_first[lead].as_u64().unwrap_or(0));
    for program in &programs {
        let mut native = Value::Null;
        for mode in [NATIVE, RUN, PRELOAD]
            .into_iter()
            .filter(|mode| program.has(*mode))
        {
            let mut report =
                alone(program, mode).unwrap_or_else(|error| json!({ "error": error.to_string() }));
            if mode == NATIVE {
                native = json!({ "ns": report["ns"], "figures": report["figures"] });
            } else {
                report["native"] = native.clone();
            }
            report["phase"] = format!("{} {}", program.name, mode.name).into();
            let now = status();
            for (lead, largest_ns) in leads.into_iter().zip(&mut largest_ns) {
                *largest_ns = now[lead].as_u64().unwrap_or(0).max(*largest_ns);
                report[lead] = (*largest_ns).into();
            }
            report::send_line(&report);
        }
    }
    exchange::run(&programs, server)?;
    report::send_line(
        &json!({ "phase": "end", "server": fs::read_to_string(LOG).unwrap_or_default() }),
    );
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

/// Runs one program: counts the system calls of a few calls with strace, and measures many calls.
fn alone(program: &Program, mode: Mode) -> load::Result<Value> {
    let mut load = Load::start(program, mode)?;
    let mut counted = count(&mut load)?;
    for _ in 1..TIMES {
        if mode == NATIVE || counted["served_clocks"] == 0 {
            break;
        }
        let again = count(&mut load)?;
        if again["served_clocks"].as_u64() < counted["served_clocks"].as_u64() {
            counted = again;
        }
    }
    let mut measured = Measured::default();
    measured.add(&load.ask(program.calls)?, program.calls)?;
    // The cost of memory accesses in the emulator depends on their addresses, which differ between
    // processes. So several processes are measured.
    for _ in 1..TIMES {
        if !program.is_server {
            load.end()?;
            load = Load::start(program, mode)?;
        }
        measured.add(&load.ask(program.calls)?, program.calls)?;
    }
    let (exit_code, messages) = load.end()?;
    let mut report = json!(measured);
    report["counted"] = counted;
    report["exit_code"] = exit_code.into();
    report["messages"] = messages.into();
    Ok(report)
}

/// The count of system calls, with the server's messages meanwhile. If the page had no line, the
/// system calls are not a fault of the program.
fn count(load: &mut Load) -> load::Result<Value> {
    let log = || fs::read_to_string(LOG).unwrap_or_default();
    let before = log().len();
    let mut counted = load.counted(COUNTED_CALLS)?;
    counted["server"] = log().get(before..).into();
    Ok(counted)
}

/// The report of `tickline serve status`.
fn status() -> Value {
    report::output(
        "status",
        tickline().args(["serve", "status", "--json", "-"]).output(),
    )["output"]
        .take()
}

/// The last lines of a text.
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
