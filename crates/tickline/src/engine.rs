//! The engine of one clock. This file has the data that the clock's readers and its driver share,
//! the fast path of every reading, and the methods that all files of the folder call: they return
//! the CPUs' lines, the interval and the probes.
//!
//! The fast path is one call of `read_ns` or of a similar method of
//! [`Readings`](tickline_core::shared::Readings). If that call returns `None`, the slow path takes
//! over: [`Engine::now_slow`] and similar functions (`engine/slow.rs`). The folder has what the
//! engine does, and the modules of the last column have the values:
//!
//! | `engine/` | what happens | the values |
//! |---|---|---|
//! | `slow.rs` | a reading that the fast path can't answer | |
//! | `drivers.rs` | a thread, the readers or the program run an iteration | `tickline_core::driver` |
//! | `gates.rs` | the facts are collected and judged | `trust.rs`; `tickline_core::gate` |
//! | `calibrate_cpus.rs` | the thread calibrates each CPU; the way back to the common line | `per_cpu.rs`: the table of lines |
//! | `registration.rs` | a thread is registered and replaced | |
//! | `apply_settings.rs` | the engine takes a setting over | `settings.rs`: what a program chooses |
//! | `late_environment.rs` | a late `TICKLINE=off` ends the line | `environment.rs`: the variable's value |
//! | `read_status.rs` | the engine's state is read | `status.rs`: what a program sees |

use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Instant as StdInstant;

use once_cell::race::OnceBox;
use tickline_core::cell::LineCell;
use tickline_core::counter::HardwareCounter;
use tickline_core::driver::DrivenClock;
use tickline_core::gate::keeper::LineKind;
use tickline_core::gate::{Gate, Trust};
use tickline_core::shared::{BoundedReading, SharedClock};
use tickline_core::try_lock::TryLock;

use crate::backend::Backend;
use crate::instant::Instant;
use crate::per_cpu::{CpuLines, Unmet};
use crate::reading::Reading;
use crate::settings::{DEFAULT_INTERVAL_NS, Driver, Probes};
use crate::sys::COUNTER;
use crate::sys::reference::{NEVER_NS, ProbedOsClock};
use crate::trust::facts::Collector;
use crate::unix_time::UnixTime;

mod apply_settings;
mod calibrate_cpus;
mod drivers;
mod gates;
mod late_environment;
mod read_status;
mod registration;
mod slow;

pub(crate) use late_environment::obey_environment;
use registration::Registration;

/// The engine of the global clock.
pub(crate) static GLOBAL: Engine = Engine::new(Driver::Reader);

/// A cost that was not measured, ps.
const UNKNOWN_PS: u64 = u64::MAX;

/// The engine of one clock, which may be in static memory. The line comes first: the
/// global engine and its state then have one address, and a reading adds no offset.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Engine {
    pub(crate) clock: DrivenClock,
    /// The lines of the CPUs, once a thread has wanted one for each. They are next to the keeper,
    /// which their readers also load. Not a std `OnceLock`: a child that is forked while a thread
    /// initialises it would wait for that thread, which does not exist in the child.
    cpu_lines: OnceBox<CpuLines>,
    /// The facts that readers have collected for the next judgement.
    collector: TryLock<Collector>,
    /// The time since which every driver was refused an iteration, although no gate was closed, ns;
    /// [`NEVER_NS`] if the last one was not.
    refused_since_ns: AtomicI64,
    /// Whether the program drives this clock while it has no thread; otherwise readers do.
    is_manual: bool,
    /// The clock's thread.
    pub(crate) registration: Registration,
    /// Whether the program has asked for minimal probes.
    has_minimal_probes: AtomicBool,
    interval_ns: AtomicU64,
    /// The settings `trust`, as a number, and `assume_invariant`.
    trust: AtomicU8,
    assume_invariant: AtomicBool,
    /// The reason of each gate: its index in `Reason::ALL` plus 1, and `WARNING` if the gate is
    /// open and warns; 0 for an open gate.
    verdicts: [AtomicU8; Gate::ALL.len()],
    /// The costs in the facts of the last judgement: the fields of `Cost`, ps; [`UNKNOWN_PS`]
    /// without one.
    costs_ps: [AtomicU64; 3],
    /// The backend that serves readings. With one, the engine has no line, and stays disabled.
    pub(crate) backend: Option<Arc<dyn Backend>>,
    /// The clock that a mock follows. `None` stands for std's clock. A static that named std's
    /// function would put it, and its panic's texts, into programs that never use it.
    pub(crate) followed_now: Option<fn() -> StdInstant>,
}

const _: () = assert!(
    core::mem::offset_of!(Engine, clock) == 0,
    "a reading would add an offset"
);

