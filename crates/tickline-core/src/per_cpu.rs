//! A line for each CPU, for counters of one rate and different origins.
//!
//! The promise is weaker than a common line's. Readings of one CPU's clock are in order, across
//! replacement of its line, fallback, and the return to a line. Between two of these clocks, or one
//! of them and a common clock, a reading may step back by at most the sum of the published bounds
//! of the two readings: for instance in a thread that is moved.
//!
//! **A CPU's clock** is a [`SharedClock`] of its own. A reading takes the steps of a reading by a
//! common line, in another order: it **reads the counter before the state**, because only the read
//! of the counter tells on which CPU the thread is, and so whose state to load.
//!
//! ```text
//! ticks:             t            s
//! this reading:      counter      |     state, window      t < s: the window refuses t
//! the CPU's writer:        announce, counter, publish      the new line starts at s
//! ```
//!
//! In this order the state may be newer than the counter: the thread is stopped after its read of
//! the counter (at t), and the CPU gets its next line meanwhile. That line must not convert t,
//! because other readings by the earlier line may have come later than t. It does not: a line of a
//! CPU starts at the very tick s that its writer read after the announcement, and so after t. (A
//! common line starts one margin earlier.) If a reading is not refused, its line was current when
//! the counter was read. The second load of the state then proves only that start and window belong
//! to that line.
//!
//! The control loop of the CPU's clock runs on the CPU ([`CpuControl::iterate`]). A reader on that
//! CPU that finds the line being replaced has therefore interrupted the writer. It does not wait,
//! and helps at once.
//!
//! The clock's keeper says whether readers may use these lines (`gate/keeper.rs`:
//! `usable_line_kind`). The driver chooses the kind of lines, calibrates the CPUs, and decides when
//! to give up on a CPU.
//!
//! ```
//! use core::cell::Cell;
//! use tickline_core::counter::{CpuCounter, CpuRead};
//! use tickline_core::per_cpu::{CpuControl, Pass, Stay, cpu_clock};
//! use tickline_core::cell::LineCell;
//! use tickline_core::reference::{Reference, ReferenceKind, Resolutions};
//! use tickline_core::shared::SharedClock;
//!
//! /// Two CPUs whose counters differ by an hour, and a thread on one of them.
//! struct Machine { ns: Cell<u64>, on_cpu: Cell<u32> }
//! impl CpuCounter for Machine {
//!     fn now(&self) -> Option<CpuRead> {
//!         self.ns.set(self.ns.get() + 10);
//!         let cpu = self.on_cpu.get();
//!         Some(CpuRead { ticks: self.ns.get() + u64::from(cpu) * 3_600_000_000_000, cpu })
//!     }
//!     fn now_ordered(&self) -> Option<CpuRead> { self.now() }
//!     fn barrier(&self) {}
//! }
//! impl Reference for Machine {
//!     fn monotonic_ns(&self) -> i64 { self.ns.get() as i64 }
//!     fn unix_ns(&self) -> i64 { self.ns.get() as i64 }
//! }
//!
//! let machine = Machine { ns: Cell::new(5_000_000), on_cpu: Cell::new(0) };
//! let resolutions = Resolutions::new(1, 1, ReferenceKind::Independent);
//! let clocks = [(); 2].map(|()| SharedClock::new(LineCell::new()));
//!
//! // A thread calibrates each CPU, and stays there until the CPU's line lasts.
//! let pass = Pass::begin(resolutions, 500_000_000, &machine);
//! for (cpu, clock) in (0..).zip(&clocks) {
//!     let mut calibration = CpuControl::new(&pass);
//!     machine.on_cpu.set(cpu); // the thread moves to the CPU
//!     calibration.begin(&pass);
//!     loop {
//!         match calibration.iterate(clock, cpu, &machine, &machine).stay {
//!             Stay::Leave => break,
//!             Stay::Again => {}
//!             Stay::Wait { ns } => machine.ns.set(machine.ns.get() + ns),
//!         }
//!     }
//! }
//!
//! // A reading, on either CPU.
//! for cpu in [0, 1] {
//!     machine.on_cpu.set(cpu);
//!     let clock = cpu_clock(&clocks, machine.now_ordered()).expect("a clock for this CPU");
//!     let ns = clock.read_ns().expect("a line");
//!     assert!(ns.abs_diff(machine.monotonic_ns()) < 100);
//! }
//! ```
//!
//! [DESIGN.md](https://github.com/tickline/tickline/blob/main/DESIGN.md#a-line-for-each-cpu) says
//! which clocks have such lines and how the kind of lines changes, what a pass does and its limits
//! with many CPUs, and what happens if the thread is moved in the middle of an iteration.

