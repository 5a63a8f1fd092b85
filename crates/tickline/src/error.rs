//! What can go wrong when a clock is made. A reading never fails.

use core::fmt;
use core::time::Duration;
use std::error::Error as StdError;
use std::io;

/// Why a clock could not be made or started.
///
/// ```
/// use std::time::Duration;
/// use tickline::{Clock, ErrorKind};
///
/// let error = Clock::builder().interval(Duration::ZERO).start().unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::OutOfRange);
/// assert_eq!(error.to_string(), "interval of 0ns is outside 1ms to 10s");
/// ```
#[derive(Debug)]
pub struct Error(pub(crate) Inner);

#[derive(Debug)]
pub(crate) enum Inner {
    OutOfRange {
        setting: &'static str,
        value: Duration,
        least: Duration,
        most: Duration,
    },
    IncompatibleSettings {
        setting: &'static str,
        needs: &'static str,
    },
    Thread(io::Error),
    /// The setting that differs, in words.
    AlreadyRunning(String),
    /// Why.
    PerCpu(&'static str),
    #[cfg(feature = "page")]
    Page(String),
}

/// The kinds of [`Error`].
///
/// ```
/// use tickline::{Clock, Driver, ErrorKind, PerCpu};
///
/// // Lines that a thread calibrates, and no thread.
/// let error = Clock::builder().driver(Driver::Manual).per_cpu(PerCpu::On).start().unwrap_err();
/// match error.kind() {
///     ErrorKind::IncompatibleSettings => assert_eq!(error.to_string(), "per_cpu needs the thread driver"),
///     other => panic!("{other:?}"),
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A setting is outside its limits.
    OutOfRange,
    /// A setting needs another setting, which the program has not chosen.
    IncompatibleSettings,
    /// The system did not make the thread; [`source`](StdError::source) says why.
    Thread,
    /// The global clock's thread already runs, with other settings.
    AlreadyRunning,
    /// There cannot be a line for each CPU here.
    PerCpu,
    /// A page cannot be served or read.
    #[cfg(feature = "page")]
    Page,
}

impl Error {
    /// What kind of error this is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self.0 {
            Inner::OutOfRange { .. } => ErrorKind::OutOfRange,
            Inner::IncompatibleSettings { .. } => ErrorKind::IncompatibleSettings,
            Inner::Thread(_) => ErrorKind::Thread,
            Inner::AlreadyRunning(_) => ErrorKind::AlreadyRunning,
            Inner::PerCpu(_) => ErrorKind::PerCpu,
            #[cfg(feature = "page")]
            Inner::Page(_) => ErrorKind::Page,
        }
    }

    #[cfg(feature = "page")]
    pub(crate) fn page(error: impl fmt::Display) -> Self {
        Self(Inner::Page(error.to_string()))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Inner::OutOfRange { setting, value, least, most } => {
                write!(f, "{setting} of {value:?} is outside {least:?} to {most:?}")
            }
            Inner::IncompatibleSettings { setting, needs } => write!(f, "{setting} needs {needs}"),
            Inner::Thread(_) => f.write_str("the clock's thread could not be started"),
            Inner::AlreadyRunning(difference) => {
                write!(f, "the global clock's thread already runs, and its {difference}")
            }
            Inner::PerCpu(reason) => write!(f, "there cannot be a line for each CPU: {reason}"),
            #[cfg(feature = "page")]
            Inner::Page(text) => f.write_str(text),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &self.0 {
            Inner::Thread(error) => Some(error),
            _ => None,
        }
    }
}
