//! [`Publisher`]: serves a page to other processes.

use core::time::Duration;
use std::path::Path;

use tickline_core::counter::{HardwareCounter, resolution_ticks};
use tickline_core::gate::Reason;
use tickline_page::LeasePhase;
use tickline_page::page_file::LockedPageFile;
use tickline_page::protocol::{
    Basis, LeaseMemory, OsBounds, PageChanged, Writer, WriterAction, WriterConfig,
};

use crate::clock::Clock;
use crate::engine::Engine;
use crate::error::Error;
use crate::status::ClockState;
use crate::sys::reference::OsClock;
use crate::sys::{self, COUNTER};

/// The longest time to the next iteration while the clock has no line, but may have one soon.
const NO_LINE_RETRY: Duration = Duration::from_millis(10);

/// The longest time to the next iteration while a gate is closed.
const GATE_CLOSED_RETRY: Duration = Duration::from_millis(500);

/// Serves a page: publishes the calibration of a [`Clock`], lease by lease.
///
/// One thread calls [`maintain`](Self::maintain), and sleeps for the time that the call returns.
/// If a publisher is dropped, stopped or killed, its leases run out within a second, and readers
/// then ask the OS clock. Another publisher then continues in the same page, in order.
///
/// The clock should have a thread and one line for all CPUs
/// ([`LinePerCpu::Off`](crate::LinePerCpu::Off)). The process must not fork.
///
/// ```no_run
/// use tickline::page::Publisher;
/// use tickline::{Clock, LinePerCpu};
///
/// # fn main() -> Result<(), tickline::Error> {
/// let clock = Clock::builder().line_per_cpu(LinePerCpu::Off).start()?;
/// let mut publisher = Publisher::start(clock, "/run/tickline/page.v1")?;
/// loop {
///     std::thread::sleep(publisher.maintain()?);
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Publisher {
    clock: Clock,
    counter: HardwareCounter,
    page: LockedPageFile,
    writer: Writer,
    is_ending: bool,
    /// Another process has switched the page off.
    is_off: bool,
}

impl Publisher {
    /// Locks the page's file, creates it if it is missing, and takes it over from the last
    /// publisher. Does not publish yet. The folder must exist. A page that was switched off
    /// (`tickline serve off`) stays so: [`phase`](Self::phase) is [`LeasePhase::Off`], and
    /// [`maintain`](Self::maintain) does nothing.
    ///
    /// # Errors
    ///
    /// [`PageUnusable`](crate::ErrorKind::PageUnusable), if one of these holds:
    ///
    /// - this target has no counter, or this process may not read it,
    /// - another process, or another publisher of this process, serves the page,
    /// - the file is not the user's own, is not trusted, is not a page, or cannot be created,
    /// - the file was made in this boot for another time namespace, counter or layout,
    /// - the boot, the time namespace or its offset cannot be read,
    /// - the file's lock is another user's, or cannot be taken,
    /// - another process writes to the page against the rules.
    pub fn start(clock: Clock, path: impl AsRef<Path>) -> Result<Self, Error> {
        let counter = COUNTER.ok_or_else(|| Error::page(Reason::NoCounter))?;
        if !sys::may_read_counter() {
            return Err(Error::page(Reason::Denied));
        }
        let page = LockedPageFile::create(path.as_ref()).map_err(Error::page)?;
        let config = WriterConfig {
            os_resolution_ns: os_resolution_ns(),
            counter_resolution_ticks: resolution_ticks(&counter).max(1),
            ..WriterConfig::DEFAULT
        };
        let writer = Writer::start(&page, config)
            .map_err(|PageChanged| Error::page(page.changed_error()))?;
        Ok(Self {
            clock,
            counter,
            page,
            writer,
            is_ending: false,
            is_off: false,
        })
    }

    /// Does the work that is due, and returns the time until the next call. Never waits. Once
    /// another process has switched the page off, [`phase`](Self::phase) is [`LeasePhase::Off`],
    /// and the call does nothing.
    ///
    /// # Errors
    ///
    /// [`PageUnusable`](crate::ErrorKind::PageUnusable) if the page's file was truncated, or
    /// another process writes to the page against the rules. The publisher must be dropped.
    pub fn maintain(&mut self) -> Result<Duration, Error> {
        self.page.check_size().map_err(Error::page)?;
        match self.try_maintain() {
            Err(PageChanged) if self.was_switched_off() => {
                self.is_off = true;
                Ok(GATE_CLOSED_RETRY)
            }
            next_in => next_in.map_err(|PageChanged| Error::page(self.page.changed_error())),
        }
    }

    /// Whether another process has switched the page off. A truncated file reads as off, too, but
    /// not as newer.
    fn was_switched_off(&self) -> bool {
        let (word, own) = (self.page.word(), self.writer.word());
        word.phase() == LeasePhase::Off && word.generation() > own.generation()
    }

