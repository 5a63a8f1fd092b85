//! The rate, the cost of a pair, and the incidents, by the samples and the clock's status so far.

use std::fmt;
use std::time::{Duration, Instant};

use tickline::{ClockState, Event, EventCounts, Status};

use crate::measurement::calibration::Scale;
use crate::measurement::lost_time::LostTime;
use crate::measurement::readings::Elapsed;
use crate::number::as_f64;

/// A sample with a larger uncertainty of the rate counts as untrusted. The limit is a tenth of the
/// smallest difference that criterion shows. The clock raises the uncertainty when a measurement
/// contradicts its rate.
const VAGUE_PPB: f64 = 100_000.0;

/// A sample counts as unmeasured if it may have lost this share of its time, or more.
const UNSURE_SHARE: f64 = 0.01;

/// The time for which a measured cost of a pair is used: it changes with the core's frequency.
const COST_LASTS: Duration = Duration::from_millis(500);

/// Events after which a sample, or the rate that converts it, may be wrong.
///
/// Three events are not among them:
///
/// - Recalibrations.
/// - Lines that were not renewed in time: the counter is still right.
/// - Bounds violated by some ns: they concern the rate's uncertainty, not a sample.
pub(crate) const DISTURBING: [Event; 5] = [
    Event::CounterReset,
    Event::Disruption,
    Event::RateChange,
    Event::UnixStep,
    Event::GateClosed,
];

#[derive(Debug)]
pub(crate) struct Observations {
    pub(crate) scale: Scale,
    cost_measured: Instant,
    /// The incidents, except the clock's events.
    incidents: Incidents,
    /// The clock's events at the start.
    start: EventCounts,
    /// The clock's state at the last sample.
    state: ClockState,
}

impl Observations {
    /// `start` must have been read with the scale's rate, or earlier.
    pub(crate) fn new(scale: Scale, start: EventCounts) -> Self {
        let (cost_measured, incidents) = (Instant::now(), Incidents::default());
        Self {
            scale,
            cost_measured,
            incidents,
            start,
            state: ClockState::Fast,
        }
    }

    /// Measures the cost of a pair again if the last measurement is old, but not while a gate is
    /// closed, because the counter may then be wrong.
    pub(crate) fn renew_cost(&mut self, measure: impl FnOnce() -> f64) {
        if self.state == ClockState::Fast && self.cost_measured.elapsed() >= COST_LASTS {
            self.scale.cost_ticks = measure();
            self.cost_measured = Instant::now();
        }
    }

    /// Counts a sample, and updates the rate. `status` must have been read after the sample.
    pub(crate) fn count(&mut self, sample: &Elapsed, status: &Status) {
        let before = std::mem::replace(&mut self.state, status.state);
        let incidents = &mut self.incidents;
        if self.state == ClockState::Fast {
            self.scale = self.scale.at_rate_of(status).unwrap_or(self.scale);
        } else {
            // While a gate is closed, the clock's rate may be wrong, so the scale is kept.
            incidents.fallback_state = Some(self.state);
        }
        let is_fast = [before, self.state] == [ClockState::Fast; 2];
        incidents.samples += 1;
        incidents.moved += u64::from(sample.moved > 0);
        incidents.backwards += u64::from(sample.backwards > 0);
        incidents.untrusted += u64::from(!is_fast || self.scale.uncertainty_ppb > VAGUE_PPB);
    }

    /// Counts the time that was lost in a sample, of which this time is left.
    pub(crate) fn count_lost(&mut self, lost: &LostTime, left_ns: f64) {
        if *lost == LostTime::default() {
            return;
        }
        let incidents = &mut self.incidents;
        incidents.waited.add(lost.waited_ns);
        incidents.interrupted.add(lost.other_ns);
        incidents.subtracted += u64::from(lost.known_ns() > 0);
        // A sample of which nothing is left counts, too.
        incidents.unmeasured += u64::from(as_f64(lost.unsure_ns) >= UNSURE_SHARE * left_ns);
    }

    /// The incidents up to the clock's events `now`.
    pub(crate) fn incidents(&self, now: &EventCounts) -> Incidents {
        let since = |event| now.get(event).saturating_sub(self.start.get(event));
        let counts = DISTURBING.map(|event| (event, since(event)));
        let events = counts.into_iter().filter(|(_, count)| *count > 0).collect();
        Incidents {
            events,
            ..self.incidents.clone()
        }
    }
}

