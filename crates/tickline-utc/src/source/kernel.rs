//! The kernel's own claim (adjtimex(2)): its maximum error, which grows by 500 ppm between the
//! updates of the NTP daemon.
//!
//! systemd-timesyncd and OpenNTPD set the maximum error to 0 at each update, which bounds nothing
//! ([`KernelErrors::is_growth_only`](crate::sources::kernel::KernelErrors::is_growth_only)).
//! Another daemon's error looks so by chance; then there is no claim until its next update.
//!
//! ptpd sets its offset from the master as both errors, which bounds nothing either. Another
//! daemon's errors look so by chance, one time in 500.
//!
//! ntpd-rs 1.9 sets its root delay as the kernel's maximum error, and its root dispersion as the
//! estimated error. That dispersion is a standard deviation, and includes the server's dispersion.
//! So tickline adds the estimated error. Other daemons have a small one.

use core::num::NonZeroU16;

use super::{MeasurementId, Origin, Report, SourceAnswer, unknown_rates_ppb};
use crate::interval::Interval;
use crate::sys::{GROWTH_US, KernelClock};
use crate::unbounded::MAX_FREQUENCY_PPB;
use crate::{Unbounded, UtcSource, UtcUnknown};

#[derive(Debug, Default)]
pub(crate) struct KernelSource {
    /// The maximum error at the last request, us.
    maximum_error_us: i64,
    /// The number of the daemon's updates: the changes of the maximum error other than its growth.
    updates: u64,
    /// Whether the UTC day ends with a leap second.
    leap_second_today: bool,
    /// TAI minus UTC, s.
    pub(crate) tai_offset_s: Option<NonZeroU16>,
}

impl KernelSource {
    pub(super) fn report(&mut self, clock: &KernelClock) -> Option<SourceAnswer> {
        let maximum_us = clock.errors.maximum_us;
        let steering_ppb = clock.steering_ppb();
        self.tai_offset_s = u16::try_from(clock.tai_offset_s)
            .ok()
            .and_then(NonZeroU16::new);
        self.leap_second_today = clock.leap_second_today();
        if maximum_us < self.maximum_error_us
            || maximum_us.saturating_sub(self.maximum_error_us) % GROWTH_US != 0
        {
            self.updates += 1;
        }
        self.maximum_error_us = maximum_us;
        let unsynchronised = |why| Some(Err(UtcUnknown::Unsynchronised(UtcSource::Kernel, why)));
        if !clock.is_synchronised() {
            return unsynchronised(Unbounded::KernelUnsynchronised);
        }
        // If a daemon dies during a slew, it leaves a clock that runs away.
        if steering_ppb.saturating_abs() > MAX_FREQUENCY_PPB {
            return unsynchronised(Unbounded::by_steering(steering_ppb));
        }
        if clock.errors.is_growth_only() || clock.errors.offset_as_both_errors_us().is_some() {
            return None;
        }
        let estimated_us = clock.errors.known_estimated_us().unwrap_or(0).max(0);
        let error_us = maximum_us
            .saturating_add(estimated_us)
            .saturating_add(GROWTH_US);
        // Plus the offset that the kernel has still to slew away.
        let bound_ns = error_us
            .saturating_mul(1_000)
            .saturating_add(clock.offset_ns.saturating_abs());
        Some(Ok(Report {
            id: MeasurementId {
                origin: Origin::Kernel,
                number: self.updates,
            },
            offset_ns: Interval::around(0, bound_ns),
            request_ns: clock.offset_ns.saturating_abs(), // it shrinks while the kernel slews
            rates_ppb: unknown_rates_ppb(steering_ppb),
            slew_width_ppb: 0,
            valid_ns: i64::MAX,
            leap_second_today: self.leap_second_today,
        }))
    }

