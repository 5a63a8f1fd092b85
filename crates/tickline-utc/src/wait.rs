//! The wait until UTC is known well enough, and the error of a wait that has ended in vain.

use core::fmt;
use core::time::Duration;
use std::error::Error;

use crate::{UtcReading, UtcUnknown};

/// The first pause between two readings of a wait: a source answers some milliseconds after the
/// start of the thread.
const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// The longest pause. The thread asks the sources once a second, so the reading that ends the wait
/// is late by a tenth of that at most.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Why [`Utc::wait_until_within`](crate::Utc::wait_until_within) has ended in vain: what the last
/// reading was, and what was asked for.
///
#[cfg_attr(feature = "mock", doc = "```")]
#[cfg_attr(not(feature = "mock"), doc = "```ignore")]
/// use std::time::Duration;
/// use tickline::mock::MockClock;
/// use tickline_utc::mock::MockUtc;
///
/// let mock = MockUtc::new(&MockClock::new(), Duration::from_millis(400));
/// let [limit, timeout] = [250, 60_000].map(Duration::from_millis);
/// let failed = mock.utc().wait_until_within(limit, timeout).unwrap_err();
/// let text = failed.to_string();
/// assert!(text.starts_with("the error of UTC is 400ms by a mock after 60s, above the limit of 250ms"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UtcNotWithin {
    pub(crate) last: Result<UtcReading, UtcUnknown>,
    pub(crate) max_error: Duration,
    pub(crate) waited: Duration,
}

impl UtcNotWithin {
    /// The last reading, whose error was above the limit; or why UTC was not known.
    ///
    /// # Errors
    ///
    /// [`UtcUnknown`], if UTC was not known at the end.
    pub const fn last(&self) -> Result<UtcReading, UtcUnknown> {
        self.last
    }

    /// The time for which the call has slept.
    #[must_use]
    pub const fn waited(&self) -> Duration {
        self.waited
    }
}

impl fmt::Display for UtcNotWithin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            last,
            max_error,
            waited,
        } = self;
        match last {
            Ok(reading) => write!(
                f,
                "the error of UTC is {:?} by {} after {waited:?}, above the limit of {max_error:?}: wait longer, or \
                 see what the source states (`tickline doctor`)",
                reading.error(),
                reading.source()
            ),
            Err(why) => write!(
                f,
                "UTC is not known to within {max_error:?} after {waited:?}: {why}"
            ),
        }
    }
}

impl Error for UtcNotWithin {}

/// The pauses of a wait: each twice as long as the one before, up to the longest, and `timeout` in
/// all.
pub(crate) struct Pauses {
    next: Duration,
    left: Duration,
}

impl Pauses {
    pub(crate) fn new(timeout: Duration) -> Self {
        Self {
            next: FIRST_PAUSE,
            left: timeout,
        }
    }

    /// The time that is left.
    pub(crate) fn left(&self) -> Duration {
        self.left
    }
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        if self.left.is_zero() {
            return None;
        }
        let pause = self.next.min(self.left);
        self.left = self.left.saturating_sub(pause);
        self.next = self.next.saturating_mul(2).min(LONGEST_PAUSE);
        Some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pauses_double_and_add_up_to_the_timeout() {
        let pauses: Vec<u128> = Pauses::new(Duration::from_millis(400))
            .map(|pause| pause.as_millis())
            .collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 100, 100, 73]);
    }

    /// Symptom: a program that prints the chain of causes repeated it.
    #[test]
    fn the_reason_is_in_the_text_of_a_wait_in_vain_and_not_its_source_too() {
        let why = UtcUnknown::Disrupted;
        let failed = UtcNotWithin {
            last: Err(why),
            max_error: Duration::from_millis(250),
            waited: Duration::ZERO,
        };
        assert!(failed.to_string().ends_with(&why.to_string()), "{failed}");
        assert!(failed.source().is_none());
    }

    #[test]
    fn a_timeout_of_0_has_no_pause() {
        assert_eq!(Pauses::new(Duration::ZERO).next(), None);
    }
}
