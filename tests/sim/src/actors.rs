//! The actors: threads that read, drivers of the control loop, and threads that open and close
//! the gate. They run the code of `tickline-core`, from the driver down.

use core::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use tickline_core::control::{Cadence, Config, Control, Iteration, MIN_INTERVAL_NS, Outcome};
use tickline_core::counter::CpuCounter;
use tickline_core::driver::{DrivenClock, Permit, Step as DriverStep, Ticket};
use tickline_core::gate::keeper::{self, Stage};
use tickline_core::per_cpu;
use tickline_core::reference::ReferenceKind::{Independent, SameRead};
use tickline_core::reference::Resolutions;
use tickline_core::shared::{BoundedReading, Event, ReadingSource, SharedClock, SlowReading};
use tickline_core::try_lock::LockToken;

use crate::check::{Begin, Check, ONE_LINE, ReadKind, ReadPath, TrackPoint};
use crate::limits::valid_intervals;
use crate::machine::PS;
use crate::scenario::{Driver, Fault, Judgement};
use crate::world::{Access, Actor, ClockRead, Step, SteppedCell, World};

/// Readers begin to read this long before a stopped actor goes on, ps.
const AIM_AHEAD_PS: u64 = 3_000_000;

/// A reading with more steps than this is waiting for another thread. While a state announces a
/// replacement, a reader loads it up to a thousand times, in two steps each. A few such states may
/// follow each other.
const READING_STEPS: u64 = 20_000;

/// Actors choose each of these kinds once in nine readings, and otherwise an ordered reading.
const RARE_KINDS: [ReadKind; 4] = [
    ReadKind::Plain,
    ReadKind::Bounds,
    ReadKind::Unix,
    ReadKind::Slow,
];

/// The clock under attack.
pub(crate) struct Clock {
    driven: DrivenClock<SteppedCell>,
    /// The control loop of a clock whose gate is closed and opened without the keeper's knowledge.
    /// Only the thread drives such a clock.
    unguarded: RefCell<Control>,
    /// The lines of the CPUs, if each has one.
    pub(crate) cpu_clocks: Box<[SharedClock<SteppedCell>]>,
    pub(crate) config: Config,
    /// The number of the process's token.
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
            unguarded: RefCell::new(Control::new(config)),
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

    /// The token of the process.
    fn lock_token(&self) -> LockToken {
        // SAFETY: all actors of a process have the same number, and a forked process gets another.
        unsafe { LockToken::new(self.token.get()) }
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
            let iteration = self.iterate(Cadence::Scheduled);
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

    /// Does what the clock says, as `tickline`'s engine does, and checks the gate afterwards.
    fn iterate(&self, cadence: Cadence) -> Option<Iteration> {
        let token = self.clock.lock_token();
        drop(self.clock.driven.lock(token)?);
        let me = self.world.me();
        me.holds_lock.set(true);
        me.steps_left.set(u64::MAX);
        let iteration = if self.world.scenario.clock.gate_ns == 0 {
            self.drive_once(cadence)
        } else {
            Some(self.iterate_unguarded())
        };
        me.holds_lock.set(false);
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

    fn drive_once(&self, cadence: Cadence) -> Option<Iteration> {
        let access = self.access();
        let mut step = self.clock.driven.ask(self.clock.lock_token(), &access);
        loop {
            step = match step {
                DriverStep::Judge(ticket) => self.judge(ticket),
                DriverStep::Iterate(permit) => self.iterate_permitted(permit, cadence),
                DriverStep::CalibrateCpus(_) => unreachable!("a table has no gate of its own"),
                DriverStep::Rest(iteration) => return iteration,
            };
        }
    }

    /// Judges the gates in a few steps. Other threads run between them, as they do while `tickline`
    /// collects one fact after the other, and before it settles the ticket.
    fn judge<'a>(&self, ticket: Ticket<'a, SteppedCell>) -> DriverStep<'a, SteppedCell> {
        self.world.step(Step::Load);
        let judgement = self.clock.judgement.get();
        self.clock.last_judgement.set(judgement);
        self.world.step(Step::Load);
        let retry_at_ns = self
            .world
            .returned_ns()
            .saturating_add_unsigned(self.clock.config.interval_ns);
        let judgement = match judgement {
            Judgement::Open => keeper::Judgement::Open {
                resolutions: self.clock.config.resolutions,
                serves_unix_time: true,
            },
            Judgement::Passing => keeper::Judgement::Closed {
                retry_at_ns: Some(retry_at_ns),
            },
            Judgement::Closed => keeper::Judgement::Closed { retry_at_ns: None },
        };
        self.world.step(Step::Load);
        let access = self.access();
        ticket.settle(judgement, Some(&access), &access)
    }

