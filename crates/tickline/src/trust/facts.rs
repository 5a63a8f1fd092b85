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

use crate::sys::{acceptance_of_counter, clocksource};
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
            || facts.kernel_acceptance == acceptance_of_counter())
}

#[cfg(test)]
mod tests {
    use tickline_core::clocksource::{Acceptance, Clocksource};
    use tickline_core::gate::SwitchedOffBy;

    use super::*;
    use crate::settings::Probes;

    /// The facts of this machine, as the collector finds them.
    fn collected() -> Facts {
        let mut facts = Facts::UNKNOWN;
        Collector::new().finish(0, Probes::Full, &mut facts);
        // The collector skips this fact if the kernel keeps time with the counter.
        facts.kernel_acceptance = acceptance_of_counter();
        facts
    }

    /// The facts of this machine, as if it had a usable counter and the kernel kept time with
    /// another clocksource.
    fn facts_with_an_unused_counter() -> Facts {
        let mut facts = collected();
        facts.may_read_counter = true;
        facts.has_counter = true;
        facts.switched_off_by = None;
        facts.matching_clocksource = match facts.clocksource {
            Clocksource::Riscv => Clocksource::Tsc,
            _ => Clocksource::Riscv,
        };
        facts
    }

    /// Like `are_current`, but takes over a comparison that another test has published meanwhile.
    fn are_current_but_for_the_comparison(mut facts: Facts) -> bool {
        facts.comparison = compare::result().unwrap_or(facts.comparison);
        are_current(&facts)
    }

    #[test]
    fn facts_that_were_just_collected_are_current() {
        assert!(are_current_but_for_the_comparison(collected()));
    }

    #[test]
    fn facts_of_a_counter_that_the_kernel_does_not_use_stay_current() {
        let facts = facts_with_an_unused_counter();
        assert!(are_current_but_for_the_comparison(facts));
    }

    #[test]
    fn facts_are_not_current_once_the_kernel_rejects_a_counter_that_it_does_not_use() {
        let mut facts = facts_with_an_unused_counter();
        facts.kernel_acceptance = match facts.kernel_acceptance {
            Acceptance::Accepted => Acceptance::Rejected,
            Acceptance::Rejected | Acceptance::Unknown => Acceptance::Accepted,
        };
        assert!(!are_current_but_for_the_comparison(facts));
    }

    /// Facts about a counter that may be used, after this change.
    fn usable_but(change: impl FnOnce(&mut Facts)) -> Facts {
        let mut facts = Facts::UNKNOWN;
        facts.may_read_counter = true;
        facts.has_counter = true;
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
