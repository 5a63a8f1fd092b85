//! What the clock's thread does for UTC: it asks the sources, relates the answer to the counter,
//! and makes a claim of both.
//!
//! | step | what |
//! |---|---|
//! | [`Anchor`] | the counter, `CLOCK_MONOTONIC_RAW` and `CLOCK_REALTIME` at one moment, and how well that moment is known |
//! | rate | the counter's rate against `CLOCK_MONOTONIC_RAW`, from two anchors |
//! | [`Report`] | what a source says: UTC minus `CLOCK_REALTIME` now, and the rate of UTC against `CLOCK_MONOTONIC_RAW` |
//! | [`Claim`] | what readers get |
//!
//! A new claim must meet the last one. If the two have no time in common, one of them is wrong, and
//! nobody can say which: readings fail until the source has measured again.

use tickline_core::sample::SUSPENDED_BOUND_NS;

use super::claim::{Claim, RATE_BITS, Timescale};
use super::{UtcSource, UtcUnknown};

/// How often the sources are asked, ns, unless the thread sleeps longer.
pub(super) const POLL_NS: i64 = 750_000_000;

/// An anchor is replaced as the beginning of the counter's rate after this time, ns.
const BASE_NS: i64 = 50_000_000_000;

/// The shortest time from which the counter's rate is taken, ns.
const SHORTEST_NS: i64 = 4_000_000;

/// No oscillator that NTP can steer is further off, ppb (`MAXFREQ` in Linux' `timex.h`).
pub(super) const MAX_FREQUENCY_PPB: i64 = 500_000;

/// How much the rates of two oscillators of a machine may change against each other, ppb: the
/// counter's, and that of the kernel's clocksource where that is another one. chronyd assumes as
/// much of a clock (chrony.conf(5), `maxclockerror`).
pub(super) const WANDER_PPB: i64 = 1_000;

const DAY_NS: i64 = 86_400_000_000_000;

/// How near to a leap second readings fail, ns: the source, the kernel and the thread take a
/// moment to pass it.
const LEAP_MARGIN_NS: i64 = 2_000_000_000;

/// One moment by each clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Anchor {
    /// The counter, ticks; `None` where it does not serve.
    pub(crate) ticks: Option<u64>,
    /// `CLOCK_MONOTONIC_RAW`, ns.
    pub(crate) raw_ns: i64,
    /// `CLOCK_REALTIME`, ns.
    pub(crate) realtime_ns: i64,
    /// How long it took to read them: each is that of the moment within this time, ns.
    pub(crate) width_ns: i64,
    /// How long the machine has been suspended since its start, ns.
    pub(crate) suspended_ns: i64,
}

/// What a source says of the moment of an anchor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) source: UtcSource,
    /// UTC minus `CLOCK_REALTIME`: the least and the greatest value, ns.
    pub(crate) offset_ns: [i64; 2],
    /// The rate of UTC against `CLOCK_MONOTONIC_RAW`, ppb, and how much it may differ, ppb.
    pub(crate) rate_ppb: i64,
    pub(crate) drift_ppb: i64,
    /// How long the source lets its claim hold, ns.
    pub(crate) valid_ns: i64,
    /// Changes when the source has measured anew.
    pub(crate) measured: u64,
    /// Whether the UTC day ends with a leap second.
    pub(crate) leap: bool,
    /// TAI minus UTC, s.
    pub(crate) tai_offset_s: Option<u16>,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct UtcKeeper {
    /// Where the measurement of the counter's rate begins, and where the next one will.
    base: Option<Anchor>,
    next_base: Option<Anchor>,
    /// The least and the greatest time of a tick by `CLOCK_MONOTONIC_RAW`, as last measured.
    rate: Option<[u64; 2]>,
    last: Option<Claim>,
    /// What the source had measured when it was last found wrong.
    distrusted: Option<u64>,
    /// The end of a UTC day with a leap second, ns since 1970.
    leap_at_ns: Option<i64>,
}

