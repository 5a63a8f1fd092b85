//! [`Utc`]: starts the thread that asks the sources, and reads UTC.

use core::time::Duration;
use std::sync::Arc;

use tickline::backend::OsClock;
use tickline::background::BackgroundThread;
use tickline::{Clock, Error, Probes};

#[cfg(feature = "mock")]
use crate::mock::MockUtc;
use crate::moment::marker_word;
use crate::polls::{STACK_BYTES, bounds_by_os, run};
use crate::reading::{UtcReading, time_left};
use crate::shared::Shared;
use crate::source::chronyd::Channel;
use crate::unknown::UtcUnknown;
use crate::wait::{Pauses, UtcNotWithin};

/// UTC with its error, by a thread that asks the sources; see the [crate]. Clones share the
/// thread, which ends with the last of them.
///
/// A reading allocates nothing and never waits; one of a mock takes a lock. Any number of threads
/// may share a `Utc`. A library that needs UTC takes one from its caller: a test then passes the
/// one of a mock (`mock::MockUtc`, feature `mock`).
///
/// ```
/// use tickline::Clock;
/// use tickline_utc::Utc;
///
/// # fn main() -> Result<(), tickline::Error> {
/// let utc = Utc::start(Clock::global())?;
/// if let Ok(now) = utc.now() {
///     assert!(now.earliest() <= now.latest());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Utc {
    shared: Arc<Shared>,
    claimed_by: ClaimedBy,
}

/// Who makes the claims of a [`Utc`].
#[derive(Debug, Clone)]
enum ClaimedBy {
    /// The thread publishes them.
    Thread(Arc<BackgroundThread>),
    /// The clock may not ask a source, or the system has none: there are no claims.
    Nobody,
    #[cfg(feature = "mock")]
    Mock(MockUtc),
}

impl Utc {
    /// Starts a thread that asks the sources of UTC, and relates them to the counter of `clock`.
    /// The first claims come after some milliseconds.
    ///
    /// The thread does not drive the clock. Give the clock a thread of its own
    /// ([`tickline::start`], or [`Driver::Thread`](tickline::Driver::Thread)), so that its line
    /// never ends. While the clock has no line, and with a clock that reads a page,
    /// [`now`](Self::now) asks the OS.
    ///
    /// With [`Probes::Minimal`] nobody may be asked, and on systems other than Linux nobody can be:
    /// the call starts no thread, and `now` fails with [`NoSource`](UtcUnknown::NoSource). If the
    /// probes become minimal later, the thread asks no more, but goes on to sleep by a timer: drop
    /// the `Utc` before a seccomp filter that kills. Neither the call nor the drop is for signal
    /// handlers.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::ThreadNotStarted`](tickline::ErrorKind::ThreadNotStarted) if the system refuses
    /// to create the thread.
    pub fn start(clock: &Clock) -> Result<Self, Error> {
        let shared = Arc::new(Shared::new(clock));
        let claimed_by = if clock.probes() == Probes::Minimal || OsClock::raw_ns().is_none() {
            ClaimedBy::Nobody
        } else {
            let inside = Arc::clone(&shared);
            let work = move |sleep: &_| run(&inside, sleep);
            let thread = BackgroundThread::start(c"tickline-utc", STACK_BYTES, work);
            ClaimedBy::Thread(Arc::new(thread?))
        };
        Ok(Self { shared, claimed_by })
    }

    #[cfg(feature = "mock")]
    pub(crate) fn by_mock(mock: MockUtc) -> Self {
        Self {
            shared: Arc::new(Shared::new(&mock.clock())),
            claimed_by: ClaimedBy::Mock(mock),
        }
    }

    /// The earliest and the latest time that UTC can be now. Makes no system call where the counter
    /// serves.
    ///
    /// # Errors
    ///
    /// [`UtcUnknown`] says why UTC is not known. If tickline notices that a range may be too
    /// small, this call returns the reason instead; [Sources](crate#sources) lists the cases that
    /// can't be noticed.
    #[inline]
    pub fn now(&self) -> Result<UtcReading, UtcUnknown> {
        let Shared { latch, clock, .. } = &*self.shared;
        match latch.read_by_counter(|| clock.ticks_ordered(), marker_word) {
            Some(reading) => Ok(reading),
            None => self.now_slow(),
        }
    }