use core::cell::Cell;

use crate::cell::{LineCell, StateCell, WindowedLine};
use crate::control::{Cadence, Config, Control, Iteration};
use crate::counter::{Counter, CpuCounter, CpuRead};
use crate::driver::LastIteration;
use crate::reference::{Reference, Resolutions};
use crate::shared::{BoundedReading, Event, Readings, SharedClock, SlowReading};

const _: () = assert!(
    size_of::<SharedClock<LineCell>>() <= 1_024 || cfg!(loom),
    "a table has one for each of up to 4,096 CPUs"
);

/// The clock of the CPU whose counter was just read by [`CpuCounter::now`] or
/// [`now_ordered`](CpuCounter::now_ordered), for the fast readings at that read. They are ordered
/// if the read was. `None` if the caller must take the slow path.
#[must_use]
#[inline(always)]
pub fn cpu_clock<S>(clocks: &[SharedClock<S>], read: Option<CpuRead>) -> Option<CpuClock<'_, S>> {
    let CpuRead { ticks, cpu } = read?;
    Some(CpuClock {
        readings: clocks.get(cpu as usize)?.readings(),
        read: PastRead(ticks),
    })
}

/// The clock of a CPU, and a read of this CPU's counter: [`cpu_clock`].
#[derive(Debug)]
pub struct CpuClock<'a, S = LineCell> {
    readings: &'a Readings<S>,
    read: PastRead,
}

impl<S: StateCell> CpuClock<'_, S> {
    /// The line at the read of the counter, ns. `None` if the caller must take the slow path
    /// ([`read_ordered_on_this_cpu`]).
    #[inline(always)]
    #[must_use]
    pub fn read_ns(&self) -> Option<i64> {
        self.readings.read_ns(&self.read)
    }

    /// Unix time at the read of the counter, ns. `None` as for
    /// [`Readings::read_unix_ns`].
    #[inline(always)]
    #[must_use]
    pub fn read_unix_ns(&self) -> Option<i64> {
        self.readings.read_unix_ns(&self.read)
    }

    /// The line at the read of the counter, with its bounds. `None` where
    /// [`read_ns`](Self::read_ns) returns `None`.
    #[inline]
    #[must_use]
    pub fn read_bounded(&self) -> Option<BoundedReading> {
        self.readings.read_ordered_bounded(&self.read)
    }
}

/// A read of a counter, as a counter that always returns it, for the readings of a [`CpuClock`]
/// alone. It breaks points 3 and 4 of the [contract](crate::counter#the-contract). These readings
/// read the counter before the state (see the head), so they need neither.
#[derive(Debug)]
struct PastRead(u64);

impl Counter for PastRead {
    #[inline(always)]
    fn now(&self) -> u64 {
        self.0
    }

    fn barrier(&self) {}
}

/// A reading by the slow path.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct SlowCpuReading {
    /// The id of the CPU whose clock was read.
    pub cpu: u32,
    /// The reading.
    pub reading: SlowReading,
}

/// An ordered reading, in any state, by the clock of the CPU on which the caller runs: the slow
/// path. `None` if the table has no such CPU. Waits for no thread; repeats only if the thread was
/// moved, or another thread has changed the state meanwhile.
#[must_use]
pub fn read_ordered_on_this_cpu<S: StateCell>(
    clocks: &[SharedClock<S>],
    counter: &impl CpuCounter,
    reference: &impl Reference,
) -> Option<SlowCpuReading> {
    loop {
        let Some(CpuRead { cpu, .. }) = counter.now_ordered() else {
            continue;
        };
        let readings = clocks.get(cpu as usize)?.readings();
        // Only a tick that was read after the state, and from this CPU's counter, may be compared
        // with the line.
        let ticks_here = || {
            counter
                .now_ordered()
                .filter(|read| read.cpu == cpu)
                .map(|read| read.ticks)
        };
        let unfinished = |line: &WindowedLine| {
            // Rule 3: the writer runs on this CPU, so it does not run while this reader does.
            if ticks_here().is_some_and(|ticks| readings.help_at(line, || ticks, None, reference)) {
                readings.events.count(Event::Help);
            }
        };
        if let Some(reading) =
            readings.try_read_in_any_state(ticks_here, || counter.barrier(), reference, unfinished)
        {
            return Some(SlowCpuReading { cpu, reading });
        }
    }
}

