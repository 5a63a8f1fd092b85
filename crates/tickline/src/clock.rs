//! [`Clock`]: the global clock, and separate clocks with their own settings. Each call goes to the
//! clock's engine.
//!
//! More `impl Clock` blocks are in other files: `clock/builder.rs` has `builder`, `convert.rs`
//! those that make anchors, `clock/wait.rs` has `wait_until_decided`.

use core::fmt;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::ptr::NonNull;
use core::time::Duration;
use std::sync::Arc;

use crate::backend::Backend;
use crate::bounds::Bounds;
use crate::engine::{Engine, GLOBAL, obey_environment};
use crate::error::Error;
use crate::instant::Instant;
use crate::reading::Reading;
use crate::settings::{Driver, Probes, Settings};
use crate::status::Status;
use crate::thread::ClockThread;
use crate::unix_time::UnixTime;

pub(crate) mod builder;
pub(crate) mod global;
mod wait;

static GLOBAL_CLOCK: Clock = Clock {
    // SAFETY: the address of a static is not null.
    engine: unsafe { NonNull::new_unchecked((&raw const GLOBAL).cast_mut()) },
    _owned: None,
};

/// A calibrated clock. [`Clock::global`] is the clock behind [`Instant`](crate::Instant) and the
/// free functions; [`Clock::builder`] makes others, and [`Clock::from_backend`] makes one of your
/// own time source. Clones are the same clock. Dropping the last clone of a clock other than the
/// global one stops and joins its thread.
///
/// ```
/// use tickline::Clock;
///
/// let clock = Clock::global();
/// let first = clock.now_ordered();
/// assert!(clock.now_ordered() >= first);
/// println!("{}", clock.status().state);
/// ```
///
/// # What a reading promises
///
/// A reading returns a time, never an error. What else it promises depends on the kind of clock:
/// [`guarantees`](crate::guarantees#what-a-reading-promises) has it for each.
///
/// # A clock to inject
///
/// A library that lets its users choose the clock keeps a `Clock`. It is `Clone`, `Send`, `Sync`
/// and `'static`, and its default is the global clock. A test gives it the clock of a mock
/// (`MockClock::clock`, feature `mock`), which then shows the mock's time on every thread.
///
/// `Clock` is one type for all clocks. A struct that keeps a `Clock` needs no generics, and can
/// call every method of a clock. A clone copies a pointer. Unless it is of the global clock, it
/// also raises a reference count. A reading follows one pointer.
///
/// Measure with the same clock: [`clock.elapsed(start)`](Clock::elapsed). `start.elapsed()` reads
/// the global clock. All clocks have one timescale, except mocks and backends with a time of their
/// own: instants of two such clocks differ by at most the sum of their bounds.
///
/// Wait by the same clock, too: for `deadline - clock.now()`, or, where a call takes a
/// `std::time::Instant`, until [`clock.std_anchor()`](Clock::std_anchor)`.to_std(deadline)`.
/// [`Anchor::std`](crate::Anchor::std) converts by the global clock, for which a mock's deadline
/// may be long past: the wait ends at once, and a loop around it spins. The mock's `advance` wakes
/// no thread that waits. A test wakes it, for example by a message. The clock of
/// `MockClock::from_tokio` makes anchors by tokio's clock, for tokio's waits.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
/// use std::time::Duration;
/// use tickline::{Clock, Instant};
///
/// /// Tells whether an object has been idle.
/// #[derive(Debug)]
/// struct Recency {
///     clock: Clock,
///     used_ns: AtomicU64,
///     idle_after: Duration,
/// }
///
/// impl Recency {
///     fn new(clock: Clock, idle_after: Duration) -> Self {
///         let used_ns = AtomicU64::new(clock.now_ordered().as_nanos());
///         Self { clock, used_ns, idle_after }
///     }
///
///     fn is_idle(&self) -> bool {
///         let used = Instant::from_nanos(self.used_ns.load(Relaxed));
///         self.clock.now_ordered() - used >= self.idle_after
///     }
/// }
///
/// let minute = Duration::from_secs(60);
/// let recency = Recency::new(Clock::default(), minute);
/// assert!(!recency.is_idle());
/// # #[cfg(feature = "mock")] {
/// let mock = tickline::mock::MockClock::new(); // with the feature `mock`
/// let recency = Recency::new(mock.clock(), minute);
/// std::thread::scope(|scope| {
///     mock.advance(minute);
///     scope.spawn(|| assert!(recency.is_idle())); // on any thread
/// });
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a clock of its own ends, with its thread, when its last clone is dropped"]
pub struct Clock {
    /// The global engine, or the engine in `_owned`.
    engine: NonNull<Engine>,
    /// `None` for the global clock. The drop of the last clone stops the thread.
    _owned: Option<Arc<OwnedEngine>>,
}

