//! Unix time as `time::OffsetDateTime`, and back.

use ::time::{OffsetDateTime, PrimitiveDateTime};

use crate::unix_time::{UnixTime, UnixTimeRangeError};

/// Exact: every Unix time is a date of this type. The offset is UTC.
impl From<UnixTime> for OffsetDateTime {
    fn from(time: UnixTime) -> Self {
        // BOUND: the year 2554 is before the last of `time`, 9999.
        Self::from_unix_timestamp_nanos(i128::from(time.as_nanos()))
            .unwrap_or(PrimitiveDateTime::MAX.assume_utc())
    }
}

/// Exact, from any offset.
impl TryFrom<OffsetDateTime> for UnixTime {
    type Error = UnixTimeRangeError;

    fn try_from(time: OffsetDateTime) -> Result<Self, Self::Error> {
        Self::from_signed_nanos(time.unix_timestamp_nanos())
    }
}
