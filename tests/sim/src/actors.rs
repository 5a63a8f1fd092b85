//! The actors: threads that read, drivers of the control loop, and threads that open and close
//! the gate. They run the code of `tickline-core`, from the driver down.

use core::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use tickline_core::control::{Cadence, Config, Control, Iteration, MIN_INTERVAL_NS, Outcome};
use tickline_core::driver::{DrivenClock, DriverMemory, Platform};
use tickline_core::gate::keeper::{self, LineGate, LineKind, Stage};
use tickline_core::per_cpu;
use tickline_core::reference::ReferenceKind::{Independent, SameRead};
use tickline_core::reference::{Reference, Resolutions};
use tickline_core::shared::{Event, SharedClock, SlowReading};

use crate::check::{Check, ONE_LINE};
use crate::limits::valid_intervals;
use crate::machine::PS;
use crate::scenario::{Driver, Fault, Judgement};
use crate::world::{Access, Step, SteppedCell, World};

mod readers;

/// The clock under attack.
pub(crate) struct Clock {
    driven: DrivenClock<SteppedCell>,
    /// The lines of the CPUs, if each has one.
    pub(crate) cpu_clocks: Box<[SharedClock<SteppedCell>]>,
    pub(crate) config: Config,
    /// The token of the process.
    pub(crate) token: Cell<u64>,
    pub(crate) readers_drive: Cell<bool>,
    /// The result of a judgement made now, and that of the last one.
    pub(crate) judgement: Cell<Judgement>,
    last_judgement: Cell<Judgement>,
    /// Whether the thread was woken to calibrate all CPUs now.
    pub(crate) is_forced: Cell<bool>,
    /// The program's commands on the gate that are still to do. An idle thread takes the first one.
    pub(crate) commands: RefCell<VecDeque<Fault>>,
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
        let scenario = &world.scenario;
        let (machine, setup) = (&scenario.machine, &scenario.clock);
        let config = Config {
            interval_ns: setup.interval_ns,
            resolutions: Resolutions {
                counter_ticks: machine.counter_resolution_ticks,
                reference_ns: i64::try_from(machine.resolution_ns).expect("in its range"),
                reference_kind: if machine.same_counter {
                    SameRead
                } else {
                    Independent
                },
            },
            cadence: if setup.per_cpu {
                Cadence::Pinned
            } else {
                Cadence::Scheduled
            },
        };
        let shared = |cell| SharedClock::new(SteppedCell::new(Rc::clone(world), cell));
        let cpus = if setup.per_cpu { world.cells.len() } else { 0 };
        Self {
            driven: DrivenClock::new(shared(ONE_LINE)),
            cpu_clocks: (0..cpus).map(shared).collect(),
            config,
            token: Cell::new(1),
            readers_drive: Cell::new(setup.driver == Driver::Reader),
            judgement: Cell::new(Judgement::Open),
            last_judgement: Cell::new(Judgement::Open),
            is_forced: Cell::new(false),
            commands: RefCell::default(),
        }
    }

    /// The line of a clock that has one line for all CPUs.
    fn shared(&self) -> &SharedClock<SteppedCell> {
        &self.driven.shared
    }

    /// The number of times that `event` has happened.
    pub(crate) fn event_count(&self, event: Event) -> u64 {
        self.cpu_clocks
            .iter()
            .chain([self.shared()])
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

    // ---- drivers ------------------------------------------------------------------------------

    /// The thread that drives the clock.
    pub(crate) fn drive(&self) {
        loop {
            let iteration = self.maintain(Cadence::Scheduled);
            let closed = self.clock.driven.keeper.stage().is_closed();
            self.check.judge_bounds();
            if !self.may_lack_line() {
                self.check.check_recovery(self.clock.shared().cell.peek());
            }
            let wait_ns = match iteration {
                Some(iteration) => iteration.next_in_ns,
                None if closed => self.clock.config.interval_ns,
                None => MIN_INTERVAL_NS,
            };
            if !self.review() {
                self.world
                    .step(Step::Sleep(wait_ns * PS + self.random_ps(200_000 * PS)));
            }
        }
    }

    /// Calls [`DrivenClock::maintain`], and checks the gate after it.
    fn maintain(&self, cadence: Cadence) -> Option<Iteration> {
        let me = self.world.running.get();
        drop(self.clock.driven.lock(self)?);
        self.world.actors[me].holds_lock.set(true);
        self.world.actors[me].steps_left.set(u64::MAX);
        let iteration = self.clock.driven.maintain(self, cadence);
        self.world.actors[me].holds_lock.set(false);
        // If readers drive, a judgement against the counter may stay, because they collect the
        // facts only after an iteration.
        let is_excused = self.clock.readers_drive.get() || self.check.acts_under_way.get() != 0;
        let may_stay_closed = is_excused || self.may_lack_line();
        match iteration.map(|iteration| iteration.outcome) {
            None | Some(Outcome::GateClosed) if !may_stay_closed => {
                self.check.count_barred_iteration()
            }
            _ => self.check.barred.set(0),
        }
        iteration
    }

    /// Calls [`DrivenClock::review`].
    fn review(&self) -> bool {
        let me = self.world.running.get();
        self.world.actors[me].holds_lock.set(true);
        let reviewed = self.clock.driven.review(self);
        self.world.actors[me].holds_lock.set(false);
        reviewed
    }

    /// Whether the clock is allowed to be without a line.
    fn may_lack_line(&self) -> bool {
        self.clock.judgement.get() != Judgement::Open
            || self.clock.driven.keeper.stage() == Stage::Disabled
    }

    /// Runs an iteration for a cell. `None` if the thread did not stay on the cell's CPU.
    pub(crate) fn iterate(&self, cell: usize, control: &mut Control) -> Option<Iteration> {
        let now_ps = self.world.now_ps.get();
        let record = &self.world.cells[cell];
        let last_ps = record.iteration_began_ps.replace(now_ps);
        if now_ps - last_ps > 2 * self.clock.config.interval_ns * PS {
            self.check.record_disturbance(now_ps); // no iteration took place for a while
        }
        let valid_ns = valid_intervals(&self.world.scenario) * self.clock.config.interval_ns;
        if self.world.clocks.borrow().has_no_line(now_ps, valid_ns) {
            self.check.record_disturbance(now_ps);
        }
        let last = record.newest_start_ticks.get();
        let access = self.access();
        let iteration = match self.clock.cpu_clocks.get(cell) {
            Some(shared) => per_cpu::maintain(control, shared, cell, &access, &access),
            None => Some(control.maintain(self.clock.shared(), &access, &access)),
        };
        let mut counts = self.world.counts.borrow_mut();
        counts.iterations += 1;
        // A thread that was moved away afterwards may have published a line, too.
        if record.newest_start_ticks.get() != last {
            counts.publications += 1;
            let oldest = control.oldest_sample_ticks().expect("a line has evidence");
            let since_ps = record.time_ps(&self.world.clocks.borrow(), oldest);
            record
                .evidence
                .borrow_mut()
                .insert(record.newest_start_ticks.get(), since_ps);
        } else if iteration.is_none() {
            record.iteration_began_ps.set(last_ps);
        }
        iteration
    }

    /// Runs an iteration if the reader should, as `tickline`'s engine does: readers that call often
    /// renew a line past its window, and start a line when an iteration is due.
    fn maintain_as_reader(&self, reading: &SlowReading) -> bool {
        let Clock { driven, config, .. } = &*self.clock;
        let wanted = !self.is_per_cpu()
            && driven
                .reader_schedule
                .wants_iteration(&driven.keeper, reading, config.interval_ns);
        let served =
            wanted && self.clock.readers_drive.get() && self.maintain(Cadence::OnDemand).is_some();
        if served && driven.reader_schedule.count_iteration() {
            self.review();
        }
        served
    }

    // ---- gatekeepers --------------------------------------------------------------------------

    /// A thread that closes and opens the gate of the cell again and again, without the keeper's
    /// knowledge.
    pub(crate) fn toggle_gate(&self) {
        let max_ps = self.world.scenario.clock.gate_ns * PS;
        loop {
            self.world.step(Step::Sleep(self.random_below(max_ps)));
            self.check.run_act(|| {
                self.close();
                self.world.step(Step::Sleep(self.random_ps(max_ps)));
                self.open();
            });
            self.check.record_disturbance(self.world.now_ps.get());
        }
    }

    /// A thread of the program that carries out the scenario's commands: it switches the counter
    /// off and on, and sets policies. The scheduler wakes it.
    pub(crate) fn carry_out_commands(&self) {
        let keeper = &self.clock.driven.keeper;
        loop {
            let Some(command) = self.clock.commands.borrow_mut().pop_front() else {
                self.world.step(Step::Sleep(crate::world::FOREVER_PS));
                continue;
            };
            self.check.run_act(|| {
                match command {
                    Fault::GateCloses => {
                        return self.check.run_disable(|| {
                            keeper.disable(self);
                            self.world.step(Step::End);
                        });
                    }
                    Fault::GateOpens => self.check.run_enable(|| {
                        keeper.enable();
                        self.world.step(Step::End);
                    }),
                    _ => keeper.request_judgement(self),
                }
                self.check.record_disturbance(self.world.now_ps.get());
            });
        }
    }
}

