//! A machine for tests: a counter, a reference, and a cell. Tests can interrupt each of their
//! steps.
//!
//! One thread plays all parts. Before each step a hook may run. It may do anything that another
//! thread could have done at that moment, and it may let time pass: preemption at an exact step.
//! Hooks refer to the machine that owns them, so machines and clocks of tests are leaked.

use core::cell::{Cell, RefCell};

use crate::cell::LineCell;
use crate::cell::{NextLine, SlotView, StateCell};
use crate::control::{Cadence, Config, Control, Iteration};
use crate::counter::Counter;
use crate::discipline::MEETING_MARGIN_NS;
use crate::reference::{Reference, ReferenceKind, Resolutions};
use crate::shared::{SharedClock, SlowReading};
use crate::state::{LineState, Phase};

/// A step of a reader or a writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Load,
    Slot,
    SecondLoad,
    Counter,
    /// A read of the CPU's id (`per_cpu` only).
    CpuId,
    Reference,
    /// A change to a state that is not published.
    Swap(LineState),
    Publish(LineState),
    /// The step after an attempt to publish.
    Published,
}

/// A value that lives as long as the program.
pub(crate) fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

type Hook = Box<dyn FnMut(Step)>;

/// A hook, which runs before each step, but not before its own steps.
#[derive(Default)]
pub(crate) struct Hooks(RefCell<Option<Hook>>);

impl Hooks {
    pub(crate) fn set(&self, hook: impl FnMut(Step) + 'static) {
        *self.0.borrow_mut() = Some(Box::new(hook));
    }

    pub(crate) fn clear(&self) {
        *self.0.borrow_mut() = None;
    }

    pub(crate) fn run(&self, step: Step) {
        let hook = self.0.borrow_mut().take();
        if let Some(mut hook) = hook {
            hook(step);
            self.0.borrow_mut().get_or_insert(hook);
        }
    }
}

/// True time, the counter that follows it, and the reference that may not. The counter has 1 GHz,
/// so one tick is 1 ns.
#[derive(Default)]
pub(crate) struct Machine {
    pub(crate) hooks: Hooks,
    ticks: Cell<u64>,
    /// Reference minus ticks at `since`, and the reference's rate above the counter's from there,
    /// ppb.
    offset_ns: Cell<i64>,
    rate_ppb: Cell<i64>,
    since_ticks: Cell<u64>,
    /// The total time suspended, and whether the reference states it.
    suspended_ns: Cell<i64>,
    pub(crate) tells_suspends: Cell<bool>,
    /// The time that this statement takes.
    pub(crate) suspends_ticks: Cell<u64>,
    /// What a hypervisor changes when it moves the machine.
    pub(crate) disruption_marker: Cell<Option<u64>>,
    /// The steering that the kernel reports.
    pub(crate) steering_ppb: Cell<Option<i64>>,
    /// The time that a read of the reference takes before and after the moment whose time it
    /// returns.
    pub(crate) reference_ticks: Cell<(u64, u64)>,
    pub(crate) reference_resolution_ns: Cell<i64>,
    /// Unix time minus the monotonic time.
    pub(crate) unix_offset_ns: Cell<i64>,
}

/// The time that a read of the counter takes.
const COUNTER_TICKS: u64 = 10;

impl Machine {
    pub(crate) fn new() -> &'static Self {
        leak(Self {
            ticks: Cell::new(1 << 40),
            offset_ns: Cell::new(-(1 << 39)),
            since_ticks: Cell::new(1 << 40),
            tells_suspends: Cell::new(true),
            reference_ticks: Cell::new((10, 10)),
            reference_resolution_ns: Cell::new(1),
            unix_offset_ns: Cell::new(1_000_000_000_000),
            ..Self::default()
        })
    }

    pub(crate) fn pass(&self, ns: u64) {
        self.ticks.set(self.ticks.get() + ns);
    }

    /// The reference now, without a step.
    pub(crate) fn truth_ns(&self) -> i64 {
        let since = i64::try_from(self.ticks.get() - self.since_ticks.get()).unwrap();
        let bend = i128::from(since) * i128::from(self.rate_ppb.get()) / 1_000_000_000;
        i64::try_from(self.ticks.get()).unwrap()
            + self.offset_ns.get()
            + i64::try_from(bend).unwrap()
    }

    pub(crate) fn set_rate_ppb(&self, ppb: i64) {
        let truth = self.truth_ns();
        self.anchor(truth);
        self.rate_ppb.set(ppb);
    }

    /// The counter runs on while the reference stands still, as in a suspend.
    pub(crate) fn suspend(&self, ns: u64) {
        let truth = self.truth_ns();
        self.pass(ns);
        self.anchor(truth);
        self.suspended_ns
            .set(self.suspended_ns.get() + i64::try_from(ns).unwrap());
    }

    /// The reference jumps ahead.
    pub(crate) fn jump_reference(&self, ns: i64) {
        self.offset_ns.set(self.offset_ns.get() + ns);
    }

    /// The counter starts again near 0; the reference goes on.
    pub(crate) fn reset_counter(&self) {
        let truth = self.truth_ns();
        self.ticks.set(5_000);
        self.anchor(truth);
    }

    fn anchor(&self, truth_ns: i64) {
        self.since_ticks.set(self.ticks.get());
        self.offset_ns
            .set(truth_ns - i64::try_from(self.ticks.get()).unwrap());
    }
}