/// Time that was subtracted for one cause: a part of [`Incidents`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Subtracted {
    /// The number of samples from which time was subtracted.
    pub samples: u64,
    /// The sum over these samples.
    pub time: Duration,
}

impl Subtracted {
    fn add(&mut self, ns: u64) {
        self.samples += u64::from(ns > 0);
        self.time = self.time.saturating_add(Duration::from_nanos(ns));
    }
}

/// The time, in ms.
impl fmt::Display for Subtracted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} ms", self.time.as_secs_f64() * 1e3)
    }
}

/// The incidents while samples were taken, since the [`CounterTime`](crate::CounterTime) was made.
/// The text is printed when the last clone of the `CounterTime` is dropped: a line for each kind of
/// incident that happened.
///
/// ```
/// use criterion::measurement::Measurement;
/// use tickline_criterion::CounterTime;
///
/// let time = CounterTime::builder().quiet().start_or_wall_time();
/// let _ns = time.to_f64(&time.end(time.start()));
/// let incidents = time.incidents();
/// println!("{incidents}"); // usually empty
/// assert!(incidents.moved <= incidents.samples);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Incidents {
    /// The number of samples that were converted into ns.
    pub samples: u64,
    /// The number of samples in which a pair of readings began on one CPU and ended on another. A
    /// move away and back, or between two pairs, does not count here. If no instruction reads the
    /// CPU's id with the counter (aarch64), the crate notices no move.
    pub moved: u64,
    /// The number of samples in which the counter stepped back: the CPUs' counters are
    /// unsynchronised, or were reset.
    pub backwards: u64,
    /// The number of samples during which the clock did not trust the counter. Before or after such
    /// a sample a gate was closed, there was no line, or the rate was uncertain by more than 100
    /// ppm. The counter still timed these samples.
    pub untrusted: u64,
    /// The number of samples from which time was subtracted, because the kernel took the CPU from
    /// the thread.
    pub subtracted: u64,
    /// The subtracted time in which the thread waited for a CPU, because other programs used it.
    pub waited: Subtracted,
    /// The subtracted time that the hypervisor, interrupts or a CPU quota took.
    pub interrupted: Subtracted,
    /// The number of samples that may have lost 1 % or more to others, but from which this time
    /// could not be subtracted, or not exactly. In such a sample the thread blocked, so that its
    /// waits may be the routine's own; or it waited for a CPU while other threads of the process
    /// ran, to which it may have yielded; or the sample began on another thread; or it has many
    /// short pairs with long pauses between them; or nothing of it was left.
    pub unmeasured: u64,
    /// The clock's state at the last sample after which its readings came from the OS clock.
    pub fallback_state: Option<ClockState>,
    /// The events of tickline's clock so far that can make samples wrong, with their numbers. The
    /// clock notices an event within half a second.
    pub events: Vec<(Event, u64)>,
}

