//! Linux: a futex on which threads sleep until another one releases a lock.

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;

use tickline_core::reference::Reference;

use super::sleep::futex;
use crate::sys::reference::OsClock;

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
    const LONGEST_NS: i32 = 16_000_000;

    /// Sleeps until there is a release that `count` does not include, or until a signal, for 16 ms
    /// at most. Returns the time if there was no release in it. A time for which the whole process
    /// was stopped counts as 16 ms.
    pub(crate) fn wait(&self, count: u32) -> Option<Duration> {
        let begun_ns = OsClock.monotonic_ns();
        let timeout = [0, Self::LONGEST_NS.into()];
        futex(&self.0, libc::FUTEX_WAIT, count, Some(&timeout));
        let waited_ns = OsClock.monotonic_ns().saturating_sub(begun_ns);
        let waited_ns = waited_ns.clamp(0, Self::LONGEST_NS.into());
        (self.count() == count).then_some(Duration::from_nanos(waited_ns.unsigned_abs()))
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
    use crate::sys::interrupted;

    #[test]
    fn a_wait_without_a_release_says_how_long_it_was() {
        let releases = Releases::new();
        let waited = releases.wait(releases.count());
        // The OS clock may be coarse.
        assert!(waited.is_some_and(|time| !time.is_zero()), "{waited:?}");
    }

    /// Symptom: in a program with a handler for a timer of 10 ms, a start that could not succeed
    /// waited for ever.
    #[test]
    fn a_wait_that_a_signal_ends_says_how_long_it_was() {
        let releases = Releases::new();
        let waited = interrupted(|| releases.wait(releases.count()));
        assert!(waited.is_some_and(|time| !time.is_zero()), "{waited:?}");
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
