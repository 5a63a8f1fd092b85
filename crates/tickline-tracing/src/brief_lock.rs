//! Locks that are held for nanoseconds. To unlock one is a plain store, where std's takes an
//! exchange.

use core::hint::spin_loop;
use core::time::Duration;
use std::thread;

use spin::mutex::{SpinMutex, SpinMutexGuard};

#[inline]
pub(crate) fn lock_briefly<T>(mutex: &SpinMutex<T>) -> SpinMutexGuard<'_, T> {
    mutex.try_lock().unwrap_or_else(|| wait(mutex))
}

/// Another thread has the lock for some ns. If that thread was preempted, this one sleeps, so that
/// the other gets the CPU, whatever their priorities are.
#[cold]
fn wait<T>(mutex: &SpinMutex<T>) -> SpinMutexGuard<'_, T> {
    loop {
        for _ in 0..100 {
            if let Some(guard) = mutex.try_lock() {
                return guard;
            }
            spin_loop();
        }
        thread::sleep(Duration::from_micros(50));
    }
}
