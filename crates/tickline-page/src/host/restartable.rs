//! A read of the counter and a swap of the word, which no preemption divides (rule W2).
//!
//! The kernel restarts such a sequence if its thread was preempted, stopped, moved or interrupted
//! by a signal before the last instruction (rseq(2)). What remains between read and store is time
//! in which the thread has its CPU: interrupts, and steal by a hypervisor.
//!
//! x86-64 has one. Elsewhere [`swap`] is `None`, and the caller reads and stores in two steps.

#[cfg(all(target_arch = "x86_64", target_pointer_width = "64", not(miri)))]
mod registered;
#[cfg(all(target_arch = "x86_64", target_pointer_width = "64", not(miri)))]
mod x86_64;

#[cfg(all(target_arch = "x86_64", target_pointer_width = "64", not(miri)))]
pub(super) use x86_64::{is_available, swap};

/// There are none.
#[cfg(not(all(target_arch = "x86_64", target_pointer_width = "64", not(miri))))]
pub(super) fn is_available() -> bool {
    false
}

/// Not on this target: always `None` or `false`.
///
/// # Safety
///
/// It has no conditions here.
#[cfg(not(all(target_arch = "x86_64", target_pointer_width = "64", not(miri))))]
pub(super) unsafe fn swap(
    _: core::ptr::NonNull<u64>,
    _: [u64; 2],
    _: core::ops::Range<u64>,
) -> Option<crate::lease::SwapResult> {
    None
}
