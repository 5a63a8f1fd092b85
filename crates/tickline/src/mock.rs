//! A clock for tests, moved by hand. Needs the feature `mock`.
//!
//! On the thread that activates it, the mock takes the place of the clock behind `Instant`,
//! `UnixTime` and the free functions. Other threads, and values of type [`Clock`] (also
//! `Clock::global()`), continue to show the real time. If code runs on several threads, let its
//! caller pass in the clock. A test then passes [`MockClock::clock`], and activates nothing.
//! Measure there with `clock.elapsed(start)`: `start.elapsed()` reads the real clock.
//!
//! With the feature `mock`, readings without a [`Clock`] test a flag first. Name the feature only
//! among the `[dev-dependencies]`, and cargo builds the program without it. With a clone of the
//! repository beside your project, that is
//! `cargo add --path ../tickline/crates/tickline --dev --features mock`. It needs cargo's
//! resolver 2 or later: the default from edition 2021 on, which a virtual workspace must name.
//! Tests, examples and benchmarks of the same package have the feature. To measure readings there
//! without the flag, put the tests that use the mock into a package of their own, and run
//! `cargo bench -p PACKAGE`: with `--workspace` a package gets the features that others ask for.
//!
//! ```
//! use std::time::Duration;
//! use tickline::{Instant, mock::MockClock};
//!
//! let mock = MockClock::new();
//! let _active = mock.activate(); // for this thread, until dropped
//! let start = Instant::now();
//! mock.advance(Duration::from_secs(5));
//! assert_eq!(start.elapsed(), Duration::from_secs(5));
//! ```

use core::cell::RefCell;
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant as StdInstant;

use crate::backend::Backend;
use crate::clock::Clock;
use crate::engine::Engine;
use crate::instant::Instant;
use crate::reading::Reading;
use crate::settings::Driver;
use crate::status::ClockState;
use crate::unix_time::UnixTime;

/// The number of active mocks, on all threads. While it is 0, readings skip the thread-local stack.
static ACTIVE: AtomicUsize = AtomicUsize::new(0);

/// The monotonic time at which a mock stands still: [`Instant::MAX`].
const END_NS: u64 = Instant::MAX.as_nanos();

thread_local! {
    static CURRENT: RefCell<Vec<Arc<MockClock>>> = const { RefCell::new(Vec::new()) };
}

/// A mock: a clock that stands still until it is moved. Clones are the same mock.
///
/// ```
/// use std::time::Duration;
/// use tickline::{UnixTime, mock::MockClock};
///
/// let mock = MockClock::new();
/// let _active = mock.activate();
/// let before = UnixTime::now();
/// mock.advance(Duration::from_secs(5));
/// assert_eq!(UnixTime::now(), before + Duration::from_secs(5));
/// mock.set_unix_time(UnixTime::from_secs(1_893_456_000)); // the OS clock is set, to 2030
/// assert_eq!(format!("{:.0}", UnixTime::now()), "2030-01-01T00:00:00Z");
/// ```
#[derive(Debug, Clone)]
pub struct MockClock {
    time: Arc<MockTime>,
    /// Shows `time`.
    clock: Clock,
}

#[derive(Debug)]
struct MockTime {
    monotonic_ns: AtomicU64,
    /// Unix minus monotonic, ns.
    unix_offset_ns: AtomicI64,
    /// The clock that the mock follows, if any.
    followed: Option<Followed>,
}

#[derive(Debug)]
struct Followed {
    now: fn() -> StdInstant,
    /// The followed clock's time when the mock was created.
    start: StdInstant,
}

impl Followed {
    fn elapsed(&self) -> Duration {
        (self.now)().saturating_duration_since(self.start)
    }
}

impl MockTime {
    /// Moves the monotonic time forward. Unix time follows, at its offset.
    fn advance(&self, duration: Duration) {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let later = |now_ns: u64| Some(now_ns.saturating_add(ns).min(END_NS));
        // ORDERING: Relaxed: a test that moves the clock on one thread and reads it on another
        // orders the two itself.
        self.monotonic_ns
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, later)
            .ok();
    }

    /// The monotonic time, ns.
    fn monotonic_ns(&self) -> u64 {
        // ORDERING: Relaxed, as in `advance`.
        let by_hand_ns = self.monotonic_ns.load(Ordering::Relaxed);
        let followed = self
            .followed
            .as_ref()
            .map_or(Duration::ZERO, Followed::elapsed);
        let followed_ns = u64::try_from(followed.as_nanos()).unwrap_or(u64::MAX);
        by_hand_ns.saturating_add(followed_ns).min(END_NS)
    }
}

