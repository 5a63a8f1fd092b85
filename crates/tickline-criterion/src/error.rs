//! Why a [`CounterTime`](crate::CounterTime) can't use the counter.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use tickline::{Reason, State};

/// Why the counter can't measure.
///
/// ```
/// use tickline_criterion::{ErrorKind, CounterTime};
///
/// match CounterTime::builder().quiet().start() {
///     Ok(time) => println!("{}", time.calibration().expect("the counter is used")),
///     Err(error) => match error.kind() {
///         ErrorKind::Closed(reason) => println!("{}: {error}", reason.code()),
///         _ => println!("{error}"),
///     },
/// }
/// ```
#[derive(Debug)]
pub struct Error(pub(crate) Inner);

#[derive(Debug)]
pub(crate) enum Inner {
    Closed(Reason),
    NotReady { state: State, waited: Duration },
    OutOfRange { value: Duration, least: Duration, most: Duration },
    Clock(tickline::Error),
    ListMode,
}

/// The kinds of [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A gate of tickline's is closed.
    Closed(Reason),
    /// The clock had no rate at the end of [`settle`](crate::CounterTimeBuilder::settle).
    NotReady,
    /// [`settle`](crate::CounterTimeBuilder::settle) is outside its limits.
    OutOfRange,
    /// The clock could not be made.
    Clock(tickline::ErrorKind),
    /// The program was asked to name its benchmarks (`--list`), so nothing was calibrated.
    ListMode,
}

impl Error {
    /// What kind of error this is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match &self.0 {
            Inner::Closed(reason) => ErrorKind::Closed(*reason),
            Inner::NotReady { .. } => ErrorKind::NotReady,
            Inner::OutOfRange { .. } => ErrorKind::OutOfRange,
            Inner::Clock(error) => ErrorKind::Clock(error.kind()),
            Inner::ListMode => ErrorKind::ListMode,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Inner::Closed(reason) => write!(f, "the counter can't be used: {reason}"),
            Inner::NotReady { state, waited } => {
                write!(f, "the counter's rate was not known after {waited:?}: {state}")
            }
            Inner::OutOfRange { value, least, most } => {
                write!(f, "settle of {value:?} is outside {least:?} to {most:?}")
            }
            Inner::ListMode => {
                write!(f, "nothing was calibrated: the program only lists its benchmarks (--list)")
            }
            Inner::Clock(error) => write!(f, "the clock could not be made: {error}"),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &self.0 {
            Inner::Clock(error) => error.source(),
            _ => None,
        }
    }
}
