//! UTC with its error: the interval from the earliest to the latest time that UTC can be, at the
//! cost of a reading.
//!
//! [`Clock::utc`] orders an event against events of other machines without asking these machines.
//! If the latest time of event A is before the earliest time of event B, A happened first.
//! Spanner's TrueTime has this form (Corbett and others, "Spanner: Google's Globally-Distributed
//! Database", OSDI 2012, section 3).
//!
//! The clock's thread asks a source every 0.75 to 1.5 s, or once in each interval of the control
//! loop if that is longer. Until the next answer, a call of `utc` extrapolates by the counter, and
//! widens the interval by the possible drift. It makes no system call. If readings don't use the
//! counter, `utc` reads `CLOCK_MONOTONIC_RAW` and the time that the machine has slept.
//!
//! # Sources
//!
//! tickline uses the first of these that answers. If a source reports a disruption, those behind it
//! may not have noticed, and readings fail.
//!
//! | [`UtcSource`] | its promise | what tickline adds to it |
//! |---|---|---|
//! | [`ClockBound`](UtcSource::ClockBound) | the segment of clock-bound's daemon: a bound, its drift, `void_after`, the marker of a disruption | Version 3 relates UTC to the counter itself. Version 2 bounds the error of `CLOCK_REALTIME`. tickline then adds the time of reading that clock, and a drift of 500 ppm until the next answer. |
//! | [`Chronyd`](UtcSource::Chronyd) | root dispersion + root delay / 2 around the NTP clock, which grow with skew, residual frequency and 1 ppm | reading `CLOCK_REALTIME`, the slew during the request, 1 ppm for the counter, 1 ppm for the kernel's tick, and the error bound that a PHC states |
//! | [`Kernel`](UtcSource::Kernel) | the maximum error of adjtimex(2), which grows by 500 ppm: the weaker claim | reading `CLOCK_REALTIME`, one second's growth, the offset that is left to slew, the estimated error |
//!
//! An interval contains UTC if its source states the truth. If a server is off by more than it
//! states, the interval is wrong, and no program on the machine can notice. But tickline notices a
//! contradiction, because each claim must overlap the claim before it. After a contradiction, and
//! after a suspend, readings fail with [`Disrupted`](UtcUnknown::Disrupted) until the source has
//! measured again. Readings also fail if another program steps or steers the OS clock, so that the
//! source reports another time without a new measurement. A slew of the OS clock has no effect
//! before the source is asked again. After a step readings fail until the source repeats what it
//! said before the step, or has measured again. If another source's answer counts first, only a
//! measurement helps.
//!
//! If a hypervisor stops a guest, or moves it to another machine, the counter may go on from its
//! old value. Where the hypervisor offers a VMClock (`/dev/vmclock0`), each reading checks its
//! disruption marker. After a change readings fail until the source has measured again. Without a
//! VMClock no program in the guest can notice, and the source's promise is void until the source
//! has measured again. If clock-bound's daemon uses the VMClock, but the process can't read it,
//! tickline does not use the daemon's segment.
//!
//! After a suspend during which the counter stood still, UTC may be outside of the interval until
//! the clock's thread has run. In a forked child without a thread, and after the thread was killed,
//! UTC may be outside until the claim ends. The same holds after a change of the kernel's
//! clocksource, for readings that do not use the counter. Only the source can know what happened
//! before the thread was started. A step of the OS clock goes unnoticed if it is smaller than twice
//! the uncertainty of tickline's request before it. If the program has closed the thread's timer,
//! or the kernel has refused it, only a contradiction shows a step.
//!
//! systemd-timesyncd and OpenNTPD set the kernel's maximum error to 0 at each update, which bounds
//! nothing. A machine that one of them steers therefore has no source.
//!
//! If a source does not answer a request, or says that it is not synchronised, its last claim goes
//! on. At the second such request in a row, at least 0.5 s later, the next source's report counts;
//! without one, readings fail. The first report after the thread's start counts at once. A claim
//! ends 3.75 s after its request at the latest, or 2.5 intervals if that is later.
//!
//! # Known limits
//!
//! - The OS clock may step without chronyd, and chronyd may not notice. It may then need several
//!   measurements until its own bound holds again. tickline waits for one.
//! - The daemon of clock-bound 2 writes its segment every second, whether or not chronyd has
//!   measured. tickline then waits for the daemon to write.
//! - Before Linux 4.19 a rate that chronyd sets begins at the kernel's next tick. When a slew ends,
//!   two claims may then contradict each other. Readings fail with `Disrupted` until the next
//!   measurement, though no interval was wrong.
//! - chronyd leaves the offset that it is slewing away out of the kernel's maximum error, and
//!   lowers that error with each packet of a server, whether or not it has measured
//!   (`update_sync_status` in `reference.c`). While the kernel's answer counts, a reading may
//!   therefore miss UTC by that offset, or by a step that chronyd has not noticed. The kernel's
//!   answer counts in a container that can't reach chronyd, and after chronyd has missed two
//!   requests in a row. One missed request is enough if the first report comes at it, or if
//!   clock-bound is given up at it. chronyd misses a request that it does not answer, and one that
//!   it answers by "not synchronised".
//! - ntpd-rs states no bound. It gives the kernel a standard deviation and the root delay.
//!   tickline takes their sum, which proves nothing.
//! - When the clock is set, the kernel tells programs last, usually after some microseconds. A
//!   claim made in that time may be wrong until then, if the source has measured since the request
//!   before.
//! - A leap second passes unnoticed if readings failed when it was announced, and still fail at
//!   that midnight, and nothing sets the OS clock then.
//! - A suspend of less than a second may pass unnoticed. This needs a kernel that measures suspends
//!   by a clock that counts seconds, and a counter that stands still meanwhile. UTC is then later
//!   than the interval, until the source has measured.
//!
//! # Leap seconds
//!
//! The times are [`UnixTime`], which counts no leap seconds. chronyd or the kernel may announce a
//! leap second. Readings then fail with [`LeapSecond`](UtcUnknown::LeapSecond) from 2 s before the
//! end of that day to 2 s after it. After that they fail with `Disrupted`, until the source has
//! measured again, once or twice. The reason may be `Disrupted` from midnight on, because the
//! kernel sets its clock. A server that smears the second serves another time than UTC for hours,
//! and does not say so. The interval then contains the smeared time. [`UtcReading::tai_offset`] is
//! TAI minus UTC, if the kernel knows it from the NTP daemon (`chronyd` with `leapsectz`).
//!
//! # Waiting
//!
//! A commit can wait until its own timestamp is in the past. The commit is then visible after every
//! event that could have come before it (TrueTime's "commit wait"). [`Clock::wait_until_past`]
//! sleeps until then. `async` code has its own sleep, for which [`Clock::time_until_past`] returns
//! the time.
//!
//! ```no_run
//! use tickline::Clock;
//!
//! # fn main() -> Result<(), tickline::utc::UtcUnknown> {
//! let _thread = tickline::start().expect("a thread can be started");
//! let clock = Clock::global();
//! let committed = clock.utc()?;
//! let now = clock.wait_until_past(&committed)?;
//! assert!(committed.definitely_before(&now));
//! # Ok(())
//! # }
//! ```
#![doc = include_str!("../docs/utc.md")]

