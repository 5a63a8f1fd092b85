//! An instant that threads share.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::instant::Instant;

/// An [`Instant`] that threads load and store without a lock, 8 bytes: a deadline, or when
/// something was last used.
///
/// Each method takes the `Ordering` that `AtomicU64` takes in its place, and panics for the ones
/// that `AtomicU64` refuses. The order of an instant says nothing about the order of other memory.
/// The default is [`Instant::ZERO`].
///
/// ```
/// use std::sync::atomic::Ordering::Relaxed;
/// use tickline::{AtomicInstant, Instant};
///
/// static LAST_USED: AtomicInstant = AtomicInstant::new(Instant::ZERO);
///
/// LAST_USED.fetch_max(Instant::now_ordered(), Relaxed); // never back, whoever comes last
/// println!("idle for {:?}", LAST_USED.load(Relaxed).elapsed());
/// ```
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct AtomicInstant {
    ns: AtomicU64,
}

impl AtomicInstant {
    /// Holds `instant`.
    #[must_use]
    pub const fn new(instant: Instant) -> Self {
        Self { ns: AtomicU64::new(instant.as_nanos()) }
    }

    /// The instant.
    ///
    /// # Panics
    ///
    /// If `order` is `Release` or `AcqRel`.
    #[inline]
    #[must_use]
    pub fn load(&self, order: Ordering) -> Instant {
        // ORDERING: the caller's, who knows the partner; so in every method.
        Instant::from_nanos(self.ns.load(order))
    }

    /// Stores `instant`.
    ///
    /// # Panics
    ///
    /// If `order` is `Acquire` or `AcqRel`.
    #[inline]
    pub fn store(&self, instant: Instant, order: Ordering) {
        // ORDERING: the caller's.
        self.ns.store(instant.as_nanos(), order);
    }

    /// Stores `instant`, and returns the one before.
    #[inline]
    pub fn swap(&self, instant: Instant, order: Ordering) -> Instant {
        // ORDERING: the caller's.
        Instant::from_nanos(self.ns.swap(instant.as_nanos(), order))
    }

    /// Stores the later of this and `instant`, and returns the one before.
    #[inline]
    pub fn fetch_max(&self, instant: Instant, order: Ordering) -> Instant {
        // ORDERING: the caller's.
        Instant::from_nanos(self.ns.fetch_max(instant.as_nanos(), order))
    }

    /// Stores the earlier of this and `instant`, and returns the one before.
    #[inline]
    pub fn fetch_min(&self, instant: Instant, order: Ordering) -> Instant {
        // ORDERING: the caller's.
        Instant::from_nanos(self.ns.fetch_min(instant.as_nanos(), order))
    }

    /// Stores `new` if this is `current`. Returns the instant before.
    ///
    /// # Errors
    ///
    /// The instant that was found in place of `current`; then nothing is stored.
    ///
    /// # Panics
    ///
    /// If `failure` is `Release` or `AcqRel`.
    #[inline]
    pub fn compare_exchange(
        &self,
        current: Instant,
        new: Instant,
        success: Ordering,
        failure: Ordering,
    ) -> Result<Instant, Instant> {
        // ORDERING: the caller's.
        let result = self.ns.compare_exchange(current.as_nanos(), new.as_nanos(), success, failure);
        result.map(Instant::from_nanos).map_err(Instant::from_nanos)
    }

    /// As [`compare_exchange`](Self::compare_exchange), but may fail though this is `current`, and
    /// is faster in a loop on some processors.
    ///
    /// # Errors
    ///
    /// The instant that was found; then nothing is stored.
    ///
    /// # Panics
    ///
    /// If `failure` is `Release` or `AcqRel`.
    #[inline]
    pub fn compare_exchange_weak(
        &self,
        current: Instant,
        new: Instant,
        success: Ordering,
        failure: Ordering,
    ) -> Result<Instant, Instant> {
        // ORDERING: the caller's.
        let result = self.ns.compare_exchange_weak(current.as_nanos(), new.as_nanos(), success, failure);
        result.map(Instant::from_nanos).map_err(Instant::from_nanos)
    }

    /// The instant, from its only owner.
    #[must_use]
    pub fn into_inner(self) -> Instant {
        Instant::from_nanos(self.ns.into_inner())
    }
}

impl From<Instant> for AtomicInstant {
    fn from(instant: Instant) -> Self {
        Self::new(instant)
    }
}
