//! A clock for tests, moved by hand. Needs the feature `mock`.
//!
//! On the thread that activates it, the mock takes the place of the clock behind `Instant`,
//! `UnixTime` and the free functions. Other threads, and clocks as values (`Clock::global()` too),
//! go on with the real time. If code runs on several threads, let its caller pass in the clock. A
//! test then passes [`MockClock::clock`], and activates nothing.
//!
//! With the feature, every reading tests a flag first. If a program has the feature only among its
//! `[dev-dependencies]` (`cargo add --dev tickline --features mock`), cargo builds the program
//! without it.
//!
//! ```
//! use std::time::Duration;
//! use tickline::{Instant, mock::MockClock};
//!
//! let clock = MockClock::new();
//! let _active = clock.activate(); // for this thread, until dropped
//! let start = Instant::now();
//! clock.advance(Duration::from_secs(5));
//! assert_eq!(start.elapsed(), Duration::from_secs(5));
//! ```

use core::cell::RefCell;
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
#[cfg(feature = "utc")]
use std::sync::{Mutex, PoisonError};

use crate::instant::Instant;
use crate::unix_time::UnixTime;
#[cfg(feature = "utc")]
use crate::utc::{UtcReading, UtcUnknown};

/// How many mocks are active, on all threads. While it is 0, readings skip the thread-local stack.
static ACTIVE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static CURRENT: RefCell<Vec<MockClock>> = const { RefCell::new(Vec::new()) };
}

/// A clock that stands still until it is moved. Clones are the same clock.
///
/// ```
/// use std::time::Duration;
/// use tickline::{UnixTime, mock::MockClock};
///
/// let clock = MockClock::new();
/// let _active = clock.activate();
/// let before = UnixTime::now();
/// clock.step_unix_ns(-1_000); // somebody sets the clock
/// clock.advance(Duration::from_nanos(2_000));
/// assert_eq!(UnixTime::now(), before + Duration::from_nanos(1_000));
/// ```
#[derive(Debug, Clone)]
pub struct MockClock(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    monotonic_ns: AtomicU64,
    /// Unix minus monotonic, ns.
    unix_offset_ns: AtomicI64,
    /// How far UTC may be from Unix time, or why it is not known.
    #[cfg(feature = "utc")]
    utc_error: Mutex<Result<Duration, UtcUnknown>>,
    /// When the mock was made, if it follows tokio's clock.
    #[cfg(feature = "tokio")]
    tokio_start: Option<tokio::time::Instant>,
}

impl Inner {
    fn new() -> Self {
        const START_NS: u64 = 1_000_000_000;
        const UNIX_START_S: i64 = 1_767_225_600;
        Self {
            monotonic_ns: AtomicU64::new(START_NS),
            unix_offset_ns: AtomicI64::new((UNIX_START_S - 1) * 1_000_000_000),
            #[cfg(feature = "utc")]
            utc_error: Mutex::new(Ok(Duration::ZERO)),
            #[cfg(feature = "tokio")]
            tokio_start: None,
        }
    }
}

impl Default for MockClock {
    fn default() -> Self {
        Self::new()
    }
}

