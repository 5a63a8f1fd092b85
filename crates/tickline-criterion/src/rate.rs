//! How many ns a tick takes, with proven bounds.
//!
//! An [`Anchor`] is a reading of tickline's clock between two reads of the counter: at some
//! moment in that interval of ticks, `CLOCK_MONOTONIC` was within the reading's interval of ns.
//! Two anchors bound the mean rate between them from both sides:
//!
//! ```text
//!       (later.earliest_ns - earlier.latest_ns) / (later.after - earlier.before)
//!   <=  ns per tick
//!   <=  (later.latest_ns - earlier.earliest_ns) / (later.before - earlier.after)
//! ```
//!
//! The rate is the middle. Its uncertainty is half of the width, plus the largest `max_drift_ppb`
//! within the baseline, by which the rate may differ from its mean. It holds as long as the
//! readings' bounds do (`tickline::Reading`).

use std::time::{Duration, Instant};

use tickline::Clock;
use tickline_core::counter::{Counter, HardwareCounter};

use crate::elapsed::as_f64;

/// This many anchors are taken, and the narrowest counts. One takes some 60 ns, so an interrupt
/// hits few of them.
const TRIES: u32 = 32;

/// How long a rate is used before the next anchor: the steady interval between the clock's
/// recalibrations. Before that the clock knows nothing new.
const REFRESH: Duration = Duration::from_millis(500);

/// The longest baseline. Over this time errors of 60 ns make 6 ppb. With a longer one the rate
/// would follow the reference too late.
const BASELINE_NS: u64 = 10_000_000_000;

/// A moment, by the counter and by the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Anchor {
    pub(crate) before_ticks: u64,
    pub(crate) after_ticks: u64,
    pub(crate) earliest_ns: u64,
    pub(crate) latest_ns: u64,
}

impl Anchor {
    pub(crate) fn take(clock: &Clock, counter: HardwareCounter) -> Self {
        let one = || {
            let before_ticks = counter.now_ordered();
            let reading = clock.reading();
            counter.barrier();
            let after_ticks = counter.now_ordered();
            Self {
                before_ticks,
                after_ticks,
                earliest_ns: reading.earliest().as_nanos(),
                latest_ns: reading.latest().as_nanos(),
            }
        };
        (1..TRIES).fold(one(), |best, _| {
            let next = one();
            if next.width_ticks() < best.width_ticks() { next } else { best }
        })
    }

    fn width_ticks(&self) -> u64 {
        self.after_ticks.saturating_sub(self.before_ticks)
    }
}

/// A rate and its error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rate {
    pub(crate) ns_per_tick: f64,
    pub(crate) uncertainty_ppb: f64,
}

impl Rate {
    /// The mean rate between two anchors; `None` if they say nothing, or contradict each other.
    pub(crate) fn between(earlier: &Anchor, later: &Anchor, max_drift_ppb: u64) -> Option<Self> {
        let least_ns = later.earliest_ns.checked_sub(earlier.latest_ns)?;
        let most_ns = later.latest_ns.checked_sub(earlier.earliest_ns)?;
        let least_ticks = later.before_ticks.checked_sub(earlier.after_ticks).filter(|&ticks| ticks > 0)?;
        let most_ticks = later.after_ticks.checked_sub(earlier.before_ticks)?;
        let lowest = as_f64(least_ns) / as_f64(most_ticks);
        let highest = as_f64(most_ns) / as_f64(least_ticks);
        let ns_per_tick = f64::midpoint(lowest, highest);
        (lowest > 0.0 && lowest <= highest).then(|| Self {
            ns_per_tick,
            uncertainty_ppb: (highest - lowest) / 2.0 / ns_per_tick * 1e9 + as_f64(max_drift_ppb),
        })
    }
}

/// The present rate, which follows the clock as long as there are benchmarks.
#[derive(Debug)]
pub(crate) struct Follower {
    from: Anchor,
    to: Anchor,
    /// The largest maximum drift since `from`, and the one at `to`, ppb. The clock widens it when
    /// the rate changes, and narrows it when it knows the new rate. The mean over the baseline
    /// still includes the old rate then.
    worst_max_drift_ppb: u64,
    max_drift_ppb: u64,
    rate: Rate,
    taken: Instant,
}

impl Follower {
    /// `None` if the two anchors give no rate.
    pub(crate) fn new(from: Anchor, to: Anchor, max_drift_ppb: u64) -> Option<Self> {
        let rate = Rate::between(&from, &to, max_drift_ppb)?;
        Some(Self {
            from,
            to,
            worst_max_drift_ppb: max_drift_ppb,
            max_drift_ppb,
            rate,
            taken: Instant::now(),
        })
    }

    pub(crate) fn rate(&self) -> Rate {
        self.rate
    }

    pub(crate) fn is_due(&self) -> bool {
        self.taken.elapsed() >= REFRESH
    }

    /// Extends the baseline to `next`. A baseline that has become too long begins anew at the last
    /// anchor. If the counter or the clock has jumped, it begins anew at `next`, and the old rate
    /// stays until the anchor after that.
    pub(crate) fn advance(&mut self, next: Anchor, max_drift_ppb: u64) {
        if self.to.earliest_ns.saturating_sub(self.from.latest_ns) >= BASELINE_NS {
            (self.from, self.worst_max_drift_ppb) = (self.to, self.max_drift_ppb);
        }
        self.worst_max_drift_ppb = self.worst_max_drift_ppb.max(max_drift_ppb);
        match Rate::between(&self.from, &next, self.worst_max_drift_ppb) {
            Some(rate) => self.rate = rate,
            None => (self.from, self.worst_max_drift_ppb) = (next, max_drift_ppb),
        }
        (self.to, self.max_drift_ppb, self.taken) = (next, max_drift_ppb, Instant::now());
    }

