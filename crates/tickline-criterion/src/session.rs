//! The clock behind a [`CounterTime`](crate::CounterTime): waits for it, follows it, and reports
//! on it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tickline::{Clock, Events, Reason, State};
use tickline_core::counter::{HardwareCounter, resolution_ticks};

use crate::calibration::{Scale, pair_ticks};
use crate::error::{Error, ErrorKind};
use crate::incidents::{Incidents, Observations};
use crate::number::round;
use crate::pairs::noise::NoiseLoop;
use crate::readings::{Elapsed, Source};

/// The uncertainty that is good enough at the start: as much as a machine's clock drifts within
/// seconds, and a thousandth of what criterion resolves.
const GOAL_PPB: f64 = 1_000.0;

/// How often the wait for the clock reads its status.
const POLL: Duration = Duration::from_millis(10);

/// How long the loop that shows interrupts runs at the start: a few periods of the slowest timer
/// interrupt, of 4 ms.
const FIRST_RUN_NS: f64 = 20e6;

#[derive(Debug)]
pub(crate) struct Session {
    clock: Clock,
    source: Source,
    /// The loop that shows interrupts. It has run once.
    pub(crate) noise_loop: NoiseLoop,
    observations: Mutex<Observations>,
}

impl Session {
    /// Waits for the clock's rate, at most `settle`, then measures the cost of a pair.
    pub(crate) fn start(
        clock: Clock,
        (source, counter): (Source, HardwareCounter),
        settle: Duration,
    ) -> Result<Self, Error> {
        let (scale, events) = wait(&clock, settle)?;
        // The first result is dropped: a processor that was idle may still be speeding up.
        let [_, cost_ticks] = [(); 2].map(|()| pair_ticks(source));
        let resolution_ticks = resolution_ticks(&counter);
        let scale = Scale { cost_ticks, resolution_ticks, ..scale };
        let mut noise_loop = NoiseLoop::calibrate(counter);
        noise_loop.run(round(FIRST_RUN_NS / scale.ns_per_tick));
        Ok(Self { clock, source, noise_loop, observations: Mutex::new(Observations::new(scale, events)) })
    }

    pub(crate) fn observations(&self) -> MutexGuard<'_, Observations> {
        self.observations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the clock says now.
    pub(crate) fn clock_facts(&self) -> (Events, State) {
        let status = self.clock.status();
        (status.events, status.state)
    }

    /// A sample in ns. Also updates the rate and the cost of a pair, since no sample is under way.
    pub(crate) fn to_ns(&self, sample: &Elapsed) -> f64 {
        let mut observations = self.observations();
        observations.count(sample, &self.clock.status());
        observations.renew_cost(|| pair_ticks(self.source));
        sample.to_ns(&observations.scale)
    }

    /// The incidents until now, not only until the last sample.
    pub(crate) fn incidents(&self) -> Incidents {
        self.observations().incidents(&self.clock.status().events)
    }

    /// The incidents at the end. The clock's last iteration may be half a second ago. This call
    /// runs another iteration, which takes some us, unless the clock's thread is in one or a gate
    /// is closed.
    pub(crate) fn at_end(&self) -> Incidents {
        self.clock.maintain();
        self.incidents()
    }
}

/// Waits until the clock's rate is good enough, at most `limit`. Returns the rate, and the clock's
/// events until then.
fn wait(clock: &Clock, limit: Duration) -> Result<(Scale, Events), Error> {
    let begin = Instant::now();
    loop {
        let status = clock.status();
        let is_over = begin.elapsed() >= limit;
        match (status.state, Scale::WALL.at_rate_of(&status)) {
            (State::Fast, Some(scale)) if is_over || scale.uncertainty_ppb <= GOAL_PPB => {
                return Ok((scale, status.events));
            }
            (State::Fallback(reason), _) if is_over || status.is_judged && !may_pass(reason) => {
                return Err(Error::closed(reason));
            }
            (state, _) if is_over => {
                let message = format!("the counter's rate was not known after {limit:?}: {state}");
                return Err(Error::new(ErrorKind::NotReady, message));
            }
            _ => std::thread::sleep(POLL),
        }
    }
}

/// Whether a gate that is closed for this may open by itself within a second or two.
fn may_pass(reason: Reason) -> bool {
    matches!(reason, Reason::KernelUndecided | Reason::Untested | Reason::SamplesTooOld | Reason::LineEnded)
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
        assert!(matches!(error.kind(), ErrorKind::GateClosed(_)), "{error}");
    }

    /// Symptom: nothing reported what happened to the clock in the last half second of a benchmark.
    #[test]
    fn a_gate_that_closes_is_reported_at_the_end_and_the_rate_stays() {
        let (Some(source), Some(counter)) = (Source::counter(), HardwareCounter::if_present()) else {
            return skip("no counter on this target");
        };
        let clock = Clock::builder().driver(Driver::Thread).per_cpu(PerCpu::Off).start().expect("a clock");
        let session = Session::start(clock, (source, counter), Duration::from_secs(2));
        let session = match session {
            Ok(session) => session,
            Err(error) => return skip(&error.to_string()),
        };
        let sample = session.source.start().end();
        session.to_ns(&sample);
        // This counts the clock's iterations; tickline's own tests judge their results. The clock's
        // thread may be in an iteration just now, and may have published the line before `before`.
        let published = || session.clock.status().events.get(Event::Publication);
        let has_iterated = (0..10).any(|_| {
            let before = published();
            session.at_end();
            published() > before
        });
        assert!(has_iterated, "no iteration at the end");
        session.clock.disable();
        assert!(session.at_end().events.contains(&(Event::GateClosed, 1)), "{:?}", session.at_end());
        let text = session.at_end().to_string();
        assert!(text.contains("while 1 samples were taken") && text.contains("gate_closed 1"), "{text}");
        let scale = session.observations().scale;
        assert_eq!(session.to_ns(&sample), sample.to_ns(&scale));
        assert_eq!(session.incidents().untrusted, 1);
    }
}
