//! The world that all actors share: true time, the clocks, and the state of each actor.
//!
//! An actor is a coroutine that runs the code of `tickline-core` over [`Access`]. The coroutine
//! yields before each of its steps. The scheduler (`run`) then lets true time pass, lets others
//! run, and resumes the actor when the step takes place. So a step is atomic, and anything may
//! happen between two steps.
//!
//! # Out of order
//!
//! A CPU executes loads and reads of the counter out of order. The steps do the same, as far as
//! the instructions allow, within [`Chance::out_of_order_ns`](crate::scenario::Chance):
//!
//! - an ordered read of the counter may take its value *late*, after loads that follow it in the
//!   program;
//! - a plain read may take its value *early*, before the loads that precede it. But it does so
//!   neither before the thread's last fence, nor before a preemption.

use core::cell::{Cell, RefCell};
use std::rc::Rc;

use corosensei::Yielder;
use tickline_core::cell::{LineCell, NextLine, SlotView, StateCell, Window, WindowedLine};
use tickline_core::counter::Counter;
use tickline_core::line::Slope;
use tickline_core::reference::Reference;
use tickline_core::state::{LineState, Phase};

use crate::cell_record::CellRecord;
use crate::counts::Counts;
use crate::machine::{Clocks, PS, SLOPE_BITS};
use crate::scenario::{Fault, Scenario, TimedFault};

/// Later than the end of every run, ps.
pub(crate) const FOREVER_PS: u64 = u64::MAX / 4;

/// The limit of actors in one run: readers, a driver, threads of the program, and the reader that
/// records offsets.
pub(crate) const MAX_ACTORS: usize = 16;

/// One call in this many returns a value from before the call. It is rare, because two CPUs must
/// meet at the timer, and the waiting CPU must be stopped meanwhile.
const STALE_ONE_IN: u32 = 1_000;

/// An actor's next step. It takes place when the scheduler resumes the actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Loads from memory.
    Load,
    /// A swap.
    Swap,
    /// A writer's work after it has tried to publish a line.
    Published,
    /// A read of the counter.
    Counter,
    /// A read of the reference.
    Reference,
    /// The end of a reading: every instruction of it is complete.
    End,
    /// A sleep of this many ps.
    Sleep(u64),
}

pub(crate) type StepYielder = Yielder<(), Step>;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ClockRead {
    /// The counter, ticks.
    pub(crate) ticks: u64,
    /// The time that the reference would have returned at this moment, ns.
    pub(crate) returned_ns: i64,
    /// That time before it is rounded down to the reference's resolution, ns.
    pub(crate) true_ns: i64,
    /// The time of the read, ps.
    pub(crate) at_ps: u64,
    /// The cell's state at this moment.
    pub(crate) state: LineState,
    /// The beginning of the iteration that published the cell's line, ps.
    pub(crate) born_ps: u64,
    /// The number of the cell.
    pub(crate) cell: usize,
}

/// The state that an actor loaded from a cell.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Loaded {
    pub(crate) state: LineState,
    /// The number of lives of this state by then.
    pub(crate) life: u64,
    /// Whether the actor has swapped a later life of this state.
    pub(crate) is_old: bool,
    /// The window of the line, once the actor has read the slot.
    pub(crate) window: Option<Window>,
}

/// The state of one actor.
#[derive(Debug, Default)]
pub(crate) struct Actor {
    /// The id of the thread. No other thread of the run has the same.
    pub(crate) id: Cell<u32>,
    pub(crate) is_alive: Cell<bool>,
    pub(crate) cpu: Cell<u32>,
    /// Whether the actor is pinned to its CPU.
    pub(crate) is_pinned: Cell<bool>,
    pub(crate) ready_ps: Cell<u64>,
    pub(crate) is_asleep: Cell<bool>,
    /// The CPU executes no read of the counter before this time, ps.
    pub(crate) fence_ps: Cell<u64>,
    /// The time at which the CPU executes the last read of the counter, if it is still to come, ps.
    pub(crate) late_ps: Cell<u64>,
    /// The line that the actor loaded last, for a reading or to act on it.
    pub(crate) loaded: Cell<Loaded>,
    /// The last read of a clock, and the last one of the counter.
    pub(crate) last_read: Cell<ClockRead>,
    pub(crate) counter_read: Cell<ClockRead>,
    /// Whether the actor holds the clock's lock.
    pub(crate) holds_lock: Cell<bool>,
    /// The number of steps that its reading may still take: no reading may wait for another thread.
    pub(crate) steps_left: Cell<u64>,
}

