//! What the processor says about itself.

use tickline_core::gate::Hypervisor;

#[cfg(target_arch = "x86_64")]
fn cpuid(leaf: u32) -> core::arch::x86_64::CpuidResult {
    #[allow(unused_unsafe, reason = "the intrinsic is unsafe on the oldest supported compiler only")]
    // SAFETY: every x86_64 processor has CPUID.
    unsafe {
        core::arch::x86_64::__cpuid(leaf)
    }
}

/// The invariant TSC: CPUID 8000_0007h, EDX bit 8 (Intel SDM vol. 3B 18.17.1; AMD APM vol. 3, appendix E.4.6).
#[cfg(target_arch = "x86_64")]
pub(crate) fn invariant() -> Option<bool> {
    const ADVANCED_POWER: u32 = 0x8000_0007;
    let known = cpuid(0x8000_0000).eax >= ADVANCED_POWER;
    Some(known && cpuid(ADVANCED_POWER).edx & (1 << 8) != 0)
}

/// The generic timer counts at one rate by definition (Arm ARM D12.1.1), so nobody claims it.
#[cfg(target_arch = "aarch64")]
pub(crate) fn invariant() -> Option<bool> {
    None
}

/// The first of the leaves that hypervisors answer (Linux `Documentation/virt/kvm/x86/cpuid.rst`; Hypervisor Top Level
/// Functional Specification, 2.4).
#[cfg(target_arch = "x86_64")]
const HYPERVISOR: u32 = 0x4000_0000;

/// Who runs the machine. CPUID 1, ECX bit 31 is reserved for saying that somebody does (AMD APM vol. 3, E.3.2).
#[cfg(target_arch = "x86_64")]
pub(crate) fn hypervisor() -> Hypervisor {
    if cpuid(1).ecx & (1 << 31) == 0 {
        return Hypervisor::None;
    }
    let leaf = cpuid(HYPERVISOR);
    let mut signature = [0; 12];
    for (place, register) in signature.chunks_exact_mut(4).zip([leaf.ebx, leaf.ecx, leaf.edx]) {
        place.copy_from_slice(&register.to_le_bytes());
    }
    Hypervisor::from_signature(signature)
}

/// There is no way to ask in user space.
#[cfg(target_arch = "aarch64")]
pub(crate) fn hypervisor() -> Hypervisor {
    Hypervisor::None
}

/// Whether a process that is denied the counter is denied what names its frequency, too: `CNTFRQ_EL0` is, as `CNTVCT_EL0`
/// (Linux 6.12, `arch/arm64/kernel/traps.c`, `cntfrq_read_handler`). CPUID is another right.
pub(crate) const NAMED_BESIDE_THE_COUNTER: bool = cfg!(target_arch = "aarch64");

/// The counter's frequency as the hypervisor (leaf 4000_0010h, kHz, of VMware and those that follow it) or the processor
/// (leaf 15h: crystal Hz times a ratio, Intel SDM vol. 2A, CPUID) names it, Hz.
#[cfg(target_arch = "x86_64")]
pub(crate) fn nominal_hz() -> Option<u64> {
    const HYPERVISOR_KHZ: u32 = 0x4000_0010;
    const CRYSTAL: u32 = 0x15;
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

/// The counter's frequency as firmware has written it down in `CNTFRQ_EL0`, Hz. For a process that may read the counter.
#[cfg(target_arch = "aarch64")]
pub(crate) fn nominal_hz() -> Option<u64> {
    super::COUNTER.map(|counter| counter.nominal_hz()).filter(|hz| *hz != 0)
}