/// If the next iteration is due within this, ns, the thread waits for it on the CPU. On a busy
/// machine it takes milliseconds to move away and to come back, and the first lines, which are
/// short, would end meanwhile. Intervals grow by half from one iteration to the next, so the thread
/// moves on after about 10 iterations and 6 ms.
const STAY_NS: u64 = 2_000_000;

/// The most waits for which the thread stays on a CPU. A choice, not a measurement: about 10 for
/// intervals that grow as above, and half as many for iterations that publish no line, so that the
/// interval stays as it is. If it were larger, a CPU without a line would use up the time of the
/// others.
const STAY_WAITS: u32 = 15;

/// The most time for which a pass waits on CPUs, ns: an interval, but at most this. Meanwhile the
/// thread holds the clock's lock, and after a second it would count as stopped.
const MAX_WAITS_NS: u64 = 500_000_000;

/// A pass of the thread over the CPUs: the settings of its calibrations, and the time until which
/// the thread may wait on CPUs.
#[derive(Debug, Clone, Copy)]
pub struct Pass {
    resolutions: Resolutions,
    config: Config,
    waits_until_ns: i64,
}

impl Pass {
    /// A pass that begins now, for control loops with this interval. Their lines always have Unix
    /// time: whether a reading uses it may change between two calibrations.
    #[must_use]
    pub fn begin(resolutions: Resolutions, interval_ns: u64, reference: &impl Reference) -> Self {
        let waits_ns = interval_ns.min(MAX_WAITS_NS).cast_signed();
        Self {
            resolutions,
            config: Config {
                cadence: Cadence::Pinned,
                ..Config::new(interval_ns)
            },
            waits_until_ns: reference.monotonic_ns().saturating_add(waits_ns),
        }
    }
}

/// One CPU's control loop, and when its next iteration is due.
#[derive(Debug)]
pub struct CpuControl {
    control: Control,
    due_ns: i64,
    ready_ns: i64,
    /// The time until which the thread may wait on the CPU, ns.
    waits_until_ns: i64,
    /// The waits on the CPU in this calibration.
    waits: u32,
    last: LastIteration,
}

/// What the thread does on a CPU after an iteration. A driver must do each of these, so another one
/// is a breaking change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Stay {
    /// It runs another iteration at once.
    Again,
    /// It waits on the CPU, and runs another iteration.
    Wait {
        /// The time of the wait, ns.
        ns: u64,
    },
    /// It leaves the CPU.
    Leave,
}

/// The result of an iteration on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "`stay` says what the thread does next"]
pub struct CpuIteration {
    /// The iteration; `None` if the thread is not on the CPU, or was moved away meanwhile.
    pub iteration: Option<Iteration>,
    /// What the thread does next.
    pub stay: Stay,
}

impl CpuIteration {
    const fn new(iteration: Option<Iteration>, stay: Stay) -> Self {
        Self { iteration, stay }
    }
}

impl CpuControl {
    /// A control loop without samples, which is due now, with the settings of `pass`.
    #[must_use]
    pub const fn new(pass: &Pass) -> Self {
        Self {
            control: Control::new(pass.resolutions, pass.config),
            due_ns: i64::MIN,
            ready_ns: i64::MIN,
            waits_until_ns: pass.waits_until_ns,
            waits: 0,
            last: LastIteration::Rested,
        }
    }

    /// Makes the next iteration due now, because the OS clock was set, or the machine has resumed.
    pub fn force_due(&mut self) {
        self.due_ns = i64::MIN;
        self.ready_ns = i64::MIN;
    }

    /// The time at which the next iteration is due, ns.
    #[must_use]
    pub fn due_ns(&self) -> i64 {
        self.due_ns
    }

    /// Whether a thread that is awake at `now_ns` should calibrate this CPU. It should do so up to
    /// a quarter of the interval before the calibration is due, because a wake-up costs more than a
    /// calibration.
    #[must_use]
    pub fn is_ready(&self, now_ns: i64) -> bool {
        self.ready_ns <= now_ns
    }

    /// Begins a calibration: the thread is about to go to the CPU, and to run iterations until one
    /// tells it to leave.
    pub fn begin(&mut self, pass: &Pass) {
        let control = &mut self.control;
        if control.resolutions != pass.resolutions {
            // The kernel keeps time with something else now.
            *control = Control::new(pass.resolutions, pass.config);
        }
        control.config = pass.config;
        self.waits_until_ns = pass.waits_until_ns;
        self.waits = 0;
        self.last = LastIteration::Rested;
    }

