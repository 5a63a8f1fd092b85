//! What the processor says about itself.

use tickline_core::gate::Hypervisor;
use tickline_core::unstable::state::{Support, support};

#[cfg(target_arch = "x86_64")]
use leaf::cpuid;

/// CPUID, each leaf read once: it traps under a hypervisor (4 us on AMD EPYC, family 26, under
/// KVM).
#[cfg(target_arch = "x86_64")]
mod leaf {
    use core::arch::x86_64::{__cpuid, CpuidResult};
    use core::sync::atomic::{AtomicU64, Ordering};

    /// A leaf, and its registers once they are known.
    struct Leaf {
        number: u32,
        /// EAX, EBX, ECX, EDX, each with [`KNOWN`].
        registers: [AtomicU64; 4],
    }

    const KNOWN: u64 = 1 << 32;

    const fn unknown(number: u32) -> Leaf {
        Leaf { number, registers: [const { AtomicU64::new(0) }; 4] }
    }

    impl Leaf {
        fn known(&self) -> Option<CpuidResult> {
            let [eax, ebx, ecx, edx] = self.registers.each_ref().map(|register| {
                // ORDERING: Relaxed, each register says for itself that it is known.
                let value = register.load(Ordering::Relaxed).checked_sub(KNOWN)?;
                u32::try_from(value).ok()
            });
            Some(CpuidResult { eax: eax?, ebx: ebx?, ecx: ecx?, edx: edx? })
        }
    }

    /// The leaves that this module reads.
    static LEAVES: [Leaf; 7] = [
        unknown(0),
        unknown(1),
        unknown(super::CRYSTAL),
        unknown(super::HYPERVISOR),
        unknown(super::HYPERVISOR_KHZ),
        unknown(super::EXTENDED),
        unknown(super::ADVANCED_POWER),
    ];

    pub(super) fn is_known(number: u32) -> bool {
        LEAVES.iter().any(|leaf| leaf.number == number && leaf.known().is_some())
    }

    pub(super) fn cpuid(number: u32) -> CpuidResult {
        let ask = || {
            #[allow(unused_unsafe, reason = "the intrinsic is unsafe on the oldest supported compiler only")]
            // SAFETY: every x86_64 processor has CPUID.
            unsafe {
                __cpuid(number)
            }
        };
        let Some(leaf) = LEAVES.iter().find(|leaf| leaf.number == number) else { return ask() };
        leaf.known().unwrap_or_else(|| {
            let said = ask();
            for (register, value) in leaf.registers.iter().zip([said.eax, said.ebx, said.ecx, said.edx]) {
                // ORDERING: Relaxed, as in `known`. All threads store the same.
                register.store(KNOWN | u64::from(value), Ordering::Relaxed);
            }
            said
        })
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn said(number: u32) -> CpuidResult {
            #[allow(unused_unsafe, reason = "the intrinsic is unsafe on the oldest supported compiler only")]
            // SAFETY: every x86_64 processor has CPUID.
            unsafe {
                __cpuid(number)
            }
        }

        #[test]
        fn a_leaf_says_the_same_as_the_processor() {
            // These are the same on every CPU.
            for number in [super::super::HYPERVISOR, super::super::EXTENDED, super::super::ADVANCED_POWER] {
                assert_eq!([cpuid(number); 2], [said(number); 2], "{number:#x}");
            }
            assert_eq!(cpuid(0x8000_0002), said(0x8000_0002), "a leaf that is not in the table");
        }

        #[test]
        fn a_leaf_is_read_once() {
            let (first, leaf) = (cpuid(0), &LEAVES[0]);
            assert!(leaf.known().is_some());
            // No other test reads this register.
            // ORDERING: Relaxed, a figure on its own.
            leaf.registers[3].store(KNOWN | u64::from(!first.edx), Ordering::Relaxed);
            assert_eq!(cpuid(0).edx, !first.edx);
        }
    }
}

/// Reads one of the leaves that the gates need. Returns whether it was the last one.
#[cfg(target_arch = "x86_64")]
pub(crate) fn learn() -> bool {
    let mut unknown =
        [EXTENDED, ADVANCED_POWER, 1, HYPERVISOR].into_iter().filter(|leaf| !leaf::is_known(*leaf));
    unknown.next().map(cpuid);
    unknown.next().is_none()
}

/// There is nothing to read.
#[cfg(target_arch = "aarch64")]
pub(crate) fn learn() -> bool {
    true
}

/// What the processor offers for the state of a clock.
#[cfg(target_arch = "x86_64")]
pub(crate) fn state_support() -> Support {
    support()
}