    /// Forgets the baseline, which a jump has made void.
    pub(crate) fn restart(&mut self, next: Anchor, max_drift_ppb: u64) {
        (self.from, self.to, self.taken) = (next, next, Instant::now());
        (self.worst_max_drift_ppb, self.max_drift_ppb) = (max_drift_ppb, max_drift_ppb);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An anchor at `ns`, with a counter of 2.5 GHz, known within 30 ns and 100 ticks.
    fn anchor(ns: u64) -> Anchor {
        let ticks = ns * 5 / 2 + 7_000;
        Anchor { before_ticks: ticks - 50, after_ticks: ticks + 50, earliest_ns: ns - 15, latest_ns: ns + 15 }
    }

    #[test]
    fn the_rate_is_inside_its_uncertainty_wherever_in_the_brackets_the_truth_was() {
        let (earlier, later) = (anchor(1_000_000), anchor(101_000_000));
        let rate = Rate::between(&earlier, &later, 0).expect("a rate");
        for (early_ns, late_ns) in [(-15_i32, 15_i32), (15, -15), (0, 0)] {
            for (early_ticks, late_ticks) in [(-50_i32, 50_i32), (50, -50), (0, 0)] {
                let ns = 100_000_000.0 + f64::from(late_ns - early_ns);
                let ticks = 250_000_000.0 + f64::from(late_ticks - early_ticks);
                let off_ppb = (ns / ticks / rate.ns_per_tick - 1.0).abs() * 1e9;
                assert!(off_ppb <= rate.uncertainty_ppb + 1e-3, "{off_ppb} of {rate:?}");
            }
        }
        // 30 ns and 100 ticks of 0.4 ns at both ends, half of each: 70 ns in 100 ms.
        assert!((rate.uncertainty_ppb - 700.0).abs() < 1.0, "{rate:?}");
        let with_max_drift = Rate::between(&earlier, &later, 200).expect("a rate");
        assert!((with_max_drift.uncertainty_ppb - rate.uncertainty_ppb - 200.0).abs() < 1e-6);
    }

    #[test]
    fn anchors_without_a_rate_between_them_give_none() {
        assert_eq!(Rate::between(&anchor(5_000), &anchor(5_010), 0), None, "brackets that overlap");
        assert_eq!(Rate::between(&anchor(9_000_000), &anchor(5_000), 0), None, "backwards");
        let reset = Anchor { before_ticks: 10, after_ticks: 90, ..anchor(9_000_000) };
        assert_eq!(Rate::between(&anchor(5_000), &reset, 0), None, "a counter that was reset");
    }

    #[test]
    fn the_baseline_grows_then_moves_on_and_begins_anew_after_a_reset() {
        const S: u64 = 1_000_000_000;
        let mut follower = Follower::new(anchor(S), anchor(2 * S), 0).expect("a rate");
        let first = follower.rate();
        for second in 3..=30 {
            follower.advance(anchor(second * S), 0);
            assert!(follower.rate().uncertainty_ppb <= first.uncertainty_ppb, "{follower:?}");
            assert!((follower.rate().ns_per_tick - 0.4).abs() < 1e-9, "{follower:?}");
            assert!(follower.to.earliest_ns - follower.from.latest_ns <= BASELINE_NS + S, "{follower:?}");
        }
        let before = follower.rate();
        follower.advance(Anchor { before_ticks: 10, after_ticks: 90, ..anchor(31 * S) }, 0);
        assert_eq!(follower.rate(), before);
        let later = Anchor { before_ticks: 1_250_000_010, after_ticks: 1_250_000_090, ..anchor(32 * S) };
        follower.advance(later, 0);
        assert!((follower.rate().ns_per_tick - 0.8).abs() < 1e-6, "{follower:?}");
    }

    /// Symptom: the rate changed by 400 ppb, the clock learnt that in a second, and for nine more
    /// the mean of both rates claimed an uncertainty of some 20 ppb.
    #[test]
    fn a_drift_that_was_large_within_the_baseline_counts_until_that_moves_on() {
        const S: u64 = 1_000_000_000;
        let mut follower = Follower::new(anchor(S), anchor(2 * S), 10).expect("a rate");
        follower.advance(anchor(3 * S), 800);
        for second in 4..=11 {
            follower.advance(anchor(second * S), 10);
            assert!(follower.rate().uncertainty_ppb > 800.0, "{follower:?}");
        }
        for second in 12..=15 {
            follower.advance(anchor(second * S), 10);
        }
        assert!(follower.rate().uncertainty_ppb < 100.0, "{follower:?}");
    }

    #[test]
    fn a_jump_is_not_in_the_rate() {
        const S: u64 = 1_000_000_000;
        let mut follower = Follower::new(anchor(S), anchor(2 * S), 0).expect("a rate");
        let ahead = |ns: u64| Anchor { earliest_ns: ns + S - 15, latest_ns: ns + S + 15, ..anchor(ns) };
        follower.restart(ahead(3 * S), 0);
        follower.advance(ahead(4 * S), 0);
        assert!((follower.rate().ns_per_tick - 0.4).abs() < 1e-6, "{follower:?}");
    }
}
