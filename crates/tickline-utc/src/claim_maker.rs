//! Makes claims, on the clock's thread: relates the answer of a source to the counter, and combines
//! both into a claim.
//!
//! | step | its data |
//! |---|---|
//! | [`Moment`] | the counter, `CLOCK_MONOTONIC_RAW` and `CLOCK_REALTIME` at one moment, and how well that moment is known |
//! | rate | the counter's rate against `CLOCK_MONOTONIC_RAW`, from two moments |
//! | [`Report`] | the answer of a source: UTC minus `CLOCK_REALTIME` now, and the rate of UTC against `CLOCK_MONOTONIC_RAW` |
//! | [`Claim`] | the data that readers extrapolate |
//!
//! A new claim must overlap the last one. If the two have no time in common, one of them is wrong,
//! and it is unknown which. A source that has not measured since its last claim must repeat that
//! claim, even if another source has answered meanwhile. If it does not, another program has set or
//! steered the OS clock, and the source has not noticed. In both cases, and after a suspend,
//! readings fail until the source has measured again.

use tickline_core::gate::Clocksource;
use tickline_core::reference::{Reference, SUSPENDED_BOUND_NS};

use crate::claim::{Claim, Extrapolation, MAX_VALID, SLOPE_BITS};
use crate::source::{self, Answer, Answers, KernelClock, KernelSource};
use crate::{ClaimLatch, Source, Unknown};

/// The period at which the sources are asked, ns, unless the thread sleeps longer.
const POLL_NS: i64 = 1_000_000_000;

/// The longest time between two requests of a thread that wakes up in time, ns, with a shorter
/// interval. It asks at the first wake-up after three quarters of [`POLL_NS`].
pub(crate) const MAX_PERIOD_NS: i64 = 3 * POLL_NS / 2;

/// The time after which a newer moment becomes the base of the counter's rate, ns.
const RATE_BASE_NS: i64 = 50_000_000_000;

/// The shortest time over which the counter's rate is measured, ns.
const MIN_RATE_BASE_NS: i64 = 4_000_000;

/// A counter with ticks this long does not serve, ns with [`SLOPE_BITS`] fraction bits.
const MAX_SLOPE: u64 = 30_000 << SLOPE_BITS;

/// The largest error of an oscillator that NTP can steer, ppb (`MAXFREQ` in Linux' `timex.h`).
pub(crate) const MAX_FREQUENCY_PPB: i64 = 500_000;

/// The largest change of the rates of a machine's two oscillators against each other, ppb. One
/// drives the counter, the other the kernel's clocksource, if that is another one. chronyd assumes
/// the same value for a clock (chrony.conf(5), `maxclockerror`).
pub(crate) const WANDER_PPB: i64 = 1_000;

/// The largest rate of a plausible report, ppb: Linux changes a rate by 11 % at most
/// (`timekeeping_adjust`), and a drift is no more than the rate.
const MAX_RATE_PPB: i64 = 200_000_000;

/// The largest error of a claim, ns: the largest dispersion of an NTP server (RFC 5905, `MAXDISP`).
const MAX_ERROR_NS: i64 = 16_000_000_000;

const DAY_NS: i64 = 86_400_000_000_000;

/// The time before and after a leap second in which readings fail, ns: the source, the kernel and
/// the thread need a moment to apply it.
const LEAP_MARGIN_NS: i64 = 2_000_000_000;

/// The time of one moment by each clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The counter, ticks; `None` if it does not serve.
    pub ticks: Option<u64>,
    /// `CLOCK_MONOTONIC_RAW`, ns.
    pub raw_ns: i64,
    /// `CLOCK_REALTIME`, ns.
    pub realtime_ns: i64,
    /// The time that it took to read these clocks, plus their resolutions, ns. Each reading is the
    /// clock's time at the moment to within this width.
    pub width_ns: i64,
    /// The time for which the machine has been suspended since its start, ns.
    pub suspended_ns: i64,
    /// The hypervisor's disruption marker, which changes when it moves or restores the machine.
    pub disruption: u64,
    /// The kernel's clocksource: another clocksource has another rate.
    pub clocksource: Clocksource,
}