impl UtcKeeper {
    /// What to publish after the best source has `said` something at `anchor`; `None` leaves the
    /// last claim to its end, because no source has said anything, or only that it knows nothing. A
    /// claim holds for `valid_ns` at most.
    pub(crate) fn claim(
        &mut self,
        anchor: &Anchor,
        said: Result<Report, UtcUnknown>,
        valid_ns: i64,
    ) -> Option<Claim> {
        let was_suspended = self.last.is_some_and(|last| last.is_before_suspend(anchor.suspended_ns));
        self.measure_rate(anchor);
        let claim = match said {
            // The machine slept, and the kernel has set its clock by another one, which is less
            // accurate. The source does not know that until it measures.
            Ok(report) if was_suspended => {
                self.distrust(&report);
                Err(UtcUnknown::Disrupted)
            }
            Ok(report) => self.checked(anchor, &report, valid_ns),
            Err(UtcUnknown::NoSource) if !was_suspended => return None,
            // The one that has made the last claim may be late. Its claim is as true as it was.
            Err(UtcUnknown::Unsynchronised)
                if !was_suspended && self.last.is_some_and(|last| last.at_raw(anchor.raw_ns).is_some()) =>
            {
                return None;
            }
            Err(why) => Err(why),
        };
        match claim {
            Ok(claim) => self.last = Some(claim),
            // It would contradict what the source measures next.
            Err(_) if was_suspended => self.last = None,
            Err(_) => {}
        }
        Some(claim.unwrap_or_else(Claim::none))
    }

    /// The time of a tick by `CLOCK_MONOTONIC_RAW`, ns with [`RATE_BITS`] places.
    pub(crate) fn rate(&self) -> Option<u64> {
        self.rate.map(|[slowest, fastest]| slowest.midpoint(fastest))
    }

    /// Whether the counter's rate is known, or will not be, because the counter does not serve.
    pub(crate) fn knows_rate(&self) -> bool {
        self.rate.is_some() || self.base.is_some_and(|base| base.ticks.is_none())
    }

    fn distrust(&mut self, report: &Report) {
        self.distrusted = Some(report.measured);
        self.last = None;
    }

    fn checked(&mut self, anchor: &Anchor, report: &Report, valid_ns: i64) -> Result<Claim, UtcUnknown> {
        if self.distrusted == Some(report.measured) {
            return Err(UtcUnknown::Disrupted);
        }
        self.distrusted = None;
        let [least_ns, greatest_ns] = report.offset_ns;
        let earliest_ns = anchor.realtime_ns.saturating_add(least_ns).saturating_sub(anchor.width_ns);
        let latest_ns = anchor.realtime_ns.saturating_add(greatest_ns).saturating_add(anchor.width_ns);
        let mut valid_ns = valid_ns.min(report.valid_ns);
        let mut then = UtcUnknown::Expired;
        let left_ns = self.until_leap(report, [earliest_ns, latest_ns])?;
        if let Some(left_ns) = left_ns.filter(|left_ns| *left_ns < valid_ns) {
            (valid_ns, then) = (left_ns, UtcUnknown::LeapSecond);
        }
        let valid = u64::try_from(valid_ns).unwrap_or(0);
        let rates = [
            report.rate_ppb.saturating_sub(report.drift_ppb),
            report.rate_ppb.saturating_add(report.drift_ppb),
        ];
        let by_raw = Timescale {
            start: anchor.raw_ns.cast_unsigned(),
            valid,
            slowest: faster(1 << RATE_BITS, rates[0]),
            fastest: faster(1 << RATE_BITS, rates[1]) + 1,
        };
        let by_counter = match (anchor.ticks, self.rate) {
            (Some(start), Some([slowest, fastest])) => Timescale {
                start,
                valid: u64::try_from((u128::from(valid) << RATE_BITS) / u128::from(fastest.max(1)))
                    .unwrap_or(0),
                slowest: faster(slowest, rates[0] - WANDER_PPB),
                fastest: faster(fastest, rates[1] + WANDER_PPB) + 1,
            },
            _ => Timescale::default(),
        };
        let claim = Claim {
            by_counter,
            by_raw,
            suspended_ns: anchor.suspended_ns,
            earliest_ns,
            latest_ns,
            tai_offset_s: report.tai_offset_s,
            source: Ok(report.source),
            then,
        };
        let [expected_earliest_ns, expected_latest_ns] =
            self.last.map_or([i64::MIN, i64::MAX], |last| last.reckoned_ns(anchor.raw_ns));
        if earliest_ns > expected_latest_ns || latest_ns < expected_earliest_ns {
            self.distrust(report);
            return Err(UtcUnknown::Disrupted);
        }
        Ok(claim)
    }

    /// How long readings may go on before the day ends with a leap second, ns; `None` without one.
    /// `LeapSecond` while it happens.
    fn until_leap(&mut self, report: &Report, utc_ns: [i64; 2]) -> Result<Option<i64>, UtcUnknown> {
        let [earliest_ns, latest_ns] = utc_ns;
        if report.leap && self.leap_at_ns.is_none() {
            self.leap_at_ns = Some((latest_ns.div_euclid(DAY_NS) + 1) * DAY_NS);
        }
        let Some(leap_at_ns) = self.leap_at_ns else { return Ok(None) };
        if earliest_ns > leap_at_ns + LEAP_MARGIN_NS {
            // The next claim does not continue this one: the day had a second more, or less.
            (self.leap_at_ns, self.last) = (None, None);
            return Ok(None);
        }
        let left_ns = leap_at_ns - LEAP_MARGIN_NS - latest_ns;
        if left_ns > 0 { Ok(Some(left_ns)) } else { Err(UtcUnknown::LeapSecond) }
    }

