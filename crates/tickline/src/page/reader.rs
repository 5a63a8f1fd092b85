//! A clock that reads a page which another process serves. It has no thread and no line.

use core::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering, fence};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tickline_core::gate::Reason;
use tickline_core::sample::{Reference, Timescale};
use tickline_page::host::PageFile;
use tickline_page::{LeasePhase, PageReading, PageSource, ProcessHighWater, ReaderOs};

use crate::backend::ClockBackend;
use crate::clock::Clock;
use crate::engine::{Engine, saturating_unsigned};
use crate::error::{Error, ErrorKind};
use crate::options::{Driver, Environment, Probes};
use crate::reading::Reading;
use crate::status::State;
use crate::sys::reference::OsClock;
use crate::sys::{self, COUNTER};
use crate::trust::facts::{environment, learn_environment};

/// In place of a shift: the page does not count in this process.
const NO_PAGE: i64 = i64::MIN;

/// Readings are by the page.
const ENABLED: u8 = 0;
/// Readings are by the page, and raise the process's high-water mark.
const ENDING: u8 = 1;
/// Readings are by the OS clock, above the process's high-water mark.
const DISABLED: u8 = 2;

/// The OS clocks of this process.
#[derive(Debug, Clone, Copy)]
struct PageOs {
    /// Whether there is one CPU, so that waiting needs others to run.
    is_alone: bool,
    /// Whether the vDSO answers coarse clocks, which it does with every clocksource.
    has_coarse: bool,
}

impl PageOs {
    fn find() -> Self {
        let is_alone = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() == 1);
        // The kernel has mapped its vDSO, and the process may use it.
        // SAFETY: takes a number, and touches no memory that changes.
        let has_coarse = sys::may_read_counter() && unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } != 0;
        Self { is_alone, has_coarse }
    }
}

impl Reference for PageOs {
    #[inline]
    fn monotonic_ns(&self) -> i64 {
        OsClock.monotonic_ns()
    }

    #[inline]
    fn realtime_ns(&self) -> i64 {
        OsClock.realtime_ns()
    }
}

impl ReaderOs for PageOs {
    #[inline]
    fn coarse_realtime_ns(&self) -> Option<i64> {
        if self.has_coarse { OsClock::coarse_realtime_ns() } else { None }
    }

    fn pause(&self) {
        if self.is_alone {
            std::thread::yield_now();
        } else {
            core::hint::spin_loop();
        }
    }
}

/// A page, and what this process knows of it.
#[derive(Debug)]
pub(crate) struct PageReader {
    path: PathBuf,
    file: PageFile,
    os: PageOs,
    probes: Probes,
    /// The token of the process that has attached.
    token: AtomicU64,
    /// By how much its `CLOCK_MONOTONIC` is ahead of the page's, ns; or [`NO_PAGE`].
    shift_ns: AtomicI64,
    process_high_water: ProcessHighWater,
    /// [`ENABLED`], [`ENDING`] or [`DISABLED`].
    switch: AtomicU8,
    /// Why the page is not used in any case.
    refused: Option<Reason>,
}

/// What a page serves to a clock: [`Clock::page_status`](crate::Clock::page_status).
///
/// ```no_run
/// use tickline::{Clock, Probes};
///
/// # fn main() -> Result<(), tickline::Error> {
/// let clock = Clock::open_page("/run/tickline/page.v1", Probes::Full)?;
/// if let Some(page) = clock.page_status() {
///     println!("{}: {}, {:?} ns ahead", page.path.display(), page.phase.code(), page.lead_ns);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PageStatus {
    /// The page's file.
    pub path: PathBuf,
    /// The user that it belongs to: 0 is root.
    pub owner: u32,
    /// What it says.
    pub phase: LeasePhase,
    /// How far readings may be above the OS clock while that keeps its rate, ns; `None` while there
    /// is no line.
    pub lead_ns: Option<i64>,
    /// For how long the present leases last, ns; `None` if there is none.
    pub lease_left_ns: Option<u64>,
}

