//! The segment of AWS's clock-bound, in the layout of version 3 or 2 ([`VERSION_3`],
//! [`VERSION_2`]). Its daemon writes the segment once a second.
//!
//! Version 3 has the parameters of the counter itself: UTC follows from the daemon's line, without
//! an OS clock. Version 2 bounds the error of `CLOCK_REALTIME`.
//!
//! tickline does not use the crate's client, because its fields are private, and it reads the
//! clocks anew for each answer.

use std::path::Path;

use super::{MeasurementId, Origin, Report, SourceAnswer, unknown_rates_ppb};
use crate::claim::SLOPE_BITS;
use crate::interval::Interval;
use crate::moment::{Moment, NO_MARKER};
use crate::rate::WANDER_PPB;
use crate::sys;
use crate::{Unbounded, UtcSource, UtcUnknown};

/// The segments of version 3 and of version 2. A daemon of version 3 writes both.
const SEGMENTS: [&str; 2] = ["/var/run/clockbound/shm1", "/var/run/clockbound/shm0"];

const MAGIC: [u32; 2] = [0x414D_5A4E, 0x4342_0200];

// The places of the header's fields, bytes (`ShmHeader` in the module `shm` of the crate
// `clock-bound` 3.0.0-rc.0; all layouts are `repr(C)`).
const MAGIC_AT: usize = 0;
const VERSION_AT: usize = 12;
const GENERATION_AT: usize = 14;

/// The places of the fields that both versions have, bytes, by clock-bound's names. A `timespec`
/// has 16 bytes.
struct Layout {
    as_of: usize,
    void_after: usize,
    bound_nsec: usize,
    disruption_marker: usize,
    max_drift_ppb: usize,
    clock_status: usize,
    clock_disruption_support_enabled: usize,
}

/// `ClockErrorBoundV2` in the same module, after the header.
const VERSION_2: Layout = Layout {
    as_of: 16,
    void_after: 32,
    bound_nsec: 48,
    disruption_marker: 56,
    max_drift_ppb: 64,
    clock_status: 68,
    clock_disruption_support_enabled: 72,
};

/// `ClockErrorBoundV3` in the same module, after the header and `as_of_tsc`.
const VERSION_3: Layout = Layout {
    as_of: 24,
    void_after: 40,
    bound_nsec: 72,
    disruption_marker: 80,
    max_drift_ppb: 88,
    clock_status: 92,
    clock_disruption_support_enabled: 96,
};

// The places of the fields of version 3 alone, bytes.
const AS_OF_TSC_AT: usize = 16;
const PERIOD_FRAC_AT: usize = 56;
const PERIOD_ERR_FRAC_AT: usize = 64;
const PERIOD_SHIFT_AT: usize = 97;
const PERIOD_ERR_SHIFT_AT: usize = 98;

/// The length of the longer layout, version 3, with its padding.
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

/// The fields that both versions have.
struct Fields {
    origin: Origin,
    /// The time of the segment, ns: UTC in version 3, `CLOCK_MONOTONIC_COARSE` in version 2.
    as_of_ns: i64,
    /// When the segment is void, by the same clock, ns.
    void_after_ns: i64,
    /// The largest error at the time of the segment, ns.
    bound_ns: i64,
    /// The hypervisor's disruption marker; `None` if the daemon does not look at it.
    marker: Option<u64>,
    /// The growth of the error, ppb.
    drift_ppb: i64,
    status: u32,
}

impl Fields {
    /// `CLOCK_REALTIME` as it is, whose error version 2 bounds, at the `CLOCK_MONOTONIC` of
    /// `monotonic_ns`.
    fn extrapolated_by_os(&self, steered_ppb: i64, monotonic_ns: i64) -> Option<Extrapolated> {
        // The daemon's clock is coarse, so it is never ahead of this one. A segment from the future
        // is from before the last boot.
        let elapsed_ns = monotonic_ns
            .checked_sub(self.as_of_ns)
            .filter(|elapsed_ns| *elapsed_ns >= 0)?;
        Some(Extrapolated {
            elapsed_ns,
            error_ppb: 0,
            rounded_ns: 0,
            offset_ns: 0,
            // Version 2 does not state the rate of the counter.
            rates_ppb: unknown_rates_ppb(steered_ppb),
        })
    }

