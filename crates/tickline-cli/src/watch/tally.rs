//! What the looks amount to.

use std::collections::BTreeMap;

use crate::document::{CpuWatch, Ending, Figures, Watch};
use crate::measure::track::{Point, Track};
use crate::measure::watch::{CpuLook, Sample, Slope, state_name};

/// Tells which looks on CPUs are new.
#[derive(Debug, Default)]
pub(crate) struct Fresh {
    seen_s: BTreeMap<u32, f64>,
}

impl Fresh {
    pub(crate) fn of<'a>(&mut self, looks: &'a [CpuLook]) -> impl Iterator<Item = &'a CpuLook> + use<'a, '_> {
        looks.iter().filter(|look| {
            let before = self.seen_s.insert(look.cpu, look.point.at_s);
            before.is_none_or(|at_s| at_s < look.point.at_s)
        })
    }
}

/// The points over time, a limited number: all, then every second one, then every fourth...
#[derive(Debug)]
pub(crate) struct Points {
    kept: Vec<Point>,
    most: usize,
    seen: usize,
    every: usize,
}

impl Points {
    pub(crate) const fn new(most: usize) -> Self {
        Self { kept: Vec::new(), most, seen: 0, every: 1 }
    }

    pub(crate) fn add(&mut self, point: Point) {
        if self.kept.len() == self.most {
            let mut place = 0;
            self.kept.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.every *= 2;
        }
        if self.seen % self.every == 0 {
            self.kept.push(point);
        }
        self.seen += 1;
    }

    pub(crate) fn track(self) -> Track {
        Track { points: self.kept }
    }
}

/// Adds up the looks.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    all: Figures,
    slope: Slope,
    cpus: BTreeMap<u32, (&'static str, Figures)>,
    fresh: Fresh,
    /// As counted at the last look.
    events: Vec<(&'static str, u64)>,
}

impl Tally {
    pub(crate) fn add(&mut self, sample: &Sample) {
        self.all.add(&sample.point, sample.state);
        if sample.state == tickline::State::Fast {
            self.slope.add(sample.point.at_s, sample.point.offset_ns);
        }
        self.add_visits(&sample.cpus);
        self.events.clone_from(&sample.events);
    }

    /// Adds the newest look on each CPU, if it is new. Visits go on after the last sample: without those, states are an
    /// interval old at the end.
    pub(crate) fn add_visits(&mut self, looks: &[CpuLook]) {
        for look in self.fresh.of(looks) {
            let (state, figures) = self.cpus.entry(look.cpu).or_default();
            *state = state_name(look.state);
            figures.add(&look.point, look.state);
        }
    }

    pub(crate) fn end(self, interval_s: f64, watched_s: f64, ended_by: Ending) -> Watch {
        let cpus = self.cpus.into_iter().map(|(cpu, (state, figures))| CpuWatch { cpu, state, figures });
        Watch {
            interval_s,
            watched_s,
            ended_by,
            all: self.all,
            skew_ppb: self.slope.ppb(),
            events: self.events.into_iter().collect(),
            cpus: cpus.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(at_s: f64, offset_ns: f64) -> Point {
        Point {
            at_s,
            offset_ns,
            bracket_ns: 10.0,
            before_ns: 20,
            after_ns: 30,
            inside: true,
            violated: false,
        }
    }

    #[test]
    fn of_many_points_evenly_spaced_ones_are_kept() {
        let mut points = Points::new(8);
        (0..100_u8).for_each(|at| points.add(point(f64::from(at), 0.0)));
        let kept: Vec<f64> = points.track().points.iter().map(|point| point.at_s).collect();
        assert_eq!(kept, [0.0, 16.0, 32.0, 48.0, 64.0, 80.0, 96.0]);
        let mut few = Points::new(8);
        (0..8_u8).for_each(|at| few.add(point(f64::from(at), 0.0)));
        assert_eq!(few.track().points.len(), 8);
    }

    /// `watch --secs 2` said "calibrating" of every CPU at the end of two seconds by the counter: the visits that came after
    /// the last sample were lost.
    #[test]
    fn a_visit_after_the_last_sample_counts_once() {
        let look = |at_s, state| CpuLook { cpu: 3, point: point(at_s, 1.0), state };
        let mut tally = Tally::default();
        tally.add_visits(&[look(0.0, tickline::State::Calibrating)]);
        tally.add_visits(&[look(1.0, tickline::State::Fast)]);
        tally.add_visits(&[look(1.0, tickline::State::Fast)]);
        let watch = tally.end(1.0, 2.0, Ending::Time);
        assert_eq!((watch.cpus[0].state, watch.cpus[0].figures.looks), ("fast", 2));
    }

    #[test]
    fn figures_are_those_of_all_looks() {
        let mut figures = Figures::default();
        figures.add(&point(0.0, 5.0), tickline::State::Calibrating);
        figures.add(&Point { violated: true, inside: false, ..point(1.0, 9.0) }, tickline::State::Fast);
        assert_eq!((figures.looks, figures.fast_looks), (2, 1));
        assert_eq!((figures.least_offset_ns, figures.most_offset_ns), (5.0, 9.0), "0 was never seen");
        assert_eq!((figures.largest_bound_ns, figures.outside_bracket, figures.bound_violated), (30, 1, 1));
    }
}
