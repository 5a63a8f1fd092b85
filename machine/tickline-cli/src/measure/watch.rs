//! Samples the global clock at a fixed interval, and summarises the samples. The main thread takes
//! samples on the CPU on which it runs. Another thread takes a sample on one CPU after the other.

use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;
use tickline::exchange;
use tickline::{Clock, ClockState, EventCounts, Status};
use tickline_utc::{UtcReading, UtcUnknown};

use super::admitted_counter;
use super::changes::{Change, ChangeDetector};
use super::track::{self, OffsetSample, OffsetSummary};
use super::utc::utc_now;

/// The time over which the skew is measured, s. A sample has an uncertainty of 10 or 20 ns, so the
/// skew has an uncertainty of some ppb.
pub(crate) const SKEW_S: f64 = 10.0;

/// The least number of samples for a skew.
const MIN_SKEW_SAMPLES: usize = 3;

/// The count of each event, by its code.
pub(crate) type CountsByCode = BTreeMap<&'static str, u64>;

fn events_since(earlier: &EventCounts, now: &EventCounts) -> CountsByCode {
    now.iter()
        .map(|(event, count)| (event.code(), count.saturating_sub(earlier.get(event))))
        .collect()
}

/// One sample, and the clock's status at that time.
#[derive(Debug, Clone)]
pub(crate) struct WatchSample {
    /// Unix time, s.
    pub(crate) unix_s: f64,
    pub(crate) offset: OffsetSample,
    /// The growth of the offset over the last 10 s in which the counter served, ppb; `None` with
    /// fewer than three samples.
    pub(crate) skew_ppb: Option<f64>,
    pub(crate) status: Status,
    pub(crate) utc: Result<UtcReading, UtcUnknown>,
    /// The count of each event since the start.
    pub(crate) events: CountsByCode,
    /// The count of each event since the sample before.
    pub(crate) new_events: CountsByCode,
    /// The changes of the machine's clocks since the sample before.
    pub(crate) changes: Vec<Change>,
    /// The samples on single CPUs since the sample before, in the order of time.
    pub(crate) cpus: Vec<OffsetSample>,
}

/// The sums for a line by least squares through points (s, ns). A slope in ns per s is in ppb.
#[derive(Debug, Clone, Copy, Default)]
struct LeastSquares {
    count: f64,
    at: f64,
    value: f64,
    at_at: f64,
    at_value: f64,
}

impl LeastSquares {
    fn add(&mut self, at_s: f64, value_ns: f64) {
        self.count += 1.0;
        self.at += at_s;
        self.value += value_ns;
        self.at_at += at_s * at_s;
        self.at_value += at_s * value_ns;
    }

    /// The slope, ppb; `None` if the points do not define a line.
    fn slope_ppb(&self) -> Option<f64> {
        let spread = self.count * self.at_at - self.at * self.at;
        (self.count >= 3.0 && spread > 0.0)
            .then(|| (self.count * self.at_value - self.at * self.value) / spread)
    }
}

/// Takes the samples, and keeps their summary.
#[derive(Debug)]
pub(crate) struct Sampler {
    start: Instant,
    events_at_start: EventCounts,
    /// The counts of the events at the last sample.
    last_events: EventCounts,
    recent: VecDeque<(f64, f64)>,
    /// The samples from the thread that samples one CPU after the other.
    by_cpu: Receiver<OffsetSample>,
    changes: ChangeDetector,
    pub(crate) summary: WatchSummary,
}

