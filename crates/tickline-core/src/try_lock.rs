//! A lock that never blocks, and that outlives its holder: a forked child, or another thread, can
//! take it over.
//!
//! No thread waits for it, so a signal handler may try to take it. The owner is a [`LockToken`]:
//! the number of the process and, if the system has a way to find out that a thread has ended, the
//! holder's thread. There are two takeovers:
//!
//! - A child that finds its parent's number knows that the holder does not exist in this process.
//! - A thread that finds a holder of its own process asks the system whether that thread has ended
//!   ([`LockToken::of_thread`]). A filter may have killed it, or it has ended by a system call in
//!   the middle of its work. A holder that is only slow or stopped keeps the lock: it may still
//!   write.
//!
//! The content may be half changed then, so each caller states how to reset it.
//!
//! ```text
//! 63                      32 31                        0
//! [ number of the process   | thread, 0 if not known   ]    all zeros: the lock is free
//! ```

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::num::NonZeroU32;
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

/// The name of a lock's owner: a number that tells this process's threads from the threads of its
/// ancestors, and perhaps the id of a thread. The caller of an `unsafe` constructor answers for all
/// locks that are ever taken with the token, so taking a lock is safe.
#[derive(Debug, Clone, Copy)]
pub struct LockToken {
    number: NonZeroU32,
    /// 0 if it is not known.
    thread: u32,
    has_ended: fn(u32) -> bool,
}

impl LockToken {
    /// The token with this number. If a thread ends while it holds a lock, that lock stays held in
    /// this process.
    ///
    /// The number should differ from the number of every ancestor of which this memory is a copy.
    /// Otherwise a lock that was held at the fork stays held in the child, and its content is out
    /// of reach, unless [`of_thread`](Self::of_thread) finds that its holder has ended.
    ///
    /// # Safety
    ///
    /// For each lock that is ever taken with this token:
    ///
    /// 1. All threads that share the lock's memory use tokens of this number, also the threads of
    ///    other processes (`CLONE_VM`).
    /// 2. A thread that forks while it holds a guard does not use the guard in a forked process,
    ///    which may get a second one. The thread may drop the guard there if that process has
    ///    another number. With an equal number the drop could release a lock that the process has
    ///    taken.
    /// 3. A handler that interrupted the holder and forks does not return in the child.
    #[must_use]
    pub const unsafe fn new(number: NonZeroU32) -> Self {
        Self {
            number,
            thread: 0,
            has_ended: |_| false,
        }
    }

    /// The same token, for the thread with the id `thread`. If that thread ends while it holds a
    /// lock, another thread takes the lock over. `has_ended` says whether the thread with an id has
    /// ended; it is asked if the holder has this token's number, and an id other than 0.
    /// `has_ended` must be safe to call wherever a lock is taken: a signal handler may try to take
    /// one.
    ///
    /// # Safety
    ///
    /// 1. While the thread with this id lives, `has_ended` returns `false` for the id, in all
    ///    threads that share the lock's memory.
    /// 2. If `has_ended` returns `true`, the calling thread sees every store of the thread that had
    ///    the id.
    /// 3. Only this thread takes locks with the token. It outlives the guards that it gets,
    ///    wherever they are.
    /// 4. An id is not given to a new thread between the question and the takeover. (Systems give
    ///    ids out in turn, so tens of thousands of threads would have to begin in these
    ///    nanoseconds.)
    ///
    /// ```
    /// use core::num::NonZeroU32;
    /// use tickline_core::try_lock::{LockToken, TryLock};
    ///
    /// fn has_ended(thread: u32) -> bool {
    ///     thread == 21
    /// }
    /// // SAFETY: one process, one number.
    /// let token = unsafe { LockToken::new(NonZeroU32::MIN) };
    /// // SAFETY: this thread plays two, and the first one's guard is not used any more.
    /// let [first, second] = [21, 22].map(|thread| unsafe { token.of_thread(thread, has_ended) });
    /// let lock = TryLock::new(0);
    /// core::mem::forget(lock.try_lock(first, |_| ())); // its thread is killed
    /// assert_eq!(*lock.try_lock(second, |content| *content = 1).unwrap(), 1);
    /// ```
    #[must_use]
    pub const unsafe fn of_thread(self, thread: u32, has_ended: fn(u32) -> bool) -> Self {
        Self {
            thread,
            has_ended,
            ..self
        }
    }

