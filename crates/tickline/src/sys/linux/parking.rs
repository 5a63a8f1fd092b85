//! Linux: sleeps on a futex, which need no clock and no descriptor.
//!
//! `std`'s condition variable does not serve: it reads the clock for its deadline, through the vDSO
//! (`ROUTE_KERNEL` of `sys/reference/linux.rs`). A relative `FUTEX_WAIT` needs no clock.

use core::ptr;
use core::sync::atomic::AtomicU32;
use core::time::Duration;

/// Sleeps while `word` is `value`, until [`wake_one`] is called for it, or `time` is up. May end
/// early.
pub(crate) fn sleep_while(word: &AtomicU32, value: u32, time: Option<Duration>) {
    // The kernel's timespec for this call has the width of long, whatever libc's has.
    let timeout: Option<[libc::c_long; 2]> =
        time.map(|time| [narrowed(time.as_secs()), narrowed(time.subsec_nanos().into())]);
    futex(word, libc::FUTEX_WAIT, value, timeout.as_ref());
}

/// Wakes one thread that is in [`sleep_while`].
pub(crate) fn wake_one(word: &AtomicU32) {
    futex(word, libc::FUTEX_WAKE, 1, None);
}

fn futex(word: &AtomicU32, operation: libc::c_int, value: u32, timeout: Option<&[libc::c_long; 2]>) {
    let timeout = timeout.map_or(ptr::null(), |timeout| timeout.as_ptr());
    // SAFETY: the word, and the timeout if there is one, are valid for the call. The kernel goes to
    // sleep only if the word still has that value, and waking touches no memory.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), operation | libc::FUTEX_PRIVATE_FLAG, value, timeout)
    };
}

/// The number in libc's type, which has 32 bits on some targets: then at most 2^31 - 1.
pub(super) fn narrowed<T: TryFrom<u64> + From<i32>>(number: u64) -> T {
    T::try_from(number).unwrap_or_else(|_| i32::MAX.into())
}
