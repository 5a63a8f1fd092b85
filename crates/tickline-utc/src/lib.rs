//! Returns UTC with its error, at the cost of a reading: the earliest and the latest time that UTC
//! can be.
//!
//! [`Utc::now`] orders an event against events of other machines without asking these machines. If
//! the latest time of event A is before the earliest time of event B, A happened first. Spanner's
//! TrueTime has this form (Corbett and others, "Spanner: Google's Globally-Distributed Database",
//! OSDI 2012, section 3).
//!
//! ```
//! use tickline::Clock;
//! use tickline_utc::Utc;
//!
//! # fn main() -> Result<(), tickline::Error> {
//! let _thread = tickline::start()?; // keeps the clock's line: without one, readings take longer
//! let utc = Utc::start(Clock::global())?; // asks the sources until the last clone is dropped
//! match utc.now() {
//!     Ok(now) => println!("between {} and {}, by {}", now.earliest(), now.latest(), now.source()),
//!     Err(why) => println!("not known: {why}"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! For the first milliseconds after [`Utc::start`], until a source has answered, `now` fails with
//! [`NoSource`](UtcUnknown::NoSource).
//!
//! # Will it work here?
//!
//! The crate needs Linux, and one of these: the daemon of clock-bound, chronyd, ptp4l, or a kernel
//! that another NTP daemon steers ([Sources](#sources)). systemd-timesyncd and OpenNTPD state no
//! error, so with them alone UTC is never known. `tickline doctor` says which source a machine has;
//! [`limits`] says what can go wrong.
//!
//! [`Utc`] has a thread that asks the sources once a second, or once in each interval of the
//! clock's control loop if that is longer. In the half second after its start, and with chronyd in
//! that after the clock was set, it asks up to eight times. Until the next answer, [`Utc::now`]
//! extrapolates by the counter, and widens the range by the possible drift. It makes no system
//! call. If readings of the clock don't use the counter, it reads `CLOCK_MONOTONIC_RAW` and the
//! time suspended.
//!
//! # Sources
//!
//! tickline uses the first of these sources that answers. But if a source reports a disruption,
//! readings fail, because the sources behind it may not have noticed.
//!
//! | [`UtcSource`] | its promise | what tickline adds to it |
//! |---|---|---|
//! | [`ClockBound`](UtcSource::ClockBound) | the segment of clock-bound's daemon: a bound, its drift, `void_after`, the marker of a disruption | Version 3 relates UTC to the counter itself. Version 2 bounds the error of `CLOCK_REALTIME`. tickline then adds the time of reading that clock, and a drift of 500 ppm until the next answer. |
//! | [`Chronyd`](UtcSource::Chronyd) | root dispersion + root delay / 2 around the NTP clock, which grow with skew, residual frequency and 1 ppm | reading `CLOCK_REALTIME`, the slew during the request, 1 ppm for the counter, 1 ppm for the kernel's tick, the error bound that a PHC states, the slew that tickline can't exclude ([`limits`] says where that is much), and, until chronyd has shown that it steers the kernel's clock, the difference between its rate and the kernel's |
//! | [`Ptp4l`](UtcSource::Ptp4l) | the grandmaster's accuracy, the last offset from the master and the mean path delay, which bounds the asymmetry of the path ([`ptp4l`](sources::ptp4l) has the assumptions) | reading the hardware clock, the error that its driver states, and, since the last Sync, a drift of 500 ppm and what the servo may add to it |
//! | [`Kernel`](UtcSource::Kernel) | the maximum error of adjtimex(2), which grows by 500 ppm: the weaker claim | reading `CLOCK_REALTIME`, one second's growth, the offset that is left to slew, the estimated error |
//!
//! A range contains UTC if its source states the truth. If a server is off by more than it
//! states, the range is wrong, and no program on the machine can notice. But each claim must
//! overlap the claim before it, so tickline notices a contradiction. After a contradiction, and
//! after a suspend, readings fail with [`Disrupted`](UtcUnknown::Disrupted) until the source has
//! measured again.
//!
//! Readings also fail if another program steps or steers the OS clock, so that the source reports
//! another time without a new measurement. A slew has this effect only when the source is asked
//! again. After a step, readings fail until the source repeats what it said before the step, or has
//! measured again; but if another source's answer counts first, only a measurement helps.
//!
//! If a hypervisor stops a guest, or moves it to another machine, the counter may go on from its
//! old value. So where the hypervisor offers a VMClock (`/dev/vmclock0`), each reading checks its
//! disruption marker, and after a change readings fail until the source has measured again. Without
//! a VMClock no program in the guest can notice, so the source's promise is void until the source
//! has measured again. A daemon of clock-bound that uses the VMClock relies on its readers to check
//! it, so tickline does not use the daemon's segment in a process that can't read the VMClock.
//!
//! In these cases UTC may be outside of the range:
//!
//! | event | the range may be wrong until |
//! |---|---|
//! | a suspend during which the counter stood still | the thread has run |
//! | the thread was killed, or the process is a forked child, which has no thread | the claim ends |
//! | the kernel changed its clocksource, and the reading does not use the counter | the claim ends |
//! | a hypervisor stopped or moved the guest, without a VMClock | the source has measured again |
//! | anything that happened before the thread was started | the source has noticed it |
//! | a step of the OS clock by less than twice the uncertainty with which tickline last read that clock, plus the growth of the last claim | the source has noticed it |
//! | any step of the OS clock, after the program has closed the thread's timer, or if the kernel has refused it | a claim contradicts the one before |
//!
//! systemd-timesyncd and OpenNTPD set the kernel's maximum error to 0 at each update, and ptpd sets
//! it to its last offset, which bounds nothing. A machine that one of them steers therefore has no
//! source.
//!
//! If this user may use chronyd's Unix socket, tickline asks there: only root, chronyd's user, the
//! folder's group and this user can answer. At the UDP port another program may answer:
//! [`chronyd`](sources::chronyd#who-answers) says what an answer there proves, and
//! [`Utc::chronyd_channel`] how chronyd has answered.
//!
//! If a source does not answer a request, or says that it is not synchronised, its last claim goes
//! on at first. But at the second such request in a row, at least 0.5 s later, the next source's
//! report counts, or, without one, readings fail. The first report after the thread's start counts
//! at once. In any case a claim ends 3.75 s after its request at the latest, or 2.5 intervals if
//! that is later.
//!
//! # Waiting
//!
//! A commit can wait until its own timestamp is in the past. The commit is then visible after every
//! event that could have come before it (TrueTime's "commit wait"). [`Utc::wait_until_past`] sleeps
//! until then. `async` code has its own sleep, for which [`Utc::time_until_past`] returns the time.
//!
//! ```no_run
//! use tickline::Clock;
//! use tickline_utc::Utc;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let utc = Utc::start(Clock::global())?; // when the program starts
//! // ...
//! let committed = utc.now()?; // later, when a source has answered
//! let now = utc.wait_until_past(&committed)?;
//! assert!(committed.definitely_before(&now));
//! # Ok(())
//! # }
//! ```
//!
//! A program that must not start with a wrong clock waits at its start until the error is small
//! enough. [`Utc::wait_until_within`] returns the first reading whose error is within a limit, or,
//! after a timeout, what the last reading was. `tickline wait` does the same for programs that are
//! not changed, and judges Unix time itself.
//!
//! ```no_run
//! use std::time::Duration;
//! use tickline::Clock;
//! use tickline_utc::Utc;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let utc = Utc::start(Clock::global())?;
//! let now = utc.wait_until_within(Duration::from_millis(250), Duration::from_secs(60))?;
//! println!("UTC is known to within {:?}, by {}", now.error(), now.source());
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! | | gives |
//! |---|---|
//! | `mock` | `mock::MockUtc`, UTC by a mock of tickline, for tests |
#![deny(unsafe_code)]

mod claim;
mod claim_maker;
mod deadline;
mod expected_source;
mod history;
mod interval;
mod latch;
#[cfg(any(doc, doctest))]
#[doc = include_str!("../docs/limits.md")]
pub mod limits {}
#[cfg(feature = "mock")]
pub mod mock;
mod moment;
mod polls;
mod rate;
mod reading;
mod shared;
mod source;
pub mod sources;
mod sys;
mod unbounded;
mod unknown;
mod utc;
mod wait;

pub use reading::{UtcReading, UtcSource};
pub use unbounded::Unbounded;
pub use unknown::UtcUnknown;
pub use utc::Utc;
pub use wait::UtcNotWithin;

/// The example of the README is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
