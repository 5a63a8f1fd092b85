//! Settings for a [`CounterTime`].

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::{Arc, Once};
use std::time::Duration;

use tickline::{Driver, PerCpu, Reason};
use tickline_core::counter::HardwareCounter;

use crate::arguments;
use crate::calibration::Calibration;
use crate::error::{Error, ErrorKind};
use crate::message::Messages;
use crate::pairs::slice::Counting;
use crate::readings::Source;
use crate::session::Session;
use crate::time::{CounterTime, Settings};

/// The clock knows its rate to 1 ppm after 0.1 to 0.2 s. Where the kernel does not vouch for the
/// CPUs' counters, the clock compares them first, which takes some 20 ms a CPU.
const SETTLE: Duration = Duration::from_secs(2);

/// A shorter time gives no rate; a minute is more than any machine needs.
const SETTLE_RANGE: RangeInclusive<Duration> = Duration::from_millis(50)..=Duration::from_secs(60);

/// Settings for a [`CounterTime`], made by [`CounterTime::builder`].
///
/// ```
/// use std::time::Duration;
/// use tickline::{Clock, Trust};
/// use tickline_criterion::CounterTime;
///
/// let time = CounterTime::builder()
///     .clock(Clock::builder().trust(Trust::Measured)) // not by what the kernel says
///     .settle(Duration::from_millis(500))
///     .quiet()
///     .start_or_wall_time();
/// # drop(time);
///
/// let error = CounterTime::builder().settle(Duration::from_secs(90)).start().unwrap_err();
/// assert_eq!(error.to_string(), "settle of 90s is outside 50ms to 60s");
/// ```
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it is started"]
pub struct CounterTimeBuilder {
    clock: tickline::ClockBuilder,
    settle: Duration,
    settings: Settings,
}

impl CounterTimeBuilder {
    pub(crate) fn new() -> Self {
        Self {
            clock: tickline::Clock::builder(),
            settle: SETTLE,
            settings: Settings {
                messages: Messages::Shown,
                counting: if arguments::includes_disturbed() { Counting::All } else { Counting::Undisturbed },
                output_directory: None,
            },
        }
    }

    /// Settings of the clock from which the rate comes, such as
    /// [`trust`](tickline::ClockBuilder::trust) and
    /// [`assume_invariant`](tickline::ClockBuilder::assume_invariant). The driver is always a
    /// thread, and the clock has one line for all CPUs, because ticks of different lines do not
    /// add up.
    pub fn clock(mut self, clock: tickline::ClockBuilder) -> Self {
        self.clock = clock;
        self
    }

    /// How long [`start`](Self::start) may wait for the clock: 50 ms to 60 s, by default 2 s.
    /// `start` returns as soon as the rate is known to 1 ppm, after 0.1 to 0.2 s as a rule. At
    /// the limit it returns with the rate that is known then.
    pub fn settle(mut self, limit: Duration) -> Self {
        self.settle = limit;
        self
    }

    /// Prints nothing. What would be printed is in [`CounterTime::calibration`],
    /// [`CounterTime::fallback_reason`] and [`CounterTime::incidents`].
    pub fn quiet(mut self) -> Self {
        self.settings.messages = Messages::Hidden;
        self
    }

    /// Lets all pairs of [`BenchPairs`](crate::BenchPairs) and [`compare`](crate::compare) count,
    /// whatever disturbed them. So does `cargo bench -- --include-disturbed`, or
    /// `TICKLINE_CRITERION=include-disturbed` in the environment. The disturbed ones are still
    /// counted by disturbance.
    pub fn include_disturbed(mut self) -> Self {
        self.settings.counting = Counting::All;
        self
    }

    /// criterion's output directory, if the program has chosen one by
    /// `Criterion::output_directory`. The files of [`BenchPairs`](crate::BenchPairs) and
    /// [`compare`](crate::compare) are stored next to criterion's. criterion does not tell other
    /// crates which directory that is. Without this call, the crate stores nothing in such a
    /// directory, and prints a line about that on the standard error stream.
    pub fn output_directory(mut self, path: impl AsRef<Path>) -> Self {
        self.settings.output_directory = Some(Arc::from(path.as_ref()));
        self
    }

    /// Makes a clock, waits for its rate, and measures what a pair of readings costs. With `--list`
    /// among the program's arguments there is nothing to measure: it does none of this, and the OS
    /// clock measures. [`CounterTime::fallback_reason`] is then
    /// [`ListMode`](crate::ErrorKind::ListMode).
    ///
    /// With `--include-disturbed` among them, this process starts the program again without that
    /// argument, which criterion would refuse, and exits when the new process does.
    ///
    /// # Errors
    ///
    /// - [`GateClosed`](crate::ErrorKind::GateClosed), with the reason, if the counter cannot be
    ///   trusted.
    /// - [`NotReady`](crate::ErrorKind::NotReady) if its rate is unknown when
    ///   [`settle`](Self::settle) is over.
    /// - [`OutOfRange`](crate::ErrorKind::OutOfRange) if `settle` is outside its limits.
    /// - [`Clock`](crate::ErrorKind::Clock) if the clock cannot be made.
    pub fn start(self) -> Result<CounterTime, Error> {
        if !SETTLE_RANGE.contains(&self.settle) {
            let (least, most) = SETTLE_RANGE.into_inner();
            let message = format!("settle of {:?} is outside {least:?} to {most:?}", self.settle);
            return Err(Error::new(ErrorKind::OutOfRange, message));
        }
        arguments::run_again_without_own();
        if arguments::is_list() {
            let message = "nothing was calibrated: the program only lists its benchmarks (--list)";
            let listing = Error::new(ErrorKind::ListMode, message.to_owned());
            return Ok(CounterTime::of(Source::Wall, Err(listing), self.settings));
        }
        let (Some(source), Some(counter)) = (Source::counter(), HardwareCounter::if_present()) else {
            return Err(Error::closed(Reason::NoCounter));
        };
        let clock =
            self.clock.driver(Driver::Thread).per_cpu(PerCpu::Off).start().map_err(|error| Error {
                kind: ErrorKind::Clock(error.kind()),
                message: format!("the clock could not be made: {error}"),
                source: Some(error),
            })?;
        let session = Session::start(clock, (source, counter), self.settle)?;
        // Once in a process, although each `criterion_group!` may make its own clock.
        static FIRST: Once = Once::new();
        let calibration = Calibration::from(session.observations().scale);
        self.settings.messages.print_once(&FIRST, &calibration);
        Ok(CounterTime::of(source, Ok(session), self.settings))
    }

    /// As [`start`](Self::start), but where that returns an error, the OS clock measures, exactly
    /// as `WallTime` does. The error is printed, and is available as
    /// [`CounterTime::fallback_reason`].
    #[must_use]
    pub fn start_or_wall_time(self) -> CounterTime {
        let settings = self.settings.clone();
        self.start().unwrap_or_else(|error| {
            // Each time: a gate that was open for an earlier clock may be closed for a later one,
            // and the results would look alike.
            settings.messages.print(&format_args!("measuring with WallTime: {error}"));
            CounterTime::of(Source::Wall, Err(error), settings)
        })
    }
}
