//! The clock of a [`CounterTime`](crate::CounterTime): its rate and its incidents.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tickline::{Clock, ClockState, EventCounts, Probes, Reason, Status, exchange};
use tickline_core::counter::{HardwareCounter, resolution_ticks};

use crate::criterion_folder;
use crate::measurement::calibration::{Rate, Scale, least_ns};
use crate::measurement::error::{Error, ErrorKind, longer_wait};
use crate::measurement::incidents::{Incidents, Observations};
use crate::measurement::noise_loop::NoiseLoop;
use crate::measurement::pair_cost::pair_ticks;
use crate::measurement::readings::{Elapsed, PairClock};

/// The uncertainty of the rate at which the wait ends. A machine's clock drifts by as much within
/// seconds, and criterion resolves differences a thousand times as large.
const GOAL_PPB: f64 = 1_000.0;

/// The time between two reads of the clock's status during the wait.
const POLL: Duration = Duration::from_millis(10);

/// The default limit of the wait, without a comparison of the CPUs' counters. The clock knows its
/// rate to 1 ppm after 0.1 to 0.2 s.
const SETTLE: Duration = Duration::from_secs(2);

/// The time that a comparison of the CPUs' counters may add to the default limit, for each CPU.
/// `tickline` rests for 20 ms before it compares a pair of CPUs (`REST_NS` in its
/// `trust/compare.rs`), and then takes about 1 ms. A choice: twice as much, because a busy machine
/// takes longer.
///
/// The limit does not cover a machine on which most pairs of CPUs need more than two of up to six
/// tries, or longer ones. There the wait ends in vain, before the comparison. The next
/// [`CounterTime`], which each `criterion_group!` may make, compares from the first CPU on, and
/// waits as long again.
///
/// [`CounterTime`]: crate::CounterTime
const COMPARISON_OF_A_CPU: Duration = Duration::from_millis(50);

/// The longest wait for a clock's rate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitLimit {
    /// The limit of a wait without a comparison of the CPUs' counters.
    settle: Duration,
    /// The most time of a comparison that is added to it.
    comparison: Duration,
}

impl WaitLimit {
    /// The limit that the program has chosen. The time of a comparison counts.
    pub(crate) const fn chosen(settle: Duration) -> Self {
        Self {
            settle,
            comparison: Duration::ZERO,
        }
    }

    /// The default, by the number of CPUs that this process may use.
    pub(crate) fn of_this_process() -> Self {
        Self::for_cpus(exchange::cpus().len())
    }

    fn for_cpus(cpus: usize) -> Self {
        let cpus = u32::try_from(cpus).unwrap_or(u32::MAX);
        Self {
            settle: SETTLE,
            comparison: COMPARISON_OF_A_CPU.saturating_mul(cpus),
        }
    }

    /// The limit of a wait that was `compared` long when the counters were last compared.
    fn after(self, compared: Duration) -> Duration {
        self.settle.saturating_add(compared.min(self.comparison))
    }
}

/// The wait until the clock last compared the CPUs' counters: `waited` if it does so in this state,
/// or else `before`.
fn compared_until(before: Duration, state: ClockState, waited: Duration) -> Duration {
    match state {
        ClockState::Fallback(Reason::Untested) => waited,
        _ => before,
    }
}

#[derive(Debug)]
pub(crate) struct Session {
    clock: Clock,
    pair_clock: PairClock,
    /// The loop that detects interrupts, after its first run.
    pub(crate) noise_loop: NoiseLoop,
    observations: Mutex<Observations>,
    started: SystemTime,
}

impl Session {
    /// Waits for the clock's rate, at most `limit`, and then measures the cost of a pair.
    pub(crate) fn start(
        clock: Clock,
        pair_clock: PairClock,
        counter: HardwareCounter,
        limit: WaitLimit,
    ) -> Result<Self, Error> {
        let (rate, events) = wait_for_rate(&clock, limit)?;
        // The first result is dropped, because a processor that was idle may still be speeding up.
        pair_ticks(pair_clock);
        let cost_ticks = pair_ticks(pair_clock);
        let scale = Scale {
            rate,
            cost_ticks,
            resolution_ticks: resolution_ticks(&counter),
        };
        let noise_loop = NoiseLoop::start(counter, rate.ns_per_tick);
        Ok(Self {
            clock,
            pair_clock,
            noise_loop,
            observations: Mutex::new(Observations::new(scale, events)),
            started: SystemTime::now(),
        })
    }

