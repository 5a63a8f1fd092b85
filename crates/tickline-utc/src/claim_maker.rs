//! Makes claims, on the thread of [`Utc`](crate::Utc): relates the answer of a source to the
//! counter, and combines both into a claim.
//!
//! | step | its data |
//! |---|---|
//! | [`Moment`] | the counter, `CLOCK_MONOTONIC_RAW` and `CLOCK_REALTIME` at one moment, and how well that moment is known |
//! | [`CounterRate`] | the counter's rate against `CLOCK_MONOTONIC_RAW`, from two moments |
//! | poll | what the thread does once in a period, and more often at first (`Polls::pause`): it makes a request, and up to two more if a step or a slew has spoilt the first |
//! | request, [`SourceAnswer`] | one question to all sources; what the best of them says: a report, or why it has none |
//! | [`Report`] | UTC minus `CLOCK_REALTIME` now, the rate of UTC against `CLOCK_MONOTONIC_RAW`, and which measurement of the source they rest on |
//! | [`History`] | the measurements of the sources that are believed, and their claims |
//! | [`Claim`] | the data that readers extrapolate |
//!
//! A new claim must overlap the last one. If the two have no time in common, one of them is wrong,
//! and it is unknown which. A source that has not measured since its last claim must repeat that
//! claim, even if another source has answered meanwhile. If it does not, another program has set or
//! steered the OS clock, and the source has not noticed. In both cases, and after a suspend,
//! readings fail until the source has measured again. A worse source is believed only when the
//! better one has missed two requests in a row. If neither is synchronised, the better one's cause
//! stays until then as well.

use core::time::Duration;

use tickline_core::reference::Reference;

use crate::claim::{Claim, Extrapolation, MAX_VALID, SLOPE_BITS};
use crate::expected_source::ExpectedSource;
use crate::history::History;
use crate::interval::Interval;
use crate::latch::ClaimLatch;
use crate::moment::Moment;
use crate::rate::{CounterRate, WANDER_PPB, plus_ppb};
use crate::source::{Report, SourceAnswer, SourceAnswers, Sources};
use crate::sys::KernelClock;
use crate::unbounded::{DAY_NS, MAX_ERROR_NS, MAX_RATE_PPB, MAX_TIME_NS, MIN_TIME_NS};
use crate::{Unbounded, UtcSource, UtcUnknown};

/// The period of the polls, ns, unless the clock's interval is longer.
pub(crate) const POLL_NS: i64 = 1_000_000_000;

/// The longest time between two polls, ns, of a thread that wakes up late by half a period.
const MAX_PERIOD_NS: i64 = 3 * POLL_NS / 2;

/// The pause after the first poll. A rate is measured over 4 ms at least (`rate.rs`).
const FIRST_PAUSE: Duration = Duration::from_millis(4);

/// The time before and after a leap second in which readings fail, ns: the source, the kernel and
/// the thread need a moment to apply it.
const LEAP_MARGIN_NS: i64 = 2_000_000_000;

/// Asks the sources, and makes a claim of the best answer.
///
/// A claim must overlap the one before it. After a contradiction, a step of the OS clock, or a
/// suspend, the maker believes a source when that has measured again, or repeats what it said
/// before the step.
#[derive(Debug, Default)]
pub(crate) struct ClaimMaker {
    pub(crate) rate: CounterRate,
    pub(crate) sources: Sources,
    history: History,
    /// The moment of the last request.
    moment: Option<Moment>,
    /// The source of the last report that counted. It misses a request without a report of it or a
    /// better one.
    reporting: ExpectedSource,
    /// The source whose cause readings fail with. It misses a request at which a worse source
    /// states a cause.
    unsynchronised: ExpectedSource,
    /// The end of a UTC day with a leap second, ns since 1970.
    leap_at_ns: Option<i64>,
}

