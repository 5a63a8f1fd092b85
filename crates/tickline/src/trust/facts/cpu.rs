//! x86_64: the facts that the processor states by CPUID.

use core::sync::atomic::{AtomicU64, Ordering};

use tickline_core::counter::cpuid;

/// Stands for an answer that is not cached yet.
const UNKNOWN: u64 = u64::MAX;

/// Returns the cached answer, or asks and caches it. CPUID traps under a hypervisor (4 us on AMD
/// EPYC, family 26, under KVM).
fn cached(answer: &AtomicU64, ask: impl FnOnce() -> u64) -> u64 {
    // ORDERING: Relaxed for both, a number that publishes nothing. All threads store the same one.
    let order = Ordering::Relaxed;
    match answer.load(order) {
        UNKNOWN => {
            let fresh = ask();
            answer.store(fresh, order);
            fresh
        }
        known => known,
    }
}

/// The leaf that names the last extended leaf, and the leaf of the invariant TSC.
const EXTENDED_LEAF: u32 = 0x8000_0000;
const ADVANCED_POWER_LEAF: u32 = 0x8000_0007;

/// Whether the TSC is invariant: CPUID 8000_0007h, EDX bit 8 (Intel SDM vol. 3B 18.17.1; AMD APM
/// vol. 3, appendix E.4.6).
pub(crate) fn is_counter_invariant() -> bool {
    static INVARIANT: AtomicU64 = AtomicU64::new(UNKNOWN);
    let is_invariant = cached(&INVARIANT, || {
        let known = has_advanced_power_leaf(cpuid(EXTENDED_LEAF, 0).eax);
        u64::from(known && says_invariant(cpuid(ADVANCED_POWER_LEAF, 0).edx))
    });
    is_invariant != 0
}

const fn has_advanced_power_leaf(last_extended_leaf: u32) -> bool {
    last_extended_leaf >= ADVANCED_POWER_LEAF
}

const fn says_invariant(edx: u32) -> bool {
    edx & (1 << 8) != 0
}

/// Whether there is a hypervisor: CPUID 1, ECX bit 31 (AMD APM vol. 3, E.3.2).
pub(crate) fn is_virtual() -> bool {
    static VIRTUAL: AtomicU64 = AtomicU64::new(UNKNOWN);
    cached(&VIRTUAL, || u64::from(says_virtual(cpuid(1, 0).ecx))) != 0
}

const fn says_virtual(ecx: u32) -> bool {
    ecx & (1 << 31) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_asked_once() {
        let answer = AtomicU64::new(UNKNOWN);
        assert_eq!([7, 8].map(|number| cached(&answer, || number)), [7; 2]);
    }

    #[test]
    fn only_bit_31_says_that_there_is_a_hypervisor() {
        assert!(says_virtual(0x8000_0000));
        assert!(!says_virtual(0x7fff_ffff));
    }

    #[test]
    fn only_bit_8_says_that_the_counter_is_invariant() {
        assert!(says_invariant(0x0000_0100));
        assert!(!says_invariant(0xffff_feff));
    }

    #[test]
    fn a_processor_whose_last_leaf_is_an_earlier_one_says_nothing_of_its_counter() {
        assert!(!has_advanced_power_leaf(0x8000_0006));
        assert!(has_advanced_power_leaf(0x8000_0007));
        assert!(has_advanced_power_leaf(0x8000_0008));
    }
}
