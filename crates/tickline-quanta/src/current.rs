//! The present of [`Instant`]. It comes from tickline's clock, from the clock with which
//! [`with_clock`] has replaced it on this thread, or from the stored recent time.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::clock::Clock;
use crate::instant::Instant;
use crate::recent;

/// The number of closures that [`with_clock`] is running, on all threads. While it is 0, readings
/// skip the thread-local. Without the feature `mock`, readings skip both.
static REPLACED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static CURRENT: RefCell<Option<Clock>> = const { RefCell::new(None) };
}

/// Runs `f`. Within `f`, [`Instant`] reads `clock` on this thread. [`Clock`]s and other threads
/// keep their time. Calls may be nested, and a panic of `f` also ends the replacement.
///
/// Without the feature `mock`, this only runs `f`.
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
    let _replaced = cfg!(feature = "mock").then(|| Replaced::new(clock));
    f()
}

/// A replacement on this thread, until it is dropped.
struct Replaced {
    previous: Option<Clock>,
}

impl Replaced {
    fn new(clock: &Clock) -> Self {
        let previous = CURRENT.replace(Some(clock.clone()));
        // ORDERING: Relaxed: a thread reads only its own `CURRENT`, and its own increment.
        REPLACED.fetch_add(1, Ordering::Relaxed);
        Self { previous }
    }
}

impl Drop for Replaced {
    fn drop(&mut self) {
        CURRENT.set(self.previous.take());
        // ORDERING: Relaxed: a thread reads only its own `CURRENT`, and its own decrement.
        REPLACED.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Instant {
    /// The present, in order within a thread; between threads, see [Order](crate#order). Inside
    /// [`with_clock`](crate::with_clock), the present of the replacing clock.
    #[inline]
    #[must_use]
    pub fn now() -> Self {
        // ORDERING: Relaxed: only this thread's own increment, in `Replaced::new`, matters.
        if cfg!(feature = "mock")
            && REPLACED.load(Ordering::Relaxed) != 0
            && let Some(instant) = replaced_now()
        {
            return instant;
        }
        Self::from_ns(tickline::now_ns())
    }

    /// The recent time: the time that an [`Upkeep`](crate::Upkeep) or
    /// [`set_recent`](crate::set_recent) stored last, even inside
    /// [`with_clock`](crate::with_clock). If nothing was stored, this is [`now`](Self::now).
    #[inline]
    #[must_use]
    pub fn recent() -> Self {
        match recent::stored().as_ns() {
            0 => Self::now(),
            ns => Self::from_ns(ns),
        }
    }
}

/// The present of the clock that replaces tickline's on this thread. `None` without such a clock,
/// or if the thread is ending.
#[cold]
fn replaced_now() -> Option<Instant> {
    CURRENT
        .try_with(|clock| clock.try_borrow().ok()?.as_ref().map(Clock::now))
        .ok()?
}
