//! The counter's rate against `CLOCK_MONOTONIC_RAW`, from two moments.

use crate::claim::SLOPE_BITS;
use crate::interval::Interval;
use crate::moment::Moment;

/// The time after which a newer moment becomes the base of the counter's rate, ns.
const RATE_BASE_NS: i64 = 50_000_000_000;

/// The shortest time over which the counter's rate is measured, ns.
const MIN_RATE_BASE_NS: i64 = 4_000_000;

/// A counter with ticks this long does not serve, ns with [`SLOPE_BITS`] fraction bits.
const MAX_SLOPE: u64 = 30_000 << SLOPE_BITS;

/// The largest change of the rates of a machine's two oscillators against each other, ppb. One
/// drives the counter, the other the kernel's clocksource, if that is another one. chronyd assumes
/// the same value for a clock (chrony.conf(5), `maxclockerror`).
pub(crate) const WANDER_PPB: i64 = 1_000;

/// The counter jumped, or changed its rate.
pub(crate) struct CounterJumped;

/// Measures how long a tick is by `CLOCK_MONOTONIC_RAW`.
#[derive(Debug, Default)]
pub(crate) struct CounterRate {
    bases: Option<Bases>,
    /// The time of a tick, as last measured, ns with [`SLOPE_BITS`] fraction bits.
    pub(crate) slopes: Option<Interval<u64>>,
}

/// The moments from which the rate is measured.
#[derive(Debug, Clone, Copy)]
struct Bases {
    present: Moment,
    next: Moment,
}

impl CounterRate {
    /// Measures the counter's rate from the base to `moment`, if that is possible yet. Fails if the
    /// counter is known to have jumped or to have changed its rate.
    pub(crate) fn measure(&mut self, moment: &Moment) -> Result<(), CounterJumped> {
        let Some(bases) = self.bases else {
            self.begin(moment);
            return Ok(());
        };
        let Some(slopes) = slopes_between(&bases.present, moment) else {
            return self.begin_if_rate_is_lost(&bases.present, moment);
        };
        // A jump of the counter would look like another rate. And a kernel may measure a suspend of
        // less than a second as 0: the counter then ran on, and no clock did.
        let near = Interval {
            min: plus_ppb(slopes.min, -WANDER_PPB),
            max: plus_ppb(slopes.max, WANDER_PPB),
        };
        let continues = self.slopes.is_none_or(|last| last.overlaps(near));
        if !continues {
            self.begin(moment);
            return Err(CounterJumped);
        }
        self.slopes = Some(slopes);
        self.bases = Some(bases.advanced_to(moment));
        Ok(())
    }

    /// Begins a new measurement if no rate follows from `base`, although the two moments are far
    /// enough apart. Fails if the counter was set back, to a value before the base or just after
    /// it.
    fn begin_if_rate_is_lost(
        &mut self,
        base: &Moment,
        moment: &Moment,
    ) -> Result<(), CounterJumped> {
        let is_long_enough = moment.raw_ns - base.raw_ns >= MIN_RATE_BASE_NS;
        let had_rate = self.slopes.is_some();
        let is_set_back = base
            .ticks
            .zip(moment.ticks)
            .is_some_and(|(before, now)| now < before || is_long_enough && had_rate);
        if is_set_back || is_long_enough {
            self.begin(moment);
        }
        if is_set_back {
            return Err(CounterJumped);
        }
        Ok(())
    }

    /// Begins a new measurement.
    pub(crate) fn begin(&mut self, moment: &Moment) {
        self.bases = Some(Bases {
            present: *moment,
            next: *moment,
        });
        self.slopes = None;
    }
}

impl Bases {
    /// The bases after a measurement at `moment`.
    fn advanced_to(self, moment: &Moment) -> Self {
        let is_older = |base: &Moment, ns: i64| moment.raw_ns - base.raw_ns >= ns;
        Self {
            present: if is_older(&self.present, 2 * RATE_BASE_NS) {
                self.next
            } else {
                self.present
            },
            next: if is_older(&self.next, RATE_BASE_NS) {
                *moment
            } else {
                self.next
            },
        }
    }
}

/// The time of a tick, ns, with [`SLOPE_BITS`] fraction bits; `None` if the two moments do not show
/// a rate.
fn slopes_between(base: &Moment, moment: &Moment) -> Option<Interval<u64>> {
    let ticks = moment
        .ticks?
        .checked_sub(base.ticks?)
        .filter(|ticks| *ticks > 0)?;
    let elapsed_ns = moment
        .raw_ns
        .checked_sub(base.raw_ns)
        .filter(|ns| *ns >= MIN_RATE_BASE_NS)?;
    let tolerance_ns = base.width_ns.saturating_add(moment.width_ns);
    let slope = |ns: i64| {
        let scaled = u128::try_from(ns).ok()? << SLOPE_BITS;
        u64::try_from(scaled / u128::from(ticks))
            .ok()
            .filter(|slope| *slope < MAX_SLOPE)
    };
    let elapsed_ns = Interval::around(elapsed_ns, tolerance_ns);
    Some(Interval {
        min: slope(elapsed_ns.min)?,
        max: slope(elapsed_ns.max)? + 1,
    })
}

/// `rate` raised by `ppb`, rounded down.
pub(crate) fn plus_ppb(rate: u64, ppb: i64) -> u64 {
    const BILLION: i64 = 1_000_000_000;
    // BOUND: `rate` is below 2^64 (`MAX_SLOPE`, and MAX_RATE_PPB more), `ppb` below a billion.
    let factor = u128::try_from(BILLION.saturating_add(ppb)).unwrap_or(0);
    u64::try_from(u128::from(rate) * factor / u128::from(BILLION.unsigned_abs()))
        .unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
