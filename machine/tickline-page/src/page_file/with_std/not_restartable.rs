//! The swap on targets for which this crate has no restartable sequence.

use core::ops::Range;
use core::ptr::NonNull;

use crate::lease::memory::SwapResult;

pub(super) fn is_available() -> bool {
    false
}

/// Always returns `None`: the caller then reads the counter and stores in two steps.
///
/// # Safety
///
/// This version has no conditions.
pub(super) unsafe fn try_swap(_: NonNull<u64>, _: [u64; 2], _: Range<u64>) -> Option<SwapResult> {
    None
}