impl Moment {
    /// Whether the machine was suspended or moved between the two moments, or the kernel changed
    /// its clocksource.
    pub(crate) fn is_disrupted_since(&self, before: &Self) -> bool {
        self.suspended_ns.abs_diff(before.suspended_ns) > SUSPENDED_BOUND_NS
            || self.disruption != before.disruption
            || self.clocksource != before.clocksource && before.clocksource != Clocksource::Unknown
    }
}

/// The report of a source about one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) source: Source,
    /// UTC minus `CLOCK_REALTIME`: the least and the greatest value, ns.
    pub(crate) offset_ns: [i64; 2],
    /// The part of either side of `offset_ns` that the request adds to the source's own error, ns.
    pub(crate) request_ns: i64,
    /// The least and the greatest rate of UTC against `CLOCK_MONOTONIC_RAW`, ppb.
    pub(crate) rates_ppb: [i64; 2],
    /// The time for which the source lets its claim hold, ns.
    pub(crate) valid_ns: i64,
    /// The number of the source's measurement, which changes when the source measures again.
    pub(crate) measurement: u64,
    /// The version of clock-bound's segment; 0 for other sources. The measurements of the two
    /// versions are compared as those of two sources, because the daemon writes both versions for
    /// one measurement, with two numbers.
    pub(crate) version: u16,
    /// Whether the UTC day ends with a leap second.
    pub(crate) leap_second_today: bool,
}

/// The source of a measurement, with its [`Report::version`], and its [`Report::measurement`].
pub(crate) type MeasurementId = ((Source, u16), u64);

impl Report {
    pub(crate) fn id(&self) -> MeasurementId {
        ((self.source, self.version), self.measurement)
    }
}

/// The claims that were made from one measurement.
#[derive(Debug, Clone, Copy)]
struct Measurement {
    /// The first claim, and the last one.
    first: Claim,
    last: Claim,
    id: MeasurementId,
    /// Twice the error that reading the clocks and the request add to either side of the source's
    /// claim, ns.
    tolerance_ns: i64,
}

impl Measurement {
    /// Whether a claim of `utc_ns` at `raw_ns` can be true if the claims of this measurement are.
    fn agrees(&self, raw_ns: i64, id: MeasurementId, utc_ns: [i64; 2]) -> bool {
        let overlaps = |before: &Claim, [least_ns, most_ns]: [i64; 2]| {
            let [slow_ns, fast_ns] = before.by_raw.between_ns(raw_ns);
            utc_ns[0] <= most_ns.saturating_add(fast_ns) && utc_ns[1] >= least_ns.saturating_add(slow_ns)
        };
        if id != self.id {
            return overlaps(&self.last, self.last.utc_ns);
        }
        // Compare with both. The first claim alone would miss a small step, because the interval
        // has grown since. The last claim alone would let small differences add up.
        [self.first, self.last].iter().all(|before| {
            let [earliest_ns, latest_ns] = before.utc_ns;
            let least_ns = latest_ns.saturating_sub(self.tolerance_ns);
            overlaps(before, [least_ns, earliest_ns.saturating_add(self.tolerance_ns)])
        })
    }
}

/// The counter jumped, or changed its rate.
struct CounterJumped;

/// Asks the sources, and makes a claim of the best answer.
///
/// A claim must overlap the one before it. After a contradiction, a step of the OS clock, or a
/// suspend, the maker believes a source when that has measured again, or repeats what it said before
/// the step.
#[derive(Debug, Default)]
pub struct ClaimMaker {
    /// The base of the measurement of the counter's rate, and the next base.
    rate_bases: Option<[Moment; 2]>,
    /// The least and the greatest time of a tick by `CLOCK_MONOTONIC_RAW`, as last measured, ns
    /// with [`SLOPE_BITS`] fraction bits.
    pub(crate) slopes: Option<[u64; 2]>,
    /// The moment of the last request.
    moment: Option<Moment>,
    kernel: KernelSource,
    /// The source of the last report that was not late.
    awaited: Option<Source>,
    /// The first of the latest requests without a report of that source or a better one, by
    /// `CLOCK_MONOTONIC_RAW`, ns.
    missed_ns: Option<i64>,
    /// The last measurement of each source that is believed; the source that answered last comes
    /// last. A report must agree with that one, and with the one that it repeats.
    measured: Vec<Measurement>,
    /// After a disruption: the first measurement of each source since. The source is believed when
    /// it has another one. `None` before any disruption.
    before: Option<Vec<MeasurementId>>,
    /// Whether the OS clock was set since a report was last judged.
    was_clock_set: bool,
    /// The end of a UTC day with a leap second, ns since 1970.
    leap_at_ns: Option<i64>,
}

