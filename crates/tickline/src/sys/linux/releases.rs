//! Linux: a futex on which threads sleep until another one releases a lock.

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;

use super::sleep::{FutexEnd, futex};

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
        // ORDERING: Acquire, pairs with the Release in `announce`: the attempt on the lock comes
        // after this load. Weaker would let the count include a release that the attempt does not
        // see, and the thread would sleep on. No test sees a weaker one: Miri has no such futex.
        self.0.load(Ordering::Acquire)
    }

    /// The longest sleep, ns. A holder that was killed announces nothing: a sleeper finds out when
    /// it tries again.
    const LONGEST_NS: u32 = 16_000_000;

    /// Sleeps until there is a release that `count` does not include, or until a signal, for 16 ms
    /// at most. Returns the time if there was no release in it.
    pub(crate) fn wait(&self, count: u32) -> Option<Duration> {
        let timeout = [0, Self::LONGEST_NS.cast_signed().into()];
        match futex(&self.0, libc::FUTEX_WAIT, count, Some(&timeout)) {
            FutexEnd::TimedOut => Some(Duration::from_nanos(Self::LONGEST_NS.into())),
            FutexEnd::Other => None,
        }
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
    fn a_wait_without_a_release_says_how_long_it_was() {
        let releases = Releases::new();
        let waited = releases.wait(releases.count());
        assert_eq!(waited, Some(Duration::from_millis(16)));
    }

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
            std::thread::sleep(Duration::from_millis(20));
            releases.announce();
        });
    }
}
