//! Reads the counter and swaps the word in one sequence that no preemption divides (rule W2).
//!
//! The kernel restarts such a sequence if its thread was preempted, stopped, migrated or
//! interrupted by a signal before the last instruction (rseq(2)). Interrupts, and a hypervisor that
//! takes the CPU away, can still delay the store: they cause no restart.

mod registered;

use core::arch::asm;
use core::mem::offset_of;
use core::ops::Range;
use core::ptr::NonNull;

use crate::lease::memory::SwapResult;
use registered::{Area, SIGNATURE};

/// After this many restarts, the swap is too late: the thread never had the CPU for a microsecond.
const MAX_RESTARTS: u32 = 100;

/// Whether this thread can run such sequences.
pub(super) fn is_available() -> bool {
    registered::area().is_some()
}

/// Replaces the word by the second of `from_to`, if it is the first and the counter is within
/// `ticks`. `None` if this thread can run no such sequence.
///
/// # Safety
///
/// `word` must be a multiple of 8, and valid for atomic accesses.
pub(super) unsafe fn try_swap(
    word: NonNull<u64>,
    from_to: [u64; 2],
    ticks: Range<u64>,
) -> Option<SwapResult> {
    let area = registered::area()?;
    // SAFETY: the caller promises that `word` is valid, and `area` is this thread's.
    let swapped =
        (0..MAX_RESTARTS).find_map(|_| unsafe { attempt(area, word, from_to, &ticks, 0) }.0);
    Some(swapped.unwrap_or(SwapResult::OutOfTime))
}

/// The result of the block: the counter was out of its range, and nothing was stored.
const OUT_OF_TIME: u64 = 0;
/// The result of the block: the word was not the expected one.
const OTHER_WORD: u64 = 1;
/// The result of the block: the word was replaced.
const DONE: u64 = 2;

/// Makes one attempt; `None` if the kernel has aborted the sequence. Also returns the tick that was
/// read. Tests pass `pauses` to make the time between read and swap longer.
///
/// The block reads the counter as [`HardwareCounter`](crate::HardwareCounter) does. The exchange is
/// the last instruction of the sequence, so after it the kernel restarts nothing.
///
/// # Safety
///
/// `area` must be this thread's, `word` a multiple of 8 and valid for atomic accesses.
#[inline(never)]
unsafe fn attempt(
    area: NonNull<Area>,
    word: NonNull<u64>,
    [from, to]: [u64; 2],
    ticks: &Range<u64>,
    pauses: u64,
) -> (Option<SwapResult>, u64) {
    let mut result: u64 = OUT_OF_TIME;
    let tick: u64;
    // SAFETY: the caller promises that `area` and `word` are valid. The block stores only to
    // `word`, to the area's field `sequence` and to the registers that it names, and leaves that
    // field 0. The descriptor and the code that the kernel jumps to are sections of this program,
    // which must not be unloaded while the thread is in the block. The block uses no stack.
    unsafe {
        asm!(
            // struct rseq_cs: version, flags, start, length, abort handler.
            ".pushsection __rseq_cs, \"aw\"",
            ".balign 32",
            "772:",
            ".long 0, 0",
            ".quad 773f, 774f - 773f, 775f",
            ".popsection",
            // The abort handler. The signature before it is part of an instruction that traps.
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
            // The differences are signed, as in `is_before`.
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
            out("rdx") tick,
            options(nostack),
        );
    }
    let swapped = match result {
        OUT_OF_TIME => Some(SwapResult::OutOfTime),
        OTHER_WORD => Some(SwapResult::OtherWord),
        DONE => Some(SwapResult::Done),
        _ => None,
    };
    (swapped, tick)
}

#[cfg(test)]
mod tests;
