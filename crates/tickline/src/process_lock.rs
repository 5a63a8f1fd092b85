//! A lock whose waiters sleep, and that outlives `fork`.
//!
//! std's `Mutex` does not serve: a child that was forked while another thread held it would wait
//! for a thread that it does not have. A `TryLock` knows by the process's token that its holder
//! was left behind. This one puts a sleep around it. It is not for signal handlers: a handler that
//! has interrupted the holder would wait for it.
//!
//! With minimal probes the token is the process's id. Two processes that share one memory (`clone`
//! with `CLONE_VM`, without `CLONE_THREAD`) then look like parent and child. If both start or stop
//! a clock at once, one process takes the lock over from the other. A clock's thread may then keep
//! running unjoined. Readings are not affected: their locks have another token (`sys::lock_token`).

use core::sync::atomic::{AtomicU32, Ordering};

use tickline_core::try_lock::{LockGuard, TryLock};

use crate::sys;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct ProcessLock<T> {
    lock: TryLock<T>,
    /// How often the lock was released: what waiters sleep on.
    releases: AtomicU32,
}

impl<T: Default> ProcessLock<T> {
    pub(crate) const fn new(content: T) -> Self {
        Self { lock: TryLock::new(content), releases: AtomicU32::new(0) }
    }

    /// Waits for the lock, asleep, and does `work` under it, which may not panic: nobody would wake
    /// the next waiter. Where another process has left the lock behind, the content may be half
    /// changed: it is forgotten, not dropped, and the default takes its place.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let mut held = loop {
            match self.try_lock() {
                Ok(held) => break held,
                Err(releases) => sys::sleep_while(&self.releases, releases, None),
            }
        };
        let result = work(&mut held);
        self.release(held);
        result
    }

    /// The lock, or the number of releases after which another thread had it.
    fn try_lock(&self) -> Result<LockGuard<'_, T>, u32> {
        // ORDERING: Acquire, pairs with the Release increment in `release`: if this sees the
        // increment, the try below sees the release before it. If not, the sleep ends at once.
        let releases = self.releases.load(Ordering::Acquire);
        // SAFETY: valid for a write. Nothing reads or drops the half-written value.
        let reset = |content: &mut T| unsafe { core::ptr::write(content, T::default()) };
        // SAFETY: the token is the same for all threads of this process, and unlike that of any
        // ancestor; this is not for signal handlers.
        unsafe { self.lock.try_lock(sys::token(), reset) }.ok_or(releases)
    }

    fn release(&self, held: LockGuard<'_, T>) {
        drop(held);
        // ORDERING: Release, pairs with the Acquire load in `try_lock`.
        self.releases.fetch_add(1, Ordering::Release);
        // One is enough: the thread that takes the lock wakes the next one.
        sys::wake_one(&self.releases);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordering_nobody_sleeps_through_a_release() {
        for _ in 0..8 {
            let lock = ProcessLock::new(());
            let held = lock.try_lock().expect("nobody else has it");
            std::thread::scope(|scope| {
                scope.spawn(|| lock.release(held));
                while let Err(releases) = lock.try_lock() {
                    assert_eq!(releases, 0, "there is no other");
                    std::thread::yield_now();
                }
            });
        }
    }

    #[test]
    fn every_waiter_gets_its_turn() {
        let lock = ProcessLock::new(0_u32);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        lock.with(|count| {
                            let before = *count;
                            std::thread::yield_now();
                            *count = before + 1;
                        });
                    }
                });
            }
        });
        assert_eq!(lock.with(|count| *count), 2_000);
    }
}