impl ClaimMaker {
    /// Asks the sources. `moment` reads the clocks, `kernel_clock` asks the kernel, and `os` reads the
    /// steering and the monotonic time. Waits for chronyd for at most 20 ms. `None` if meanwhile the
    /// clock was set, its steering changed, or the machine was suspended; or if there is no moment.
    pub fn ask(
        &mut self,
        os: &impl Reference,
        moment: impl Fn() -> Option<Moment>,
        kernel_clock: impl FnOnce() -> Option<KernelClock>,
    ) -> Option<Answers> {
        source::ask(&mut self.kernel, self.slopes, os, moment, kernel_clock)
    }

    /// Publishes the claim of `answers`, for a thread that wakes up every `interval_ns`. The last
    /// claim goes on if this is the first request in a row without an answer of the source that
    /// counted last, or of a better one.
    pub fn publish(&mut self, answers: Answers, interval_ns: i64, latch: &ClaimLatch) {
        // The second request in a row without an answer ends a claim. This limit is for a thread
        // that is late with that request.
        let valid_ns = MAX_PERIOD_NS.max(interval_ns).saturating_mul(5) / 2;
        if let Some(claim) = self.make(answers, valid_ns) {
            latch.publish(&claim);
        }
    }

    /// The claim to publish; it holds for at most `valid_ns`.
    pub(crate) fn make(&mut self, answers: Answers, valid_ns: i64) -> Option<Claim> {
        let claim = self.judge(&answers.moment, answers.best, valid_ns);
        // Remember the measurements of all sources, so that each is believed once it has another
        // one, also if a better source answers meanwhile.
        if let Some(before) = &mut self.before {
            for id in answers.measurements {
                if before.iter().all(|before| before.0 != id.0) {
                    before.push(id);
                }
            }
        }
        Some(Claim { tai_offset_s: self.kernel.tai_offset_s, ..claim? })
    }

    /// [`make`](Self::make) for the best source's `answer` at `moment`.
    fn judge(&mut self, moment: &Moment, answer: Answer, valid_ns: i64) -> Option<Claim> {
        let is_moved = self.moment.is_some_and(|last| moment.is_disrupted_since(&last));
        self.moment = Some(*moment);
        if is_moved {
            self.begin_rate(moment);
        }
        // After a suspend the kernel has set its clock by another one, which is less accurate. The
        // source does not know that until it measures. If the counter and the clock disagree, one
        // of them stood still or jumped. A source that notices a disruption may be silent at the
        // next request.
        let is_disrupted =
            self.measure_rate(moment).is_err() || is_moved || answer == Err(Unknown::Disrupted);
        if is_disrupted {
            self.disrupt();
        }
        // `None` is less than any source.
        let is_missed =
            self.awaited.is_some() && answer.map_or(true, |report| self.awaited < Some(report.source));
        self.missed_ns = is_missed.then(|| self.missed_ns.unwrap_or(moment.raw_ns));
        // A source that misses one request is late; its last claim goes on, also if a worse source
        // answers. A source that misses two is taken for dead. After a disruption the second
        // request follows at once, so it does not count as a second miss.
        let is_late =
            self.missed_ns.is_some_and(|first_ns| moment.raw_ns.saturating_sub(first_ns) < POLL_NS / 2);
        let claim = match answer {
            _ if is_late => return is_disrupted.then(|| Claim::none(Unknown::Disrupted)),
            Ok(report) => {
                (self.awaited, self.missed_ns) = (Some(report.source), None);
                self.make_claim(moment, &report, valid_ns)
            }
            Err(Unknown::NoSource) if !self.measured.is_empty() => Err(Unknown::Expired),
            Err(failure) => Err(failure),
        };
        Some(claim.unwrap_or_else(Claim::none))
    }

