//! A point in monotonic time. The constructors that read a clock are in `now.rs`, the anchors in
//! `convert.rs`.

use core::fmt;
use core::time::Duration;

use crate::arithmetic::arithmetic;

/// A point in time of `CLOCK_MONOTONIC`, in the shape of [`std::time::Instant`], 8 bytes.
///
/// An [`Anchor`](crate::Anchor) converts an instant into `std::time::Instant` or into
/// [`UnixTime`](crate::UnixTime), and back, and states the error of the conversion.
///
/// [`now`](Self::now) reads the counter without a fence. It is in order within a thread. But the
/// CPU may read the counter before older loads complete. The later of two threads' instants may
/// therefore seem earlier by some nanoseconds, rarely microseconds.
/// [`now_ordered`](Self::now_ordered) is in order across threads. Differences saturate at zero.
///
/// An instant may also lie before the start of the machine: the type is a signed number of
/// nanoseconds, and covers 292 years before [`ZERO`](Self::ZERO) and 292 years after it. At the
/// ends of this range, `+` and `-` stay at [`MAX`](Self::MAX) and [`MIN`](Self::MIN), and never
/// panic.
///
/// ```
/// use std::time::Duration;
/// use tickline::Instant;
///
/// let start = Instant::now();
/// let spent = start.elapsed();
/// assert!(Instant::now() >= start + spent);
///
/// let an_hour_ago = start - Duration::from_secs(3_600); // also in the machine's first hour
/// assert_eq!(start - an_hour_ago, Duration::from_secs(3_600));
/// assert_eq!(start + Duration::from_millis(u64::MAX), Instant::MAX); // never
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)] // for the slow path's `extern "C"` (`engine.rs`)
pub struct Instant {
    /// Since the zero of `CLOCK_MONOTONIC`; negative before it.
    ns: i64,
}

const _: () = assert!(size_of::<Instant>() == 8);

impl Instant {
    /// The zero of `CLOCK_MONOTONIC`: the start of the machine, on most systems. No reading of that
    /// clock is earlier.
    pub const ZERO: Self = Self { ns: 0 };

    /// The latest instant, 2^63 - 1 ns after [`ZERO`](Self::ZERO), about 292 years.
    pub const MAX: Self = Self { ns: i64::MAX };

    /// The earliest instant, 2^63 ns before [`ZERO`](Self::ZERO), about 292 years. Earlier than
    /// every reading of `CLOCK_MONOTONIC`, so it can stand for "never yet".
    pub const MIN: Self = Self { ns: i64::MIN };

    /// The instant at `ns` of `CLOCK_MONOTONIC`, as other processes of the same time namespace
    /// write it. In the machine's own namespace kernel traces write it, too. From 2^63 ns on (292
    /// years), it is [`MAX`](Self::MAX).
    #[inline]
    #[must_use]
    pub const fn from_nanos(ns: u64) -> Self {
        Self {
            ns: 0_i64.saturating_add_unsigned(ns),
        }
    }

