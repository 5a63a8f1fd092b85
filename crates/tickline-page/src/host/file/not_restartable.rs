//! Targets without a restartable sequence.

use core::ops::Range;
use core::ptr::NonNull;

use crate::lease::SwapResult;

pub(super) fn is_available() -> bool {
    false
}

/// Always `None`: the caller reads the counter and stores in two steps.
///
/// # Safety
///
/// It has no conditions here.
pub(super) unsafe fn swap(_: NonNull<u64>, _: [u64; 2], _: Range<u64>) -> Option<SwapResult> {
    None
}