    /// Whether it is time for a request, so long after the last one.
    #[must_use]
    pub fn is_due(&self, since_ns: i64) -> bool {
        let has_counter = self.rate_bases.is_none_or(|[base, _]| base.ticks.is_some());
        // The first claims come as soon as the counter's rate is known. Later, less than the
        // period, because the thread does not wake up at multiples of a second.
        since_ns >= POLL_NS / 4 * 3 || self.slopes.is_none() && has_counter
    }

    /// The longest time that so many ticks of the counter take, ns; `None` if its rate is unknown.
    #[must_use]
    pub fn longest_ns(&self, ticks: u64) -> Option<i64> {
        let [_, fastest] = self.slopes?;
        Some(i64::try_from((u128::from(ticks) * u128::from(fastest)) >> SLOPE_BITS).unwrap_or(i64::MAX))
    }

    /// Records that `CLOCK_REALTIME` was set, or that the machine resumed. The next request then
    /// comes at once, so it is not the second one that a source misses.
    pub fn record_clock_set(&mut self) {
        (self.was_clock_set, self.missed_ns) = (true, None);
    }

    /// Demands a new measurement from each source.
    fn disrupt(&mut self) {
        self.measured.clear();
        (self.before, self.was_clock_set) = (Some(Vec::new()), false);
    }

    fn make_claim(&mut self, moment: &Moment, report: &Report, valid_ns: i64) -> Result<Claim, Unknown> {
        self.expect_another_measurement(report)?;
        let utc_ns = utc_at(moment, report).ok_or(Unknown::Unsynchronised)?;
        let valid_ns = valid_ns.min(report.valid_ns).min(DAY_NS);
        let left_ns = self.until_leap(report, utc_ns)?;
        let failure = if left_ns < valid_ns { Unknown::LeapSecond } else { Unknown::Expired };
        let valid = u64::try_from(valid_ns.min(left_ns)).unwrap_or(0);
        let [slowest, fastest] = report.rates_ppb.map(|ppb| plus_ppb(1 << SLOPE_BITS, ppb));
        let claim = Claim {
            by_counter: self.by_counter(moment, report, valid),
            by_raw: Extrapolation {
                start: moment.raw_ns.cast_unsigned(),
                valid,
                slopes: [slowest, fastest + 1],
            },
            suspended_ns: moment.suspended_ns,
            disruption: moment.disruption,
            utc_ns,
            tai_offset_s: None, // `make` adds the kernel's
            source: Some(report.source),
            failure,
        };
        self.compare_with_past(claim, moment, report)?;
        Ok(claim)
    }

    /// Fails with `Disrupted` until the source has measured again, after an event that it may not
    /// have noticed.
    ///
    /// After the clock was set, the source's report counts at once only if it repeats a
    /// measurement: `agrees` then compares the two claims. At least two requests must have seen
    /// that measurement, because the thread may have made the newest one after the clock was set,
    /// but before it learned of that. And the source must know a rate: without one, a small step
    /// looks like a drift.
    fn expect_another_measurement(&mut self, report: &Report) -> Result<(), Unknown> {
        let id = report.id();
        let [slowest_ppb, fastest_ppb] = report.rates_ppb;
        let source_knows_rate = fastest_ppb.saturating_sub(slowest_ppb) < 2 * MAX_FREQUENCY_PPB;
        let is_repeated = |past: &Measurement| past.id == id && past.first != past.last;
        let is_comparable = source_knows_rate && self.measured.iter().any(is_repeated);
        if core::mem::take(&mut self.was_clock_set) {
            // The other sources may not know that the clock was set.
            self.measured.retain(|past| is_comparable && past.id == id);
            self.before = Some(Vec::new());
        }
        let is_believed = self.measured.iter().any(|past| past.id.0 == id.0);
        let is_another = |before: &Vec<MeasurementId>| before.iter().any(|old| old.0 == id.0 && *old != id);
        if is_believed || self.before.as_ref().is_none_or(is_another) {
            Ok(())
        } else {
            Err(Unknown::Disrupted)
        }
    }

