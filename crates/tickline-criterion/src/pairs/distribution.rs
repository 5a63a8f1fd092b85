//! How many pairs took how long.

use hdrhistogram::Histogram;

use crate::number::as_f64;
use crate::pairs::collector::Keep;
use crate::pairs::quantile::Counted;
use crate::pairs::slice::{Counting, Slice};

/// Digits of a histogram's values: exact to 2,047 ticks, within 0.1 % above.
const DIGITS: u8 = 3;

/// The longest pair that a histogram holds, ticks: minutes. Longer ones count as this.
const LONGEST_TICKS: u64 = 1 << 40;

/// The pairs of a benchmark whose facts are known, ticks.
#[derive(Debug, Clone)]
pub(crate) struct Distribution {
    undisturbed: Histogram<u64>,
    all: Histogram<u64>,
}

impl Default for Distribution {
    fn default() -> Self {
        let empty = Histogram::new_with_bounds(1, LONGEST_TICKS, DIGITS);
        let empty = empty.expect("bounds and digits are constants");
        Self { undisturbed: empty.clone(), all: empty }
    }
}

impl Distribution {
    pub(crate) fn pairs(&self, counting: Counting) -> &Histogram<u64> {
        match counting {
            Counting::Undisturbed => &self.undisturbed,
            Counting::All => &self.all,
        }
    }
}

impl Keep<1> for Distribution {
    fn keep(&mut self, slice: &Slice<1>, _: Counting) {
        for (counting, pairs) in
            [(Counting::Undisturbed, &mut self.undisturbed), (Counting::All, &mut self.all)]
        {
            slice.counted(counting).for_each(|[ticks]| pairs.saturating_record(ticks));
        }
    }
}

/// Values and their counts, in rising order.
pub(crate) fn counted(pairs: &Histogram<u64>) -> Vec<Counted> {
    let middle = |value: u64| as_f64(pairs.median_equivalent(value));
    pairs.iter_recorded().map(|step| (middle(step.value_iterated_to()), step.count_at_value())).collect()
}
