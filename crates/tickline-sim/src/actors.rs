//! What the actors do: threads that read, whoever drives the control loop, and whoever opens and closes the gate. All of it
//! is the code of `tickline-core`; the decisions of the reader driver are those of `tickline`'s engine.

use core::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use tickline_core::cell::{NativeCell, Support};
use tickline_core::control::{Config, Control, MIN_INTERVAL_NS, Outcome, Renewal, Round};
use tickline_core::sample::Quanta;
use tickline_core::shared::{Event, Shared, SlowReading, Source};
use tickline_core::try_lock::TryLock;

use crate::check::{Begin, Check, From, Mark};
use crate::machine::PS;
use crate::scenario::{self, Driver};
use crate::world::{Actor, Hand, Hands, Step, SteppedCell, World};

/// How long before somebody goes on readers come to watch, ps.
const HASTE_PS: u64 = 3_000_000;

/// A reading that takes more steps than this waits for somebody. A closing word is looked at a thousand times at most, in two
/// steps each; a few may follow each other.
const READING_STEPS: u64 = 20_000;

/// The clock under attack.
pub(crate) struct Clock {
    pub(crate) shared: Shared<SteppedCell>,
    control: TryLock<Option<Control>>,
    config: Config,
    /// The token of the process.
    pub(crate) token: Cell<u64>,
    pub(crate) readers_drive: Cell<bool>,
    due_ns: Cell<i64>,
    /// What the gatekeeper is to do: `true` closes.
    pub(crate) gate_orders: RefCell<VecDeque<bool>>,
}

/// Everything that an actor reaches.
#[derive(Clone)]
pub(crate) struct Cast {
    pub(crate) world: Rc<World>,
    pub(crate) clock: Rc<Clock>,
    pub(crate) check: Rc<Check>,
}

impl Clock {
    fn new(world: &Rc<World>) -> Self {
        let scenario = &world.scenario;
        let (machine, setup) = (&scenario.machine, &scenario.clock);
        let native = setup.cell != scenario::Cell::Portable && NativeCell::support() != Support::Missing;
        // What `quantum_ticks` would find, or 0 where brackets need none.
        let counter_ticks = if machine.same_counter { 0 } else { machine.counter_step };
        let config = Config {
            interval_ns: setup.interval_ns,
            quanta: Quanta {
                counter_ticks,
                reference_ns: i64::try_from(machine.quantum_ns).expect("checked"),
            },
            guarded: setup.cell == scenario::Cell::Guarded,
            renewal: Renewal::Ahead,
        };
        Self {
            shared: Shared::new(SteppedCell::new(native, Rc::clone(world))),
            control: TryLock::new(None),
            config,
            token: Cell::new(1),
            readers_drive: Cell::new(setup.driver == Driver::Readers),
            due_ns: Cell::new(i64::MIN),
            gate_orders: RefCell::default(),
        }
    }
}

impl Cast {
    pub(crate) fn new(world: Rc<World>) -> Self {
        let clock = Rc::new(Clock::new(&world));
        let check = Rc::new(Check::new(Rc::clone(&world)));
        Self { world, clock, check }
    }

    fn hands(&self) -> Hands {
        Hands(Rc::clone(&self.world))
    }

    fn below(&self, limit: u64) -> u64 {
        self.world.chance.borrow_mut().u64(..limit.max(1))
    }

    /// Up to `most` ps, each order of magnitude as likely as another.
    fn some_ps(&self, most_ps: u64) -> u64 {
        let shift = self.world.chance.borrow_mut().u32(..24);
        self.below(most_ps >> shift)
    }

    // ---- drivers ----------------------------------------------------------------------------------------------

    /// The thread.
    pub(crate) fn drive(&self, hand: &Hand) {
        self.world.enter(hand);
        loop {
            let wait_ns = self.serve(Renewal::Ahead).map_or(MIN_INTERVAL_NS, |outcome| outcome.next_in_ns);
            self.check.after_round(self.clock.shared.cell.peek());
            self.world.step(Step::Sleep(wait_ns * PS + self.some_ps(200_000 * PS)));
        }
    }

