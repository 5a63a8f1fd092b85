//! The x86_64 counter: `rdtsc`.
//!
//! `rdtsc` is not serialising and may execute before older loads; `lfence` in front makes it wait
//! until they have completed (Intel SDM vol. 2B, RDTSC). On AMD `lfence` does so when DE_CFG bit 1
//! is set. Linux and Windows set it at boot (AMD "Software techniques for managing speculation",
//! mitigation G-2; Linux `init_amd`).

use core::arch::x86_64::{__cpuid_count, __rdtscp, _rdtsc, CpuidResult};

use super::{Counter, CpuCounter, CpuRead};
use crate::clocksource::Clocksource;

/// The time-stamp counter. Creating a value reads nothing. A read faults if the process has been
/// denied the counter.
#[derive(Debug, Clone, Copy)]
pub struct HardwareCounter(());

impl HardwareCounter {
    /// The instruction of a plain read, by name.
    pub const NAME: &'static str = "rdtsc";

    /// The instructions of an ordered read, by name.
    pub const NAME_ORDERED: &'static str = "lfence; rdtsc";

    /// The clocksource of a kernel that keeps time with this counter.
    pub const CLOCKSOURCE: Clocksource = Clocksource::Tsc;

    /// The counter of this target. The caller knows that the process may read it (point 5 of the
    /// [contract](super)).
    #[must_use]
    pub const fn if_present() -> Option<Self> {
        Some(Self(()))
    }

    /// `None`: this crate reads the frequency that the firmware states, Hz, only on aarch64.
    #[must_use]
    pub fn nominal_hz(self) -> Option<u64> {
        None
    }
}

impl Counter for HardwareCounter {
    #[inline(always)]
    fn now(&self) -> u64 {
        // SAFETY: every x86_64 processor has RDTSC. By point 5 of the contract the process may
        // execute it.
        unsafe { _rdtsc() }
    }

    #[inline(always)]
    fn barrier(&self) {
        // This is not `_mm_lfence`, because targets whose compiler may not use SSE (kernels) could
        // not inline it.
        // SAFETY: every x86_64 processor has LFENCE, which has no operands. Without `nomem` the
        // block is a barrier to the compiler, too.
        unsafe { core::arch::asm!("lfence", options(nostack, preserves_flags)) }
    }
}

/// Proof that the processor has `rdtscp`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rdtscp(());

impl Rdtscp {
    /// The proof, if CPUID 8000_0001h EDX bit 27 is set.
    pub(super) fn detect() -> Option<Self> {
        const EXTENDED_FEATURES: u32 = 0x8000_0001;
        let known = cpuid(0x8000_0000, 0).eax >= EXTENDED_FEATURES;
        (known && cpuid(EXTENDED_FEATURES, 0).edx & (1 << 27) != 0).then_some(Self(()))
    }

    /// The counter, read after every earlier load, and TSC_AUX (Intel SDM vol. 2B, AMD APM vol. 3:
    /// RDTSCP). By point 5 of the [contract](super) the process may read the counter.
    #[inline(always)]
    pub(super) fn read(self) -> TscRead {
        let mut aux = 0;
        // SAFETY: the instruction is there, as `self` proves; `aux` is valid for a write.
        let ticks = unsafe { __rdtscp(&raw mut aux) };
        TscRead { ticks, aux }
    }
}

/// What `rdtscp` reads.
pub(super) struct TscRead {
    ticks: u64,
    /// TSC_AUX (on Linux: `node << 12 | cpu`).
    pub(super) aux: u32,
}

/// Proof that the processor has `rdpid`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rdpid(());

impl Rdpid {
    /// The proof, if CPUID 7 ECX bit 22 is set.
    pub(super) fn detect() -> Option<Self> {
        (cpuid(0, 0).eax >= 7 && cpuid(7, 0).ecx & (1 << 22) != 0).then_some(Self(()))
    }

    /// TSC_AUX (on Linux: `node << 12 | cpu`) without the counter.
    #[inline(always)]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "TSC_AUX has 32 bits, zero-extended"
    )]
    pub(super) fn read(self) -> u32 {
        let aux: u64;
        // SAFETY: the instruction is there, as `self` proves. It writes one register and nothing
        // else. Without `nomem` the compiler does not move it across loads and reads of the
        // counter.
        unsafe {
            core::arch::asm!("rdpid {aux}", aux = out(reg) aux, options(nostack, preserves_flags))
        }
        aux as u32
    }
}

/// The counter with the id of the CPU on which it was read, by the instructions that the processor
/// has.
///
/// The id has a meaning only under an operating system that fills TSC_AUX as Linux does (`node <<
/// 12 | cpu`: `setup_getcpu` in `arch/x86/kernel/cpu/common.c`).
#[derive(Debug, Clone, Copy)]
pub struct HardwareCpuCounter {
    rdtscp: Rdtscp,
    rdpid: Option<Rdpid>,
}

impl HardwareCpuCounter {
    /// The counter, if the processor has the instructions.
    #[must_use]
    pub fn if_present() -> Option<Self> {
        Some(Self {
            rdtscp: Rdtscp::detect()?,
            rdpid: Rdpid::detect(),
        })
    }
}

/// The bits of TSC_AUX that are the id.
const CPU_MASK: u32 = 0xfff;

const _: () = assert!(CPU_MASK as usize + 1 == super::CPU_IDS);

#[inline(always)]
const fn cpu_of(aux: u32) -> u32 {
    aux & CPU_MASK
}

impl CpuCounter for HardwareCpuCounter {
    #[inline(always)]
    fn now(&self) -> Option<CpuRead> {
        let Some(rdpid) = self.rdpid else {
            return self.now_ordered();
        };
        // Only an interrupt moves a thread, and it comes between two instructions: all earlier ones
        // are complete, and no later one has begun. So even if the CPU reorders instructions, equal
        // ids mean the same CPU, or a thread that was moved there and back.
        let before = rdpid.read();
        // SAFETY: every x86_64 processor has RDTSC. By point 5 of the contract the process may
        // execute it.
        let ticks = unsafe { _rdtsc() };
        let after = rdpid.read();
        (before == after).then_some(CpuRead {
            ticks,
            cpu: cpu_of(after),
        })
    }

    #[inline(always)]
    fn now_ordered(&self) -> Option<CpuRead> {
        // One instruction reads counter and id.
        let TscRead { ticks, aux } = self.rdtscp.read();
        Some(CpuRead {
            ticks,
            cpu: cpu_of(aux),
        })
    }

    #[inline(always)]
    fn barrier(&self) {
        HardwareCounter(()).barrier();
    }
}

/// The processor's answer to CPUID. All zeros under Miri.
///
/// The instruction traps under a hypervisor, and then takes microseconds: keep the answer.
///
/// ```
/// use tickline_core::counter::cpuid;
///
/// let highest_leaf = cpuid(0, 0).eax;
/// let is_virtual = highest_leaf >= 1 && cpuid(1, 0).ecx & (1 << 31) != 0;
/// # _ = is_virtual;
/// ```
#[must_use]
pub fn cpuid(leaf: u32, subleaf: u32) -> CpuidResult {
    if cfg!(miri) {
        return CpuidResult {
            eax: 0,
            ebx: 0,
            ecx: 0,
            edx: 0,
        }; // Miri has no such instruction
    }
    #[allow(
        unused_unsafe,
        reason = "the intrinsic is unsafe on the oldest supported compiler only"
    )]
    // SAFETY: every x86_64 processor has CPUID.
    unsafe {
        __cpuid_count(leaf, subleaf)
    }
}
