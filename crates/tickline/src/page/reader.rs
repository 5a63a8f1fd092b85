//! A clock that reads a page of another process. The clock has no thread and no line.

use core::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering, fence};
use std::path::Path;
use std::sync::Arc;

use tickline_core::counter::HardwareCounter;
use tickline_core::gate::Reason;
use tickline_core::reference::{Reference, Timescale};
use tickline_page::page_file::{AttachedFile, PageFile};
use tickline_page::{PageReading, PageSource, ProcessHighWater, ReaderOs};

use crate::backend::ClockBackend;
use crate::clock::Clock;
use crate::engine::{Engine, saturating_unsigned};
use crate::error::{Error, ErrorKind};
use crate::options::{Driver, EnvironmentSwitch, Probes};
use crate::reading::Reading;
use crate::status::ClockState;
use crate::sys::reference::OsClock;
use crate::sys::{self, COUNTER};
use crate::trust::facts::{environment_switch, learn_environment};

/// Stands for a missing offset: this process can't use the page.
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
    /// The system calls that a reading may make.
    probes: Probes,
    /// Whether the vDSO serves the coarse clocks. A vDSO does so with every clocksource.
    has_coarse: bool,
}

impl PageOs {
    fn find(probes: Probes) -> Self {
        // If the kernel has mapped no vDSO, the value is 0. The vDSO may read the counter.
        // SAFETY: the call takes a number, and reads no memory that changes.
        let has_coarse =
            sys::may_read_counter() && unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } != 0;
        Self { probes, has_coarse }
    }
}

impl Reference for PageOs {
    #[inline]
    fn monotonic_ns(&self) -> i64 {
        OsClock.monotonic_ns()
    }

    #[inline]
    fn unix_ns(&self) -> i64 {
        OsClock.unix_ns()
    }
}

impl ReaderOs for PageOs {
    #[inline]
    fn coarse_unix_ns(&self) -> Option<i64> {
        if self.has_coarse {
            OsClock::coarse_unix_ns()
        } else {
            None
        }
    }

    fn pause(&self) {
        match self.probes {
            Probes::Full => std::thread::yield_now(),
            Probes::Minimal => core::hint::spin_loop(),
        }
    }
}

/// A page, and this process's state for it.
#[derive(Debug)]
pub(crate) struct PageReader {
    file: PageFile,
    os: PageOs,
    /// The token of the process that has attached.
    token: AtomicU64,
    /// How far the `CLOCK_MONOTONIC` of that process is ahead of the page's, ns; or [`NO_PAGE`].
    page_offset_ns: AtomicI64,
    process_high_water: ProcessHighWater,
    /// [`ENABLED`], [`ENDING`] or [`DISABLED`].
    switch: AtomicU8,
    /// The permanent reason not to use the page, if there is one.
    refused: Option<Reason>,
}

impl Clock {
    /// A clock that reads the time from the page at `path`, which another process serves
    /// (`tickline serve`, or a [`Publisher`](crate::page::Publisher)). On systems other than Linux
    /// the call is an error of the kind [`PageUnusable`](crate::ErrorKind::PageUnusable), and the
    /// module [`page`](crate::page) is empty.
    ///
    /// The page's server decides how the counter is calibrated and trusted. So this clock has no
    /// thread and no line, and its only setting is `probes`. [`maintain`](Clock::maintain) does
    /// nothing. The monotonic readings of all processes that read the page are in order;
    /// [machine/docs/lease.md](https://github.com/tickline/tickline/blob/main/machine/docs/lease.md) has the
    /// exceptions. Readings may be ahead of the OS clock by the page's lead, which `tickline serve
    /// status` shows. If the page has no line, because its server has ended or the counter can't be
    /// trusted, readings come from the OS clock, in order. While the server publishes its first
    /// line, a reading may wait for up to 1 ms, or until other threads leave it the CPU. Unix time
    /// comes from the page, too.
    ///
    /// This call reads files and maps memory, also with [`Probes::Minimal`]: make it before the
    /// process installs a seccomp filter. Make it before the process starts other clocks with
    /// minimal probes, too: after them each reading calls `getpid`. A forked child attaches to the
    /// page again, because it may be in another time namespace; with minimal probes the OS clock
    /// serves it. If the owner of the page truncates its file, the next reading raises SIGBUS.
    ///
    /// # Errors
    ///
    /// [`PageNotFound`](crate::ErrorKind::PageNotFound) if there is no such file.
    /// [`PageUnusable`](crate::ErrorKind::PageUnusable) if the file is not trusted, or if this
    /// process can't use the page. The error's text states the wrong value and its limit.
    ///
    /// ```no_run
    /// use tickline::{Clock, ErrorKind, Probes};
    ///
    /// let clock = match Clock::open_page("/run/tickline/page.v1", Probes::Full) {
    ///     // No process serves the page.
    ///     Err(error) if error.kind() == ErrorKind::PageNotFound => Clock::default(),
    ///     // For example, another user owns the file, or this is not Linux.
    ///     opened => opened?,
    /// };
    /// println!("{:?}", clock.now());
    /// # Ok::<(), tickline::Error>(())
    /// ```
    pub fn open_page(path: impl AsRef<Path>, probes: Probes) -> Result<Self, Error> {
        // Maps the fork token also with minimal probes, unless another clock has minimal probes
        // already. Each reading reads the token, which would otherwise be a system call.
        let token = sys::token();
        learn_environment(probes);
        let mut engine = Engine::new(Driver::Manual);
        engine.restrict_probes(probes);
        engine.set_backend(Arc::new(PageReader::open(path.as_ref(), probes, token)?));
        Ok(Self::from_engine(Arc::new(engine), None))
    }
}

