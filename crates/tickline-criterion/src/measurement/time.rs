//! The measurement for criterion.

use std::cell::RefCell;
use std::num::NonZeroU64;
use std::sync::{Arc, Once, Weak};

use criterion::measurement::{Measurement, ValueFormatter, WallTime};

use crate::measurement::builder::CounterTimeBuilder;
use crate::measurement::calibration::{Calibration, Scale, least_ns};
use crate::measurement::error::Error;
use crate::measurement::incidents::Incidents;
use crate::measurement::lost_time::NotSubtracted;
use crate::measurement::measured_by::MeasuredBy;
use crate::measurement::progress;
use crate::measurement::readings::{Elapsed, PairClock, PairReads, Start};
use crate::measurement::session::Session;
use crate::measurement::settings::{Counting, Settings};
use crate::measurement::thread_meter::ThreadMeter;

thread_local! {
    // The measurement of the present benchmark. The reference is weak, because the incidents are
    // printed when the last clone is dropped.
    static CURRENT: RefCell<Weak<Shared>> = const { RefCell::new(Weak::new()) };
}

/// Time by the CPU's counter, in ns, for criterion's `Criterion::with_measurement`.
///
/// Clones share one clock; incidents are printed when the last clone is dropped.
///
/// # Readings in `iter_custom`
///
/// A routine for `iter_custom` needs a `CounterTime` for its readings. Where the program makes its
/// `Criterion` itself, that is a clone:
///
/// ```
/// use criterion::Criterion;
/// use criterion::measurement::Measurement;
/// use tickline_criterion::{CounterTime, Elapsed};
///
/// let time = CounterTime::new_or_wall_time();
/// let mut criterion = Criterion::default().with_measurement(time.clone());
/// # let name = format!("tickline-criterion-doc-{}", std::process::id());
/// # let directory = std::env::temp_dir().join(name);
/// # let mut criterion = criterion.without_plots().output_directory(&directory).sample_size(10)
/// #     .warm_up_time(std::time::Duration::from_millis(5))
/// #     .measurement_time(std::time::Duration::from_millis(20));
/// criterion.bench_function("custom", |bencher| {
///     bencher.iter_custom(|iterations| {
///         let mut total = Elapsed::default();
///         for iteration in 0..iterations {
///             let input = std::hint::black_box(iteration);
///             let start = time.start();
///             std::hint::black_box(input.count_ones());
///             total += time.end(start);
///         }
///         total
///     });
/// });
/// # std::fs::remove_dir_all(directory).ok();
/// ```
///
/// A target of `criterion_group!` or of [`group`](crate::group()) can't get a clone. It makes
/// another `CounterTime`, with the same settings, and reads that one:
///
/// ```no_run
/// use criterion::Criterion;
/// use criterion::measurement::Measurement;
/// use tickline_criterion::{CounterTime, Elapsed};
///
/// fn custom(criterion: &mut Criterion<CounterTime>) {
///     let time = CounterTime::new_or_wall_time(); // not in the routine: it takes 0.1 s or more
///     criterion.bench_function("custom", |bencher| {
///         bencher.iter_custom(|iterations| {
///             (0..iterations)
///                 .map(|iteration| {
///                     let start = time.start();
///                     std::hint::black_box(std::hint::black_box(iteration).count_ones());
///                     time.end(start)
///                 })
///                 .sum::<Elapsed>()
///         });
///     });
/// }
/// ```
///
/// Both read the same counter. criterion's own `CounterTime` converts the times, and prints the
/// incidents. The line about the counter is printed once in a process. If only one of the two
/// prints `measuring with WallTime`, these times are wrong: repeat the benchmark.
///
/// A routine may also return the `Duration` of another clock, with `.into()`. It keeps this clock:
/// no cost of readings and no lost time is subtracted. At the end a line says how many samples
/// these are ([`Incidents::other_clock_samples`]).
#[derive(Debug, Clone)]
pub struct CounterTime {
    shared: Arc<Shared>,
}

/// The part that clones share.
#[derive(Debug)]
struct Shared {
    pair_clock: PairClock,
    /// The running clock, or the reason why the OS clock measures instead.
    session: Result<Session, Error>,
    /// What measures the time that samples lose.
    meter: Result<ThreadMeter, NotSubtracted>,
    settings: Settings,
}

impl Drop for Shared {
    fn drop(&mut self) {
        let chosen = self.settings.output_directory.as_deref();
        let incidents = self
            .session
            .as_ref()
            .map(|session| session.final_incidents(chosen));
        let incidents = incidents.unwrap_or_default();
        incidents
            .to_string()
            .lines()
            .for_each(|line| self.settings.messages.print(&line));
    }
}

impl CounterTime {
    /// A measurement by the counter. Waits for the counter's rate, usually 0.1 to 0.2 s, at most 2
    /// s, or longer where the kernel keeps time with another clock, or does not say with which
    /// (Windows): see [`settle`](CounterTimeBuilder::settle). Prints a [`Calibration`] at the
    /// start, and [`Incidents`] at the end; [`CounterTimeBuilder::quiet`] turns both off.
    ///
    /// # Errors
    ///
    /// If the counter can't be trusted, or its rate does not become known: see
    /// [`CounterTimeBuilder::build`].
    pub fn new() -> Result<Self, Error> {
        Self::builder().build()
    }

    /// A measurement by the counter. If [`new`](Self::new) returns an error, prints the error, and
    /// returns a measurement by the OS clock, which measures as `WallTime` does.
    #[must_use]
    pub fn new_or_wall_time() -> Self {
        Self::builder().build_or_wall_time()
    }

