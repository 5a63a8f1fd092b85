//! A lock for which no forked child waits for ever.
//!
//! A child has only the thread that forked. If another thread of the parent held a lock at the
//! fork, it stays locked in the child, and what it protects may be half changed. A child therefore
//! gives such a lock up after a while. A `pthread_atfork` handler could take all locks before a
//! fork; but it would then wait for them at each fork, and deadlock if the thread that forks holds
//! one.
//!
//! A seccomp filter may kill one thread alone. If that thread has such a lock, the others wait for
//! ever, except for a lock that is taken by [`ProcessMutex::lock_unless`]. The other locks are held
//! for microseconds, in which the only system calls are the allocator's, and taking note of the
//! holder would cost more than the lock.

use core::hint::spin_loop;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread;

use spin::mutex::{SpinMutex, SpinMutexGuard};
use tickline::process_token;

/// How often a thread of a forked child tries to take a lock, 50 us apart. Another thread of the
/// child holds a lock for microseconds.
pub(crate) const TRIES_OF_CHILD: u32 = 1_000;

/// Calls `lock` until it returns a guard; `None` after `tries` failures, as in a forked child if a
/// thread of the parent held the lock.
pub(crate) fn lock_with_retries<G>(tries: u32, lock: impl Fn() -> Option<G>) -> Option<G> {
    (0..tries).find_map(|_| {
        let guard = lock();
        if guard.is_none() {
            thread::sleep(Duration::from_micros(50));
        }
        guard
    })
}

/// Tries to take a lock that another thread holds for some ns.
pub(crate) fn spin<T>(mutex: &SpinMutex<T>) -> Option<SpinMutexGuard<'_, T>> {
    (0..100).find_map(|_| {
        let guard = mutex.try_lock();
        if guard.is_none() {
            spin_loop();
        }
        guard
    })
}

/// Waits for a lock that another thread holds for some ns. If the holder was preempted, this thread
/// sleeps, so that the holder gets the CPU even if its priority is lower.
#[cfg(all(unix, feature = "trace-file"))]
#[cold]
pub(crate) fn spin_then_sleep<T>(mutex: &SpinMutex<T>) -> SpinMutexGuard<'_, T> {
    loop {
        if let Some(guard) = spin(mutex) {
            return guard;
        }
        thread::sleep(Duration::from_micros(50));
    }
}

/// A mutex that ignores poison, and that a forked child gives up.
#[derive(Debug)]
pub(crate) struct ProcessMutex<T> {
    mutex: Mutex<T>,
    /// The process that made the mutex.
    process: u64,
    /// The last forked child that has locked it, or 0. No thread of that child's parent held it at
    /// the fork.
    child: AtomicU64,
    /// Whether this process has given the lock up: a forked child, or after `was_killed`.
    is_lost: AtomicBool,
}

impl<T: Default> Default for ProcessMutex<T> {
    fn default() -> Self {
        Self {
            mutex: Mutex::default(),
            process: process_token(),
            child: AtomicU64::new(0),
            is_lost: AtomicBool::new(false),
        }
    }
}

