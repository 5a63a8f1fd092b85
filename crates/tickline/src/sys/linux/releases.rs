//! Linux: a futex on which threads sleep until another one releases a lock.

use core::sync::atomic::{AtomicU32, Ordering};

use super::sleep::futex;

/// A count of the releases of a lock. A thread that finds the lock taken sleeps until the count
/// changes. The kernel wakes the waiting thread with the highest priority at the release, before
/// another one can take the lock again and again.
#[derive(Debug)]
pub(crate) struct Releases(AtomicU32);

impl Releases {
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// The count. Ask before an attempt to take the lock.
    pub(crate) fn count(&self) -> u32 {
        // ORDERING: Acquire, pairs with the Release in `announce`: the attempt on the lock comes after
        // this load. Weaker would let the count include a release that the attempt does not see, and
        // the thread would sleep on. No test sees a weaker one: Miri has no such futex.
        self.0.load(Ordering::Acquire)
    }

    /// Sleeps until there is a release that `count` does not include, or until a signal. Returns at
    /// once if there was one.
    pub(crate) fn wait(&self, count: u32) {
        futex(&self.0, libc::FUTEX_WAIT, count, None);
    }

    /// Announces a release, after it. Wakes one thread: the others are woken by its release.
    pub(crate) fn announce(&self) {
        // ORDERING: Release, pairs with the Acquire in `count`: the lock is free before the count
        // changes. No test sees a weaker one, as in `count`.
        self.0.fetch_add(1, Ordering::Release);
        futex(&self.0, libc::FUTEX_WAKE, 1, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_before_or_during_a_wait_ends_it() {
        let releases = Releases::new();
        let before = releases.count();
        releases.announce();
        releases.wait(before);
        let before = releases.count();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while releases.count() == before {
                    releases.wait(before);
                }
            });
            std::thread::sleep(core::time::Duration::from_millis(20));
            releases.announce();
        });
    }
}