    pub(crate) fn observations(&self) -> MutexGuard<'_, Observations> {
        self.observations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(crate) const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The clock's events and state now.
    pub(crate) fn clock_facts(&self) -> (EventCounts, ClockState) {
        let status = self.clock.status();
        (status.events, status.state)
    }

    /// Converts a sample of a bencher, by its number, into ns: at least an attosecond. Also updates
    /// the rate and the cost of a pair.
    pub(crate) fn to_ns(&self, sample: &Elapsed, bencher: u64) -> f64 {
        let mut observations = self.observations();
        let trust = observations.count(sample, &self.clock.status());
        observations.renew_cost(|| pair_ticks(self.pair_clock));
        let ns = sample.to_ns(&observations.scale);
        observations.count_lost(&sample.lost, ns);
        let ns = least_ns(ns);
        observations.add_time(bencher, ns, trust);
        ns
    }

    /// The incidents until now, including those after the last sample. The names of benchmarks are
    /// of the files in criterion's output directory, which the program may have chosen.
    pub(crate) fn incidents(&self, chosen: Option<&Path>) -> Incidents {
        let name = |times_ns: &[f64]| {
            let folder = criterion_folder::find(chosen, times_ns, self.started)?;
            criterion_folder::full_name(&folder)
        };
        self.observations()
            .incidents(&self.clock.status().events, name)
    }

    /// The incidents at the end. The clock's last iteration may be half a second old, so this call
    /// runs another one, which takes some us. It runs none if the clock's thread is in an
    /// iteration, or if a gate is closed.
    pub(crate) fn final_incidents(&self, chosen: Option<&Path>) -> Incidents {
        self.clock.maintain();
        self.incidents(chosen)
    }
}

/// Waits until the clock's rate is known to [`GOAL_PPB`], at most `limit`. Returns the rate, and
/// the clock's events until then.
fn wait_for_rate(clock: &Clock, limit: WaitLimit) -> Result<(Rate, EventCounts), Error> {
    let begin = Instant::now();
    let mut compared = Duration::ZERO;
    loop {
        let status = clock.status();
        let waited = begin.elapsed();
        compared = compared_until(compared, status.state, waited);
        if let Some(result) = end_of_wait(&status, clock.probes(), waited, limit, compared) {
            return result.map(|rate| (rate, status.events));
        }
        std::thread::sleep(POLL);
    }
}

/// The result of a wait that has lasted for `waited`, of at most `limit`; `None` if it goes on.
/// `probes` are the clock's. The wait was `compared` long when the counters were last compared.
fn end_of_wait(
    status: &Status,
    probes: Probes,
    waited: Duration,
    limit: WaitLimit,
    compared: Duration,
) -> Option<Result<Rate, Error>> {
    let limit = limit.after(compared);
    let is_over = waited >= limit;
    let state = status.state;
    if state == ClockState::Fast
        && let Some(rate) = Rate::of(status)
        && (is_over || rate.uncertainty_ppb <= GOAL_PPB)
    {
        return Some(Ok(rate));
    }
    if let ClockState::Fallback(reason) = state {
        // With minimal probes a clock compares no counters.
        let may_open =
            reason.is_temporary() && (reason != Reason::Untested || probes == Probes::Full);
        if may_open && is_over {
            return Some(Err(Error::still_closed(reason, limit)));
        }
        if !may_open && (is_over || status.is_judged) {
            return Some(Err(Error::closed(reason)));
        }
    }
    is_over.then(|| {
        let message = format!(
            "the counter's rate was not known after {limit:.1?}: {state}{}",
            longer_wait(limit)
        );
        Err(Error::new(ErrorKind::NotReady, message))
    })
}

#[cfg(test)]
mod tests {
    use tickline::{Driver, Event, LinePerCpu};
    use tickline_observe::skip;

    use super::*;
    use crate::measurement::settings::{Counting, Settings};
    use crate::measurement::time::CounterTime;
    use crate::message::Messages;
    use crate::testing::counter;

