//! Conversions of instants to `std::time::Instant` and to Unix time, and back.
//!
//! All of these timescales run at the rate of `CLOCK_MONOTONIC`, so a conversion adds or subtracts
//! one difference. An [`Anchor`] measures this difference.

use core::time::Duration;
use std::time::Instant as StdInstant;

use crate::clock::Clock;
use crate::engine::Engine;
use crate::instant::Instant;
use crate::now::current;
use crate::reading::Reading;
use crate::sys::reference::OsClock;
use crate::unix_time::UnixTime;

#[cfg(feature = "chrono")]
mod chrono;
#[cfg(feature = "jiff")]
mod jiff;
#[cfg(feature = "time")]
mod time;

/// The most brackets tried. A thread that is preempted within a bracket tries again.
const BRACKETS: u32 = 4;

/// The width of a bracket that ends the search, ns. Two readings and one of the OS clock take 50 to
/// 100 ns where the vDSO answers, and about 1 us by system call.
const GOOD_BRACKET_NS: u64 = 250;

/// One moment on two clocks, to convert any number of instants by one difference: an [`Instant`]
/// and a [`UnixTime`] ([`Anchor::unix`]), or a `std::time::Instant` ([`Anchor::std`]). These are
/// anchors of the global clock. [`Clock::unix_anchor`] and [`Clock::std_anchor`] make anchors of
/// other clocks.
///
/// Within one anchor, conversions add whole nanoseconds and round nothing. A conversion there and
/// back returns the same time, unless an intermediate result is out of range. Conversions keep
/// differences and order.
///
/// A new anchor takes 50 ns to 1 us where the vDSO answers. Where the OS clock is a system call, it
/// takes up to four times as many calls. The error of a conversion has two parts. The first is at
/// most [`error`](Self::error). The second is the time by which the two clocks have moved against
/// each other between the anchor and the converted time:
///
/// - tickline's clock and std's clock both follow `CLOCK_MONOTONIC` (on Linux, macOS and Windows
///   std's `Instant` is the clock that tickline follows). They move against each other within the
///   bounds of [`Clock::reading`](crate::Clock::reading), about 50 ns, however old the anchor is. A
///   line for each CPU, and the state [`Disrupted`](crate::ClockState::Disrupted), add errors of
///   their own.
/// - Unix time keeps its difference from `CLOCK_MONOTONIC` until the OS clock is set, or until a
///   leap second. An anchor has the difference at its own moment: to move a deadline after the
///   clock is set, convert it again by a new anchor.
///
/// ```
/// use std::time::Duration;
/// use tickline::{Anchor, Instant};
///
/// let events = [Instant::now(), Instant::now() + Duration::from_millis(5)];
/// let anchor = Anchor::unix(); // once, for a batch
/// for event in events {
///     let time = anchor.to_unix(event);
///     assert_eq!(anchor.to_instant(time), event);
///     println!("{time}, give or take {:?}", anchor.error());
/// }
///
/// let deadline = Instant::now() + Duration::from_millis(2);
/// // tokio::time::sleep_until(Anchor::std().to_std(deadline).into()).await, for example:
/// let until = Anchor::std().to_std(deadline);
/// std::thread::sleep(until.saturating_duration_since(std::time::Instant::now()));
/// println!("{:?} late", Instant::now() - deadline);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Anchor<T> {
    instant: Instant,
    other: T,
    error_ns: u64,
}

impl<T: Copy> Anchor<T> {
    /// The longest time that can lie between the moments of the two readings.
    #[must_use]
    pub const fn error(&self) -> Duration {
        Duration::from_nanos(self.error_ns)
    }

    /// The middle of the narrowest bracket around a reading of another clock, rounded down. The
    /// error is half of the bracket, rounded up, and the resolution of the OS clock.
    fn from_bracket(now_ordered: impl Fn() -> Instant, read: impl Fn() -> T) -> Self {
        struct Bracket<T> {
            before: Instant,
            other: T,
            width: Duration,
        }
        let bracket = || {
            let before = now_ordered();
            let other = read();
            Bracket {
                before,
                other,
                width: now_ordered().saturating_duration_since(before),
            }
        };
        let mut best = bracket();
        for _ in 1..BRACKETS {
            if best.width <= Duration::from_nanos(GOOD_BRACKET_NS) {
                break;
            }
            let next = bracket();
            if next.width < best.width {
                best = next;
            }
        }
        let Bracket {
            before,
            other,
            width,
        } = best;
        let half_ns = u64::try_from(width.as_nanos())
            .unwrap_or(u64::MAX)
            .div_ceil(2);
        let resolution_ns = OsClock::resolution_ns().unsigned_abs().max(1);
        let error_ns = half_ns.saturating_add(resolution_ns);
        Self {
            instant: before + width / 2,
            other,
            error_ns,
        }
    }
}