impl PageReader {
    /// Opens a page, and attaches to it.
    fn open(path: &Path, probes: Probes, token: u64) -> Result<Self, Error> {
        let attached = AttachedFile::open(path).map_err(|error| {
            let kind = if error.is_not_found() {
                ErrorKind::PageNotFound
            } else {
                ErrorKind::PageUnusable
            };
            Error::new(kind, error)
        })?;
        let page_offset_ns = attached.page().page_offset_ns();
        let refused = match environment_switch(probes) {
            EnvironmentSwitch::Off => Some(Reason::DisabledByEnvironment),
            _ if COUNTER.is_none() => Some(Reason::NoCounter),
            _ if !sys::may_read_counter() => Some(Reason::Denied),
            _ => None,
        };
        let reader = Self {
            os: PageOs::find(probes),
            token: AtomicU64::new(token),
            page_offset_ns: AtomicI64::new(page_offset_ns),
            process_high_water: ProcessHighWater::new(),
            switch: AtomicU8::new(ENABLED),
            refused,
            file: attached.file,
        };
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
            None => os_reading(OsClock.unix_ns()),
            Some((counter, offset_ns)) => {
                self.file
                    .attached(offset_ns)
                    .unix(&counter, &self.os, &self.process_high_water)
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

    /// A reading by the page; `None` if the page is not used.
    #[inline]
    fn read_page(&self) -> Option<PageReading> {
        let (counter, offset_ns) = self.counter_and_offset_ns()?;
        let reading =
            self.file
                .attached(offset_ns)
                .monotonic(&counter, &self.os, &self.process_high_water);
        // ORDERING: Acquire, pairs with the fence in `disable`. A reading that still finds the old
        // switch has read the counter before the reading that `disable` makes, and is not above
        // that reading. No test sees a weaker one: Miri can't map the file, and on x86_64 this is
        // no instruction.
        fence(Ordering::Acquire);
        // ORDERING: Relaxed, the fence above orders it.
        if self.switch.load(Ordering::Relaxed) != ENABLED {
            self.process_high_water
                .raise(reading.ns.wrapping_sub(offset_ns));
        }
        Some(reading)
    }

    /// What a reading by the page needs; `None` if the page is not used. Asks for the offset,
    /// which may be a system call, only if the counter may serve.
    #[inline]
    fn counter_and_offset_ns(&self) -> Option<(HardwareCounter, i64)> {
        let counter = COUNTER.filter(|_| self.is_enabled())?;
        Some((counter, self.page_offset_ns()?))
    }

    #[inline]
    fn is_enabled(&self) -> bool {
        // ORDERING: Acquire, pairs with the Release store in `disable`: a reader that sees
        // `DISABLED` sees the raised high-water mark. No test sees a weaker one, as in `read_page`.
        self.refused.is_none() && self.switch.load(Ordering::Acquire) != DISABLED
    }

    /// The OS clock, ns, or the process's high-water mark if that is larger.
    #[cold]
    fn os_monotonic_ns(&self) -> i64 {
        // Without an offset, the timescale of the high-water mark is unknown.
        let Some(page_offset_ns) = self.page_offset_ns() else {
            return OsClock.monotonic_ns();
        };
        let ns = OsClock
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
        // ORDERING: Acquire, pairs with the Release store in `attach_again`. No test sees a weaker
        // one, as in `read_page`.
        let page_offset_ns = if self.token.load(Ordering::Acquire) == sys::token() {
            // ORDERING: Relaxed, stored before the token.
            self.page_offset_ns.load(Ordering::Relaxed)
        } else {
            self.attach_again()
        };
        (page_offset_ns != NO_PAGE).then_some(page_offset_ns)
    }

    #[cold]
    #[inline(never)]
    fn attach_again(&self) -> i64 {
        let _errno = sys::PreserveErrno::new();
        let page_offset_ns = match self.os.probes {
            Probes::Full => self.file.boot_context().ok().and_then(|context| {
                let attached = self.file.page().attach(&context).ok()?;
                // Rule R8, for a child: another thread of its parent may have read the OS clock.
                attached.raise_to_os_clock(&self.os, &self.process_high_water);
                Some(attached.page_offset_ns())
            }),
            Probes::Minimal => None,
        };
        let page_offset_ns = page_offset_ns.unwrap_or(NO_PAGE);
        // ORDERING: Relaxed, published by the store of the token.
        self.page_offset_ns.store(page_offset_ns, Ordering::Relaxed);
        // ORDERING: Release, pairs with the Acquire load in `page_offset_ns`. No test sees a weaker
        // one, as in `read_page`.
        self.token.store(sys::token(), Ordering::Release);
        page_offset_ns
    }

    /// Why the page is not used; `None` if it is.
    fn reason(&self) -> Option<Reason> {
        self.refused
            .or_else(|| (!self.is_enabled()).then_some(Reason::DisabledByProgram))
    }
}

const fn os_reading(ns: i64) -> PageReading {
    PageReading {
        ns,
        source: PageSource::Os,
    }
}

impl ClockBackend for PageReader {
    fn now_ns(&self, timescale: Timescale) -> u64 {
        saturating_unsigned(self.read(timescale).ns)
    }

    fn reading(&self, timescale: Timescale) -> Reading<u64> {
        let os_ns = || saturating_unsigned(timescale.now_ns(&OsClock));
        let (before_ns, PageReading { ns, source }) = (os_ns(), self.read(timescale));
        let mut reading = Reading::from_os_bracket(saturating_unsigned(ns), [before_ns, os_ns()]);
        reading.is_from_counter = source == PageSource::Line;
        reading
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
            (None, _) => ClockState::Calibrating,
        }
    }

    /// Readings come from the OS clock from now on, and are not below earlier readings.
    fn disable(&self) {
        // ORDERING: Relaxed, the fence below orders it.
        self.switch.store(ENDING, Ordering::Relaxed);
        // ORDERING: SeqCst, pairs with the fence in `read_page`: the counter is read after the
        // store. No test sees a weaker one: Miri can't map the page's file, and a processor would
        // have to delay the store for longer than the calls in between take.
        fence(Ordering::SeqCst);
        // This reading raises the process's high-water mark.
        self.read_page();
        // ORDERING: Release, pairs with the Acquire load in `is_enabled`. No test sees a weaker
        // one, as in `read_page`.
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

    use tickline_page::LeasePhase;

    use super::*;
    use crate::page::Publisher;
    use crate::{Clock, Gate, Verdict};

    /// Runs `test` with the path of a page on which this process publishes the clock.
    fn with_page(name: &str, clock: Clock, test: impl FnOnce(&Path, &mut Publisher)) {
        let folder = std::env::temp_dir().join(format!("tickline-{name}-{}", std::process::id()));
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&folder)
            .unwrap();
        let path = folder.join("page");
        let mut publisher = Publisher::start(clock, &path).unwrap();
        for _ in 0..1_000 {
            if publisher.phase() != LeasePhase::Published {
                std::thread::sleep(
                    publisher
                        .maintain()
                        .unwrap()
                        .min(core::time::Duration::from_millis(1)),
                );
            }
        }
        test(&path, &mut publisher);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn rule_r8_a_forked_child_raises_its_high_water() {
        with_page(
            "r8",
            Clock::builder().start().unwrap(),
            |path, publisher| {
                let reader = PageReader::open(path, Probes::Full, sys::token()).unwrap();
                let os_ns = OsClock.monotonic_ns();
                // ORDERING: Relaxed for all: one thread.
                let high_water_ns = || {
                    reader.process_high_water.ns() + reader.page_offset_ns.load(Ordering::Relaxed)
                };
                assert!(high_water_ns() < os_ns);
                // The token of a forked child. A reading by a line would leave the process's high-water
                // mark as it is.
                // ORDERING: Relaxed, one thread.
                reader.token.store(0, Ordering::Relaxed);
                let reading = reader.monotonic();
                assert!(
                    high_water_ns() >= os_ns,
                    "{reading:?} after {os_ns}, {:?}",
                    publisher.phase()
                );
            },
        );
    }

    /// Otherwise a server would end up to half a second later than its leases.
    #[test]
    fn a_publisher_that_ends_checks_often_whether_its_leases_have_run_out() {
        with_page("end", Clock::builder().start().unwrap(), |_, publisher| {
            publisher.end();
            while publisher.has_line() {
                let next_in = publisher.maintain().unwrap();
                assert!(
                    next_in <= core::time::Duration::from_millis(10),
                    "{next_in:?}"
                );
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
        clock
            .engine()
            .record(Verdict::new(Gate::UnixCost, Some(Reason::Slow)));
        with_page("source", clock, |path, publisher| {
            let clock = Clock::open_page(path, Probes::Full).unwrap();
            let by_counter = (
                clock.reading().is_from_counter(),
                clock.unix_reading().is_from_counter(),
            );
            // Without a usable counter there is no line at all.
            assert_eq!(
                by_counter,
                (publisher.phase() == LeasePhase::Published, false)
            );
        });
    }
}
