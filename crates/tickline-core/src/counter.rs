//! The CPU's counter. These modules have the instructions; the gates decide whether to use them.
//!
//! # The contract
//!
//! A [`Counter`] MUST
//!
//! 1. count at one rate; otherwise the gate `invariant` or `kernel` must be closed;
//! 2. on one thread never decrease between two reads of one kind;
//! 3. in [`now_ordered`](Counter::now_ordered), be read after every earlier load of the thread has
//!    its value, and before any later load takes its value, to within the out-of-order window of
//!    the CPU (at most [`MEETING_MARGIN_NS`](crate::control::MEETING_MARGIN_NS));
//! 4. in [`barrier`](Counter::barrier), let no later load and no later read of the counter take its
//!    value before every earlier load and every earlier read of the counter has its value. Earlier
//!    stores may still be on their way;
//! 5. not fault: before the program creates a counter, it checks that the process may read the
//!    counter (on Linux, `prctl(PR_GET_TSC)`).
//!
//! [`now`](Counter::now) promises only 1, 2 and 5: the CPU may read the counter before older loads
//! complete.
//!
//! # What is safe to call
//!
//! The behaviour of a processor is undefined at an instruction that it *lacks*. A method that
//! executes such an instruction therefore takes a value that proves that the processor has it.
//! There are three proofs: the processor's own answer ([`HardwareCpuCounter`]); the target, if
//! all its processors have the instruction (`rdtsc`, `CNTVCT_EL0`); the operating system's
//! promise (`rdtime`). An instruction that a process is *denied* raises a defined exception,
//! SIGSEGV or SIGILL, before it has done anything. The exception breaks point 5 and ends the
//! program, but breaks no rule of the language. So reading a counter needs no `unsafe`.
//!
//! [`Extended`] makes a counter from a register of fewer than 64 bits.

#[cfg_attr(target_arch = "aarch64", path = "counter/aarch64.rs")]
#[cfg_attr(target_arch = "riscv64", path = "counter/riscv64.rs")]
#[cfg_attr(target_arch = "x86_64", path = "counter/x86_64.rs")]
#[cfg_attr(
    not(any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    )),
    path = "counter/other.rs"
)]
pub(crate) mod arch;
#[cfg(not(target_arch = "x86_64"))]
mod cpu_other;
mod extended;
mod resolution;

pub use arch::HardwareCounter;
#[cfg(target_arch = "x86_64")]
pub use arch::{HardwareCpuCounter, cpuid};
#[cfg(not(target_arch = "x86_64"))]
pub use cpu_other::HardwareCpuCounter;
pub use extended::Extended;
pub use resolution::resolution_ticks;

/// The number of CPU ids: Linux has 12 bits for them (`VDSO_CPUNODE_BITS`,
/// `arch/x86/include/asm/segment.h`).
pub const CPU_IDS: usize = 1 << 12;

/// A counter that fulfils the [contract](self) of this module.
///
/// ```
/// use core::sync::atomic::{AtomicU64, Ordering, compiler_fence};
/// use tickline_core::counter::Counter;
///
/// /// The register of a timer, on a machine with one CPU.
/// struct Timer(AtomicU64);
/// impl Counter for Timer {
///     fn now(&self) -> u64 {
///         self.0.load(Ordering::Relaxed)
///     }
///     fn barrier(&self) {
///         compiler_fence(Ordering::SeqCst); // one CPU sees its own accesses in order
///     }
/// }
///
/// let timer = Timer(AtomicU64::new(1_000));
/// let before = timer.now_ordered();
/// timer.0.store(1_250, Ordering::Relaxed); // time passes
/// assert_eq!(timer.now_ordered() - before, 250);
/// ```
pub trait Counter {
    /// The counter, in ticks. The CPU may read it before older loads complete.
    fn now(&self) -> u64;

    /// The counter, in ticks, read after every earlier load.
    #[inline(always)]
    fn now_ordered(&self) -> u64 {
        self.barrier();
        self.now()
    }

