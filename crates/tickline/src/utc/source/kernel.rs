//! The kernel's own claim (adjtimex(2)): its maximum error, which grows by 500 ppm between the
//! updates of the NTP daemon.
//!
//! systemd-timesyncd and OpenNTPD set the maximum error to 0 at each update, which bounds nothing.
//! The error is then a multiple of what the kernel adds each second, and no claim. Another daemon's
//! error is such a multiple by chance, one time in 500. Then there is no claim until that daemon's
//! next update.
//!
//! ntpd-rs 1.9 tells the kernel its root delay as the maximum error, and its root dispersion as the
//! estimated error. That dispersion is a standard deviation, and includes the server's dispersion.
//! So tickline adds the estimated error. Other daemons have a small one.

use core::num::NonZeroU16;

use super::unknown_rates_ppb;
use crate::sys::reference::system::{steering_ppb, with_timex};
use crate::utc::claim_maker::{MAX_FREQUENCY_PPB, Report};
use crate::utc::{UtcSource, UtcUnknown};

/// What the kernel adds to its maximum error each second, us (`second_overflow` in
/// `kernel/time/ntp.c`). Some of a second is not yet in it.
const GROWTH_US: i64 = 500;

/// An estimated error that nobody has told, us (`NTP_PHASE_LIMIT` in `include/linux/timex.h`).
const UNTOLD_US: i64 = 16_000_000;

#[derive(Debug, Default)]
pub(in crate::utc) struct Kernel {
    maxerror_us: i64,
    /// How often the daemon has updated the kernel's clock: the maximum error became smaller.
    updates: u64,
    /// Whether the UTC day ends with a leap second.
    pub(super) leap_second_today: bool,
    /// TAI minus UTC, s.
    pub(in crate::utc) tai_offset_s: Option<NonZeroU16>,
}

impl Kernel {
    pub(super) fn ask(&mut self) -> Option<Result<Report, UtcUnknown>> {
        with_timex(|timex, state| self.report(timex, state))?
    }

    #[allow(clippy::useless_conversion, reason = "long has 32 bits on some targets")]
    fn report(&mut self, timex: &libc::timex, state: i32) -> Option<Result<Report, UtcUnknown>> {
        let (maxerror_us, offset) = (i64::from(timex.maxerror), i64::from(timex.offset));
        self.tai_offset_s = u16::try_from(timex.tai).ok().and_then(NonZeroU16::new);
        self.leap_second_today =
            timex.status & (libc::STA_INS | libc::STA_DEL) != 0 && state != libc::TIME_WAIT;
        if maxerror_us < self.maxerror_us {
            self.updates += 1;
        }
        self.maxerror_us = maxerror_us;
        // A daemon that has died while it slewed leaves a clock that runs away.
        let steered_ppb = steering_ppb(timex);
        let is_steered = steered_ppb.saturating_abs() <= MAX_FREQUENCY_PPB;
        if state == libc::TIME_ERROR || timex.status & libc::STA_UNSYNC != 0 || !is_steered {
            return Some(Err(UtcUnknown::Unsynchronised));
        }
        if maxerror_us % GROWTH_US == 0 {
            return None;
        }
        // What the kernel has left to slew away.
        let unit_ns = if timex.status & libc::STA_NANO != 0 { 1 } else { 1_000 };
        let left_ns = offset.saturating_mul(unit_ns).saturating_abs();
        let estimated_us = Some(i64::from(timex.esterror)).filter(|us| *us < UNTOLD_US).unwrap_or(0).max(0);
        let error_us = maxerror_us.saturating_add(estimated_us).saturating_add(GROWTH_US);
        let bound_ns = error_us.saturating_mul(1_000).saturating_add(left_ns);
        Some(Ok(Report {
            source: UtcSource::Kernel,
            offset_ns: [-bound_ns, bound_ns],
            request_ns: 0,
            rates_ppb: unknown_rates_ppb(steered_ppb),
            valid_ns: i64::MAX,
            measurement: self.updates,
            leap_second_today: self.leap_second_today,
        }))
    }
}

#[test]
fn the_kernels_claim_is_one_only_where_somebody_made_it() {
    let mut kernel = Kernel::default();
    let mut timex = with_timex(|timex, _| *timex).unwrap();
    (timex.status, timex.offset, timex.freq, timex.tick, timex.tai) = (libc::STA_NANO, -700, 0, 10_000, 37);
    timex.esterror = 16_000_000;
    let mut said = |maxerror_us: libc::c_long, change: &dyn Fn(&mut libc::timex), state: i32| {
        let mut timex = libc::timex { maxerror: maxerror_us, ..timex };
        change(&mut timex);
        kernel.report(&timex, state)
    };
    let unchanged: &dyn Fn(&mut libc::timex) = &|_| {};
    let claim = said(1_234, unchanged, libc::TIME_OK).unwrap().unwrap();
    assert_eq!((claim.offset_ns, claim.measurement), ([-1_734_700, 1_734_700], 0));
    let steered = said(1_234, &|timex| timex.freq = -100 << 16, libc::TIME_OK).unwrap().unwrap();
    assert_eq!(steered.rates_ppb, [-600_000, 500_000]);
    assert!(!claim.leap_second_today);
    for (state, leap_second_today) in [(libc::TIME_INS, true), (libc::TIME_WAIT, false)] {
        let claim = said(2_234, &|timex| timex.status |= libc::STA_INS, state).unwrap().unwrap();
        assert_eq!(claim.leap_second_today, leap_second_today);
    }
    let estimated = said(2_234, &|timex| timex.esterror = 5_000, libc::TIME_OK).unwrap().unwrap();
    assert_eq!(estimated.offset_ns, [-7_734_700, 7_734_700], "ntpd-rs");
    // Less than before: somebody has updated it.
    assert_eq!(said(1_234, unchanged, libc::TIME_OK).unwrap().unwrap().measurement, 1);
    let unsynchronised = [
        said(1_234, unchanged, libc::TIME_ERROR),
        said(1_234, &|timex| timex.status |= libc::STA_UNSYNC, libc::TIME_OK),
        // Slewed by a twelfth, and left so.
        said(1_234, &|timex| timex.tick = 10_833, libc::TIME_OK),
    ];
    assert_eq!(unsynchronised, [Some(Err(UtcUnknown::Unsynchronised)); 3]);
    // systemd-timesyncd, three seconds after an update.
    assert_eq!(said(1_500, unchanged, libc::TIME_OK), None);
    assert_eq!(kernel.tai_offset_s, NonZeroU16::new(37));
}