impl Counter for Machine {
    fn now(&self) -> u64 {
        self.hooks.run(Step::Counter);
        self.pass(COUNTER_TICKS);
        self.ticks.get()
    }
    fn barrier(&self) {}
}

impl Reference for Machine {
    fn monotonic_ns(&self) -> i64 {
        self.hooks.run(Step::Reference);
        let (before, after) = self.reference_ticks.get();
        self.pass(before);
        let truth = self.truth_ns();
        self.pass(after);
        truth - truth % self.reference_resolution_ns.get()
    }
    fn unix_ns(&self) -> i64 {
        self.monotonic_ns() + self.unix_offset_ns.get()
    }
    fn steering_ppb(&self) -> Option<i64> {
        self.steering_ppb.get()
    }
    fn suspended_ns(&self) -> Option<i64> {
        self.pass(self.suspends_ticks.get());
        self.tells_suspends.get().then(|| self.suspended_ns.get())
    }
    fn disruption_marker(&self) -> Option<u64> {
        self.disruption_marker.get()
    }
}

/// A counter or a reference whose reads call a function.
pub(crate) struct FnClock<F>(pub(crate) F);

impl<F: Fn() -> u64> Counter for FnClock<F> {
    fn now(&self) -> u64 {
        (self.0)()
    }
    fn barrier(&self) {}
}

impl<F: Fn() -> i64> Reference for FnClock<F> {
    fn monotonic_ns(&self) -> i64 {
        (self.0)()
    }
    fn unix_ns(&self) -> i64 {
        (self.0)()
    }
}

/// A cell that lets the machine's hooks run before each of its steps.
pub(crate) struct HookedCell {
    inner: LineCell,
    pub(crate) machine: &'static Machine,
}

impl HookedCell {
    pub(crate) fn new(machine: &'static Machine) -> Self {
        Self {
            inner: LineCell::default(),
            machine,
        }
    }
}

impl StateCell for HookedCell {
    fn load(&self) -> LineState {
        self.machine.hooks.run(Step::Load);
        self.inner.load()
    }
    fn is_still(&self, state: LineState) -> bool {
        self.machine.hooks.run(Step::SecondLoad);
        self.inner.is_still(state)
    }
    fn slot(&self, state: LineState) -> SlotView<'_> {
        self.machine.hooks.run(Step::Slot);
        self.inner.slot(state)
    }
    fn try_swap(&self, from: LineState, to: LineState) -> bool {
        self.machine.hooks.run(Step::Swap(to));
        self.inner.try_swap(from, to)
    }
    fn publish(&self, from: LineState, next: &NextLine) -> bool {
        self.machine.hooks.run(Step::Publish(next.line.state));
        let swapped = self.inner.publish(from, next);
        self.machine.hooks.run(Step::Published);
        swapped
    }
}

pub(crate) type HookedClock = SharedClock<HookedCell>;

/// The interval of the clocks in tests, ns. A clock reaches the default of half a second after
/// about a hundred iterations, each of which takes Miri a third of a second. It reaches 4 ms, the
/// allowed lateness of a thread (`MAX_LATENESS_NS` in `control/schedule.rs`), after ten.
pub(crate) const INTERVAL_NS: u64 = if cfg!(miri) { 4_000_000 } else { 500_000_000 };

/// The number of iterations in the steady state after which a clock counts as steady.
const STEADY_ITERATIONS: u32 = if cfg!(miri) { 3 } else { 12 };

/// A machine, its clock without samples, and the control loop.
pub(crate) fn new_clock() -> (&'static Machine, &'static HookedClock, Control) {
    let machine = Machine::new();
    (
        machine,
        leak(SharedClock::new(HookedCell::new(machine))),
        Control::new(RESOLUTIONS, CONFIG),
    )
}

/// A counter and a reference whose reads show every tick and nanosecond.
pub(crate) const RESOLUTIONS: Resolutions = Resolutions {
    counter_ticks: 1,
    reference_ns: 1,
    reference_kind: ReferenceKind::Independent,
};

/// A clock with a punctual driver.
pub(crate) const CONFIG: Config = Config {
    interval_ns: INTERVAL_NS,
    cadence: Cadence::Scheduled,
    serves_unix_time: true,
};

/// Operations of tests on a clock, with the clock's own machine.
impl HookedClock {
    /// Runs an iteration.
    pub(crate) fn iterate(&self, control: &mut Control) -> Iteration {
        control.iterate(self, self.cell().machine, self.cell().machine)
    }

    /// Runs iterations, each when it is due.
    pub(crate) fn iterations(&self, count: u32, control: &mut Control) {
        for _ in 0..count {
            let iteration = self.iterate(control);
            self.cell().machine.pass(iteration.next_in_ns);
        }
    }

