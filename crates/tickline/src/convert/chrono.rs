//! Unix time as `chrono::DateTime`, and back.

use ::chrono::{DateTime, TimeZone, Utc};

use crate::unix_time::{NS_PER_S, UnixTime, UnixTimeRangeError};

/// Exact: every Unix time is a date of chrono.
impl From<UnixTime> for DateTime<Utc> {
    fn from(time: UnixTime) -> Self {
        // BOUND: 2^64 ns are below 2^35 s, and the year 2554 is before chrono's last, 262142.
        let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        Self::from_timestamp(seconds, time.subsec_nanos()).unwrap_or(Self::MAX_UTC)
    }
}

/// Exact. chrono represents a leap second by more than 10^9 ns in 23:59:59, the second before it.
/// Here it becomes the second after it, as in POSIX.
impl<Z: TimeZone> TryFrom<DateTime<Z>> for UnixTime {
    type Error = UnixTimeRangeError;

    fn try_from(time: DateTime<Z>) -> Result<Self, Self::Error> {
        let seconds_ns = i128::from(time.timestamp()) * i128::from(NS_PER_S);
        Self::from_signed_nanos(seconds_ns + i128::from(time.timestamp_subsec_nanos()))
    }
}
