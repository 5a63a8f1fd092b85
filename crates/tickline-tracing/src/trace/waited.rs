//! How long a thread has waited.

use core::time::Duration;
use std::thread;
use std::time::Instant;

/// The time since a moment, by std's clock. A sleep during which the clock stands still, as
/// libfaketime's may from any moment on, counts by its length. Otherwise no limit would end a wait
/// there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waited {
    /// The time until `last`.
    before: Duration,
    /// The end of the last sleep; at first the beginning.
    last: Instant,
}

impl Waited {
    pub(crate) fn since_now() -> Self {
        Self {
            before: Duration::ZERO,
            last: Instant::now(),
        }
    }

    pub(crate) fn time(&self) -> Duration {
        self.before.saturating_add(self.last.elapsed())
    }

    pub(crate) fn sleep(&mut self, time: Duration) {
        thread::sleep(time);
        self.add_sleep(time, Instant::now());
    }

    /// Sleeps for `time`, or until another thread wakes this one. Under a clock that stands still,
    /// this counts as `time` all the same.
    pub(crate) fn park(&mut self, time: Duration) {
        thread::park_timeout(time);
        self.add_sleep(time, Instant::now());
    }

    /// Adds the time until `now`, at which a sleep of this length ends.
    fn add_sleep(&mut self, length: Duration, now: Instant) {
        let by_clock = now.saturating_duration_since(self.last);
        let time = if by_clock.is_zero() { length } else { by_clock };
        self.before = self.before.saturating_add(time);
        self.last = self.last.max(now);
    }
}

#[cfg(test)]
impl Waited {
    /// For a clock that stands still: std returns 0 for the time since a later moment.
    pub(crate) fn by_standing_clock() -> Self {
        Self {
            before: Duration::ZERO,
            last: Instant::now() + Duration::from_secs(1 << 20),
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

    /// Symptom: only a clock that had stood still since the beginning of the wait counted as such.
    #[test]
    fn sleeps_count_from_when_the_clock_stands_still() {
        let mut waited = Waited::by_standing_clock();
        let stands_at = waited.last + TIME;
        for _ in 0..3 {
            waited.add_sleep(TIME, stands_at);
        }
        assert_eq!(waited.time(), 3 * TIME);
    }

    /// Another thread may wake this one at once.
    #[test]
    fn under_a_clock_that_moves_sleeps_do_not_count() {
        let mut waited = Waited::since_now();
        while waited.time().is_zero() {
            thread::yield_now();
        }
        thread::current().unpark();
        waited.park(Duration::MAX);
        assert!(waited.time() < Duration::MAX);
    }
}
