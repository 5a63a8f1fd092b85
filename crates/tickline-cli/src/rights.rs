//! The right to read the counter, which `PR_SET_TSC` may have taken from the process. Without it, a
//! call of a libc or std clock ends the process where the vDSO reads the counter. The measurements
//! call these clocks, so the program gives itself the right. Before that, tickline judges its
//! gates, because its verdicts are about the rights that the process was started with.

use std::error::Error;
use std::time::Duration;

use tickline::{Clock, ClockGuard};

use crate::machine;
use crate::measure::status_when;

/// Starts the global clock's thread, which keeps the rights that the process was started with, as
/// `first` does. Then gives the right to this thread, and to those that it starts. If the clock's
/// thread cannot be started, the error says why, and the readers drive the clock.
pub(crate) fn start_clock<T>(first: impl FnOnce() -> T) -> (Result<ClockGuard, String>, T) {
    let counter_readable = machine::counter_readable();
    let guard = tickline::start().map_err(|error| with_cause(&error));
    if guard.is_err() {
        Clock::global().maintain();
    }
    let found = first();
    if counter_readable == Some(false) {
        await_judgement();
        machine::allow_counter();
    }
    (guard, found)
}

/// An error of the library, with what the system said.
pub(crate) fn with_cause(error: &dyn Error) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

/// Waits until the clock's thread has judged the gates, which takes some 60 us; gives up after 0.2
/// s.
pub(crate) fn await_judgement() {
    status_when(|status| status.is_judged, Duration::from_millis(200));
}

#[cfg(test)]
mod tests {
    use std::{fmt, io};

    use super::*;

    /// As the error of the library whose thread could not be started.
    #[derive(Debug)]
    struct NotStarted(io::Error);

    impl fmt::Display for NotStarted {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("not started")
        }
    }

    impl Error for NotStarted {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    /// Symptom: "the clock's thread could not be started", and nobody knew why.
    #[test]
    fn the_cause_of_an_error_is_said() {
        let cause = io::Error::other("no memory");
        assert_eq!(with_cause(&cause), "no memory");
        assert_eq!(with_cause(&NotStarted(cause)), "not started: no memory");
    }
}
