//! How many pairs took how long.

use hdrhistogram::Histogram;

use crate::number::as_f64;
use crate::pairs::collector::Keep;
use crate::pairs::quantile::Counted;
use crate::pairs::slice::{Counting, Judged};

/// Digits of a histogram's values: exact to 2,047 ticks, within 0.1 % above.
const DIGITS: u8 = 3;

/// The longest pair that a histogram holds, ticks: minutes. Longer ones count as this.
const LONGEST_TICKS: u64 = 1 << 40;

/// Pairs whose facts are known.
#[derive(Debug, Clone)]
pub(crate) struct Pairs {
    histogram: Histogram<u64>,
    sum_ticks: f64,
}

impl Default for Pairs {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_TICKS, DIGITS);
        Self { histogram: histogram.expect("bounds and digits are constants"), sum_ticks: 0.0 }
    }
}

impl Pairs {
    fn add(&mut self, ticks: u64) {
        self.histogram.saturating_record(ticks);
        self.sum_ticks += as_f64(ticks);
    }

    pub(crate) fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Ticks of all pairs.
    pub(crate) fn sum_ticks(&self) -> f64 {
        self.sum_ticks
    }

    /// The longest pair, ticks, as exact as the histogram is.
    pub(crate) fn max_ticks(&self) -> u64 {
        self.histogram.max()
    }

    /// Values and their counts, in rising order.
    pub(crate) fn counted(&self) -> Vec<Counted> {
        let middle = |value: u64| as_f64(self.histogram.median_equivalent(value));
        self.histogram
            .iter_recorded()
            .map(|step| (middle(step.value_iterated_to()), step.count_at_value()))
            .collect()
    }
}

/// The pairs of a benchmark.
#[derive(Debug, Clone, Default)]
pub(crate) struct Distribution {
    undisturbed: Pairs,
    all: Pairs,
}

impl Distribution {
    pub(crate) fn pairs(&self, counting: Counting) -> &Pairs {
        match counting {
            Counting::Undisturbed => &self.undisturbed,
            Counting::All => &self.all,
        }
    }
}

impl Keep<1> for Distribution {
    fn keep(&mut self, slice: &Judged<1>, _: Counting) {
        for (counting, pairs) in
            [(Counting::Undisturbed, &mut self.undisturbed), (Counting::All, &mut self.all)]
        {
            slice.counted(counting).for_each(|[ticks]| pairs.add(ticks));
        }
    }
}
