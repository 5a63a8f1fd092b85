//! Linux: a sleep that another thread can end, on one futex and without a descriptor.
//!
//! `std`'s condition variable does not serve. It reads the clock for its deadline, through the
//! vDSO, which is fatal where the process may not read the counter (`sys/reference/linux.rs`). A
//! relative `FUTEX_WAIT` needs no clock.

use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Parking {
    /// 1 once [`stop`](Self::stop) was called.
    stopped: AtomicU32,
}

impl Parking {
    pub(crate) fn is_stopped(&self) -> bool {
        // ORDERING: Relaxed, a flag on its own.
        self.stopped.load(Ordering::Relaxed) != 0
    }

    /// Sleeps for `time`, or until [`stop`](Self::stop) is called. May end early.
    pub(crate) fn wait(&self, time: Duration) {
        // The kernel's timespec for this call has the width of long, whatever libc's has.
        let timeout: [libc::c_long; 2] = [narrowed(time.as_secs()), narrowed(time.subsec_nanos().into())];
        // SAFETY: the word and the timeout are valid for the call; the kernel goes to sleep only if
        // the word is still 0, so a stop before that is not missed.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.stopped.as_ptr(),
                libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                0,
                timeout.as_ptr(),
            )
        };
    }

    /// Ends the present and every later [`wait`](Self::wait).
    pub(crate) fn stop(&self) {
        // ORDERING: Relaxed, as above. The kernel sees it before it looks for sleepers.
        self.stopped.store(1, Ordering::Relaxed);
        wake_one(&self.stopped);
    }
}

/// Sleeps while `word` is `value`, until [`wake_one`] is called for it. May end early.
pub(crate) fn sleep_while(word: &AtomicU32, value: u32) {
    // SAFETY: the word is valid for the call, and no timeout is given; the kernel goes to sleep only
    // if the word still has that value.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            value,
            ptr::null::<libc::c_long>(),
        )
    };
}

/// Wakes one thread that is in [`sleep_while`].
pub(crate) fn wake_one(word: &AtomicU32) {
    // SAFETY: the word is valid; waking touches no memory.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            1,
            ptr::null::<libc::c_long>(),
        )
    };
}

/// The number in libc's type, which has 32 bits on some targets: then at most 2^31 - 1.
pub(super) fn narrowed<T: TryFrom<u64> + From<i32>>(number: u64) -> T {
    T::try_from(number).unwrap_or_else(|_| i32::MAX.into())
}
