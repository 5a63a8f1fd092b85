//! The reason why a [`CounterTime`](crate::CounterTime) can't use the counter.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use tickline::Reason;

use crate::measurement::settings::SETTLE_RANGE;

/// The reason why the counter can't measure. Its text is complete, with the causes.
///
/// ```
/// use tickline_criterion::CounterTime;
/// use tickline_criterion::measurement::ErrorKind;
///
/// match CounterTime::builder().quiet().build() {
///     Ok(time) => {
///         // A program that does not measure itself (`--list`) has none.
///         if let Some(calibration) = time.calibration() {
///             println!("{calibration}");
///         }
///     }
///     Err(error) => match error.kind() {
///         ErrorKind::GateClosed(reason) => println!("{}: {error}", reason.code()),
///         _ => println!("{error}"),
///     },
/// }
/// ```
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// The kinds of [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A gate of tickline's clock is closed.
    GateClosed(Reason),
    /// The clock had no rate at the end of
    /// [`settle`](crate::measurement::CounterTimeBuilder::settle).
    NotReady,
    /// [`settle`](crate::measurement::CounterTimeBuilder::settle) is outside its limits.
    OutOfRange,
    /// The clock could not be made.
    Clock(tickline::ErrorKind),
    /// This process does not measure, so nothing was calibrated: it lists its benchmarks
    /// (`--list`), or it takes samples for another process (`--against`), which converts them. The
    /// error's text says which.
    NotMeasuring,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: String) -> Self {
        Self { kind, message }
    }

    pub(crate) fn of_clock(error: &tickline::Error) -> Self {
        Self::new(
            ErrorKind::Clock(error.kind()),
            format!("the clock could not be made: {error}"),
        )
    }

    pub(crate) fn closed(reason: Reason) -> Self {
        Self::new(
            ErrorKind::GateClosed(reason),
            format!("the counter can't be used: {reason}{}", advice(reason)),
        )
    }

    /// A gate that may open by itself was still closed after a wait of `limit`.
    pub(crate) fn still_closed(reason: Reason, limit: Duration) -> Self {
        let (why, other_way) = if reason == Reason::Untested {
            ("; to compare them takes 20 ms a CPU or more", ONE_CPU)
        } else {
            ("", "")
        };
        Self::new(
            ErrorKind::GateClosed(reason),
            format!(
                "the counter can't be used: {reason} (after a wait of {limit:.1?}{why})\
                 {}{other_way}",
                longer_wait(limit)
            ),
        )
    }

    /// The kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Error {}

/// How a program waits for longer than `limit`, to follow a text. Empty if it can't. A program with
/// a builder keeps the builder's other settings, such as those of the clock.
pub(crate) fn longer_wait(limit: Duration) -> String {
    let most = *SETTLE_RANGE.end();
    if limit >= most {
        return String::new();
    }
    let settle = format!(
        ".settle(std::time::Duration::from_secs({}))",
        most.as_secs()
    );
    format!(
        "; to wait for longer, add {settle} to the program's CounterTime::builder(); a program \
         without one writes CounterTime::builder(){settle}.build_or_wall_time() in place of \
         CounterTime::new_or_wall_time() (in criterion_group!, if it calls group)"
    )
}

/// The command of a process that may use one CPU, and so has nothing to compare.
const ONE_CPU: &str = "; on Linux, bind the program to one CPU that is not in isolcpus: \
                       taskset -c 1 cargo bench --bench NAME";

/// What permits the use of the counter, and where it is right, to follow the reason's text: a
/// setting of this crate, or a command. Empty if nothing does.
const fn advice(reason: Reason) -> &'static str {
    match reason {
        Reason::NotInvariant => {
            "; in a virtual machine whose host's counter is invariant, \
             CounterTime::builder().clock(tickline::Clock::builder().assume_invariant())\
             .build_or_wall_time() permits its use: write it in place of \
             CounterTime::new_or_wall_time() (in criterion_group!, if the program calls group), \
             and add the package tickline"
        }
        Reason::KernelRejected => {
            "; where the kernel's reason (see its log) does not matter to the program, \
             CounterTime::builder().clock(tickline::Clock::builder()\
             .trust(tickline::Trust::Measured)).build_or_wall_time() permits its use, if the \
             CPUs' counters are found synchronised; \
             that comparison shows no drift. Write it in place of \
             CounterTime::new_or_wall_time() (in criterion_group!, if the program calls group), \
             and add the package tickline"
        }
        Reason::Unsynchronised => ONE_CPU,
        // It does not help if the system does not say which CPU that is.
        Reason::Untestable => {
            "; on Linux it may help to bind the program to one CPU that is not in isolcpus: \
             taskset -c 1 cargo bench --bench NAME"
        }
        // A comparison with full probes is waited for.
        Reason::Untested => {
            "; a clock with minimal probes does not compare them: leave \
             .probes(tickline::Probes::Minimal) out of its settings"
        }
        _ => "",
    }
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::*;
    use tickline::background::BackgroundThread;

    /// Symptom: "CPUID does not call the counter invariant" was all that a user in a virtual
    /// machine read.
    #[test]
    fn the_text_of_a_closed_gate_has_the_setting_that_opens_it() {
        for (reason, setting) in [
            (Reason::NotInvariant, ".assume_invariant())"),
            (Reason::KernelRejected, ".trust(tickline::Trust::Measured))"),
        ] {
            let text = Error::closed(reason).to_string();
            let begin = format!("the counter can't be used: {reason}; ");
            assert!(text.starts_with(&begin), "{text}");
            let call = format!(
                " CounterTime::builder().clock(tickline::Clock::builder(){setting}.build_or_wall_time() permits its use"
            );
            assert!(text.contains(&call), "{text}");
            let place = "rite it in place of CounterTime::new_or_wall_time() ";
            assert!(text.contains(place), "{text}");
            assert!(text.ends_with(", and add the package tickline"), "{text}");
        }
        let text = Error::closed(Reason::Stuck).to_string();
        assert_eq!(text, "the counter can't be used: the counter stands still");
    }

    /// Symptom: "the counters of two CPUs differ" was all that a user read.
    #[test]
    fn the_text_of_counters_without_a_good_comparison_has_the_command_that_needs_none() {
        for (reason, begin) in [
            (Reason::Unsynchronised, "on Linux, bind"),
            // Symptom: the text promised this also where the system names no CPU.
            (Reason::Untestable, "on Linux it may help to bind"),
        ] {
            let expected = format!(
                "the counter can't be used: {reason}; {begin} the program to one CPU that is not \
                 in isolcpus: taskset -c 1 cargo bench --bench NAME"
            );
            assert_eq!(Error::closed(reason).to_string(), expected);
        }
    }

    /// Symptom: the line "measuring with WallTime" did not say why.
    #[test]
    fn the_text_of_a_clock_without_a_thread_has_the_systems_error() {
        let without_memory = BackgroundThread::start(c"large", usize::MAX / 2, |_| ());
        let error = Error::of_clock(&without_memory.unwrap_err());
        assert!(error.to_string().contains("(os error "), "{error}");
        assert!(error.source().is_none());
    }
}
