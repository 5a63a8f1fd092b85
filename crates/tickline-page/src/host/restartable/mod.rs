//! A look at the counter and a swap of the word, which no preemption divides (rule W2).
//!
//! The kernel restarts such a sequence if its thread was preempted, stopped, moved or interrupted by
//! a signal before the last instruction (rseq(2)). What remains between look and store is time in
//! which the thread has its CPU: interrupts, and steal by a hypervisor.
//!
//! x86-64 has one. Elsewhere [`swap`] is `None`, and the caller looks and stores in two steps.

#[cfg(all(target_arch = "x86_64", target_pointer_width = "64", not(miri)))]
mod registered;
#[cfg(all(target_arch = "x86_64", target_pointer_width = "64", not(miri)))]
mod x86_64;

use core::ops::Range;
use core::ptr::NonNull;

use crate::lease::Swapped;

/// How often a sequence begins again before the swap counts as too late. One that is preempted each
/// time has no CPU for a microsecond.
#[cfg(all(target_arch = "x86_64", target_pointer_width = "64", not(miri)))]
const MOST_RESTARTS: u32 = 100;

/// Whether this thread can run such sequences.
pub(super) fn is_available() -> bool {
    #[cfg(all(target_arch = "x86_64", target_pointer_width = "64", not(miri)))]
    return registered::area().is_some();
    #[cfg(not(all(target_arch = "x86_64", target_pointer_width = "64", not(miri))))]
    false
}

/// Swaps the word if the counter is within `ticks`; `None` where there are no such sequences.
///
/// # Safety
///
/// `word` must be a multiple of 8, and valid for atomic accesses.
pub(super) unsafe fn swap(word: NonNull<u64>, from: u64, to: u64, ticks: Range<u64>) -> Option<Swapped> {
    #[cfg(all(target_arch = "x86_64", target_pointer_width = "64", not(miri)))]
    {
        let area = registered::area()?;
        for _ in 0..MOST_RESTARTS {
            // SAFETY: by the caller's promise, and `area` is this thread's.
            match unsafe { x86_64::swap(area, word, [from, to], &ticks, 0) }.0 {
                x86_64::Outcome::Ended(swapped) => return Some(swapped),
                x86_64::Outcome::Restarted => {}
            }
        }
        Some(Swapped::OutOfTime)
    }
    #[cfg(not(all(target_arch = "x86_64", target_pointer_width = "64", not(miri))))]
    {
        let _ = (word, from, to, ticks);
        None
    }
}
