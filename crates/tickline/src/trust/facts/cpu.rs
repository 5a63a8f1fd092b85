//! x86_64: what the processor says about itself.

use core::arch::x86_64::{__cpuid, CpuidResult};
use core::sync::atomic::{AtomicU64, Ordering};

use crate::status::Hypervisor;

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
        let of = |register: &AtomicU64| {
            // ORDERING: Relaxed, each register says for itself that it is known.
            u32::try_from(register.load(Ordering::Relaxed).checked_sub(KNOWN)?).ok()
        };
        let [eax, ebx, ecx, edx] = &self.registers;
        Some(CpuidResult { eax: of(eax)?, ebx: of(ebx)?, ecx: of(ecx)?, edx: of(edx)? })
    }
}

/// The leaves that this module reads. The gates need the first [`OF_GATES`].
static LEAVES: [Leaf; 7] = [
    unknown(EXTENDED),
    unknown(ADVANCED_POWER),
    unknown(1),
    unknown(HYPERVISOR),
    unknown(HYPERVISOR_KHZ),
    unknown(CRYSTAL),
    unknown(0),
];

const OF_GATES: usize = 4;

fn read_leaf(number: u32) -> CpuidResult {
    #[allow(unused_unsafe, reason = "the intrinsic is unsafe on the oldest supported compiler only")]
    // SAFETY: every x86_64 processor has CPUID.
    unsafe {
        __cpuid(number)
    }
}

/// CPUID, each leaf read once: it traps under a hypervisor (4 us on AMD EPYC, family 26, under
/// KVM).
fn cpuid(number: u32) -> CpuidResult {
    let Some(leaf) = LEAVES.iter().find(|leaf| leaf.number == number) else { return read_leaf(number) };
    leaf.known().unwrap_or_else(|| {
        let said = read_leaf(number);
        for (register, value) in leaf.registers.iter().zip([said.eax, said.ebx, said.ecx, said.edx]) {
            // ORDERING: Relaxed, as in `known`. All threads store the same.
            register.store(KNOWN | u64::from(value), Ordering::Relaxed);
        }
        said
    })
}

/// Reads one of the leaves that the gates need. Returns whether it was the last one.
pub(crate) fn learn_next_leaf() -> bool {
    let mut unknown = LEAVES[..OF_GATES].iter().filter(|leaf| leaf.known().is_none());
    unknown.next().is_none_or(|leaf| {
        cpuid(leaf.number);
        unknown.next().is_none()
    })
}

/// Which extended leaves there are, and one of them.
const EXTENDED: u32 = 0x8000_0000;
const ADVANCED_POWER: u32 = 0x8000_0007;

/// The invariant TSC: CPUID 8000_0007h, EDX bit 8 (Intel SDM vol. 3B 18.17.1; AMD APM vol. 3,
/// appendix E.4.6).
pub(crate) fn invariant() -> Option<bool> {
    let known = cpuid(EXTENDED).eax >= ADVANCED_POWER;
    Some(known && cpuid(ADVANCED_POWER).edx & (1 << 8) != 0)
}

/// The first of the leaves that hypervisors answer (Linux `Documentation/virt/kvm/x86/cpuid.rst`;
/// Hypervisor Top Level Functional Specification, 2.4).
const HYPERVISOR: u32 = 0x4000_0000;

/// The leaves that name frequencies: see [`nominal_hz`].
const HYPERVISOR_KHZ: u32 = 0x4000_0010;
const CRYSTAL: u32 = 0x15;

/// The hypervisor. CPUID 1, ECX bit 31 says whether there is one (AMD APM vol. 3, E.3.2).
pub(crate) fn hypervisor() -> Hypervisor {
    if cpuid(1).ecx & (1 << 31) == 0 {
        return Hypervisor::None;
    }
    let leaf = cpuid(HYPERVISOR);
    let signature = [leaf.ebx, leaf.ecx, leaf.edx].map(u32::to_le_bytes);
    match signature.as_flattened() {
        b"KVMKVMKVM\0\0\0" | b"Linux KVM Hv" => Hypervisor::Kvm,
        b"Microsoft Hv" => Hypervisor::HyperV,
        b"XenVMMXenVMM" => Hypervisor::Xen,
        b"VMwareVMware" => Hypervisor::Vmware,
        b"VBoxVBoxVBox" => Hypervisor::VirtualBox,
        b"TCGTCGTCGTCG" => Hypervisor::Tcg,
        b"bhyve bhyve " => Hypervisor::Bhyve,
        b" lrpepyh  vr" => Hypervisor::Parallels,
        _ => Hypervisor::Other,
    }
}

/// Any process may execute CPUID.
pub(crate) const NAMED_BESIDE_THE_COUNTER: bool = false;

/// The counter's frequency, Hz, as the hypervisor or the processor states it. The hypervisor does
/// so in leaf 4000_0010h (kHz; VMware and those that follow it). The processor does so in leaf 15h
/// (crystal Hz times a ratio; Intel SDM vol. 2A, CPUID).
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

#[cfg(test)]
mod tests {
    use super::*;

    /// No other test reads leaf 0.
    #[test]
    fn a_leaf_is_read_once() {
        let (first, leaf) = (cpuid(0), &LEAVES[6]);
        assert_eq!([Some(first), leaf.known()], [Some(read_leaf(0)); 2]);
        // ORDERING: Relaxed, a figure on its own.
        leaf.registers[3].store(KNOWN | u64::from(!first.edx), Ordering::Relaxed);
        assert_eq!(cpuid(0).edx, !first.edx);
    }
}
