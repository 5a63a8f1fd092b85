//! A clock that reads a page of another process. The clock has no thread and no line.

use core::sync::atomic::{AtomicI64, Ordering};
use std::path::Path;
use std::sync::Arc;

use errno::{Errno, errno, set_errno};
use tickline::backend::Backend;
use tickline::{Clock, ClockState, EnvironmentSwitch, Instant, Probes, Reading, UnixTime};
use tickline_core::control::MEETING_MARGIN_NS;
use tickline_core::counter::HardwareCounter;
use tickline_core::gate::Reason;
use tickline_core::reference::Reference as _;

use super::os::{PageOs, admitted_counter};
use super::process_mark::{Decision, ProcessMark};
use crate::lease::{PageReading, PageSource, ProcessHighWater, UseStage};
use crate::page_file::{AttachedFile, PageError, PageFile};

/// Stands for a missing offset: this process can't use the page.
const NO_PAGE: i64 = i64::MIN;

/// A page, and this process's state for it.
#[derive(Debug)]
struct PageReader {
    file: PageFile,
    os: PageOs,
    /// The counter; an error says why the page is never used.
    counter: Result<HardwareCounter, Reason>,
    /// Whether this process has attached.
    process: ProcessMark,
    /// How far the `CLOCK_MONOTONIC` of a process that has attached is ahead of the page's, ns.
    page_offset_ns: AtomicI64,
    process_high_water: ProcessHighWater,
    /// Whether the program lets readings use the page.
    stage: UseStage,
}

/// A clock that reads the time from the page at `path`, which another process serves (`tickline
/// serve`, or a [`Publisher`](crate::Publisher)). Needs the feature `clock`. On systems other than
/// Linux the call is an error.
///
/// The page's server decides how the counter is calibrated and trusted. So this clock has no thread
/// and no line, and [`Clock::maintain`] does nothing. The monotonic readings of all processes that
/// read the page are in order;
/// [machine/docs/lease.md](https://github.com/tickline/tickline/blob/main/machine/docs/lease.md)
/// has the exceptions. Unix time comes from the page, too.
///
/// [`Clock`](Clock#what-a-reading-promises) has what a reading promises by other kinds of clocks.
/// Of a page:
///
/// | promise | with a page |
/// |---|---|
/// | the bounds contain the OS clock | yes: each reading with bounds reads that clock twice. Readings may be ahead of it by the page's lead, which `tickline serve status` shows |
/// | a reading waits for no other thread | no: while the server publishes its first line, a reading waits for 1 ms at most. With full probes it yields the CPU while it waits, so it also waits until the scheduler resumes it |
/// | a reading makes no system call by the counter | it may: `clock_gettime` for its bounds, or while the line is doubted, where the vDSO does not answer it; `sched_yield` while it waits; and the first reading in a forked child reads files |
/// | a reading never allocates or panics | yes |
/// | a reading never fails | no: if somebody truncates the page's file, the next reading raises SIGBUS. Only the file's owner can do that, and root: this call refuses a file that other users may write to, or that is too short already |
/// | a signal handler may read | yes |
/// | [`Clock::disable`] stops reading the counter | yes: readings then come from the OS clock, in order |
/// | without a line readings come from the OS clock | yes, in order: the server has ended, or the counter can't be trusted |
///
/// This call reads files and maps memory, whatever the probes: make it before the process installs
/// a seccomp filter. A forked child attaches to the page again, because it may be in another time
/// namespace. If its first reading can't do that, for want of a descriptor perhaps, the OS clock
/// serves the child from then on, and the state is
/// [`BackendFallback`](ClockState::BackendFallback).
///
/// # Errors
///
/// [`PageError::is_not_found`] if there is no such file. The other errors are that the file is not
/// trusted, or that this process can't use the page. The error's text states the wrong value and
/// its limit.
///
/// ```no_run
/// use tickline::Clock;
///
/// let clock = match tickline_page::open("/run/tickline/page.v1") {
///     // No process serves the page.
///     Err(error) if error.is_not_found() => Clock::default(),
///     // For example, another user owns the file, or this is not Linux.
///     opened => opened?,
/// };
/// println!("{:?}", clock.now());
/// # Ok::<(), tickline_page::PageError>(())
/// ```
pub fn open(path: impl AsRef<Path>) -> Result<Clock, PageError> {
    open_with_probes(path, Probes::Full)
}

/// Like [`open`], with other probes. With [`Probes::Minimal`] a reading makes no system call except
/// of the OS clock. While it waits for a first line, it does not yield the CPU. A forked child does
/// not attach again: the OS clock serves it, and the state says so.
///
/// # Errors
///
/// The errors of [`open`].
///
/// ```no_run
/// use tickline::Probes;
///
/// let clock = tickline_page::open_with_probes("/run/tickline/page.v1", Probes::Minimal)?;
/// println!("{:?}", clock.now());
/// # Ok::<(), tickline_page::PageError>(())
/// ```
pub fn open_with_probes(path: impl AsRef<Path>, probes: Probes) -> Result<Clock, PageError> {
    let reader = PageReader::open(path.as_ref(), probes)?;
    Ok(Clock::from_backend(Arc::new(reader)))
}

