//! Serves a [`Clock`](crate::Clock) from something else than this machine's counter: a network
//! card, a page that another process serves, a simulation.
//!
//! | | is |
//! |---|---|
//! | [`Backend`] | the source of the clock's time, which your program implements |
//! | [`OsClock`], by the trait [`Reference`] | the OS clocks, ns: for a backend that falls back to them, or that compares its source with them |

// A clock with a backend has no thread and no line, and its engine stays disabled. So every reading
// takes the slow path, which calls the backend, and the fast path needs no test for it.

use core::fmt;

pub use tickline_core::reference::Reference;

pub use crate::sys::reference::OsClock;
pub use crate::sys::vmclock::VmClockMapping;

use crate::instant::Instant;
use crate::reading::Reading;
use crate::status::ClockState;
use crate::unix_time::UnixTime;

/// The source of the time of a [`Clock`], in place of the counter and the OS clock: a network card
/// with a clock of its own, a page that another process serves, a simulation.
///
/// [`Clock::from_backend`] makes the clock, which a program passes to its parts like any other
/// ([A clock to inject](crate::Clock#a-clock-to-inject)). The free functions and
/// [`Instant::now`] stay with the global clock.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tickline::backend::Backend;
/// use tickline::{Clock, ClockState, Instant, Reading, UnixTime};
///
/// /// Shows a simulation's time, which passes `speed` times as fast as `real`.
/// #[derive(Debug)]
/// struct Scaled {
///     real: Clock,
///     start: (Instant, UnixTime),
///     speed: u32,
/// }
///
/// impl Backend for Scaled {
///     fn now(&self) -> Instant {
///         let (start, _) = self.start;
///         let passed = (self.real.now_ordered() - start).saturating_mul(self.speed);
///         start.checked_add(passed).unwrap_or(Instant::MAX)
///     }
///
///     fn unix_now(&self) -> UnixTime {
///         let (start, unix_start) = self.start;
///         unix_start.checked_add(self.now() - start).unwrap_or(UnixTime::MAX)
///     }
///
///     fn reading(&self) -> Reading<Instant> {
///         Reading::exact(self.now()) // a simulation's time has no error
///     }
///
///     fn unix_reading(&self) -> Reading<UnixTime> {
///         Reading::exact(self.unix_now())
///     }
///
///     fn state(&self) -> ClockState {
///         ClockState::Backend
///     }
/// }
///
/// let real = Clock::default();
/// let start = (real.now_ordered(), real.unix_now());
/// let clock = Clock::from_backend(Arc::new(Scaled { real, start, speed: 3_600 }));
/// let begin = clock.now();
/// std::thread::sleep(Duration::from_millis(10));
/// assert!(clock.now() - begin >= Duration::from_secs(36));
/// println!("{}, {}", clock.unix_now(), clock.status().state);
/// ```
///
/// # Obligations
///
/// The units follow from the types: nanoseconds since the origin of the monotonic clock, and
/// nanoseconds since 1970. An instant may be before that origin. An implementation MUST
///
/// 1. return the times of [`now`](Self::now) and [`reading`](Self::reading) in order: if one call
///    was complete before another began, on any thread, the time of the first is not later than
///    the time of the second, also across [`disable`](Self::disable) and [`enable`](Self::enable).
///    [`Clock::now`], [`Clock::now_ordered`] and [`Clock::recent`] all call `now`;
/// 2. count at the rate of real time, unless it is a simulation or a mock: users add durations to
///    instants, and sleep for the difference of two;
/// 3. return bounds in [`reading`](Self::reading) and [`unix_reading`](Self::unix_reading) that it
///    can prove, of the clock that it follows, at some moment during the call. If it can't tell the
///    error, it returns bounds as wide as the error may be;
/// 4. never panic, because a reading can't fail: a panic in [`now`](Self::now) or
///    [`unix_now`](Self::unix_now) ends the process;
/// 5. work in a forked child, or return some time there that fulfils 1;
/// 6. read the counter only if the process may, and
///    [`EnvironmentSwitch::read`](crate::EnvironmentSwitch::read) is not
///    [`Off`](crate::EnvironmentSwitch::Off);
/// 7. have a [`state`](Self::state) that says where readings come from:
///
/// | readings come from | state |
/// |---|---|
/// | the counter | [`Fast`](ClockState::Fast) |
/// | the OS clock, until the backend can serve | [`Calibrating`](ClockState::Calibrating) |
/// | the OS clock, because the counter can't be used | [`Fallback`](ClockState::Fallback), with the reason. If the counter is slow, that is [`Slow`](crate::Reason::Slow), never [`SlowForUnixTime`](crate::Reason::SlowForUnixTime), which stops only Unix time |
/// | the OS clock, because the backend's own source can't serve | [`BackendFallback`](ClockState::BackendFallback), with a text that says why |
/// | a clock of its own | [`Backend`](ClockState::Backend) |
/// | a test | [`Mock`](ClockState::Mock) |
/// | none: readings are 0 | [`Unavailable`](ClockState::Unavailable) |
///
/// Unix time may step, in any direction. It need not have any relation to monotonic time.
///
/// # What the clock then promises
///
/// What the backend does, and no more: a [`Clock`] calls it, and passes on the result. A reading
/// waits, allocates or makes system calls if the backend does ([what each kind of clock
/// promises](crate::guarantees#what-a-reading-promises)). A signal handler may make a reading
/// if it may call the backend, and the reading takes as much stack as the backend does. Instants of
/// this clock and of others have one timescale only if the backend follows `CLOCK_MONOTONIC`.
///
/// Such a clock has no control loop: [`Clock::maintain`] does nothing, and [`Clock::status`] shows
/// no driver, no figures and no events. Only the gate of a [`Fallback`](ClockState::Fallback)'s
/// reason is closed.
///
/// [`Clock`]: crate::Clock
/// [`Clock::from_backend`]: crate::Clock::from_backend
/// [`Clock::now`]: crate::Clock::now
/// [`Clock::now_ordered`]: crate::Clock::now_ordered
/// [`Clock::recent`]: crate::Clock::recent
/// [`Clock::maintain`]: crate::Clock::maintain
/// [`Clock::status`]: crate::Clock::status
pub trait Backend: fmt::Debug + Send + Sync {
    /// The monotonic time, in order across threads.
    fn now(&self) -> Instant;

    /// Unix time.
    fn unix_now(&self) -> UnixTime;

    /// The monotonic time with its bounds.
    fn reading(&self) -> Reading<Instant>;

    /// Unix time with its bounds.
    fn unix_reading(&self) -> Reading<UnixTime>;

    /// The clock that readings come from now.
    fn state(&self) -> ClockState;

    /// Stops reading the counter, by the promise of [`Clock::disable`](crate::Clock::disable): a
    /// backend that reads the counter asks the OS clock instead, and its state becomes
    /// [`Fallback`](ClockState::Fallback). The default does nothing, for a backend that never reads
    /// the counter.
    fn disable(&self) {}

    /// Reads the counter again after [`disable`](Self::disable). The default does nothing.
    fn enable(&self) {}
}
