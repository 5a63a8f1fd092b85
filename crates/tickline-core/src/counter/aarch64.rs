//! The aarch64 counter: `CNTVCT_EL0`, the virtual count of the generic timer.
//!
//! A read of the register may be executed early; `isb` in front makes it wait (Arm ARM D12.1.2,
//! Linux `arch/arm64/include/asm/arch_timer.h`). *Later* loads must stay behind the read. So a load
//! follows whose address depends on the value, as in Linux's `arch_counter_enforce_ordering`. The
//! cell's second load of the word begins with a barrier for loads.

use core::arch::asm;

use super::Counter;
use crate::gate::Clocksource;

/// A line multiplies `ticks << SHIFT`: see [`state`](crate::state). 7 serves counters from 7.9 MHz
/// up, for 4.5 years at 1 GHz before a pause of some 50 us.
pub(crate) const SHIFT: u32 = 7;

/// The generic timer's virtual counter. Making one reads nothing.
#[derive(Debug, Clone, Copy)]
pub struct HardwareCounter(());

impl HardwareCounter {
    /// The name of a plain read.
    pub const NAME: &'static str = "cntvct_el0";

    /// The name of an ordered read.
    pub const NAME_ORDERED: &'static str = "isb; cntvct_el0";

    /// The clocksource of a kernel that keeps time with this counter.
    pub const CLOCKSOURCE: Clocksource = Clocksource::ArchSysCounter;

    /// The counter of this target, assumed readable (point 5 of the [contract](super)).
    #[must_use]
    pub const fn if_present() -> Option<Self> {
        Some(Self(()))
    }

    /// The frequency that firmware has written down, Hz; 0 if it has not (Arm ARM D13.8.1,
    /// `CNTFRQ_EL0`). A process that is denied the counter is also denied this register: point 5
    /// of the [contract](super) holds for both.
    #[must_use]
    pub fn nominal_hz(self) -> u64 {
        let hz: u64;
        // SAFETY: reads one register, which every Armv8-A processor has. Whether the process may
        // is point 5 of the contract.
        unsafe { asm!("mrs {hz}, cntfrq_el0", hz = out(reg) hz, options(nomem, nostack, preserves_flags)) };
        hz
    }
}

impl Counter for HardwareCounter {
    #[inline(always)]
    fn now(&self) -> u64 {
        let ticks: u64;
        // SAFETY: reads one register, which every Armv8-A processor has (Arm ARM D12.1), and one
        // word of the own stack. Whether the process may is point 5 of the contract.
        unsafe {
            asm!(
                "mrs {ticks}, cntvct_el0",
                "eor {zero}, {ticks}, {ticks}",
                "add {zero}, sp, {zero}",
                "ldr xzr, [{zero}]",
                ticks = out(reg) ticks,
                zero = out(reg) _,
                options(nostack, preserves_flags),
            );
        }
        ticks
    }

    #[inline(always)]
    fn barrier(&self) {
        // SAFETY: ISB has no operands and no effect on memory.
        unsafe { asm!("dmb ishld", "isb", options(nostack, preserves_flags)) }
    }
}
