//! The aarch64 counter: `CNTVCT_EL0`, the virtual count of the generic timer.
//!
//! A read of the register may be executed early; `isb` in front makes it wait (Arm ARM D12.1.2,
//! Linux `arch/arm64/include/asm/arch_timer.h`). `isb` does not wait for the values of earlier
//! loads; `dmb ishld` before it does. *Later* loads must stay behind the read. So a load follows
//! whose address depends on the value, as in Linux's `arch_counter_enforce_ordering`. The second
//! load of the state begins with a barrier for loads, which orders it behind that load.

use core::arch::asm;

use super::Counter;
use crate::clocksource::Clocksource;

/// The generic timer's virtual counter. Creating a value reads nothing.
#[derive(Debug, Clone, Copy)]
pub struct HardwareCounter(());

impl HardwareCounter {
    /// The instruction of a plain read, by name.
    pub const NAME: &'static str = "cntvct_el0";

    /// The instructions of an ordered read, by name.
    pub const NAME_ORDERED: &'static str = "dmb ishld; isb; cntvct_el0";

    /// The clocksource of a kernel that keeps time with this counter.
    pub const CLOCKSOURCE: Clocksource = Clocksource::ArchSysCounter;

    /// The counter of this target. The caller knows that the process may read it (point 5 of the
    /// [contract](super)).
    #[must_use]
    pub const fn if_present() -> Option<Self> {
        Some(Self(()))
    }

    /// The frequency that the firmware has written to a register beside the counter, Hz (Arm ARM
    /// D13.8.1, `CNTFRQ_EL0`); `None` if it has written none, and on other targets. A process that
    /// is denied the counter is also denied this register: point 5 of the [contract](super) covers
    /// both.
    #[must_use]
    pub fn nominal_hz(self) -> Option<u64> {
        let hz: u64;
        // SAFETY: the instruction reads one register, which every Armv8-A processor has. By point 5
        // of the contract the process may read it.
        unsafe {
            asm!("mrs {hz}, cntfrq_el0", hz = out(reg) hz, options(nomem, nostack, preserves_flags))
        };
        (hz != 0).then_some(hz)
    }
}

impl Counter for HardwareCounter {
    #[inline(always)]
    fn now(&self) -> u64 {
        let ticks: u64;
        // SAFETY: the block reads one register, which every Armv8-A processor has (Arm ARM D12.1),
        // and one word of this thread's stack. By point 5 of the contract the process may read the
        // register.
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