impl Backend for MockTime {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.monotonic_ns())
    }

    /// Saturates at 1970, and at the last time of the type, in the year 2554.
    fn unix_now(&self) -> UnixTime {
        // ORDERING: Relaxed, as in `advance`.
        let offset_ns = self.unix_offset_ns.load(Ordering::Relaxed);
        UnixTime::from_nanos(self.monotonic_ns().saturating_add_signed(offset_ns))
    }

    /// The upper bound is 1 ns higher, as in a reading by an OS clock.
    fn reading(&self) -> Reading<Instant> {
        let now = self.now();
        Reading::from_os_reading(now, now)
    }

    fn unix_reading(&self) -> Reading<UnixTime> {
        let now = self.unix_now();
        Reading::from_os_reading(now, now)
    }

    fn state(&self) -> ClockState {
        ClockState::Mock
    }
}

impl Default for MockClock {
    fn default() -> Self {
        Self::new()
    }
}

impl MockClock {
    /// A mock at 1 s of monotonic time and 2026-01-01 00:00:00 UTC.
    #[must_use]
    pub fn new() -> Self {
        Self::following(None)
    }

    fn following(clock: Option<fn() -> StdInstant>) -> Self {
        const START_NS: u64 = 1_000_000_000;
        const UNIX_START_S: i64 = 1_767_225_600;
        let time = Arc::new(MockTime {
            monotonic_ns: AtomicU64::new(START_NS),
            unix_offset_ns: AtomicI64::new((UNIX_START_S - 1) * 1_000_000_000),
            followed: clock.map(|now| Followed { now, start: now() }),
        });
        let mut engine = Engine::new(Driver::Manual);
        engine.set_backend(Arc::<MockTime>::clone(&time));
        engine.followed_now = clock;
        Self {
            clock: Clock::from_engine(Arc::new(engine), None),
            time,
        }
    }

    /// Like [`new`](Self::new), but the mock also moves with tokio's clock: `tokio::time::pause`
    /// stops it, and `tokio::time::advance`, or a sleep while tokio's clock is paused, moves it.
    /// Needs the feature `tokio`.
    ///
    /// [`Clock::std_anchor`], or [`Anchor::std`](crate::Anchor::std) while the mock is active,
    /// converts deadlines to tokio's clock, and tokio's instants back:
    /// `sleep_until(clock.std_anchor().to_std(deadline).into())`. An anchor stays right until the
    /// mock itself is [moved](Self::advance).
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
    ///     let clock = MockClock::from_tokio().clock(); // a clock to inject
    ///     let start = clock.now();
    ///     tokio::time::sleep(Duration::from_secs(60)).await;
    ///     assert_eq!(clock.now() - start, Duration::from_secs(60));
    /// });
    /// ```
    #[cfg(feature = "tokio")]
    #[must_use]
    pub fn from_tokio() -> Self {
        Self::following(Some(|| tokio::time::Instant::now().into_std()))
    }

    /// A [`Clock`] that shows this mock's time, on every thread, for code that gets its clock from
    /// its caller ([A clock to inject](Clock#a-clock-to-inject)).
    ///
    /// The bounds of its readings are as narrow as possible. Its state is
    /// [`Mock`](ClockState::Mock).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickline::mock::MockClock;
    ///
    /// let mock = MockClock::new();
    /// let clock = mock.clock();
    /// let start = clock.now();
    /// mock.advance(Duration::from_secs(5));
    /// let elsewhere = std::thread::spawn(move || clock.now());
    /// assert_eq!(elsewhere.join().expect("no panic") - start, Duration::from_secs(5));
    /// ```
    pub fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// Moves both clocks forward, at most to [`Instant::MAX`] of monotonic time. It wakes no thread
    /// that waits for a later time ([A clock to inject](Clock#a-clock-to-inject)).
    pub fn advance(&self, duration: Duration) {
        self.time.advance(duration);
    }

