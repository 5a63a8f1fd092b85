//! The arithmetic and `serde` support that `Instant` and `UnixTime` share. Each type is a number of
//! ns. Durations are added as in std, and `serde` stores the number unchanged.

/// The arithmetic of `$time`, a struct with a field `ns`; `$a_time` names it in panics.
macro_rules! arithmetic {
    ($time:ident, $a_time:literal) => {
        impl $time {
            /// This time plus `duration`; `None` beyond 2^64 ns.
            #[inline]
            #[must_use]
            pub fn checked_add(&self, duration: Duration) -> Option<Self> {
                let ns = u64::try_from(duration.as_nanos()).ok()?;
                Some(Self {
                    ns: self.ns.checked_add(ns)?,
                })
            }

            /// This time minus `duration`; `None` before 0.
            #[inline]
            #[must_use]
            pub fn checked_sub(&self, duration: Duration) -> Option<Self> {
                let ns = u64::try_from(duration.as_nanos()).ok()?;
                Some(Self {
                    ns: self.ns.checked_sub(ns)?,
                })
            }
        }

        /// A number of ns.
        #[cfg(feature = "serde")]
        impl serde::Serialize for $time {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_u64(self.ns)
            }
        }

        /// A number of ns.
        #[cfg(feature = "serde")]
        impl<'de> serde::Deserialize<'de> for $time {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                u64::deserialize(deserializer).map(Self::from_nanos)
            }
        }

        impl core::ops::Add<Duration> for $time {
            type Output = Self;

            /// # Panics
            ///
            /// If the sum is beyond 2^64 ns (584 years), which std's type can represent.
            /// `checked_add` does not panic.
            #[inline]
            fn add(self, duration: Duration) -> Self {
                self.checked_add(duration)
                    .expect(concat!("overflow when adding a duration to ", $a_time))
            }
        }

        impl core::ops::Sub<Duration> for $time {
            type Output = Self;

            /// # Panics
            ///
            /// If the difference is before 0, which std's type can represent on Linux.
            /// `checked_sub` does not panic.
            #[inline]
            fn sub(self, duration: Duration) -> Self {
                let less = self.checked_sub(duration);
                less.expect(concat!(
                    "overflow when subtracting a duration from ",
                    $a_time
                ))
            }
        }

        impl core::ops::AddAssign<Duration> for $time {
            /// # Panics
            ///
            /// If `+` does.
            #[inline]
            fn add_assign(&mut self, duration: Duration) {
                *self = *self + duration;
            }
        }

        impl core::ops::SubAssign<Duration> for $time {
            /// # Panics
            ///
            /// If `-` does.
            #[inline]
            fn sub_assign(&mut self, duration: Duration) {
                *self = *self - duration;
            }
        }
    };
}

pub(crate) use arithmetic;
