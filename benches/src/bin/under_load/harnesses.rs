//! The harnesses: criterion with three clocks, and divan.

use std::error::Error;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use criterion::Criterion;
use criterion::measurement::{Measurement, WallTime};
use serde_json::Value;
use tickline_criterion::CounterTime;

use crate::routines::{ROUTINES, Routine};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Harness {
    /// criterion with `CounterTime`.
    Counter,
    /// criterion with `CounterTime`, which subtracts nothing.
    CounterAlone,
    WallTime,
    Divan,
}

pub(crate) const HARNESSES: [Harness; 4] = [
    Harness::Counter,
    Harness::CounterAlone,
    Harness::WallTime,
    Harness::Divan,
];

impl Harness {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Counter => "CounterTime",
            Self::CounterAlone => "CounterTime, include_disturbed",
            Self::WallTime => "WallTime",
            Self::Divan => "divan, median",
        }
    }
}

/// What all runs share.
#[derive(Debug)]
pub(crate) struct Harnesses {
    counter: CounterTime,
    counter_alone: CounterTime,
    measurement: Duration,
    /// The directory of criterion's files.
    directory: PathBuf,
}

/// The argument of a process that runs divan.
const DIVAN: &str = "--divan";

impl Harnesses {
    pub(crate) fn new(measurement: Duration) -> Self {
        let directory =
            std::env::temp_dir().join(format!("tickline-under-load-{}", std::process::id()));
        let builder = CounterTime::builder().quiet().output_directory(&directory);
        Self {
            counter: builder.clone().build_or_wall_time(),
            counter_alone: builder.include_disturbed().build_or_wall_time(),
            measurement,
            directory,
        }
    }

    /// Why the figures say nothing about the subtraction.
    pub(crate) fn refusal(&self) -> Option<String> {
        let reason = self.counter.not_subtracted()?;
        Some(format!("nothing is subtracted here: {reason}"))
    }

    /// The incidents of all samples by the counter.
    pub(crate) fn incidents(&self) -> String {
        self.counter.incidents().to_string()
    }

    /// One run of a routine: the time that the harness prints, ns.
    pub(crate) fn run(&self, harness: Harness, routine: Routine) -> Result<f64, Box<dyn Error>> {
        match harness {
            Harness::Counter => self.run_criterion(self.counter.clone(), routine),
            Harness::CounterAlone => self.run_criterion(self.counter_alone.clone(), routine),
            Harness::WallTime => self.run_criterion(WallTime, routine),
            Harness::Divan => run_divan(routine),
        }
    }

    /// criterion's time of a routine: the slope if there is one, else the mean.
    fn run_criterion<M: Measurement + 'static>(
        &self,
        measurement: M,
        routine: Routine,
    ) -> Result<f64, Box<dyn Error>> {
        Criterion::default()
            .with_measurement(measurement)
            .without_plots()
            .output_directory(&self.directory)
            .sample_size(50)
            .nresamples(1_000)
            .warm_up_time(self.measurement / 3)
            .measurement_time(self.measurement)
            .bench_function(routine.name(), |bencher| routine.iterate(bencher));
        let file = self
            .directory
            .join(routine.name())
            .join("new/estimates.json");
        let estimates: Value = serde_json::from_slice(&fs::read(file)?)?;
        // Otherwise criterion would compare the next run with this one.
        fs::remove_dir_all(&self.directory)?;
        ["slope", "mean"]
            .into_iter()
            .find_map(|name| estimates[name]["point_estimate"].as_f64())
            .ok_or_else(|| "criterion stored no estimate".into())
    }

    /// What a sample of 60 us costs beside its own time: the median of many, us. The columns are
    /// the harnesses with criterion.
    pub(crate) fn measure_sample_costs_us(&self) -> [f64; 3] {
        [
            measure_sample_cost_us(&self.counter),
            measure_sample_cost_us(&self.counter_alone),
            measure_sample_cost_us(&WallTime),
        ]
    }
}

impl Drop for Harnesses {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.directory).ok();
    }
}

fn measure_sample_cost_us<M: Measurement>(measurement: &M) -> f64 {
    const SAMPLES: usize = 2_001;
    const SAMPLE: Duration = Duration::from_micros(60);
    let mut costs_us: Vec<f64> = (0..SAMPLES)
        .map(|_| {
            let outer = Instant::now();
            let start = measurement.start();
            let inner = Instant::now();
            let mut own = inner.elapsed();
            while own < SAMPLE {
                own = inner.elapsed();
            }
            let _value = measurement.end(start);
            (outer.elapsed() - own).as_secs_f64() * 1e6
        })
        .collect();
    costs_us.sort_unstable_by(f64::total_cmp);
    costs_us[SAMPLES / 2]
}

/// divan's median of a routine, ns, from a process of its own. divan prints a table: after the
/// name, `│` separates fastest, slowest, median and mean.
fn run_divan(routine: Routine) -> Result<f64, Box<dyn Error>> {
    let output = Command::new(std::env::current_exe()?)
        .args([DIVAN, routine.name()])
        .stderr(Stdio::inherit())
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    median_in(&text, routine.name()).ok_or_else(|| {
        let error = io::Error::other(format!("no median of {} in:\n{text}", routine.name()));
        error.into()
    })
}

fn median_in(table: &str, name: &str) -> Option<f64> {
    let is_row = |line: &&str| line.split_whitespace().any(|word| word == name);
    let median = table.lines().find(is_row)?.split('│').nth_back(3)?;
    let mut words = median.split_whitespace();
    let value: f64 = words.next()?.parse().ok()?;
    let unit_ns = match words.next()? {
        "ps" => 1e-3,
        "ns" => 1.0,
        "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    };
    Some(value * unit_ns)
}

/// The process that runs divan, with its default settings.
pub(crate) fn run_divan_here(name: &str) {
    ROUTINES
        .into_iter()
        .map(Routine::name)
        .filter(|other| *other != name)
        .fold(divan::Divan::default().color(false), |divan, other| {
            divan.skip_exact(format!("under_load::routines::divan_benches::{other}"))
        })
        .run_benches();
}
