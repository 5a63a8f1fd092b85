//! The slew of the kernel's clock beside the rate that the kernel states, by measurement.
//!
//! A program may call adjtime(3) once a second. At the next second's beginning the kernel takes up
//! to 500 us out of what is left (`second_overflow`, `time_adjust` and `MAX_TICKADJ` in
//! `kernel/time/ntp.c`), and slews by as much in that second. After at most 500 us nothing is left
//! while the clock is slewed, and `ADJ_OFFSET_SS_READ` of adjtimex(2) returns 0 at each poll whose
//! phase is not between the call and the second's end. So the slew is measured:
//!
//! ```text
//! slew = (CLOCK_REALTIME - CLOCK_MONOTONIC_RAW, now less at the base) / time since the base
//!        - the rates that the kernel has stated since the base
//! ```
//!
//! The bound: if the slew is the same from the base to now, and each rate of the kernel was between
//! two that it has stated, then the slew is in the result, widened by [`TICK_PPB`]. A slew that
//! began or ended after the base counts in part. The rate that was measured is in the sum of the
//! result and the rate that the kernel states now. A measurement beyond 500 ppm is none of
//! adjtime(3): it does not count, and the last slew stays. Two events end a measurement, and
//! nothing is known of the slew then: a time without polls, and a poll at which the kernel does not
//! say its rate.
//!
//! What it costs: a claim allows for the measured slew and for its error,
//!
//! ```text
//! error = 2 x width / time since the base, at most 501 ppm
//! ```
//!
//! where the width is that of a reading of the clocks (`Moment::width_ns`). The report allows for
//! [`TICK_PPB`] in any case, so a claim gets wider only by the error beyond that. The width is
//! 0.6 us at best (`polls.rs`), so the error is 1.2 ppm over a second, and a claim grows by 0.2 us
//! in a second, to either side.
//!
//! The first claim allows for each slew that adjtime(3) makes. The next one replaces it 4 ms later,
//! if the clocks can be read to 1 us. Until the slew has been measured over half a second, the time
//! since the base doubles from poll to poll (`Polls::pause`). So a claim grows by about two widths
//! until the next poll. The claim of the last of these polls, at 508 ms, lasts for a second, and
//! grows by four. Where chronyd has shown that it steers, nothing gets wider.

use super::{ADJTIME_PPB, Rates, TICK_PPB, mean_rates_ppb};
use crate::claim_maker::POLL_NS;
use crate::interval::Interval;

/// The shortest time over which a slew is measured again, ns, once one is known.
const MIN_BASE_NS: i64 = POLL_NS / 2;

/// The error of a measured slew that each report allows for, ppb. The report adds [`TICK_PPB`] to
/// the rate of UTC, and that is 1 - f of the kernel's rate: 1 % is for a frequency f of 1 %.
const ALLOWED_PPB: i64 = TICK_PPB - TICK_PPB / 100;

/// The kernel's clock at a poll.
#[derive(Debug, Clone, Copy)]
pub(super) struct KernelPoll {
    /// `CLOCK_MONOTONIC_RAW`, ns.
    pub(super) raw_ns: Interval<i64>,
    /// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC_RAW`, ns.
    pub(super) ahead_ns: Interval<i64>,
    /// The rate that the kernel states, ppb.
    pub(super) stated_ppb: Rates,
}

/// Measures the slew from poll to poll.
#[derive(Debug, Default)]
pub(super) struct SlewMeter {
    /// The poll where the measurement begins, with the rates that the kernel has stated since.
    base: Option<KernelPoll>,
    /// The slew that was measured last, ppb.
    slew_ppb: Option<Rates>,
    /// The one that was measured before that, ppb.
    earlier_ppb: Option<Rates>,
    /// `CLOCK_MONOTONIC_RAW` at the last poll, ns.
    last_ns: Option<i64>,
}

impl SlewMeter {
    /// The slews that the kernel's clock may have at this poll, ppb, less what each report allows
    /// for. The measurement begins anew if the last poll was more than `max_gap_ns` ago: the mean
    /// slew since then says little of the present one.
    pub(super) fn measure(&mut self, now: KernelPoll, max_gap_ns: i64) -> Rates {
        let has_gap = |last_ns: i64| now.raw_ns.max.saturating_sub(last_ns) > max_gap_ns;
        if self.last_ns.is_some_and(has_gap) {
            *self = Self::default();
        }
        self.last_ns = Some(now.raw_ns.min);
        let possible_ppb = Interval::around(0, ADJTIME_PPB + TICK_PPB);
        let mut base = self.base.unwrap_or(now);
        base.stated_ppb = base.stated_ppb.hull(now.stated_ppb);
        let elapsed_ns = now.raw_ns.minus(base.raw_ns);
        // Beyond what adjtime(3) can do, the clock was set, or the kernel's rate was another one
        // for a time.
        let measured_ppb = mean_rates_ppb(elapsed_ns, now.ahead_ns.minus(base.ahead_ns))
            .map(|rates| rates.minus(base.stated_ppb))
            .filter(|slew_ppb| slew_ppb.overlaps(possible_ppb))
            .map(|slew_ppb| Interval {
                min: slew_ppb.min.max(possible_ppb.min),
                max: slew_ppb.max.min(possible_ppb.max),
            });
        let slew_ppb = if elapsed_ns.min >= MIN_BASE_NS {
            self.base = Some(now);
            self.earlier_ppb = self.slew_ppb;
            self.slew_ppb = measured_ppb.or(self.slew_ppb);
            self.slew_ppb
        } else {
            self.base = Some(base);
            self.slew_ppb.or(measured_ppb)
        };
        let slew_ppb = slew_ppb.unwrap_or(possible_ppb);
        Interval::at(0).hull(slew_ppb.widened_by(-ALLOWED_PPB))
    }

    /// Whether the slew has been measured for less than [`MIN_BASE_NS`].
    pub(super) fn is_new(&self) -> bool {
        self.base.is_some() && self.slew_ppb.is_none()
    }

    /// Measures anew, because a step looks like a slew. Until then the last two slews count: the
    /// poll before this call may have seen the step, and the slew may have begun after the poll
    /// before that.
    pub(super) fn record_clock_set(&mut self) {
        self.base = None;
        self.slew_ppb = self
            .slew_ppb
            .zip(self.earlier_ppb)
            .map(|(last_ppb, earlier_ppb)| last_ppb.hull(earlier_ppb));
    }
}