    /// Sets Unix time, at most to 2262-04-11 (2^63 ns after 1970), and to no more than 292 years
    /// before monotonic time. Monotonic time is not affected.
    pub fn set_unix_time(&self, time: UnixTime) {
        let time_ns = 0_i64.saturating_add_unsigned(time.as_nanos());
        let offset_ns = time_ns.saturating_sub_unsigned(self.time.monotonic_ns());
        // ORDERING: Relaxed, as in `MockTime::advance`.
        self.time.unix_offset_ns.store(offset_ns, Ordering::Relaxed);
    }

    /// Lets `Instant`, `UnixTime` and the free functions of this crate read this mock on this
    /// thread, until the guard is dropped. Of several active mocks, the last one activated is read.
    ///
    /// A value of type [`Clock`] does not follow: `Clock::default()` and `Clock::global()` go on to
    /// show the real time. Code that keeps a `Clock` gets the one that [`clock`](Self::clock)
    /// returns, and needs no active mock:
    ///
    /// | the code under test | wrong | right |
    /// |---|---|---|
    /// | keeps a `Clock` | `let _active = mock.activate();` and `Store::new(Clock::default())`: the store's time does not move | `Store::new(mock.clock())` |
    /// | calls `Instant::now()` | `mock.advance(time)` without an active mock | `let _active = mock.activate();` |
    /// | does both | only one of the two | both, of one mock: `Instant::now()` and the `Clock` then show the same time |
    /// | calls `Instant::now()` on other threads | `let _active = mock.activate();` on the test's thread: the others read the real time, and a test of an expiry passes by accident | a `Clock` in the code: `mock.clock()` |
    /// | measures from an instant of its `Clock` | `Instant::now() - queued`: the difference of two clocks | `clock.elapsed(queued)` |
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickline::{Clock, Instant, mock::MockClock};
    ///
    /// let mock = MockClock::new();
    /// let _active = mock.activate();
    /// let (kept, right) = (Clock::default(), mock.clock());
    /// let (kept_start, start) = (kept.now(), right.now());
    /// mock.advance(Duration::from_secs(3_600));
    /// assert!(kept.elapsed(kept_start) < Duration::from_secs(3_600)); // it shows the real time
    /// assert_eq!(right.elapsed(start), Duration::from_secs(3_600));
    /// assert_eq!(right.now(), Instant::now());
    /// ```
    #[must_use = "the mock is active until the guard is dropped: `let _active = ..`; `let _ = ..` drops it at once"]
    pub fn activate(&self) -> MockGuard {
        let mock = Arc::new(self.clone());
        CURRENT.with_borrow_mut(|stack| stack.push(Arc::clone(&mock)));
        // ORDERING: Relaxed: only this thread reads its own stack.
        ACTIVE.fetch_add(1, Ordering::Relaxed);
        MockGuard {
            mock,
            not_send: core::marker::PhantomData,
        }
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
    /// The mock that this guard has activated: the drop removes its last entry from the stack.
    mock: Arc<MockClock>,
    /// The guard belongs to its thread.
    not_send: core::marker::PhantomData<*const ()>,
}

impl Drop for MockGuard {
    fn drop(&mut self) {
        // ORDERING: Relaxed, as in `activate`.
        ACTIVE.fetch_sub(1, Ordering::Relaxed);
        // At a thread's exit, `CURRENT` may be destroyed before a guard in another thread-local.
        let remove = |stack: &RefCell<Vec<Arc<MockClock>>>| {
            let mut stack = stack.borrow_mut();
            let position = stack.iter().rposition(|mock| Arc::ptr_eq(mock, &self.mock));
            position.map(|index| stack.remove(index));
        };
        CURRENT.try_with(remove).ok();
    }
}

/// Calls `read` with the mock that is active on this thread; `None` without one.
#[inline]
pub(crate) fn active<T>(read: impl FnOnce(&Engine) -> T) -> Option<T> {
    // ORDERING: Relaxed, as in `activate`.
    if ACTIVE.load(Ordering::Relaxed) == 0 {
        return None;
    }
    CURRENT
        .try_with(|stack| {
            stack
                .try_borrow()
                .ok()?
                .last()
                .map(|mock| read(mock.clock.engine()))
        })
        .ok()?
}
