//! The rate, the cost of a pair, and the incidents, by the samples and the clock's status so far.

use std::fmt;
use std::time::{Duration, Instant};

use tickline::{ClockState, Event, EventCounts, Status};

use crate::measurement::calibration::{Rate, Scale};
use crate::measurement::lost_time::LostTime;
use crate::measurement::readings::Elapsed;
use crate::number::as_f64;

/// A sample with a larger uncertainty of the rate counts as untrusted. The limit is a tenth of the
/// smallest difference that criterion shows. The clock raises the uncertainty when a measurement
/// contradicts its rate.
const VAGUE_PPB: f64 = 100_000.0;

/// A sample counts as uncertain if it may have lost this share of its time, or more.
const UNSURE_SHARE: f64 = 0.01;

/// The time for which a measured cost of a pair is used: it changes with the core's frequency.
const COST_LASTS: Duration = Duration::from_millis(500);

/// The name of a benchmark that has none in criterion's files.
const UNNAMED: &str = "a benchmark that criterion has not stored";

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

/// The samples that criterion has converted for one of its benchers. They name a benchmark
/// ([`crate::criterion_folder`]).
#[derive(Debug)]
struct BencherSamples {
    /// The number of the bencher.
    bencher: u64,
    times_ns: Vec<f64>,
    has_untrusted: bool,
}

#[derive(Debug)]
pub(crate) struct Observations {
    pub(crate) scale: Scale,
    cost_measured: Instant,
    /// The incidents, except the clock's events.
    incidents: Incidents,
    /// The samples of the present bencher, and of earlier ones with untrusted samples.
    benchers: Vec<BencherSamples>,
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
            benchers: Vec::new(),
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
    /// Returns whether the sample can be trusted.
    pub(crate) fn count(&mut self, sample: &Elapsed, status: &Status) -> SampleTrust {
        let before = std::mem::replace(&mut self.state, status.state);
        // While a gate is closed, the clock's rate may be wrong, so the scale is kept.
        if self.state == ClockState::Fast {
            self.scale.rate = Rate::of(status).unwrap_or(self.scale.rate);
        }
        let incidents = &mut self.incidents;
        if sample.is_by_another_clock() {
            // Neither the counter nor its rate has a part in it.
            incidents.other_clock_samples += 1;
            return SampleTrust::Trusted;
        }
        if self.state != ClockState::Fast {
            incidents.fallback_state = Some(self.state);
        }
        let is_fast = [before, self.state] == [ClockState::Fast; 2];
        incidents.samples += 1;
        incidents.moved_samples += u64::from(sample.moved > 0);
        incidents.backwards_samples += u64::from(sample.backwards > 0);
        if is_fast && self.scale.rate.uncertainty_ppb <= VAGUE_PPB {
            SampleTrust::Trusted
        } else {
            incidents.untrusted_samples += 1;
            SampleTrust::Untrusted
        }
    }

    /// Adds what criterion gets for a sample of one of its benchers.
    pub(crate) fn add_time(&mut self, bencher: u64, ns: f64, trust: SampleTrust) {
        if self
            .benchers
            .last()
            .is_none_or(|last| last.bencher != bencher)
        {
            self.benchers.retain(|earlier| earlier.has_untrusted);
            self.benchers.push(BencherSamples {
                bencher,
                times_ns: Vec::new(),
                has_untrusted: false,
            });
        }
        if let Some(present) = self.benchers.last_mut() {
            present.times_ns.push(ns);
            present.has_untrusted |= trust == SampleTrust::Untrusted;
        }
    }

    /// The number of untrusted samples.
    pub(crate) const fn untrusted(&self) -> u64 {
        self.incidents.untrusted_samples
    }

    /// Counts the time that was lost in a sample, of which this time is left.
    pub(crate) fn count_lost(&mut self, lost: &LostTime, left_ns: f64) {
        if *lost == LostTime::default() {
            return;
        }
        let incidents = &mut self.incidents;
        incidents.run_delay.add(lost.waited_ns);
        incidents.steal_and_interrupts.add(lost.other_ns);
        incidents.corrected_samples += u64::from(lost.known_ns() > 0);
        // A sample of which nothing is left counts, too.
        incidents.uncertain_samples += u64::from(as_f64(lost.unsure_ns) >= UNSURE_SHARE * left_ns);
    }

    /// The incidents up to the clock's events `now`. `name` finds a benchmark's name by the times
    /// of its samples.
    pub(crate) fn incidents(
        &self,
        now: &EventCounts,
        name: impl Fn(&[f64]) -> Option<String>,
    ) -> Incidents {
        let since = |event| now.get(event).saturating_sub(self.start.get(event));
        let counts = DISTURBING.map(|event| (event, since(event)));
        let events = counts.into_iter().filter(|(_, count)| *count > 0).collect();
        let mut names: Vec<String> = Vec::new();
        for bencher in self.benchers.iter().filter(|one| one.has_untrusted) {
            let name = name(&bencher.times_ns).unwrap_or_else(|| UNNAMED.to_owned());
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Incidents {
            events,
            untrusted_benchmarks: names,
            ..self.incidents.clone()
        }
    }
}

/// Whether a sample was taken while the clock trusted the counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SampleTrust {
    Trusted,
    Untrusted,
}

/// Time that was subtracted for one cause: a part of [`Incidents`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubtractedTime {
    /// The number of samples from which time was subtracted.
    pub samples: u64,
    /// The sum over these samples.
    pub time: Duration,
}

impl SubtractedTime {
    fn add(&mut self, ns: u64) {
        self.samples += u64::from(ns > 0);
        self.time = self.time.saturating_add(Duration::from_nanos(ns));
    }
}

