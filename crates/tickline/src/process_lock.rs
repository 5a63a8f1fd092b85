//! A lock whose waiters sleep, and that outlives `fork`.
//!
//! std's `Mutex` does not serve: a child that was forked while another thread held it would wait
//! for a thread that it does not have. A `TryLock` knows by the process's token that its holder
//! was left behind. This one puts a sleep around it. It is not for signal handlers, for one that
//! has interrupted the holder would wait for it.
//!
//! With minimal probes the token is the process's id. Of two processes that share one memory
//! (`clone` with `CLONE_VM`, without `CLONE_THREAD`) one then takes the lock over from the other
//! while both start or stop a clock, and a clock's thread may be forgotten, which goes on. Readings
//! are not affected: their locks have another token (`sys::lock_token`).

use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};

use tickline_core::try_lock::{self, TryLock};

use crate::sys;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct ProcessLock<T> {
    lock: TryLock<T>,
    /// How often the lock was released: what waiters sleep on.
    releases: AtomicU32,
}

/// Holds the lock until it is dropped, and then wakes a waiter.
#[derive(Debug)]
pub(crate) struct ProcessLockGuard<'a, T> {
    /// `None` only while it is dropped.
    held: Option<try_lock::LockGuard<'a, T>>,
    releases: &'a AtomicU32,
}

impl<T: Default> ProcessLock<T> {
    pub(crate) const fn new(content: T) -> Self {
        Self { lock: TryLock::new(content), releases: AtomicU32::new(0) }
    }

    /// Waits for the lock, asleep. Where another process has left it behind, the content may be
    /// half changed: it is forgotten, not dropped, and the default takes its place.
    pub(crate) fn lock(&self) -> ProcessLockGuard<'_, T> {
        loop {
            match self.try_lock() {
                Ok(held) => return held,
                Err(releases) => sys::sleep_while(&self.releases, releases, None),
            }
        }
    }

    /// The lock, or the number of releases after which another thread had it.
    fn try_lock(&self) -> Result<ProcessLockGuard<'_, T>, u32> {
        // ORDERING: Acquire, pairs with the Release increment in `drop`: if this sees the
        // increment, the try below sees the release before it. If not, the sleep ends at once.
        let releases = self.releases.load(Ordering::Acquire);
        // SAFETY: valid for a write. Nothing reads or drops the half-written value.
        let reset = |content: &mut T| unsafe { core::ptr::write(content, T::default()) };
        // SAFETY: the token is the same for all threads of this process, and unlike that of any
        // ancestor; this is not for signal handlers.
        let held = unsafe { self.lock.try_lock(sys::token(), reset) }.ok_or(releases)?;
        Ok(ProcessLockGuard { held: Some(held), releases: &self.releases })
    }
}

impl<T> Deref for ProcessLockGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.held.as_ref().expect("held until the drop")
    }
}

impl<T> DerefMut for ProcessLockGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect("held until the drop")
    }
}

impl<T> Drop for ProcessLockGuard<'_, T> {
    fn drop(&mut self) {
        drop(self.held.take());
        // ORDERING: Release, pairs with the Acquire load in `try_lock`.
        self.releases.fetch_add(1, Ordering::Release);
        // One is enough: whoever takes the lock wakes the next one.
        sys::wake_one(self.releases);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordering_nobody_sleeps_through_a_release() {
        for _ in 0..8 {
            let lock = ProcessLock::new(());
            let held = lock.lock();
            std::thread::scope(|scope| {
                scope.spawn(|| drop(held));
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
                        let mut count = lock.lock();
                        let before = *count;
                        std::thread::yield_now();
                        *count = before + 1;
                    }
                });
            }
        });
        assert_eq!(*lock.lock(), 2_000);
    }
}