impl MockClock {
    /// A clock at 1 s of monotonic time and 2026-01-01 00:00:00 UTC.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Inner::new()))
    }

    /// The same clock, but it also moves as tokio's does: `tokio::time::pause` stops it, and
    /// `tokio::time::advance`, or a sleep while tokio's clock is paused, moves it. Needs the
    /// feature `tokio`.
    ///
    /// Outside of a runtime tokio's clock is std's, even while a runtime has paused its own. Read
    /// the mock on the runtime's threads.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickline::mock::MockClock;
    ///
    /// let paused = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    /// paused.expect("a runtime").block_on(async {
    ///     let clock = MockClock::from_tokio().clock(); // for code that is given its clock
    ///     let start = clock.now();
    ///     tokio::time::sleep(Duration::from_secs(60)).await;
    ///     assert_eq!(clock.now() - start, Duration::from_secs(60));
    /// });
    /// ```
    #[cfg(feature = "tokio")]
    #[must_use]
    pub fn from_tokio() -> Self {
        Self(Arc::new(Inner { tokio_start: Some(tokio::time::Instant::now()), ..Inner::new() }))
    }

    /// Moves both clocks forward. Saturates at the end of 64-bit nanoseconds.
    pub fn advance(&self, duration: Duration) {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let later = |now_ns: u64| Some(now_ns.saturating_add(ns));
        // ORDERING: Relaxed for both: a test that moves the clock on one thread and reads it on
        // another orders the two itself.
        self.0.monotonic_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later).ok();
    }

    /// Sets Unix time forward (or back, if negative) by `ns`; monotonic time is not affected.
    /// Saturates 292 years before and after monotonic time.
    pub fn step_unix_ns(&self, ns: i64) {
        let stepped = |offset_ns: i64| Some(offset_ns.saturating_add(ns));
        // ORDERING: Relaxed for both, as in `advance`.
        self.0.unix_offset_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, stepped).ok();
    }

    /// How far UTC may be from this clock's Unix time, or why it is not known: what
    /// [`Clock::utc`](crate::Clock::utc) is to return. A new mock has an error of 0. Needs the
    /// feature `utc`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickline::{mock::MockClock, utc::UtcUnknown};
    ///
    /// let mock = MockClock::new();
    /// mock.set_utc_error(Ok(Duration::from_millis(1)));
    /// assert_eq!(mock.clock().utc()?.width(), Duration::from_millis(2));
    /// mock.set_utc_error(Err(UtcUnknown::Expired)); // the NTP daemon dies
    /// assert_eq!(mock.clock().utc(), Err(UtcUnknown::Expired));
    /// # Ok::<(), UtcUnknown>(())
    /// ```
    #[cfg(feature = "utc")]
    pub fn set_utc_error(&self, error: Result<Duration, UtcUnknown>) {
        *self.0.utc_error.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }

    /// UTC.
    #[cfg(feature = "utc")]
    pub(crate) fn utc(&self) -> Result<UtcReading, UtcUnknown> {
        let error = *self.0.utc_error.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(UtcReading::of_mock(self.unix_now(), error?))
    }

    /// Monotonic time.
    pub(crate) fn now(&self) -> Instant {
        // ORDERING: Relaxed, as in `advance`.
        let by_hand_ns = self.0.monotonic_ns.load(Ordering::Relaxed);
        #[cfg(feature = "tokio")]
        if let Some(start) = self.0.tokio_start {
            let ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            return Instant::from_nanos(by_hand_ns.saturating_add(ns));
        }
        Instant::from_nanos(by_hand_ns)
    }

    /// Unix time; 1970 before that, and the last time of the type after the year 2554.
    pub(crate) fn unix_now(&self) -> UnixTime {
        // ORDERING: Relaxed, as in `advance`.
        let offset_ns = self.0.unix_offset_ns.load(Ordering::Relaxed);
        UnixTime::from_nanos(self.now().as_nanos().saturating_add_signed(offset_ns))
    }

    /// Lets [`Instant`], [`UnixTime`] and the free functions of
    /// this crate read this clock on this thread, until the guard is dropped. The mock that was
    /// activated last counts.
    #[must_use = "the mock is active until the guard is dropped"]
    pub fn activate(&self) -> MockGuard {
        CURRENT.with_borrow_mut(|stack| stack.push(self.clone()));
        // ORDERING: Relaxed: only this thread reads its own stack.
        ACTIVE.fetch_add(1, Ordering::Relaxed);
        MockGuard { clock: self.clone(), not_send: core::marker::PhantomData }
    }
}

/// Keeps a [`MockClock`] active on its thread.
///
/// ```
/// use std::time::Duration;
/// use tickline::{Instant, mock::MockClock};
///
/// let (outer, inner) = (MockClock::new(), MockClock::new());
/// inner.advance(Duration::from_secs(1));
/// let _outer = outer.activate();
/// let before = Instant::now();
/// let active = inner.activate(); // the last one counts
/// assert_eq!(before.elapsed(), Duration::from_secs(1));
/// drop(active);
/// assert_eq!(before.elapsed(), Duration::ZERO);
/// ```
#[derive(Debug)]
pub struct MockGuard {
    clock: MockClock,
    /// The guard belongs to its thread.
    not_send: core::marker::PhantomData<*const ()>,
}

impl Drop for MockGuard {
    fn drop(&mut self) {
        // ORDERING: Relaxed, as in `activate`.
        ACTIVE.fetch_sub(1, Ordering::Relaxed);
        CURRENT.with_borrow_mut(|stack| {
            if let Some(place) = stack.iter().rposition(|clock| Arc::ptr_eq(&clock.0, &self.clock.0)) {
                stack.remove(place);
            }
        });
    }
}

/// The mock that is active on this thread, read by `read`.
#[inline]
pub(crate) fn active<T>(read: impl FnOnce(&MockClock) -> T) -> Option<T> {
    // ORDERING: Relaxed, as in `activate`.
    if ACTIVE.load(Ordering::Relaxed) == 0 {
        return None;
    }
    CURRENT.try_with(|stack| stack.try_borrow().ok()?.last().map(read)).ok()?
}
