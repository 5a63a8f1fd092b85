//! Readings bracketed by two readings of the OS clock, counts of exchanges between threads, and
//! waits for events.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;
use tickline::{Clock, Instant, Reading, UnixTime};

/// `CLOCK_MONOTONIC` by libc, ns.
#[inline]
#[must_use]
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// A clock by libc, ns.
#[inline]
#[must_use]
pub fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for a write.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    #[expect(clippy::cast_sign_loss, reason = "no clock here is negative")]
    {
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }
}

/// The pause between two checks for an event.
const POLL: Duration = Duration::from_micros(200);

/// Waits until `happened` is true, but for at most `time`. Returns whether it became true.
pub fn wait_until(time: Duration, mut happened: impl FnMut() -> bool) -> bool {
    let start_ns = monotonic_ns();
    while !happened() {
        if u128::from(monotonic_ns() - start_ns) > time.as_nanos() {
            return false;
        }
        std::thread::sleep(POLL);
    }
    true
}

/// A reading, with readings of an OS clock before and after it, ns. A reading outside the bracket
/// is wrong by at least its distance, for any width of the bracket. The error of a reading inside
/// is known only to the bracket's width.
#[derive(Debug, Clone, Copy)]
pub struct Bracket {
    /// The OS clock before the reading.
    pub before_ns: u64,
    /// The reading. The clock may have a zero of its own.
    pub now_ns: u64,
    /// The OS clock after the reading.
    pub after_ns: u64,
}

impl Bracket {
    /// Brackets the time that `read` returns with `CLOCK_MONOTONIC`.
    #[inline]
    pub fn around(read: impl FnOnce() -> u64) -> Self {
        Self::by(libc::CLOCK_MONOTONIC, read)
    }

    /// Brackets the time that `read` returns with an OS clock.
    #[inline]
    pub fn by(os: libc::clockid_t, read: impl FnOnce() -> u64) -> Self {
        let before_ns = clock_ns(os);
        let now_ns = read();
        Self {
            before_ns,
            now_ns,
            after_ns: clock_ns(os),
        }
    }

    /// The width of the bracket, ns.
    #[must_use]
    pub const fn width_ns(&self) -> u64 {
        self.after_ns - self.before_ns
    }

    /// How far the reading is ahead of the bracket, ns.
    #[must_use]
    pub const fn ahead_ns(&self) -> u64 {
        self.now_ns.saturating_sub(self.after_ns)
    }

    /// How far the reading is behind the bracket, ns.
    #[must_use]
    pub const fn behind_ns(&self) -> u64 {
        self.before_ns.saturating_sub(self.now_ns)
    }

    /// Whether the reading is outside the bracket.
    #[must_use]
    pub const fn is_missed(&self) -> bool {
        self.ahead_ns() > 0 || self.behind_ns() > 0
    }

    /// How far the reading is ahead of the bracket's middle, ns.
    #[must_use]
    pub fn offset_ns(&self) -> f64 {
        to_f64(self.now_ns.wrapping_sub(self.before_ns).cast_signed())
            - to_f64(self.width_ns().cast_signed()) / 2.0
    }

    /// The time that the clock has gained on `CLOCK_MONOTONIC` since an `earlier` bracket, ns.
    #[must_use]
    pub fn gained_ns(&self, earlier: &Self) -> f64 {
        // Subtract integers first, because a float can't represent Unix time in ns exactly.
        let clock = self.now_ns.wrapping_sub(earlier.now_ns).cast_signed();
        let reference_twice =
            (self.before_ns - earlier.before_ns) + (self.after_ns - earlier.after_ns);
        to_f64(clock) - to_f64(reference_twice.cast_signed()) / 2.0
    }
}

/// Converts a difference or a count to a float.
#[must_use]
#[expect(
    clippy::cast_precision_loss,
    reason = "differences and counts far below 2^53"
)]
pub const fn to_f64(value: i64) -> f64 {
    value as f64
}

/// A reading with bounds, in its bracket.
#[derive(Debug, Clone, Copy)]
pub struct Bounded {
    /// The reading.
    pub bracket: Bracket,
    /// The lower bound, ns.
    pub earliest_ns: u64,
    /// The upper bound, ns.
    pub latest_ns: u64,
    /// Whether the counter served the reading.
    pub by_counter: bool,
}

impl Bounded {
    /// Reads `clock`.
    #[must_use]
    pub fn read(clock: &Clock) -> Self {
        Self::around(libc::CLOCK_MONOTONIC, || clock.reading(), Instant::as_nanos)
    }

    /// Reads the Unix time of `clock`.
    #[must_use]
    pub fn read_unix(clock: &Clock) -> Self {
        Self::around(
            libc::CLOCK_REALTIME,
            || clock.unix_reading(),
            UnixTime::as_nanos,
        )
    }