impl Clock {
    /// A clock that reads the time from the page at `path`, which another process serves (`tickline
    /// serve`, or a [`Publisher`](crate::page::Publisher)). On other systems than Linux the call is
    /// an error of the kind [`Page`](crate::ErrorKind::Page).
    ///
    /// The page's server decides how the counter is calibrated and trusted. So this clock has no
    /// thread and no line. Its one setting is what it may ask the system.
    /// [`maintain`](Clock::maintain) does nothing. The monotonic readings of all processes that
    /// read the page are in order; `docs/lease.md` in the repository has the exceptions. Readings
    /// are up to [`lead_ns`](crate::page::PageStatus::lead_ns) ahead of the OS clock. If the page
    /// has no line, because its server has ended or the counter can't be trusted, readings come
    /// from the OS clock, in order. While the server publishes its first line, a reading may wait
    /// for up to 1 ms. Unix time is that of the page, too.
    ///
    /// This call reads files and maps memory, also with [`Probes::Minimal`]: make it before the
    /// process installs a seccomp filter. Make it before the process starts other clocks with
    /// minimal probes, too: after them each reading calls `getpid`. A forked child attaches to the
    /// page again, because it may be in another time namespace; with minimal probes the OS clock
    /// serves it. If the owner of the page truncates its file, the next reading is a SIGBUS.
    ///
    /// # Errors
    ///
    /// [`NoPage`](crate::ErrorKind::NoPage) if there is no such file.
    /// [`Page`](crate::ErrorKind::Page) if the file is not trusted, or if the page does not count here. The error's text has the
    /// wrong value and its limit.
    ///
    /// ```no_run
    /// use tickline::{Clock, ErrorKind, Probes};
    ///
    /// let clock = match Clock::open_page("/run/tickline/page.v1", Probes::Full) {
    ///     // Nobody serves it.
    ///     Err(error) if error.kind() == ErrorKind::NoPage => Clock::default(),
    ///     // Somebody else may have put it there, for example; or this is not Linux.
    ///     opened => opened?,
    /// };
    /// println!("{:?}", clock.now());
    /// # Ok::<(), tickline::Error>(())
    /// ```
    pub fn open_page(path: impl AsRef<Path>, probes: Probes) -> Result<Self, Error> {
        // Maps the memory that tells a forked child, unless another clock has minimal probes
        // already. Without this memory each reading, which asks for the token, is a system call.
        let token = sys::token();
        learn_environment(probes);
        let mut engine = Engine::new(Driver::Manual);
        engine.restrict_probes(probes);
        engine.set_backend(Arc::new(PageReader::open(path.as_ref(), probes, token)?));
        Ok(Self::from_engine(None, Arc::new(engine)))
    }

    /// What the page says by which another process serves this clock; `None` for a clock of its
    /// own.
    #[must_use]
    pub fn page_status(&self) -> Option<PageStatus> {
        self.engine().backend.as_ref()?.page_status()
    }
}

impl PageReader {
    /// Opens a page, and attaches to it.
    fn open(path: &Path, probes: Probes, token: u64) -> Result<Self, Error> {
        let (file, shift_ns) = PageFile::attach(path).map_err(|error| {
            let kind = if error.is_not_found() { ErrorKind::NoPage } else { ErrorKind::Page };
            Error::new(kind, error)
        })?;
        let refused = match environment(probes) {
            Environment::Off => Some(Reason::DisabledByEnvironment),
            _ if COUNTER.is_none() => Some(Reason::NoCounter),
            _ if !sys::may_read_counter() => Some(Reason::Denied),
            _ => None,
        };
        let reader = Self {
            path: path.to_owned(),
            os: PageOs::find(),
            probes,
            token: AtomicU64::new(token),
            shift_ns: AtomicI64::new(shift_ns),
            process_high_water: ProcessHighWater::new(),
            switch: AtomicU8::new(ENABLED),
            refused,
            file,
        };
        // Rule R8: the process has had the OS clock so far.
        reader.file.attached(shift_ns).begin(&reader.os, &reader.process_high_water);
        Ok(reader)
    }

    /// `CLOCK_MONOTONIC`, ns, in order with every process that reads this page.
    #[inline]
    fn monotonic(&self) -> PageReading {
        self.by_page().unwrap_or_else(|| by_os(self.os_monotonic_ns()))
    }

    /// `CLOCK_REALTIME`, ns.
    #[inline]
    fn unix(&self) -> PageReading {
        let counter = COUNTER.filter(|_| self.is_enabled());
        match counter.and_then(|counter| Some((counter, self.shift_ns()?))) {
            None => by_os(OsClock.realtime_ns()),
            Some((counter, shift_ns)) => {
                self.file.attached(shift_ns).unix(&counter, &self.os, &self.process_high_water)
            }
        }
    }

