//! Settings for a [`CounterTime`].

use std::path::Path;
use std::sync::{Arc, Once};
use std::time::Duration;

use tickline::{Driver, LinePerCpu, Reason};
use tickline_core::counter::HardwareCounter;

use crate::arguments::criterion::CriterionArguments;
use crate::arguments::{self, Role};
use crate::measurement::calibration::Calibration;
use crate::measurement::error::{Error, ErrorKind};
use crate::measurement::readings::PairClock;
use crate::measurement::session::{Session, WaitLimit};
use crate::measurement::settings::{Counting, SETTLE_RANGE, Settings};
use crate::measurement::time::CounterTime;
use crate::message::Messages;

/// Settings for a [`CounterTime`], made by [`CounterTime::builder`].
///
/// ```
/// use std::time::Duration;
/// use tickline::{Clock, Trust};
/// use tickline_criterion::CounterTime;
///
/// let time = CounterTime::builder()
///     .clock(Clock::builder().trust(Trust::Measured)) // compares the CPUs' counters itself
///     .quiet()
///     .build_or_wall_time();
/// # drop(time);
///
/// let error = CounterTime::builder().settle(Duration::from_secs(90)).build().unwrap_err();
/// assert_eq!(error.to_string(), "settle of 90s is outside 50ms to 60s");
/// ```
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it is built"]
pub struct CounterTimeBuilder {
    clock: tickline::ClockBuilder,
    /// `None`: the default.
    settle: Option<Duration>,
    settings: Settings,
}

impl CounterTimeBuilder {
    pub(crate) fn new() -> Self {
        Self {
            clock: tickline::Clock::builder(),
            settle: None,
            settings: Settings {
                messages: Messages::Shown,
                counting: if arguments::includes_disturbed() {
                    Counting::All
                } else {
                    Counting::Undisturbed
                },
                output_directory: None,
            },
        }
    }

    /// Settings of the clock that gives the rate, such as [`trust`](tickline::ClockBuilder::trust)
    /// and [`assume_invariant`](tickline::ClockBuilder::assume_invariant). The driver is always a
    /// thread. The clock has one line for all CPUs: ticks of different lines can't be added.
    pub fn clock(mut self, clock: tickline::ClockBuilder) -> Self {
        self.clock = clock;
        self
    }

    /// The longest time that [`build`](Self::build) waits for the clock: 50 ms to 60 s. `build`
    /// returns as soon as the rate is known to 1 ppm, usually after 0.1 to 0.2 s. At the limit it
    /// returns with the rate that is known by then.
    ///
    /// The default is 2 s. Where the kernel keeps time with another clock than the counter, and
    /// where the system does not say with which (Windows), the clock first compares the CPUs'
    /// counters, for 20 ms a CPU or more. By default the 2 s begin after that, and at the latest
    /// after 50 ms for each CPU. A limit that is set includes the comparison: with 100 CPUs set 5 s
    /// or more, or bind the process to one CPU.
    pub fn settle(mut self, limit: Duration) -> Self {
        self.settle = Some(limit);
        self
    }

    /// Turns all output off. The same information is in [`CounterTime::calibration`],
    /// [`CounterTime::fallback_error`], [`CounterTime::not_subtracted`] and
    /// [`CounterTime::incidents`].
    pub fn quiet(mut self) -> Self {
        self.settings.messages = Messages::Hidden;
        self
    }

    /// Includes disturbances: nothing is subtracted from samples that lost the CPU, and disturbed
    /// pairs of [`BenchPairs`](crate::BenchPairs) and [`compare`](crate::compare) count.
    /// `cargo bench --bench NAME -- --include-disturbed` does the same, and so does the environment
    /// variable `TICKLINE_CRITERION=include-disturbed`. The crate still prints the number of
    /// disturbed pairs.
    pub fn include_disturbed(mut self) -> Self {
        self.settings.counting = Counting::All;
        self
    }

    /// criterion's output directory, if the program has chosen one by
    /// `Criterion::output_directory`. The files of [`BenchPairs`](crate::BenchPairs) and
    /// [`compare`](crate::compare) are stored next to criterion's files. criterion does not tell
    /// other crates this directory. Without this call, the crate stores nothing there, and prints a
    /// line about that on the standard error stream.
    pub fn output_directory(mut self, path: impl AsRef<Path>) -> Self {
        self.settings.output_directory = Some(Arc::from(path.as_ref()));
        self
    }

