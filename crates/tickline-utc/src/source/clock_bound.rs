//! The segment of AWS's clock-bound, in the layout of version 3 or 2 (`ClockErrorBoundV3`,
//! `ClockErrorBoundV2` and `ShmHeader` in the module `shm` of the crate `clock-bound`). Its daemon
//! writes the segment once a second.
//!
//! Version 3 has the parameters of the counter itself: UTC follows from the daemon's line, without
//! an OS clock. Version 2 bounds the error of `CLOCK_REALTIME`.
//!
//! tickline does not use the crate's client, because its fields are private, and it reads the
//! clocks anew for each answer.

use std::path::Path;

use super::{MeasurementId, Origin, Report, unknown_rates_ppb};
use crate::UtcUnknown;
use crate::claim::SLOPE_BITS;
use crate::interval::Interval;
use crate::moment::{Moment, NO_MARKER};
use crate::rate::WANDER_PPB;
use crate::sys;

/// The segments of version 3 and of version 2. A daemon of version 3 writes both.
const SEGMENTS: [&str; 2] = ["/var/run/clockbound/shm1", "/var/run/clockbound/shm0"];

const MAGIC: [u32; 2] = [0x414D_5A4E, 0x4342_0200];

/// The length of the longer layout.
const BYTES: usize = 104;

const SYNCHRONISED: u32 = 1;
const FREE_RUNNING: u32 = 2;
const DISRUPTED: u32 = 3;

/// The segments that the daemon has written.
pub(super) fn read() -> [Option<Segment>; SEGMENTS.len()] {
    SEGMENTS.map(Segment::read)
}

/// The bytes of a segment. Numbers are in this machine's byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment([u8; BYTES]);

/// UTC, extrapolated from a segment by the clock of its layout.
struct Extrapolated {
    /// The time since the segment was written, ns.
    elapsed_ns: i64,
    /// The growth of the bound beyond the segment's own drift, ppb, and the rounding error, ns.
    error_ppb: i64,
    rounded_ns: i64,
    /// UTC minus `CLOCK_REALTIME`, ns.
    offset_ns: i64,
    /// The rates that UTC may have against `CLOCK_MONOTONIC_RAW`, ppb.
    rates_ppb: Interval<i64>,
}

impl Segment {
    /// A consistent copy. The daemon makes the generation odd while it writes.
    fn read(path: &str) -> Option<Self> {
        let copy = || {
            let mut bytes = [0; BYTES];
            sys::read_beginning(Path::new(path), &mut bytes)?;
            Some(Self(bytes))
        };
        for _ in 0..8 {
            let (first, second) = (copy()?, copy()?);
            if first == second && first.half(14) % 2 == 0 {
                return Some(first);
            }
        }
        None
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

    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        core::array::from_fn(|index| self.0[at + index])
    }

    /// A `timespec`, ns.
    fn time_ns(&self, at: usize) -> i64 {
        let (seconds, nanos) = (self.long(at).cast_signed(), self.long(at + 8).cast_signed());
        seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
    }