impl Sampler {
    /// Starts a thread that samples each of `cpus` every `interval`. The thread may have to wait
    /// for a busy CPU, so the main thread does not join it. It ends when the receiver is dropped.
    pub(crate) fn new(cpus: Vec<u32>, interval: Duration) -> Self {
        let start = Instant::now();
        // The thread waits if the main thread is four rounds behind, as behind a full pipe.
        let (sender, by_cpu) = sync_channel(4 * cpus.len());
        let run = move || {
            loop {
                let round = Instant::now();
                let mut samples = cpus.iter().filter_map(|cpu| sample_on(*cpu, start));
                if samples.any(|sample| sender.send(sample).is_err()) {
                    return;
                }
                thread::sleep(interval.saturating_sub(round.elapsed()));
            }
        };
        // If the thread cannot be started, there are no samples on single CPUs.
        thread::Builder::new()
            .name("tickline-samples".to_owned())
            .spawn(run)
            .ok();
        let events_at_start = Clock::global().status().events;
        Self {
            start,
            events_at_start,
            last_events: events_at_start,
            recent: VecDeque::new(),
            by_cpu,
            changes: ChangeDetector::new(admitted_counter().ok()),
            summary: WatchSummary {
                interval_s: interval.as_secs_f64(),
                ..WatchSummary::default()
            },
        }
    }

    pub(crate) fn sample(&mut self) -> WatchSample {
        let clock = Clock::global();
        let at_s = self.start.elapsed().as_secs_f64();
        let offset = track::sample(clock, at_s);
        let status = clock.status();
        renew_recent(&mut self.recent, &offset);
        let mut slope = LeastSquares::default();
        for (at_s, offset_ns) in &self.recent {
            slope.add(*at_s, *offset_ns);
        }
        let new_events = events_since(&self.last_events, &status.events);
        self.last_events = status.events;
        let unix = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let sample = WatchSample {
            unix_s: unix.as_secs_f64(),
            offset,
            skew_ppb: slope.slope_ppb(),
            events: events_since(&self.events_at_start, &status.events),
            new_events,
            changes: self.changes.since_last(at_s, status.frequency_hz),
            cpus: self.by_cpu.try_iter().collect(),
            utc: utc_now(),
            status,
        };
        self.summary.add(&sample.offset);
        for on_cpu in &sample.cpus {
            self.summary.add(on_cpu);
        }
        self.summary.events.clone_from(&sample.events);
        let space = MAX_CHANGES.saturating_sub(self.summary.changes.len());
        self.summary
            .changes
            .extend(sample.changes.iter().take(space).cloned());
        sample
    }

    /// The summary. It includes the samples on single CPUs that came after the last sample of this
    /// thread. Without them, the CPUs' states would be an interval old.
    pub(crate) fn finish(mut self, ended_by: Ending) -> WatchSummary {
        for sample in self.by_cpu.try_iter() {
            self.summary.add(&sample);
        }
        WatchSummary {
            ended_by,
            watched_s: self.start.elapsed().as_secs_f64(),
            ..self.summary
        }
    }
}

/// Adds a sample to those for the skew (s, ns), and removes those that are older than [`SKEW_S`],
/// but keeps as many as a skew needs.
fn renew_recent(recent: &mut VecDeque<(f64, f64)>, sample: &OffsetSample) {
    if sample.state != ClockState::Fast {
        // A skew is measured only while the counter serves.
        return recent.clear();
    }
    recent.push_back((sample.at_s, sample.offset_ns));
    while recent.len() > MIN_SKEW_SAMPLES && recent[0].0 < sample.at_s - SKEW_S {
        recent.pop_front();
    }
}

/// Takes a sample on `cpu`; `None` if the thread cannot run there now.
fn sample_on(cpu: u32, start: Instant) -> Option<OffsetSample> {
    exchange::on_cpu(cpu, move || OffsetSample {
        cpu: Some(cpu),
        ..track::sample(Clock::global(), start.elapsed().as_secs_f64())
    })
}

/// The most changes of the machine's clocks that the summary keeps.
const MAX_CHANGES: usize = 1_000;

/// Why `watch` ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ending {
    /// The requested time has passed.
    #[default]
    Time,
    /// A signal has stopped it.
    Stopped,
    /// The reader of standard output has closed it.
    ReaderLeft,
}

