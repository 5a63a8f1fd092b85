//! Measures the offset of tickline from CLOCK_MONOTONIC, and compares it with the bounds that
//! tickline claims, over some seconds.

use std::thread;
use std::time::Duration;

use serde::Serialize;
use tickline::{Clock, ClockState, Instant};
use tickline_core::units::ticks_between;

use super::calls::monotonic_ns;
use super::narrowest;
use super::stopwatch::Stopwatch;
use crate::float::{as_f64, signed_f64};

/// The time between two points.
const INTERVAL: Duration = Duration::from_millis(20);

/// The most points of a track, about 100 bytes of JSON each. A track of more than 100 s has more
/// time between two points.
const MAX_POINTS: u32 = 5_000;

/// The number of brackets for one sample, of which the narrowest counts.
const BRACKETS: u32 = 32;

/// One sample: a reading of tickline between two reads of CLOCK_MONOTONIC.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct OffsetSample {
    /// Time since the start, s.
    pub(crate) at_s: f64,
    /// The reading minus the middle of the two reads, ns.
    pub(crate) offset_ns: f64,
    /// Half the time between the two reads, ns: the uncertainty of the offset.
    pub(crate) bracket_ns: f64,
    /// Claimed bound: CLOCK_MONOTONIC is at most this far before the reading, ns.
    pub(crate) bound_before_ns: u64,
    /// Claimed bound: CLOCK_MONOTONIC is at most this far after the reading, ns.
    pub(crate) bound_after_ns: u64,
    /// Whether the reading lies between the two reads.
    pub(crate) inside_bracket: bool,
    /// Whether the two reads contradict the claimed bounds.
    pub(crate) bound_violated: bool,
    /// The clock's state at the reading.
    #[serde(skip)]
    pub(crate) state: ClockState,
    /// The CPU on which `watch` took the sample; `None` for a sample of the main thread.
    #[serde(skip)]
    pub(crate) cpu: Option<u32>,
}

impl OffsetSample {
    /// The ends of the claimed bound, ns from `CLOCK_MONOTONIC`, which is between them unless the
    /// bound is violated.
    pub(crate) fn bound_ends_ns(&self) -> [f64; 2] {
        [
            self.offset_ns - as_f64(self.bound_before_ns),
            self.offset_ns + as_f64(self.bound_after_ns),
        ]
    }

    /// The distance of the farther end of the claimed bound from `CLOCK_MONOTONIC`, ns.
    pub(crate) fn extent_ns(&self) -> f64 {
        let [from, to] = self.bound_ends_ns();
        from.abs().max(to.abs())
    }
}

/// Offset and bound over time, with their extremes.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct TrackSummary {
    #[serde(flatten)]
    pub(crate) all: OffsetSummary,
    /// The samples, in the order of time.
    pub(crate) points: Vec<OffsetSample>,
}

impl TrackSummary {
    pub(crate) fn new(points: Vec<OffsetSample>) -> Self {
        let mut all = OffsetSummary::default();
        for sample in &points {
            all.add(sample);
        }
        Self { all, points }
    }

    /// The extremes in words.
    pub(crate) fn summary(&self) -> String {
        let all = &self.all;
        format!(
            "{} samples: largest offset {:.0} ns, largest bound {} ns, outside their bracket {}, bound violated {}",
            all.samples,
            all.largest_offset_ns,
            all.largest_bound_ns,
            all.outside_bracket,
            all.bound_violated
        )
    }
}

/// The extremes of some samples, and their number.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct OffsetSummary {
    /// Number of samples.
    pub(crate) samples: u64,
    /// Number of samples that the counter served.
    pub(crate) fast_samples: u64,
    /// The lowest offset from CLOCK_MONOTONIC, ns.
    pub(crate) least_offset_ns: f64,
    /// The highest offset from CLOCK_MONOTONIC, ns.
    pub(crate) most_offset_ns: f64,
    /// The largest offset of either sign, ns.
    pub(crate) largest_offset_ns: f64,
    /// The largest claimed bound to either side, ns.
    pub(crate) largest_bound_ns: u64,
    /// Number of samples whose reading was outside of its bracket.
    pub(crate) outside_bracket: u64,
    /// Number of samples that contradict the claimed bound.
    pub(crate) bound_violated: u64,
}

impl OffsetSummary {
    pub(crate) fn add(&mut self, sample: &OffsetSample) {
        if self.samples == 0 {
            self.least_offset_ns = sample.offset_ns;
            self.most_offset_ns = sample.offset_ns;
        }
        self.samples += 1;
        self.fast_samples += u64::from(sample.state == ClockState::Fast);
        self.least_offset_ns = self.least_offset_ns.min(sample.offset_ns);
        self.most_offset_ns = self.most_offset_ns.max(sample.offset_ns);
        self.largest_offset_ns = self.largest_offset_ns.max(sample.offset_ns.abs());
        self.largest_bound_ns = self
            .largest_bound_ns
            .max(sample.bound_before_ns)
            .max(sample.bound_after_ns);
        self.outside_bracket += u64::from(!sample.inside_bracket);
        self.bound_violated += u64::from(sample.bound_violated);
    }
}

