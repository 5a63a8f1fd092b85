//! The clock behind a [`CounterTime`](crate::CounterTime): waits for it, follows it, and reports
//! on it.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tickline::{Clock, Events, Reason, State};
use tickline_core::counter::{HardwareCounter, Scratch, resolution_ticks};

use crate::calibration::Calibration;
use crate::cost;
use crate::elapsed::Elapsed;
use crate::error::{Error, Inner};
use crate::incidents::Incidents;
use crate::message::Messages;
use crate::number::{as_f64, round};
use crate::pair::Source;
use crate::pairs::spin::{Spinner, Spins};
use crate::progress::{Progress, Rate};

/// The uncertainty that is good enough at the start: as much as a machine's clock drifts within
/// seconds, and a thousandth of what criterion resolves.
const GOAL_PPB: f64 = 1_000.0;

/// How often the wait for the clock reads its status.
const POLL: Duration = Duration::from_millis(10);

/// How long the loop that shows interrupts runs at the start: a few periods of the slowest timer
/// interrupt, of 4 ms.
const FIRST_SPIN_NS: f64 = 20e6;

/// How ticks become ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    pub(crate) ns_per_tick: f64,
    /// The cost of a pair of readings, which is subtracted; 0 if it is not known.
    pub(crate) cost_ticks: f64,
    pub(crate) resolution_ticks: u64,
}

impl Scale {
    /// The scale of the OS clock, whose ticks are ns.
    pub(crate) const WALL: Self = Self { ns_per_tick: 1.0, cost_ticks: 0.0, resolution_ticks: 1 };

    /// A pair's time without the pair's cost; 0 where that leaves less.
    pub(crate) fn net_ns(&self, ticks: f64) -> f64 {
        (ticks - self.cost_ticks).max(0.0) * self.ns_per_tick
    }
}

pub(crate) struct Session {
    clock: Clock,
    source: Source,
    resolution_ticks: u64,
    messages: Messages,
    spinner: Spinner,
    spins: Spins,
    progress: Mutex<Progress>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("clock", &self.clock).finish_non_exhaustive()
    }
}

impl Session {
    /// Waits for the clock's rate, at most `settle`, then measures the cost of a pair.
    pub(crate) fn start(
        clock: Clock,
        (source, counter): (Source, HardwareCounter),
        settle: Duration,
        messages: Messages,
    ) -> Result<Self, Error> {
        let (rate, events) = wait(&clock, settle)?;
        // The first result is dropped: a processor that was idle may still be speeding up.
        let [_, pair_ticks] = [(); 2].map(|()| cost::pair_ticks(source));
        let spinner = Spinner::calibrate(counter);
        let session = Self {
            spins: spinner.spin(round(FIRST_SPIN_NS / rate.ns_per_tick)),
            spinner,
            resolution_ticks: resolution_ticks(&counter, &mut Scratch::new()),
            progress: Mutex::new(Progress::new(rate, pair_ticks, events)),
            clock,
            source,
            messages,
        };
        messages.by_counter(&session.calibration());
        Ok(session)
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn calibration(&self) -> Calibration {
        let progress = self.progress();
        let Scale { ns_per_tick, cost_ticks, resolution_ticks, .. } = self.scale_of(&progress);
        Calibration {
            frequency_hz: 1e9 / ns_per_tick,
            uncertainty_ppb: progress.rate.uncertainty_ppb,
            resolution_ns: as_f64(resolution_ticks) * ns_per_tick,
            pair_ns: cost_ticks * ns_per_tick,
        }
    }

    pub(crate) fn scale(&self) -> Scale {
        self.scale_of(&self.progress())
    }

    fn scale_of(&self, progress: &Progress) -> Scale {
        Scale {
            ns_per_tick: progress.rate.ns_per_tick,
            cost_ticks: progress.pair_ticks,
            resolution_ticks: self.resolution_ticks,
        }
    }

    pub(crate) fn spinner(&self) -> (Spinner, Spins) {
        (self.spinner, self.spins)
    }

    pub(crate) fn clock_facts(&self) -> (Events, State) {
        let status = self.clock.status();
        (status.events, status.state)
    }

    pub(crate) fn incidents(&self) -> Incidents {
        self.progress().incidents.clone()
    }

    /// A sample in ns. Also updates the rate and the cost of a pair, since no sample is under way.
    pub(crate) fn to_ns(&self, sample: &Elapsed) -> f64 {
        let mut progress = self.progress();
        progress.count(sample, &self.clock.status());
        if progress.cost_is_due() {
            progress.set_cost(cost::pair_ticks(self.source));
        }
        sample.to_ns(progress.rate.ns_per_tick, progress.pair_ticks)
    }

    /// The incidents until now, not only until the last sample. The clock's last iteration may be
    /// half a second ago. This runs another one, which takes some us, unless the clock's thread is
    /// in one or a gate is closed.
    fn at_end(&self) -> Incidents {
        self.clock.maintain();
        let mut progress = self.progress();
        progress.end(&self.clock.status());
        progress.incidents.clone()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.messages.at_end(&self.at_end());
    }
}

/// Waits until the clock's rate is good enough, at most `limit`. Returns the rate, and the clock's
/// events up to then.
fn wait(clock: &Clock, limit: Duration) -> Result<(Rate, Events), Error> {
    let begin = Instant::now();
    loop {
        let status = clock.status();
        let is_over = begin.elapsed() >= limit;
        match (status.state, Rate::of(&status)) {
            (State::Fast, Some(rate)) if is_over || rate.uncertainty_ppb <= GOAL_PPB => {
                return Ok((rate, status.events));
            }
            (State::Fallback(reason), _) if is_over || status.judged && !may_pass(reason) => {
                return Err(Error(Inner::Closed(reason)));
            }
            (state, _) if is_over => return Err(Error(Inner::NotReady { state, waited: limit })),
            _ => std::thread::sleep(POLL),
        }
    }
}

/// Whether a gate that is closed for this may open by itself within a second or two.
fn may_pass(reason: Reason) -> bool {
    matches!(reason, Reason::KernelUndecided | Reason::Untested | Reason::SamplesStale | Reason::WindowPassed)
}

#[cfg(test)]
mod tests {
    use tickline::{Driver, Event, PerCpu};

