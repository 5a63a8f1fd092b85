//! The reason why a [`CounterTime`](crate::CounterTime) can't use the counter.

use std::error::Error as StdError;
use std::fmt;

use tickline::Reason;

/// The reason why the counter can't measure.
///
/// ```
/// use tickline_criterion::{ErrorKind, CounterTime};
///
/// match CounterTime::builder().quiet().start() {
///     Ok(time) => println!("{}", time.calibration().expect("the counter is used")),
///     Err(error) => match error.kind() {
///         ErrorKind::GateClosed(reason) => println!("{}: {error}", reason.code()),
///         _ => println!("{error}"),
///     },
/// }
/// ```
#[derive(Debug)]
pub struct Error {
    pub(crate) kind: ErrorKind,
    pub(crate) message: String,
    /// The clock's own error.
    pub(crate) source: Option<tickline::Error>,
}

/// The kinds of [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A gate of tickline's clock is closed.
    GateClosed(Reason),
    /// The clock had no rate at the end of [`settle`](crate::CounterTimeBuilder::settle).
    NotReady,
    /// [`settle`](crate::CounterTimeBuilder::settle) is outside its limits.
    OutOfRange,
    /// The clock could not be made.
    Clock(tickline::ErrorKind),
    /// The program only lists its benchmarks (`--list`), so nothing was calibrated.
    ListMode,
    /// The program takes samples for another one (`--against`), which converts them, so nothing was
    /// calibrated.
    Serving,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: String) -> Self {
        Self {
            kind,
            message,
            source: None,
        }
    }

    pub(crate) fn closed(reason: Reason) -> Self {
        Self::new(
            ErrorKind::GateClosed(reason),
            format!("the counter can't be used: {reason}"),
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

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        // The message contains the text of the clock's error, so the source is that error's source.
        self.source.as_ref()?.source()
    }
}