pub(crate) struct Cpu {
    pub(crate) is_online: Cell<bool>,
    /// The time until which the CPU stands still, ps.
    pub(crate) paused_ps: Cell<u64>,
    /// The CPU's counter minus the machine's, ticks.
    difference_ticks: i64,
}

/// A simulated machine: its time, its clocks and its CPUs.
pub(crate) struct World {
    pub(crate) scenario: Scenario,
    pub(crate) now_ps: Cell<u64>,
    pub(crate) clocks: RefCell<Clocks>,
    /// The mean time of a read of the reference, ns.
    pub(crate) bracket_ns: Cell<u64>,
    pub(crate) actors: [Actor; MAX_ACTORS],
    /// The thread that drives the clock, if there is one.
    pub(crate) driver: Cell<Option<usize>>,
    /// The actor that is running, and its coroutine's yielder.
    pub(crate) running: Cell<usize>,
    pub(crate) yielder: Cell<*const StepYielder>,
    pub(crate) rng: RefCell<fastrand::Rng>,
    /// The cells: one, or one for each CPU.
    pub(crate) cells: Vec<CellRecord>,
    /// Whether the run must end because of an undetectable event. There are two such events. A
    /// reader met a line from before a reset when the counter had come back to the line's window.
    /// Or a thread swapped a later life of the state that it knew.
    pub(crate) is_over: Cell<bool>,
    pub(crate) cpus: Vec<Cpu>,
    /// The largest time that the reference has returned, ns.
    returned_ns: Cell<i64>,
    pub(crate) counts: RefCell<Counts>,
}

impl World {
    pub(crate) fn new(scenario: &Scenario) -> Rc<Self> {
        let mut rng = fastrand::Rng::with_seed(scenario.seed);
        let most = i64::try_from(scenario.machine.cpu_difference_ticks / 2).expect("in its range");
        let cpu_difference_ticks: Vec<i64> = (0..scenario.machine.cpus)
            .map(|_| rng.i64(-most..=most))
            .collect();
        let cpu = |ticks| Cpu {
            is_online: true.into(),
            paused_ps: 0.into(),
            difference_ticks: ticks,
        };
        Rc::new(Self {
            scenario: scenario.clone(),
            now_ps: Cell::new(0),
            clocks: RefCell::new(Clocks::new(&scenario.machine, rng.u64(..))),
            bracket_ns: Cell::new(scenario.machine.bracket_ns),
            actors: Default::default(),
            driver: Cell::new(None),
            running: Cell::new(0),
            yielder: Cell::new(core::ptr::null()),
            rng: RefCell::new(rng),
            cells: CellRecord::for_each(if scenario.clock.per_cpu {
                &cpu_difference_ticks
            } else {
                &[0]
            }),
            is_over: Cell::new(false),
            cpus: cpu_difference_ticks.into_iter().map(cpu).collect(),
            returned_ns: Cell::new(i64::MIN),
            counts: RefCell::default(),
        })
    }

    /// The actor that is running.
    pub(crate) fn me(&self) -> &Actor {
        &self.actors[self.running.get()]
    }

    /// Yields to the scheduler until `step` takes place.
    pub(crate) fn step(&self, step: Step) {
        let steps_left = &self.me().steps_left;
        assert!(steps_left.get() != 1, "a reading waits for another thread");
        steps_left.set(steps_left.get().saturating_sub(1));
        let yielder = self.yielder.get();
        assert!(!yielder.is_null(), "a step outside of every actor");
        // SAFETY: this is the yielder of the running coroutine, because each coroutine sets it when
        // it starts, and below, whenever it goes on. The yielder lives on the coroutine's stack for
        // as long as the coroutine's body runs.
        unsafe { &*yielder }.suspend(step);
        self.yielder.set(yielder);
    }

    /// The time that the reference returns now, ns.
    pub(crate) fn returned_ns(&self) -> i64 {
        self.clocks.borrow_mut().reference_ns(self.now_ps.get())
    }

    /// The time that a caller gets when the reference is at `returned_ns`. It may be a stale value.
    fn possibly_stale(&self, returned_ns: i64) -> i64 {
        let stale_ns = self.scenario.machine.stale_ns;
        let mut rng = self.rng.borrow_mut();
        let age_ns = if stale_ns == 0 || rng.u32(..STALE_ONE_IN) != 0 {
            0
        } else {
            rng.u64(..=stale_ns)
        };
        let returned_ns = returned_ns - i64::try_from(age_ns).expect("in its range");
        self.returned_ns
            .set(self.returned_ns.get().max(returned_ns));
        self.returned_ns.get()
    }