    /// The report of any source, with the kernel's announcement of a leap second: not every source
    /// makes one.
    pub(super) fn announce(&self, report: Report) -> Report {
        Report {
            leap_second_today: report.leap_second_today || self.leap_second_today,
            ..report
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::sys::{KernelErrors, STA_INS, STA_UNSYNC, UNSET_ERROR_US};

    /// The errors of a kernel whose daemon does not set the estimated one.
    const fn with_maximum_us(maximum_us: i64) -> KernelErrors {
        KernelErrors {
            maximum_us,
            estimated_us: UNSET_ERROR_US,
        }
    }

    /// A clock with an error of 1,234 us. Its daemon does not set the estimated error.
    pub(in crate::source) const USUAL: KernelClock = KernelClock {
        frequency_ppb: 0,
        tick_us: 10_000,
        offset_ns: -700,
        time_constant: 0,
        errors: with_maximum_us(1_234),
        status: 0,
        state: 0,
        tai_offset_s: 37,
    };

    /// A clock whose UTC day ends with a leap second.
    pub(in crate::source) const LEAP: KernelClock = KernelClock {
        status: STA_INS,
        ..USUAL
    };

    /// The claim of a kernel that is asked for the first time.
    fn claim(clock: KernelClock) -> Report {
        let answer = KernelSource::default().report(&clock);
        answer.expect("an answer").expect("a claim")
    }

    /// An offset of at most `bound_ns` to either side.
    fn within(bound_ns: i64) -> Interval<i64> {
        Interval::between(-bound_ns, bound_ns)
    }

    #[test]
    fn the_bound_is_the_maximum_error_a_seconds_growth_and_what_is_left_to_slew() {
        let bound_ns = 1_234_000 + 500_000 + 700;
        assert_eq!(claim(USUAL).offset_ns, within(bound_ns));
    }

    #[test]
    fn the_part_of_the_bound_that_shrinks_is_what_is_left_to_slew() {
        assert_eq!(claim(USUAL).request_ns, 700);
    }

    #[test]
    fn the_rates_are_those_of_a_source_that_states_none() {
        let steered = KernelClock {
            frequency_ppb: -100_000,
            ..USUAL
        };
        let rates_ppb = Interval::between(-600_000, 500_000);
        assert_eq!(claim(steered).rates_ppb, rates_ppb);
    }

    #[test]
    fn the_kernels_leap_second_is_in_its_claim() {
        assert!(claim(LEAP).leap_second_today);
        assert!(!claim(USUAL).leap_second_today);
    }

    #[test]
    fn the_kernels_leap_second_is_announced_in_the_report_of_another_source() {
        let other = claim(USUAL);
        for (clock, is_announced) in [(USUAL, false), (LEAP, true)] {
            let mut kernel = KernelSource::default();
            kernel.report(&clock);
            assert_eq!(kernel.announce(other).leap_second_today, is_announced);
        }
    }

    #[test]
    fn an_estimated_error_that_ntpd_rs_sets_is_added() {
        let estimated = KernelClock {
            errors: KernelErrors {
                maximum_us: 2_234,
                estimated_us: 5_000,
            },
            ..USUAL
        };
        let bound_ns = 7_234_000 + 500_000 + 700;
        assert_eq!(claim(estimated).offset_ns, within(bound_ns));
    }

    #[test]
    fn an_estimated_error_beyond_the_limit_of_new_kernels_is_added() {
        // Kernels before 6.11 take any estimate.
        let beyond = KernelClock {
            errors: KernelErrors {
                estimated_us: UNSET_ERROR_US + 1,
                ..USUAL.errors
            },
            ..USUAL
        };
        let bound_ns = 16_000_001_000 + 1_234_000 + 500_000 + 700;
        assert_eq!(claim(beyond).offset_ns, within(bound_ns));
    }

    /// The numbers of the measurements that a kernel reports which states these maximum errors one
    /// after the other.
    fn numbers<const N: usize>(maximum_errors_us: [i64; N]) -> [u64; N] {
        let mut kernel = KernelSource::default();
        maximum_errors_us.map(|maximum_us| {
            let clock = KernelClock {
                errors: with_maximum_us(maximum_us),
                ..USUAL
            };
            let answer = kernel.report(&clock);
            answer.expect("an answer").expect("a claim").id.number
        })
    }

    #[test]
    fn a_maximum_error_that_has_grown_by_itself_is_no_new_measurement() {
        assert_eq!(numbers([1_234, 1_734, 2_734]), [1, 1, 1]);
    }

    #[test]
    fn a_maximum_error_that_is_less_than_before_is_a_new_measurement() {
        assert_eq!(numbers([2_234, 1_234]), [1, 2]);
    }

    #[test]
    fn a_maximum_error_that_has_grown_otherwise_is_a_new_measurement() {
        assert_eq!(numbers([1_734, 2_900]), [1, 2]);
    }

    /// Why a kernel with this clock does not bound UTC.
    fn why_unsynchronised(clock: KernelClock) -> Unbounded {
        match KernelSource::default().report(&clock) {
            Some(Err(UtcUnknown::Unsynchronised(UtcSource::Kernel, why))) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_clock_that_is_not_synchronised_makes_no_claim() {
        let unsynchronised = KernelClock {
            status: STA_UNSYNC,
            ..USUAL
        };
        assert_eq!(
            why_unsynchronised(unsynchronised),
            Unbounded::KernelUnsynchronised
        );
    }

    #[test]
    fn a_clock_that_a_dead_daemon_left_slewing_makes_no_claim() {
        // Slewed by a twelfth.
        let runaway = KernelClock {
            frequency_ppb: 83_300_000,
            ..USUAL
        };
        let ppm = 83_300;
        assert_eq!(
            why_unsynchronised(runaway),
            Unbounded::SteeringTooLarge { ppm }
        );
    }

    #[test]
    fn a_clock_that_is_steered_by_as_much_as_ntp_can_makes_a_claim() {
        for frequency_ppb in [-MAX_FREQUENCY_PPB, MAX_FREQUENCY_PPB] {
            let steered = KernelClock {
                frequency_ppb,
                ..USUAL
            };
            assert_eq!(claim(steered).offset_ns, claim(USUAL).offset_ns);
        }
    }

    #[test]
    fn a_maximum_error_of_growth_alone_is_no_claim() {
        // systemd-timesyncd, three seconds after an update.
        let timesyncd = KernelClock {
            errors: with_maximum_us(1_500),
            ..USUAL
        };
        assert_eq!(KernelSource::default().report(&timesyncd), None);
    }

    #[test]
    fn the_kernel_states_the_offset_of_tai() {
        let mut kernel = KernelSource::default();
        kernel.report(&USUAL);
        assert_eq!(kernel.tai_offset_s, NonZeroU16::new(37));
    }

    #[test]
    fn an_offset_as_both_errors_is_no_claim() {
        // ptpd's last offset was 7 us. The second was read while it ran, the last an hour after it
        // died.
        for maximum_us in [7, 507, 1_800_007] {
            let errors = KernelErrors {
                maximum_us,
                estimated_us: 7,
            };
            let ptpd = KernelClock { errors, ..USUAL };
            assert_eq!(KernelSource::default().report(&ptpd), None, "{errors:?}");
        }
    }
}
