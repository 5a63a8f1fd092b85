//! The errors of starting a clock or a background thread. A reading never fails.

use core::ffi::CStr;
use core::fmt;
use std::error::Error as StdError;
use std::io;

/// Why a clock, or a [`BackgroundThread`](crate::background::BackgroundThread), could not be
/// started.
///
/// The texts of `Display` and `Debug` are complete: they include the system's error, if there is
/// one ([`system_error`](Self::system_error)). The [`source`](StdError::source) is therefore
/// `None`.
///
/// ```
/// use std::time::Duration;
/// use tickline::{Clock, ErrorKind};
///
/// let error = Clock::builder().interval(Duration::ZERO).build().unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::OutOfRange);
/// assert_eq!(error.to_string(), "interval of 0ns is outside 1ms to 10s");
/// assert_eq!(format!("{error:?}"), error.to_string()); // what a `main` that returns it prints
/// ```
pub struct Error {
    kind: ErrorKind,
    text: String,
    system_error: Option<io::Error>,
}

/// The kinds of [`Error`].
///
/// ```
/// use tickline::{Clock, Driver, ErrorKind, LinePerCpu};
///
/// // Only a thread can calibrate a line for each CPU.
/// let error = Clock::builder().driver(Driver::Manual).line_per_cpu(LinePerCpu::On).build().unwrap_err();
/// match error.kind() {
///     ErrorKind::IncompatibleSettings => assert_eq!(error.to_string(), "line_per_cpu needs Driver::Thread, not Driver::Manual"),
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
    /// The system did not create the thread, and [`system_error`](Error::system_error) returns its
    /// error; or the system has ended the thread before it began, without an error.
    ThreadNotStarted,
    /// Another thread was starting or ending the global clock's thread for 5 s. The text says what
    /// to do.
    TimedOut,
    /// The global clock's thread already runs, with other settings. The text names the call that
    /// started it, and says what to do.
    AlreadyRunning,
    /// This machine cannot have a line for each CPU.
    LinePerCpuUnsupported,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, text: impl fmt::Display) -> Self {
        Self {
            kind,
            text: text.to_string(),
            system_error: None,
        }
    }

    pub(crate) fn thread(name: &CStr, system_error: io::Error) -> Self {
        let error = Self::new(
            ErrorKind::ThreadNotStarted,
            format_args!(
                "the thread \"{}\" could not be started",
                name.to_string_lossy()
            ),
        );
        Self {
            system_error: Some(system_error),
            ..error
        }
    }

    /// The error of a thread that was created, and did not run.
    pub(crate) fn thread_has_ended(name: &CStr) -> Self {
        Self::new(
            ErrorKind::ThreadNotStarted,
            format_args!(
                "the thread \"{}\" could not be started: the system has ended it before it began",
                name.to_string_lossy()
            ),
        )
    }

    /// This error with a text that says what works, or what to do instead. It is in brackets,
    /// because the system's error may follow.
    pub(crate) fn with_remedy(self, remedy: &str) -> Self {
        Self {
            text: format!("{} ({remedy})", self.text),
            ..self
        }
    }

    /// The kind of this error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The error by which the system refused to create the thread. `None` for other kinds of
    /// errors, and if the system has ended the thread before it began.
    ///
    /// ```
    /// use std::io;
    ///
    /// /// Whether another attempt may succeed.
    /// fn is_temporary(error: &tickline::Error) -> bool {
    ///     error.system_error().is_some_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    /// }
    /// ```
    #[must_use]
    pub fn system_error(&self) -> Option<&io::Error> {
        self.system_error.as_ref()
    }
}

/// The text, which a `main` that returns the error prints; with `{:#?}`, the fields.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            return f
                .debug_struct("Error")
                .field("kind", &self.kind)
                .field("text", &self.text)
                .field("system_error", &self.system_error)
                .finish();
        }
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        match &self.system_error {
            Some(error) => write!(f, ": {error}"),
            None => Ok(()),
        }
    }
}

impl StdError for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_main_prints_the_error_and_its_cause() {
        let error = Error::thread(c"asks", io::Error::other("no memory"));
        assert_eq!(
            format!("{error:?}"),
            "the thread \"asks\" could not be started: no memory"
        );
    }

    /// Symptom: a log of the error's text did not say why the system had refused the thread.
    #[test]
    fn the_text_of_an_error_has_its_cause_and_a_chain_does_not_repeat_it() {
        let error = Error::thread(c"asks", io::Error::other("no memory"));
        assert_eq!(
            error.to_string(),
            "the thread \"asks\" could not be started: no memory"
        );
        assert!(error.source().is_none());
    }

    /// Symptom: the name was "Z\xc3\xa4hler".
    #[test]
    fn the_name_of_a_thread_is_printed_as_text() {
        let error = Error::thread(c"Zähler", io::Error::other("no memory"));
        assert_eq!(
            error.to_string(),
            "the thread \"Zähler\" could not be started: no memory"
        );
    }

    #[test]
    fn a_main_prints_the_remedy_before_the_cause() {
        let error = Error::thread(c"asks", io::Error::other("no memory"));
        assert_eq!(
            format!("{:?}", error.with_remedy("it works without")),
            "the thread \"asks\" could not be started (it works without): no memory"
        );
    }

    #[test]
    fn a_thread_that_was_not_started_has_the_systems_error() {
        let error = Error::thread(c"asks", io::Error::other("no memory"));
        assert_eq!(error.system_error().unwrap().to_string(), "no memory");
    }

    /// Symptom: the system's error was a text that tickline had made up.
    #[test]
    fn a_thread_that_has_ended_before_it_began_has_no_error_of_the_system() {
        let error = Error::thread_has_ended(c"asks");
        assert!(error.system_error().is_none());
        assert_eq!(
            error.to_string(),
            "the thread \"asks\" could not be started: the system has ended it before it began"
        );
    }

    #[test]
    fn an_error_of_a_setting_has_no_error_of_the_system() {
        let error = Error::new(ErrorKind::OutOfRange, "above the limit");
        assert!(error.system_error().is_none());
    }

    #[test]
    fn the_fields_of_an_error_can_be_seen() {
        let error = Error::thread(c"asks", io::Error::other("no memory"));
        let fields = format!("{error:#?}");
        assert!(fields.contains("kind: ThreadNotStarted"), "{fields}");
    }
}
