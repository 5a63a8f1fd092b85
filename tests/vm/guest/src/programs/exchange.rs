//! Lets programs exchange readings while the server is killed, started, stopped and ended.

use std::io;
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::load::Load;
use crate::agreed::{Mode, Program};
use crate::phase::{self, Exchange, Phase};
use crate::{report, system};

/// The length of each state of the server: longer than all leases.
const STATE: Duration = Duration::from_secs(3);

/// The number of calls for each answer. It is small, so that each state has many answers.
const CALLS: u64 = 500;

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
    let mut loads = Vec::new();
    for program in programs.iter().filter(|program| !program.is_server) {
        match Load::start(program, Mode::Run) {
            Ok(load) => loads.push((program.exchange_phase(), load)),
            Err(error) => report::send(Phase {
                error: Some(error.to_string()),
                ..Phase::named(program.exchange_phase())
            }),
        }
    }
    let stop = AtomicBool::new(false);
    let returned_ns = AtomicU64::new(0);
    let done = thread::scope(|scope| {
        let watch = |(name, mut load)| {
            let stop = &stop;
            let returned_ns = &returned_ns;
            scope.spawn(move || report::send(watch(name, &mut load, stop, returned_ns)));
        };
        loads.into_iter().for_each(watch);
        let done = change_states(server);
        // ORDERING: Relaxed, the flag orders no memory.
        stop.store(true, Ordering::Relaxed);
        done
    });
    let served = done?;
    report::send(Phase {
        states: Some(served),
        ..Phase::named(phase::STATES)
    });
    Ok(())
}

/// Asks a program repeatedly until `stop`, for a phase of this name.
pub(super) fn watch(
    name: String,
    load: &mut Load,
    stop: &AtomicBool,
    returned_ns: &AtomicU64,
) -> Phase {
    let mut exchange = Exchange::default();
    let mut error = None;
    let mut unix_ns = None;
    // ORDERING: Relaxed, the flag orders no memory.
    while !stop.load(Ordering::Relaxed) {
        // ORDERING: Acquire, pairs with the Release of `fetch_max`: the largest reading was
        // returned before this question.
        let before_ns = returned_ns.load(Ordering::Acquire);
        let readings = &mut exchange.readings;
        match load.ask(CALLS) {
            Ok(answer) => {
                exchange.answers += 1;
                if let Some(last_ns) = readings.add(&answer["monotonic"], Some(before_ns)) {
                    // ORDERING: Release, pairs with the Acquire load of `returned_ns`.
                    returned_ns.fetch_max(last_ns, Ordering::Release);
                }
                unix_ns = readings.add(&answer["realtime"], unix_ns).or(unix_ns);
            }
            Err(why) => {
                error = Some(why.to_string());
                break;
            }
        }
    }
    Phase {
        error,
        messages: Some(load.messages()),
        exchange: Some(exchange),
        ..Phase::named(name)
    }
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
        served.push(super::is_serving());
    }
    server.kill()?;
    server.wait()?;
    Ok(served)
}
