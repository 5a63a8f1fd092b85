//! The kernel's own claim (adjtimex(2)): its maximum error, which grows by 500 ppm between the
//! updates of the NTP daemon.

use crate::sys::reference::system::with_timex;
use crate::utc::keeper::{MAX_FREQUENCY_PPB, Report};
use crate::utc::{UtcSource, UtcUnknown};

/// What the kernel adds to its maximum error each second, ns (`second_overflow` in
/// `kernel/time/ntp.c`). Some of a second is not yet in it.
const GROWTH_NS: i64 = 500_000;

/// systemd-timesyncd touches this file at each update (systemd-timesyncd.service(8)). It sets the
/// kernel's maximum error to 0 then, which is no bound on anything.
const TIMESYNCD: &str = "/run/systemd/timesync/synchronized";

#[derive(Debug, Default)]
pub(super) struct Kernel {
    maxerror_us: i64,
    /// How often the daemon has updated the kernel's clock: the maximum error became smaller.
    updates: u64,
    tai_offset_s: Option<u16>,
}

impl Kernel {
    /// TAI minus UTC when last asked, s, if somebody has told the kernel.
    pub(super) fn tai_offset_s(&self) -> Option<u16> {
        self.tai_offset_s
    }

    pub(super) fn ask(&mut self) -> Option<Result<Report, UtcUnknown>> {
        #[allow(clippy::useless_conversion, reason = "long has 32 bits on some targets")]
        let (maxerror_us, offset, status, tai, state) = with_timex(|timex, state| {
            (i64::from(timex.maxerror), i64::from(timex.offset), timex.status, timex.tai, state)
        })?;
        self.tai_offset_s = u16::try_from(tai).ok().filter(|offset| *offset > 0);
        if maxerror_us < self.maxerror_us {
            self.updates += 1;
        }
        self.maxerror_us = maxerror_us;
        if state == libc::TIME_ERROR || status & libc::STA_UNSYNC != 0 {
            return Some(Err(UtcUnknown::Unsynchronised));
        }
        if std::fs::exists(TIMESYNCD).unwrap_or(true) {
            return None;
        }
        // What the kernel has left to slew away.
        let unit_ns = if status & libc::STA_NANO != 0 { 1 } else { 1_000 };
        let left_ns = offset.saturating_mul(unit_ns).saturating_abs();
        let bound_ns = maxerror_us.saturating_mul(1_000).saturating_add(left_ns).saturating_add(GROWTH_NS);
        Some(Ok(Report {
            source: UtcSource::Kernel,
            offset_ns: [-bound_ns, bound_ns],
            rate_ppb: 0,
            drift_ppb: MAX_FREQUENCY_PPB,
            valid_ns: i64::MAX,
            measured: self.updates,
            leap: status & (libc::STA_INS | libc::STA_DEL) != 0,
            tai_offset_s: None,
        }))
    }
}
