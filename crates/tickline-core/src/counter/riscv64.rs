//! The RISC-V counter: `time`, the wall-clock counter of the extension Zicntr, by `rdtime`.
//!
//! All harts' counters are one clock's, in step to within one tick, and count at a rate that is constant within a small error
//! (RISC-V ISA manual, volume I, Zicntr). There is no register that names the rate. Platforms may serve the instruction by a
//! trap into firmware, which takes microseconds: the cost gate sees to that.
//!
//! A read of a CSR is not ordered with loads unless a `fence` orders it, to which it is device input, `i` (volume I, Zicsr, "CSR
//! Access Ordering").

use core::arch::asm;

use super::Counter;
use crate::gate::Clocksource;

/// The wall-clock counter of Zicntr. Making one reads nothing.
#[derive(Debug, Clone, Copy)]
pub struct HardwareCounter(());

impl HardwareCounter {
    /// What a plain read is called.
    pub const NAME: &'static str = "rdtime";

    /// What a kernel keeps time with that uses this counter.
    pub const CLOCKSOURCE: Clocksource = Clocksource::Riscv;

    /// What an ordered read is called.
    pub const ORDERED_NAME: &'static str = "fence; rdtime";

    /// The counter of this target, assumed readable (point 5 of the [contract](super)).
    #[must_use]
    pub const fn if_present() -> Option<Self> {
        Some(Self(()))
    }
}

impl Counter for HardwareCounter {
    /// Later loads stay behind the read, the second look at the word among them.
    #[inline(always)]
    fn now(&self) -> u64 {
        let ticks: u64;
        // SAFETY: reads one register; whether the process may is point 5 of the contract. Without `nomem` the block is a
        // barrier to the compiler too.
        unsafe {
            asm!(
                "rdtime {ticks}",
                "fence i, r",
                ticks = out(reg) ticks,
                options(nostack, preserves_flags),
            );
        }
        ticks
    }

    #[inline(always)]
    fn now_ordered(&self) -> u64 {
        self.barrier();
        self.now()
    }

    #[inline(always)]
    fn barrier(&self) {
        // Loads and counter reads before, loads and counter reads after.
        // SAFETY: FENCE has no operands and changes nothing.
        unsafe { asm!("fence ir, ir", options(nostack, preserves_flags)) }
    }
}