/// The summary of all samples.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct WatchSummary {
    /// Time between two samples, s.
    pub(crate) interval_s: f64,
    /// Time from the first sample to the end, s.
    pub(crate) watched_s: f64,
    /// Why `watch` ended.
    pub(crate) ended_by: Ending,
    #[serde(flatten)]
    pub(crate) all: OffsetSummary,
    /// The growth of the offset while the counter served, ppb; null with fewer than three such
    /// samples.
    pub(crate) skew_ppb: Option<f64>,
    #[serde(skip)]
    slope: LeastSquares,
    /// The count of each event during the watch.
    pub(crate) events: CountsByCode,
    /// The first 1,000 changes of the machine's clocks: another clocksource, and jumps of the
    /// counter, such as when a guest is moved to another host; absent if there were none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) changes: Vec<Change>,
    /// The samples on single CPUs.
    pub(crate) cpus: Vec<CpuSummary>,
}

impl WatchSummary {
    fn add(&mut self, sample: &OffsetSample) {
        if let Some(cpu) = sample.cpu {
            let index = self
                .cpus
                .binary_search_by_key(&cpu, |known| known.cpu)
                .unwrap_or_else(|index| {
                    self.cpus.insert(
                        index,
                        CpuSummary {
                            cpu,
                            ..CpuSummary::default()
                        },
                    );
                    index
                });
            let summary = &mut self.cpus[index];
            summary.state = sample.state.code();
            summary.last_offset_ns = sample.offset_ns;
            return summary.offsets.add(sample);
        }
        self.all.add(sample);
        if sample.state == ClockState::Fast {
            self.slope.add(sample.at_s, sample.offset_ns);
            self.skew_ppb = self.slope.slope_ppb();
        }
    }
}

