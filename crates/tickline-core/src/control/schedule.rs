//! When the next iteration is due, and how long its line lasts.
//!
//! # Intervals
//!
//! - **The default interval is 0.5 s.** Without the shorter intervals described below, the bound is
//!   31 ns at 1 s, 17 ns at 0.5 s and 18 ns at 0.25 s
//!   (`accuracy --secs 20 --settle 20 --interval-ms N`). `ClockBuilder::interval` in `tickline`
//!   states the cost of the thread.
//! - **An interval is at most half of the time for which samples have come without a break.** If
//!   both ends of a baseline are wrong by half a bracket, the error grows to one bracket at the end
//!   of the interval, and to one and a half at the end of a window of 2 intervals. Start-up, rate
//!   changes and disruptions follow the same rule. After a change of the kernel's steering this
//!   time counts as an eighth of the interval at most, although samples have come for longer.
//! - **An interval ends before the uncertainty of the slope could grow to twice the newest sample's
//!   width.** Brackets from before and after a stall of seconds limit the slope on only one side:
//!   in a simulated run without this limit, a slope is off by 221 ppm for half a second, or -39 us.
//! - **The thread comes up to 16 times as often while the maximum drift is large or the range of
//!   the dither is unknown.** The bound then grows by at most a quarter of a bracket or 5 ns. The
//!   range is known after at most 256 short intervals: 8 s at the default interval. Where
//!   readers drive the clock, lines are as short only while the range is unknown.
//! - **An offset is removed over the window, and lines are short until it is gone**: a sixteenth of
//!   the interval, but at least 4 ms, because a thread may come late (`MAX_LATENESS_NS`). With
//!   short lines the control loop removes an offset within 0.3 s.
//! - **A line whose slope has proven itself survives a jump** and is slewed. A first line is
//!   retired.
//! - **A line comes from a sample that is no older than 100 us, or than twice the time that
//!   sampling takes now.** The second limit is at most half the interval. A device like hpet answers
//!   later while other CPUs ask it, and sampling then takes milliseconds instead of 50 us. "Now" is
//!   the quickest of the last eight samples: older samples do not show the present load, and four
//!   in a row may have been preempted. With the first limit alone, a guest has no line for as
//!   long as the load lasts, nor has a simulated machine on which a read of the reference takes
//!   60 us instead of 1.4.
//! - **The interval between iterations that make no line grows**, so that a reference from which
//!   the loop learns nothing costs little.
//!
//! # Rejected
//!
//! | option | price |
//! |---|---|
//! | An interval as long as the time watched | readings outside their brackets between the start and the first half second: half a bracket at both ends of a baseline becomes one and a half |
//! | Removing an offset within the interval | a line that was not replaced was off on the other side at the end of its validity, by up to five times the offset. With late readers the offset kept swinging by 50 us (found by simulation) |
//! | A sample's age judged by the quickest iteration ever | on a loaded machine whose clock is a device: no line, and so more readers of the device |

use super::{Cadence, Control, MAX_SAMPLES, MAX_WINDOW_TICKS, MIN_INTERVAL_NS, NotPublished};
use crate::estimate::Fit;
use crate::line::Slope;
use crate::shared::SampleAge;
use crate::units::{FixedNs, ticks_between};

/// The age above which a sample shows, when it is used, that the writer was preempted, ns. The
/// writer then takes another sample.
const MAX_SAMPLE_AGE_NS: u64 = 100_000;

/// The largest usual offset beyond twice the newest sample's width, ns: a larger one shortens the
/// interval. A choice, not a measurement: above the offsets of lines from a steady OS clock
/// (`benches/record/`), which therefore shorten no interval. A larger value would leave larger
/// offsets for whole intervals.
const USUAL_OFFSET_NS: i64 = 50;

/// The lateness at which a thread does not lose its line, ns: a tick of a kernel at 250 Hz. With a
/// limit of 62 us to 1 ms, and a thread that always came 5 ms late, the clock had no line for up to
/// 74 % of the time (`tickline-sim`, interval 10 ms, rates that change by 20 ppm).
const MAX_LATENESS_NS: u64 = 4_000_000;

/// The number of iterations without a line after which iterations become less frequent. A choice,
/// not a measurement. If it were smaller, a machine with wide brackets, which needs a long
/// baseline, would get its first line later. If it were larger, a reference that teaches nothing
/// would cost more iterations.
const QUICK_RETRIES: u32 = 16;

/// The number of durations: those of the samples of two iterations, because the thread may have
/// been preempted in all samples of one.
const DURATIONS: usize = 2 * MAX_SAMPLES as usize;

/// The durations of the last eight samples, ticks. They change: a clock device answers later while
/// other CPUs ask it, too.
#[derive(Debug)]
pub(super) struct SampleDurations([u64; DURATIONS]);

impl SampleDurations {
    pub(super) const NONE: Self = Self([u64::MAX; DURATIONS]);

    pub(super) fn add(&mut self, ticks: i64) {
        self.0.copy_within(..DURATIONS - 1, 1);
        if let Some(newest) = self.0.first_mut() {
            *newest = u64::try_from(ticks).unwrap_or(u64::MAX); // negative if the counter was reset
        }
    }

    /// The shortest duration, ticks; `u64::MAX` before the first sample.
    fn shortest(&self) -> u64 {
        self.0.iter().copied().fold(u64::MAX, u64::min)
    }
}

