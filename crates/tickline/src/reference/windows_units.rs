//! The units of Windows' clocks, in ns: exact, and tested on every system.

const NS_PER_S: u64 = 1_000_000_000;

/// File times count units of 100 ns from the beginning of 1601 (UTC): 134,774 days before 1970.
const UNITS_PER_S: u64 = 10_000_000;
const UNIX_EPOCH_UNITS: u64 = 134_774 * 86_400 * UNITS_PER_S;
const NS_PER_UNIT: i64 = 100;

/// Nanoseconds in so many counts of a counter of `hz`, rounded down; exact for frequencies that divide no power of ten, and
/// for each count by itself, so that no error adds up. Saturates at `i64::MAX`, after 292 years. A counter of 0 Hz stands at
/// 0.
#[inline]
pub(super) fn ns_of_counts(counts: u64, hz: u64) -> i64 {
    let (Some(seconds), Some(rest)) = (counts.checked_div(hz), counts.checked_rem(hz)) else { return 0 };
    // BOUND: `rest` < `hz`, so the product fits up to 18.4 GHz, and the quotient is below 1e9 at any frequency.
    let rest_ns = match rest.checked_mul(NS_PER_S) {
        Some(product) => product / hz,
        None => u64::try_from(u128::from(rest) * u128::from(NS_PER_S) / u128::from(hz)).unwrap_or(NS_PER_S),
    };
    let ns = seconds.checked_mul(NS_PER_S).and_then(|ns| ns.checked_add(rest_ns));
    ns.and_then(|ns| i64::try_from(ns).ok()).unwrap_or(i64::MAX)
}

/// Unix time of a file time, ns; saturates, in the year 2262.
#[inline]
pub(super) fn unix_ns_of_file_time(units: u64) -> i64 {
    let since_epoch = i128::from(units) - i128::from(UNIX_EPOCH_UNITS);
    let ns = since_epoch * i128::from(NS_PER_UNIT);
    i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn counts_are_converted_exactly(counts: u64, hz in 1_u64..) {
            // The definition: ns * hz <= counts * 1e9 < (ns + 1) * hz.
            let ns = ns_of_counts(counts, hz);
            let (product, hz) = (u128::from(counts) * u128::from(NS_PER_S), u128::from(hz));
            if ns == i64::MAX {
                prop_assert!(product / hz >= i64::MAX.unsigned_abs().into());
            } else {
                let ns = u128::try_from(ns).unwrap();
                prop_assert!(ns * hz <= product && product < (ns + 1) * hz, "{ns}");
            }
        }

        /// Frequencies that are met: 10 MHz, 3.58 MHz (ACPI), 14.3 MHz (HPET), 24 MHz (ARM), that of the TSC over 1,024.
        #[test]
        fn real_frequencies_lose_no_count(
            counts in 0_u64..1 << 52,
            hz in prop::sample::select(vec![10_000_000_u64, 3_579_545, 14_318_180, 24_000_000, 2_535_352]),
        ) {
            let (this, next) = (ns_of_counts(counts, hz), ns_of_counts(counts + 1, hz));
            let step_ns = i64::try_from(NS_PER_S / hz).unwrap();
            prop_assert!((step_ns..=step_ns + 1).contains(&(next - this)), "{this}, {next}");
        }

        #[test]
        fn file_times_go_on(units in 0..u64::MAX) {
            let (this, next) = (unix_ns_of_file_time(units), unix_ns_of_file_time(units + 1));
            prop_assert!(next - this == NS_PER_UNIT || next == i64::MAX || this == i64::MIN);
        }
    }

    #[test]
    fn a_counter_without_a_frequency_stands_still() {
        assert_eq!(ns_of_counts(u64::MAX, 0), 0);
    }

    #[test]
    fn file_times_count_from_1601() {
        assert_eq!(unix_ns_of_file_time(UNIX_EPOCH_UNITS), 0);
        // 1970-01-01 as Microsoft's documentation has it ("Converting a time_t Value to a File Time").
        assert_eq!(UNIX_EPOCH_UNITS, 116_444_736_000_000_000);
        assert_eq!(unix_ns_of_file_time(UNIX_EPOCH_UNITS - 1), -100);
        // 2000-01-01: 10,957 days later.
        let days = 10_957;
        assert_eq!(
            unix_ns_of_file_time(UNIX_EPOCH_UNITS + days * 86_400 * UNITS_PER_S),
            946_684_800_000_000_000
        );
    }
}
