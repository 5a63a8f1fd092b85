//! Lets programs exchange readings while the server is killed, started, stopped and ended.

use std::io;
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde::Serialize;
use serde_json::json;

use super::load::{Load, Program, RUN, Readings};
use crate::{report, system};

/// The length of each state of the server: longer than all leases.
const STATE: Duration = Duration::from_secs(3);

/// The number of calls for each answer. It is small, so that each state has many answers.
const CALLS: u64 = 500;

/// The findings of one program, over all its answers.
#[derive(Debug, Default, Serialize)]
pub(super) struct Findings {
    phase: String,
    answers: u64,
    #[serde(flatten)]
    readings: Readings,
    error: Option<String>,
    /// The messages of `tickline run`.
    messages: String,
}

/// The states of the server, in order.
const STATES: [&str; 6] = [
    "killed",
    "started",
    "stopped",
    "continued",
    "ended",
    "started",
];

pub(super) fn run(programs: &[Program], server: Child) -> io::Result<()> {
    let phase = |program: &str| format!("{program} served exchange");
    let mut loads = Vec::new();
    for program in programs.iter().filter(|program| !program.is_server) {
        match Load::start(program, RUN) {
            Ok(load) => loads.push((program.name.as_str(), load)),
            Err(error) => {
                report::send_line(
                    &json!({ "phase": phase(&program.name), "error": error.to_string() }),
                );
            }
        }
    }
    let stop = AtomicBool::new(false);
    let returned_ns = AtomicU64::new(0);
    let done = thread::scope(|scope| {
        let watch = |(name, mut load)| {
            let stop = &stop;
            let returned_ns = &returned_ns;
            scope.spawn(move || {
                report::send_line(&json!(watch(phase(name), &mut load, stop, returned_ns)))
            });
        };
        loads.into_iter().for_each(watch);
        let done = change_states(server);
        // ORDERING: Relaxed, the flag orders no memory.
        stop.store(true, Ordering::Relaxed);
        done
    });
    let served = done?;
    report::send_line(&json!({ "phase": "states", "states": STATES, "served": served }));
    Ok(())
}

/// Asks a program repeatedly until `stop`, for the report of a phase.
pub(super) fn watch(
    phase: String,
    load: &mut Load,
    stop: &AtomicBool,
    returned_ns: &AtomicU64,
) -> Findings {
    let mut findings = Findings {
        phase,
        ..Findings::default()
    };
    let mut unix_ns = None;
    // ORDERING: Relaxed, the flag orders no memory.
    while !stop.load(Ordering::Relaxed) {
        // ORDERING: Acquire, pairs with the Release of `fetch_max`: the largest reading was
        // returned before this question.
        let before_ns = returned_ns.load(Ordering::Acquire);
        match load.ask(CALLS) {
            Ok(answer) => {
                findings.answers += 1;
                if let Some(last_ns) = findings.readings.add(&answer["monotonic"], Some(before_ns))
                {
                    // ORDERING: Release, pairs with the Acquire load of `returned_ns`.
                    returned_ns.fetch_max(last_ns, Ordering::Release);
                }
                unix_ns = findings
                    .readings
                    .add(&answer["realtime"], unix_ns)
                    .or(unix_ns);
            }
            Err(error) => {
                findings.error = Some(error.to_string());
                break;
            }
        }
    }
    findings.messages = load.messages();
    findings
}

/// Takes the server through its states. Returns whether a page was served at the end of each.
fn change_states(mut server: Child) -> io::Result<Vec<bool>> {
    let mut served = Vec::new();
    for state in STATES {
        match state {
            "killed" => {
                server.kill()?;
                server.wait()?;
            }
            "started" => server = super::serve()?,
            "stopped" => system::send(&server, Signal::SIGSTOP)?,
            "continued" => system::send(&server, Signal::SIGCONT)?,
            _ => {
                system::send(&server, Signal::SIGTERM)?;
                server.wait()?;
            }
        }
        thread::sleep(STATE);
        served.push(super::status()["serving"] == true);
    }
    server.kill()?;
    server.wait()?;
    Ok(served)
}