    #[inline]
    fn read(&self, timescale: Timescale) -> PageReading {
        match timescale {
            Timescale::Monotonic => self.monotonic(),
            Timescale::Unix => self.unix(),
        }
    }

    /// A reading by the page; `None` where the page is not read.
    #[inline]
    fn by_page(&self) -> Option<PageReading> {
        let counter = COUNTER.filter(|_| self.is_enabled())?;
        let shift_ns = self.shift_ns()?;
        let reading = self.file.attached(shift_ns).monotonic(&counter, &self.os, &self.process_high_water);
        // ORDERING: Acquire, pairs with the fence in `disable`. A reading that still finds the old
        // switch has read the counter before the reading that `disable` makes, and is not above
        // that reading. No test sees a weaker one: Miri maps no file, which a page is, and on
        // x86_64 this is no instruction.
        fence(Ordering::Acquire);
        // ORDERING: Relaxed, behind the fence.
        if self.switch.load(Ordering::Relaxed) != ENABLED {
            self.process_high_water.raise(reading.ns.wrapping_sub(shift_ns));
        }
        Some(reading)
    }

    #[inline]
    fn is_enabled(&self) -> bool {
        // ORDERING: Acquire, pairs with the second Release store in `disable`: the process's
        // high-water mark is raised. No test sees a weaker one, as in `by_page`.
        self.refused.is_none() && self.switch.load(Ordering::Acquire) != DISABLED
    }

    /// The OS clock, above what this process has had.
    #[cold]
    fn os_monotonic_ns(&self) -> i64 {
        // Without the page: another timescale than the high-water mark's.
        let Some(shift_ns) = self.shift_ns() else { return OsClock.monotonic_ns() };
        let ns = OsClock.monotonic_ns().wrapping_sub(shift_ns).max(self.process_high_water.ns());
        self.process_high_water.raise(ns);
        ns.wrapping_add(shift_ns)
    }

    /// The shift of this process; `None` if the page does not count here. A forked child may be in
    /// another time namespace, and attaches again.
    #[inline]
    fn shift_ns(&self) -> Option<i64> {
        // ORDERING: Acquire, pairs with the Release store in `attach_again`. No test sees a weaker
        // one, as in `by_page`.
        let shift_ns = if self.token.load(Ordering::Acquire) == sys::token() {
            // ORDERING: Relaxed, stored before the token.
            self.shift_ns.load(Ordering::Relaxed)
        } else {
            self.attach_again()
        };
        (shift_ns != NO_PAGE).then_some(shift_ns)
    }

    #[cold]
    #[inline(never)]
    fn attach_again(&self) -> i64 {
        let _errno = sys::PreserveErrno::new();
        let shift_ns = match self.probes {
            Probes::Full => self.file.boot_context().ok().and_then(|context| {
                let attached = self.file.page().attach(&context).ok()?;
                // Rule R8, for a child: its parent may have had the OS clock on another thread.
                attached.begin(&self.os, &self.process_high_water);
                Some(attached.shift_ns())
            }),
            Probes::Minimal => None,
        };
        let shift_ns = shift_ns.unwrap_or(NO_PAGE);
        // ORDERING: Relaxed, before the token.
        self.shift_ns.store(shift_ns, Ordering::Relaxed);
        // ORDERING: Release, pairs with the Acquire load in `shift_ns`. No test sees a weaker one,
        // as in `by_page`.
        self.token.store(sys::token(), Ordering::Release);
        shift_ns
    }

    /// Why the page is not read.
    fn reason(&self) -> Option<Reason> {
        self.refused.or_else(|| (!self.is_enabled()).then_some(Reason::DisabledByProgram))
    }
}

const fn by_os(ns: i64) -> PageReading {
    PageReading { ns, source: PageSource::Os }
}

impl ClockBackend for PageReader {
    fn now_ns(&self, timescale: Timescale) -> u64 {
        saturating_unsigned(self.read(timescale).ns)
    }

    fn reading(&self, timescale: Timescale) -> Reading<u64> {
        let os_ns = || saturating_unsigned(timescale.now_ns(&OsClock));
        let (before_ns, PageReading { ns, source }) = (os_ns(), self.read(timescale));
        let mut reading = Reading::from_os_bracket(saturating_unsigned(ns), [before_ns, os_ns()]);
        reading.is_by_counter = source == PageSource::Line;
        reading
    }

    fn state(&self) -> State {
        match (self.reason(), self.by_page()) {
            (Some(reason), _) => State::Fallback(reason),
            (None, Some(PageReading { source: PageSource::Line, .. })) => State::Fast,
            (None, _) => State::Calibrating,
        }
    }