use core::num::NonZeroU16;
use core::time::Duration;

use tickline_utc::{ClaimSource, NoClaim, UtcBounds};

use self::vmclock::VMCLOCK;
use crate::clock::Clock;
use crate::engine::Engine;
use crate::sys::COUNTER;
use crate::unix_time::UnixTime;

mod polls;
mod vmclock;
pub(crate) use polls::UtcPolls;

/// The earliest and the latest time that UTC can have been when the reading was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UtcReading {
    earliest: UnixTime,
    latest: UnixTime,
    tai_offset_s: Option<NonZeroU16>,
    source: UtcSource,
}

impl UtcReading {
    /// A reading from another machine's message: the earliest and the latest time of UTC there, in
    /// either order.
    ///
    /// ```
    /// use tickline::UnixTime;
    /// use tickline::utc::UtcReading;
    ///
    /// let [sent, received] = [2, 5].map(UnixTime::from_secs);
    /// let theirs = UtcReading::from_bounds(sent, sent);
    /// assert!(theirs.definitely_before(&UtcReading::from_bounds(received, received)));
    /// assert_eq!(UtcReading::from_bounds(received, sent), UtcReading::from_bounds(sent, received));
    /// ```
    #[must_use]
    pub fn from_bounds(earliest: UnixTime, latest: UnixTime) -> Self {
        Self {
            earliest: earliest.min(latest),
            latest: earliest.max(latest),
            tai_offset_s: None,
            source: UtcSource::Message,
        }
    }

