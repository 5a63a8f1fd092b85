//! How long a thread has waited.

use core::time::Duration;
use std::thread;
use std::time::Instant;

/// The time since a moment, by std's clock. Under a clock that stands still, as libfaketime's may,
/// it is the time that the thread has slept since then. Otherwise no limit would end a wait there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waited {
    since: Instant,
    slept: Duration,
}

impl Waited {
    pub(crate) fn since_now() -> Self {
        Self {
            since: Instant::now(),
            slept: Duration::ZERO,
        }
    }

    pub(crate) fn time(&self) -> Duration {
        let elapsed = self.since.elapsed();
        if elapsed.is_zero() {
            self.slept
        } else {
            elapsed
        }
    }

    pub(crate) fn sleep(&mut self, time: Duration) {
        thread::sleep(time);
        self.slept = self.slept.saturating_add(time);
    }

    /// Sleeps for `time`, or until another thread wakes this one. Under a clock that stands still,
    /// this counts as `time` all the same.
    pub(crate) fn park(&mut self, time: Duration) {
        thread::park_timeout(time);
        self.slept = self.slept.saturating_add(time);
    }
}

#[cfg(test)]
impl Waited {
    /// For a clock that stands still: std returns 0 for the time since a later moment.
    pub(crate) fn by_standing_clock() -> Self {
        Self {
            since: Instant::now() + Duration::from_secs(1 << 20),
            slept: Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Duration = Duration::from_millis(1);

    /// Symptom: under such a clock a trace file was written only at its end, and a flush that had a
    /// limit waited for ever.
    #[test]
    fn under_a_clock_that_stands_still_sleeps_count() {
        let mut waited = Waited::by_standing_clock();
        waited.sleep(TIME);
        waited.park(TIME);
        assert_eq!(waited.time(), 2 * TIME);
    }

    /// Another thread may wake this one at once.
    #[test]
    fn under_a_clock_that_moves_sleeps_do_not_count() {
        let mut waited = Waited::since_now();
        thread::current().unpark();
        waited.park(Duration::MAX);
        while waited.time().is_zero() {
            thread::yield_now();
        }
        assert!(waited.time() < Duration::MAX);
    }
}