struct OwnedEngine {
    /// The drop stops the thread. This field comes first, so that the thread stops before the
    /// engine.
    _thread: Option<ClockThread<Arc<Engine>>>,
    /// The engine that the clones point to.
    _engine: Arc<Engine>,
}

// SAFETY: `engine` is only used as a shared reference to an `Engine`, which is `Sync`; `_owned` is
// `Send`.
unsafe impl Send for Clock {}
// SAFETY: `engine` is only used as a shared reference to an `Engine`, which is `Sync`; so is
// `_owned`.
unsafe impl Sync for Clock {}

// A panic leaves no clock half changed. `std_anchor`, which may panic, changes nothing. A method of
// a backend that panics all the same leaves only the backend half changed: a clock with a backend
// has nothing of its own that changes.
impl UnwindSafe for Clock {}
impl RefUnwindSafe for Clock {}

const _: () = {
    const fn shareable<T: Send + Sync>() {}
    shareable::<Engine>();
    shareable::<Option<Arc<OwnedEngine>>>();
};

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock")
            .field("driver", &self.engine().driver())
            .field("state", &self.engine().state())
            .finish_non_exhaustive()
    }
}

impl Clock {
    /// The clock behind [`Instant`](crate::Instant) and the free functions. It needs no set-up.
    /// Readers drive it until [`start`](crate::start) gives it a thread. `Clock::default()` is a
    /// clone of it.
    pub fn global() -> &'static Self {
        &GLOBAL_CLOCK
    }

    pub(crate) fn separate(settings: Settings) -> Result<Self, Error> {
        obey_environment(settings.probes); // a judgement may not wait for `set_var`
        let engine = Arc::new(Engine::new(settings.driver));
        engine.restrict_probes(settings.probes);
        engine.apply(&settings);
        let thread = match settings.driver {
            Driver::Thread => {
                let thread = ClockThread::start(Arc::clone(&engine), settings);
                let remedy = "a clock with Driver::Reader needs none";
                Some(thread.map_err(|error| error.with_remedy(remedy))?)
            }
            Driver::Reader | Driver::Manual => None,
        };
        Ok(Self::from_engine(engine, thread))
    }

    pub(crate) fn from_engine(
        engine: Arc<Engine>,
        thread: Option<ClockThread<Arc<Engine>>>,
    ) -> Self {
        Self {
            // A move of the `Clock` does not move the content of the `Arc`.
            engine: NonNull::from(&*engine),
            _owned: Some(Arc::new(OwnedEngine {
                _thread: thread,
                _engine: engine,
            })),
        }
    }

    /// A clock whose time comes from `backend`. The clock has no thread and no settings;
    /// [`Backend`] shows an example, and says what the clock promises. A program that keeps a clone
    /// of the [`Arc`] can go on to steer its backend.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tickline::backend::Backend;
    /// use tickline::{Clock, ClockState, Instant, Reading, UnixTime};
    ///
    /// /// Stands still.
    /// #[derive(Debug)]
    /// struct Stopped;
    ///
    /// impl Backend for Stopped {
    ///     fn now(&self) -> Instant { Instant::from_nanos(1_000) }
    ///     fn unix_now(&self) -> UnixTime { UnixTime::from_secs(1_893_456_000) }
    ///     fn reading(&self) -> Reading<Instant> { Reading::exact(self.now()) }
    ///     fn unix_reading(&self) -> Reading<UnixTime> { Reading::exact(self.unix_now()) }
    ///     fn state(&self) -> ClockState { ClockState::Mock }
    /// }
    ///
    /// let clock = Clock::from_backend(Arc::new(Stopped));
    /// assert_eq!((clock.now().as_nanos(), clock.recent().as_nanos()), (1_000, 1_000));
    /// assert_eq!(format!("{:.0}", clock.unix_now()), "2030-01-01T00:00:00Z");
    /// assert_eq!((clock.status().state, clock.status().driver), (ClockState::Mock, None));
    /// ```
    pub fn from_backend(backend: Arc<dyn Backend>) -> Self {
        let mut engine = Engine::new(Driver::Manual);
        engine.set_backend(backend);
        Self::from_engine(Arc::new(engine), None)
    }

    #[inline(always)]
    pub(crate) fn engine(&self) -> &Engine {
        // SAFETY: `engine` points to the global engine, or into the `Arc` that `_owned` holds.
        unsafe { self.engine.as_ref() }
    }

    /// The current time of `CLOCK_MONOTONIC`, in order within a thread (with a [line for each
    /// CPU](crate::LinePerCpu), while it stays on its CPU, and the line lasts). The CPU may read the
    /// counter before older loads complete, so between threads use
    /// [`now_ordered`](Self::now_ordered).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickline::Clock;
    ///
    /// let clock = Clock::global();
    /// let deadline = clock.now() + Duration::from_millis(2);
    /// let mut batches = 0;
    /// while clock.now() < deadline {
    ///     batches += 1; // a short piece of work
    /// }
    /// println!("{batches} batches; the last one ended {:?} late", clock.now() - deadline);
    /// assert!(clock.now() >= deadline);
    /// ```
    #[inline]
    #[must_use]
    pub fn now(&self) -> Instant {
        self.engine().now()
    }

    /// The current time of `CLOCK_MONOTONIC`, in order across threads: if one reading was complete
    /// before another began, the later one is never smaller. [Order](crate#order) tells where this
    /// holds on one CPU only.
    ///
    /// ```
    /// use std::thread;
    /// use tickline::Clock;
    ///
    /// let clock = Clock::global();
    /// let spawned = clock.now_ordered();
    /// let began = thread::scope(|scope| scope.spawn(|| clock.now_ordered()).join().unwrap());
    /// assert!(began >= spawned); // never the other way round, on whatever CPU the thread ran
    /// println!("the thread began after {:?}", began - spawned);
    /// ```
    #[inline]
    #[must_use]
    pub fn now_ordered(&self) -> Instant {
        self.engine().now_ordered()
    }

    /// Time from `start` to [`now`](Self::now): zero if `start` is the later instant. A `start` of
    /// another thread is better compared with [`now_ordered`](Self::now_ordered)`() - start`.
    ///
    /// `start` should be an instant of this clock. Clocks that follow `CLOCK_MONOTONIC` have one
    /// timescale, so an instant of another one adds no more than the two bounds. To a mock, or to a
    /// [`Backend`] with a time of its own, an instant of another clock means nothing: the result is
    /// zero, or too long. [`Instant::elapsed`] reads the global clock instead, or a mock that is
    /// active on the thread.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickline::Clock;
    ///
    /// let clock = Clock::default(); // one that the caller has chosen
    /// let start = clock.now();
    /// std::thread::sleep(Duration::from_millis(2));
    /// assert!(clock.elapsed(start) >= Duration::from_millis(1));
    /// ```
    #[inline]
    #[must_use]
    pub fn elapsed(&self, start: Instant) -> Duration {
        self.now().saturating_duration_since(start)
    }

    /// The current time of `CLOCK_REALTIME`. When that clock is set, readings follow at the next
    /// recalibration: at once with the thread driver on Linux and full probes, otherwise within the
    /// interval. If the OS clock gives Unix time faster than the counter does, readings come from
    /// the OS clock ([`Status::unix_reason`]). Between threads, readings may be out of order, as
    /// those of [`now`](Self::now). After some suspends they are ahead ([not
    /// guaranteed](crate::guarantees#suspends)).
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use tickline::Clock;
    ///
    /// let now = Clock::global().unix_now();
    /// println!("{now:.3} INFO ready"); // 2026-01-01T00:00:00.000Z INFO ready
    /// let modified = SystemTime::from(now); // for a call that takes std's type
    /// println!("{modified:?}");
    /// ```
    #[inline]
    #[must_use]
    pub fn unix_now(&self) -> UnixTime {
        self.engine().unix_now()
    }

    /// The recent time of `CLOCK_MONOTONIC` that the clock's thread stored last. It is as old as
    /// that store, by default up to half a second
    /// ([`recent_every`](crate::ClockBuilder::recent_every)). Without a thread in this process, the
    /// same as [`now`](Self::now).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickline::Clock;
    ///
    /// # fn main() -> Result<(), tickline::Error> {
    /// let clock = Clock::builder().recent_every(Duration::from_millis(1)).build()?;
    /// let deadline = clock.recent() + Duration::from_millis(5);
    /// let mut steps = 0_u64;
    /// while clock.recent() < deadline {
    ///     steps += 1; // a step that takes less time than a reading of the counter
    /// }
    /// println!("{steps} steps until the time-out, which is exact to a millisecond or so");
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    #[must_use]
    pub fn recent(&self) -> Instant {
        self.engine().recent()
    }

    /// The time, in order across threads, with the range in which `CLOCK_MONOTONIC` must have been,
    /// on the conditions of the [guarantees](crate::guarantees#bounds).
    ///
    /// ```
    /// use std::thread;
    /// use std::time::Duration;
    /// use tickline::Clock;
    ///
    /// let clock = Clock::global();
    /// let lease_ends = clock.now_ordered() + Duration::from_millis(2); // another process's lease
    /// while clock.reading().earliest() <= lease_ends {
    ///     thread::sleep(Duration::from_millis(1)); // by the OS clock it may not be over yet
    /// }
    /// let now = clock.reading();
    /// assert!(now.latest() > lease_ends);
    /// println!("{:?} is {:?} from CLOCK_MONOTONIC, at most", now.time(), now.error());
    /// ```
    #[inline]
    #[must_use]
    pub fn reading(&self) -> Reading<Instant> {
        self.engine().reading()
    }

    /// Unix time, ordered like [`reading`](Self::reading), with the range in which
    /// `CLOCK_REALTIME` must have been, on the conditions of the
    /// [guarantees](crate::guarantees#bounds). If the clock has a line, the time comes from the
    /// line. For bounds on UTC, see the crate `tickline-utc`.
    ///
    /// ```
    /// use tickline::Clock;
    ///
    /// let signed = Clock::global().unix_reading();
    /// println!("signed at {}, give or take {:?}", signed.time(), signed.error());
    /// assert!(signed.earliest() <= signed.time() && signed.time() <= signed.latest());
    /// ```
    #[inline]
    #[must_use]
    pub fn unix_reading(&self) -> Reading<UnixTime> {
        self.engine().unix_reading()
    }

    /// The counter, ticks, read after every earlier load. `None` if
    /// [`now_ordered`](Self::now_ordered) would not use it now, or not for all CPUs alike: without
    /// a valid line, after [`disable`](Self::disable), with a closed gate or with a line for each
    /// CPU. A clock with a [`Backend`] never uses it.
    ///
    /// The call is for programs that relate the counter to a clock of their own, a network card's
    /// for example. After a result of `None` relate the two anew: the counter may have restarted,
    /// or changed its rate. [`Status::frequency_hz`] is the counter's rate.
    ///
    /// ```
    /// use tickline::Clock;
    ///
    /// let start = Clock::global().ticks_ordered();
    /// let end = Clock::global().ticks_ordered();
    /// if let (Some(start), Some(end)) = (start, end) {
    ///     println!("{} ticks", end.wrapping_sub(start));
    /// }
    /// ```
    #[inline]
    #[must_use]
    pub fn ticks_ordered(&self) -> Option<u64> {
        self.engine().ticks_ordered()
    }

    /// The probes that this clock may make. Code that stands on a clock should make no others.
    ///
    /// ```
    /// use tickline::{Clock, Driver, Probes};
    ///
    /// # fn main() -> Result<(), tickline::Error> {
    /// let clock = Clock::builder().driver(Driver::Manual).build()?;
    /// assert_eq!(clock.probes(), Probes::Full);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn probes(&self) -> Probes {
        self.engine().probes()
    }

    /// The bounds of `CLOCK_MONOTONIC`, ns: two lines that turn the counter's ticks into its
    /// earliest and its latest time. With the offset of Unix time they also bound
    /// `CLOCK_REALTIME`. They are for a program that converts ticks which another process or a
    /// device has read.
    ///
    /// The bounds hold on the conditions of the [guarantees](crate::guarantees#bounds), until the
    /// next recalibration replaces them. They are for ticks from the lines' start on: ask for them
    /// before the ticks are read.
    ///
    /// `None` if readings don't come from one line for all CPUs that is in its window: without a
    /// line, with a line for each CPU ([`LinePerCpu`](crate::LinePerCpu)), and with a [`Backend`].
    ///
    /// ```
    /// use tickline::Clock;
    ///
    /// let clock = Clock::builder().build()?;
    /// if let Some(bounds) = clock.bounds() {
    ///     let tick = bounds.lower.start_ticks + 1_000;
    ///     let monotonic = bounds.monotonic_range_at(tick); // CLOCK_MONOTONIC
    ///     assert!(monotonic.earliest_ns <= monotonic.latest_ns);
    ///     let unix = bounds.unix_range_at(tick); // CLOCK_REALTIME
    ///     assert!(unix.earliest_ns <= unix.latest_ns);
    /// }
    /// # Ok::<(), tickline::Error>(())
    /// ```
    #[must_use]
    pub fn bounds(&self) -> Option<Bounds> {
        Some(self.engine().read_ordered_bounded()?.bounds)
    }

    /// The clock's status. The call is not for hot paths. It is not for signal handlers either,
    /// because it allocates if each CPU has a line.
    ///
    /// ```
    /// use tickline::{Clock, Reason};
    ///
    /// let status = Clock::global().status();
    /// println!("{status}"); // one line for a log
    /// // For metrics. The state `calibrating`, which may last, has no reason: no gate is closed.
    /// let (state, reason) = (status.state.code(), status.reason().map_or("", Reason::code));
    /// println!("tickline_clock{{state=\"{state}\",reason=\"{reason}\"}} 1");
    /// ```
    #[must_use]
    pub fn status(&self) -> Status {
        self.engine().status()
    }

    /// Runs one iteration of the control loop, for the manual driver. With another driver a call
    /// is harmless. Returns the time until the next iteration is due. A line that the call has
    /// published is valid for 4 times that.
    ///
    /// An iteration takes a few microseconds, and the first one about a hundred. With the manual
    /// driver, some iterations take longer, because they read the kernel's clocksource. The call
    /// runs no iteration while another thread runs one, nor while a gate is closed; it judges the
    /// gates again when that is due. With a line for each CPU it runs none either: only the clock's
    /// thread can calibrate these. With a [`Backend`] there is no control loop, and the call does
    /// nothing.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickline::{Clock, Driver};
    ///
    /// # fn main() -> Result<(), tickline::Error> {
    /// let clock = Clock::builder().driver(Driver::Manual).build()?;
    /// let mut due = clock.now();
    /// for event in 1..=3 { // the program's event loop, which has a time-out for the clock
    ///     if clock.now() >= due {
    ///         let rest = clock.maintain();
    ///         assert!(rest > Duration::ZERO);
    ///         due = clock.now() + rest;
    ///     }
    ///     println!("event {event}; the next iteration is due in {:?}", due - clock.now());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn maintain(&self) -> Duration {
        Duration::from_nanos(self.engine().iterate_for_program())
    }

    /// Lets readings use the counter again after [`disable`](Self::disable), once the control loop
    /// has judged the gates. Has no effect on a clock that is not disabled, or whose [`Backend`]
    /// never reads the counter. On a clone of the global clock, `Clock::default()` included, the
    /// call acts on the whole process. A signal handler may make it.
    ///
    /// ```
    /// use tickline::{Clock, Driver, Reason};
    ///
    /// # fn main() -> Result<(), tickline::Error> {
    /// let clock = Clock::builder().driver(Driver::Manual).build()?;
    /// clock.disable(); // ahead of an act that changes the counter, such as a checkpoint
    /// // ... the act is over
    /// clock.enable();
    /// clock.maintain(); // judges the gates; a clock's thread, or its readers, do so by themselves
    /// assert_ne!(clock.status().reason(), Some(Reason::DisabledByProgram));
    /// # Ok(())
    /// # }
    /// ```
    pub fn enable(&self) {
        self.engine().enable();
    }

    /// Stops using the counter. No reading that begins after the return of this call reads the
    /// counter. From then on readings come from the OS clock, in order. With
    /// [`Probes::Minimal`](crate::Probes::Minimal) no other call that begins then on this clock
    /// reads the counter either. Work that another thread has begun before may still read it: an
    /// iteration, the collection of facts, a comparison of the CPUs' counters. So may the vDSO,
    /// which answers calls of the OS clock. On a clone of the global clock, `Clock::default()`
    /// included, the call acts on the whole process. A signal handler may make it.
    ///
    /// ```
    /// use tickline::{Clock, Driver, Reason};
    ///
    /// # fn main() -> Result<(), tickline::Error> {
    /// let clock = Clock::builder().driver(Driver::Manual).build()?;
    /// let before = clock.now_ordered();
    /// clock.disable();
    /// let now = clock.reading();
    /// assert!(now.time() >= before && !now.is_from_counter());
    /// assert_eq!(clock.status().reason(), Some(Reason::DisabledByProgram));
    /// # Ok(())
    /// # }
    /// ```
    pub fn disable(&self) {
        self.engine().disable();
    }
}

/// A clone of the global clock.
impl Default for Clock {
    fn default() -> Self {
        GLOBAL_CLOCK.clone()
    }
}