    /// UTC was not before this time.
    #[inline]
    #[must_use]
    pub const fn earliest(&self) -> UnixTime {
        self.earliest
    }

    /// UTC was not after this time.
    #[inline]
    #[must_use]
    pub const fn latest(&self) -> UnixTime {
        self.latest
    }

    /// The time from the earliest to the latest time.
    #[inline]
    #[must_use]
    pub const fn width(&self) -> Duration {
        Duration::from_nanos(
            self.latest
                .as_nanos()
                .saturating_sub(self.earliest.as_nanos()),
        )
    }

    /// The source of the claim.
    #[inline]
    #[must_use]
    pub const fn source(&self) -> UtcSource {
        self.source
    }

    /// TAI minus UTC, whole seconds; `None` if the kernel does not know.
    #[inline]
    #[must_use]
    pub fn tai_offset(&self) -> Option<Duration> {
        self.tai_offset_s
            .map(|seconds| Duration::from_secs(seconds.get().into()))
    }

    /// Whether this reading was certainly made before `other`, which may be of another machine. If
    /// neither is before the other, their intervals overlap, and the order is unknown.
    #[inline]
    #[must_use]
    pub const fn definitely_before(&self, other: &Self) -> bool {
        self.latest.as_nanos() < other.earliest.as_nanos()
    }

    #[inline]
    fn new(bounds: UtcBounds) -> Self {
        let [earliest, latest] = [bounds.earliest_ns, bounds.latest_ns].map(UnixTime::from_nanos);
        let source = match bounds.source {
            ClaimSource::ClockBound => UtcSource::ClockBound,
            ClaimSource::Chronyd => UtcSource::Chronyd,
            ClaimSource::Kernel => UtcSource::Kernel,
        };
        Self {
            earliest,
            latest,
            tai_offset_s: bounds.tai_offset_s,
            source,
        }
    }

    /// A mock's reading: its time, with `error` on either side.
    #[cfg(feature = "mock")]
    pub(crate) fn from_mock_time(unix_ns: u64, error: Duration) -> Self {
        let time = UnixTime::from_nanos(unix_ns);
        let (earliest, latest) = (time.checked_sub(error), time.checked_add(error));
        let reading = Self::from_bounds(
            earliest.unwrap_or(UnixTime::UNIX_EPOCH),
            latest.unwrap_or(UnixTime::MAX),
        );
        Self {
            source: UtcSource::Mock,
            ..reading
        }
    }
}

tickline_core::named! {
    /// The source of a claim about UTC; see the [module](self).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum UtcSource {
        /// The daemon of clock-bound, through its segment in shared memory.
        ClockBound => "clock_bound": "clock-bound",
        /// chronyd, through its command port.
        Chronyd => "chronyd": "chronyd",
        /// The kernel's maximum error. This claim is weaker, because it grows by 500 ppm.
        Kernel => "kernel": "the kernel's maximum error",
        /// A clock for tests (feature `mock`).
        Mock => "mock": "a mock",
        /// Another machine, through a message ([`UtcReading::from_bounds`]).
        Message => "message": "a message",
    }
}