    fn page_status(&self) -> Option<PageStatus> {
        let snapshot = COUNTER.filter(|_| self.is_enabled()).map(|counter| self.file.snapshot(&counter));
        let served = snapshot.filter(|snapshot| snapshot.is_served);
        Some(PageStatus {
            path: self.path.clone(),
            owner: self.file.owner(),
            phase: self.file.phase(),
            lead_ns: served.and_then(|snapshot| snapshot.lead_ns),
            lease_left_ns: served.and_then(|snapshot| u64::try_from(snapshot.lease_left_ns?).ok()),
        })
    }

    /// The OS clock from now on, not below what was read before.
    fn disable(&self) {
        // ORDERING: Relaxed, before the fence.
        self.switch.store(ENDING, Ordering::Relaxed);
        // ORDERING: SeqCst, pairs with the fence in `by_page`: the counter is read after the store.
        // No test sees a weaker one: Miri maps no file, and the store would have to be delayed for
        // longer than the calls in between take.
        fence(Ordering::SeqCst);
        // It raises the process's high-water mark.
        self.by_page();
        // ORDERING: Release, pairs with the Acquire load in `is_enabled`. No test sees a weaker
        // one, as in `by_page`.
        self.switch.store(DISABLED, Ordering::Release);
    }

    fn enable(&self) {
        // ORDERING: Relaxed, a flag on its own: readings respect the process's high-water mark in
        // any case.
        self.switch.store(ENABLED, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::DirBuilderExt as _;

    use super::*;
    use crate::page::Publisher;
    use crate::{Clock, Gate, Verdict};

    /// Runs `test` with the path of a page on which this process publishes the clock.
    fn with_page(name: &str, clock: Clock, test: impl FnOnce(&Path, &mut Publisher)) {
        let folder = std::env::temp_dir().join(format!("tickline-{name}-{}", std::process::id()));
        std::fs::DirBuilder::new().mode(0o700).create(&folder).unwrap();
        let path = folder.join("page");
        let mut publisher = Publisher::start(clock, &path).unwrap();
        for _ in 0..1_000 {
            if publisher.phase() != LeasePhase::Published {
                std::thread::sleep(publisher.step().unwrap().min(core::time::Duration::from_millis(1)));
            }
        }
        test(&path, &mut publisher);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn rule_r8_a_forked_child_raises_its_high_water() {
        with_page("r8", Clock::builder().start().unwrap(), |path, publisher| {
            let reader = PageReader::open(path, Probes::Full, sys::token()).unwrap();
            let os_ns = OsClock.monotonic_ns();
            // ORDERING: Relaxed for all: one thread.
            let high_water_ns = || reader.process_high_water.ns() + reader.shift_ns.load(Ordering::Relaxed);
            assert!(high_water_ns() < os_ns);
            // As a child of a fork finds it. A reading by a line leaves the process's high-water
            // mark as it is.
            reader.token.store(0, Ordering::Relaxed);
            let reading = reader.monotonic();
            assert!(high_water_ns() >= os_ns, "{reading:?} after {os_ns}, {:?}", publisher.phase());
        });
    }

    /// Otherwise a server would end up to half a second later than its leases.
    #[test]
    fn a_publisher_that_ends_looks_often_whether_its_leases_have_run_out() {
        with_page("end", Clock::builder().start().unwrap(), |_, publisher| {
            publisher.end();
            while publisher.has_line() {
                let next_in = publisher.step().unwrap();
                assert!(next_in <= core::time::Duration::from_millis(10), "{next_in:?}");
                std::thread::sleep(next_in);
            }
        });
    }

    /// Symptom: a reading of Unix time said that the counter had served it, because the page has a
    /// line for monotonic time.
    #[test]
    fn a_reading_says_whether_the_counter_served_it() {
        let clock = Clock::builder().start().unwrap();
        while !clock.status().is_judged {
            clock.maintain();
        }
        clock.engine().record(Verdict::of(Gate::UnixCost, Some(Reason::Slow)));
        with_page("source", clock, |path, publisher| {
            let clock = Clock::open_page(path, Probes::Full).unwrap();
            let by_counter = (clock.reading().is_by_counter(), clock.unix_reading().is_by_counter());
            // Without a usable counter there is no line at all.
            assert_eq!(by_counter, (publisher.phase() == LeasePhase::Published, false));
        });
    }
}