impl<T> ProcessMutex<T> {
    /// Locks the value. `None` in a forked child if a thread of the parent held the lock at the
    /// fork. Only the first such call waits, for 50 ms.
    pub(crate) fn lock(&self) -> Option<MutexGuard<'_, T>> {
        self.lock_or(|| Some(self.mutex.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Like [`lock`](Self::lock), for a lock that a thread may have for long, and with which a
    /// filter may kill it. `None` also if `was_killed` says so of the thread that has the lock. The
    /// question may open a file, so it is asked each 100 ms.
    #[cfg(feature = "trace-file")]
    pub(crate) fn lock_unless(&self, was_killed: impl Fn() -> bool) -> Option<MutexGuard<'_, T>> {
        self.lock_or(|| {
            loop {
                for _ in 0..100 {
                    let guard = self.try_lock();
                    if guard.is_some() {
                        return guard;
                    }
                    thread::sleep(Duration::from_millis(1));
                }
                if was_killed() {
                    // A holder that ended properly has released the lock by now.
                    return self.try_lock();
                }
            }
        })
    }

    /// Locks the value. `wait` waits for the lock in a process in which its holder exists.
    fn lock_or<'a>(
        &'a self,
        wait: impl Fn() -> Option<MutexGuard<'a, T>>,
    ) -> Option<MutexGuard<'a, T>> {
        // ORDERING: Relaxed: the flag publishes no other memory.
        if self.is_lost.load(Ordering::Relaxed) {
            return None;
        }
        // The answer of `wait` is final.
        let guard = lock_with_retries(TRIES_OF_CHILD, || match self.try_lock() {
            None if self.was_here() => Some(wait()),
            None => None,
            locked => Some(locked),
        });
        let guard = guard.flatten();
        // ORDERING: Relaxed for both, as above.
        if guard.is_none() {
            self.is_lost.store(true, Ordering::Relaxed);
        } else if !self.was_here() {
            self.child.store(process_token(), Ordering::Relaxed);
        }
        guard
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.mutex.try_lock() {
            Ok(guard) => Some(guard),
            // The error has the guard.
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Whether this process made the mutex, or has locked it.
    fn was_here(&self) -> bool {
        let process = process_token();
        // ORDERING: Relaxed: the token publishes no other memory.
        process == self.process || process == self.child.load(Ordering::Relaxed)
    }

    /// Fills the cell, and returns whether it was empty; `None` if the lock is lost. If each thread
    /// fills cells in this way, a forked child finds no cell that is being filled. It would wait
    /// for such a cell for ever.
    pub(crate) fn fill<C>(&self, cell: &OnceLock<C>, content: C) -> Option<bool> {
        let guard = self.lock()?;
        let result = cell.set(content);
        drop(guard);
        // No memory is freed under the lock, because the allocator may create spans.
        Some(result.is_ok())
    }

    /// Makes the mutex as a forked child finds it if a thread of its parent held the lock.
    #[cfg(test)]
    pub(crate) fn hold_for_ever_in_parent(&mut self) {
        core::mem::forget(self.mutex.lock());
        self.process ^= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};

    use super::*;

    #[test]
    fn a_child_gives_a_lock_up_that_a_thread_of_its_parent_held() {
        let mut mutex = ProcessMutex::<()>::default();
        mutex.hold_for_ever_in_parent();
        assert!(mutex.lock().is_none());
    }

    #[test]
    fn a_thread_waits_for_another_thread_of_its_process() {
        assert_waits_for_another_thread(&ProcessMutex::default());
    }

    /// Symptom: a child gave a lock up for ever, because one of its own threads was preempted for
    /// long while it held the lock.
    #[test]
    fn a_thread_of_a_child_waits_for_another_one() {
        let mut mutex = ProcessMutex::<u32>::default();
        mutex.process ^= 1;
        assert_waits_for_another_thread(&mutex);
    }

    /// Symptom: a thread waited for itself, after another one had panicked with the lock.
    #[test]
    fn a_poisoned_mutex_is_locked() {
        let mutex = Arc::new(ProcessMutex::<u32>::default());
        let poisoned = Arc::clone(&mutex);
        let panics = move || {
            let _guard = poisoned.lock().unwrap();
            panic!("with the lock");
        };
        thread::spawn(panics).join().unwrap_err();
        let (sender, locked) = mpsc::channel();
        thread::spawn(move || sender.send(mutex.lock().is_some()));
        assert_eq!(locked.recv_timeout(Duration::from_secs(10)), Ok(true));
    }

    /// Symptom: no later panic wrote its trace. Cause: a thread that ended just after it had
    /// released the lock counted as killed with it.
    #[test]
    #[cfg(feature = "trace-file")]
    fn a_lock_whose_holder_has_released_it_and_ended_is_taken() {
        let mutex = ProcessMutex::<()>::default();
        let held = core::cell::Cell::new(mutex.lock());
        let ends_properly = || {
            drop(held.take());
            true
        };
        assert!(mutex.lock_unless(ends_properly).is_some());
    }

    fn assert_waits_for_another_thread(mutex: &ProcessMutex<u32>) {
        let mut first = mutex.lock().unwrap();
        thread::scope(|scope| {
            let second = scope.spawn(|| *mutex.lock().unwrap());
            thread::sleep(Duration::from_millis(400));
            *first = 7;
            drop(first);
            assert_eq!(second.join().unwrap(), 7);
        });
    }
}