impl ClaimMaker {
    /// The sources' answers to a request, for a clock whose interval is `interval_ns`: see
    /// [`Sources::ask`]. What was measured longer ago than a claim can hold does not count.
    pub(crate) fn ask(
        &mut self,
        interval_ns: u64,
        os: &impl Reference,
        moment: impl Fn() -> Option<Moment>,
        kernel_clock: impl FnOnce() -> Option<KernelClock>,
    ) -> Option<SourceAnswers> {
        let max_gap_ns = valid_ns(interval_ns);
        self.sources
            .ask(self.rate.slopes, max_gap_ns, os, moment, kernel_clock)
    }

    /// Publishes the claim of `answers`, for a clock whose interval is `interval_ns`. In two cases
    /// the last claim goes on:
    ///
    /// - Neither the last source nor a better one has reported. This is the first such request in a
    ///   row, and the answers show no disruption.
    /// - Readings fail because a source is not synchronised, and only a worse source has stated a
    ///   cause now. This is the first such request in a row.
    pub(crate) fn publish(&mut self, answers: SourceAnswers, interval_ns: u64, latch: &ClaimLatch) {
        if let Some(claim) = self.next_claim(answers, valid_ns(interval_ns)) {
            latch.publish(&claim);
        }
    }

    /// The claim to publish; it holds for at most `valid_ns`. `None` if the last claim goes on.
    pub(crate) fn next_claim(&mut self, answers: SourceAnswers, valid_ns: i64) -> Option<Claim> {
        let claim = self.claim_of_answer(&answers.moment, answers.best, valid_ns);
        self.history.remember(answers.measurements);
        claim
    }

    /// The claim of the best answer; `None` if the last claim goes on.
    fn claim_of_answer(
        &mut self,
        moment: &Moment,
        answer: SourceAnswer,
        valid_ns: i64,
    ) -> Option<Claim> {
        let is_disrupted = self.detect_disruption(moment, answer);
        if is_disrupted {
            // After a suspend the kernel has set its clock by another one, which is less accurate.
            // The source does not know that until it measures.
            self.history.disrupt();
        }
        let is_report_late = self.count_report(moment, answer);
        if is_report_late && !is_disrupted {
            return None;
        }
        if is_report_late {
            self.unsynchronised.set(None);
            return Some(Claim::none(UtcUnknown::Disrupted));
        }
        let claim = self.claim_or_failure(moment, answer, valid_ns);
        let unsynchronised = match claim {
            Err(UtcUnknown::Unsynchronised(source, _)) => Some(source),
            _ => None,
        };
        let is_cause_late = self.count_cause(moment, unsynchronised);
        if is_cause_late {
            return None;
        }
        self.unsynchronised.set(unsynchronised);
        Some(claim.unwrap_or_else(Claim::none))
    }

    /// Whether a clock or the source was disrupted since the last request. Measures the counter's
    /// rate since then, or begins anew.
    fn detect_disruption(&mut self, moment: &Moment, answer: SourceAnswer) -> bool {
        let last = self.moment.replace(*moment);
        let has_gap = last.is_some_and(|last| moment.is_disrupted_since(&last));
        if has_gap {
            self.rate.begin(moment);
        }
        // If the counter and the clock disagree, one of them stood still or jumped.
        let do_clocks_disagree = self.rate.measure(moment).is_err();
        // A source that notices a disruption may be silent at the next request.
        let is_source_disrupted = answer == Err(UtcUnknown::Disrupted);
        has_gap || do_clocks_disagree || is_source_disrupted
    }

    /// Counts a request at which neither the last source nor a better one has given a report.
    /// Returns whether it is the first in a row: the source is late, and its last claim goes on,
    /// also if a worse source answers. At the second one it is taken for dead. After a disruption
    /// the second request follows at once, so it does not count as a second miss.
    fn count_report(&mut self, moment: &Moment, answer: SourceAnswer) -> bool {
        let misses = |expected: UtcSource| {
            answer.map_or(true, |report| {
                expected.is_better_than(report.id.origin.source())
            })
        };
        self.reporting.count_request(misses, moment.raw_ns)
    }

    /// Readings fail with the cause of one source. Counts a request at which only a worse source
    /// states a cause. Returns whether it is the first in a row: the earlier cause then stays.
    fn count_cause(&mut self, moment: &Moment, unsynchronised: Option<UtcSource>) -> bool {
        let misses =
            |expected: UtcSource| unsynchronised.is_some_and(|by| expected.is_better_than(by));
        self.unsynchronised.count_request(misses, moment.raw_ns)
    }