    /// Makes a clock, waits for its rate, and measures the cost of a pair of readings. This usually
    /// takes 0.1 to 0.2 s, and at most little more than [`settle`](Self::settle).
    ///
    /// Two kinds of processes have nothing to calibrate. With `--list` among its arguments a
    /// program measures nothing, and the result uses the OS clock. A process that
    /// [`run`](crate::run()) has started for `--against` takes samples that the other process
    /// converts. [`CounterTime::fallback_error`] is then
    /// [`NotMeasuring`](crate::measurement::ErrorKind::NotMeasuring).
    ///
    /// If `run` is not in a program's `main`, criterion refuses an option of [`run`](crate::run)
    /// without saying why. So if such an option and `--bench`, which cargo gives to a benchmark
    /// program, are among the arguments, the first call prints the reason, and goes on.
    /// [`quiet`](Self::quiet) turns this line off, too.
    ///
    /// # Errors
    ///
    /// - [`GateClosed`](crate::measurement::ErrorKind::GateClosed), with the reason, if the counter
    ///   cannot be trusted.
    /// - [`NotReady`](crate::measurement::ErrorKind::NotReady) if its rate is unknown when
    ///   [`settle`](Self::settle) is over.
    /// - [`OutOfRange`](crate::measurement::ErrorKind::OutOfRange) if `settle` is outside its
    ///   limits.
    /// - [`Clock`](crate::measurement::ErrorKind::Clock) if the clock cannot be made.
    pub fn build(self) -> Result<CounterTime, Error> {
        if let Some(settle) = self.settle
            && !SETTLE_RANGE.contains(&settle)
        {
            let (least, most) = SETTLE_RANGE.into_inner();
            let message = format!("settle of {settle:?} is outside {least:?} to {most:?}");
            return Err(Error::new(ErrorKind::OutOfRange, message));
        }
        if arguments::role() == Role::Serve {
            let message =
                "nothing was calibrated: the program takes samples for another one (--against)";
            let serving = Error::new(ErrorKind::NotMeasuring, message.to_owned());
            let clock = match arguments::counter_ns_per_tick() {
                Some(_) => PairClock::counter().ok_or(Error::closed(Reason::NoCounter))?,
                None => PairClock::wall(),
            };
            return Ok(CounterTime::from_parts(clock, Err(serving), self.settings));
        }
        if let Some(own) = arguments::own_argument() {
            static FIRST: Once = Once::new();
            let needed = "tickline_criterion::run in the program's main, around all that makes a CounterTime";
            let text = format!("{own} needs {needed}");
            self.settings.messages.print_once(&FIRST, &text);
        }
        if CriterionArguments::of_this_process().ask_for_list() {
            let message = "nothing was calibrated: the program only lists its benchmarks (--list)";
            let listing = Error::new(ErrorKind::NotMeasuring, message.to_owned());
            return Ok(CounterTime::from_parts(
                PairClock::wall(),
                Err(listing),
                self.settings,
            ));
        }
        let (Some(pair_clock), Some(counter)) =
            (PairClock::counter(), HardwareCounter::if_present())
        else {
            return Err(Error::closed(Reason::NoCounter));
        };
        let clock = self
            .clock
            .driver(Driver::Thread)
            .line_per_cpu(LinePerCpu::Off)
            .build();
        let clock = clock.map_err(|error| Error::of_clock(&error))?;
        let limit = match self.settle {
            Some(settle) => WaitLimit::chosen(settle),
            None => WaitLimit::of_this_process(),
        };
        let session = Session::start(clock, pair_clock, counter, limit)?;
        // The line is printed once in a process, although each `criterion_group!` may make a clock.
        static FIRST: Once = Once::new();
        let calibration = Calibration::from(session.observations().scale);
        self.settings.messages.print_once(&FIRST, &calibration);
        let time = CounterTime::from_parts(pair_clock, Ok(session), self.settings);
        time.print_not_subtracted();
        Ok(time)
    }

    /// Calls [`build`](Self::build). If that fails, the result uses the OS clock, exactly as
    /// `WallTime` does. The error is printed, and is available as [`CounterTime::fallback_error`].
    #[must_use]
    pub fn build_or_wall_time(self) -> CounterTime {
        let settings = self.settings.clone();
        self.build().unwrap_or_else(|error| {
            // This is printed each time. A gate that was open for an earlier clock may be closed
            // for a later one, and the results would look alike.
            settings
                .messages
                .print(&format_args!("measuring with WallTime: {error}"));
            CounterTime::from_parts(PairClock::wall(), Err(error), settings)
        })
    }
}
