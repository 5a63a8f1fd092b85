//! What the processor says about itself.

use tickline_core::cell::Support;

use crate::engine::Cell;

/// What the processor offers for the cell: CPUID says so on x86_64; on aarch64 the kernel does (`HWCAP_USCAT`).
#[cfg(target_arch = "x86_64")]
pub(crate) fn cell_support() -> Support {
    Cell::support()
}

/// What the processor offers for the cell: CPUID says so on x86_64; on aarch64 the kernel does (`HWCAP_USCAT`).
#[cfg(target_arch = "aarch64")]
pub(crate) fn cell_support() -> Support {
    if std::arch::is_aarch64_feature_detected!("lse2") { Support::Full } else { Cell::support() }
}

/// The invariant TSC: CPUID 8000_0007h, EDX bit 8 (Intel SDM vol. 3B 18.17.1; AMD APM vol. 3, appendix E.4.6).
#[cfg(target_arch = "x86_64")]
pub(crate) fn invariant() -> Option<bool> {
    use core::arch::x86_64::__cpuid;
    const ADVANCED_POWER: u32 = 0x8000_0007;
    let cpuid = |leaf| {
        #[allow(unused_unsafe, reason = "the intrinsic is unsafe on the oldest supported compiler only")]
        // SAFETY: every x86_64 processor has CPUID.
        unsafe {
            __cpuid(leaf)
        }
    };
    let known = cpuid(0x8000_0000).eax >= ADVANCED_POWER;
    Some(known && cpuid(ADVANCED_POWER).edx & (1 << 8) != 0)
}

/// The generic timer counts at one rate by definition (Arm ARM D12.1.1), so nobody claims it.
#[cfg(target_arch = "aarch64")]
pub(crate) fn invariant() -> Option<bool> {
    None
}
