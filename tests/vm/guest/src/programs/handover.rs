//! Watches programs that read the clock while the server is killed, started, stopped and ended.

use std::io;
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde::Serialize;
use serde_json::{Value, json};

use super::load::{Load, Mode, Program};
use crate::{report, system};

/// How long each state of the server lasts: longer than all leases.
const STATE: Duration = Duration::from_secs(3);

/// The number of calls for each answer. It is small, so that each state has many answers.
const CALLS: u64 = 500;

/// The findings of one program, over all its answers.
#[derive(Debug, Default, Serialize)]
pub(super) struct Seen {
    answers: u64,
    calls: u64,
    backward: u64,
    /// Answers whose first reading was below a reading that another program had returned before.
    below_others: u64,
    /// How far readings were outside of the OS clock's readings around them, ns.
    below_os_ns: u64,
    above_os_ns: u64,
    error: Option<String>,
    /// The messages of `tickline run`.
    said: String,
}

impl Seen {
    fn count(&mut self, clock: &Value, returned_ns: Option<u64>) -> Option<u64> {
        let number = |index: usize| clock[index].as_u64();
        let (calls, back) = (number(0)?, number(1)?);
        let (first_ns, last_ns, resolution_ns) = (number(2)?, number(3)?, number(4)?);
        let (before_ns, after_ns) = (number(5)?, number(6)?);
        self.calls += calls;
        self.backward += back;
        self.below_others += u64::from(returned_ns.is_some_and(|returned_ns| first_ns < returned_ns));
        self.below_os_ns = self.below_os_ns.max(before_ns.saturating_sub(first_ns + resolution_ns));
        self.above_os_ns = self.above_os_ns.max(last_ns.saturating_sub(after_ns));
        Some(last_ns)
    }

    pub(super) fn report(&self, program: &str) -> Value {
        let mut report = json!(self);
        report["phase"] = "handover".into();
        report["program"] = program.into();
        report
    }
}

/// The changes of the server, one after the other.
const STATES: [&str; 6] = ["killed", "started", "stopped", "continued", "ended", "started"];

pub(super) fn run(programs: &[Program], server: Child) -> io::Result<()> {
    let mut loads = Vec::new();
    for program in programs.iter().filter(|program| program.is_handed_over) {
        match Load::start(program, Mode::Run) {
            Ok(load) => loads.push((program.name.as_str(), load)),
            Err(error) => {
                let error = error.to_string();
                report::line(&json!({ "phase": "handover", "program": program.name, "error": error }));
            }
        }
    }
    let (stop, returned_ns) = (AtomicBool::new(false), AtomicU64::new(0));
    let done = thread::scope(|scope| {
        let watch = |(name, mut load)| {
            let (stop, returned_ns) = (&stop, &returned_ns);
            scope.spawn(move || report::line(&watch(&mut load, stop, returned_ns).report(name)));
        };
        loads.into_iter().for_each(watch);
        let done = hand_over(server);
        stop.store(true, Ordering::Relaxed);
        done
    });
    let served = done?;
    report::line(&json!({ "phase": "states", "done": STATES, "served": served }));
    Ok(())
}

/// Asks a program again and again.
pub(super) fn watch(load: &mut Load, stop: &AtomicBool, returned_ns: &AtomicU64) -> Seen {
    let mut seen = Seen::default();
    let mut unix_ns = None;
    while !stop.load(Ordering::Relaxed) {
        // Acquire, pairs with the Release below: the largest reading was returned before this
        // question.
        let before_ns = returned_ns.load(Ordering::Acquire);
        match load.ask(CALLS) {
            Ok(answer) => {
                seen.answers += 1;
                if let Some(last_ns) = seen.count(&answer["monotonic"], Some(before_ns)) {
                    // Release: see above.
                    returned_ns.fetch_max(last_ns, Ordering::Release);
                }
                unix_ns = seen.count(&answer["realtime"], unix_ns).or(unix_ns);
            }
            Err(error) => {
                seen.error = Some(error.to_string());
                break;
            }
        }
    }
    seen.said = load.said();
    seen
}

/// Takes the server through its states. Returns whether a page was served at the end of each.
fn hand_over(mut server: Child) -> io::Result<Vec<bool>> {
    let mut served = Vec::new();
    for state in STATES {
        match state {
            "killed" => {
                server.kill()?;
                server.wait()?;
            }
            "started" => server = super::serve()?,
            "stopped" => system::send(server.id(), Signal::SIGSTOP)?,
            "continued" => system::send(server.id(), Signal::SIGCONT)?,
            _ => {
                system::send(server.id(), Signal::SIGTERM)?;
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