    /// Keeps later loads and reads of the counter behind the earlier ones. Stores are not ordered.
    fn barrier(&self);
}

/// A read of a CPU's counter.
///
/// ```
/// use tickline_core::counter::{CpuCounter, CpuRead, HardwareCpuCounter};
///
/// if let Some(counter) = HardwareCpuCounter::if_present() {
///     match counter.now_ordered() {
///         Some(CpuRead { ticks, cpu }) => println!("CPU {cpu} is at {ticks} ticks"),
///         None => println!("the thread was moved meanwhile"),
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuRead {
    /// The counter, ticks.
    pub ticks: u64,
    /// The operating system's id of the CPU.
    pub cpu: u32,
}

/// A counter together with the id of the CPU that was read. It MUST fulfil points 1 to 5 of the
/// [contract](self) on each CPU by itself, and
///
/// 6. give the operating system's id of the CPU, which is below [`CPU_IDS`];
/// 7. in [`now_ordered`](CpuCounter::now_ordered), give the id of the CPU on which the counter was
///    read, even if the thread is moved meanwhile. [`now`](CpuCounter::now) may give the wrong id
///    if the thread was moved away and back between two instructions.
///
/// ```
/// use core::cell::Cell;
/// use tickline_core::counter::{CpuCounter, CpuRead};
///
/// /// A board without an operating system. Each core has a counter, and a register with its number.
/// struct Core { number: u32, ticks: Cell<u64> }
/// impl CpuCounter for Core {
///     // No thread is moved here. With an operating system, compare the number before and after.
///     fn now(&self) -> Option<CpuRead> {
///         Some(CpuRead { ticks: self.ticks.get(), cpu: self.number })
///     }
///     fn now_ordered(&self) -> Option<CpuRead> { self.barrier(); self.now() }
///     fn barrier(&self) {} // the board's instruction
/// }
///
/// let core = Core { number: 1, ticks: Cell::new(250) };
/// assert_eq!(core.now_ordered(), Some(CpuRead { ticks: 250, cpu: 1 }));
/// ```
pub trait CpuCounter {
    /// The counter, in ticks, and the id of the CPU; `None` if the thread was moved in between. The
    /// CPU may read the counter before older loads complete.
    fn now(&self) -> Option<CpuRead>;

    /// The counter, in ticks, read after every earlier load, and the id of the CPU; `None` if the
    /// thread was moved in between.
    fn now_ordered(&self) -> Option<CpuRead>;

    /// Keeps later loads and reads of the counter behind the earlier ones. Stores are not ordered.
    fn barrier(&self);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_arch = "x86_64")]
    #[test]
    #[cfg_attr(
        miri,
        ignore = "Miri has no counter; the instructions are tested natively"
    )]
    fn the_cpu_id_is_the_same_by_both_instructions() {
        let (Some(rdtscp), Some(rdpid)) = (arch::Rdtscp::detect(), arch::Rdpid::detect()) else {
            return crate::testing::skip("this processor has no rdtscp, or no rdpid");
        };
        // A migration between the two reads makes the ids differ, but not a thousand times.
        assert!((0..1_000).any(|_| rdtscp.read().aux == rdpid.read()));
        let counter = HardwareCpuCounter::if_present().expect("rdtscp");
        assert!(
            (0..1_000).any(|_| CpuCounter::now(&counter).is_some()),
            "moved at each read"
        );
    }

    #[test]
    #[cfg_attr(
        miri,
        ignore = "Miri has no counter; the instruction is tested natively"
    )]
    fn the_hardware_counter_goes_on() {
        let Some(counter) = HardwareCounter::if_present() else {
            return crate::testing::skip("no counter on this target");
        };
        let plain = counter.now();
        let ordered = counter.now_ordered();
        assert!(crate::units::ticks_between(plain, ordered) >= 0);
        assert!(
            resolution_ticks(&counter) > 0,
            "the counter stood still for 20,000 reads"
        );
    }
}
