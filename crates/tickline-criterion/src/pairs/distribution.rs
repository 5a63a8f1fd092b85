//! How many pairs took how long.

use hdrhistogram::Histogram;

use crate::calibration::Scale;
use crate::number::as_f64;
use crate::pairs::quantile::Counted;

/// Digits of a histogram's values: exact to 2,047 ticks, within 0.1 % above.
const DIGITS: u8 = 3;

/// The longest pair that a histogram holds, ticks: minutes. Longer ones count as this.
const LONGEST_TICKS: u64 = 1 << 40;

/// Pairs of a benchmark, ticks.
#[derive(Debug, Clone)]
pub(crate) struct Distribution(pub(crate) Histogram<u64>);

impl Default for Distribution {
    fn default() -> Self {
        let empty = Histogram::new_with_bounds(1, LONGEST_TICKS, DIGITS);
        Self(empty.expect("bounds and digits are constants"))
    }
}

impl Extend<[u64; 1]> for Distribution {
    fn extend<T: IntoIterator<Item = [u64; 1]>>(&mut self, pairs: T) {
        pairs.into_iter().for_each(|[ticks]| self.0.saturating_record(ticks));
    }
}

impl Distribution {
    /// Values and their counts, in rising order.
    pub(crate) fn counted(&self) -> Vec<Counted> {
        let middle = |value: u64| as_f64(self.0.median_equivalent(value));
        let steps = self.0.iter_recorded();
        steps.map(|step| (middle(step.value_iterated_to()), step.count_at_value())).collect()
    }

    /// The same as times of an iteration without their cost, ns, by the iterations of a pair.
    pub(crate) fn histogram_ns(&self, scale: &Scale, iterations: u64) -> Vec<(f64, u64)> {
        let each_ns = |ticks: f64| scale.net_ns(ticks) / as_f64(iterations);
        self.counted().into_iter().map(|(ticks, count)| (each_ns(ticks), count)).collect()
    }
}
