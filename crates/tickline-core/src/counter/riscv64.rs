//! The RISC-V counter: `time`, the wall-clock counter of the extension Zicntr, by `rdtime`.
//!
//! The counters of all harts show one clock. They are synchronised to within one tick, and their
//! rate is constant within a small error (RISC-V ISA manual, volume I, Zicntr). No register names
//! the rate. On some platforms the instruction traps into firmware, which takes microseconds; the
//! cost gate closes there.
//!
//! Only a `fence` orders a read of a CSR with loads; to the `fence` it is device input, `i`
//! (volume I, Zicsr, "CSR Access Ordering").

use core::arch::asm;

use super::Counter;
use crate::gate::Clocksource;

/// A line multiplies `ticks << SHIFT`: see [`state`](crate::state). 7 serves counters from 7.9 MHz
/// up, for 4.5 years at 1 GHz before a pause of some 50 us.
pub(crate) const SHIFT: u32 = 7;

/// The wall-clock counter of Zicntr. Making one reads nothing; the value is the proof that the
/// instruction is there.
#[derive(Debug, Clone, Copy)]
pub struct HardwareCounter(());

impl HardwareCounter {
    /// The name of a plain read.
    pub const NAME: &'static str = "rdtime";

    /// The name of an ordered read.
    pub const NAME_ORDERED: &'static str = "fence; rdtime";

    /// The clocksource of a kernel that keeps time with this counter.
    pub const CLOCKSOURCE: Clocksource = Clocksource::Riscv;

    /// The counter, assumed readable (point 5 of the [contract](super)), where an operating system
    /// vouches for it. Linux promises its programs version 2.2 of the user-level ISA
    /// (`Documentation/arch/riscv/hwprobe.rst`), and `rdtime` belongs to the base of that version.
    /// `None` on a bare machine, whose processor may lack Zicntr: see
    /// [`assume_present`](Self::assume_present).
    #[must_use]
    pub const fn if_present() -> Option<Self> {
        // Without an operating system there is nothing to ask: no register that a program may
        // read tells it.
        if cfg!(target_os = "none") { None } else { Some(Self(())) }
    }

    /// The counter of a machine whose builder knows that it is there.
    ///
    /// # Safety
    ///
    /// Every hart that executes this program has the extension Zicntr, or its firmware emulates
    /// `rdtime`.
    #[must_use]
    pub const unsafe fn assume_present() -> Self {
        Self(())
    }
}

impl Counter for HardwareCounter {
    /// Later loads stay behind the read, the second load of the word among them.
    #[inline(always)]
    fn now(&self) -> u64 {
        let ticks: u64;
        // SAFETY: reads one register, which is there, as `self` proves; whether the process may
        // is point 5 of the contract. Without `nomem` the block is a barrier to the compiler too.
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
    fn barrier(&self) {
        // Loads and counter reads before, loads and counter reads after.
        // SAFETY: FENCE has no operands and changes nothing.
        unsafe { asm!("fence ir, ir", options(nostack, preserves_flags)) }
    }
}