    /// The running actor's read of its CPU's counter, ticks. The CPU executes the read at `at_ps`.
    fn read_counter(&self, at_ps: u64) -> u64 {
        let me = self.me();
        me.fence_ps.set(at_ps);
        let difference_ticks = self.cpus[me.cpu.get() as usize].difference_ticks;
        let ticks = self
            .clocks
            .borrow()
            .counter
            .at(at_ps)
            .wrapping_add_signed(difference_ticks);
        self.record_read(ticks, at_ps);
        me.counter_read.set(me.last_read.get());
        ticks
    }

    /// Records the running actor's read of a clock at `at_ps`; `ticks` is 0 for the reference.
    fn record_read(&self, ticks: u64, at_ps: u64) {
        let cell = self.cell_of(self.me());
        let state = self.cells[cell].state.get();
        let born_ps = self.cells[cell].born_ps.get();
        self.returned_ns(); // brings the clocks up to now
        let clocks = self.clocks.borrow();
        let true_ns = clocks.true_ns(at_ps);
        self.me().last_read.set(ClockRead {
            ticks,
            returned_ns: clocks.returned(true_ns),
            true_ns,
            at_ps,
            state,
            born_ps,
            cell,
        });
    }

    fn out_of_order_ps(&self) -> u64 {
        let most = self.scenario.chance.out_of_order_ns * PS;
        let mut rng = self.rng.borrow_mut();
        if most == 0 || rng.u32(..4) != 0 {
            return 0;
        }
        let shift = rng.u32(..6);
        rng.u64(..=most >> shift)
    }
}

/// An actor's access to the clocks.
#[derive(Clone)]
pub(crate) struct Access(pub(crate) Rc<World>);

impl Counter for Access {
    fn now(&self) -> u64 {
        let world = &self.0;
        world.step(Step::Counter);
        let now_ps = world.now_ps.get();
        let earliest_ps = world
            .me()
            .fence_ps
            .get()
            .max(world.clocks.borrow().counter.since_ps);
        world.read_counter(
            now_ps
                .saturating_sub(world.out_of_order_ps())
                .max(earliest_ps.min(now_ps)),
        )
    }

    fn now_ordered(&self) -> u64 {
        let world = &self.0;
        world.step(Step::Counter);
        let now_ps = world.now_ps.get();
        let late_ps = now_ps + world.out_of_order_ps();
        let strikes =
            |timed: &TimedFault| (now_ps..=late_ps).contains(&timed.at_ns.saturating_mul(PS));
        let at_ps = if world.scenario.faults.iter().any(strikes) {
            now_ps
        } else {
            late_ps
        };
        world.me().late_ps.set(at_ps);
        world.read_counter(at_ps)
    }

    fn barrier(&self) {
        self.0.step(Step::End);
    }
}

impl Reference for Access {
    fn monotonic_ns(&self) -> i64 {
        let world = &self.0;
        world.step(Step::Reference);
        world.me().fence_ps.set(world.now_ps.get());
        world.record_read(0, world.now_ps.get());
        world.possibly_stale(world.me().last_read.get().returned_ns)
    }

    fn unix_ns(&self) -> i64 {
        let world = &self.0;
        world.step(Step::Reference);
        world.returned_ns() + world.clocks.borrow().unix_offset_ns
    }

    fn steering_ppb(&self) -> Option<i64> {
        Some(self.0.clocks.borrow().steering_ppb)
    }

    fn suspended_ns(&self) -> Option<i64> {
        let world = &self.0;
        if world
            .scenario
            .faults
            .iter()
            .any(|timed| matches!(timed.fault, Fault::Suspend(_)))
        {
            world.step(Step::Reference);
            world.me().fence_ps.set(world.now_ps.get());
        }
        (!world.scenario.machine.hides_suspends).then(|| world.clocks.borrow().suspended_ns)
    }
}

/// The number of low bits of a slope that are cleared where states are to recur. Slopes are then
/// multiples of 2^-16 ns a tick, 15 ppm at 1 GHz.
const COARSE_BITS: u32 = SLOPE_BITS - 16;

