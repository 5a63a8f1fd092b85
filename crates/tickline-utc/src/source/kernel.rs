//! The kernel's own claim (adjtimex(2)): its maximum error, which grows by 500 ppm between the
//! updates of the NTP daemon.
//!
//! systemd-timesyncd and OpenNTPD set the maximum error to 0 at each update, which bounds nothing.
//! The error is then a multiple of the kernel's growth in a second, and no claim. Another daemon's
//! error is such a multiple by chance, one time in 500; then there is no claim until its next
//! update.
//!
//! ptpd sets its offset from the master as both errors, which bounds nothing either. Another
//! daemon's errors look so by chance, as often as above.
//!
//! ntpd-rs 1.9 sets its root delay as the kernel's maximum error, and its root dispersion as the
//! estimated error. That dispersion is a standard deviation, and includes the server's dispersion.
//! So tickline adds the estimated error. Other daemons have a small one.

use core::num::NonZeroU16;

use super::{Answer, MAX_FREQUENCY_PPB, MeasurementId, Origin, Report, unknown_rates_ppb};
use crate::UtcUnknown;
use crate::interval::Interval;
use crate::sys::{GROWTH_US, KernelClock};

#[derive(Debug, Default)]
pub(crate) struct KernelSource {
    maxerror_us: i64,
    /// The number of the daemon's updates: the changes of the maximum error other than its growth.
    updates: u64,
    /// Whether the UTC day ends with a leap second.
    pub(super) leap_second_today: bool,
    /// TAI minus UTC, s.
    pub(crate) tai_offset_s: Option<NonZeroU16>,
}

impl KernelSource {
    pub(super) fn report(&mut self, clock: &KernelClock) -> Option<Answer> {
        let maxerror_us = clock.maxerror_us;
        let steering_ppb = clock.steering_ppb();
        self.tai_offset_s = u16::try_from(clock.tai_offset_s)
            .ok()
            .and_then(NonZeroU16::new);
        self.leap_second_today = clock.leap_second_today();
        if maxerror_us < self.maxerror_us
            || maxerror_us.saturating_sub(self.maxerror_us) % GROWTH_US != 0
        {
            self.updates += 1;
        }
        self.maxerror_us = maxerror_us;
        // If a daemon dies during a slew, it leaves a clock that runs away.
        if !clock.is_synchronised() || steering_ppb.saturating_abs() > MAX_FREQUENCY_PPB {
            return Some(Err(UtcUnknown::Unsynchronised));
        }
        if maxerror_us % GROWTH_US == 0 || clock.offset_as_error_us().is_some() {
            return None;
        }
        let estimated_us = clock.set_esterror_us().unwrap_or(0).max(0);
        let error_us = maxerror_us
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
            valid_ns: i64::MAX,
            leap_second_today: self.leap_second_today,
        }))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::sys::{STA_INS, STA_UNSYNC, UNSET_ERROR_US};

    /// A clock with an error of 1,234 us. Its daemon does not set the estimated error.
    pub(in crate::source) const USUAL: KernelClock = KernelClock {
        frequency_ppb: 0,
        tick_us: 10_000,
        offset_ns: -700,
        time_constant: 0,
        maxerror_us: 1_234,
        esterror_us: UNSET_ERROR_US,
        status: 0,
        state: 0,
        tai_offset_s: 37,
    };

    #[test]
    fn the_kernels_claim_is_one_only_where_somebody_made_it() {
        let mut kernel = KernelSource::default();
        let mut answer = |clock: KernelClock| kernel.report(&clock);
        let claim = answer(USUAL).unwrap().unwrap();
        assert_eq!(
            (claim.offset_ns, claim.request_ns),
            (Interval::around(0, 1_734_700), 700)
        );
        let steered = answer(KernelClock {
            frequency_ppb: -100_000,
            ..USUAL
        })
        .unwrap()
        .unwrap();
        assert_eq!(steered.rates_ppb, Interval::between(-600_000, 500_000));
        assert!(!claim.leap_second_today);
        assert!(
            answer(KernelClock {
                status: STA_INS,
                ..USUAL
            })
            .unwrap()
            .unwrap()
            .leap_second_today
        );
        let estimated = answer(KernelClock {
            maxerror_us: 2_234,
            esterror_us: 5_000,
            ..USUAL
        })
        .unwrap()
        .unwrap();
        assert_eq!(
            estimated.offset_ns,
            Interval::around(0, 7_734_700),
            "ntpd-rs"
        );
        // Kernels before 6.11 take any estimate.
        let beyond_the_limit = answer(KernelClock {
            esterror_us: UNSET_ERROR_US + 1,
            ..USUAL
        });
        assert_eq!(
            beyond_the_limit.unwrap().unwrap().offset_ns,
            Interval::around(0, 16_001_735_700)
        );
        // A daemon has updated it: it is less than before, or has not grown as by itself.
        let mut measurement = |maxerror_us| {
            answer(KernelClock {
                maxerror_us,
                ..USUAL
            })
            .unwrap()
            .unwrap()
            .id
            .number
        };
        assert_eq!([1_234, 1_734, 2_900].map(&mut measurement), [2, 2, 3]);
        // Slewed by a twelfth, and left so.
        for wrong in [
            KernelClock {
                status: STA_UNSYNC,
                ..USUAL
            },
            KernelClock {
                frequency_ppb: 83_300_000,
                ..USUAL
            },
        ] {
            assert_eq!(answer(wrong), Some(Err(UtcUnknown::Unsynchronised)));
        }
        // systemd-timesyncd, three seconds after an update.
        assert_eq!(
            answer(KernelClock {
                maxerror_us: 1_500,
                ..USUAL
            }),
            None
        );
        assert_eq!(kernel.tai_offset_s, NonZeroU16::new(37));
    }

    #[test]
    fn an_offset_as_both_errors_is_no_claim() {
        // ptpd's last offset was 7 us. The second was read while it ran, the last an hour after it
        // died.
        for maxerror_us in [7, 507, 1_800_007] {
            let ptpd = KernelClock {
                maxerror_us,
                esterror_us: 7,
                ..USUAL
            };
            assert_eq!(KernelSource::default().report(&ptpd), None, "{maxerror_us}");
        }
    }
}
