//! The facts of the last judgement that may change while a clock runs.

use tickline_core::counter::HardwareCounter;
use tickline_core::gate::{self, Clocksource, Facts};

use crate::trust::{compare, facts};

/// What the last judgement found of the facts that may change at run time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TrustSnapshot {
    pub(crate) clocksource: Clocksource,
    /// Whether the kernel would accept the counter.
    kernel_accepts: Option<bool>,
    /// [`changes`](compare::changes) of the comparison.
    comparisons: u32,
    /// Whether the CPUs' counters should be compared.
    pub(crate) wants_comparison: bool,
    /// Whether that is so because the kernel does not keep time with the counter.
    may_become_accepted: bool,
}

/// Whether the kernel would keep time with this target's counter.
#[inline(never)]
fn is_accepted() -> Option<bool> {
    facts::is_accepted(HardwareCounter::CLOCKSOURCE, &mut [0; facts::LIST_BYTES])
}

impl TrustSnapshot {
    /// Before the first judgement.
    pub(crate) const NONE: Self = Self {
        clocksource: Clocksource::Unknown,
        kernel_accepts: None,
        comparisons: 0,
        wants_comparison: false,
        may_become_accepted: false,
    };

    pub(crate) fn of(facts: &Facts, comparisons: u32) -> Self {
        // A comparison reads the counter. That is a SIGSEGV where the process may not, and unwanted
        // where the program has switched the counter off.
        let usable = facts.may_read_counter && facts.has_counter && facts.switched_off.is_none();
        Self {
            clocksource: facts.clocksource,
            kernel_accepts: facts.kernel_accepts,
            comparisons,
            wants_comparison: usable && gate::wants_comparison(facts),
            may_become_accepted: usable && facts.clocksource != facts.matching_clocksource,
        }
    }

    /// Whether the facts are still the same. Reads one small file, or two.
    pub(crate) fn is_current(&self) -> bool {
        self.comparisons == compare::changes()
            && self.clocksource == facts::clocksource()
            // A kernel that keeps time with the counter accepts it. Any other kernel may reject it
            // later, because its watchdog runs on, or may accept it late.
            && (!self.may_become_accepted || self.kernel_accepts == is_accepted())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Probes;

    #[test]
    fn notices_that_the_kernel_rejects_a_counter_that_it_does_not_use() {
        let mut facts = Facts::UNKNOWN;
        facts::Collector::new().finish(Probes::Full, &mut facts);
        // Not collected where the kernel keeps time with the counter.
        facts.kernel_accepts = is_accepted();
        let was = facts.kernel_accepts;
        let is_current = |facts: &Facts| TrustSnapshot::of(facts, compare::changes()).is_current();
        assert!(is_current(&facts));
        // As if the counter were usable, and no kernel kept time with it.
        (facts.may_read_counter, facts.has_counter, facts.switched_off) = (true, true, None);
        facts.matching_clocksource = match facts.clocksource {
            Clocksource::Riscv => Clocksource::Tsc,
            _ => Clocksource::Riscv,
        };
        assert!(is_current(&facts));
        facts.kernel_accepts = Some(was != Some(true));
        assert!(!is_current(&facts));
    }
}