    #[test]
    fn a_closed_gate_is_not_waited_for() {
        if counter().is_none() {
            return;
        }
        let clock = Clock::builder().build().expect("a clock");
        clock.disable();
        let begin = Instant::now();
        let limit = WaitLimit::chosen(Duration::from_secs(60));
        let error = wait_for_rate(&clock, limit).expect_err("closed");
        assert!(
            begin.elapsed() < Duration::from_secs(30),
            "it waited for a gate that stays closed"
        );
        assert!(matches!(error.kind(), ErrorKind::GateClosed(_)), "{error}");
    }

    const LIMIT: Duration = SETTLE;
    const BEFORE_LIMIT: Duration = Duration::from_millis(1_999);

    /// The status of a clock that has judged its gates, in this state, with a rate of 1 GHz +- this
    /// many ppb.
    fn status(state: ClockState, max_drift_ppb: Option<u64>) -> Status {
        let clock = Clock::builder().driver(Driver::Manual).build();
        let mut status = clock.expect("a clock").status();
        (status.state, status.is_judged) = (state, true);
        (status.frequency_hz, status.max_drift_ppb) = (Some(1_000_000_000), max_drift_ppb);
        status
    }

    /// The result of the wait for a clock with full probes; `None` if the wait goes on.
    fn result_after(waited: Duration, status: &Status) -> Option<Result<Rate, Error>> {
        let limit = WaitLimit::for_cpus(1);
        end_of_wait(status, Probes::Full, waited, limit, Duration::ZERO)
    }

    /// The kind of the error with which the wait ends; `None` if the wait goes on.
    fn error_after(waited: Duration, status: &Status) -> Option<ErrorKind> {
        let result = result_after(waited, status)?;
        Some(result.expect_err("no rate").kind())
    }

    /// The text of the error with which the wait ends at the limit, if the gate is closed for this
    /// reason.
    fn text_at_limit(reason: Reason) -> String {
        let status = status(ClockState::Fallback(reason), None);
        let result = result_after(LIMIT, &status).expect("the end");
        result.expect_err("no rate").to_string()
    }

    #[test]
    fn a_rate_that_is_known_to_1_ppm_ends_the_wait() {
        // Half a Hz of 1 GHz is 0.5 ppb.
        for (max_drift_ppb, is_known) in [(999, true), (1_000, false)] {
            let status = status(ClockState::Fast, Some(max_drift_ppb));
            let result = result_after(BEFORE_LIMIT, &status);
            assert_eq!(result.is_some(), is_known, "{result:?}");
        }
    }

    #[test]
    fn a_rate_that_is_less_well_known_is_used_at_the_limit() {
        let status = status(ClockState::Fast, Some(50_000));
        let rate = result_after(LIMIT, &status).expect("the end");
        assert_eq!(rate.expect("a rate").uncertainty_ppb, 50_000.5);
    }

    #[test]
    fn a_clock_without_a_rate_is_not_ready_at_the_limit() {
        let status = status(ClockState::Calibrating, None);
        assert_eq!(error_after(BEFORE_LIMIT, &status), None);
        assert_eq!(error_after(LIMIT, &status), Some(ErrorKind::NotReady));
    }

    #[test]
    fn a_gate_that_may_open_by_itself_is_waited_for_until_the_limit() {
        for reason in [
            Reason::KernelUndecided,
            Reason::Untested,
            Reason::SamplesTooOld,
            Reason::NoLine,
        ] {
            let status = status(ClockState::Fallback(reason), None);
            let closed = ErrorKind::GateClosed(reason);
            assert_eq!(error_after(BEFORE_LIMIT, &status), None);
            assert_eq!(error_after(LIMIT, &status), Some(closed));
        }
    }

    /// Symptoms: "let CounterTimeBuilder::settle allow more time" named a builder that the program
    /// did not have. A program that had one was to replace it, with its settings of the clock.
    #[test]
    fn the_text_of_a_gate_that_may_open_by_itself_has_the_call_that_waits_for_longer() {
        for reason in [
            Reason::KernelUndecided,
            Reason::SamplesTooOld,
            Reason::NoLine,
        ] {
            let expected = format!(
                "the counter can't be used: {reason} (after a wait of 2.0s); to wait for longer, \
                 add .settle(std::time::Duration::from_secs(60)) to the program's \
                 CounterTime::builder(); a program without one writes \
                 CounterTime::builder().settle(std::time::Duration::from_secs(60))\
                 .build_or_wall_time() in place of CounterTime::new_or_wall_time() (in \
                 criterion_group!, if it calls group)"
            );
            assert_eq!(text_at_limit(reason), expected);
        }
    }