impl fmt::Display for Incidents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            samples,
            moved,
            backwards,
            untrusted,
            subtracted,
            waited,
            interrupted,
            unmeasured,
            fallback_state,
            events,
        } = self;
        let mut lines = Vec::new();
        if *subtracted > 0 {
            let causes: Vec<String> = [
                (waited, "of waiting for a CPU"),
                (interrupted, "of the hypervisor, interrupts or a CPU quota"),
            ]
            .into_iter()
            .filter(|(part, _)| part.samples > 0)
            .map(|(part, cause)| format!("{part} {cause} (in {})", part.samples))
            .collect();
            lines.push(format!(
                "{subtracted} of {samples} samples lost the CPU, and this time was subtracted: {}",
                causes.join(", ")
            ));
        }
        if *unmeasured > 0 {
            lines.push(format!(
                "{unmeasured} of {samples} samples may contain 1 % or more of others' time, which could not be told from the routine's own: the thread blocked, other threads of the process ran, or the batches were short"
            ));
        }
        if *moved > 0 {
            lines.push(format!(
                "{moved} of {samples} samples contain a move of the thread to another CPU; to avoid that, bind it to one"
            ));
        }
        if *backwards > 0 {
            lines.push(format!(
                "{backwards} of {samples} samples are too short, because the counter stepped back: the results can't be trusted"
            ));
        }
        if *untrusted > 0 {
            let or_state = fallback_state.map_or(String::new(), |state| format!(", or {state}"));
            lines.push(format!(
                "{untrusted} of {samples} samples can't be trusted, because the counter's rate was not known{or_state}: repeat the benchmark"
            ));
        }
        if *samples > 0 && !events.is_empty() {
            let events: Vec<String> = events
                .iter()
                .map(|(event, count)| format!("{} {count}", event.code()))
                .collect();
            lines.push(format!(
                "while {samples} samples were taken, the clock noticed events by which some may be wrong: {}",
                events.join(", ")
            ));
        }
        f.write_str(&lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use tickline::{Clock, Driver, Reason};

    use super::*;
    use crate::measurement::readings::PairReads;
    use crate::message::Messages;

    const CLOSED: ClockState = ClockState::Fallback(Reason::DisabledByProgram);

    /// A clock's status with a counter of 2.5 GHz and open gates.
    fn status() -> Status {
        let clock = Clock::builder()
            .driver(Driver::Manual)
            .start()
            .expect("a clock");
        let mut status = clock.status();
        (status.state, status.frequency_hz, status.max_drift_ppb) =
            (ClockState::Fast, Some(2_500_000_000), Some(500));
        status
    }

    fn with(status: &Status, change: impl FnOnce(&mut Status)) -> Status {
        let mut status = status.clone();
        change(&mut status);
        status
    }

    fn observations(status: &Status) -> Observations {
        Observations::new(
            Scale::WALL.at_rate_of(status).expect("a rate"),
            status.events,
        )
    }

    #[test]
    fn the_rate_is_the_clocks_while_its_gates_are_open() {
        let open = status();
        let mut observations = observations(&open);
        let first = observations.scale;
        assert!((first.ns_per_tick - 0.4).abs() < 1e-12, "{first:?}");
        assert!((first.uncertainty_ppb - 500.2).abs() < 1e-6, "{first:?}");
        let faster = with(&open, |status| status.frequency_hz = Some(5_000_000_000));
        observations.count(
            &Elapsed::default(),
            &with(&faster, |status| status.state = CLOSED),
        );
        assert_eq!(observations.scale, first, "a rate behind a closed gate");
        observations.count(&Elapsed::default(), &faster);
        assert!(
            (observations.scale.ns_per_tick - 0.2).abs() < 1e-12,
            "{observations:?}"
        );
    }

    /// Symptom: after a change of rate, samples with the old rate were not reported. After a gate
    /// had closed, the counter that the clock did not trust timed all samples, and only one of them
    /// was reported.
    #[test]
    fn every_sample_counts_while_the_clock_does_not_trust_the_counter() {
        let open = status();
        let vague = with(&open, |status| status.max_drift_ppb = Some(800_000));
        let closed = with(&open, |status| status.state = CLOSED);
        let mut observations = observations(&open);
        // The sample after `closed` began while the gate was closed.
        for (status, untrusted) in [
            (&open, 0),
            (&vague, 1),
            (&vague, 2),
            (&open, 2),
            (&closed, 3),
            (&closed, 4),
            (&open, 5),
            (&open, 5),
        ] {
            observations.count(&Elapsed::default(), status);
            assert_eq!(
                observations.incidents.untrusted, untrusted,
                "{observations:?}"
            );
        }
        let text = observations.incidents(&open.events).to_string();
        let known =
            "5 of 8 samples can't be trusted, because the counter's rate was not known, or ";
        assert_eq!(text, format!("{known}{CLOSED}: repeat the benchmark"));
    }

    #[test]
    fn samples_with_a_moved_pair_count_once() {
        let open = status();
        let mut observations = observations(&open);
        let pair = |start_ticks, end_ticks, cpus| {
            Elapsed::from_pair(PairReads {
                start_ticks,
                end_ticks,
                cpus,
            })
        };
        let twice = pair(0, 10, Some((0, 1))) + pair(10, 20, Some((1, 0)));
        for sample in [twice, pair(0, 10, None), pair(10, 0, None)] {
            observations.count(&sample, &open);
        }
        assert_eq!(
            observations.incidents(&open.events).to_string(),
            "1 of 3 samples contain a move of the thread to another CPU; to avoid that, bind it to one\n\
             1 of 3 samples are too short, because the counter stepped back: the results can't be trusted"
        );
    }

    fn lost(waited_ns: u64, other_ns: u64, unsure_ns: u64) -> LostTime {
        LostTime {
            waited_ns,
            other_ns,
            unsure_ns,
        }
    }

    #[test]
    fn what_was_subtracted_is_said_with_its_cause_and_its_samples() {
        let open = status();
        let mut observations = observations(&open);
        for lost in [
            LostTime::default(),
            lost(1_500_000, 0, 40),
            lost(2_000_000, 30_000, 40),
        ] {
            observations.count(&Elapsed::default(), &open);
            observations.count_lost(&lost, 1e6);
        }
        assert_eq!(
            observations.incidents(&open.events).to_string(),
            "2 of 3 samples lost the CPU, and this time was subtracted: 3.500 ms of waiting for a CPU (in 2), \
             0.030 ms of the hypervisor, interrupts or a CPU quota (in 1)"
        );
    }

    #[test]
    fn a_cause_for_which_nothing_was_subtracted_is_not_named() {
        let mut observations = observations(&status());
        observations.count_lost(&lost(0, 1_000_000, 0), 1e6);
        let incidents = observations.incidents.to_string();
        assert!(
            !incidents.contains("waiting") && incidents.contains("1.000 ms of the hypervisor"),
            "{incidents}"
        );
    }

    #[test]
    fn a_sample_of_which_a_hundredth_is_unsure_counts_as_unmeasured() {
        let open = status();
        let mut observations = observations(&open);
        for (lost, unmeasured) in [
            (lost(0, 0, 9_999), 0),
            (lost(0, 0, 10_000), 1),
            (lost(500, 0, 10_000), 2),
        ] {
            observations.count(&Elapsed::default(), &open);
            observations.count_lost(&lost, 1e6);
            assert_eq!(observations.incidents.unmeasured, unmeasured, "{lost:?}");
        }
        let text = observations.incidents(&open.events).to_string();
        assert!(
            text.contains("\n2 of 3 samples may contain 1 % or more of others' time"),
            "{text}"
        );
    }

    #[test]
    fn a_sample_of_which_nothing_is_left_counts_as_unmeasured() {
        let mut observations = observations(&status());
        observations.count_lost(&lost(1_000, 0, 0), 0.0);
        assert_eq!(observations.incidents.unmeasured, 1);
    }

    #[test]
    fn nothing_is_said_without_an_incident_or_without_a_sample() {
        let quiet = Incidents {
            samples: 7,
            ..Incidents::default()
        };
        let unused = Incidents {
            events: vec![(Event::GateClosed, 1)],
            ..Incidents::default()
        };
        assert_eq!(
            [quiet, unused].map(|incidents| incidents.to_string()),
            ["", ""]
        );
    }

    #[test]
    fn only_the_clocks_events_since_the_start_are_incidents() {
        let clock = Clock::builder()
            .driver(Driver::Manual)
            .start()
            .expect("a clock");
        let close = || {
            clock.enable();
            clock.maintain(); // opens the gates that the facts allow
            clock.disable();
            clock.status().events
        };
        let (start, now) = (close(), close());
        let closed = |events: &EventCounts| events.get(Event::GateClosed);
        if closed(&start) == 0 || closed(&now) == closed(&start) {
            return Messages::Shown
                .print(&"SKIPPED: the counter does not serve here, so no gate closes");
        }
        let observations = Observations::new(Scale::WALL, start);
        assert_eq!(observations.incidents(&start).events, []);
        assert_eq!(
            observations.incidents(&now).events,
            [(Event::GateClosed, closed(&now) - closed(&start))]
        );
    }

    #[test]
    fn the_cost_of_a_pair_is_measured_again_when_it_is_old_and_no_gate_is_closed() {
        let open = status();
        let mut observations = observations(&open);
        let measured = |observations: &mut Observations| {
            observations.scale.cost_ticks = 0.0;
            observations.renew_cost(|| 7.0);
            observations.scale.cost_ticks
        };
        assert_eq!(measured(&mut observations), 0.0, "it is new");
        let Some(old) = Instant::now().checked_sub(COST_LASTS) else {
            return Messages::Shown.print(&"SKIPPED: the system has just started");
        };
        observations.cost_measured = old;
        observations.state = CLOSED;
        assert_eq!(measured(&mut observations), 0.0, "the counter may be wrong");
        observations.state = ClockState::Fast;
        assert_eq!(measured(&mut observations), 7.0);
        assert_eq!(measured(&mut observations), 0.0, "it is new again");
    }

    #[test]
    fn a_sample_counts_as_subtracted_only_if_time_was() {
        let mut observed = observations(&status());
        let unsure = LostTime {
            unsure_ns: 10,
            ..LostTime::default()
        };
        observed.count_lost(&unsure, 1e9);
        assert_eq!(observed.incidents.subtracted, 0);
        let waited = LostTime {
            waited_ns: 10,
            ..LostTime::default()
        };
        observed.count_lost(&waited, 1e9);
        assert_eq!(observed.incidents.subtracted, 1);
    }
}