    /// Nanoseconds of `CLOCK_MONOTONIC` of this process's time namespace; 0 for an instant before
    /// the zero of that clock, where [`as_signed_nanos`](Self::as_signed_nanos) is negative. No
    /// reading is that early.
    #[inline]
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        0_u64.saturating_add_signed(self.ns)
    }

    /// [`as_nanos`](Self::as_nanos) of a reading, which is not negative. The function does not test
    /// the sign, which would take an instruction in each reading.
    ///
    /// The first line of a clock is at no tick below its high-water mark of 0, and no later line is
    /// below its predecessor. Without a counter, the slow path returns no negative time of the OS
    /// clock.
    #[inline(always)]
    pub(crate) const fn as_nanos_of_reading(self) -> u64 {
        self.ns.cast_unsigned()
    }

    /// The instant `ns` nanoseconds after the zero of `CLOCK_MONOTONIC`, or before it if `ns` is
    /// negative.
    #[inline]
    #[must_use]
    pub const fn from_signed_nanos(ns: i64) -> Self {
        Self { ns }
    }

    /// Nanoseconds of `CLOCK_MONOTONIC`; negative before its zero. Exact for every instant.
    #[inline]
    #[must_use]
    pub const fn as_signed_nanos(self) -> i64 {
        self.ns
    }

    /// Time since `earlier`; zero if `earlier` is the later instant.
    #[inline]
    #[must_use]
    pub const fn duration_since(&self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }

    /// Time since `earlier`; `None` if `earlier` is the later instant.
    #[inline]
    #[must_use]
    pub const fn checked_duration_since(&self, earlier: Self) -> Option<Duration> {
        if self.ns >= earlier.ns {
            Some(Duration::from_nanos(self.ns.abs_diff(earlier.ns)))
        } else {
            None
        }
    }

    /// Time since `earlier`; zero if `earlier` is the later instant.
    #[inline]
    #[must_use]
    pub const fn saturating_duration_since(&self, earlier: Self) -> Duration {
        if self.ns >= earlier.ns {
            Duration::from_nanos(self.ns.abs_diff(earlier.ns))
        } else {
            Duration::ZERO
        }
    }

    /// This instant plus `duration`; `None` beyond [`MAX`](Self::MAX).
    #[inline]
    #[must_use]
    pub fn checked_add(&self, duration: Duration) -> Option<Self> {
        let ns = u64::try_from(duration.as_nanos()).ok()?;
        self.ns
            .checked_add_unsigned(ns)
            .map(Self::from_signed_nanos)
    }

    /// This instant minus `duration`; `None` before [`MIN`](Self::MIN).
    #[inline]
    #[must_use]
    pub fn checked_sub(&self, duration: Duration) -> Option<Self> {
        let ns = u64::try_from(duration.as_nanos()).ok()?;
        self.ns
            .checked_sub_unsigned(ns)
            .map(Self::from_signed_nanos)
    }
}

arithmetic!(Instant, MIN);

impl core::ops::Sub for Instant {
    type Output = Duration;

    /// Time since `earlier`; zero if `earlier` is the later instant.
    #[inline]
    fn sub(self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since_zero = Duration::from_nanos(self.ns.unsigned_abs());
        let sign = if self.ns < 0 { "-" } else { "" };
        f.debug_tuple("Instant")
            .field(&format_args!("{sign}{since_zero:?}"))
            .finish()
    }
}

#[cfg(feature = "serde")]
mod serde_support {
    use core::fmt;

    use serde::de::{Deserialize, Deserializer, Error, Visitor};
    use serde::ser::{Serialize, Serializer};

    use super::Instant;

    /// A number of ns. It means the same instant only on this machine, until the machine restarts,
    /// and in one time namespace. For a file or for another machine, store the Unix time, by
    /// [`Anchor::unix`](crate::Anchor::unix).
    ///
    /// Formats that people read get a negative number for an instant before
    /// [`ZERO`](Instant::ZERO). Binary formats get the 64 bits, as an unsigned number, because some
    /// of them store signed numbers in another way.
    impl Serialize for Instant {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            if serializer.is_human_readable() {
                serializer.serialize_i64(self.ns)
            } else {
                serializer.serialize_u64(self.ns.cast_unsigned())
            }
        }
    }

    /// A number of ns, as it is serialised. A positive number from 2^63 on becomes
    /// [`MAX`](Instant::MAX) in a format that people read.
    impl<'de> Deserialize<'de> for Instant {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            if deserializer.is_human_readable() {
                deserializer.deserialize_i64(SignedNanos)
            } else {
                u64::deserialize(deserializer)
                    .map(|bits| Self::from_signed_nanos(bits.cast_signed()))
            }
        }
    }

    /// Accepts each integer type by which a format may pass on a number.
    struct SignedNanos;

    impl Visitor<'_> for SignedNanos {
        type Value = Instant;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a number of nanoseconds")
        }

        fn visit_i64<E: Error>(self, ns: i64) -> Result<Instant, E> {
            Ok(Instant::from_signed_nanos(ns))
        }

        fn visit_u64<E: Error>(self, ns: u64) -> Result<Instant, E> {
            Ok(Instant::from_nanos(ns))
        }
    }
}
