//! Sums and extremes of the samples.

use std::collections::BTreeMap;

use crate::document::{CpuWatch, Figures, Watch};
use crate::measure::migration::Change;
use crate::measure::track::Point;
use crate::measure::watch::{CpuSample, Sample, Slope, state_name};

/// Points in the JSON, some 100 bytes each: a day with one sample a second. Of a longer watch, the
/// older ones are thinned out.
const MOST_POINTS: usize = 100_000;

fn add_point(points: &mut Vec<Point>, point: Point, most: usize) {
    if points.len() == most {
        let mut place = 0;
        points.retain(|_| {
            place += 1;
            place % 2 == 1
        });
    }
    points.push(point);
}

/// Changes of the machine's clocks that are kept.
const MOST_CHANGES: usize = 1_000;

/// Sums up the samples.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// For the JSON.
    pub(crate) points: Option<Vec<Point>>,
    all: Figures,
    slope: Slope,
    cpus: BTreeMap<u32, (&'static str, Figures)>,
    changes: Vec<Change>,
    /// The counts at the last sample.
    events: Vec<(&'static str, u64)>,
}

impl Tally {
    pub(crate) fn new(points: Option<Vec<Point>>) -> Self {
        Self { points, ..Self::default() }
    }

    pub(crate) fn add(&mut self, sample: &Sample) {
        self.all.add(&sample.point, sample.state);
        if let Some(points) = &mut self.points {
            add_point(points, sample.point, MOST_POINTS);
        }
        if sample.state == tickline::State::Fast {
            self.slope.add(sample.point.at_s, sample.point.offset_ns);
        }
        self.add_cpu_samples(&sample.new_cpus);
        self.events.clone_from(&sample.events);
        let space = MOST_CHANGES.saturating_sub(self.changes.len());
        self.changes.extend(sample.changes.iter().take(space).cloned());
    }

    /// Adds samples on CPUs. Must be called at the end as well: they go on after the last sample of
    /// the main thread, so without that call the states would be an interval old.
    pub(crate) fn add_cpu_samples(&mut self, samples: &[CpuSample]) {
        for sample in samples {
            let (state, figures) = self.cpus.entry(sample.cpu).or_default();
            *state = state_name(sample.state);
            figures.add(&sample.point, sample.state);
        }
    }

    /// The summary so far, without the times and the reason for the end.
    pub(crate) fn watch(&self) -> Watch {
        let cpus =
            self.cpus.iter().map(|(cpu, (state, figures))| CpuWatch { cpu: *cpu, state, figures: *figures });
        Watch {
            all: self.all,
            skew_ppb: self.slope.ppb(),
            events: self.events.iter().copied().collect(),
            changes: self.changes.clone(),
            cpus: cpus.collect(),
            ..Watch::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::point;

    #[test]
    fn of_many_points_the_older_ones_are_thinned_out() {
        let mut points = Vec::new();
        (0..12_u8).for_each(|at| add_point(&mut points, point(f64::from(at), 0.0), 8));
        let kept: Vec<f64> = points.iter().map(|point| point.at_s).collect();
        assert_eq!(kept, [0.0, 2.0, 4.0, 6.0, 8.0, 9.0, 10.0, 11.0]);
    }

    /// `watch --secs 2` reported "calibrating" for every CPU at its end, although the counter
    /// served: it lost the CPUs' samples after the main thread's last one.
    #[test]
    fn a_cpu_sample_after_the_last_one_counts() {
        let sample = |at_s, state| CpuSample { cpu: 3, point: point(at_s, 1.0), state };
        let mut tally = Tally::default();
        tally.add_cpu_samples(&[sample(0.0, tickline::State::Calibrating)]);
        tally.add_cpu_samples(&[sample(1.0, tickline::State::Fast)]);
        let watch = tally.watch();
        assert_eq!((watch.cpus[0].state, watch.cpus[0].figures.samples), ("fast", 2));
    }
}
