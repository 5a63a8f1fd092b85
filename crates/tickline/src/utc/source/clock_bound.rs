//! The segment of AWS's clock-bound, in the layout of version 3 or 2 (`ClockErrorBoundV3`,
//! `ClockErrorBoundV2` and `ShmHeader` in the module `shm` of the crate `clock-bound`). Its daemon
//! writes the segment once a second.
//!
//! Version 3 names the counter's own parameters: UTC is reckoned by the daemon's line, and no OS
//! clock is on the way. Version 2 bounds the error of `CLOCK_REALTIME`.
//!
//! The crate's client is not used: it keeps its fields to itself, and reads the clocks anew for
//! each answer.

use crate::utc::claim::RATE_BITS;
use crate::utc::claim_maker::{MAX_FREQUENCY_PPB, Moment, Report, WANDER_PPB};
use crate::utc::vmclock::NO_PAGE;
use crate::utc::{UtcSource, UtcUnknown};

/// Version 3, and 2, which a daemon of version 3 also writes.
const SEGMENTS: [&str; 2] = ["/var/run/clockbound/shm1", "/var/run/clockbound/shm0"];

const MAGIC: [u32; 2] = [0x414D_5A4E, 0x4342_0200];

/// The longer one of the two layouts.
const BYTES: usize = 104;

const SYNCHRONISED: u32 = 1;
const FREE_RUNNING: u32 = 2;
const DISRUPTED: u32 = 3;

/// What the daemon has written.
#[derive(Debug)]
pub(super) struct Segments([Option<[u8; BYTES]>; SEGMENTS.len()]);

impl Segments {
    pub(super) fn read() -> Self {
        Self(SEGMENTS.map(read))
    }

    /// What the best of them says of the moment of `moment`, if there is one.
    pub(super) fn report(
        &self,
        moment: &Moment,
        rate: Option<[u64; 2]>,
    ) -> Option<Result<Report, UtcUnknown>> {
        let monotonic_ns = crate::sys::reference::system::try_read_ns(libc::CLOCK_MONOTONIC)?;
        let marker = (moment.disruption != NO_PAGE).then_some(moment.disruption);
        let mut best = None;
        for bytes in self.0.iter().flatten() {
            let said = Segment(bytes).report(moment, rate, monotonic_ns, marker);
            match said {
                Some(Ok(_) | Err(UtcUnknown::Disrupted)) => return said,
                _ => best = best.or(said),
            }
        }
        best
    }
}

/// A copy of the segment between two updates. The daemon makes the generation odd while it writes.
fn read(path: &str) -> Option<[u8; BYTES]> {
    let copy = || {
        let read = std::fs::read(path).ok()?;
        let mut bytes = [0; BYTES];
        let length = read.len().min(BYTES);
        bytes[..length].copy_from_slice(&read[..length]);
        Some(bytes)
    };
    for _ in 0..8 {
        let (first, second) = (copy()?, copy()?);
        if first == second && Segment(&first).half(14) % 2 == 0 {
            return Some(first);
        }
    }
    None
}

/// The bytes of a segment. Numbers are in this machine's byte order.
struct Segment<'a, const LENGTH: usize>(&'a [u8; LENGTH]);

