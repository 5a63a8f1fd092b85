//! The operators that `Instant` and `UnixTime` share: a duration is added and subtracted as in std,
//! but at the ends of the type's range a result stays at the end.
//!
//! std's types have a wider range. A program that adds `Duration::from_millis(u64::MAX)` means
//! "never", and survives with [`MAX`](crate::Instant::MAX); a panic would end it.

/// The operators of `$time`, which begins with `$time::$first`, ends with `$time::MAX`, and has
/// `checked_add` and `checked_sub`.
macro_rules! arithmetic {
    ($time:ident, $first:ident) => {
        impl core::ops::Add<Duration> for $time {
            type Output = Self;

            /// The time `duration` later; the last time of this type, `MAX`, if it has no such
            /// time. Does not panic.
            #[inline]
            fn add(self, duration: Duration) -> Self {
                self.checked_add(duration).unwrap_or(Self::MAX)
            }
        }

        impl core::ops::Sub<Duration> for $time {
            type Output = Self;

            #[doc = concat!("The time `duration` earlier; the first time of this type, `", stringify!($first), "`, if it has no")]
            /// such time. Does not panic.
            #[inline]
            fn sub(self, duration: Duration) -> Self {
                self.checked_sub(duration).unwrap_or(Self::$first)
            }
        }

        impl core::ops::AddAssign<Duration> for $time {
            /// As `+` does.
            #[inline]
            fn add_assign(&mut self, duration: Duration) {
                *self = *self + duration;
            }
        }

        impl core::ops::SubAssign<Duration> for $time {
            /// As `-` does.
            #[inline]
            fn sub_assign(&mut self, duration: Duration) {
                *self = *self - duration;
            }
        }
    };
}

pub(crate) use arithmetic;