    /// An iteration for the clock of `cpu`, on which the caller has put this thread. The thread
    /// stays on the CPU until the next iteration is due so late that it may leave, or until the
    /// pass may wait no more.
    ///
    /// Two control loops MUST NOT iterate for one CPU's clock at the same time, as for
    /// [`Control::iterate`]. No type ensures it, because the CPUs' clocks belong to no
    /// [`DrivenClock`](crate::driver::DrivenClock). A driver therefore keeps its
    /// [`CpusPermit`](crate::driver::CpusPermit) from the beginning of the pass to its end.
    pub fn iterate<S: StateCell>(
        &mut self,
        clock: &SharedClock<S>,
        cpu: u32,
        counter: &impl CpuCounter,
        reference: &impl Reference,
    ) -> CpuIteration {
        let iteration = self.iterate_pinned(clock, cpu, counter, reference);
        self.after(iteration, reference)
    }

    /// What the thread does after an iteration, and when the next one is due.
    fn after(&mut self, iteration: Option<Iteration>, reference: &impl Reference) -> CpuIteration {
        let Some(iteration) = iteration else {
            self.set_due(self.control.interval_ns(), reference);
            return CpuIteration::new(None, Stay::Leave);
        };
        if self.last.take_immediate_repeat(&iteration) {
            return CpuIteration::new(Some(iteration), Stay::Again);
        }
        let iteration = iteration.with_least_rest();
        self.set_due(iteration.next_in_ns, reference);
        let is_soon = iteration.next_in_ns <= STAY_NS.min(self.control.interval_ns() >> 1);
        let may_wait = self.waits < STAY_WAITS && self.due_ns <= self.waits_until_ns;
        let stay = if is_soon && may_wait {
            self.waits = self.waits.saturating_add(1);
            Stay::Wait {
                ns: iteration.next_in_ns,
            }
        } else {
            Stay::Leave
        };
        CpuIteration::new(Some(iteration), stay)
    }

    fn iterate_pinned<S: StateCell>(
        &mut self,
        clock: &SharedClock<S>,
        cpu: u32,
        counter: &impl CpuCounter,
        reference: &impl Reference,
    ) -> Option<Iteration> {
        let pinned = PinnedCounter::new(counter, cpu)?;
        let iteration = self.control.iterate(clock, &pinned, reference);
        (!pinned.lost.get()).then_some(iteration)
    }

    fn set_due(&mut self, in_ns: u64, reference: &impl Reference) {
        let in_ns = in_ns.cast_signed();
        self.due_ns = reference.monotonic_ns().saturating_add(in_ns);
        self.ready_ns = self.due_ns.saturating_sub(in_ns >> 2);
    }

    /// The control loop.
    #[must_use]
    pub const fn control(&self) -> &Control {
        &self.control
    }
}

/// The counter of one CPU, for a control loop whose thread was put on this CPU.
///
/// The kernel may move the thread all the same (the CPU goes offline, the cpuset changes). From
/// then on this counter behaves like one that was reset and runs backwards: the control loop gets
/// no sample from it, and publishes no line. A line that is being replaced is retired, with a
/// high-water mark that the reference limits.
#[derive(Debug)]
struct PinnedCounter<'a, C> {
    counter: &'a C,
    cpu: u32,
    last_ticks: Cell<u64>,
    lost: Cell<bool>,
}

/// The step back of a lost counter, ticks. It leads out of every window, and is a quarter of the
/// largest difference of ticks.
const LOST_TICKS: u64 = 1 << 62;

impl<'a, C: CpuCounter> PinnedCounter<'a, C> {
    /// The counter of `cpu`, if this thread is on it.
    fn new(counter: &'a C, cpu: u32) -> Option<Self> {
        let read = counter.now_ordered()?;
        (read.cpu == cpu).then(|| Self {
            counter,
            cpu,
            last_ticks: Cell::new(read.ticks),
            lost: Cell::new(false),
        })
    }
}

impl<C: CpuCounter> Counter for PinnedCounter<'_, C> {
    fn now(&self) -> u64 {
        self.now_ordered()
    }

    fn now_ordered(&self) -> u64 {
        let last_ticks = self.last_ticks.get();
        let read = self.counter.now_ordered();
        let ticks = if self.lost.get() {
            last_ticks.wrapping_sub(1)
        } else if let Some(read) = read
            && read.cpu == self.cpu
        {
            read.ticks
        } else {
            self.lost.set(true);
            last_ticks.wrapping_sub(LOST_TICKS)
        };
        self.last_ticks.set(ticks);
        ticks
    }

    fn barrier(&self) {
        self.counter.barrier();
    }
}

#[cfg(test)]
mod tests;