impl LineGate for Context {
    fn close(&self) {
        self.clock
            .shared()
            .close_gate(&self.access(), &self.access());
    }

    fn open(&self) {
        self.clock
            .shared()
            .open_gate(&self.access(), &self.access());
    }
}

// SAFETY: all actors of a process have the same token, and a forked process gets another token.
unsafe impl Platform for Context {
    fn lock_token(&self) -> u64 {
        self.clock.token.get()
    }

    fn monotonic_ns(&self) -> i64 {
        self.access().monotonic_ns()
    }

    fn interval_ns(&self) -> u64 {
        self.clock.config.interval_ns
    }

    /// Judges the gates in a few steps. Other threads run between them, as they do while `tickline`
    /// collects one fact after the other.
    fn judge(&self, _: LineKind, locked: &mut DriverMemory) -> Option<keeper::Judgement> {
        self.world.step(Step::Load);
        let judgement = self.clock.judgement.get();
        self.clock.last_judgement.set(judgement);
        self.world.step(Step::Load);
        let retry_at_ns = match judgement {
            Judgement::Open => {
                locked.control.begin_anew(self.clock.config);
                return Some(keeper::Judgement::Open);
            }
            Judgement::Passing => Some(
                self.world
                    .returned_ns()
                    .saturating_add_unsigned(self.clock.config.interval_ns),
            ),
            Judgement::Closed => None,
        };
        Some(keeper::Judgement::Closed { retry_at_ns })
    }

    fn judge_if_changed(
        &self,
        kind: LineKind,
        locked: &mut DriverMemory,
    ) -> Option<keeper::Judgement> {
        if self.clock.judgement == self.clock.last_judgement {
            None
        } else {
            self.judge(kind, locked)
        }
    }

    fn iterate(&self, control: &mut Control) -> Option<Iteration> {
        let iteration = self.iterate(ONE_LINE, control)?;
        // Where threads close and open the gate all the time, the driver must not replace first
        // lines or judge the gate. So this call hides both outcomes from it.
        let hides_outcome = self.world.scenario.clock.gate_ns != 0;
        if !hides_outcome
            || !matches!(
                iteration.outcome,
                Outcome::PublishedFirst | Outcome::GateClosed
            )
        {
            return Some(iteration);
        }
        Some(Iteration {
            outcome: Outcome::RetrySoon,
            next_in_ns: iteration.next_in_ns.max(MIN_INTERVAL_NS),
        })
    }
}