    /// Measures the counter's rate from the base to `anchor`.
    fn measure_rate(&mut self, anchor: &Anchor) {
        let measured = self.base.and_then(|base| rate_between(&base, anchor));
        let (Some([slowest, fastest]), Some(base)) = (measured, self.base) else {
            if self.base.is_none_or(|base| anchor.raw_ns - base.raw_ns >= SHORTEST_NS) {
                self.begin_rate(anchor);
            }
            return;
        };
        // A counter that has jumped would be mistaken for one of another rate.
        let continues = self.rate.is_none_or(|[last_slowest, last_fastest]| {
            faster(slowest, -WANDER_PPB) <= last_fastest && last_slowest <= faster(fastest, WANDER_PPB)
        });
        if !continues {
            self.begin_rate(anchor);
            return;
        }
        self.rate = Some([slowest, fastest]);
        if anchor.raw_ns - base.raw_ns >= 2 * BASE_NS {
            self.base = self.next_base;
        }
        if self.next_base.is_none_or(|next| anchor.raw_ns - next.raw_ns >= BASE_NS) {
            self.next_base = Some(*anchor);
        }
    }

    fn begin_rate(&mut self, anchor: &Anchor) {
        (self.base, self.next_base, self.rate) = (Some(*anchor), Some(*anchor), None);
    }
}

/// The least and the greatest time of a tick, ns, with [`RATE_BITS`] places; `None` if the anchors
/// do not tell.
fn rate_between(base: &Anchor, anchor: &Anchor) -> Option<[u64; 2]> {
    let ticks = anchor.ticks?.checked_sub(base.ticks?).filter(|ticks| *ticks > 0)?;
    let elapsed_ns = anchor.raw_ns.checked_sub(base.raw_ns).filter(|ns| *ns >= SHORTEST_NS)?;
    if base.suspended_ns.abs_diff(anchor.suspended_ns) > SUSPENDED_BOUND_NS {
        return None;
    }
    // Each reading is rounded down to a nanosecond.
    let unsure_ns = base.width_ns + anchor.width_ns + 1;
    let rate = |ns: i64| {
        let scaled = u128::try_from(ns).ok()? << RATE_BITS;
        u64::try_from(scaled / u128::from(ticks)).ok()
    };
    Some([rate(elapsed_ns - unsure_ns)?, rate(elapsed_ns + unsure_ns)? + 1])
}

/// A rate, `ppb` faster, rounded down.
fn faster(rate: u64, ppb: i64) -> u64 {
    const BILLION: i64 = 1_000_000_000;
    let factor = u128::try_from(BILLION.saturating_add(ppb)).unwrap_or(0);
    u64::try_from(u128::from(rate) * factor / 1_000_000_000).unwrap_or(u64::MAX)
}

/// In a guest on a busy machine chronyd was late for one request in ten, and the kernel, whose flag
/// chronyd does not touch without `rtcsync`, said instead that it is not synchronised.
#[test]
fn a_source_that_is_late_does_not_end_its_claim() {
    let anchor = |raw_ns| {
        let realtime_ns = raw_ns + 20_000 * DAY_NS;
        Anchor { ticks: None, raw_ns, realtime_ns, width_ns: 100, suspended_ns: 0 }
    };
    let report = Report {
        source: UtcSource::Chronyd,
        offset_ns: [-1_000_000, 1_000_000],
        rate_ppb: 0,
        drift_ppb: 10_000,
        valid_ns: i64::MAX,
        measured: 1,
        leap: false,
        tai_offset_s: None,
    };
    let (mut keeper, valid_ns) = (UtcKeeper::default(), 1_875_000_000);
    let mut claim = |raw_ns, said| keeper.claim(&anchor(raw_ns), said, valid_ns).map(|claim| claim.source);
    let unsynchronised = Err(UtcUnknown::Unsynchronised);
    assert_eq!(claim(0, unsynchronised), Some(Err(UtcUnknown::Unsynchronised)), "nothing was claimed");
    assert_eq!(claim(1, Ok(report)), Some(Ok(UtcSource::Chronyd)));
    assert_eq!(claim(750_000_000, unsynchronised), None);
    assert_eq!(claim(1 + valid_ns, unsynchronised), Some(Err(UtcUnknown::Unsynchronised)), "it has ended");
}