    /// A round, and a second one after a recovery. `None` if somebody else is at it.
    fn serve(&self, renewal: Renewal) -> Option<Outcome> {
        let me = self.world.running.get();
        // SAFETY: the token is the same for all actors of this process, and a forked one gets another.
        let mut guard = unsafe { self.clock.control.try_lock(self.clock.token.get()) }?;
        self.world.actors[me].serving.set(true);
        self.world.actors[me].patience.set(u64::MAX);
        if guard.was_abandoned() {
            *guard = None;
        }
        let control = guard.get_or_insert_with(|| Control::new(self.clock.config));
        control.reschedule(renewal, self.clock.config.interval_ns);
        let mut outcome = self.round(control);
        if outcome.round == Round::Recovered {
            outcome = self.round(control);
        }
        let next_in_ns = i64::try_from(outcome.next_in_ns).expect("an interval");
        self.clock.due_ns.set(self.world.told_ns().saturating_add(next_in_ns));
        self.world.actors[me].serving.set(false);
        Some(outcome)
    }

    fn round(&self, control: &mut Control) -> Outcome {
        let now_ps = self.world.now_ps.get();
        let idle_ps = now_ps - self.world.round_began_ps.replace(now_ps);
        if idle_ps > 2 * self.clock.config.interval_ns * PS {
            self.check.disturbed(now_ps); // nobody has looked after the clock for a while
        }
        let hands = self.hands();
        let outcome = control.maintain(&self.clock.shared, &hands, &hands);
        let mut counts = self.check.counts.borrow_mut();
        counts.rounds += 1;
        if matches!(outcome.round, Round::Published | Round::Recovered) {
            counts.publications += 1;
            let (oldest, newest) = control.evidence_ticks().expect("a line has evidence");
            let since_ps = self.world.clocks.borrow().counter.time_ps(oldest);
            self.world.evidence.borrow_mut().insert(newest, since_ps);
        }
        outcome
    }

    /// As `tickline`'s engine: readers renew a line past its soft window, and start one when a round is due.
    fn serve_as_reader(&self, reading: &SlowReading) -> bool {
        let wanted = match reading.source {
            Source::Line { overdue_ns } => overdue_ns > 0,
            Source::Reference { reference_ns } => reference_ns >= self.clock.due_ns.get(),
        };
        self.clock.readers_drive.get() && wanted && self.serve(Renewal::AtExpiry).is_some()
    }

    // ---- readers ----------------------------------------------------------------------------------------------

    /// A thread that reads, in bursts and now and then.
    pub(crate) fn read(&self, hand: &Hand) {
        self.world.enter(hand);
        let mut aimed = false;
        loop {
            let readings = if aimed || self.below(4) == 0 { 1 + self.below(64) } else { 1 };
            for _ in 0..readings {
                self.one_reading();
                self.world.step(Step::Sleep(self.below(50_000)));
            }
            let think_ps;
            (think_ps, aimed) = self.think_ps();
            self.world.step(Step::Sleep(think_ps));
        }
    }

    /// Any time, and then `false`; or until a line is replaced, which is the moment to read: soon after the driver wakes up,
    /// or around the time at which somebody goes on who was stopped in the middle of a round.
    fn think_ps(&self) -> (u64, bool) {
        let (world, most_ps) = (&self.world, self.world.scenario.think_ns * PS);
        let think_ps = self.some_ps(most_ps);
        let now_ps = world.now_ps.get();
        let until_ps = |actor: &Actor| actor.ready_ps.get().saturating_sub(now_ps);
        let stopped = world
            .actors
            .iter()
            .find(|actor| actor.alive.get() && actor.serving.get() && until_ps(actor) > HASTE_PS);
        let driver = &world.actors[world.driver.get()];
        let aim_ps = match stopped {
            Some(actor) => Some(until_ps(actor) - HASTE_PS + self.below(2 * HASTE_PS)),
            None if driver.asleep.get() && until_ps(driver) > 0 => {
                // Some fifty brackets are a round.
                let round_ps = 64 * world.scenario.machine.bracket_ns * PS + 2 * HASTE_PS;
                Some(until_ps(driver) + self.below(round_ps))
            }
            None => None,
        };
        match aim_ps.filter(|&ps| ps < most_ps) {
            Some(aim_ps) if self.below(2) == 0 => (aim_ps, true),
            _ => (think_ps, false),
        }
    }

    fn one_reading(&self) {
        let kind = self.below(10);
        let begin = self.check.begin();
        let complete = || self.world.step(Step::End);
        self.world.me().patience.set(READING_STEPS);
        self.look_at_the_clock(kind, begin, complete);
        self.world.me().patience.set(u64::MAX);
    }

