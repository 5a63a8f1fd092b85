//! The actors: threads that read, drivers of the control loop, and threads that bar and unbar
//! the clock. They run the code of `tickline-core`, from the driver down. This file has what they
//! share.

use core::cell::{Cell, RefCell};
use core::num::NonZeroU32;
use std::collections::VecDeque;
use std::rc::Rc;

use tickline_core::control::{Cadence, Config, Control};
use tickline_core::driver::DrivenClock;
use tickline_core::reference::ReferenceKind::{Independent, SameRead};
use tickline_core::reference::Resolutions;
use tickline_core::shared::{Event, Readings, SharedClock};

use crate::check::{Check, ONE_LINE};
use crate::machine::PS;
use crate::scenario::{Decision, Driver, Fault};
use crate::world::{Access, SteppedCell, World};

mod driver;
mod program;
mod readers;

/// The most by which a timer is late, ps. A choice, not a measurement: four times the slack that
/// Linux gives timers by default (`PR_SET_TIMERSLACK` in prctl(2)).
pub(crate) const MAX_LATE_PS: u64 = 200_000 * PS;

/// The longest time until a woken thread runs, ps. A choice, not a measurement: half of that.
pub(crate) const MAX_WAKE_UP_PS: u64 = 100_000 * PS;

/// A clock without a keeper, and its control loop.
struct Unguarded {
    clock: SharedClock<SteppedCell>,
    control: RefCell<Control>,
}

/// The clock under attack.
pub(crate) struct Clock {
    driven: DrivenClock<SteppedCell>,
    /// In place of the driven clock's line: a clock that is barred and unbarred without the
    /// keeper's knowledge. Only the thread drives such a clock.
    unguarded: Option<Unguarded>,
    /// The lines of the CPUs, if each has one.
    pub(crate) cpu_clocks: Box<[SharedClock<SteppedCell>]>,
    pub(crate) resolutions: Resolutions,
    pub(crate) config: Config,
    /// The number of the process's token.
    pub(crate) token_number: Cell<NonZeroU32>,
    pub(crate) readers_drive: Cell<bool>,
    /// What a judgement made now decides, and what the last one has decided.
    pub(crate) decision: Cell<Decision>,
    last_decision: Cell<Decision>,
    /// Whether the thread was woken to calibrate all CPUs now.
    pub(crate) is_forced: Cell<bool>,
    /// The program's commands to the keeper that are still to do. An idle thread takes the first
    /// one.
    pub(crate) commands: RefCell<VecDeque<Fault>>,
}

thread_local! {
    /// The ids of the threads that were killed in this run.
    static ENDED: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

fn has_ended(id: u32) -> bool {
    ENDED.with_borrow(|ended| ended.contains(&id))
}

/// Records that the thread with this id was killed.
pub(crate) fn record_thread_end(id: u32) {
    ENDED.with_borrow_mut(|ended| ended.push(id));
}

/// The parts of the simulation that an actor uses.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) world: Rc<World>,
    pub(crate) clock: Rc<Clock>,
    pub(crate) check: Rc<Check>,
}

impl Clock {
    fn new(world: &Rc<World>) -> Self {
        ENDED.with_borrow_mut(Vec::clear);
        let scenario = &world.scenario;
        let machine = &scenario.machine;
        let setup = &scenario.clock;
        let reference_ns = i64::try_from(machine.resolution_ns).expect("in its range");
        let kind = if machine.same_counter {
            SameRead
        } else {
            Independent
        };
        let resolutions = Resolutions::new(machine.counter_resolution_ticks, reference_ns, kind);
        let mut config = Config::new(setup.interval_ns);
        if setup.per_cpu {
            config.cadence = Cadence::Pinned;
        }
        let shared = |cell| SharedClock::new(SteppedCell::new(Rc::clone(world), cell));
        let cpus = if setup.per_cpu { world.cells.len() } else { 0 };
        Self {
            driven: DrivenClock::new(shared(ONE_LINE)),
            unguarded: (setup.bar_ns != 0).then(|| Unguarded {
                clock: shared(ONE_LINE),
                control: RefCell::new(Control::new(resolutions, config)),
            }),
            cpu_clocks: (0..cpus).map(shared).collect(),
            resolutions,
            config,
            token_number: Cell::new(NonZeroU32::MIN),
            readers_drive: Cell::new(setup.driver == Driver::Reader),
            decision: Cell::new(Decision::Open),
            last_decision: Cell::new(Decision::Open),
            is_forced: Cell::new(false),
            commands: RefCell::default(),
        }
    }

    /// The line of a clock that has one line for all CPUs.
    fn readings(&self) -> &Readings<SteppedCell> {
        match &self.unguarded {
            Some(unguarded) => unguarded.clock.readings(),
            None => self.driven.readings(),
        }
    }

    /// The number of times that `event` has happened.
    pub(crate) fn event_count(&self, event: Event) -> u64 {
        self.cpu_clocks
            .iter()
            .map(SharedClock::readings)
            .chain([self.readings()])
            .map(|clock| clock.event_count(event))
            .sum()
    }
}

impl Context {
    pub(crate) fn new(world: Rc<World>) -> Self {
        let clock = Rc::new(Clock::new(&world));
        let check = Rc::new(Check::new(Rc::clone(&world)));
        Self {
            world,
            clock,
            check,
        }
    }

    pub(crate) fn access(&self) -> Access {
        Access(Rc::clone(&self.world))
    }

    pub(crate) fn random_below(&self, limit: u64) -> u64 {
        self.world.rng.borrow_mut().u64(..limit.max(1))
    }

    /// A random time up to `max_ps`. Each order of magnitude is equally likely.
    pub(crate) fn random_ps(&self, max_ps: u64) -> u64 {
        let shift = self.world.rng.borrow_mut().u32(..24);
        self.random_below(max_ps >> shift)
    }
}