    fn iterate_permitted<'a>(
        &self,
        permit: Permit<'a, SteppedCell>,
        cadence: Cadence,
    ) -> DriverStep<'a, SteppedCell> {
        let (access, interval_ns) = (self.access(), self.clock.config.interval_ns);
        self.watched(ONE_LINE, || {
            let step = permit.iterate(interval_ns, cadence, &access, &access);
            let oldest_ticks = match &step {
                DriverStep::Iterate(permit) => permit.control().oldest_sample_ticks(),
                _ => {
                    let memory = self.clock.driven.lock(self.clock.lock_token());
                    memory.and_then(|memory| memory.control().oldest_sample_ticks())
                }
            };
            (step, true, oldest_ticks)
        })
    }

    /// An iteration of a clock whose gate other threads close and open all the time. It replaces no
    /// first line, and judges no gate.
    fn iterate_unguarded(&self) -> Iteration {
        let (access, mut control) = (self.access(), self.clock.unguarded.borrow_mut());
        let iteration = self.watched(ONE_LINE, || {
            let iteration = control.iterate(self.clock.shared(), &access, &access);
            (iteration, true, control.oldest_sample_ticks())
        });
        Iteration {
            outcome: Outcome::RetrySoon,
            next_in_ns: iteration.next_in_ns.max(MIN_INTERVAL_NS),
        }
    }

    /// Judges the gates again if the result would be another one. Returns whether they were judged.
    fn review(&self) -> bool {
        let me = self.world.me();
        me.holds_lock.set(true);
        let ticket = self.clock.driven.ask_review(self.clock.lock_token());
        let has_changed = self.clock.judgement != self.clock.last_judgement;
        let ticket = ticket.filter(|_| has_changed);
        let is_judged = ticket.is_some();
        if let Some(ticket) = ticket {
            _ = self.judge(ticket);
        }
        me.holds_lock.set(false);
        is_judged
    }

    /// Whether the clock is allowed to be without a line.
    fn may_lack_line(&self) -> bool {
        self.clock.judgement.get() != Judgement::Open
            || self.clock.driven.keeper.stage() == Stage::Disabled
    }

    /// Runs an iteration for a cell, and records what it does. `iterate` returns its result, whether
    /// it took place, and the tick of the oldest sample after it.
    pub(crate) fn watched<T>(
        &self,
        cell: usize,
        iterate: impl FnOnce() -> (T, bool, Option<u64>),
    ) -> T {
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
        let (result, took_place, oldest_ticks) = iterate();
        let mut counts = self.world.counts.borrow_mut();
        counts.iterations += 1;
        // A thread that was moved away afterwards may have published a line, too.
        if record.newest_start_ticks.get() != last {
            counts.publications += 1;
            let oldest_ticks = oldest_ticks.expect("a line has evidence");
            let since_ps = record.time_ps(&self.world.clocks.borrow(), oldest_ticks);
            record
                .evidence
                .borrow_mut()
                .insert(record.newest_start_ticks.get(), since_ps);
        } else if !took_place {
            record.iteration_began_ps.set(last_ps);
        }
        result
    }

    /// Runs an iteration if the reader should, as `tickline`'s engine does: readers that call often
    /// renew a line past its window, and start a line when an iteration is due.
    fn iterate_as_reader(&self, reading: &SlowReading) -> bool {
        let Clock { driven, config, .. } = &*self.clock;
        let wanted = !self.is_per_cpu()
            && driven
                .reader_schedule
                .wants_iteration(&driven.keeper, reading, config.interval_ns);
        let served =
            wanted && self.clock.readers_drive.get() && self.iterate(Cadence::OnDemand).is_some();
        if served && driven.reader_schedule.count_iteration() {
            self.review();
        }
        served
    }

    // ---- readers ------------------------------------------------------------------------------

    /// A thread that reads, sometimes in bursts.
    pub(crate) fn read(&self) {
        let mut aimed = false;
        loop {
            if self.world.scenario.reads_regularly {
                self.one_reading();
                let half_ps = self.world.scenario.think_ns * PS / 2;
                self.world
                    .step(Step::Sleep(half_ps + self.random_below(half_ps)));
                continue;
            }
            let readings = if aimed || self.random_below(4) == 0 {
                1 + self.random_below(64)
            } else {
                1
            };
            for _ in 0..readings {
                self.one_reading();
                self.world.step(Step::Sleep(self.random_below(50_000)));
            }
            let think_ps;
            (think_ps, aimed) = self.think_ps();
            self.world.step(Step::Sleep(think_ps));
        }
    }

    /// The time until the next reading, ps, and whether the wait aims at the replacement of a line.
    /// A wait without aim has a random length. An aimed wait ends soon after the driver wakes up.
    /// Or it ends around the time at which a stopped actor goes on in the middle of an iteration.
    fn think_ps(&self) -> (u64, bool) {
        let (world, max_ps) = (&self.world, self.world.scenario.think_ns * PS);
        let think_ps = self.random_ps(max_ps);
        let now_ps = world.now_ps.get();
        let until_ps = |actor: &Actor| actor.ready_ps.get().saturating_sub(now_ps);
        let stopped = world.actors.iter().find(|actor| {
            actor.is_alive.get() && actor.holds_lock.get() && until_ps(actor) > AIM_AHEAD_PS
        });
        let driver = world.driver.get().map(|driver| &world.actors[driver]);
        let driver = driver.filter(|driver| driver.is_asleep.get() && until_ps(driver) > 0);
        let aim_ps = match stopped {
            Some(actor) => {
                Some(until_ps(actor) - AIM_AHEAD_PS + self.random_below(2 * AIM_AHEAD_PS))
            }
            // An iteration takes about as long as fifty brackets.
            None => driver.map(|driver| {
                let iteration_ps = 64 * world.bracket_ns.get() * PS + 2 * AIM_AHEAD_PS;
                until_ps(driver) + self.random_below(iteration_ps)
            }),
        };
        match aim_ps.filter(|&ps| ps < max_ps) {
            Some(aim_ps) if self.random_below(2) == 0 => (aim_ps, true),
            _ => (think_ps, false),
        }
    }

    fn one_reading(&self) {
        let choice = usize::try_from(self.random_below(9)).expect("few");
        let kind = RARE_KINDS.get(choice).copied().unwrap_or(ReadKind::Ordered);
        let begin = self.check.begin();
        self.world.me().steps_left.set(READING_STEPS);
        if self.is_per_cpu() && self.random_below(4) == 0 {
            self.go_elsewhere();
        }
        if !self.read_fast(kind, begin) {
            self.read_slowly(kind, begin);
        }
        self.world.me().steps_left.set(u64::MAX);
    }

    /// Whether each CPU has a line.
    fn is_per_cpu(&self) -> bool {
        self.world.scenario.clock.per_cpu
    }

    /// A reading by the common line, or by the line of the current CPU. `false` if the fast path
    /// refuses.
    fn read_fast(&self, kind: ReadKind, begin: Begin) -> bool {
        let (shared, clocks, access) = (self.clock.shared(), &self.clock.cpu_clocks, self.access());
        let cell = || self.world.me().last_read.get().cell;
        let complete = || self.world.step(Step::End);
        let now = || CpuCounter::now(&access);
        let now_ordered = || CpuCounter::now_ordered(&access);
        let by_cpu =
            |read| per_cpu::cpu_clock(clocks, read).and_then(|(clock, read)| clock.read_ns(&read));
        let ns = match (kind, self.is_per_cpu()) {
            (ReadKind::Bounds, _) => {
                let Some(reading) = self.read_bounded() else {
                    return false;
                };
                complete();
                self.check
                    .check_reading(begin, cell(), reading.ns, ReadPath::FastPath, kind);
                self.check.check_bounds(&reading);
                return true;
            }
            (ReadKind::Unix, per_cpu) => {
                let by_cpu = || {
                    per_cpu::cpu_clock(clocks, now())
                        .and_then(|(clock, read)| clock.read_unix_ns(&read))
                };
                let Some(ns) = (if per_cpu {
                    by_cpu()
                } else {
                    shared.read_unix_ns(&access)
                }) else {
                    return false;
                };
                // No step has come after the reading's second load of the state, so this bound
                // belongs to its line.
                let margin_ns = self.world.cells[cell()].unix_bound_ns.get();
                complete();
                self.check.not_behind_the_gate(begin);
                self.check.check_unix(ns, margin_ns);
                return true;
            }
            (ReadKind::Slow, _) => None,
            (ReadKind::Plain, false) => shared.read_ns(&access),
            (ReadKind::Plain, true) => by_cpu(now()),
            (ReadKind::Ordered, false) => shared.read_ordered_ns(&access),
            (ReadKind::Ordered, true) => by_cpu(now_ordered()),
        };
        let Some(ns) = ns else { return false };
        complete();
        self.check
            .check_reading(begin, cell(), ns, ReadPath::FastPath, kind);
        true
    }

    fn read_slowly(&self, kind: ReadKind, begin: Begin) {
        let (shared, access, check) = (self.clock.shared(), self.access(), &self.check);
        let complete = || self.world.step(Step::End);
        let helps = self.clock.event_count(Event::Help);
        let (mut cell, mut reading) = self.read_slow();
        if self.clock.event_count(Event::Help) != helps {
            // A thread that helps leaves the clock without a line.
            self.check.record_disturbance(self.world.now_ps.get());
        }
        let me = self.world.me();
        let (last_read, counter_read) = (me.last_read.get(), me.counter_read.get());
        let loaded = me.loaded.get();
        if self.iterate_as_reader(&reading) {
            (cell, reading) = self.read_slow();
        } else {
            // The reads of the failed iteration are not part of the reading.
            me.last_read.set(last_read);
            me.counter_read.set(counter_read);
            me.loaded.set(loaded);
        }
        complete();
        let path = match reading.source {
            ReadingSource::Line { .. } => ReadPath::SlowPathByLine,
            ReadingSource::Reference { .. } => ReadPath::SlowPathByReference,
        };
        check.check_reading(begin, cell, reading.ns, path, kind);
        if kind == ReadKind::Bounds && path == ReadPath::SlowPathByLine && !self.is_per_cpu() {
            let begin = check.begin();
            if let Some(reading) = shared.read_bounded_while_valid(&access, &access) {
                complete();
                check.check_reading(begin, ONE_LINE, reading.ns, ReadPath::SlowPathByLine, kind);
                check.check_bounds(&reading);
            }
        }
    }

    fn read_bounded(&self) -> Option<BoundedReading> {
        let access = self.access();
        if self.is_per_cpu() {
            let (clock, read) =
                per_cpu::cpu_clock(&self.clock.cpu_clocks, CpuCounter::now_ordered(&access))?;
            return clock.read_bounded(&read);
        }
        self.clock.shared().read_bounded(&access)
    }

    /// A reading by the slow path, with the cell that it used.
    fn read_slow(&self) -> (usize, SlowReading) {
        let access = self.access();
        if self.is_per_cpu() {
            return per_cpu::read_slow(&self.clock.cpu_clocks, &access, &access)
                .expect("every CPU is in the table");
        }
        (ONE_LINE, self.clock.shared().read_slow(&access, &access))
    }

    /// A reader that only records offsets and bounds for a plot, at regular times, on any CPU.
    pub(crate) fn record(&self, every_ps: u64) {
        loop {
            let at_ns = self.world.now_ps.get() / PS;
            if self.is_per_cpu() {
                self.go_elsewhere();
            }
            let point = self
                .read_bounded()
                .map_or_else(|| self.slow_point(), |reading| self.point(&reading));
            self.check
                .track
                .borrow_mut()
                .push(TrackPoint { at_ns, ..point });
            self.world.step(Step::Sleep(every_ps));
        }
    }

    /// A point of a plot, from a reading by a line. The caller sets `at_ns`.
    fn point(&self, reading: &BoundedReading) -> TrackPoint {
        let ClockRead { true_ns, cell, .. } = self.world.me().last_read.get();
        let (earliest_ns, latest_ns) = reading.bounds_ns();
        let offset_ns = reading.ns - true_ns;
        let unix_error_ns =
            reading.bounds.unix_offset_ns - self.world.clocks.borrow().unix_offset_ns;
        TrackPoint {
            offset_ns,
            earliest_ns: earliest_ns - true_ns,
            latest_ns: latest_ns - true_ns,
            unix_offset_ns: offset_ns + unix_error_ns,
            cpu: cell,
            by_line: true,
            ..TrackPoint::default()
        }
    }

    /// A point of a plot, from a reading by the slow path.
    fn slow_point(&self) -> TrackPoint {
        let (cell, SlowReading { ns, source }) = self.read_slow();
        let me = self.world.me();
        let read = if matches!(source, ReadingSource::Line { .. }) {
            &me.counter_read
        } else {
            &me.last_read
        };
        let offset_ns = ns - read.get().returned_ns;
        TrackPoint {
            offset_ns,
            unix_offset_ns: offset_ns,
            cpu: cell,
            ..TrackPoint::default()
        }
    }

    // ---- gatekeepers --------------------------------------------------------------------------

    /// A thread that closes and opens the gate of the cell again and again, without the keeper's
    /// knowledge.
    pub(crate) fn toggle_gate(&self) {
        let max_ps = self.world.scenario.clock.gate_ns * PS;
        loop {
            self.world.step(Step::Sleep(self.random_below(max_ps)));
            self.check.run_act(|| {
                self.clock
                    .shared()
                    .close_gate(&self.access(), &self.access());
                self.world.step(Step::Sleep(self.random_ps(max_ps)));
                self.clock
                    .shared()
                    .open_gate(&self.access(), &self.access());
            });
            self.check.record_disturbance(self.world.now_ps.get());
        }
    }

    /// A thread of the program that carries out the scenario's commands: it switches the counter
    /// off and on, and sets policies. The scheduler wakes it.
    pub(crate) fn carry_out_commands(&self) {
        let (driven, access) = (&self.clock.driven, self.access());
        loop {
            let Some(command) = self.clock.commands.borrow_mut().pop_front() else {
                self.world.step(Step::Sleep(crate::world::FOREVER_PS));
                continue;
            };
            self.check.run_act(|| {
                match command {
                    Fault::GateCloses => {
                        return self.check.run_disable(|| {
                            driven.disable(Some(&access), &access);
                            self.world.step(Step::End);
                        });
                    }
                    Fault::GateOpens => self.check.run_enable(|| {
                        driven.keeper.enable();
                        self.world.step(Step::End);
                    }),
                    _ => driven.request_judgement(Some(&access), &access),
                }
                self.check.record_disturbance(self.world.now_ps.get());
            });
        }
    }
}
