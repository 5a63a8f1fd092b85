//! [`Publisher`]: serves a page to other processes.

use core::time::Duration;
use std::path::Path;

use tickline::bounds::Bounds;
use tickline::{Clock, ClockState, Probes, Reason};
use tickline_core::counter::{HardwareCounter, resolution_ticks};

use super::os::{PageOs, admitted_counter, os_resolution_ns, whole_rate_ppb};
use crate::lease::memory::LeaseMemory as _;
use crate::lease::{
    Basis, LeasePhase, OsBounds, PageChanged, UnixOffsetBounds, Writer, WriterAction, WriterConfig,
};
use crate::page_file::{LockedPageFile, PageError, PageErrorCause};

/// The longest time to the next iteration while the clock has no line, but may have one soon.
const NO_LINE_RETRY: Duration = Duration::from_millis(10);

/// The time to the next call once the page is switched off.
const OFF_RETRY: Duration = Duration::from_millis(500);

/// Serves a page: publishes the calibration of a [`Clock`], lease by lease.
///
/// One thread calls [`maintain`](Self::maintain), and sleeps for the time that the call returns.
/// If a publisher is dropped, stopped or killed, its leases run out within a second, and readers
/// then ask the OS clock. Another publisher then continues in the same page, in order.
///
/// The clock should have a thread and one line for all CPUs
/// ([`LinePerCpu::Off`](tickline::LinePerCpu::Off)). The process must not fork. Needs the feature
/// `clock`.
///
/// ```no_run
/// use tickline::{Clock, LinePerCpu};
/// use tickline_page::Publisher;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let clock = Clock::builder().line_per_cpu(LinePerCpu::Off).build()?;
/// let mut publisher = Publisher::start(clock, "/run/tickline/page.v1")?;
/// loop {
///     std::thread::sleep(publisher.maintain()?);
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Publisher {
    clock: Clock,
    os: PageOs,
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
    /// If one of these holds:
    ///
    /// - this target has no counter, or this process may not read it,
    /// - another process, or another publisher of this process, serves the page,
    /// - the file is not the user's own, is not trusted, is not a page, or cannot be created,
    /// - the file was made in this boot for another time namespace, counter or layout,
    /// - the boot, the time namespace or its offset cannot be read,
    /// - the file's lock is another user's, or cannot be taken,
    /// - another process writes to the page against the rules.
    pub fn start(clock: Clock, path: impl AsRef<Path>) -> Result<Self, PageError> {
        let path = path.as_ref();
        let counter = admitted_counter()
            .map_err(|reason| PageError::new(path, PageErrorCause::Counter(reason)))?;
        let page = LockedPageFile::create(path)?;
        let config = WriterConfig {
            os_resolution_ns: os_resolution_ns(),
            counter_resolution_ticks: resolution_ticks(&counter).max(1),
            ..WriterConfig::new()
        };
        let writer = Writer::start(&page, config).map_err(|PageChanged| page.changed_error())?;
        Ok(Self {
            clock,
            os: PageOs::new(Probes::Full, None),
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
    /// If the page's file was truncated, or another process writes to the page against the rules.
    /// The publisher must be dropped.
    pub fn maintain(&mut self) -> Result<Duration, PageError> {
        self.page.check_size()?;
        match self.try_maintain() {
            Err(PageChanged) if self.was_switched_off() => {
                self.is_off = true;
                Ok(OFF_RETRY)
            }
            next_in => next_in.map_err(|PageChanged| self.page.changed_error()),
        }
    }

    /// Whether another process has switched the page off. A truncated file reads as off, too, but
    /// its generation is not newer. The word of a file full of ones is off and newer, but no
    /// writer's.
    fn was_switched_off(&self) -> bool {
        let word = self.page.word();
        let own = self.writer.word();
        word.phase() == LeasePhase::Off
            && word.is_of_writer()
            && word.generation() > own.generation()
    }

    fn try_maintain(&mut self) -> Result<Duration, PageChanged> {
        let status = self.clock.status();
        let basis = basis(status.state, || {
            if self.is_ending {
                return None;
            }
            // Only within the readers' window, because a clock whose thread has died is not
            // recalibrated. With a line for each CPU there is no common line to read.
            let bounds = self.clock.bounds()?;
            Some(os_bounds(&bounds, status.unix_reason()))
        });
        if begins_line(self.writer.word().phase(), basis) {
            // Since the last line the kernel may have changed its clocksource.
            self.writer.set_os_resolution_ns(os_resolution_ns());
        }
        // Rule W10 needs the whole rate, also under a daemon that leaves the slew to the kernel
        // (systemd-timesyncd).
        let rate_ppb = whole_rate_ppb();
        let iteration =
            self.writer
                .iterate(&self.page, &self.counter, &self.os, basis, rate_ppb)?;
        let next_in = Duration::from_nanos(iteration.next_in_ns);
        if iteration.action == WriterAction::Waited && basis == Basis::Nothing {
            return Ok(next_in.min(NO_LINE_RETRY));
        }
        // Also while a gate is closed: a writer waits for a lease at most.
        Ok(next_in)
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

    /// Whether no line is published because the kernel slews its clock by more than
    /// [`FAST_RATE_PPB`](crate::lease::FAST_RATE_PPB), or did so before the clock's newest samples
    /// (rule W10).
    #[must_use]
    pub const fn waits_for_slew(&self) -> bool {
        self.writer.waits_for_slew()
    }

    /// The clock whose time is served.
    pub const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Whether the page is locked in memory (mlock(2)), so that a store never waits for a disk. If
    /// not, the limit of locked memory is too low (`ulimit -l`).
    #[must_use]
    pub const fn is_locked_in_memory(&self) -> bool {
        self.page.is_locked_in_memory()
    }

    /// Whether the file at the page's path is still the one that is served; `true` if that can't be
    /// known. No program finds a file that was deleted or replaced.
    #[must_use]
    pub fn is_at_its_path(&self) -> bool {
        self.page.is_at_its_path()
    }

    /// Whether rseq(2) excludes a preemption between the last read of the counter and the store
    /// that follows (x86-64). Without it, a line of a server that is stopped just there can begin
    /// late.
    #[must_use]
    pub fn uses_rseq(&self) -> bool {
        self.page.uses_rseq()
    }
}

/// Whether the writer may publish a first line.
fn begins_line(phase: LeasePhase, basis: Basis) -> bool {
    phase == LeasePhase::NoLine && matches!(basis, Basis::Bounds(_))
}

/// The bounds of the OS clock for the page, by the bounds of the clock's line. If the clock has a
/// reason against Unix time by its line, the page leaves Unix time to the OS clock as well.
fn os_bounds(bounds: &Bounds, unix_reason: Option<Reason>) -> OsBounds {
    let (ns, bound_ns) = (bounds.unix_offset_ns, bounds.unix_bound_ns);
    let unix_offset = UnixOffsetBounds {
        least_ns: ns.saturating_sub_unsigned(bound_ns),
        most_ns: ns.saturating_add_unsigned(bound_ns),
    };
    OsBounds {
        lower: bounds.lower,
        upper: bounds.upper,
        unix_offset: unix_reason.is_none().then_some(unix_offset),
    }
}

/// The basis of the page's next lines. `bounds` contain the OS clock, while one line is in use on
/// all CPUs. They count only while the OS clock is within them. A fallback puts the leases in
/// doubt even while the publisher ends, because the line may be wrong. So does a clock that has no
/// line: a mock, or a backend of the program's own, even one that falls back to the OS clock.
fn basis(state: ClockState, bounds: impl FnOnce() -> Option<OsBounds>) -> Basis {
    match state {
        ClockState::Fast => bounds().map_or(Basis::Nothing, Basis::Bounds),
        ClockState::Disrupted | ClockState::Calibrating => Basis::Nothing,
        _ => Basis::Doubt,
    }
}

#[cfg(test)]
mod tests {
    use tickline_observe::skip;

    use super::*;
    use crate::lease::Line;
    use crate::lease::memory::LeaseStore as _;

    fn bounds() -> OsBounds {
        os_bounds(&Bounds::default(), None)
    }

    /// Rule W6. Symptom: leases stayed trusted if the clock fell back after `end`.
    #[test]
    fn a_fallback_puts_leases_in_doubt_whether_or_not_the_publisher_ends() {
        for bounds in [None, Some(bounds())] {
            for state in [
                ClockState::Fallback(Reason::Unsynchronised),
                ClockState::Unavailable,
                ClockState::Mock,
                ClockState::Backend,
                ClockState::BackendFallback("its source is gone"),
            ] {
                assert_eq!(basis(state, || bounds), Basis::Doubt, "{state}");
            }
        }
    }

    #[test]
    fn a_line_is_published_only_while_the_os_clock_is_within_its_bounds() {
        let with_bounds = |state| basis(state, || Some(bounds()));
        assert_eq!(with_bounds(ClockState::Fast), Basis::Bounds(bounds()));
        assert_eq!(with_bounds(ClockState::Disrupted), Basis::Nothing);
        assert_eq!(with_bounds(ClockState::Calibrating), Basis::Nothing);
        assert_eq!(basis(ClockState::Fast, || None), Basis::Nothing);
    }

    /// The gate `unix_cost` closes on some machines: the OS clock then serves Unix time faster.
    #[test]
    fn unix_time_is_served_unless_the_clock_has_a_reason_against_it() {
        let line = |base_ns| Line {
            base_ns,
            ..Line::default()
        };
        let bounds = Bounds {
            lower: line(10),
            upper: line(20),
            unix_offset_ns: 1_000,
            unix_bound_ns: 7,
        };
        let served = OsBounds {
            lower: line(10),
            upper: line(20),
            unix_offset: Some(UnixOffsetBounds {
                least_ns: 993,
                most_ns: 1_007,
            }),
        };
        assert_eq!(os_bounds(&bounds, None), served);
        let without_unix = OsBounds {
            unix_offset: None,
            ..served
        };
        assert_eq!(os_bounds(&bounds, Some(Reason::Slow)), without_unix);
    }

    #[test]
    fn a_line_begins_on_a_page_without_one() {
        let basis = Basis::Bounds(bounds());
        assert!(begins_line(LeasePhase::NoLine, basis));
        for phase in [LeasePhase::Off, LeasePhase::Published, LeasePhase::Doubted] {
            assert!(!begins_line(phase, basis), "{phase:?}");
        }
    }

    #[test]
    fn a_line_begins_only_with_bounds() {
        for basis in [Basis::Nothing, Basis::Doubt] {
            assert!(!begins_line(LeasePhase::NoLine, basis), "{basis:?}");
        }
    }

    /// A publisher of a page in `folder`; `None`, with a message, if there can be none here.
    fn publisher_in(folder: &Path) -> Option<Publisher> {
        let clock = Clock::builder()
            .driver(tickline::Driver::Manual)
            .build()
            .unwrap();
        match Publisher::start(clock, folder.join("page")) {
            Ok(publisher) => Some(publisher),
            Err(error) => {
                skip(error);
                None
            }
        }
    }

    /// It is no page that was switched off, so the server must not go on.
    #[test]
    fn another_writer_ends_the_publisher() {
        let folder = tempfile::tempdir().unwrap();
        let Some(mut publisher) = publisher_in(folder.path()) else {
            return;
        };
        publisher.maintain().expect("the only writer");
        Writer::start(&publisher.page, WriterConfig::new()).expect("a second writer");
        let error = publisher.maintain().unwrap_err();
        assert_eq!(*error.cause(), PageErrorCause::Changed(PageChanged));
    }

    #[test]
    fn a_publisher_of_a_clock_that_is_off_comes_again_after_a_lease() {
        let folder = tempfile::tempdir().unwrap();
        let Some(mut publisher) = publisher_in(folder.path()) else {
            return;
        };
        publisher.clock().disable();
        let lease = Duration::from_nanos(WriterConfig::new().lease_ns);
        assert_eq!(publisher.maintain().unwrap(), lease);
    }

    #[test]
    fn a_publisher_whose_page_is_switched_off_goes_on_without_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let Some(mut publisher) = publisher_in(folder.path()) else {
            return;
        };
        crate::page_file::switch_off(folder.path().join("page")).expect("a page");
        publisher.maintain().expect("no error");
        assert_eq!(
            (publisher.phase(), publisher.has_line()),
            (LeasePhase::Off, false)
        );
    }

    /// A server that is stopped ends once its page has no line.
    #[test]
    fn a_page_has_a_line_while_one_is_published_or_doubted() {
        let folder = tempfile::tempdir().unwrap();
        let Some(mut publisher) = publisher_in(folder.path()) else {
            return;
        };
        for (phase, has_line) in [
            (LeasePhase::NoLine, false),
            (LeasePhase::Published, true),
            (LeasePhase::Doubted, true),
        ] {
            let word = publisher.page.word();
            let next = word.next(phase, word.first(), None);
            assert!(publisher.page.try_swap(word, next));
            publisher.writer = Writer::start(&publisher.page, WriterConfig::new()).unwrap();
            assert_eq!((publisher.phase(), publisher.has_line()), (phase, has_line));
        }
    }

    #[test]
    fn a_publisher_whose_file_was_truncated_ends() {
        let folder = tempfile::tempdir().unwrap();
        let Some(mut publisher) = publisher_in(folder.path()) else {
            return;
        };
        let page = std::fs::File::options()
            .write(true)
            .open(folder.path().join("page"));
        page.unwrap().set_len(100).unwrap();
        let error = publisher.maintain().unwrap_err().to_string();
        assert!(
            error.contains("the page has 100 bytes, not 4096"),
            "{error}"
        );
    }

    /// The kernel's word is in smaps (proc_pid_smaps(5)).
    #[test]
    fn a_publisher_says_whether_the_kernel_keeps_its_page_in_memory() {
        let folder = tempfile::tempdir().unwrap();
        let Some(publisher) = publisher_in(folder.path()) else {
            return;
        };
        let path = folder.path().join("page");
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let (_, mapping) = smaps.split_once(path.to_str().unwrap()).expect("a mapping");
        let locked = mapping
            .lines()
            .find_map(|line| line.strip_prefix("Locked:"));
        let is_locked = locked.expect("a field").trim() != "0 kB";
        assert_eq!(publisher.is_locked_in_memory(), is_locked);
    }
}