    fn try_maintain(&mut self) -> Result<Duration, PageChanged> {
        let engine = self.clock.engine();
        let basis = basis(engine.state(), || {
            if self.is_ending {
                None
            } else {
                engine.lease_bounds()
            }
        });
        if self.writer.word().phase() == LeasePhase::NoLine && matches!(basis, Basis::Bounds(_)) {
            // Since the last line the kernel may have changed its clocksource.
            self.writer.set_os_resolution_ns(os_resolution_ns());
        }
        // Rule W10 needs the whole rate, also under a daemon that leaves the slew to the kernel
        // (systemd-timesyncd).
        let rate_ppb = OsClock::whole_rate_ppb().unwrap_or(0);
        let iteration =
            self.writer
                .maintain(&self.page, &self.counter, &OsClock, basis, rate_ppb)?;
        let next_in = Duration::from_nanos(iteration.next_in_ns);
        Ok(match (iteration.action, basis) {
            (WriterAction::Waited, Basis::Doubt) => next_in.min(GATE_CLOSED_RETRY),
            (WriterAction::Waited, Basis::Nothing) => next_in.min(NO_LINE_RETRY),
            _ => next_in,
        })
    }

    /// Publishes no line from now on. The leases run out within a second; the caller goes on with
    /// [`maintain`](Self::maintain) until [`has_line`](Self::has_line) is false.
    pub fn end(&mut self) {
        self.is_ending = true;
    }

    /// Whether the page names a line.
    #[must_use]
    pub fn has_line(&self) -> bool {
        !matches!(self.phase(), LeasePhase::Off | LeasePhase::NoLine)
    }

    /// The phase of the page since the last iteration.
    #[must_use]
    pub fn phase(&self) -> LeasePhase {
        if self.is_off {
            LeasePhase::Off
        } else {
            self.writer.word().phase()
        }
    }

    /// Whether no line is published because the kernel slews its clock by more than 1,000 ppm, or
    /// did so before the clock's newest samples. Only for tickline's program.
    #[doc(hidden)]
    #[must_use]
    pub const fn waits_for_slew(&self) -> bool {
        self.writer.waits_for_slew()
    }

    /// The clock whose time is served.
    #[must_use]
    pub const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Whether the page is locked in memory, so that a store never waits for a disk. Only for
    /// tickline's program.
    #[doc(hidden)]
    #[must_use]
    pub const fn is_locked_in_memory(&self) -> bool {
        self.page.is_locked_in_memory()
    }

    /// Whether rseq(2) excludes a preemption between the last read of the counter and the store
    /// that follows (x86-64). Only for tickline's program.
    #[doc(hidden)]
    #[must_use]
    pub fn uses_rseq(&self) -> bool {
        self.page.uses_rseq()
    }
}

impl Engine {
    /// The bounds of the OS clock, while one line is in use on all CPUs, and the OS clock is within
    /// its bounds.
    fn lease_bounds(&self) -> Option<OsBounds> {
        if self.is_disrupted() {
            return None;
        }
        // Only within the readers' window, because a clock whose thread has died is not
        // recalibrated. With a line for each CPU there is no common line to read.
        let bounds = self.read_bounded()?.bounds;
        // The least and the greatest value of Unix time minus monotonic time.
        let (ns, bound_ns) = (bounds.unix_offset_ns, bounds.unix_bound_ns);
        let interval_ns = (
            ns.saturating_sub_unsigned(bound_ns),
            ns.saturating_add_unsigned(bound_ns),
        );
        let unix_offset_ns = (!self.os_serves_unix()).then_some(interval_ns);
        Some(OsBounds {
            lower: bounds.lower,
            upper: bounds.upper,
            unix_offset_ns,
        })
    }
}

/// The resolution of the OS clock, ns.
fn os_resolution_ns() -> i64 {
    // The counter's own resolution matters only for brackets.
    sys::clocksource()
        .resolutions(HardwareCounter::CLOCKSOURCE, 0)
        .reference_ns
        .max(1)
}

/// The basis of the page's next lines. A fallback puts the leases in doubt even while the publisher
/// ends, because the line may be wrong.
fn basis(state: ClockState, bounds: impl FnOnce() -> Option<OsBounds>) -> Basis {
    match state {
        ClockState::Fallback(_) | ClockState::Unavailable | ClockState::Mock => Basis::Doubt,
        ClockState::Fast | ClockState::Disrupted | ClockState::Calibrating => {
            bounds().map_or(Basis::Nothing, Basis::Bounds)
        }
    }
}

#[cfg(test)]
mod tests {
    use tickline_page::protocol::Line;

    use super::*;

    /// Rule W6. Symptom: leases stayed trusted if the clock fell back after `end`.
    #[test]
    fn a_fallback_puts_leases_in_doubt_whether_or_not_the_publisher_ends() {
        let line = Line::default();
        let bounds = OsBounds {
            lower: line,
            upper: line,
            unix_offset_ns: None,
        };
        for bounds in [None, Some(bounds)] {
            assert_eq!(
                basis(ClockState::Fallback(Reason::Unsynchronised), || bounds),
                Basis::Doubt
            );
            assert_eq!(basis(ClockState::Mock, || bounds), Basis::Doubt);
        }
        assert_eq!(basis(ClockState::Fast, || None), Basis::Nothing);
        assert_eq!(
            basis(ClockState::Fast, || Some(bounds)),
            Basis::Bounds(bounds)
        );
    }
}
