//! The loop of the server.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::poll::ppoll;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::time::TimeSpec;
use tickline::page::{LeasePhase, Publisher};
use tickline::{Clock, PerCpu, State};

use crate::exit::Exit;
use crate::setup::with_cause;
use crate::signal;
use crate::words::{plain, plain_path};

/// Serves the page until a signal comes, or while the page is not switched off.
pub(super) fn run(page: &Path) -> io::Result<Exit> {
    let (stop, mask) = stop_flag()?;
    let clock = Clock::builder().per_cpu(PerCpu::Off).start();
    let clock = clock.map_err(|error| io::Error::other(with_cause(&error)))?;
    let mut publisher = Publisher::start(clock, page).map_err(io::Error::other)?;
    let mut log = Log { page, said: None };
    if publisher.phase() != LeasePhase::Off {
        log.begins(&publisher);
    }
    loop {
        // ORDERING: Relaxed, pairs with the signal handler's store; a flag on its own.
        let is_ending = stop.load(Ordering::Relaxed);
        if is_ending {
            publisher.end();
        }
        let next_in = publisher.step().map_err(io::Error::other)?;
        if publisher.phase() == LeasePhase::Off {
            log.line("the page is switched off: run `tickline serve on`, then start a server");
            return Ok(Exit::Success);
        }
        if is_ending && !publisher.has_line() {
            log.line("stopped: the leases have run out");
            return Ok(Exit::Success);
        }
        log.changes(&publisher);
        // An interrupted sleep is a step that is early, which does nothing.
        ppoll(&mut [], Some(TimeSpec::from_duration(next_in)), Some(mask)).ok();
    }
}

/// The flag of the signals that end the server, and the mask with which the thread sleeps. Such
/// signals wait until then, so that none comes between the look at the flag and the sleep. The
/// clock's thread, which starts after this, gets none.
fn stop_flag() -> io::Result<(Arc<AtomicBool>, SigSet)> {
    const STOPS: [Signal; 3] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP];
    let stop = signal::stop_flag(&STOPS.map(|signal| signal as i32))?;
    let stops: SigSet = STOPS.into_iter().collect();
    let mut mask = stops.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    STOPS.into_iter().for_each(|signal| mask.remove(signal));
    Ok((stop, mask))
}

/// What the server says: a line for each change.
struct Log<'a> {
    page: &'a Path,
    said: Option<String>,
}

impl Log<'_> {
    fn line(&self, text: &str) {
        // Nobody to tell, if this fails.
        writeln!(io::stderr(), "tickline: {}: {}", plain_path(self.page), plain(text)).ok();
    }

    fn begins(&self, publisher: &Publisher) {
        self.line(&format!("process {} serves this page", std::process::id()));
        if !publisher.is_locked_in_memory() {
            self.line("the page is not locked in memory (ulimit -l)");
        }
        if !publisher.is_restartable() {
            self.line(
                "the kernel has no restartable sequences, and may stop the server between a read and a store",
            );
        }
    }

    fn changes(&mut self, publisher: &Publisher) {
        let phase = publisher.phase();
        // The usual case, twice a second.
        if phase == LeasePhase::Published && self.said.as_deref() == Some(phase.code()) {
            return;
        }
        let text = match (phase, publisher.clock().status().state) {
            (LeasePhase::Published, _) => phase.code().to_owned(),
            (LeasePhase::FirstPublication, _) => return,
            (phase, State::Fallback(reason)) => format!("{}: {reason}", phase.code()),
            // The same in both phases, and while the rate changes: one slew is one line.
            _ if publisher.waits_for_slew() => {
                "not served: the kernel slews its clock by more than 1,000 ppm; programs ask the OS clock"
                    .to_owned()
            }
            // Until the first line, and for moments afterwards.
            (LeasePhase::NoLine, State::Calibrating | State::Fast) if self.said.is_none() => return,
            (LeasePhase::Doubted, State::Calibrating | State::Fast | State::Disrupted) => {
                "doubted: the OS clock is not where the line is".to_owned()
            }
            // After a line in doubt, or because the server had no CPU for as long.
            (LeasePhase::NoLine, State::Fast) => "no_line: the leases have run out".to_owned(),
            (phase, state) => format!("{}: the clock is {state}", phase.code()),
        };
        if self.said.as_ref() != Some(&text) {
            self.line(&text);
            self.said = Some(text);
        }
    }
}