    /// Symptom: after the longest wait, the text asked for a longer one.
    #[test]
    fn after_the_longest_wait_the_text_asks_for_no_longer_one() {
        for state in [
            ClockState::Calibrating,
            ClockState::Fallback(Reason::NoLine),
        ] {
            for (limit_ms, is_asked) in [(59_999, true), (60_000, false), (62_000, false)] {
                let waited = Duration::from_millis(limit_ms);
                let limit = WaitLimit {
                    settle: waited,
                    ..WaitLimit::for_cpus(1)
                };
                let status = status(state, None);
                let result = end_of_wait(&status, Probes::Full, waited, limit, Duration::ZERO);
                let text = result.expect("the end").expect_err("no rate").to_string();
                assert_eq!(text.contains(".settle("), is_asked, "{text}");
            }
        }
    }

    /// Symptom: the text said "the counters of the CPUs have not been compared yet", and no more.
    #[test]
    fn the_text_of_counters_that_are_still_compared_has_the_command_that_compares_none() {
        let text = text_at_limit(Reason::Untested);
        let why = " yet (after a wait of 2.0s; to compare them takes 20 ms a CPU or more); ";
        let end = "; on Linux, bind the program to one CPU that is not in isolcpus: \
                   taskset -c 1 cargo bench --bench NAME";
        assert!(text.contains(why) && text.ends_with(end), "{text}");
    }

    /// Symptom: "the counters of the CPUs have not been compared yet" was all that a user read.
    #[test]
    fn counters_that_minimal_probes_do_not_compare_are_not_waited_for() {
        let status = status(ClockState::Fallback(Reason::Untested), None);
        let (limit, compared) = (WaitLimit::for_cpus(1), Duration::ZERO);
        let result = end_of_wait(&status, Probes::Minimal, BEFORE_LIMIT, limit, compared);
        let text = result.expect("the end").expect_err("no rate").to_string();
        let end = "leave .probes(tickline::Probes::Minimal) out of its settings";
        assert!(text.ends_with(end), "{text}");
    }

    /// Symptom: where the clock compares the CPUs' counters, it measured with WallTime on machines
    /// with about 100 CPUs or more: the comparison of 128 takes longer than 2 s.
    #[test]
    fn the_default_limit_begins_after_a_comparison_of_many_cpus() {
        let compared = Duration::from_millis(20) * 127;
        assert_eq!(WaitLimit::for_cpus(128).after(compared), compared + SETTLE);
    }

    /// The time before the comparison, as of a kernel that is undecided, is added as well.
    #[test]
    fn the_comparison_lasts_until_it_was_last_seen() {
        let (before, now) = (Duration::from_secs(1), BEFORE_LIMIT);
        let comparing = ClockState::Fallback(Reason::Untested);
        assert_eq!(compared_until(before, comparing, now), now);
        assert_eq!(compared_until(before, ClockState::Calibrating, now), before);
    }

    #[test]
    fn a_comparison_that_does_not_end_ends_the_wait() {
        let limit = WaitLimit::for_cpus(128).after(Duration::from_secs(3_600));
        assert_eq!(limit, SETTLE + COMPARISON_OF_A_CPU * 128);
    }

    /// Else a noisy machine with many CPUs would wait for longer.
    #[test]
    fn without_a_comparison_the_default_limit_is_the_same_for_any_number_of_cpus() {
        assert_eq!(WaitLimit::for_cpus(128).after(Duration::ZERO), SETTLE);
    }

    #[test]
    fn a_limit_that_the_program_has_chosen_includes_a_comparison() {
        assert_eq!(WaitLimit::chosen(LIMIT).after(BEFORE_LIMIT), LIMIT);
    }

    #[test]
    fn a_gate_that_stays_closed_ends_the_wait_at_once() {
        let status = status(ClockState::Fallback(Reason::Denied), None);
        let closed = ErrorKind::GateClosed(Reason::Denied);
        assert_eq!(error_after(Duration::ZERO, &status), Some(closed));
    }

    #[test]
    fn a_gate_that_has_not_been_judged_is_waited_for() {
        let mut status = status(ClockState::Fallback(Reason::Denied), None);
        status.is_judged = false;
        assert_eq!(error_after(BEFORE_LIMIT, &status), None);
    }