/// The counter that a process may read, unless its environment switches the counter off.
fn unless_switched_off(
    admitted: Result<HardwareCounter, Reason>,
    switch: EnvironmentSwitch,
) -> Result<HardwareCounter, Reason> {
    match switch {
        EnvironmentSwitch::Off => Err(Reason::DisabledByEnvironment),
        _ => admitted,
    }
}

impl PageReader {
    /// Opens a page, and attaches to it.
    fn open(path: &Path, probes: Probes) -> Result<Self, PageError> {
        let attached = AttachedFile::open(path)?;
        let page_offset_ns = attached.page().page_offset_ns();
        let admitted = admitted_counter();
        let counter = unless_switched_off(admitted, EnvironmentSwitch::read(probes));
        let reader = Self {
            os: PageOs::new(probes, admitted.err()),
            counter,
            process: ProcessMark::new(),
            page_offset_ns: AtomicI64::new(page_offset_ns),
            process_high_water: ProcessHighWater::new(),
            stage: UseStage::new(),
            file: attached.file,
        };
        reader.process.decide(Decision::Attached);
        // Rule R8: so far the process has read the OS clock.
        reader
            .file
            .attached(page_offset_ns)
            .raise_to_os_clock(&reader.os, &reader.process_high_water);
        Ok(reader)
    }

    /// `CLOCK_MONOTONIC`, ns, in order with every process that reads this page.
    #[inline]
    fn monotonic(&self) -> PageReading {
        self.read_page()
            .unwrap_or_else(|| os_reading(self.os_monotonic_ns()))
    }

    /// `CLOCK_REALTIME`, ns.
    #[inline]
    fn unix(&self) -> PageReading {
        match self.counter_and_offset_ns() {
            None => os_reading(self.os.unix_ns()),
            Some((counter, offset_ns)) => {
                self.file
                    .attached(offset_ns)
                    .unix(&counter, &self.os, &self.process_high_water)
            }
        }
    }

    /// A reading by the page; `None` if the page is not used.
    #[inline]
    fn read_page(&self) -> Option<PageReading> {
        let (counter, offset_ns) = self.counter_and_offset_ns()?;
        let reading =
            self.file
                .attached(offset_ns)
                .monotonic(&counter, &self.os, &self.process_high_water);
        if self.stage.must_raise() {
            self.process_high_water
                .raise(reading.ns.wrapping_sub(offset_ns));
        }
        Some(reading)
    }

    /// Raises the process's high-water mark to the most that an earlier reading by the page may
    /// have returned: one margin above a reading now, because the earlier reading's CPU may have
    /// read the counter late, or have a counter that is ahead (rule 5 of DESIGN.md).
    #[cold]
    fn raise_above_earlier_readings(&self) {
        if let (Some(reading), Some(offset_ns)) = (self.read_page(), self.page_offset_ns()) {
            let page_ns = reading.ns.wrapping_sub(offset_ns);
            self.process_high_water
                .raise(page_ns.saturating_add(MEETING_MARGIN_NS.cast_signed()));
        }
    }

    /// What a reading by the page needs; `None` if the page is not used. Asks for the offset,
    /// which may be a system call, only if the counter may serve.
    #[inline]
    fn counter_and_offset_ns(&self) -> Option<(HardwareCounter, i64)> {
        let counter = self.counter.ok()?;
        if !self.stage.allows_page() {
            return None;
        }
        Some((counter, self.page_offset_ns()?))
    }

    /// The OS clock, ns, or the process's high-water mark if that is larger.
    #[cold]
    fn os_monotonic_ns(&self) -> i64 {
        // Without an offset, the timescale of the high-water mark is unknown.
        let Some(page_offset_ns) = self.page_offset_ns() else {
            return self.os.monotonic_ns();
        };
        let ns = self
            .os
            .monotonic_ns()
            .wrapping_sub(page_offset_ns)
            .max(self.process_high_water.ns());
        self.process_high_water.raise(ns);
        ns.wrapping_add(page_offset_ns)
    }

    /// The offset of this process, ns; `None` if the process can't use the page. A forked child may
    /// be in another time namespace, and attaches again.
    #[inline]
    fn page_offset_ns(&self) -> Option<i64> {
        let page_offset_ns = if self.process.is_attached() {
            // ORDERING: Relaxed, stored before the process was attached.
            self.page_offset_ns.load(Ordering::Relaxed)
        } else {
            self.attach_again()
        };
        (page_offset_ns != NO_PAGE).then_some(page_offset_ns)
    }