    /// The largest error of `line`, ns; `None` if no plausible segment has it.
    fn bound_after_ns(&self, line: &Extrapolated) -> Option<i64> {
        let growth_ppb = self.drift_ppb.saturating_add(line.error_ppb);
        if self.bound_ns < 0 || growth_ppb >= 1_000_000_000 {
            return None;
        }
        let growth_ns = i128::from(line.elapsed_ns) * i128::from(growth_ppb) / 1_000_000_000 + 1;
        let bound_ns = self.bound_ns.checked_add(i64::try_from(growth_ns).ok()?)?;
        Some(bound_ns.saturating_add(line.rounded_ns))
    }
}

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
            let first = copy()?;
            let second = copy()?;
            if first == second && first.half(GENERATION_AT) % 2 == 0 {
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
        let seconds = self.long(at).cast_signed();
        let nanos = self.long(at + 8).cast_signed();
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
    ) -> Option<SourceAnswer> {
        let fields = self.fields()?;
        let line = if fields.origin == Origin::ClockBound2 {
            fields.extrapolated_by_os(steered_ppb, monotonic_ns)?
        } else {
            // Without the counter's rate the segment says nothing, not even of a disruption.
            self.extrapolated_by_counter(&fields, moment, slopes?)?
        };
        let bound_ns = fields.bound_after_ns(&line)?;
        let now_ns = fields.as_of_ns.saturating_add(line.elapsed_ns);
        let left_ns = fields.void_after_ns.saturating_sub(now_ns);
        if left_ns <= 0 {
            // The daemon has not written for long, so this says nothing of the present, or of other
            // sources.
            return Some(Err(UtcUnknown::Expired));
        }
        if fields.status == DISRUPTED {
            return Some(Err(UtcUnknown::Disrupted));
        }
        if let Some(marker) = fields.marker {
            // The daemon relies on its readers to check the VMClock. Its client fails here, too.
            if moment.marker == NO_MARKER {
                return None;
            }
            if marker != moment.marker {
                return Some(Err(UtcUnknown::Disrupted));
            }
        }
        if ![SYNCHRONISED, FREE_RUNNING].contains(&fields.status) {
            let status = fields.status;
            return Some(Err(UtcUnknown::Unsynchronised(
                UtcSource::ClockBound,
                Unbounded::ClockBoundStatus { status },
            )));
        }
        Some(Ok(Report {
            id: MeasurementId {
                origin: fields.origin,
                number: fields.as_of_ns.cast_unsigned(),
            },
            offset_ns: Interval::around(line.offset_ns, bound_ns),
            request_ns: 0,
            rates_ppb: line.rates_ppb,
            slew_width_ppb: 0,
            valid_ns: left_ns,
            leap_second_today: false,
        }))
    }

    /// The fields that both versions have; `None` if this is no segment, or one of another version.
    fn fields(&self) -> Option<Fields> {
        let magic = [MAGIC_AT, MAGIC_AT + 4].map(|at| self.word(at));
        if magic != MAGIC || self.half(GENERATION_AT) == 0 {
            return None;
        }
        // The lower byte of the version is the layout, the upper one the oldest that can read it.
        let (origin, layout) = match self.half(VERSION_AT) {
            2 => (Origin::ClockBound2, VERSION_2),
            0x0303 => (Origin::ClockBound3, VERSION_3),
            _ => return None,
        };
        let knows_marker = self.0[layout.clock_disruption_support_enabled] != 0;
        Some(Fields {
            origin,
            as_of_ns: self.time_ns(layout.as_of),
            void_after_ns: self.time_ns(layout.void_after),
            bound_ns: self.long(layout.bound_nsec).cast_signed(),
            marker: knows_marker.then(|| self.long(layout.disruption_marker)),
            drift_ppb: i64::from(self.word(layout.max_drift_ppb)),
            status: self.word(layout.clock_status),
        })
    }

    /// The line of version 3, by the counter.
    fn extrapolated_by_counter(
        &self,
        fields: &Fields,
        moment: &Moment,
        slopes: Interval<u64>,
    ) -> Option<Extrapolated> {
        let since_ticks = i128::from(moment.ticks?.checked_sub(self.long(AS_OF_TSC_AT))?);
        // The period is a fraction of a second, with 64 + shift binary places.
        let places = |shift_at: usize| 64 + u32::from(self.0[shift_at]);
        let in_ns = |ticks: i128| {
            // In two steps: ticks of a day, times a fraction of 64 bits, fill an i128.
            let seconds = ticks.checked_mul(i128::from(self.long(PERIOD_FRAC_AT)))? >> 32;
            Some(seconds.checked_mul(1_000_000_000)? >> (places(PERIOD_SHIFT_AT) - 32).min(127))
        };
        let elapsed_ns = i64::try_from(in_ns(since_ticks)?).ok()?;
        let period_error_ppb = (u128::from(self.long(PERIOD_ERR_FRAC_AT)) * 1_000_000_000)
            >> places(PERIOD_ERR_SHIFT_AT).min(127);
        let error_ppb = i64::try_from(period_error_ppb).ok()? + 1;
        // The time of 2^48 ticks by the daemon, against `CLOCK_MONOTONIC_RAW`.
        let utc = in_ns(1 << SLOPE_BITS)?;
        let raw = i128::from(slopes.min);
        let rate_ppb = i64::try_from((utc - raw) * 1_000_000_000 / raw.max(1)).ok()?;
        // The uncertainty of that rate.
        let width = u128::from(slopes.max.saturating_sub(slopes.min));
        let slowest = u128::from(slopes.min.max(1));
        let unsure_ppb = i64::try_from(width * 2_000_000_000 / slowest).ok()?;
        let drift_ppb = fields
            .drift_ppb
            .saturating_add(error_ppb)
            .saturating_add(unsure_ppb)
            .saturating_add(WANDER_PPB + 2);
        Some(Extrapolated {
            elapsed_ns,
            error_ppb,
            rounded_ns: 2,
            offset_ns: fields
                .as_of_ns
                .saturating_add(elapsed_ns)
                .saturating_sub(moment.realtime_ns),
            rates_ppb: Interval::around(rate_ppb, drift_ppb),
        })
    }
}

#[cfg(test)]
mod tests;
