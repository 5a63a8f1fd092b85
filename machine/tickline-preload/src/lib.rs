//! `libtickline_preload.so` gives a program `CLOCK_MONOTONIC` and `CLOCK_REALTIME` from the page
//! that `tickline serve` publishes, in place of a system call.
//!
//! The library gets into a program in one of two ways:
//!
//! - `LD_PRELOAD`: the dynamic linker loads the library, and runs `loaded` (`entry.rs`) before the
//!   program. The library's functions replace libc's.
//! - `tickline run` maps the library into a static program that has just been executed, and calls
//!   the library's function `start`. The program then begins in the library's `resume`
//!   (`tickline_resume_program`). The section `.tickline` has the addresses of both functions.
//!
//! In both cases the library redirects the vDSO's symbols to itself. Static programs, and programs
//! that bypass libc, then get the same clock. The vDSO's own code stays as it is, and answers the
//! calls that the page does not.
//!
//! ```text
//! vDSO's symbol  ->  abi  ->  serve  ->  the page (tickline-page)
//! LD_PRELOAD     ->  interpose  ->  abi
//! ```
//!
//! What the page does not answer goes to `original`: the vDSO's own code, or a system call.
//!
//! `--profile preload` builds the library without the standard library, which is possible because
//! a panic aborts in that profile. Such a library calls only the functions of libc that `entry`
//! and `interpose` name, so it can be mapped into a static program.

#![cfg_attr(
    all(panic = "abort", target_os = "linux", target_arch = "x86_64"),
    no_std
)]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod abi;
mod attach;
mod entry;
mod interpose;
mod libc_name;
#[cfg(panic = "abort")]
mod memory;
mod original;
mod serve;
mod state;
mod vdso;

/// No code here panics. If code did, the program would end at this instruction.
#[cfg(panic = "abort")]
#[panic_handler]
fn panicked(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: the instruction is invalid on purpose, and never returns.
    unsafe { core::arch::asm!("ud2", options(noreturn, nomem, nostack)) }
}