/// The summary of the samples on one CPU.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct CpuSummary {
    /// The CPU's number.
    pub(crate) cpu: u32,
    /// The state of the clock on this CPU at the end.
    pub(crate) state: &'static str,
    #[serde(skip)]
    pub(crate) last_offset_ns: f64,
    #[serde(flatten)]
    pub(crate) offsets: OffsetSummary,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::example::offset_sample;

    #[test]
    fn a_slope_is_that_of_the_points() {
        let mut slope = LeastSquares::default();
        assert_eq!(slope.slope_ppb(), None);
        for at in 0..50_i32 {
            let noise = if at % 2 == 0 { 1.0 } else { -1.0 };
            slope.add(f64::from(at), 40.0 - 3.0 * f64::from(at) + noise);
        }
        assert!(
            (slope.slope_ppb().unwrap() + 3.0).abs() < 0.01,
            "{:?}",
            slope.slope_ppb()
        );
        let mut still = LeastSquares::default();
        for _ in 0..5 {
            still.add(1.0, 2.0);
        }
        assert_eq!(still.slope_ppb(), None, "points at one time make no line");
    }

    #[test]
    fn the_summary_has_each_cpu_once_and_in_order() {
        let mut watch = WatchSummary::default();
        for cpu in [3, 1, 2, 1] {
            watch.add(&OffsetSample {
                cpu: Some(cpu),
                ..offset_sample(0.0, f64::from(cpu))
            });
        }
        let cpus = watch.cpus.iter();
        let found: Vec<_> = cpus.map(|cpu| (cpu.cpu, cpu.offsets.samples)).collect();
        assert_eq!(found, [(1, 2), (2, 1), (3, 1)]);
    }

    #[test]
    fn only_samples_by_the_counter_count_for_the_skew() {
        let mut watch = WatchSummary::default();
        for (at_s, offset_ns, state) in [
            (0.0, 0.0, ClockState::Fast),
            (1.0, 900.0, ClockState::Calibrating),
            (2.0, 10.0, ClockState::Fast),
            (4.0, 20.0, ClockState::Fast),
        ] {
            watch.add(&OffsetSample {
                state,
                ..offset_sample(at_s, offset_ns)
            });
        }
        assert_eq!((watch.all.samples, watch.all.fast_samples), (4, 3));
        let skew_ppb = watch.skew_ppb.unwrap();
        assert!((skew_ppb - 5.0).abs() < 1e-6, "{skew_ppb}");
    }

    /// Symptom: at its end `watch --duration 2s` reported "calibrating" for every CPU, although the
    /// counter served. Cause: it lost the CPUs' samples after the main thread's last sample.
    #[test]
    fn a_cpu_sample_after_the_last_one_counts() {
        let sample = |at_s, state| OffsetSample {
            state,
            cpu: Some(3),
            ..offset_sample(at_s, 1.0)
        };
        let mut watch = WatchSummary::default();
        watch.add(&sample(0.0, ClockState::Calibrating));
        watch.add(&sample(1.0, ClockState::Fast));
        assert_eq!(
            (watch.cpus[0].state, watch.cpus[0].offsets.samples),
            ("fast", 2)
        );
    }

    #[test]
    fn the_summary_says_how_long_it_was_watched_and_why_it_ended() {
        const AT_LEAST: Duration = Duration::from_millis(20);
        let sampler = Sampler::new(Vec::new(), Duration::from_secs(1));
        std::thread::sleep(AT_LEAST);
        let watch = sampler.finish(Ending::Stopped);
        assert!(watch.watched_s >= AT_LEAST.as_secs_f64(), "{watch:?}");
        assert_eq!(watch.ended_by, Ending::Stopped);
    }

    /// The times of the samples that are kept for the skew after the last of these, s. The counter
    /// serves at each.
    fn kept_s<const N: usize>(times_s: [f64; N]) -> Vec<f64> {
        let mut recent = VecDeque::new();
        for at_s in times_s {
            renew_recent(&mut recent, &offset_sample(at_s, 0.0));
        }
        recent.into_iter().map(|(at_s, _)| at_s).collect()
    }

    /// The skew is that of the newest samples.
    #[test]
    fn samples_of_more_than_ten_seconds_ago_do_not_count_for_the_skew() {
        let kept_s = kept_s([88.0, 89.0, 91.0, 92.0, 93.0, 100.0]);
        assert_eq!(kept_s, [91.0, 92.0, 93.0, 100.0]);
    }

    #[test]
    fn a_sample_of_ten_seconds_ago_counts_for_the_skew() {
        let times_s = [90.0, 92.0, 94.0, 100.0];
        assert_eq!(kept_s(times_s), times_s);
    }

    /// In the first seconds of a watch, the limit is before its start.
    #[test]
    fn every_sample_of_the_first_ten_seconds_counts_for_the_skew() {
        let times_s = [0.0, 0.1, 0.2, 0.3, 5.0];
        assert_eq!(kept_s(times_s), times_s);
    }

    /// Otherwise a watch with an interval of 10 s would never report a skew.
    #[test]
    fn as_many_samples_as_a_skew_needs_stay_however_old_they_are() {
        assert_eq!(kept_s([0.0, 20.0, 40.0, 60.0]), [20.0, 40.0, 60.0]);
    }

    #[test]
    fn a_sample_counts_for_the_skew_with_its_offset() {
        let mut recent = VecDeque::new();
        renew_recent(&mut recent, &offset_sample(2.0, 7.0));
        assert_eq!(recent, [(2.0, 7.0)]);
    }

    #[test]
    fn no_sample_counts_for_the_skew_from_before_the_counter_stopped_serving() {
        let mut recent = VecDeque::from([(1.0, 0.0), (2.0, 0.0)]);
        let stopped = OffsetSample {
            state: ClockState::Calibrating,
            ..offset_sample(3.0, 0.0)
        };
        renew_recent(&mut recent, &stopped);
        assert_eq!(recent, []);
    }

    /// Whether or not the counter serves.
    #[test]
    fn a_sampler_keeps_no_old_sample_for_the_skew() {
        let mut sampler = Sampler::new(Vec::new(), Duration::from_secs(1));
        let old = (-2.0 * SKEW_S, 0.0);
        sampler.recent = std::iter::repeat_n(old, 2 * MIN_SKEW_SAMPLES).collect();
        sampler.sample();
        assert!(
            sampler.recent.len() <= MIN_SKEW_SAMPLES,
            "{:?}",
            sampler.recent
        );
    }
}