/// The time, in ms.
impl fmt::Display for SubtractedTime {
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
/// let time = CounterTime::builder().quiet().build_or_wall_time();
/// let _ns = time.to_f64(&time.end(time.start()));
/// let incidents = time.incidents();
/// println!("{incidents}"); // usually empty
/// assert!(incidents.moved_samples <= incidents.samples);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Incidents {
    /// The number of samples that were converted into ns, without the
    /// [`other_clock_samples`](Self::other_clock_samples).
    pub samples: u64,
    /// The number of samples that another clock has measured: routines of `iter_custom` have
    /// returned a `Duration`, by `.into()`. Nothing was subtracted from these samples, and no other
    /// incident counts them.
    pub other_clock_samples: u64,
    /// The number of samples in which a pair of readings began on one CPU and ended on another. A
    /// move away and back, or between two pairs, does not count here. If no instruction reads the
    /// CPU's id with the counter (aarch64), the crate notices no move.
    pub moved_samples: u64,
    /// The number of samples in which the counter stepped back: the CPUs' counters are
    /// unsynchronised, or were reset.
    pub backwards_samples: u64,
    /// The number of samples during which the clock did not trust the counter. Before or after such
    /// a sample a gate was closed, there was no line, or the rate was uncertain by more than 100
    /// ppm. The counter still timed these samples.
    pub untrusted_samples: u64,
    /// The benchmarks of the [`untrusted_samples`](Self::untrusted_samples), each once: criterion's
    /// names, which are in its files. For one that criterion has not stored, or not yet, a text
    /// says that. `--update-on-pass` keeps the baseline of these benchmarks
    /// ([`Verdicts::kept_baselines`](crate::results::Verdicts::kept_baselines)).
    pub untrusted_benchmarks: Vec<String>,
    /// The number of samples from which time was subtracted, because the kernel took the CPU from
    /// the thread.
    pub corrected_samples: u64,
    /// The subtracted time in which the thread could run and waited for a CPU, because other
    /// programs used it: the kernel's run delay.
    pub run_delay: SubtractedTime,
    /// The subtracted time that the hypervisor, interrupts or a CPU quota took.
    pub steal_and_interrupts: SubtractedTime,
    /// The number of samples that may have lost 1 % or more to others, but from which this time
    /// could not be subtracted, or not exactly. Such a sample has one of these properties:
    ///
    /// - The thread blocked in it, so its waits may be the routine's own.
    /// - The thread waited for a CPU while other threads of the process ran, to which it may have
    ///   yielded.
    /// - The sample began on another thread.
    /// - It has many short pairs with long pauses between them.
    /// - Nothing of it was left.
    pub uncertain_samples: u64,
    /// The clock's state at the last sample after which its readings came from the OS clock.
    pub fallback_state: Option<ClockState>,
    /// The events of tickline's clock so far that can make samples wrong, with their numbers. The
    /// clock notices an event within half a second.
    pub events: Vec<(Event, u64)>,
}

impl Incidents {
    /// The line about the time that was subtracted.
    fn corrected_line(&self) -> String {
        let causes: Vec<String> = [
            (self.run_delay, "of waiting for a CPU"),
            (
                self.steal_and_interrupts,
                "of the hypervisor, interrupts or a CPU quota",
            ),
        ]
        .into_iter()
        .filter(|(part, _)| part.samples > 0)
        .map(|(part, cause)| format!("{part} {cause} (in {})", part.samples))
        .collect();
        format!(
            "{} of {} samples lost the CPU, and this time was subtracted: {}",
            self.corrected_samples,
            self.samples,
            causes.join(", ")
        )
    }

    /// The line about samples that can't be trusted.
    fn untrusted_line(&self) -> String {
        let or_state = self
            .fallback_state
            .map_or(String::new(), |state| format!(", or {state}"));
        format!(
            "{} of {} samples can't be trusted, because the counter's rate was not known{or_state}; repeat these \
             benchmarks: {}",
            self.untrusted_samples,
            self.samples,
            self.untrusted_benchmarks.join(", ")
        )
    }

    /// The line about the clock's events.
    fn events_line(&self) -> String {
        let events = self
            .events
            .iter()
            .map(|(event, count)| format!("{} {count}", event.code()));
        format!(
            "while {} samples were taken, the clock noticed events by which some may be wrong: {}",
            self.samples,
            events.collect::<Vec<_>>().join(", ")
        )
    }
}

impl fmt::Display for Incidents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let samples = self.samples;
        let mut lines = Vec::new();
        if self.corrected_samples > 0 {
            lines.push(self.corrected_line());
        }
        if self.uncertain_samples > 0 {
            lines.push(format!(
                "{} of {samples} samples may contain 1 % or more of others' time, which could not be told from the \
                 routine's own: the thread blocked, other threads of the process ran, or the batches were short",
                self.uncertain_samples
            ));
        }
        if self.moved_samples > 0 {
            lines.push(format!(
                "{} of {samples} samples contain a move of the thread to another CPU; to avoid that, bind it to one",
                self.moved_samples
            ));
        }
        if self.backwards_samples > 0 {
            lines.push(format!(
                "{} of {samples} samples are too short, because the counter stepped back: the results can't be trusted",
                self.backwards_samples
            ));
        }
        if self.untrusted_samples > 0 {
            lines.push(self.untrusted_line());
        }
        if samples > 0 && !self.events.is_empty() {
            lines.push(self.events_line());
        }
        if self.other_clock_samples > 0 {
            lines.push(format!(
                "{} samples are by another clock (`iter_custom` with `.into()`): nothing was subtracted; see \
                 `CounterTime`",
                self.other_clock_samples
            ));
        }
        f.write_str(&lines.join("\n"))
    }
}

#[cfg(test)]
mod tests;