    const fn word(self) -> u64 {
        ((self.number.get() as u64) << 32) | self.thread as u64
    }

    /// Whether the lock with this word may be taken: it is free, or its owner is gone.
    fn may_take_from(self, owner: u64) -> bool {
        let number = owner >> 32;
        let thread = owner & u64::from(u32::MAX);
        if owner == 0 || number != u64::from(self.number.get()) {
            return true;
        }
        u32::try_from(thread).is_ok_and(|thread| thread != 0 && (self.has_ended)(thread))
    }
}

/// Holds the lock until it is dropped. It is like a `&mut T`: threads may share it only if they
/// may share the content.
///
/// ```
/// use std::num::NonZeroU32;
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use tickline_core::try_lock::{LockToken, TryLock};
///
/// // SAFETY: one process, one number.
/// let token = unsafe { LockToken::new(NonZeroU32::MIN) };
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
/// use std::num::NonZeroU32;
/// use tickline_core::try_lock::{LockToken, TryLock};
///
/// // SAFETY: one process, one number.
/// let token = unsafe { LockToken::new(NonZeroU32::MIN) };
/// let lock = TryLock::new(Cell::new(0));
/// let guard = lock.try_lock(token, |_| ()).unwrap();
/// std::thread::scope(|scope| {
///     scope.spawn(|| guard.set(1));
///     scope.spawn(|| guard.set(2));
/// });
/// ```
#[derive(Debug)]
#[must_use = "the lock is released when its guard is dropped"]
pub struct LockGuard<'a, T> {
    lock: &'a TryLock<T>,
    /// The lock's word while this guard holds it.
    word: u64,
    /// Threads may share a `&TryLock<T>` if its content may be sent, because the lock lets one
    /// thread in at a time. A shared guard lets in every thread that has the guard.
    exclusive: PhantomData<&'a mut T>,
}

impl<T> TryLock<T> {
    /// A free lock.
    #[must_use]
    pub const fn new(content: T) -> Self {
        Self {
            owner: AtomicU64::new(0),
            content: UnsafeCell::new(content),
        }
    }

    /// Takes the lock if it is free, or if its owner is gone: the owner's number is not the
    /// token's, or its thread has ended. An owner that is gone has never released the lock. The
    /// content may be half changed, and `reset` puts it right.
    #[must_use]
    pub fn try_lock(
        &self,
        token: LockToken,
        reset: impl FnOnce(&mut T),
    ) -> Option<LockGuard<'_, T>> {
        // ORDERING: Relaxed, a guess that the exchange below verifies.
        let owner = self.owner.load(Ordering::Relaxed);
        if !token.may_take_from(owner) {
            return None;
        }
        let word = token.word();
        // ORDERING: Acquire, pairs with the Release exchange in `drop`: this thread sees the last
        // holder's changes. The changes of a thread that has ended are visible once the system has
        // said so (`LockToken::of_thread`).
        self.owner
            .compare_exchange(owner, word, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        let mut guard = LockGuard {
            lock: self,
            word,
            exclusive: PhantomData,
        };
        if owner != 0 {
            reset(&mut guard);
        }
        Some(guard)
    }

    /// Whether a thread holds the lock, or a thread that is gone has never released it.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        // ORDERING: Relaxed, for display.
        self.owner.load(Ordering::Relaxed) != 0
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
            .compare_exchange(self.word, 0, Ordering::Release, Ordering::Relaxed)
            .ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process: its number is all that a lock knows of it.
    fn process(number: u32) -> LockToken {
        // SAFETY: each test plays its processes one after the other. Once one has a guard, the test
        // does not use the guards of the earlier ones.
        unsafe { LockToken::new(NonZeroU32::new(number).unwrap()) }
    }