    fn around<T: Copy>(
        os: libc::clockid_t,
        read: impl Fn() -> Reading<T>,
        ns: fn(T) -> u64,
    ) -> Self {
        let before_ns = clock_ns(os);
        let reading = read();
        let after_ns = clock_ns(os);
        Self {
            bracket: Bracket {
                before_ns,
                now_ns: ns(reading.time()),
                after_ns,
            },
            earliest_ns: ns(reading.earliest()),
            latest_ns: ns(reading.latest()),
            by_counter: reading.is_from_counter(),
        }
    }

    /// The distance between the bounds and the bracket, ns: 0 if they overlap.
    #[must_use]
    pub fn missed_ns(&self) -> u64 {
        let late_ns = self.earliest_ns.saturating_sub(self.bracket.after_ns);
        late_ns.max(self.bracket.before_ns.saturating_sub(self.latest_ns))
    }

    /// The distances from the reading to its lower and to its upper bound, ns.
    #[must_use]
    pub const fn sides_ns(&self) -> (u64, u64) {
        (
            self.bracket.now_ns - self.earliest_ns,
            self.latest_ns - self.bracket.now_ns,
        )
    }

    /// The larger of the two distances, ns.
    #[must_use]
    pub fn widest_ns(&self) -> u64 {
        self.sides_ns().0.max(self.sides_ns().1)
    }
}

/// The counts of comparisons.
#[derive(Debug, Default, Clone, Copy, Serialize)]
pub struct Count {
    /// The number of readings that were compared with an earlier one. In an exchange, the earlier
    /// one was complete before the later one began.
    pub comparisons: u64,
    /// The number of readings that were below the earlier one.
    pub backward: u64,
    /// The largest backward step, in the unit of the readings.
    pub largest: u64,
}

impl Count {
    /// Makes an exchange: loads the largest reading so far, reads the clock, and stores the larger
    /// of the two. Returns the loaded and the new reading.
    #[inline(always)]
    pub fn exchange(&mut self, largest: &AtomicU64, read: impl FnOnce() -> u64) -> (u64, u64) {
        // ORDERING: Acquire, pairs with the Release of `fetch_max`: the loaded reading was complete
        // before it was stored.
        let earlier = largest.load(Ordering::Acquire);
        let now = read();
        // ORDERING: Release, pairs with the Acquire load of `largest`.
        largest.fetch_max(now, Ordering::Release);
        self.compare(earlier, now);
        (earlier, now)
    }

    /// Counts a time that must not be below an earlier one.
    #[inline(always)]
    pub fn compare(&mut self, earlier: u64, now: u64) {
        self.comparisons += 1;
        if now < earlier {
            self.backward += 1;
            self.largest = self.largest.max(earlier - now);
        }
    }

    /// Adds the counts of another thread, or of another run.
    pub fn add(&mut self, other: &Self) {
        self.comparisons += other.comparisons;
        self.backward += other.backward;
        self.largest = self.largest.max(other.largest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gain_is_exact_to_half_a_ns_even_in_unix_time() {
        const UNIX_NS: u64 = 1_800_000_000_000_000_000;
        let earlier = Bracket {
            before_ns: 1_000,
            now_ns: UNIX_NS,
            after_ns: 1_021,
        };
        let later = Bracket {
            before_ns: 2_000_001_000,
            now_ns: UNIX_NS + 2_000_000_003,
            after_ns: 2_000_001_020,
        };
        assert!((later.gained_ns(&earlier) - 3.5).abs() < 1e-9);
        assert!((earlier.gained_ns(&earlier)).abs() < 1e-9);
    }

    #[test]
    fn an_offset_is_from_the_middle_and_a_distance_from_the_ends() {
        for (now_ns, offset_ns, ahead_ns, behind_ns) in
            [(110, 0.0, 0, 0), (95, -15.0, 0, 5), (125, 15.0, 5, 0)]
        {
            let bracket = Bracket {
                before_ns: 100,
                now_ns,
                after_ns: 120,
            };
            assert!((bracket.offset_ns() - offset_ns).abs() < 1e-9);
            assert_eq!(
                (bracket.ahead_ns(), bracket.behind_ns()),
                (ahead_ns, behind_ns)
            );
        }
    }

    #[test]
    fn bounds_miss_a_bracket_by_their_distance() {
        let missed_ns = |earliest_ns, latest_ns| {
            let bracket = Bracket {
                before_ns: 100,
                now_ns: earliest_ns,
                after_ns: 120,
            };
            Bounded {
                bracket,
                earliest_ns,
                latest_ns,
                by_counter: true,
            }
            .missed_ns()
        };
        assert_eq!(
            [
                missed_ns(80, 99),
                missed_ns(80, 100),
                missed_ns(120, 130),
                missed_ns(124, 130)
            ],
            [1, 0, 0, 4]
        );
    }
}