    #[cold]
    #[inline(never)]
    fn now_slow(&self) -> Result<UtcReading, UtcUnknown> {
        match &self.claimed_by {
            ClaimedBy::Thread(thread) if thread.is_running() => bounds_by_os(&self.shared.latch),
            ClaimedBy::Thread(_) => Err(UtcUnknown::NoThread),
            ClaimedBy::Nobody => Err(UtcUnknown::NoSource),
            #[cfg(feature = "mock")]
            ClaimedBy::Mock(mock) => mock.now(),
        }
    }

    /// How chronyd has answered the thread's last request; `None` if it has not answered. An answer
    /// by UDP proves less than one by the Unix socket
    /// ([`chronyd`](crate::sources::chronyd#who-answers)): a program that must not be deceived by
    /// other programs of its machine can do without UTC then.
    #[must_use]
    pub fn chronyd_channel(&self) -> Option<Channel> {
        self.shared.chronyd_channel()
    }

    /// The time until `reading` is certainly in the past; 0 if it is already. `async` code sleeps
    /// for that time, and calls this again.
    ///
    /// # Errors
    ///
    /// The errors of [`now`](Self::now).
    pub fn time_until_past(&self, reading: &UtcReading) -> Result<Duration, UtcUnknown> {
        Ok(time_left(&self.now()?, reading))
    }

    /// Waits until `reading` is certainly in the past, and returns a reading that is after it. UTC
    /// by a mock moves the mock, and does not wait.
    ///
    /// # Errors
    ///
    /// The errors of [`now`](Self::now), also if UTC becomes unknown meanwhile.
    pub fn wait_until_past(&self, reading: &UtcReading) -> Result<UtcReading, UtcUnknown> {
        loop {
            let now = self.now()?;
            let left = time_left(&now, reading);
            if left.is_zero() {
                return Ok(now);
            }
            self.sleep(left);
        }
    }

    /// Waits until UTC is known to within `max_error` on either side of the middle of its range
    /// ([`UtcReading::error`]), and returns that reading.
    ///
    /// The call reads UTC, and sleeps between the readings: for 1 ms first, then for up to 100 ms,
    /// and for `timeout` in all. A machine that wakes threads late makes the wait longer. A timeout
    /// of 0 reads once. UTC by a mock moves the mock, and does not wait.
    ///
    /// The limit is one for UTC's range. How far the machine's Unix time is from UTC is another
    /// question, which [`UtcReading::largest_error_of`] answers.
    ///
    /// # Errors
    ///
    /// [`UtcNotWithin`] after the timeout, with the last reading or why there was none. At once if
    /// nobody can be asked: without a thread, with minimal probes, on systems other than Linux.
    pub fn wait_until_within(
        &self,
        max_error: Duration,
        timeout: Duration,
    ) -> Result<UtcReading, UtcNotWithin> {
        let mut pauses = Pauses::new(timeout);
        loop {
            let left = pauses.left();
            let last = self.now();
            if let Ok(reading) = last
                && reading.error() <= max_error
            {
                return Ok(reading);
            }
            let is_in_vain =
                matches!(self.claimed_by, ClaimedBy::Nobody) || last == Err(UtcUnknown::NoThread);
            let failed = UtcNotWithin {
                last,
                max_error,
                waited: timeout.saturating_sub(left),
            };
            if is_in_vain {
                return Err(failed);
            }
            self.sleep(pauses.next().ok_or(failed)?);
        }
    }

    /// Sleeps, or moves the mock.
    fn sleep(&self, time: Duration) {
        match &self.claimed_by {
            ClaimedBy::Thread(_) | ClaimedBy::Nobody => std::thread::sleep(time),
            #[cfg(feature = "mock")]
            ClaimedBy::Mock(mock) => mock.advance(time),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_channel_of_chronyd_is_the_one_that_the_thread_has_stored() {
        let utc = Utc {
            shared: Arc::new(Shared::new(Clock::global())),
            claimed_by: ClaimedBy::Nobody,
        };
        utc.shared.set_chronyd_channel(Some(Channel::Udp));
        assert_eq!(utc.chronyd_channel(), Some(Channel::Udp));
    }
}