/// The real cell, with a step before each access.
pub(crate) struct SteppedCell {
    inner: LineCell,
    world: Rc<World>,
    /// The cell's index in the world's cells.
    cell: usize,
}

impl SteppedCell {
    pub(crate) fn new(world: Rc<World>, cell: usize) -> Self {
        Self {
            inner: LineCell::default(),
            world,
            cell,
        }
    }

    fn cell(&self) -> &CellRecord {
        &self.world.cells[self.cell]
    }

    /// Loads the state. Not every processor loads 16 bytes at once. One load in four therefore
    /// loads two halves, in either order, and anything may happen between them.
    fn load_state(&self) -> LineState {
        self.world.step(Step::Load);
        let first = self.inner.load();
        let order = self.world.rng.borrow_mut().u32(..8);
        if order > 1 {
            return first;
        }
        self.world.step(Step::Load);
        let second = self.inner.load();
        if order == 0 {
            LineState {
                m: first.m,
                b: second.b,
            }
        } else {
            LineState {
                m: second.m,
                b: first.b,
            }
        }
    }

    /// If states are to recur, a line near `line` with one of few slopes, and nowhere below `line`;
    /// else `line` itself.
    fn coarse(&self, from: LineState, line: &WindowedLine) -> WindowedLine {
        let do_states_recur = self.world.scenario.clock.bar_ns != 0;
        if !do_states_recur {
            return *line;
        }
        let unit = 1_u64 << COARSE_BITS;
        let slope = (line.slope().bits + unit / 2) & !(unit - 1);
        let next = from.next_line(Slope { bits: slope });
        let Some(next) = next else { return *line };
        // Both lines are rounded down.
        let coarse = WindowedLine {
            state: next,
            ..*line
        };
        let b_at = |ticks| line.ns_at(ticks).wrapping_sub(coarse.ns_at(ticks)) + 1;
        let b = b_at(line.start_ticks).max(b_at(line.validity_end_ticks()));
        WindowedLine {
            state: LineState { b, ..next },
            ..coarse
        }
    }

    fn record_swap(&self, from: LineState, to: LineState) {
        let world = &self.world;
        let cell = self.cell();
        let me = self.world.me();
        let mut loaded = me.loaded.get();
        loaded.is_old |= loaded.state == from && loaded.life != cell.lives(from);
        me.loaded.set(loaded);
        let retires = from.phase() == Phase::Replacing && to.phase() == Phase::NoLine;
        let is_ordered =
            world.scenario.machine.cpu_difference_ticks == 0 || world.scenario.clock.per_cpu;
        let below_ns = cell.returned_ns.get().saturating_sub(to.b);
        if retires && is_ordered && below_ns > 0 {
            assert!(
                loaded.is_old,
                "a high-water mark that is {below_ns} ns below what was returned"
            );
            // The count in the tag wrapped around while this thread was stopped.
            world.counts.borrow_mut().low_marks += 1;
            world.is_over.set(true);
        }
        cell.record_swap(to, world.now_ps.get(), &mut world.counts.borrow_mut());
    }
}

impl StateCell for SteppedCell {
    fn load(&self) -> LineState {
        let state = self.load_state();
        self.world.me().loaded.set(Loaded {
            state,
            life: self.cell().lives(state),
            ..Loaded::default()
        });
        state
    }

    fn is_still(&self, state: LineState) -> bool {
        self.load_state() == state
    }

    fn slot(&self, state: LineState) -> SlotView<'_> {
        self.world.step(Step::Load);
        let view = self.inner.slot(state);
        let mut loaded = self.world.me().loaded.get();
        loaded.window.get_or_insert(view.window());
        self.world.me().loaded.set(loaded);
        view
    }

    fn try_swap(&self, from: LineState, to: LineState) -> bool {
        self.world.step(Step::Swap);
        let swapped = self.inner.try_swap(from, to);
        if swapped {
            self.record_swap(from, to);
        }
        self.world.me().fence_ps.set(self.world.now_ps.get());
        swapped
    }

    fn publish(&self, from: LineState, next: &NextLine) -> bool {
        self.world.step(Step::Swap);
        let mut next = *next;
        next.line = self.coarse(from, &next.line);
        let published = self.inner.publish(from, &next);
        if published {
            self.record_swap(from, next.line.state);
            self.cell()
                .record_publication(&next.line, next.bounds().unix_bound_ns);
        }
        self.world.me().fence_ps.set(self.world.now_ps.get());
        self.world.step(Step::Published);
        published
    }
}
