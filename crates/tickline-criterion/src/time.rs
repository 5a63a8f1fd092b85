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

/// criterion refuses a whole benchmark if one sample is 0. A sample that took no longer than its
/// readings cost becomes this: an attosecond, which prints as `0.0000 ps`.
const LEAST_NS: f64 = 1e-9;

/// Time by the CPU's counter, in ns, for
/// [`Criterion::with_measurement`](criterion::Criterion::with_measurement).
///
/// Clones share one clock; incidents are printed when the last clone is dropped. A routine for
/// `iter_custom` needs a clone, to make the values that it returns:
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
    /// Measures by the counter. Waits for its rate, 0.1 to 0.2 s as a rule, 2 s at most. Prints
    /// how exact the counter is, and incidents at the end; [`Builder::quiet`] turns that off.
    ///
    /// # Errors
    ///
    /// If the counter cannot be trusted, or its rate does not become known: [`Builder::start`].
    pub fn new() -> Result<Self, Error> {
        Self::builder().start()
    }

    /// Measures by the counter. Where [`new`](Self::new) returns an error, prints why, and
    /// measures by the OS clock as `WallTime` does.
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

    /// How exact the results are; `None` where the OS clock measures.
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

    /// The incidents so far. Empty where the OS clock measures.
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

    /// The sample in ns, less the cost of its readings; never below an attosecond. criterion
    /// calls this once for each sample, after taking it.
    fn to_f64(&self, sample: &Elapsed) -> f64 {
        let ns = match &self.backend {
            Backend::Counter(session) => session.to_ns(sample),
            Backend::Wall(_) => sample.to_ns(0.0, 0.0),
        };
        ns.max(LEAST_NS)
    }

    /// The formatter of [`WallTime`], which is for ns: ps to s, and every kind of throughput. So
    /// reports by both clocks look alike and can be compared.
    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}