impl Clock {
    /// An anchor that converts this clock's instants into its Unix time, and back, with the error
    /// of [`Anchor::unix`]. An active mock does not change them; the clock of a mock has the mock's
    /// times.
    ///
    /// ```
    /// use tickline::Clock;
    ///
    /// /// The Unix time of an event that the same clock timed.
    /// fn logged_at(clock: &Clock, event: tickline::Instant) -> tickline::UnixTime {
    ///     clock.unix_anchor().to_unix(event)
    /// }
    /// # let clock = Clock::default();
    /// # assert!(logged_at(&clock, clock.now()) <= clock.unix_now() + std::time::Duration::from_secs(1));
    /// ```
    #[must_use]
    pub fn unix_anchor(&self) -> Anchor<UnixTime> {
        Anchor::unix_from(self.engine())
    }

    /// An anchor that converts this clock's instants into those of `std`, and back.
    ///
    /// The clock of a mock that follows tokio's (`MockClock::from_tokio`) is paired with tokio's,
    /// also while that is paused. The anchor then converts deadlines for tokio, and instants that
    /// tokio returned. A call of std waits by the real clock: give it a [`Duration`] there.
    ///
    /// # Panics
    ///
    /// As [`Anchor::std`] does.
    #[must_use]
    pub fn std_anchor(&self) -> Anchor<StdInstant> {
        Anchor::std_from(self.engine())
    }
}

impl Anchor<UnixTime> {
    /// An anchor that converts instants of the global clock into Unix time, and back. With a line,
    /// its error is the line's bound on their difference, a few ns. Without a line, it is half of a
    /// bracket around a reading of Unix time, 20 ns to 1 us, plus the OS clock's resolution. On a
    /// thread with an active mock, both times are the mock's.
    #[must_use]
    pub fn unix() -> Self {
        current(Self::unix_from)
    }

    fn unix_from(engine: &Engine) -> Self {
        match engine.read_ordered_bounded() {
            Some(bounded) => Self {
                instant: Reading::<Instant>::from_bounded(&bounded).time(),
                other: Reading::<UnixTime>::from_bounded(&bounded).time(),
                // The offset is one number, so the error is its bound, and 1 ns for the rounding of
                // two clocks.
                error_ns: bounded.bounds.unix_bound_ns.saturating_add(1),
            },
            None => Self::from_bracket(|| engine.now_ordered(), || engine.unix_now()),
        }
    }

    /// `instant` as Unix time. At most [`UnixTime::MAX`], at least 1970.
    #[must_use]
    pub fn to_unix(&self, instant: Instant) -> UnixTime {
        let ns = i128::from(instant.as_signed_nanos()) + self.unix_minus_monotonic_ns();
        match UnixTime::from_signed_nanos(ns) {
            Ok(time) => time,
            Err(_) if ns < 0 => UnixTime::UNIX_EPOCH,
            Err(_) => UnixTime::MAX,
        }
    }

    /// The instant of a Unix time. At most [`Instant::MAX`], at least [`Instant::MIN`].
    #[must_use]
    pub fn to_instant(&self, time: UnixTime) -> Instant {
        let ns = i128::from(time.as_nanos()) - self.unix_minus_monotonic_ns();
        match i64::try_from(ns) {
            Ok(ns) => Instant::from_signed_nanos(ns),
            Err(_) if ns < 0 => Instant::MIN,
            Err(_) => Instant::MAX,
        }
    }

    fn unix_minus_monotonic_ns(&self) -> i128 {
        i128::from(self.other.as_nanos()) - i128::from(self.instant.as_signed_nanos())
    }
}

impl Anchor<StdInstant> {
    /// An anchor that converts instants of the global clock into those of `std`, and back. Its
    /// error is half of a bracket around a reading of std's clock, 20 ns to 1 us, plus the
    /// resolution of that clock. On a thread with an active mock, the anchor pairs the mock's time
    /// with std's, or with tokio's if the mock follows that clock ([`Clock::std_anchor`]).
    ///
    /// # Panics
    ///
    /// If `std::time::Instant::now` does, as on `wasm32-unknown-unknown`.
    #[must_use]
    pub fn std() -> Self {
        current(Self::std_from)
    }

    fn std_from(engine: &Engine) -> Self {
        Self::from_bracket(
            || engine.now_ordered(),
            engine.followed_now.unwrap_or(StdInstant::now),
        )
    }

    /// `instant` on the clock of `std`. An instant that std can't represent becomes the moment of
    /// this anchor. Linux and macOS have no such instant, and Windows has none after the start of
    /// the machine.
    #[must_use]
    pub fn to_std(&self, instant: Instant) -> StdInstant {
        let converted = match instant.checked_duration_since(self.instant) {
            Some(later) => self.other.checked_add(later),
            None => self
                .other
                .checked_sub(self.instant.saturating_duration_since(instant)),
        };
        converted.unwrap_or(self.other)
    }

    /// The instant of an instant of `std`. At most [`Instant::MAX`], at least [`Instant::MIN`].
    #[must_use]
    pub fn to_instant(&self, instant: StdInstant) -> Instant {
        match instant.checked_duration_since(self.other) {
            Some(later) => self.instant + later,
            None => self.instant - (self.other - instant),
        }
    }
}

#[cfg(test)]
mod tests;