    /// A session by the counter; `None`, with a printed line, if there is none.
    fn session() -> Option<Session> {
        let counter = counter()?;
        let pair_clock = PairClock::counter()?;
        let clock = Clock::builder()
            .driver(Driver::Thread)
            .line_per_cpu(LinePerCpu::Off)
            .build()
            .expect("a clock");
        Session::start(clock, pair_clock, counter, WaitLimit::chosen(LIMIT))
            .inspect_err(|error| skip(error.to_string()))
            .ok()
    }

    #[test]
    fn the_first_sample_is_converted_with_the_cost_of_a_pair() {
        let Some(session) = session() else { return };
        let scale = session.observations().scale;
        assert!(scale.cost_ticks > 0.0, "{scale:?}");
    }

    #[test]
    fn a_session_has_the_resolution_of_its_counter() {
        if session().is_none() {
            return;
        }
        let counter = HardwareCounter::if_present().expect("the session's counter");
        let has_it = |session: Session| {
            session.observations().scale.resolution_ticks == resolution_ticks(&counter)
        };
        // On a busy CPU a measurement of the resolution may find a larger one.
        assert!((0..20).any(|_| session().is_some_and(has_it)));
    }

    /// Symptom: events of the clock in a benchmark's last half second were not reported.
    #[test]
    fn the_clock_iterates_once_more_at_the_end() {
        let Some(session) = session() else { return };
        // This only counts the clock's iterations; tickline's own tests check their results. The
        // clock's thread may be in an iteration, and may have published its line before `before`.
        let published = || session.clock.status().events.get(Event::Replacement);
        let has_iterated = (0..10).any(|_| {
            let before = published();
            session.final_incidents(None);
            published() > before
        });
        assert!(has_iterated, "no iteration at the end");
    }

    #[test]
    fn a_gate_that_closes_after_the_last_sample_is_reported_at_the_end() {
        let Some(session) = session() else { return };
        session.to_ns(&session.pair_clock.start().end(), 1);
        session.clock.disable();
        let incidents = session.final_incidents(None);
        assert!(
            incidents.events.contains(&(Event::GateClosed, 1)),
            "{incidents:?}"
        );
        let text = incidents.to_string();
        assert!(
            text.contains("while 1 samples were taken") && text.contains("gate_closed 1"),
            "{text}"
        );
    }

    #[test]
    fn the_rate_stays_while_a_gate_is_closed() {
        let Some(session) = session() else { return };
        let sample = session.pair_clock.start().end();
        session.to_ns(&sample, 1);
        session.clock.disable();
        let scale = session.observations().scale;
        assert_eq!(session.to_ns(&sample, 1), sample.to_ns(&scale));
        assert_eq!(session.observations().scale, scale);
        assert_eq!(session.incidents(None).untrusted_samples, 1);
    }

    /// The line is printed by the drop, so the test runs itself in a child process, and checks the
    /// child's output.
    #[test]
    fn an_event_after_the_last_sample_is_printed_when_the_measurement_is_dropped() {
        const CHILD: &str = "TICKLINE_CRITERION_TEST_CHILD";
        const TEST: &str = "measurement::session::tests::an_event_after_the_last_sample_is_printed_when_the_measurement_is_dropped";
        if std::env::var_os(CHILD).is_some() {
            let Some(session) = session() else { return };
            session.to_ns(&session.pair_clock.start().end(), 1);
            session.clock.disable();
            let settings = Settings {
                messages: Messages::Shown,
                counting: Counting::Undisturbed,
                output_directory: None,
            };
            drop(CounterTime::from_parts(
                session.pair_clock,
                Ok(session),
                settings,
            ));
            return;
        }
        let child = std::process::Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", TEST, "--nocapture"])
            .env(CHILD, "1")
            .output()
            .expect("a child");
        let text = String::from_utf8_lossy(&child.stderr).into_owned();
        assert!(child.status.success(), "{text}");
        if text.contains("SKIPPED: ") {
            return skip("as in the child");
        }
        let line = "tickline: while 1 samples were taken, the clock noticed events";
        assert!(
            text.contains(line) && text.contains("gate_closed 1"),
            "{text}"
        );
    }
}
