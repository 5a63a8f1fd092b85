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
//! two that it has stated, then the slew is in the result, widened by [`ALLOWED_PPB`]. A slew that
//! began or ended after the base counts in part. The mean rate since the base is in the sum of that
//! and the rate that the kernel states now, unless these two rates differ by more than 501 ppm.
//!
//! The result has no slew beyond 501 ppm: adjtime(3) makes 500 ppm at most, and [`TICK_PPB`] is
//! 1 ppm. If a measured interval is beyond that as a whole, then the clock was set, or the kernel
//! had a rate that it has stated at no poll, or states a wrong one. No slew explains it, and the
//! last slew stays. But in case the statement is wrong, the claim of this poll has the measured
//! rate as well, unless chronyd has shown that it steers. A rate beyond [`MAX_RATE_PPB`] is left
//! out: only a step makes it. A smaller step makes a wide claim, which is not published, because
//! the thread asks first whether the clock was set (`Polls::ask_and_publish`). If the kernel does
//! not tell the thread (the last event of the table in `lib.rs`), the wide claim holds until the
//! next poll.
//!
//! Two events end a measurement, and nothing is known of the slew then: a time without polls, and a
//! poll at which the kernel does not say its rate. A set of the clock ends one as well, and then
//! the last two slews count, or, if fewer than two were measured, nothing is known either.
//!
//! What it costs: a claim allows for the measured slew and for its error,
//!
//! ```text
//! error = (2 x width + what the clock has gained during the two requests) / time since the base,
//!         at most 501 ppm
//! ```
//!
//! where the width is that of a reading of the clocks (`Moment::width_ns`). A claim also allows for
//! each difference of two rates that the kernel has stated since the base. The report allows for
//! [`TICK_PPB`] in any case, so a claim gets wider only by what is beyond that. The width is 0.6 us
//! at best (`polls.rs`). At best, then, the error is 1.2 ppm over a second, and a claim grows by
//! 0.2 us in a second, to either side. Where a reading takes 10 us it grows by 19 us, and where it
//! takes 50 us by 99 us. Once chronyd has shown that it steers, this holds for the first two polls
//! after each of its measurements, and the growth falls from then on.
//!
//! The first claim allows for each slew that adjtime(3) makes. The next one replaces it 4 ms later,
//! and is narrower if the width is below 1 us. Until the slew has been measured over half a second,
//! the pause doubles from poll to poll (`Polls::pause`), so the polls are 4, 12, 28, 60, 124, 252
//! and 508 ms after the base. By the error of the slew, the claim at 4 ms grows by four widths
//! until the next poll, the one at 12 ms by 2.7, and later ones by about two. The claim of the last
//! of these polls, at 508 ms, lasts for a second, and grows by four.
//!
//! Once chronyd has shown that it steers, two replies about its present measurement bound the slew
//! as well, and the narrower of the two intervals counts (`rates.rs`).

use super::{ADJTIME_PPB, Rates, TICK_PPB, mean_rates_ppb};
use crate::claim_maker::POLL_NS;
use crate::interval::Interval;
use crate::unbounded::MAX_RATE_PPB;

/// The shortest time over which a slew is measured again, ns, once one is known.
const MIN_BASE_NS: i64 = POLL_NS / 2;

/// The error of a measured slew that each report allows for, ppb. The report adds [`TICK_PPB`] to
/// the rate of UTC, and that is 1 - f of the kernel's rate: 1 % is for a frequency f of 1 %.
const ALLOWED_PPB: i64 = TICK_PPB - TICK_PPB / 100;

/// The slews that may be measured while adjtime(3) slews the clock, or does not, ppb.
const POSSIBLE_PPB: Rates = Interval::around(0, ADJTIME_PPB + TICK_PPB);

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

/// What a poll shows of the slew.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlewAtPoll {
    /// The slews by adjtime(3) that the kernel's clock may have, and none, ppb, less what each
    /// report allows for.
    pub(super) by_adjtime_ppb: Rates,
    /// The rate of the kernel's clock since the base, ppb, if no slew by adjtime(3) explains it.
    pub(super) unexplained_ppb: Option<Rates>,
}

