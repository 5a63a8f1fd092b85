//! Collects the facts that the gates judge. The code here makes no decision, does not allocate, and
//! may run in a signal handler.

mod collector;
mod cost;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod cpu;
#[cfg(any(not(target_arch = "x86_64"), miri))]
#[path = "facts/cpu_other.rs"]
mod cpu;

pub(crate) use collector::Collector;
#[cfg(test)]
pub(crate) use cost::injected;
pub(crate) use cpu::is_virtual;

use tickline_core::gate::{self, Facts};

use crate::sys::{clocksource, kernel_accepts_counter};
use crate::trust::compare;

/// Whether tickline may read the counter. A read raises SIGSEGV if the process may not read the
/// counter, and is unwanted if the counter is switched off.
const fn is_usable(facts: &Facts) -> bool {
    facts.may_read_counter && facts.has_counter && facts.switched_off_by.is_none()
}

/// Whether the CPUs' counters should be compared.
pub(crate) const fn needs_comparison(facts: &Facts) -> bool {
    is_usable(facts) && gate::needs_comparison(facts)
}

/// Whether the facts that may change while a clock runs are still the same. Reads one small file,
/// or two. While another thread locks the comparison's result, that counts as unchanged.
pub(crate) fn are_current(facts: &Facts) -> bool {
    compare::result().is_none_or(|comparison| facts.comparison == comparison)
        && facts.clocksource == clocksource()
        // A kernel that keeps time with the counter accepts it. Any other kernel may reject it
        // later, because its watchdog runs on, or may accept it late.
        && (!is_usable(facts)
            || facts.clocksource == facts.matching_clocksource
            || facts.kernel_accepts == kernel_accepts_counter())
}

#[cfg(test)]
mod tests {
    use tickline_core::clocksource::Clocksource;
    use tickline_core::gate::SwitchedOffBy;

    use super::*;
    use crate::settings::Probes;

    #[test]
    fn notices_that_the_kernel_rejects_a_counter_that_it_does_not_use() {
        let mut facts = Facts::UNKNOWN;
        Collector::new().finish(0, Probes::Full, &mut facts);
        // The collector skips this fact if the kernel keeps time with the counter.
        facts.kernel_accepts = kernel_accepts_counter();
        let was = facts.kernel_accepts;
        // Other tests publish comparisons meanwhile.
        let are_current = |facts: &Facts| {
            let mut facts = *facts;
            facts.comparison = compare::result().unwrap_or(facts.comparison);
            super::are_current(&facts)
        };
        assert!(are_current(&facts));
        // Pretend that the counter is usable, and that another clocksource keeps time.
        (
            facts.may_read_counter,
            facts.has_counter,
            facts.switched_off_by,
        ) = (true, true, None);
        facts.matching_clocksource = match facts.clocksource {
            Clocksource::Riscv => Clocksource::Tsc,
            _ => Clocksource::Riscv,
        };
        assert!(are_current(&facts));
        facts.kernel_accepts = Some(was != Some(true));
        assert!(!are_current(&facts));
    }

    /// Facts about a counter that may be used, after this change.
    fn usable_but(change: impl FnOnce(&mut Facts)) -> Facts {
        let mut facts = Facts::UNKNOWN;
        (facts.may_read_counter, facts.has_counter) = (true, true);
        facts.switched_off_by = None;
        change(&mut facts);
        facts
    }

    #[test]
    fn a_counter_that_exists_and_may_be_read_is_usable() {
        assert!(is_usable(&usable_but(|_| {})));
    }

    #[test]
    fn a_counter_that_may_not_be_read_is_not_usable() {
        let facts = usable_but(|facts| facts.may_read_counter = false);
        assert!(!is_usable(&facts));
    }

    #[test]
    fn a_counter_that_does_not_exist_is_not_usable() {
        let facts = usable_but(|facts| facts.has_counter = false);
        assert!(!is_usable(&facts));
    }

    #[test]
    fn a_counter_that_is_switched_off_is_not_usable() {
        let facts = usable_but(|facts| facts.switched_off_by = Some(SwitchedOffBy::Program));
        assert!(!is_usable(&facts));
    }

    #[test]
    fn the_counters_of_a_virtual_machine_need_a_comparison() {
        let facts = usable_but(|facts| facts.is_virtual = true);
        assert!(needs_comparison(&facts));
    }

    #[test]
    fn counters_that_may_not_be_read_need_no_comparison() {
        let facts = usable_but(|facts| {
            facts.is_virtual = true;
            facts.may_read_counter = false;
        });
        assert!(!needs_comparison(&facts));
    }
}
