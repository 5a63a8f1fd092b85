//! A directory for criterion's files.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use criterion::Criterion;
use criterion::measurement::Measurement;
use serde_json::Value;
use tickline_criterion::CounterTime;
use tickline_criterion::measurement::CounterTimeBuilder;

/// The directory of one test. It is removed after the test.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    pub(crate) fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("tickline-criterion-{name}-{}", std::process::id())))
    }

    /// criterion with short benchmarks and this measurement. All files are in this directory.
    pub(crate) fn by(&self, time: CounterTimeBuilder) -> Criterion<CounterTime> {
        self.criterion(time.quiet().output_directory(&self.0).build_or_wall_time())
    }

    /// criterion with short benchmarks and the default measurement.
    pub(crate) fn by_counter(&self) -> Criterion<CounterTime> {
        self.by(CounterTime::builder())
    }

    pub(crate) fn text(&self, path: &str) -> String {
        fs::read_to_string(self.0.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub(crate) fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.text(path)).expect("JSON")
    }

    /// criterion with short benchmarks. Only criterion's own files are in this directory.
    pub(crate) fn criterion<M: Measurement>(&self, measurement: M) -> Criterion<M> {
        Criterion::default()
            .with_measurement(measurement)
            .output_directory(&self.0)
            .sample_size(10)
            .nresamples(2_000) // unoptimised, each takes long
            .warm_up_time(Duration::from_millis(5))
            .measurement_time(Duration::from_millis(40))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}