    fn look_at_the_clock(&self, kind: u64, begin: Begin, complete: impl Fn()) {
        let (shared, hands, check) = (&self.clock.shared, self.hands(), &self.check);
        match kind {
            0 => {
                if let Some(ns) = shared.read(&hands) {
                    complete();
                    return check.end(begin, ns, From::Inlined, false);
                }
            }
            1 => {
                if let Some(reading) = shared.read_bounds(&hands) {
                    complete();
                    check.end(begin, reading.ns, From::Inlined, true);
                    return check.bounds(&reading);
                }
            }
            2 => {
                if let Some(ns) = shared.read_unix(&hands) {
                    // Nothing has happened since the reading's second look, so this belongs to its line.
                    let slack_ns = shared.cell.peek_unix_slack_ns();
                    complete();
                    return check.unix(ns, slack_ns);
                }
            }
            3 => {
                if let Some(ticks) = shared.stamp(&hands) {
                    complete();
                    let ns = shared.timeline.convert(ticks).expect("a line was in use");
                    return check.stamp(ns);
                }
            }
            4 => {}
            _ => {
                if let Some(ns) = shared.read_ordered(&hands) {
                    complete();
                    return check.end(begin, ns, From::Inlined, true);
                }
            }
        }
        let rescues = shared.events(Event::Rescue);
        let mut reading = shared.read_slow(&hands, &hands);
        if shared.events(Event::Rescue) != rescues {
            check.disturbed(self.world.now_ps.get());
        }
        if self.serve_as_reader(&reading) {
            reading = shared.read_slow(&hands, &hands);
        }
        complete();
        let from = match reading.source {
            Source::Line { .. } => From::SlowPath,
            Source::Reference { .. } => From::Reference,
        };
        check.end(begin, reading.ns, from, true);
        if kind == 1 && from == From::SlowPath {
            let begin = check.begin();
            if let Some(reading) = shared.read_bounds_whole(&hands, &hands) {
                complete();
                check.end(begin, reading.ns, From::SlowPath, true);
                check.bounds(&reading);
            }
        }
    }

    /// A reader that does nothing but take down offsets and bounds at even times, for a plot.
    pub(crate) fn record(&self, hand: &Hand, every_ps: u64) {
        self.world.enter(hand);
        let (shared, hands) = (&self.clock.shared, self.hands());
        loop {
            let at_ns = self.world.now_ps.get() / PS;
            let mark = if let Some(reading) = shared.read_bounds(&hands) {
                let true_ns = self.world.me().look.get().true_ns;
                let (earliest_ns, latest_ns) = reading.bounds_ns();
                let offset_ns = reading.ns - true_ns;
                let unix_error_ns =
                    reading.envelope.unix_offset_ns - self.world.clocks.borrow().unix_offset_ns();
                Mark {
                    at_ns,
                    offset_ns,
                    earliest_ns: earliest_ns - true_ns,
                    latest_ns: latest_ns - true_ns,
                    unix_offset_ns: offset_ns + unix_error_ns,
                    fast: true,
                }
            } else {
                let SlowReading { ns, source } = shared.read_slow(&hands, &hands);
                if matches!(source, Source::Line { .. }) {
                    self.world.me().look.set(self.world.me().counter_look.get());
                }
                let offset_ns = ns - self.world.me().look.get().told_ns;
                Mark {
                    at_ns,
                    offset_ns,
                    earliest_ns: 0,
                    latest_ns: 0,
                    unix_offset_ns: offset_ns,
                    fast: false,
                }
            };
            self.check.track.borrow_mut().push(mark);
            self.world.step(Step::Sleep(every_ps));
        }
    }

    // ---- the gatekeeper ---------------------------------------------------------------------------------------

    /// Closes and opens the gate when told to; the scheduler wakes it.
    pub(crate) fn keep_gate(&self, hand: &Hand) {
        self.world.enter(hand);
        let (shared, hands) = (&self.clock.shared, self.hands());
        loop {
            let order = self.clock.gate_orders.borrow_mut().pop_front();
            match order {
                Some(true) => {
                    shared.close_gate(&hands, &hands);
                    self.world.step(Step::End);
                    self.check.gate(true);
                }
                Some(false) => {
                    self.check.gate(false);
                    shared.open_gate(&hands, &hands);
                    self.check.disturbed(self.world.now_ps.get());
                }
                None => self.world.step(Step::Sleep(crate::run::FOREVER_PS)),
            }
        }
    }
}