    use super::*;

    fn skip(why: &str) {
        use std::io::Write;
        writeln!(std::io::stderr(), "SKIPPED: {why}").ok();
    }

    #[test]
    fn a_closed_gate_is_not_waited_for() {
        if HardwareCounter::if_present().is_none() {
            return skip("no counter on this target");
        }
        let clock = Clock::builder().start().expect("a clock");
        clock.disable();
        let begin = Instant::now();
        let error = wait(&clock, Duration::from_secs(60)).expect_err("closed");
        assert!(begin.elapsed() < Duration::from_secs(30), "it waited for a gate that stays closed");
        assert!(matches!(error.kind(), crate::ErrorKind::Closed(_)), "{error}");
    }

    fn session() -> Option<Session> {
        let (Some(source), Some(counter)) = (Source::counter(), HardwareCounter::if_present()) else {
            skip("no counter on this target");
            return None;
        };
        let clock = Clock::builder().driver(Driver::Thread).per_cpu(PerCpu::Off).start().expect("a clock");
        let session = Session::start(clock, (source, counter), Duration::from_secs(2), Messages::Hidden);
        session.inspect_err(|error| skip(&error.to_string())).ok()
    }

    #[test]
    fn a_gate_that_closes_meanwhile_is_reported_and_the_rate_stays() {
        let Some(session) = session() else { return };
        let sample = session.source.start().end();
        session.to_ns(&sample);
        assert_eq!(session.incidents().samples, 1);
        session.clock.disable();
        let Scale { ns_per_tick, cost_ticks, .. } = session.scale();
        assert_eq!(session.to_ns(&sample), sample.to_ns(ns_per_tick, cost_ticks));
        let incidents = session.incidents();
        assert!(incidents.disturbed >= 1, "{incidents:?}");
        assert!(incidents.to_string().contains("gate_closed 1"), "{incidents}");
    }

    /// Symptom: nothing reported what happened to the clock in the last half second of a benchmark.
    #[test]
    fn the_clock_has_one_more_iteration_at_the_end() {
        let Some(session) = session() else { return };
        session.to_ns(&session.source.start().end());
        // This counts the clock's iterations; tickline's own tests judge their results. The clock's
        // thread may be in an iteration just now, and may have published the line before `before`.
        let published = || session.clock.status().events.get(Event::Publication);
        let has_iterated = (0..10).any(|_| {
            let before = published();
            session.at_end();
            published() > before
        });
        assert!(has_iterated, "no iteration at the end");
        let quiet = session.incidents().disturbed;
        session.clock.disable();
        assert_eq!(session.incidents().disturbed, quiet);
        assert_eq!(session.at_end().disturbed, 1);
    }
}
