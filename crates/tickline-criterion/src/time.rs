//! The measurement.

use std::sync::Arc;

use criterion::measurement::{Measurement, ValueFormatter, WallTime};

use crate::builder::Builder;
use crate::calibration::Calibration;
use crate::elapsed::Elapsed;
use crate::error::Error;
use crate::incidents::Incidents;
use crate::pair::{Source, Start};
use crate::session::Session;

/// criterion refuses a whole benchmark if one sample takes 0. A sample whose time is no more than its readings' cost gets
/// this: an attosecond, which prints as `0.0000 ps`.
const LEAST_NS: f64 = 1e-9;

/// Time by the CPU's counter, in ns, for [`Criterion::with_measurement`](criterion::Criterion::with_measurement).
///
/// Clones share one clock; what went wrong is printed when the last of them is dropped. `iter_custom` needs one, to make the values
/// that it returns:
///
/// ```
/// use criterion::Criterion;
/// use criterion::measurement::Measurement;
/// use tickline_criterion::{Elapsed, CounterTime};
///
/// let time = CounterTime::or_wall_time();
/// let mut criterion = Criterion::default().with_measurement(time.clone());
/// # let directory = std::env::temp_dir().join(format!("tickline-criterion-doc-{}", std::process::id()));
/// # let mut criterion = criterion.without_plots().output_directory(&directory).sample_size(10)
/// #     .warm_up_time(std::time::Duration::from_millis(5))
/// #     .measurement_time(std::time::Duration::from_millis(20));
/// criterion.bench_function("custom", |bencher| {
///     bencher.iter_custom(|iterations| {
///         (0..iterations).fold(Elapsed::default(), |sum, iteration| {
///             let input = std::hint::black_box(iteration);
///             let start = time.start();
///             std::hint::black_box(input.count_ones());
///             sum + time.end(start)
///         })
///     });
/// });
/// # let _ = std::fs::remove_dir_all(directory);
/// ```
#[derive(Debug, Clone)]
pub struct CounterTime {
    source: Source,
    backend: Backend,
}

#[derive(Debug, Clone)]
enum Backend {
    Counter(Arc<Session>),
    Wall(Arc<Error>),
}

impl CounterTime {
    /// By the counter; waits for its rate, 0.1 to 0.2 s, at most 2. Prints what it is measured with, and at the end what went wrong:
    /// [`Builder::quiet`] turns that off.
    ///
    /// # Errors
    ///
    /// If the counter cannot be trusted, or its rate does not become known: [`Builder::start`].
    pub fn new() -> Result<Self, Error> {
        Self::builder().start()
    }

    /// By the counter, or, where [`new`](Self::new) gives an error, by the OS clock as `WallTime` does, after printing why, each
    /// time.
    #[must_use]
    pub fn or_wall_time() -> Self {
        Self::builder().start_or_wall_time()
    }

    /// Settings.
    pub fn builder() -> Builder {
        Builder::new()
    }

    pub(crate) fn by_counter(source: Source, session: Session) -> Self {
        Self { source, backend: Backend::Counter(Arc::new(session)) }
    }

    pub(crate) fn by_wall_time(error: Error) -> Self {
        Self { source: Source::Wall, backend: Backend::Wall(Arc::new(error)) }
    }

    /// What a digit of the results means; `None` where the OS clock measures.
    #[must_use]
    pub fn calibration(&self) -> Option<Calibration> {
        match &self.backend {
            Backend::Counter(session) => Some(session.calibration()),
            Backend::Wall(_) => None,
        }
    }

    /// Why the OS clock measures; `None` where the counter does.
    #[must_use]
    pub fn fallback_reason(&self) -> Option<&Error> {
        match &self.backend {
            Backend::Counter(_) => None,
            Backend::Wall(error) => Some(error),
        }
    }

    /// What has happened to the samples so far. Empty where the OS clock measures.
    #[must_use]
    pub fn incidents(&self) -> Incidents {
        match &self.backend {
            Backend::Counter(session) => session.incidents(),
            Backend::Wall(_) => Incidents::default(),
        }
    }
}

impl Measurement for CounterTime {
    type Intermediate = Start;
    type Value = Elapsed;

    #[inline]
    fn start(&self) -> Start {
        self.source.start()
    }

    #[inline]
    fn end(&self, start: Start) -> Elapsed {
        start.end()
    }

    #[inline]
    fn add(&self, one: &Elapsed, other: &Elapsed) -> Elapsed {
        *one + *other
    }

    #[inline]
    fn zero(&self) -> Elapsed {
        Elapsed::default()
    }

    /// ns, with the cost of the readings taken off; never below an attosecond. criterion asks once for each sample, after it.
    fn to_f64(&self, sample: &Elapsed) -> f64 {
        let ns = match &self.backend {
            Backend::Counter(session) => session.to_ns(sample),
            Backend::Wall(_) => sample.to_ns(0.0, 0.0),
        };
        ns.max(LEAST_NS)
    }

    /// That of [`WallTime`], which is for ns: ps to s, and every kind of throughput. Reports look alike, and compare.
    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}