    /// The claim's extrapolation by the counter; an empty one if the counter does not serve.
    fn by_counter(&self, moment: &Moment, report: &Report, valid_ns: u64) -> Extrapolation {
        let (Some(start), Some([slowest, fastest])) = (moment.ticks, self.slopes) else {
            return Extrapolation::default();
        };
        let [slowest_ppb, fastest_ppb] = report.rates_ppb;
        let valid = u64::try_from((u128::from(valid_ns) << SLOPE_BITS) / u128::from(fastest.max(1)));
        Extrapolation {
            start,
            valid: valid.unwrap_or(MAX_VALID).min(MAX_VALID),
            // The rates are multiplied: a sum lacks their product, 0.5 ppb at 500 and 1 ppm.
            slopes: [
                plus_ppb(plus_ppb(slowest, slowest_ppb), -WANDER_PPB),
                plus_ppb(plus_ppb(fastest, fastest_ppb) + 1, WANDER_PPB) + 1,
            ],
        }
    }

    /// Stores the claim. Fails with `Disrupted` if it does not agree with the newest one, or with
    /// those of the measurement that the report repeats. Another source may have answered meanwhile
    /// with a claim so wide that a step is small against it.
    fn compare_with_past(&mut self, claim: Claim, moment: &Moment, report: &Report) -> Result<(), Unknown> {
        let id = report.id();
        let tolerance_ns = moment.width_ns.saturating_add(report.request_ns).saturating_mul(2);
        let past = &self.measured;
        let same = past.iter().find(|past| past.id == id);
        if !same.into_iter().chain(past.last()).all(|past| past.agrees(moment.raw_ns, id, claim.utc_ns)) {
            self.disrupt();
            return Err(Unknown::Disrupted);
        }
        let same = same.copied().unwrap_or(Measurement { first: claim, last: claim, id, tolerance_ns });
        let tolerance_ns = tolerance_ns.max(same.tolerance_ns);
        self.measured.retain(|past| past.id.0 != id.0);
        self.measured.push(Measurement { last: claim, tolerance_ns, ..same });
        Ok(())
    }

    /// The time for which readings may go on before a leap second, ns; `i64::MAX` without a leap
    /// second. Fails with `LeapSecond` near one.
    fn until_leap(&mut self, report: &Report, [earliest_ns, latest_ns]: [i64; 2]) -> Result<i64, Unknown> {
        if report.leap_second_today && self.leap_at_ns.is_none() {
            // If midnight may have passed, the report means the earlier day.
            self.leap_at_ns = Some((earliest_ns.div_euclid(DAY_NS) + 1) * DAY_NS);
        }
        let Some(leap_at_ns) = self.leap_at_ns else { return Ok(i64::MAX) };
        if earliest_ns > leap_at_ns + LEAP_MARGIN_NS {
            // The next claim does not continue the last one, because the day had a second more or
            // less. And not every daemon has applied the leap second (chrony.conf(5), `leapsecmode
            // ignore`).
            self.leap_at_ns = None;
            self.disrupt();
            return Err(Unknown::Disrupted);
        }
        let left_ns = leap_at_ns - LEAP_MARGIN_NS - latest_ns;
        if left_ns > 0 { Ok(left_ns) } else { Err(Unknown::LeapSecond) }
    }

