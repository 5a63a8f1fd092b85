//! `libtickline_preload.so`: a program that has it loaded gets `CLOCK_MONOTONIC` and
//! `CLOCK_REALTIME` from the page that `tickline serve` publishes, in place of a system call.
//!
//! It comes into a program in one of two ways:
//!
//! - `LD_PRELOAD`: the dynamic linker loads it, and runs `loaded` (`entry.rs`) before the
//!   program. Its functions stand before libc's;
//! - `tickline run` maps it into a static program that has just been executed, and calls `start`,
//!   whose address is in the section `.tickline`, as is that of `finish`, by which the program
//!   begins.
//!
//! Either way the vDSO's symbols then lead to it, so that static programs, and those that pass libc
//! by, get the same clock. The vDSO's own code stays as it is, for all that the page does not
//! serve.
//!
//! ```text
//! libc, Go, ...  ->  vDSO's symbol  ->  abi  ->  serve  ->  the page (tickline-page)
//! LD_PRELOAD     ->  interpose      ->          |   \-->  the vDSO's own code, or a system call
//! ```
//!
//! Built with `--profile preload`, where a panic aborts, it has no standard library: it calls
//! nothing of libc but what `entry` and `interpose` name, and can be mapped into a static program.

#![cfg_attr(all(panic = "abort", target_os = "linux", target_arch = "x86_64"), no_std)]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod abi;
mod attach;
mod entry;
mod interpose;
#[cfg(panic = "abort")]
mod memory;
mod original;
mod serve;
mod state;
mod vdso;

/// Nothing here panics. If something did, the program would stop at this place.
#[cfg(panic = "abort")]
#[panic_handler]
fn panicked(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: an invalid instruction, on purpose.
    unsafe { core::arch::asm!("ud2", options(noreturn, nomem, nostack)) }
}
