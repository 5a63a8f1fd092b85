//! Unix time as `jiff::Timestamp`, and back.

use ::jiff::Timestamp;

use crate::unix_time::{UnixTime, UnixTimeRangeError};

/// Exact: every Unix time is a timestamp.
impl From<UnixTime> for Timestamp {
    fn from(time: UnixTime) -> Self {
        // BOUND: the year 2554 is before jiff's last, 9999.
        Self::from_nanosecond(i128::from(time.as_nanos())).unwrap_or(Self::MAX)
    }
}

/// Exact.
impl TryFrom<Timestamp> for UnixTime {
    type Error = UnixTimeRangeError;

    fn try_from(time: Timestamp) -> Result<Self, Self::Error> {
        Self::from_signed_nanos(time.as_nanosecond())
    }
}
