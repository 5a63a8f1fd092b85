//! A read of the counter and a swap of the word, which no preemption divides (rule W2).
//!
//! The kernel restarts such a sequence if its thread was preempted, stopped, moved or interrupted
//! by a signal before the last instruction (rseq(2)). What remains between read and store is time
//! in which the thread has its CPU: interrupts, and steal by a hypervisor.

mod registered;

use core::arch::asm;
use core::mem::offset_of;
use core::ops::Range;
use core::ptr::NonNull;

use crate::lease::SwapResult;
use registered::{Area, SIGNATURE};

/// How often a sequence begins again before the swap counts as too late. One that is preempted each
/// time has no CPU for a microsecond.
const MAX_RESTARTS: u32 = 100;

/// Whether this thread can run such sequences.
pub(super) fn is_available() -> bool {
    registered::area().is_some()
}

/// Swaps the word, the first of `from_to` for the second, if the counter is within `ticks`; `None`
/// where there are no such sequences.
///
/// # Safety
///
/// `word` must be a multiple of 8, and valid for atomic accesses.
pub(super) unsafe fn swap(word: NonNull<u64>, from_to: [u64; 2], ticks: Range<u64>) -> Option<SwapResult> {
    let area = registered::area()?;
    // SAFETY: by the caller's promise, and `area` is this thread's.
    let swapped = (0..MAX_RESTARTS).find_map(|_| unsafe { try_swap(area, word, from_to, &ticks, 0) }.0);
    Some(swapped.unwrap_or(SwapResult::OutOfTime))
}

/// The result of the block: nothing was stored, and the counter was out of its range.
const OUT_OF_TIME: u64 = 0;
/// The word was another one.
const LOST: u64 = 1;
/// The word is the new one.
const DONE: u64 = 2;

/// One try; `None` if the kernel has taken the CPU away before the swap. Also returns the counter.
/// For tests, `pauses` makes the time between read and swap longer.
///
/// The counter is read as by [`HardwareCounter`](crate::HardwareCounter). The exchange is the last
/// instruction of the sequence: once it is done, nothing restarts.
///
/// # Safety
///
/// `area` must be this thread's, `word` a multiple of 8 and valid for atomic accesses.
#[inline(never)]
unsafe fn try_swap(
    area: NonNull<Area>,
    word: NonNull<u64>,
    [from, to]: [u64; 2],
    ticks: &Range<u64>,
    pauses: u64,
) -> (Option<SwapResult>, u64) {
    let mut result: u64 = OUT_OF_TIME;
    let looked: u64;
    // SAFETY: the caller's promises. The block stores to `word`, to the area's descriptor, and to
    // the registers it names; it leaves the area without a descriptor. The descriptor is in a
    // section of this program, and so is the code that the kernel jumps to. The program must not be
    // unloaded while the thread is in the block. No stack is used.
    unsafe {
        asm!(
            // struct rseq_cs: version, flags, start, length, abort handler.
            ".pushsection __rseq_cs, \"aw\"",
            ".balign 32",
            "772:",
            ".long 0, 0",
            ".quad 773f, 774f - 773f, 775f",
            ".popsection",
            // The abort handler. The signature before it is a part of an instruction that traps.
            ".pushsection __rseq_failure, \"ax\"",
            ".byte 0x0f, 0xb9, 0x3d",
            ".long {signature}",
            "775:",
            "mov {result:e}, 3",
            "jmp 776f",
            ".popsection",

            "lea {left}, [rip + 772b]",
            "mov qword ptr [{area} + {sequence}], {left}",
            "773:",
            "lfence",
            "rdtsc",
            "shl rdx, 32",
            "or rdx, rax",
            // Signed differences, as `is_before` has them.
            "mov rax, rdx",
            "sub rax, {least}",
            "js 776f",
            "mov rax, rdx",
            "sub rax, {limit}",
            "jns 776f",
            "mov {left}, {pauses}",
            "777:",
            "test {left}, {left}",
            "jz 778f",
            "pause",
            "dec {left}",
            "jmp 777b",
            "778:",
            "mov rax, {from}",
            "lock cmpxchg qword ptr [{word}], {to}",
            "774:",
            "sete {result:l}",
            "inc {result:e}",
            "776:",
            "mov qword ptr [{area} + {sequence}], 0",
            signature = const SIGNATURE,
            sequence = const offset_of!(Area, sequence),
            area = in(reg) area.as_ptr(),
            word = in(reg) word.as_ptr(),
            from = in(reg) from,
            to = in(reg) to,
            least = in(reg) ticks.start,
            limit = in(reg) ticks.end,
            pauses = in(reg) pauses,
            left = out(reg) _,
            result = inout(reg) result,
            out("rax") _,
            out("rdx") looked,
            options(nostack),
        );
    }
    let swapped = match result {
        OUT_OF_TIME => Some(SwapResult::OutOfTime),
        LOST => Some(SwapResult::OtherWord),
        DONE => Some(SwapResult::Done),
        _ => None,
    };
    (swapped, looked)
}

#[cfg(test)]
mod tests;