    /// The segment's report about `moment`, at which `CLOCK_MONOTONIC` is at most `monotonic_ns`,
    /// and the OS clock is steered by `steered_ppb`. `None` if the segment's content is unknown
    /// here.
    pub(super) fn report(
        &self,
        moment: &Moment,
        slopes: Option<Interval<u64>>,
        steered_ppb: i64,
        monotonic_ns: i64,
    ) -> Option<Result<Report, UtcUnknown>> {
        if [self.word(0), self.word(4)] != MAGIC || self.half(14) == 0 {
            return None;
        }
        // The lower byte of the version is the layout, the upper one the oldest that can read it.
        let (origin, times, figures) = match self.half(12) {
            2 => (Origin::ClockBound2, 16, 48),
            0x0303 => (Origin::ClockBound3, 24, 72),
            _ => return None,
        };
        let (as_of_ns, void_after_ns) = (self.time_ns(times), self.time_ns(times + 16));
        let (bound_ns, marker) = (self.long(figures).cast_signed(), self.long(figures + 8));
        let (drift_ppb, status) = (i64::from(self.word(figures + 16)), self.word(figures + 20));
        let knows_marker = self.0[figures + 24] != 0;
        let line = if origin == Origin::ClockBound2 {
            // The daemon's clock is coarse, so it is never ahead of this one. A segment from the
            // future is from before the last boot.
            let elapsed_ns = monotonic_ns
                .checked_sub(as_of_ns)
                .filter(|elapsed_ns| *elapsed_ns >= 0)?;
            // Version 2 does not state the rate of the counter.
            let rates_ppb = unknown_rates_ppb(steered_ppb);
            Extrapolated {
                elapsed_ns,
                error_ppb: 0,
                rounded_ns: 0,
                offset_ns: 0,
                rates_ppb,
            }
        } else {
            // Without the counter's rate the segment says nothing, not even of a disruption.
            self.extrapolated(as_of_ns, drift_ppb, moment, slopes?)?
        };
        let growth_ppb = drift_ppb.saturating_add(line.error_ppb);
        if bound_ns < 0 || growth_ppb >= 1_000_000_000 {
            return None;
        }
        let growth_ns = i128::from(line.elapsed_ns) * i128::from(growth_ppb) / 1_000_000_000 + 1;
        let bound_ns = bound_ns
            .checked_add(i64::try_from(growth_ns).ok()?)?
            .saturating_add(line.rounded_ns);
        let left_ns = void_after_ns.saturating_sub(as_of_ns.saturating_add(line.elapsed_ns));
        Some(match status {
            // The daemon has not written for long, so this says nothing of the present, or of other
            // sources.
            _ if left_ns <= 0 => Err(UtcUnknown::Expired),
            DISRUPTED => Err(UtcUnknown::Disrupted),
            // The daemon relies on its readers to check the VMClock. Its client fails here, too.
            _ if knows_marker && moment.marker == NO_MARKER => return None,
            _ if knows_marker && moment.marker != marker => Err(UtcUnknown::Disrupted),
            SYNCHRONISED | FREE_RUNNING => Ok(Report {
                id: MeasurementId {
                    origin,
                    number: as_of_ns.cast_unsigned(),
                },
                offset_ns: Interval::around(line.offset_ns, bound_ns),
                request_ns: 0,
                rates_ppb: line.rates_ppb,
                valid_ns: left_ns,
                leap_second_today: false,
            }),
            _ => Err(UtcUnknown::Unsynchronised),
        })
    }

    /// The line of version 3, by the counter.
    fn extrapolated(
        &self,
        as_of_ns: i64,
        drift_ppb: i64,
        moment: &Moment,
        slopes: Interval<u64>,
    ) -> Option<Extrapolated> {
        let since_ticks = i128::from(moment.ticks?.checked_sub(self.long(16))?);
        // The period is a fraction of a second, with 64 + shift binary places.
        let places = |shift_at: usize| 64 + u32::from(self.0[shift_at]);
        let in_ns = |ticks: i128| {
            // In two steps: ticks of a day, times a fraction of 64 bits, fill an i128.
            let seconds = ticks.checked_mul(i128::from(self.long(56)))? >> 32;
            Some(seconds.checked_mul(1_000_000_000)? >> (places(97) - 32).min(127))
        };
        let elapsed_ns = i64::try_from(in_ns(since_ticks)?).ok()?;
        let period_error_ppb = (u128::from(self.long(64)) * 1_000_000_000) >> places(98).min(127);
        let error_ppb = i64::try_from(period_error_ppb).ok()? + 1;
        // The time of 2^48 ticks by the daemon, against `CLOCK_MONOTONIC_RAW`.
        let (utc, raw) = (in_ns(1 << SLOPE_BITS)?, i128::from(slopes.least));
        let rate_ppb = i64::try_from((utc - raw) * 1_000_000_000 / raw.max(1)).ok()?;
        // The uncertainty of that rate.
        let width = u128::from(slopes.greatest.saturating_sub(slopes.least));
        let slowest = u128::from(slopes.least.max(1));
        let unsure_ppb = i64::try_from(width * 2_000_000_000 / slowest).ok()?;
        let drift_ppb = drift_ppb
            .saturating_add(error_ppb)
            .saturating_add(unsure_ppb)
            .saturating_add(WANDER_PPB + 2);
        Some(Extrapolated {
            elapsed_ns,
            error_ppb,
            rounded_ns: 2,
            offset_ns: as_of_ns
                .saturating_add(elapsed_ns)
                .saturating_sub(moment.realtime_ns),
            rates_ppb: Interval::around(rate_ppb, drift_ppb),
        })
    }
}

#[cfg(test)]
mod tests;
