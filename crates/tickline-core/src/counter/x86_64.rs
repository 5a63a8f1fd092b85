//! The x86_64 counter: `rdtsc`.
//!
//! `rdtsc` is not serialising and may execute before older loads; `lfence` in front makes it wait until they have
//! completed (Intel SDM vol. 2B, RDTSC). On AMD `lfence` does so when DE_CFG bit 1 is set, which Linux and Windows do
//! at boot (AMD "Software techniques for managing speculation", mitigation G-2; Linux `init_amd`).

use core::arch::x86_64::{__rdtscp, _mm_lfence, _rdtsc};

use super::Counter;

/// The time-stamp counter. Making one reads nothing; reading may fault where the process has been denied it.
#[derive(Debug, Clone, Copy)]
pub struct HardwareCounter(());

impl HardwareCounter {
    /// Bits of the counter.
    pub const BITS: u32 = 64;

    /// The counter of this target, assumed readable (point 5 of the [contract](super)).
    #[must_use]
    pub const fn if_present() -> Option<Self> {
        Some(Self(()))
    }
}

impl Counter for HardwareCounter {
    #[inline(always)]
    fn now(&self) -> u64 {
        // SAFETY: every x86_64 processor has RDTSC; whether the process may execute it is point 5 of the contract.
        unsafe { _rdtsc() }
    }

    #[inline(always)]
    fn now_ordered(&self) -> u64 {
        self.barrier();
        self.now()
    }

    #[inline(always)]
    fn barrier(&self) {
        // SAFETY: LFENCE is part of SSE2, and so of x86_64.
        unsafe { _mm_lfence() }
    }
}

/// `rdtscp`: the counter in ticks, read after every earlier load, and TSC_AUX (on Linux: `node << 12 | cpu`).
///
/// # Safety
///
/// The processor has RDTSCP (CPUID 8000_0001h EDX bit 27), and the process may read the counter.
#[inline(always)]
#[must_use]
pub unsafe fn rdtscp() -> (u64, u32) {
    let mut aux = 0;
    // SAFETY: the caller vouches for the instruction; `aux` is valid for a write.
    let ticks = unsafe { __rdtscp(&raw mut aux) };
    (ticks, aux)
}

/// `rdpid`: TSC_AUX (on Linux: `node << 12 | cpu`) without the counter.
///
/// # Safety
///
/// The processor has RDPID (CPUID 7 ECX bit 22).
#[inline(always)]
#[must_use]
pub unsafe fn rdpid() -> u32 {
    let aux: u64;
    // SAFETY: the caller vouches for the instruction; it writes one register and nothing else.
    unsafe { core::arch::asm!("rdpid {aux}", aux = out(reg) aux, options(nomem, nostack, preserves_flags)) }
    #[expect(clippy::cast_possible_truncation, reason = "TSC_AUX has 32 bits, zero-extended")]
    {
        aux as u32
    }
}
