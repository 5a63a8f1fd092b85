//! The present of [`Instant`]: by tickline's clock, by the clock that [`with_clock`] has put in its
//! place on this thread, or by the coarse time that somebody stored.

#[cfg(feature = "mock")]
use std::cell::RefCell;
#[cfg(feature = "mock")]
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::clock::Clock;
use crate::instant::Instant;
use crate::platform::Word;

/// The coarse time, ns; 0: none.
static RECENT_NS: Word = Word::new(0);

/// How many closures [`with_clock`] runs, on all threads. While there is none, readings skip the
/// thread-local.
#[cfg(feature = "mock")]
static REPLACED: AtomicUsize = AtomicUsize::new(0);

#[cfg(feature = "mock")]
thread_local! {
    static CURRENT: RefCell<Option<Clock>> = const { RefCell::new(None) };
}

/// Runs `f`, in which [`Instant`] reads `clock` on this thread. [`Clock`]s, and other threads, are
/// not affected. Calls may be nested; a panic of `f` ends the replacement too.
///
/// Without the feature `mock`, only runs `f`.
#[cfg_attr(feature = "mock", doc = "```")]
#[cfg_attr(not(feature = "mock"), doc = "```ignore")]
/// use std::time::Duration;
/// use quanta::{Clock, Instant, with_clock};
///
/// let (clock, mock) = Clock::mock();
/// with_clock(&clock, || {
///     let start = Instant::now();
///     mock.increment(Duration::from_secs(5));
///     assert_eq!(start.elapsed(), Duration::from_secs(5));
/// });
/// ```
pub fn with_clock<T>(clock: &Clock, f: impl FnOnce() -> T) -> T {
    #[cfg(feature = "mock")]
    let _replaced = Replaced::by(clock);
    #[cfg(not(feature = "mock"))]
    let _ = clock;
    f()
}

/// A replacement on this thread, until it is dropped.
#[cfg(feature = "mock")]
struct Replaced {
    previous: Option<Clock>,
}

#[cfg(feature = "mock")]
impl Replaced {
    fn by(clock: &Clock) -> Self {
        // ORDERING: Relaxed: a thread reads only its own `CURRENT`, and its own increment.
        REPLACED.fetch_add(1, Ordering::Relaxed);
        Self { previous: CURRENT.replace(Some(clock.clone())) }
    }
}

#[cfg(feature = "mock")]
impl Drop for Replaced {
    fn drop(&mut self) {
        CURRENT.set(self.previous.take());
        // ORDERING: Relaxed, as in `by`.
        REPLACED.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The present of [`Instant::now`], ns.
#[inline]
pub(crate) fn now() -> Instant {
    #[cfg(feature = "mock")]
    // ORDERING: Relaxed, as in `Replaced::by`.
    if REPLACED.load(Ordering::Relaxed) != 0 {
        if let Some(instant) = replaced_now() {
            return instant;
        }
    }
    Instant::from_ns(tickline::now_ns())
}

/// The present of the clock that takes tickline's place on this thread; `None` if none does, or if
/// the thread is ending.
#[cfg(feature = "mock")]
#[cold]
fn replaced_now() -> Option<Instant> {
    CURRENT.try_with(|clock| clock.try_borrow().ok()?.as_ref().map(Clock::now)).ok()?
}

/// The coarse time, as it was stored; the instant 0 if it was not.
#[inline]
pub(crate) fn stored() -> Instant {
    Instant::from_ns(RECENT_NS.load())
}

/// The present of [`Instant::recent`].
#[inline]
pub(crate) fn recent() -> Instant {
    match RECENT_NS.load() {
        0 => now(),
        ns => Instant::from_ns(ns),
    }
}

/// Stores the coarse time, for all threads. An [`Upkeep`](crate::Upkeep) does so in an interval; a
/// program with timers of its own may do it in their place. The instant 0, which a new mock clock
/// shows, is as if none had been stored.
///
/// ```
/// use quanta::{Clock, Instant, set_recent};
///
/// let now = Clock::new().now();
/// set_recent(now);
/// assert_eq!(Instant::recent(), now);
/// ```
pub fn set_recent(instant: Instant) {
    RECENT_NS.store(instant.as_ns());
}