    /// Settings for a measurement.
    pub fn builder() -> CounterTimeBuilder {
        CounterTimeBuilder::new()
    }

    pub(crate) fn from_parts(
        clock: PairClock,
        session: Result<Session, Error>,
        settings: Settings,
    ) -> Self {
        let meter = match &session {
            Err(_) => Err(NotSubtracted::WallTime),
            Ok(_) if settings.counting == Counting::All => Err(NotSubtracted::Included),
            Ok(session) => {
                ThreadMeter::calibrate(clock, session.observations().scale.rate.ns_per_tick)
            }
        };
        Self {
            shared: Arc::new(Shared {
                pair_clock: clock,
                session,
                meter,
                settings,
            }),
        }
    }

    /// Reads what the kernel says about this thread before a pair.
    #[inline(never)]
    fn times_before(&self) -> Option<NonZeroU64> {
        self.shared.meter.as_ref().ok()?.before()
    }

    /// The pair with the time that the thread lost in it.
    #[inline(never)]
    fn elapsed(&self, before: Option<NonZeroU64>, reads: PairReads) -> Elapsed {
        let mut elapsed = Elapsed::from_pair(reads);
        if let Ok(meter) = &self.shared.meter {
            elapsed.lost = meter.after(before, &reads);
        }
        elapsed
    }

    /// Prints, once in a process, why nothing is subtracted, unless the program has chosen that.
    pub(crate) fn print_not_subtracted(&self) {
        static FIRST: Once = Once::new();
        match self.not_subtracted() {
            None | Some(NotSubtracted::Included | NotSubtracted::WallTime) => {}
            Some(reason) => self.settings().messages.print_once(
                &FIRST,
                &format_args!("time that samples lose to others is not subtracted: {reason}"),
            ),
        }
    }

    /// The measurement of the present benchmark on this thread, which criterion does not pass on.
    pub(crate) fn current() -> Self {
        let shared = CURRENT.with_borrow(Weak::upgrade);
        let shared = shared.expect(
            "criterion calls zero() before the benchmark, and keeps its measurement meanwhile",
        );
        Self { shared }
    }

    pub(crate) fn pair_clock(&self) -> PairClock {
        self.shared.pair_clock
    }

    pub(crate) fn measured_by(&self) -> MeasuredBy {
        self.pair_clock().into()
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// The running clock; `None` if the OS clock measures.
    pub(crate) fn session(&self) -> Option<&Session> {
        self.shared.session.as_ref().ok()
    }

    /// The present conversion of ticks into ns.
    pub(crate) fn scale(&self) -> Scale {
        self.session()
            .map_or(Scale::WALL, |session| session.observations().scale)
    }

    /// The rate, resolution and cost of the counter; `None` if the OS clock measures.
    #[must_use]
    pub fn calibration(&self) -> Option<Calibration> {
        self.session()
            .map(|session| session.observations().scale.into())
    }

    /// The reason why the OS clock measures; `None` if the counter measures.
    #[must_use]
    pub fn fallback_error(&self) -> Option<&Error> {
        self.shared.session.as_ref().err()
    }

    /// The reason why nothing is subtracted from samples that lost the CPU; `None` if it is
    /// subtracted. [`Incidents`] says how much.
    #[must_use]
    pub fn not_subtracted(&self) -> Option<NotSubtracted> {
        self.shared.meter.as_ref().err().copied()
    }

    /// The number of untrusted samples so far; 0 if the OS clock measures, which
    /// [`measured_by`](Self::measured_by) says.
    pub(crate) fn untrusted(&self) -> u64 {
        self.session()
            .map_or(0, |session| session.observations().untrusted())
    }

    /// The incidents so far; empty if the OS clock measures.
    #[must_use]
    pub fn incidents(&self) -> Incidents {
        let chosen = self.settings().output_directory.as_deref();
        self.session()
            .map(|session| session.incidents(chosen))
            .unwrap_or_default()
    }
}

impl Measurement for CounterTime {
    type Intermediate = Start;
    type Value = Elapsed;

    // `inline(always)`: a call between the readings would take 3 ns of each pair.
    #[inline(always)]
    fn start(&self) -> Start {
        let before = self.times_before();
        self.pair_clock().start_after(before)
    }

    #[inline(always)]
    fn end(&self, start: Start) -> Elapsed {
        let reads = start.reads();
        self.elapsed(start.before, reads)
    }

    #[inline]
    fn add(&self, one: &Elapsed, other: &Elapsed) -> Elapsed {
        *one + *other
    }

    /// criterion calls this when it makes a `Bencher`, on the thread that then calls the benchmark
    /// (`Routine::warm_up` and `Routine::bench` in `routine.rs` of criterion 0.8). The measurement
    /// therefore registers itself here.
    fn zero(&self) -> Elapsed {
        progress::count_warm_up_or_measurement();
        CURRENT.set(Arc::downgrade(&self.shared));
        Elapsed::default()
    }

    /// The sample in ns, minus the cost of its readings, and minus the time that the thread lost;
    /// at least an attosecond. criterion calls this once for each sample, after it has taken the
    /// sample.
    fn to_f64(&self, sample: &Elapsed) -> f64 {
        progress::count_converted_sample();
        match self.session() {
            Some(session) => session.to_ns(sample, progress::warm_ups_and_measurements()),
            None => least_ns(sample.to_ns(&Scale::WALL)),
        }
    }

    /// The formatter of `WallTime` for ns: from ps to s, and for every kind of throughput. Reports
    /// by both clocks therefore have the same format, and can be compared.
    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}
