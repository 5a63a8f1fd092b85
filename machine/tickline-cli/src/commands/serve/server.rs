//! The server's loop, and its log on standard error.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::poll::ppoll;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::time::TimeSpec;
use tickline::{Clock, ClockState, LinePerCpu};
use tickline_page::Publisher;
use tickline_page::lease::LeasePhase;

use crate::exit::Exit;
use crate::machine;
use crate::measure::standstill;
use crate::output::line_to_stderr;
use crate::setup::with_cause;
use crate::signal;
use crate::words::{plain, plain_path};

/// Serves the page until a signal comes or the page is switched off.
pub(super) fn run(page: &Path) -> io::Result<Exit> {
    let (stop, mask) = stop_flag()?;
    let clock = Clock::builder().line_per_cpu(LinePerCpu::Off).start();
    let clock = clock.map_err(|error| io::Error::other(with_cause(&error)))?;
    // A process that may not read the counter gets its time by system call, which can't be replaced.
    if machine::may_read_counter() != Some(false) {
        standstill::check(None)?;
    }
    let mut publisher = Publisher::start(clock, page).map_err(io::Error::other)?;
    let mut log = ServerLog {
        page,
        last_line: None,
    };
    if publisher.phase() != LeasePhase::Off {
        log.log_start(&publisher);
    }
    loop {
        // ORDERING: Relaxed, pairs with the signal handler's store, which publishes no other data.
        let is_ending = stop.load(Ordering::Relaxed);
        if is_ending {
            publisher.end();
        }
        let next_in = publisher.maintain().map_err(io::Error::other)?;
        if publisher.phase() == LeasePhase::Off {
            log.line("the page is switched off: run `tickline serve on`, then start a server");
            return Ok(Exit::Success);
        }
        if is_ending && !publisher.has_line() {
            log.line("stopped: the leases have run out");
            return Ok(Exit::Success);
        }
        log.log_change(&publisher);
        // After an interrupted sleep the next iteration is early and does nothing.
        ppoll(&mut [], Some(TimeSpec::from_duration(next_in)), Some(mask)).ok();
    }
}

/// The flag that a stop signal sets, and the signal mask for the server's sleep. These signals are
/// blocked except during the sleep, so none can arrive between the load of the flag and the sleep.
/// The clock's thread starts later and inherits the mask that blocks them.
fn stop_flag() -> io::Result<(Arc<AtomicBool>, SigSet)> {
    const STOPS: [Signal; 3] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP];
    let stop = signal::stop_flag()?;
    let stops: SigSet = STOPS.into_iter().collect();
    let mut mask = stops.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    STOPS.into_iter().for_each(|signal| mask.remove(signal));
    Ok((stop, mask))
}

/// The server's log: a line for each change of the phase.
struct ServerLog<'a> {
    page: &'a Path,
    last_line: Option<String>,
}

impl ServerLog<'_> {
    fn line(&self, text: &str) {
        let page = plain_path(self.page);
        line_to_stderr(&format!("tickline: {page}: {}", plain(text)));
    }

    fn log_start(&self, publisher: &Publisher) {
        self.line(&format!("process {} serves this page", std::process::id()));
        if !publisher.is_locked_in_memory() {
            self.line("the page is not locked in memory (ulimit -l)");
        }
        if !publisher.uses_rseq() {
            self.line(
                "the kernel has no restartable sequences, and may stop the server between a read and a store",
            );
        }
    }

    fn log_change(&mut self, publisher: &Publisher) {
        let phase = publisher.phase();
        // This is the usual case, twice a second. It needs no status.
        if phase == LeasePhase::Published && self.last_line.as_deref() == Some(phase.code()) {
            return;
        }
        let text = match (phase, publisher.clock().status().state) {
            (LeasePhase::Published, _) => phase.code().to_owned(),
            (LeasePhase::FirstPublication, _) => return,
            (phase, ClockState::Fallback(reason)) => format!("{}: {reason}", phase.code()),
            // The text is the same in both phases and at any rate, so one slew is one line.
            _ if publisher.waits_for_slew() => {
                "not served: the kernel slews its clock by more than 1,000 ppm; programs ask the OS clock"
                    .to_owned()
            }
            // The clock is calibrating, or the server has not yet published its first line.
            (LeasePhase::NoLine, ClockState::Calibrating | ClockState::Fast) if self.last_line.is_none() => {
                return;
            }
            (LeasePhase::Doubted, ClockState::Calibrating | ClockState::Fast | ClockState::Disrupted) => {
                "doubted: the OS clock is not where the line is".to_owned()
            }
            // The leases run out after a doubted line, or if the server gets no CPU for that long.
            (LeasePhase::NoLine, ClockState::Fast) => "no_line: the leases have run out".to_owned(),
            (phase, state) => format!("{}: the clock is {state}", phase.code()),
        };
        if self.last_line.as_ref() != Some(&text) {
            self.line(&text);
            self.last_line = Some(text);
        }
    }
}