    /// Runs iterations, each when it is due, until the clock has been in its steady state for some
    /// intervals.
    pub(crate) fn make_steady(&self, control: &mut Control) {
        let mut steady = 0;
        for _ in 0..200 {
            let iteration = self.iterate(control);
            steady += u32::from(iteration.next_in_ns == INTERVAL_NS);
            if steady == STEADY_ITERATIONS {
                return self.cell().machine.pass(INTERVAL_NS / 5);
            }
            self.cell().machine.pass(iteration.next_in_ns);
        }
        panic!("the clock did not become steady");
    }

    /// Runs an iteration, and runs `act` before the first step that `is_stop` accepts. Returns both
    /// results.
    #[track_caller]
    pub(crate) fn interrupted<T: 'static>(
        &self,
        control: &mut Control,
        is_stop: impl FnMut(Step) -> bool + 'static,
        act: impl FnOnce() -> T + 'static,
    ) -> (T, Iteration) {
        interrupted(self.cell().machine, is_stop, act, || self.iterate(control))
    }

    /// A reading by the slow path.
    pub(crate) fn slow(&self) -> SlowReading {
        let machine = self.cell().machine;
        self.readings().read_ordered_in_any_state(machine, machine)
    }

    /// The lead of a reading by the slow path over the truth, ns.
    pub(crate) fn lead_ns(&self) -> i64 {
        self.slow().ns - self.cell().machine.truth_ns()
    }

    /// Whether the last line was off its target after a jump.
    pub(crate) fn is_disrupted(&self) -> bool {
        let last_line = self.readings().figures().last_line;
        last_line.is_some_and(|line| line.is_disrupted)
    }

    /// A reading by the line, if there is one, ns.
    pub(crate) fn by_line(&self) -> Option<i64> {
        self.readings().read_ordered_ns(self.cell().machine)
    }

    /// Changes the state as another thread would that is then stopped for good.
    pub(crate) fn swap_to(&self, next: impl FnOnce(LineState) -> LineState) {
        let state = self.cell().load();
        assert!(self.cell().try_swap(state, next(state)));
    }

    pub(crate) fn bar_clock(&self) -> bool {
        self.bar(self.cell().machine, self.cell().machine)
    }

    pub(crate) fn unbar_clock(&self) -> bool {
        self.unbar(self.cell().machine, self.cell().machine)
    }

    /// Retires the line without a break in the samples: bars and unbars the clock, and lets the
    /// margins of the high-water mark and of the next line's start pass.
    pub(crate) fn end_line(&self) {
        assert!(self.bar_clock() && self.unbar_clock());
        self.cell().machine.pass(2 * MEETING_MARGIN_NS + 3_000);
    }
}

/// Checks that the bounds of a reading contain the reference. Returns whether there is a line.
#[track_caller]
pub(crate) fn bounds_hold(clock: &HookedClock, counter: &impl Counter, machine: &Machine) -> bool {
    let Some(reading) = clock.readings().read_ordered_bounded(counter) else {
        return false;
    };
    let range = reading.monotonic_range();
    let truth_ns = machine.truth_ns();
    assert!(
        range.earliest_ns <= truth_ns && truth_ns <= range.latest_ns,
        "{truth_ns} ns in {range:?}"
    );
    true
}

/// Runs `work`, and runs `act` before the first step that `is_stop` accepts. Returns both results.
#[track_caller]
pub(crate) fn interrupted<T: 'static, W>(
    machine: &Machine,
    mut is_stop: impl FnMut(Step) -> bool + 'static,
    act: impl FnOnce() -> T + 'static,
    work: impl FnOnce() -> W,
) -> (T, W) {
    let done = leak(Cell::new(None));
    let mut act = Some(act);
    machine.hooks.set(move |step| {
        if is_stop(step) {
            act.take().into_iter().for_each(|act| done.set(Some(act())));
        }
    });
    let worked = work();
    machine.hooks.clear();
    (done.take().expect("the hook did not run"), worked)
}

/// Whether a step is an attempt to publish.
pub(crate) fn is_publish(step: Step) -> bool {
    matches!(step, Step::Publish(_))
}

/// Whether a step is the announcement of a replacement.
pub(crate) fn is_replacing(step: Step) -> bool {
    matches!(step, Step::Swap(state) if state.phase() == Phase::Replacing)
}

/// Whether a step is the announcement of a first line.
pub(crate) fn is_first_publication(step: Step) -> bool {
    matches!(step, Step::Swap(state) if state.phase() == Phase::FirstPublication)
}

/// A machine whose clock is in its steady state.
pub(crate) fn steady_clock() -> (&'static Machine, &'static HookedClock, Control) {
    let (machine, clock, mut control) = new_clock();
    clock.make_steady(&mut control);
    (machine, clock, control)
}

/// Reports that a test did not run. Writes directly to stderr, because the test harness hides the
/// output of tests that pass.
pub(crate) fn skip(reason: &str) {
    use std::io::Write;
    writeln!(std::io::stderr(), "SKIPPED: {reason}").ok();
}