/// Measures the slew from poll to poll.
#[derive(Debug, Default)]
pub(super) struct SlewMeter {
    /// The poll where the measurement begins, with the rates that the kernel has stated since.
    base: Option<KernelPoll>,
    /// `CLOCK_MONOTONIC_RAW` at the first base since there was none, ns.
    begun_ns: i64,
    /// The slew that was measured last, ppb.
    slew_ppb: Option<Rates>,
    /// The one that was measured before that, ppb.
    earlier_ppb: Option<Rates>,
    /// `CLOCK_MONOTONIC_RAW` at the last poll, ns.
    last_ns: Option<i64>,
}

impl SlewAtPoll {
    /// What a poll shows at which nothing is known.
    pub(super) fn unknown() -> Self {
        Self {
            by_adjtime_ppb: less_allowed(POSSIBLE_PPB),
            unexplained_ppb: None,
        }
    }
}

impl SlewMeter {
    /// What a poll shows. The measurement begins anew if the last poll was more than `max_gap_ns`
    /// ago: the mean slew since then says little of the present one.
    pub(super) fn measure(&mut self, now: KernelPoll, max_gap_ns: i64) -> SlewAtPoll {
        let has_gap = |last_ns: i64| now.raw_ns.max.saturating_sub(last_ns) > max_gap_ns;
        if self.last_ns.is_some_and(has_gap) {
            *self = Self::default();
        }
        self.last_ns = Some(now.raw_ns.min);
        if self.base.is_none() {
            self.begun_ns = now.raw_ns.min;
        }
        let mut base = self.base.unwrap_or(now);
        base.stated_ppb = base.stated_ppb.hull(now.stated_ppb);
        let elapsed_ns = now.raw_ns.minus(base.raw_ns);
        let rate_ppb = mean_rates_ppb(elapsed_ns, now.ahead_ns.minus(base.ahead_ns));
        let measured_ppb = rate_ppb
            .map(|rate_ppb| rate_ppb.minus(base.stated_ppb))
            .filter(|slew_ppb| slew_ppb.overlaps(POSSIBLE_PPB))
            .map(limited);
        let unexplained_ppb = if measured_ppb.is_none() {
            rate_ppb.filter(|rate_ppb| !is_step(*rate_ppb))
        } else {
            None
        };
        let slew_ppb = if elapsed_ns.min >= MIN_BASE_NS {
            self.base = Some(now);
            self.earlier_ppb = self.slew_ppb;
            self.slew_ppb = measured_ppb.or(self.slew_ppb);
            self.slew_ppb
        } else {
            self.base = Some(base);
            self.slew_ppb.or(measured_ppb)
        };
        SlewAtPoll {
            by_adjtime_ppb: less_allowed(slew_ppb.unwrap_or(POSSIBLE_PPB)),
            unexplained_ppb,
        }
    }

    /// If no slew is known by a measurement over [`MIN_BASE_NS`]: `CLOCK_MONOTONIC_RAW` at the poll
    /// where the measuring began, ns. It goes on for long if each measurement is beyond the limit.
    pub(super) fn new_since_ns(&self) -> Option<i64> {
        if self.base.is_none() || self.slew_ppb.is_some() {
            return None;
        }
        Some(self.begun_ns)
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

/// These slews without those that adjtime(3) can't make, ppb.
pub(super) fn limited(slew_ppb: Rates) -> Rates {
    Interval {
        min: slew_ppb.min.max(POSSIBLE_PPB.min),
        max: slew_ppb.max.min(POSSIBLE_PPB.max),
    }
}

/// These slews and none, ppb, less what each report allows for.
pub(super) fn less_allowed(slew_ppb: Rates) -> Rates {
    Interval::at(0).hull(slew_ppb.widened_by(-ALLOWED_PPB))
}

/// Whether only a step makes a clock's mean rate one of these, ppb.
fn is_step(rate_ppb: Rates) -> bool {
    rate_ppb.min < -MAX_RATE_PPB || rate_ppb.max > MAX_RATE_PPB
}
