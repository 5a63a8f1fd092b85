//! x86_64: the facts that the processor states by CPUID.

use core::arch::x86_64::{__cpuid, CpuidResult};
use core::sync::atomic::{AtomicU64, Ordering};

use crate::options::Probes;
use crate::status::Hypervisor;

fn cpuid(leaf: u32) -> CpuidResult {
    #[allow(unused_unsafe, reason = "the intrinsic is unsafe on the oldest supported compiler only")]
    // SAFETY: every x86_64 processor has CPUID.
    unsafe {
        __cpuid(leaf)
    }
}

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
        let known = cpuid(EXTENDED_LEAF).eax >= ADVANCED_POWER_LEAF;
        u64::from(known && cpuid(ADVANCED_POWER_LEAF).edx & (1 << 8) != 0)
    });
    is_invariant != 0
}

/// The first leaf that hypervisors answer (Linux `Documentation/virt/kvm/x86/cpuid.rst`; Hypervisor
/// Top Level Functional Specification, 2.4).
const HYPERVISOR_LEAF: u32 = 0x4000_0000;

/// The leaves that state frequencies: see [`nominal_hz`].
const HYPERVISOR_KHZ_LEAF: u32 = 0x4000_0010;
const CRYSTAL_LEAF: u32 = 0x15;

/// The hypervisor. CPUID 1, ECX bit 31 says whether there is one (AMD APM vol. 3, E.3.2).
pub(crate) fn hypervisor() -> Hypervisor {
    static SIGNATURE: AtomicU64 = AtomicU64::new(UNKNOWN);
    const NONE: u64 = 0;
    let signature = cached(&SIGNATURE, || {
        if cpuid(1).ecx & (1 << 31) == 0 {
            return NONE;
        }
        let leaf = cpuid(HYPERVISOR_LEAF);
        (u64::from(leaf.ecx) << 32 | u64::from(leaf.ebx)).max(NONE + 1)
    });
    // Eight of the signature's twelve bytes distinguish the hypervisors.
    match &signature.to_le_bytes() {
        _ if signature == NONE => Hypervisor::None,
        b"KVMKVMKV" | b"Linux KV" => Hypervisor::Kvm,
        b"Microsof" => Hypervisor::HyperV,
        b"XenVMMXe" => Hypervisor::Xen,
        b"VMwareVM" => Hypervisor::Vmware,
        b"VBoxVBox" => Hypervisor::VirtualBox,
        b"TCGTCGTC" => Hypervisor::Tcg,
        b"bhyve bh" => Hypervisor::Bhyve,
        b" lrpepyh" => Hypervisor::Parallels,
        _ => Hypervisor::Other,
    }
}

/// The counter's frequency, Hz, as the hypervisor or the processor states it. The hypervisor does
/// so in leaf 4000_0010h (kHz; VMware and those that follow it). The processor does so in leaf 15h
/// (crystal Hz times a ratio; Intel SDM vol. 2A, CPUID).
///
/// The probes do not matter, because any process may execute CPUID.
pub(crate) fn nominal_hz(_: Probes) -> Option<u64> {
    static HZ: AtomicU64 = AtomicU64::new(UNKNOWN);
    Some(cached(&HZ, || stated_hz().unwrap_or(0))).filter(|hz| *hz != 0)
}

fn stated_hz() -> Option<u64> {
    if hypervisor() != Hypervisor::None && cpuid(HYPERVISOR_LEAF).eax >= HYPERVISOR_KHZ_LEAF {
        let khz = cpuid(HYPERVISOR_KHZ_LEAF).eax;
        if khz != 0 {
            return Some(u64::from(khz).saturating_mul(1_000));
        }
    }
    if cpuid(0).eax < CRYSTAL_LEAF {
        return None;
    }
    let leaf = cpuid(CRYSTAL_LEAF);
    // BOUND: 2^32 * 2^32 fits into u64.
    u64::from(leaf.ecx).saturating_mul(leaf.ebx.into()).checked_div(leaf.eax.into())
}

#[test]
fn a_question_is_asked_once() {
    let answer = AtomicU64::new(UNKNOWN);
    assert_eq!([7, 8].map(|number| cached(&answer, || number)), [7; 2]);
}
