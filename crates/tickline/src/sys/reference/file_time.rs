//! Windows' file times, tested on every system.

/// Units of 100 ns from the beginning of 1601 (UTC), of which 1970 is 134,774 days away.
const UNITS_PER_DAY: u64 = 86_400 * 10_000_000;
const UNIX_EPOCH_UNITS: u64 = 134_774 * UNITS_PER_DAY;
const NS_PER_UNIT: i128 = 100;

/// Unix time of a file time, ns; saturates, in the years 1677 and 2262.
#[inline]
pub(super) fn unix_ns(units: u64) -> i64 {
    // BOUND: below 2^64 * 100.
    let ns = (i128::from(units) - i128::from(UNIX_EPOCH_UNITS)) * NS_PER_UNIT;
    i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_times_count_from_1601() {
        // As Microsoft has it in "Converting a time_t Value to a File Time".
        assert_eq!(UNIX_EPOCH_UNITS, 116_444_736_000_000_000);
        assert_eq!(unix_ns(UNIX_EPOCH_UNITS), 0);
        assert_eq!(unix_ns(UNIX_EPOCH_UNITS - 1), -100);
        // 2000-01-01 is 10,957 days after 1970-01-01.
        assert_eq!(unix_ns(UNIX_EPOCH_UNITS + 10_957 * UNITS_PER_DAY + 7), 946_684_800_000_000_700);
        // Those without Unix nanoseconds saturate.
        assert_eq!((unix_ns(0), unix_ns(u64::MAX)), (i64::MIN, i64::MAX));
        let last = UNIX_EPOCH_UNITS + i64::MAX.unsigned_abs() / 100;
        assert_eq!(unix_ns(last), i64::MAX / 100 * 100);
        assert_eq!(unix_ns(last + 1), i64::MAX);
    }
}