/// What the processor offers for the state of a clock, by the system (on Linux `HWCAP_USCAT`).
#[cfg(target_arch = "aarch64")]
pub(crate) fn state_support() -> Support {
    #[cfg(not(miri))]
    if std::arch::is_aarch64_feature_detected!("lse2") {
        tickline_core::unstable::state::promise_whole_loads();
    }
    support()
}

/// Which extended leaves there are, and one of them.
#[cfg(target_arch = "x86_64")]
const EXTENDED: u32 = 0x8000_0000;
#[cfg(target_arch = "x86_64")]
const ADVANCED_POWER: u32 = 0x8000_0007;

/// The invariant TSC: CPUID 8000_0007h, EDX bit 8 (Intel SDM vol. 3B 18.17.1; AMD APM vol. 3,
/// appendix E.4.6).
#[cfg(target_arch = "x86_64")]
pub(crate) fn invariant() -> Option<bool> {
    let known = cpuid(EXTENDED).eax >= ADVANCED_POWER;
    Some(known && cpuid(ADVANCED_POWER).edx & (1 << 8) != 0)
}

/// Unknown: the generic timer counts at one rate by definition (Arm ARM D12.1.1), and no register
/// says so.
#[cfg(target_arch = "aarch64")]
pub(crate) fn invariant() -> Option<bool> {
    None
}

/// The first of the leaves that hypervisors answer (Linux `Documentation/virt/kvm/x86/cpuid.rst`;
/// Hypervisor Top Level Functional Specification, 2.4).
#[cfg(target_arch = "x86_64")]
const HYPERVISOR: u32 = 0x4000_0000;

/// The leaves that name frequencies: see [`nominal_hz`].
#[cfg(target_arch = "x86_64")]
const HYPERVISOR_KHZ: u32 = 0x4000_0010;
#[cfg(target_arch = "x86_64")]
const CRYSTAL: u32 = 0x15;

/// The hypervisor. CPUID 1, ECX bit 31 says whether there is one (AMD APM vol. 3, E.3.2).
#[cfg(target_arch = "x86_64")]
pub(crate) fn hypervisor() -> Hypervisor {
    if cpuid(1).ecx & (1 << 31) == 0 {
        return Hypervisor::None;
    }
    let leaf = cpuid(HYPERVISOR);
    let [a, b, c, d] = leaf.ebx.to_le_bytes();
    let [e, f, g, h] = leaf.ecx.to_le_bytes();
    let [i, j, k, l] = leaf.edx.to_le_bytes();
    Hypervisor::from_signature([a, b, c, d, e, f, g, h, i, j, k, l])
}

/// User space has no way to ask.
#[cfg(target_arch = "aarch64")]
pub(crate) fn hypervisor() -> Hypervisor {
    Hypervisor::None
}

/// Whether a process that may not read the counter may not read its frequency either. That is so
/// for `CNTFRQ_EL0` and `CNTVCT_EL0` (Linux 6.12, `arch/arm64/kernel/traps.c`,
/// `cntfrq_read_handler`), but not with CPUID.
pub(crate) const NAMED_BESIDE_THE_COUNTER: bool = cfg!(target_arch = "aarch64");

/// The counter's frequency as the hypervisor (leaf 4000_0010h, kHz, of VMware and those that follow
/// it) or the processor (leaf 15h: crystal Hz times a ratio, Intel SDM vol. 2A, CPUID) names it,
/// Hz.
#[cfg(target_arch = "x86_64")]
pub(crate) fn nominal_hz() -> Option<u64> {
    if hypervisor() != Hypervisor::None && cpuid(HYPERVISOR).eax >= HYPERVISOR_KHZ {
        let khz = cpuid(HYPERVISOR_KHZ).eax;
        if khz != 0 {
            return Some(u64::from(khz).saturating_mul(1_000));
        }
    }
    if cpuid(0).eax < CRYSTAL {
        return None;
    }
    let leaf = cpuid(CRYSTAL);
    // BOUND: 2^32 * 2^32 fits into u64.
    let hz = u64::from(leaf.ecx).saturating_mul(leaf.ebx.into()).checked_div(leaf.eax.into())?;
    Some(hz).filter(|hz| *hz != 0)
}

/// The counter's frequency as firmware has written it down in `CNTFRQ_EL0`, Hz. For a process that
/// may read the counter.
#[cfg(target_arch = "aarch64")]
pub(crate) fn nominal_hz() -> Option<u64> {
    crate::sys::COUNTER.map(|counter| counter.nominal_hz()).filter(|hz| *hz != 0)
}
