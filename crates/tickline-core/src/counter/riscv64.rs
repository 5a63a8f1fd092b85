//! The RISC-V counter: `time`, the wall-clock counter of the extension Zicntr, by `rdtime`.
//!
//! The counters of all harts show one clock. They are synchronised to within one tick, and their
//! rate is constant within a small error (RISC-V ISA manual, volume I, Zicntr). No register names
//! the rate. On some platforms the instruction traps into firmware, which takes microseconds; the
//! cost gate closes there.
//!
//! A hart may execute loads and a read of a CSR in any order. A `fence` puts them in order. It
//! counts the read of the CSR as device input, `i` (volume I, Zicsr, "CSR Access Ordering").

use core::arch::asm;

use super::Counter;
use crate::clocksource::Clocksource;

/// The wall-clock counter of Zicntr. Creating a value reads nothing; the value proves that the
/// instruction is there.
#[derive(Debug, Clone, Copy)]
pub struct HardwareCounter(());

impl HardwareCounter {
    /// The instruction of a plain read, by name.
    pub const NAME: &'static str = "rdtime";

    /// The instructions of an ordered read, by name.
    pub const NAME_ORDERED: &'static str = "fence ir, ir; rdtime";

    /// The clocksource of a kernel that keeps time with this counter.
    pub const CLOCKSOURCE: Clocksource = Clocksource::Riscv;

    /// The counter, where an operating system promises the instruction. The caller knows that
    /// the process may read it (point 5 of the [contract](super)). Linux promises its programs
    /// version 2.2 of the user-level ISA (`Documentation/arch/riscv/hwprobe.rst`), and `rdtime`
    /// belongs to the base of that version. `None` on a bare machine, whose processor may lack
    /// Zicntr: a program that knows better implements [`Counter`] itself.
    #[must_use]
    pub const fn if_present() -> Option<Self> {
        // Without an operating system a program can't find out: no register that it may read shows
        // the extension.
        if cfg!(target_os = "none") {
            None
        } else {
            Some(Self(()))
        }
    }

    /// `None`: this crate reads the frequency that the firmware states, Hz, only on aarch64.
    #[must_use]
    pub fn nominal_hz(self) -> Option<u64> {
        None
    }
}

impl Counter for HardwareCounter {
    /// Later loads stay behind the read, among them the second load of the state.
    #[inline(always)]
    fn now(&self) -> u64 {
        let ticks: u64;
        // SAFETY: the block reads one register, which is there, as `self` proves. By point 5 of the
        // contract the process may read it. Without `nomem` the block is a barrier to the compiler,
        // too.
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
        // Earlier loads and counter reads complete before later loads and counter reads.
        // SAFETY: FENCE has no operands and changes nothing.
        unsafe { asm!("fence ir, ir", options(nostack, preserves_flags)) }
    }
}