    /// Attaches a forked child, unless one of its threads has decided. Returns the child's offset,
    /// ns, or [`NO_PAGE`].
    #[cold]
    #[inline(never)]
    fn attach_again(&self) -> i64 {
        if self.process.decision() == Some(Decision::Refused) {
            return NO_PAGE;
        }
        let _errno = PreserveErrno(errno());
        let page_offset_ns = match self.os.probes() {
            Probes::Full => self.file.boot_context().ok().and_then(|context| {
                let attached = self.file.page().attach(&context).ok()?;
                // Rule R8, for a child: another thread of its parent may have read the OS clock.
                attached.raise_to_os_clock(&self.os, &self.process_high_water);
                Some(attached.page_offset_ns())
            }),
            _ => None,
        };
        self.decide(page_offset_ns)
    }

    /// Decides for the process by the offset that this thread has found, ns, if it has found one.
    /// Returns the offset that the process then has, or [`NO_PAGE`]: another thread may have
    /// decided first.
    fn decide(&self, page_offset_ns: Option<i64>) -> i64 {
        let wanted = match page_offset_ns {
            Some(page_offset_ns) => {
                // ORDERING: Relaxed, published by the decision. All threads that attach find the
                // same offset: they are in one time namespace (`page_file/boot_context.rs`).
                self.page_offset_ns.store(page_offset_ns, Ordering::Relaxed);
                Decision::Attached
            }
            None => Decision::Refused,
        };
        match self.process.decide(wanted) {
            // ORDERING: Relaxed, stored before the process was attached.
            Decision::Attached => self.page_offset_ns.load(Ordering::Relaxed),
            Decision::Refused => NO_PAGE,
        }
    }

    /// The state of a process that the page does not serve, although nothing switches it off.
    fn state_without_page(&self) -> ClockState {
        match (self.process.decision(), self.os.probes()) {
            // The page was switched off or on meanwhile.
            (None | Some(Decision::Attached), _) => ClockState::Calibrating,
            (Some(Decision::Refused), Probes::Full) => {
                ClockState::BackendFallback("this forked process could not attach to the page")
            }
            (Some(Decision::Refused), _) => ClockState::BackendFallback(
                "with minimal probes a forked process does not attach to the page",
            ),
        }
    }

    /// Why the page is not used; `None` if it is.
    fn reason(&self) -> Option<Reason> {
        let switched_off = || (!self.stage.allows_page()).then_some(Reason::DisabledByProgram);
        self.counter.err().or_else(switched_off)
    }
}

/// Restores `errno` when it is dropped. A reading may make system calls that fail, perhaps in a
/// signal handler, while the program is about to read its own `errno`.
struct PreserveErrno(Errno);

impl Drop for PreserveErrno {
    fn drop(&mut self) {
        set_errno(self.0);
    }
}

const fn os_reading(ns: i64) -> PageReading {
    PageReading {
        ns,
        source: PageSource::Os,
    }
}

/// A negative time becomes 0.
fn saturating_unsigned(ns: i64) -> u64 {
    u64::try_from(ns).unwrap_or(0)
}

/// A reading that the page has given between two readings of the OS clock, `os_ns`. The upper bound
/// is 1 ns higher, because the OS clock rounds down to a nanosecond.
fn bounded<T: Copy + Ord>(
    PageReading { ns, source }: PageReading,
    [before_ns, after_ns]: [i64; 2],
    from_nanos: fn(u64) -> T,
) -> Reading<T> {
    let [earliest, time, latest] =
        [before_ns, ns, after_ns.saturating_add(1)].map(|ns| from_nanos(saturating_unsigned(ns)));
    match source {
        PageSource::Line => Reading::from_counter(time, earliest..=latest),
        PageSource::Os => Reading::new(time, earliest..=latest),
    }
}

impl Backend for PageReader {
    fn now(&self) -> Instant {
        Instant::from_nanos(saturating_unsigned(self.monotonic().ns))
    }

    fn unix_now(&self) -> UnixTime {
        UnixTime::from_nanos(saturating_unsigned(self.unix().ns))
    }

    fn reading(&self) -> Reading<Instant> {
        let before_ns = self.os.monotonic_ns();
        let reading = self.monotonic();
        let os_ns = [before_ns, self.os.monotonic_ns()];
        bounded(reading, os_ns, Instant::from_nanos)
    }

    fn unix_reading(&self) -> Reading<UnixTime> {
        let before_ns = self.os.unix_ns();
        let reading = self.unix();
        let os_ns = [before_ns, self.os.unix_ns()];
        bounded(reading, os_ns, UnixTime::from_nanos)
    }

    fn state(&self) -> ClockState {
        match (self.reason(), self.read_page()) {
            (Some(reason), _) => ClockState::Fallback(reason),
            (
                None,
                Some(PageReading {
                    source: PageSource::Line,
                    ..
                }),
            ) => ClockState::Fast,
            (None, Some(_)) => ClockState::Calibrating,
            (None, None) => self.state_without_page(),
        }
    }

    /// Readings come from the OS clock from now on, and are not below earlier readings.
    fn disable(&self) {
        if let Some(ending) = self.stage.begin_disable() {
            self.raise_above_earlier_readings();
            self.stage.finish_disable(ending);
        }
    }

    fn enable(&self) {
        self.stage.enable();
    }
}

#[cfg(test)]
mod tests;