/// Takes a sample every 20 ms for `duration`, or less often if `duration` is more than 100 s.
/// `progress` receives the finished share.
pub(crate) fn track(duration: Duration, mut progress: impl FnMut(f64)) -> TrackSummary {
    let clock = Clock::global();
    let start = Stopwatch::start();
    let interval = INTERVAL.max(duration / MAX_POINTS);
    let mut points = Vec::new();
    loop {
        let at_s = start.elapsed().as_secs_f64();
        let share = at_s / duration.as_secs_f64();
        if share >= 1.0 {
            return TrackSummary::new(points);
        }
        progress(share);
        points.push(sample(clock, at_s));
        thread::sleep(interval);
    }
}

/// Takes a sample: the narrowest of some brackets.
pub(crate) fn sample(clock: &Clock, at_s: f64) -> OffsetSample {
    let (before, reading, after) = narrowest(BRACKETS, monotonic_ns, || clock.reading());
    let times = [reading.earliest(), reading.time(), reading.latest()].map(Instant::as_nanos);
    let state = if reading.is_from_counter() {
        ClockState::Fast
    } else {
        match clock.status().state {
            // The clock has published a line since the reading.
            ClockState::Fast | ClockState::Disrupted => ClockState::Calibrating,
            state => state,
        }
    };
    offset_sample(at_s, before, times, after, state)
}

fn offset_sample(
    at_s: f64,
    before: u64,
    [earliest, ns, latest]: [u64; 3],
    after: u64,
    state: ClockState,
) -> OffsetSample {
    let half_ns = as_f64(after.saturating_sub(before)) / 2.0;
    OffsetSample {
        at_s,
        offset_ns: signed_f64(ticks_between(before, ns)) - half_ns,
        bracket_ns: half_ns,
        bound_before_ns: ns - earliest,
        bound_after_ns: latest - ns,
        inside_bracket: (before..=after).contains(&ns),
        bound_violated: earliest > after || latest < before,
        state,
        cpu: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::example;

    #[test]
    fn a_summary_has_the_extremes_of_its_samples_and_their_counts() {
        let usual = example::offset_sample(0.0, 5.0);
        let mut summary = OffsetSummary::default();
        summary.add(&OffsetSample {
            state: ClockState::Calibrating,
            ..usual
        });
        summary.add(&OffsetSample {
            offset_ns: -9.0,
            bound_before_ns: 30,
            bound_after_ns: 40,
            inside_bracket: false,
            bound_violated: true,
            ..usual
        });
        let expected = OffsetSummary {
            samples: 2,
            fast_samples: 1,
            least_offset_ns: -9.0,
            most_offset_ns: 5.0,
            largest_offset_ns: 9.0,
            largest_bound_ns: 40,
            outside_bracket: 1,
            bound_violated: 1,
        };
        assert_eq!(summary, expected);
    }

    /// Symptom: the lowest offset was 0, which was never seen.
    #[test]
    fn a_summary_of_positive_offsets_has_no_0() {
        let mut summary = OffsetSummary::default();
        summary.add(&example::offset_sample(0.0, 5.0));
        summary.add(&example::offset_sample(1.0, 9.0));
        let ends = (summary.least_offset_ns, summary.most_offset_ns);
        assert_eq!(ends, (5.0, 9.0));
    }

    /// A sample of a reading of 1,010 ns that is bounded by 1,000 and 1,025.
    fn sample_between(before: u64, after: u64) -> OffsetSample {
        offset_sample(0.5, before, [1_000, 1_010, 1_025], after, ClockState::Fast)
    }

    #[test]
    fn an_offset_is_the_distance_from_the_middle_of_the_bracket() {
        let sample = sample_between(990, 1_020);
        assert!((sample.offset_ns - 5.0).abs() < 1e-9 && (sample.bracket_ns - 15.0).abs() < 1e-9);
        assert!(sample.inside_bracket);
    }

    #[test]
    fn a_sample_has_the_bound_on_either_side() {
        let sample = sample_between(990, 1_020);
        assert_eq!((sample.bound_before_ns, sample.bound_after_ns), (10, 15));
    }

    #[test]
    fn a_reading_outside_its_bracket_may_be_within_its_bound() {
        let sample = sample_between(1_015, 1_020);
        assert!(!sample.inside_bracket && !sample.bound_violated);
    }

    #[test]
    fn a_sample_inside_of_its_bracket_is_not_counted_as_outside() {
        let mut summary = OffsetSummary::default();
        summary.add(&example::offset_sample(0.0, 5.0));
        assert_eq!(summary.outside_bracket, 0);
    }

    #[test]
    fn the_extremes_are_told_in_words() {
        let track = TrackSummary {
            all: OffsetSummary {
                samples: 7,
                largest_offset_ns: 9.4,
                largest_bound_ns: 40,
                outside_bracket: 2,
                bound_violated: 1,
                ..OffsetSummary::default()
            },
            points: Vec::new(),
        };
        assert_eq!(
            track.summary(),
            "7 samples: largest offset 9 ns, largest bound 40 ns, outside their bracket 2, bound violated 1"
        );
    }

    #[test]
    fn a_bound_is_violated_if_it_is_wholly_outside_of_the_bracket() {
        for (reading, expected) in [
            ([95, 100, 105], false),
            ([110, 115, 120], false),
            ([111, 115, 120], true),
            ([70, 80, 90], false),
            ([70, 80, 89], true),
        ] {
            let sample = offset_sample(0.0, 90, reading, 110, ClockState::Fast);
            assert_eq!(sample.bound_violated, expected, "{reading:?}");
        }
    }
}