impl Control {
    /// The time until the next iteration after iterations without a line, ns. It is the shortest
    /// interval at first, and doubles later. So a reference that teaches nothing, because it stands
    /// still, say, costs little.
    pub(super) fn retry_interval_ns(&self) -> u64 {
        let doublings = self
            .iterations_without_line
            .saturating_sub(QUICK_RETRIES)
            .min(20);
        (MIN_INTERVAL_NS << doublings).min(self.interval_ns())
    }

    /// The time for which the next line is good, within the limits of the interval, ns.
    pub(super) fn next_interval_ns(&self, fit: Option<&Fit>) -> u64 {
        let good_ns = fit.map_or(0, |fit| {
            // A punctual driver can come more often to keep the bound narrow. Readers shorten the
            // interval only while the range of the dither is unknown.
            let may_shorten = match self.config.cadence {
                Cadence::Scheduled | Cadence::Pinned => true,
                Cadence::OnDemand => !self.stability.dither.is_known(),
            };
            let short_ns = self.short_interval_ns();
            let narrow_ns = self.stability.narrow_for_ns(fit, self.interval_ns());
            let wanted_ns = if may_shorten {
                narrow_ns.max(short_ns)
            } else {
                u64::MAX
            };
            self.stability.good_for_ns(fit).min(wanted_ns)
        });
        let min_ns = fit.map_or(MIN_INTERVAL_NS, |fit| self.min_interval_ns(fit.slope_max));
        good_ns.max(min_ns).min(self.interval_ns())
    }

    /// The shortest interval on this machine, ns: four times the duration of sampling, where
    /// sampling is slow. A line must not end before the next one can be published. Sampling may
    /// take longer than the whole interval, and end with samples that are young enough.
    pub(super) fn min_interval_ns(&self, slope: Slope) -> u64 {
        let sampling_ticks =
            i64::try_from(self.sample_durations.shortest().saturating_mul(4)).unwrap_or(0);
        let sampling_ns = slope.over(sampling_ticks).round_ns().max(0).cast_unsigned();
        MIN_INTERVAL_NS.max(sampling_ns).min(self.interval_ns())
    }

    /// The interval for a line that starts `offset` away from its target, ns. It is `interval_ns`,
    /// or a short interval if the offset is large, so that the offset is gone soon.
    pub(super) fn interval_at_offset_ns(
        &self,
        interval_ns: u64,
        offset: FixedNs,
        slope: Slope,
    ) -> u64 {
        if self.is_usual(offset, slope) {
            interval_ns
        } else {
            interval_ns.min(self.short_interval_ns())
        }
    }

    /// Whether samples as wide as the newest one explain an offset of this size.
    pub(super) fn is_usual(&self, offset: FixedNs, slope: Slope) -> bool {
        let width = self
            .stability
            .history
            .newest()
            .map_or(FixedNs::ZERO, |newest| newest.width(slope));
        offset.saturating_abs()
            <= FixedNs::from_ns(USUAL_OFFSET_NS).saturating_add(width.saturating_mul(2))
    }

    /// The interval when the next line is needed soon, ns: a sixteenth of the configured one, but
    /// long enough for a thread that comes late.
    pub(super) fn short_interval_ns(&self) -> u64 {
        (self.interval_ns() >> 4)
            .max(MAX_LATENESS_NS)
            .min(self.interval_ns())
    }

    /// The age of the newest sample at `ticks`, ticks.
    pub(super) fn age_ticks(&self, ticks: u64) -> u64 {
        let Some(newest) = self.stability.history.samples().last() else {
            return u64::MAX;
        };
        let upper = &newest.upper;
        let lower = &newest.lower;
        ticks_between(upper.ticks, ticks)
            .unsigned_abs()
            .max(ticks_between(lower.ticks, ticks).unsigned_abs())
    }

    /// Fails if the newest sample is too old to be used at `ticks`, because the writer was
    /// preempted. On a slow machine sampling itself may take that long. The limit is then twice the
    /// duration of the quickest of the last samples, but at most half of the interval. Otherwise a
    /// change of rate between sample and line would stay unnoticed for longer than the line is
    /// meant to last. A machine whose samples exceed this limit gets no line
    /// ([`Figures::too_old_sample`](crate::shared::Figures::too_old_sample)).
    pub(super) fn check_newest_sample(&self, ticks: u64, slope: Slope) -> Result<(), NotPublished> {
        let half_ticks = slope.ticks_in_ceil(self.interval_ns() >> 1);
        let slow_ticks = self
            .sample_durations
            .shortest()
            .saturating_mul(2)
            .min(half_ticks);
        let limit_ticks = slope.ticks_in_ceil(MAX_SAMPLE_AGE_NS).max(slow_ticks);
        let age_ticks = self.age_ticks(ticks);
        if age_ticks <= limit_ticks {
            return Ok(());
        }
        let ns = |ticks: u64| {
            let ticks = i64::try_from(ticks).unwrap_or(i64::MAX);
            slope.over(ticks).ceil_ns().unsigned_abs()
        };
        Err(NotPublished::SamplesTooOld(SampleAge {
            age_ns: ns(age_ticks),
            limit_ns: ns(limit_ticks),
        }))
    }

    /// The window of a line that starts `lead_in_ticks` before it is published, ticks.
    pub(super) fn window_ticks(&self, interval_ticks: u64, lead_in_ticks: u64) -> u64 {
        interval_ticks
            .saturating_mul(self.config.cadence.window_intervals())
            .saturating_add(lead_in_ticks)
            .min(MAX_WINDOW_TICKS)
    }
}