    /// A thread of process 1. Thread 21 has ended, and no other one.
    fn thread(id: u32) -> LockToken {
        // SAFETY: each test plays its threads one after the other, and uses no guard of a thread
        // that has ended.
        unsafe {
            process(1).of_thread(id, |id| {
                assert_ne!(id, 0, "no thread has this id");
                id == 21
            })
        }
    }

    /// Takes the lock. A reset adds 1 to its content.
    fn take(lock: &TryLock<u32>, token: LockToken) -> Option<LockGuard<'_, u32>> {
        lock.try_lock(token, |content| *content += 1)
    }

    #[test]
    fn a_held_lock_is_not_taken_again_by_its_process() {
        let lock = TryLock::new(5);
        let _held = take(&lock, process(1)).unwrap();
        assert!(take(&lock, process(1)).is_none());
    }

    #[test]
    fn a_child_takes_over_its_parents_lock_and_resets_the_content() {
        let lock = TryLock::new(5);
        let _parents = take(&lock, process(1)).unwrap();
        let childs = take(&lock, process(2)).expect("the child's");
        assert_eq!(*childs, 6);
    }

    #[test]
    fn a_parents_guard_does_not_release_its_childs_lock() {
        let lock = TryLock::new(5);
        let parents = take(&lock, process(1)).unwrap();
        let _childs = take(&lock, process(2)).unwrap();
        drop(parents);
        assert!(take(&lock, process(2)).is_none());
    }

    #[test]
    fn content_that_was_released_is_not_reset() {
        let lock = TryLock::new(5);
        drop(take(&lock, process(1)));
        assert_eq!(*take(&lock, process(2)).expect("a free lock"), 5);
    }

    #[test]
    fn a_thread_takes_over_from_one_that_has_ended_and_resets_the_content() {
        let lock = TryLock::new(5);
        core::mem::forget(take(&lock, thread(21)));
        assert_eq!(*take(&lock, thread(22)).expect("the dead thread's"), 6);
    }

    /// It may go on at any moment.
    #[test]
    fn a_stopped_thread_keeps_its_lock() {
        let lock = TryLock::new(5);
        let _stopped = take(&lock, thread(20)).unwrap();
        assert!(take(&lock, thread(22)).is_none());
    }

    #[test]
    fn a_handler_does_not_take_the_lock_of_the_thread_that_it_has_interrupted() {
        let lock = TryLock::new(5);
        let _interrupted = take(&lock, thread(20)).unwrap();
        assert!(take(&lock, thread(20)).is_none());
    }

    #[test]
    fn a_token_of_no_thread_takes_nothing_over_from_a_thread() {
        let lock = TryLock::new(5);
        core::mem::forget(take(&lock, thread(21)));
        assert!(take(&lock, process(1)).is_none());
    }

    /// Nor is the system asked about it.
    #[test]
    fn a_lock_of_an_unknown_thread_is_not_taken_over() {
        let lock = TryLock::new(5);
        core::mem::forget(take(&lock, process(1)));
        assert!(take(&lock, thread(22)).is_none());
    }

    #[test]
    fn a_lock_is_held_until_its_guard_is_dropped() {
        let lock = TryLock::new(5);
        let guard = take(&lock, process(1));
        assert!(lock.is_locked());
        drop(guard);
        assert!(!lock.is_locked());
    }

    #[test]
    fn a_threads_guard_releases_the_lock() {
        let lock = TryLock::new(5);
        drop(take(&lock, thread(20)));
        assert!(!lock.is_locked());
    }

    #[test]
    fn a_childs_guard_releases_the_lock_that_it_took_over() {
        let lock = TryLock::new(5);
        let _parents = take(&lock, process(1)).unwrap();
        drop(take(&lock, process(2)));
        assert!(!lock.is_locked());
    }

    #[test]
    fn a_threads_guard_releases_the_lock_that_it_took_over() {
        let lock = TryLock::new(5);
        let killed = take(&lock, thread(21));
        drop(take(&lock, thread(22)));
        assert!(!lock.is_locked());
        core::mem::forget(killed);
    }
}