impl Engine {
    /// An engine with the default settings, except for the driver.
    pub(crate) const fn new(driver: Driver) -> Self {
        Self {
            clock: DrivenClock::new(SharedClock::new(LineCell::with_high_water_mark(0))),
            cpu_lines: OnceBox::new(),
            collector: TryLock::new(Collector::new()),
            refused_since_ns: AtomicI64::new(NEVER_NS),
            is_manual: matches!(driver, Driver::Manual),
            registration: Registration::new(),
            has_minimal_probes: AtomicBool::new(false),
            interval_ns: AtomicU64::new(DEFAULT_INTERVAL_NS),
            trust: AtomicU8::new(Trust::Auto as u8),
            assume_invariant: AtomicBool::new(false),
            verdicts: [const { AtomicU8::new(0) }; Gate::ALL.len()],
            costs_ps: [const { AtomicU64::new(UNKNOWN_PS) }; 3],
            backend: None,
            followed_now: None,
        }
    }

    /// Lets `backend` serve all readings from now on.
    pub(crate) fn set_backend(&mut self, backend: Arc<dyn Backend>) {
        self.disable();
        self.backend = Some(backend);
    }

    #[inline(always)]
    pub(crate) fn now(&self) -> Instant {
        self.read(
            |counter| {
                let ns = self.clock.readings().read_ns(counter);
                ns.map(Instant::from_signed_nanos)
            },
            Self::now_slow,
        )
    }

    #[inline(always)]
    pub(crate) fn now_ordered(&self) -> Instant {
        self.read(
            |counter| {
                let ns = self.clock.readings().read_ordered_ns(counter);
                ns.map(Instant::from_signed_nanos)
            },
            Self::now_ordered_slow,
        )
    }

    #[inline(always)]
    pub(crate) fn unix_now(&self) -> UnixTime {
        self.read(
            |counter| {
                let ns = self.clock.readings().read_unix_ns(counter);
                ns.map(UnixTime::from_line)
            },
            Self::unix_slow,
        )
    }

    /// The time by the common line, or by `slow_path` if the fast path returns `None`. `slow_path`
    /// is not generic, so it is compiled once, in this crate. It never unwinds, which `extern "C"`
    /// declares, so the call is a jump, and the fast path touches no stack.
    #[inline(always)]
    fn read<T>(
        &self,
        fast_path: impl FnOnce(&HardwareCounter) -> Option<T>,
        slow_path: extern "C" fn(&Self) -> T,
    ) -> T {
        match COUNTER.and_then(|counter| fast_path(&counter)) {
            Some(time) => time,
            None => slow_path(self),
        }
    }

    /// An ordered read of the counter, ticks; `None` if the fast path can't serve a reading.
    #[inline]
    pub(crate) fn ticks_ordered(&self) -> Option<u64> {
        COUNTER.and_then(|counter| self.clock.readings().read_ordered_ticks(&counter))
    }

    /// An ordered reading with bounds by the fast path; `None` if the fast path can't serve it.
    #[inline]
    pub(crate) fn read_ordered_bounded(&self) -> Option<BoundedReading> {
        COUNTER.and_then(|counter| self.clock.readings().read_ordered_bounded(&counter))
    }

    /// Like [`read_ordered_bounded`](Self::read_ordered_bounded), but for the whole validity of the
    /// line.
    fn read_ordered_bounded_while_valid(&self) -> Option<BoundedReading> {
        self.clock
            .readings()
            .read_ordered_bounded_while_valid(&COUNTER?, &self.probed_os_clock())
    }

    /// The monotonic time with its bounds.
    #[inline]
    pub(crate) fn reading(&self) -> Reading<Instant> {
        match &self.read_ordered_bounded() {
            Some(bounded) => Reading::<Instant>::from_bounded(bounded),
            None => self.reading_slow(),
        }
    }

    /// Unix time with its bounds.
    #[inline]
    pub(crate) fn unix_reading(&self) -> Reading<UnixTime> {
        match &self.read_ordered_bounded() {
            Some(bounded) => Reading::<UnixTime>::from_bounded(bounded),
            None => self.unix_reading_slow(),
        }
    }

    /// The recent time that the thread last stored; without a thread in this process, the current
    /// time.
    #[inline]
    pub(crate) fn recent(&self) -> Instant {
        if !self.has_thread() {
            return self.now();
        }
        self.registration.recent()
    }

    /// The lines of the CPUs, if there is one for each, and the gates are open.
    #[inline(always)]
    pub(crate) fn cpu_lines(&self) -> Option<&CpuLines> {
        if self.clock.usable_line_kind() == Some(LineKind::PerCpu) {
            self.cpu_lines.get()
        } else {
            None
        }
    }

    /// The table of the CPUs' lines, which the first call makes. The error says which requirement
    /// is not met.
    pub(crate) fn cpu_lines_or_new(&self) -> Result<&CpuLines, Unmet> {
        self.cpu_lines.get_or_try_init(CpuLines::new)
    }

    pub(crate) fn interval_ns(&self) -> u64 {
        // ORDERING: Relaxed, a single setting.
        self.interval_ns.load(Ordering::Relaxed)
    }

    /// The probes that this clock may make.
    pub(crate) fn probes(&self) -> Probes {
        // ORDERING: Relaxed, a setting.
        if self.has_minimal_probes.load(Ordering::Relaxed) {
            Probes::Minimal
        } else {
            Probes::Full
        }
    }

    /// The OS clock, restricted to this clock's probes.
    fn probed_os_clock(&self) -> ProbedOsClock {
        ProbedOsClock(self.probes())
    }
}

#[cfg(test)]
mod tests;
