//! A lock that never blocks, and that a forked child can take over.
//!
//! No thread waits for it, so a signal handler may try to take it. The owner is a [`LockToken`] of
//! the process. A child that finds its parent's token knows that the holder does not exist in this
//! process, and takes the lock over. The content may be half changed then, so each caller states
//! how to reset it.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

use crate::primitive::{AtomicU64, Ordering};

/// The lock. All zeros is a free lock.
#[derive(Debug)]
pub struct TryLock<T> {
    owner: AtomicU64,
    content: UnsafeCell<T>,
}

// SAFETY: `owner` lets at most one thread of a process reach the content at a time, and moves it
// between threads, for which `T: Send` suffices. There is no such impl where atomics are plain
// cells, because those lock nothing.
#[cfg(target_has_atomic = "64")]
unsafe impl<T: Send> Sync for TryLock<T> {}

/// The number by which locks tell the threads of this process from those of its ancestors. Its
/// maker answers for all locks that are ever taken with it; to take a lock is then safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockToken(u64);

impl LockToken {
    /// The token with this number. No lock can be taken with the number 0.
    ///
    /// # Safety
    ///
    /// For each lock that is ever taken with this token:
    ///
    /// 1. All threads that share the lock's memory use tokens of this number, those of other
    ///    processes included (`CLONE_VM`).
    /// 2. The number differs from that of every ancestor of which this memory is a copy. Otherwise
    ///    a lock that was held at the fork would stay held in the child.
    /// 3. A thread that forks while it holds a guard does not use the guard in the child, which may
    ///    get a second one.
    /// 4. A handler that interrupted the holder and forks does not return in the child.
    #[must_use]
    pub const unsafe fn new(number: u64) -> Self {
        Self(number)
    }
}

/// Holds the lock until it is dropped. It is like a `&mut T`: threads may share it only if they
/// may share the content.
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use tickline_core::try_lock::{LockToken, TryLock};
///
/// // SAFETY: one process, one number.
/// let token = unsafe { LockToken::new(7) };
/// let lock = TryLock::new(AtomicU32::new(0));
/// let guard = lock.try_lock(token, |_| ()).unwrap();
/// std::thread::scope(|scope| {
///     scope.spawn(|| guard.fetch_add(1, Ordering::Relaxed));
///     scope.spawn(|| guard.fetch_add(2, Ordering::Relaxed));
/// });
/// assert_eq!(guard.load(Ordering::Relaxed), 3);
/// ```
///
/// The same program with a `Cell`, which a thread may send but not share, does not compile:
///
/// ```compile_fail,E0277
/// use std::cell::Cell;
/// use tickline_core::try_lock::{LockToken, TryLock};
///
/// // SAFETY: one process, one number.
/// let token = unsafe { LockToken::new(7) };
/// let lock = TryLock::new(Cell::new(0));
/// let guard = lock.try_lock(token, |_| ()).unwrap();
/// std::thread::scope(|scope| {
///     scope.spawn(|| guard.set(1));
///     scope.spawn(|| guard.set(2));
/// });
/// ```
#[derive(Debug)]
pub struct LockGuard<'a, T> {
    lock: &'a TryLock<T>,
    token: u64,
    /// Threads may share a `&TryLock<T>` if its content may be sent, because the lock lets one
    /// thread in at a time. A shared guard lets in every thread that has the guard.
    exclusive: PhantomData<&'a mut T>,
}

impl<T> TryLock<T> {
    /// A free lock.
    pub const fn new(content: T) -> Self {
        Self {
            owner: AtomicU64::new(0),
            content: UnsafeCell::new(content),
        }
    }

    /// Takes the lock if it is free, or if its owner's token is not `token`. In the second case the
    /// holder is in another process, and has never released the lock. The content may be half
    /// changed, and `reset` puts it right.
    pub fn try_lock(
        &self,
        LockToken(token): LockToken,
        reset: impl FnOnce(&mut T),
    ) -> Option<LockGuard<'_, T>> {
        // ORDERING: Relaxed, a guess that the exchange below verifies.
        let owner = self.owner.load(Ordering::Relaxed);
        if owner == token || token == 0 {
            return None;
        }
        // ORDERING: Acquire, pairs with the Release exchange in `drop`: this thread sees the last
        // holder's changes.
        self.owner
            .compare_exchange(owner, token, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        let mut guard = LockGuard {
            lock: self,
            token,
            exclusive: PhantomData,
        };
        if owner != 0 {
            reset(&mut guard);
        }
        Some(guard)
    }
}

impl<T> Deref for LockGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this guard holds the lock, so no other thread reaches the content.
        unsafe { &*self.lock.content.get() }
    }
}

impl<T> DerefMut for LockGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard holds the lock, so no other thread reaches the content.
        unsafe { &mut *self.lock.content.get() }
    }
}

impl<T> Drop for LockGuard<'_, T> {
    fn drop(&mut self) {
        // ORDERING: Release, pairs with the Acquire exchange in `try_lock`. The exchange fails if
        // another process has taken the lock over; the lock then stays with that process.
        self.lock
            .owner
            .compare_exchange(self.token, 0, Ordering::Release, Ordering::Relaxed)
            .ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_takes_over_its_parents_lock() {
        let lock = TryLock::new(5);
        // SAFETY: the test plays two processes, one after the other. Once the second process has a
        // guard, the test does not use the first guard.
        let token = |number| unsafe { LockToken::new(number) };
        let take = |number| lock.try_lock(token(number), |content| *content += 1);
        let parents = take(1).unwrap();
        assert!(take(1).is_none() && *parents == 5);
        let childs = take(2).unwrap();
        assert_eq!(*childs, 6, "content that may be half changed is reset");
        drop(parents);
        assert!(
            take(2).is_none(),
            "the parent's guard does not release the child's lock"
        );
        drop(childs);
        assert!(take(0).is_none(), "0 is not a token");
        assert_eq!(*take(1).unwrap(), 6, "released content is not reset");
    }
}