impl<const LENGTH: usize> Segment<'_, LENGTH> {
    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        self.0.get(at..).and_then(|rest| rest.first_chunk().copied()).unwrap_or([0; N])
    }

    fn half(&self, at: usize) -> u16 {
        u16::from_ne_bytes(self.bytes(at))
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.bytes(at))
    }

    fn long(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.bytes(at))
    }

    /// A `timespec`, ns.
    fn time_ns(&self, at: usize) -> i64 {
        let (seconds, nanos) = (self.long(at).cast_signed(), self.long(at + 8).cast_signed());
        seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
    }

    /// What it says of the moment of `moment`, when `CLOCK_MONOTONIC` is `monotonic_ns` or less;
    /// `None` if it has no content that is known here.
    fn report(
        &self,
        moment: &Moment,
        rate: Option<[u64; 2]>,
        monotonic_ns: i64,
        marker: Option<u64>,
    ) -> Option<Result<Report, UtcUnknown>> {
        let is_segment = [self.word(0), self.word(4)] == MAGIC && self.half(14) != 0;
        // The lower byte of the version is the layout, the upper one the oldest that can read it.
        let said = match self.half(12) {
            2 if is_segment => self.version_2(monotonic_ns)?,
            0x0303 if is_segment => self.version_3(moment, rate)?,
            _ => return None,
        };
        let Said { status, marker: known, .. } = said;
        Some(match status {
            // Nobody has written it for long, so it says nothing of today, nor of another source.
            _ if said.left_ns <= 0 => Err(UtcUnknown::Expired),
            DISRUPTED => Err(UtcUnknown::Disrupted),
            // The daemon relies on its readers to look at the page. Its own client fails here, too.
            _ if known.is_some() && marker.is_none() => return None,
            _ if known.is_some() && marker != known => Err(UtcUnknown::Disrupted),
            SYNCHRONISED | FREE_RUNNING => Ok(said.report),
            _ => Err(UtcUnknown::Unsynchronised),
        })
    }

    /// The marker, if the daemon looks at the hypervisor's.
    fn marker(&self, at: usize, enabled_at: usize) -> Option<u64> {
        (self.0[enabled_at] != 0).then(|| self.long(at))
    }

    fn version_2(&self, monotonic_ns: i64) -> Option<Said> {
        let (as_of_ns, void_after_ns) = (self.time_ns(16), self.time_ns(32));
        let drift_ppb = i64::from(self.word(64));
        // The daemon's clock is coarse, so it is never ahead. One that is counts from another boot.
        let elapsed_ns = monotonic_ns.checked_sub(as_of_ns).filter(|elapsed_ns| *elapsed_ns >= 0)?;
        let bound_ns = grown(self.long(48).cast_signed(), elapsed_ns, drift_ppb)?;
        let left_ns = void_after_ns.saturating_sub(monotonic_ns);
        Some(Said {
            status: self.word(68),
            marker: self.marker(56, 72),
            left_ns,
            report: Report {
                source: UtcSource::ClockBound,
                offset_ns: [-bound_ns, bound_ns],
                request_ns: 0,
                // It says nothing of the rate of the counter.
                rate_ppb: 0,
                drift_ppb: MAX_FREQUENCY_PPB,
                valid_ns: left_ns,
                measurement: as_of_ns.cast_unsigned(),
                leap_second_today: false,
                tai_offset_s: None,
            },
        })
    }

    fn version_3(&self, moment: &Moment, rate: Option<[u64; 2]>) -> Option<Said> {
        let (ticks, [slowest, fastest]) = (moment.ticks?, rate?);
        let since_ticks = i128::from(ticks.checked_sub(self.long(16))?);
        let (as_of_ns, void_after_ns) = (self.time_ns(24), self.time_ns(40));
        // The period is a fraction of a second, with 64 + shift binary places.
        let period_places = 64 + u32::from(self.0[97]);
        let in_ns = |ticks: i128, places: u32| {
            let seconds = ticks.checked_mul(i128::from(self.long(56)))?;
            // In two steps: ticks of a day, times a fraction of 64 bits, fill an i128.
            Some(
                (seconds >> places.min(32)).checked_mul(1_000_000_000)? >> places.saturating_sub(32).min(127),
            )
        };
        let elapsed_ns = i64::try_from(in_ns(since_ticks, period_places)?).ok()?;
        let utc_ns = as_of_ns.saturating_add(elapsed_ns);
        let period_error_ppb =
            (u128::from(self.long(64)) * 1_000_000_000) >> (64 + u32::from(self.0[98])).min(127);
        let drift_ppb = i64::from(self.word(88)).saturating_add(i64::try_from(period_error_ppb).ok()? + 1);
        let bound_ns = grown(self.long(72).cast_signed(), elapsed_ns, drift_ppb)?.saturating_add(2);
        let left_ns = void_after_ns.saturating_sub(utc_ns);
        let offset_ns = utc_ns.saturating_sub(moment.realtime_ns);
        // The daemon's time of 2^48 ticks against that of `CLOCK_MONOTONIC_RAW`.
        let (utc, raw) = (in_ns(1 << RATE_BITS, period_places)?, i128::from(slowest));
        let rate_ppb = i64::try_from((utc - raw) * 1_000_000_000 / raw.max(1)).ok()?;
        // How well that is known.
        let unsure_ppb = i64::try_from(
            u128::from(fastest.saturating_sub(slowest)) * 2_000_000_000 / u128::from(slowest.max(1)),
        )
        .ok()?;
        Some(Said {
            status: self.word(92),
            marker: self.marker(80, 96),
            left_ns,
            report: Report {
                source: UtcSource::ClockBound,
                offset_ns: [offset_ns.saturating_sub(bound_ns), offset_ns.saturating_add(bound_ns)],
                request_ns: 0,
                rate_ppb,
                drift_ppb: drift_ppb.saturating_add(unsure_ppb).saturating_add(WANDER_PPB + 2),
                valid_ns: left_ns,
                measurement: as_of_ns.cast_unsigned(),
                leap_second_today: false,
                tai_offset_s: None,
            },
        })
    }
}

/// The content of either layout.
struct Said {
    status: u32,
    marker: Option<u64>,
    /// The time until it is void, ns.
    left_ns: i64,
    report: Report,
}

/// A bound that has grown for `elapsed_ns`; `None` if the bound or the drift is none.
fn grown(bound_ns: i64, elapsed_ns: i64, drift_ppb: i64) -> Option<i64> {
    let growth_ns = i128::from(elapsed_ns) * i128::from(drift_ppb) / 1_000_000_000 + 1;
    (bound_ns >= 0 && drift_ppb < 1_000_000_000).then_some(())?;
    bound_ns.checked_add(i64::try_from(growth_ns).ok()?)
}

#[cfg(test)]
mod tests;
