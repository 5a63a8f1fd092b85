//! Runs of a scenario, and assertions on the parts of a run.

use core::ops::{Bound, RangeBounds, RangeInclusive};

use tickline_core::shared::Event;
use tickline_sim::{Counts, RunReport, Scenario, TrackPoint, run_tracked};

/// The number of seeds that a test tries. A build without optimisation takes several times as long,
/// and tries fewer.
pub(crate) const SEEDS: u64 = if cfg!(debug_assertions) { 1 } else { 10 };

const MS: u64 = 1_000_000;

/// A run of a scenario, with a point of its track every 5 ms.
pub(crate) struct Run {
    scenario: Scenario,
    report: RunReport,
}

/// A part of a run. If each CPU has a line, each assertion holds for each CPU's points.
pub(crate) struct Part {
    name: String,
    cpus: Vec<Vec<TrackPoint>>,
}

/// The runs of a scenario, one for each seed.
pub(crate) fn runs(scenario: &Scenario) -> impl Iterator<Item = Run> {
    (0..SEEDS).map(|seed| {
        let scenario = Scenario {
            seed,
            ..scenario.clone()
        };
        let report = run_tracked(&scenario, 5 * MS)
            .unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        Run { scenario, report }
    })
}

impl Run {
    /// The points in these ms of simulated time.
    #[track_caller]
    pub(crate) fn part_ms(&self, times_ms: impl RangeBounds<u64>) -> Part {
        let ns = |bound: Bound<&u64>| bound.map(|ms| ms * MS);
        let times_ns = (ns(times_ms.start_bound()), ns(times_ms.end_bound()));
        let cpus = if self.scenario.clock.per_cpu {
            self.scenario.machine.cpus as usize
        } else {
            1
        };
        let points_of = |cpu| {
            let points = self.report.track.iter().copied();
            let part = points.filter(|point| point.cpu == cpu && times_ns.contains(&point.at_ns));
            part.collect::<Vec<_>>()
        };
        let part = Part {
            name: format!("seed {}, {times_ns:?} ns", self.scenario.seed),
            cpus: (0..cpus).map(points_of).collect(),
        };
        let fewest = part.cpus.iter().map(Vec::len).min();
        assert!(fewest > Some(100), "{}: {fewest:?} points", part.name);
        part
    }

    pub(crate) fn counts(&self) -> Counts {
        self.report.counts
    }

    pub(crate) fn event_count(&self, event: Event) -> u64 {
        self.report.event_count(event)
    }
}

/// How far the reference is outside the bounds of a point, ns.
fn outside_ns(point: &TrackPoint) -> i64 {
    if point.by_line {
        point.earliest_ns.max(-point.latest_ns).max(0)
    } else {
        0
    }
}

impl Part {
    /// The largest figure of any point of each CPU.
    fn largest(&self, figure: impl Fn(&TrackPoint) -> i64) -> Vec<i64> {
        let largest = |points: &Vec<TrackPoint>| points.iter().map(&figure).max();
        let found = self.cpus.iter().map(largest);
        found.map(|found| found.expect("points")).collect()
    }

    #[track_caller]
    fn at_most(&self, what: &str, limit: i64, figure: impl Fn(&TrackPoint) -> i64) -> &Self {
        let found = self.largest(figure);
        assert!(
            found.iter().all(|found| *found <= limit),
            "{}: {what} of each CPU: {found:?}, limit {limit}",
            self.name
        );
        self
    }

    /// The limit of the largest error, ns.
    #[track_caller]
    pub(crate) fn error_at_most_ns(&self, limit: i64) -> &Self {
        self.at_most("largest error", limit, |point| point.offset_ns.abs())
    }

    /// The least that the largest error must be, ns: it shows that the fault has happened.
    #[track_caller]
    pub(crate) fn error_at_least_ns(&self, least: i64) -> &Self {
        let found = self.largest(|point| point.offset_ns.abs());
        assert!(
            found.iter().all(|found| *found >= least),
            "{}: largest error {found:?}, at least {least}",
            self.name
        );
        self
    }

    /// The limit of the largest error of a reading by a line, ns.
    #[track_caller]
    pub(crate) fn line_error_at_most_ns(&self, limit: i64) -> &Self {
        self.at_most("largest error of a line", limit, |point| {
            point.offset_ns.abs() * i64::from(point.by_line)
        })
    }

    /// The limit of the largest error of Unix time, ns.
    #[track_caller]
    pub(crate) fn unix_error_at_most_ns(&self, limit: i64) -> &Self {
        self.at_most("largest error of Unix time", limit, |point| {
            point.unix_offset_ns.abs()
        })
    }

    /// The limit of the largest half-width of a bound, ns.
    #[track_caller]
    pub(crate) fn bound_at_most_ns(&self, limit: i64) -> &Self {
        self.at_most("widest bound", limit, |point| {
            (point.latest_ns - point.earliest_ns) / 2
        })
    }

    /// The limit of the reference's largest distance outside the bounds, ns.
    #[track_caller]
    pub(crate) fn outside_at_most_ns(&self, limit: i64) -> &Self {
        self.at_most("largest distance outside the bounds", limit, outside_ns)
    }

    /// Every bound contains the reference.
    #[track_caller]
    pub(crate) fn bounds_hold(&self) -> &Self {
        self.outside_at_most_ns(0)
    }

    /// The limit of the share of bounds that don't contain the reference, permille.
    #[track_caller]
    pub(crate) fn wrong_at_most_permille(&self, limit: usize) -> &Self {
        for points in &self.cpus {
            let by_line = points.iter().filter(|point| point.by_line).count();
            let wrong = points.iter().filter(|point| outside_ns(point) > 0).count();
            assert!(
                1_000 * wrong <= limit * by_line,
                "{}: {wrong} of {by_line} bounds are wrong",
                self.name
            );
        }
        self
    }

    /// The share of readings without a line, permille.
    #[track_caller]
    pub(crate) fn slow_permille_in(&self, limits: RangeInclusive<usize>) -> &Self {
        for points in &self.cpus {
            let slow = points.iter().filter(|point| !point.by_line).count();
            let thousandths = limits.start() * points.len()..=limits.end() * points.len();
            assert!(
                thousandths.contains(&(1_000 * slow)),
                "{}: {slow} of {} readings are without a line",
                self.name,
                points.len()
            );
        }
        self
    }

    /// The limit of the control loop's iterations in each second of the part, on average.
    #[track_caller]
    pub(crate) fn iterations_per_second_at_most(&self, limit: u64) -> &Self {
        for points in &self.cpus {
            let first = points[0];
            let last = points[points.len() - 1];
            let iterations = last.iterations - first.iterations;
            // The part may begin just before an iteration, and end just after one.
            let most = limit * (last.at_ns - first.at_ns) / (1_000 * MS) + 1;
            assert!(
                iterations <= most,
                "{}: {iterations} iterations, limit {most}",
                self.name
            );
        }
        self
    }

    /// Every reading is by a line.
    #[track_caller]
    pub(crate) fn always_by_line(&self) -> &Self {
        self.slow_permille_in(0..=0)
    }

    /// No reading is by a line.
    #[track_caller]
    pub(crate) fn never_by_line(&self) -> &Self {
        self.slow_permille_in(1_000..=1_000)
    }
}