    /// The claim of an answer that counts, or why it makes none.
    fn claim_or_failure(
        &mut self,
        moment: &Moment,
        answer: SourceAnswer,
        valid_ns: i64,
    ) -> Result<Claim, UtcUnknown> {
        match answer {
            Ok(report) => {
                self.reporting.set(Some(report.id.origin.source()));
                self.claim_of_report(moment, &report, valid_ns)
            }
            Err(UtcUnknown::NoSource) if !self.history.is_empty() => Err(UtcUnknown::Expired),
            Err(failure) => Err(failure),
        }
    }

    /// Whether the counter's rate is known. clock-bound's segment, and a claim by the counter, need
    /// it.
    pub(crate) fn is_rate_known(&self) -> bool {
        self.rate.slopes.is_some()
    }

    /// The time until the next poll of a thread whose clock has this interval, after
    /// `polls_without` polls in a row that began without the counter's rate, or ended without the
    /// kernel's slew. The first claims by the counter come as soon as possible, and claims get
    /// narrower as the slew gets known. On a machine whose counter does not serve, the sources are
    /// asked a few times more.
    pub(crate) fn pause(polls_without: u32, interval_ns: u64) -> Duration {
        let period = Duration::from_nanos(POLL_NS.unsigned_abs().max(interval_ns));
        match polls_without.checked_sub(1) {
            Some(doublings) => FIRST_PAUSE
                .saturating_mul(1 << doublings.min(20))
                .min(period),
            None => period,
        }
    }

    /// The longest time that `ticks` of the counter take, ns; `None` if its rate is unknown.
    pub(crate) fn longest_ns(&self, ticks: u64) -> Option<i64> {
        let fastest = u128::from(self.rate.slopes?.max);
        Some(i64::try_from((u128::from(ticks) * fastest) >> SLOPE_BITS).unwrap_or(i64::MAX))
    }

    /// Records that `CLOCK_REALTIME` was set, or that the machine resumed. The next request then
    /// comes at once, so it is not the second one that a source misses.
    pub(crate) fn record_clock_set(&mut self) {
        self.history.record_clock_set();
        self.sources.chronyd.record_clock_set();
        self.reporting.forgive();
        self.unsynchronised.set(None);
    }

    fn claim_of_report(
        &mut self,
        moment: &Moment,
        report: &Report,
        valid_ns: i64,
    ) -> Result<Claim, UtcUnknown> {
        self.history.expect_another_measurement(report)?;
        let utc_ns = utc_at(moment, report)
            .map_err(|why| UtcUnknown::Unsynchronised(report.id.origin.source(), why))?;
        let valid_ns = valid_ns.min(report.valid_ns).min(DAY_NS);
        let left_ns = self.until_leap(report, utc_ns)?;
        let failure = if left_ns < valid_ns {
            UtcUnknown::LeapSecond
        } else {
            UtcUnknown::Expired
        };
        let valid_raw_ns = u64::try_from(valid_ns.min(left_ns)).unwrap_or(0);
        let slopes = report.rates_ppb.map(|ppb| plus_ppb(1 << SLOPE_BITS, ppb));
        let claim = Claim {
            by_counter: self.by_counter(moment, report, valid_raw_ns),
            by_raw: Extrapolation {
                start: moment.raw_ns.cast_unsigned(),
                valid: valid_raw_ns,
                slopes: Interval::between(slopes.min, slopes.max + 1),
            },
            suspended_ns: moment.suspended_ns,
            marker: moment.marker,
            utc_ns,
            tai_offset_s: self.sources.kernel.tai_offset_s,
            source: Some(report.id.origin.source()),
            failure,
        };
        self.history.add(claim, moment, report)?;
        Ok(claim)
    }