    /// Measures the counter's rate from the base to `moment`, if that is possible yet. Fails if the
    /// counter is known to have jumped or to have changed its rate.
    fn measure_rate(&mut self, moment: &Moment) -> Result<(), CounterJumped> {
        let Some([base, next]) = self.rate_bases else {
            self.begin_rate(moment);
            return Ok(());
        };
        let since_ns = |base: &Moment| moment.raw_ns - base.raw_ns;
        let Some([slowest, fastest]) = slopes_between(&base, moment) else {
            let is_due = since_ns(&base) >= MIN_RATE_BASE_NS;
            // The counter was set back, to a value before the base or just after it.
            let is_set_back = |(before, now)| now < before || is_due && self.slopes.is_some();
            let is_behind = base.ticks.zip(moment.ticks).is_some_and(is_set_back);
            if is_behind || is_due {
                self.begin_rate(moment);
            }
            return if is_behind { Err(CounterJumped) } else { Ok(()) };
        };
        // A jump of the counter would look like another rate. And a kernel may measure a suspend of
        // less than a second as 0: the counter then ran on, and no clock did.
        let continues = self.slopes.is_none_or(|[last_slowest, last_fastest]| {
            plus_ppb(slowest, -WANDER_PPB) <= last_fastest && last_slowest <= plus_ppb(fastest, WANDER_PPB)
        });
        if !continues {
            self.begin_rate(moment);
            return Err(CounterJumped);
        }
        self.slopes = Some([slowest, fastest]);
        self.rate_bases = Some([
            if since_ns(&base) >= 2 * RATE_BASE_NS { next } else { base },
            if since_ns(&next) >= RATE_BASE_NS { *moment } else { next },
        ]);
        Ok(())
    }

    fn begin_rate(&mut self, moment: &Moment) {
        (self.rate_bases, self.slopes) = (Some([*moment; 2]), None);
    }
}

/// The earliest and the latest time that UTC can have been at `moment`, ns. `None` if the report is
/// not plausible.
fn utc_at(moment: &Moment, report: &Report) -> Option<[i64; 2]> {
    let [least_ns, greatest_ns] = report.offset_ns;
    let earliest_ns = moment.realtime_ns.saturating_add(least_ns).saturating_sub(moment.width_ns);
    let latest_ns = moment.realtime_ns.saturating_add(greatest_ns).saturating_add(moment.width_ns);
    let [slowest_ppb, fastest_ppb] = report.rates_ppb;
    // BOUND: a day can be added, since the times are far enough from the ends of the range. The
    // rates are near 1 and in order.
    let is_plausible = earliest_ns >= DAY_NS
        && latest_ns <= i64::MAX - 2 * DAY_NS
        && (0..=2 * MAX_ERROR_NS).contains(&latest_ns.saturating_sub(earliest_ns))
        && -MAX_RATE_PPB <= slowest_ppb
        && slowest_ppb <= fastest_ppb
        && fastest_ppb <= MAX_RATE_PPB;
    is_plausible.then_some([earliest_ns, latest_ns])
}

/// The least and the greatest time of a tick, ns, with [`SLOPE_BITS`] fraction bits; `None` if the
/// two moments do not show a rate.
fn slopes_between(base: &Moment, moment: &Moment) -> Option<[u64; 2]> {
    let ticks = moment.ticks?.checked_sub(base.ticks?).filter(|ticks| *ticks > 0)?;
    let elapsed_ns = moment.raw_ns.checked_sub(base.raw_ns).filter(|ns| *ns >= MIN_RATE_BASE_NS)?;
    let tolerance_ns = base.width_ns.saturating_add(moment.width_ns);
    let slope = |ns: i64| {
        let scaled = u128::try_from(ns).ok()? << SLOPE_BITS;
        u64::try_from(scaled / u128::from(ticks)).ok().filter(|slope| *slope < MAX_SLOPE)
    };
    Some([
        slope(elapsed_ns.saturating_sub(tolerance_ns))?,
        slope(elapsed_ns.saturating_add(tolerance_ns))? + 1,
    ])
}

/// `rate` raised by `ppb`, rounded down.
fn plus_ppb(rate: u64, ppb: i64) -> u64 {
    const BILLION: i64 = 1_000_000_000;
    // BOUND: `rate` is below 2^64 (`MAX_SLOPE`, and MAX_RATE_PPB more), `ppb` below a billion.
    let factor = u128::try_from(BILLION.saturating_add(ppb)).unwrap_or(0);
    u64::try_from(u128::from(rate) * factor / u128::from(BILLION.unsigned_abs())).unwrap_or(u64::MAX)
}

#[cfg(test)]
pub(crate) mod tests;