tickline_core::named! {
    /// Why there is no [`UtcReading`].
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum UtcUnknown {
        /// No source has answered: none runs, the clock may not ask one (with
        /// [`Probes::Minimal`](crate::Probes::Minimal), or on systems other than Linux), or the
        /// clock's thread has just been started.
        NoSource => "no_source":
            "no source of UTC has answered: no clock-bound, chronyd or synchronised kernel, or the clock may \
            not ask",
        /// The source says that the clock is not synchronised.
        Unsynchronised => "unsynchronised": "the source of UTC says that the clock is not synchronised",
        /// The last claim has ended, and there is no newer one: the source has not answered twice,
        /// or the thread was held up.
        Expired => "expired": "the last claim of the source of UTC has ended",
        /// The machine was suspended or moved, the OS clock was set, or two claims contradicted
        /// each other, and no source has since measured, or repeated what it said before the step.
        Disrupted => "disrupted": "the clock was disrupted, and the source of UTC has not measured it since",
        /// A leap second is near.
        LeapSecond => "leap_second": "a leap second is near",
        /// The clock has no thread in this process to ask the sources. [`start`](crate::start)
        /// gives the global clock a thread. Any other clock needs
        /// [`Driver::Thread`](crate::Driver::Thread). A clock that reads a page has none.
        NoThread => "no_thread":
            "the clock has no thread to ask the sources of UTC: call tickline::start() for the global \
            clock, or build another clock with Driver::Thread; a clock that reads a page has no thread",
    }
}

impl std::error::Error for UtcUnknown {}

impl Clock {
    /// The earliest and the latest time that UTC can be now; see [`utc`](self). Makes no system
    /// call where the counter serves.
    ///
    /// # Errors
    ///
    /// [`UtcUnknown`] says why UTC is not known. If the clock notices that an interval may be too
    /// small, it returns the reason instead; [Sources](self#sources) lists the cases that can't be
    /// noticed.
    #[inline]
    pub fn utc(&self) -> Result<UtcReading, UtcUnknown> {
        match utc_by_counter(self.engine()) {
            Some(reading) => Ok(reading),
            None => self.utc_slow(),
        }
    }

    #[cold]
    #[inline(never)]
    fn utc_slow(&self) -> Result<UtcReading, UtcUnknown> {
        if let Some(backend) = &self.engine().backend {
            return backend.utc();
        }
        if !self.engine().has_thread() {
            return Err(UtcUnknown::NoThread);
        }
        let bounds = polls::bounds_by_os(&self.engine().utc).map_err(|reason| match reason {
            NoClaim::NoSource => UtcUnknown::NoSource,
            NoClaim::Unsynchronised => UtcUnknown::Unsynchronised,
            NoClaim::Expired => UtcUnknown::Expired,
            NoClaim::Disrupted => UtcUnknown::Disrupted,
            NoClaim::LeapSecond => UtcUnknown::LeapSecond,
        });
        bounds.map(UtcReading::new)
    }

    /// The time until `reading` is certainly in the past; 0 if it is already. `async` code sleeps
    /// for that time, and calls this again.
    ///
    /// # Errors
    ///
    /// The errors of [`utc`](Self::utc).
    pub fn time_until_past(&self, reading: &UtcReading) -> Result<Duration, UtcUnknown> {
        Ok(time_left(&self.utc()?, reading))
    }

    /// Waits until `reading` is certainly in the past, and returns a reading that is after it. On a
    /// mock's clock the call moves the mock, and does not wait.
    ///
    /// # Errors
    ///
    /// The errors of [`utc`](Self::utc), also if UTC becomes unknown meanwhile.
    pub fn wait_until_past(&self, reading: &UtcReading) -> Result<UtcReading, UtcUnknown> {
        loop {
            let now = self.utc()?;
            let left = time_left(&now, reading);
            if left.is_zero() {
                return Ok(now);
            }
            match &self.engine().backend {
                Some(backend) => backend.sleep(left),
                None => std::thread::sleep(left),
            }
        }
    }
}

impl Engine {
    /// The counter, read after every earlier load; `None` if the common line does not serve.
    #[inline]
    fn read_ticks(&self) -> Option<u64> {
        COUNTER.and_then(|counter| self.clock.shared.read_ordered_ticks(&counter))
    }
}

/// UTC by the newest claim; `None` if the counter does not serve, or the claim does not hold now.
#[inline(always)]
fn utc_by_counter(engine: &Engine) -> Option<UtcReading> {
    engine
        .utc
        .by_counter(|| engine.read_ticks(), || VMCLOCK.marker())
        .map(UtcReading::new)
}

/// The time until the earliest UTC is after `reading`.
fn time_left(now: &UtcReading, reading: &UtcReading) -> Duration {
    let after_ns = reading.latest.as_nanos().saturating_add(1);
    Duration::from_nanos(after_ns.saturating_sub(now.earliest.as_nanos()))
}