    /// The claim's extrapolation by the counter; an empty one if the counter does not serve.
    fn by_counter(&self, moment: &Moment, report: &Report, valid_raw_ns: u64) -> Extrapolation {
        let (Some(start), Some(slopes)) = (moment.ticks, self.rate.slopes) else {
            return Extrapolation::default();
        };
        let rates_ppb = report.rates_ppb;
        let fastest = u128::from(slopes.max.max(1));
        let valid_ticks = u64::try_from((u128::from(valid_raw_ns) << SLOPE_BITS) / fastest);
        Extrapolation {
            start,
            valid: valid_ticks.unwrap_or(MAX_VALID).min(MAX_VALID),
            // The rates are multiplied: a sum lacks their product, 0.5 ppb at 500 and 1 ppm.
            slopes: Interval {
                min: plus_ppb(plus_ppb(slopes.min, rates_ppb.min), -WANDER_PPB),
                max: plus_ppb(plus_ppb(slopes.max, rates_ppb.max) + 1, WANDER_PPB) + 1,
            },
        }
    }

    /// The time for which readings may go on before a leap second, ns; `i64::MAX` without a leap
    /// second. Fails with `LeapSecond` near one.
    fn until_leap(&mut self, report: &Report, utc_ns: Interval<i64>) -> Result<i64, UtcUnknown> {
        if report.leap_second_today && self.leap_at_ns.is_none() {
            // If midnight may have passed, the report means the earlier day.
            self.leap_at_ns = Some((utc_ns.min.div_euclid(DAY_NS) + 1) * DAY_NS);
        }
        let Some(leap_at_ns) = self.leap_at_ns else {
            return Ok(i64::MAX);
        };
        if utc_ns.min > leap_at_ns + LEAP_MARGIN_NS {
            // The next claim does not continue the last one, because the day had a second more or
            // less. And not every daemon has applied the leap second (chrony.conf(5), `leapsecmode
            // ignore`).
            self.leap_at_ns = None;
            self.history.disrupt();
            return Err(UtcUnknown::Disrupted);
        }
        let left_ns = leap_at_ns - LEAP_MARGIN_NS - utc_ns.max;
        if left_ns > 0 {
            Ok(left_ns)
        } else {
            Err(UtcUnknown::LeapSecond)
        }
    }
}

/// The longest time for which a claim holds if the clock's interval is `interval_ns`. The second
/// request in a row without an answer ends a claim; this limit is for a thread that is late with
/// that request.
pub(crate) fn valid_ns(interval_ns: u64) -> i64 {
    let interval_ns = i64::try_from(interval_ns).unwrap_or(i64::MAX);
    MAX_PERIOD_NS.max(interval_ns).saturating_mul(5) / 2
}

/// UTC at `moment`, ns since 1970; or why the report is not plausible.
fn utc_at(moment: &Moment, report: &Report) -> Result<Interval<i64>, Unbounded> {
    let utc_ns = Interval::at(moment.realtime_ns)
        .plus(report.offset_ns)
        .widened_by(moment.width_ns);
    let slowest_ppb = report.rates_ppb.min;
    let fastest_ppb = report.rates_ppb.max;
    if utc_ns.width() < 0 {
        return Err(Unbounded::by_crossed_times(utc_ns.width()));
    }
    if report.rates_ppb.width() < 0 {
        return Err(Unbounded::by_crossed_rates(report.rates_ppb.width()));
    }
    if utc_ns.width() > 2 * MAX_ERROR_NS {
        return Err(Unbounded::by_error(utc_ns.width() / 2 + utc_ns.width() % 2));
    }
    // BOUND: a day can be added, since the times are far enough from the ends of the range. The
    // rates are near 1 and in order.
    if utc_ns.min < MIN_TIME_NS {
        return Err(Unbounded::by_time(utc_ns.min));
    }
    if utc_ns.max > MAX_TIME_NS {
        return Err(Unbounded::by_time(utc_ns.max));
    }
    let farthest_ppb = if slowest_ppb.unsigned_abs() > fastest_ppb.unsigned_abs() {
        slowest_ppb
    } else {
        fastest_ppb
    };
    if farthest_ppb.unsigned_abs() > MAX_RATE_PPB.unsigned_abs() {
        return Err(Unbounded::by_rate(farthest_ppb));
    }
    Ok(utc_ns)
}

#[cfg(test)]
pub(crate) mod tests;
