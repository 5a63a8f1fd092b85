//! A line for each CPU: the state of each CPU's cell, the thread that visits the CPUs, the readers, and
//! the checks.
//!
//! The code under attack is `tickline_core::unstable::per_cpu`. `drive_cpus`, `calibrate` and `visit` stand for
//! `CpuSweep` and `CpuCalibration` of `tickline`. One step reads the counter and the CPU's id, as `rdtscp`
//! does. Before every other step the scheduler may move the thread. A thread that is bound to its CPU is
//! moved as well, though seldom, and whenever its CPU goes offline.
//!
//! A reader reads the counter before the word, so its line may be younger than its look at the counter.
//! The check therefore keeps every line that was published, by its word ([`Check::by_own_line`]).
//!
//! The mode leaves out the gate (faults of the gate do nothing), stamps, and the choice of the mode.

use tickline_core::control::{Control, Iteration, MIN_INTERVAL_NS, Outcome, Renewal};
use tickline_core::counter::{Counter, CpuCounter};
use tickline_core::shared::{Ordered, Plain, Source, Unix, WithBounds};
use tickline_core::unstable::per_cpu::{self, PinnedCounter};
use tickline_core::unstable::word::{START_GRANULARITY_TICKS, Word};

use crate::actors::Cast;
use crate::check::{Begin, Check, From, Mark};
use crate::machine::{PS, PS_PER_S};
use crate::world::{Actor, Hand, Hands, Look, Step, World};

/// As in `tickline`'s `per_cpu.rs`.
const STAY_NS: u64 = 2_000_000;
const STAY_ITERATIONS: u32 = 16;

/// A bound thread that is stopped is moved once in so many times: somebody changed its cpuset.
const UNBOUND_ONE_IN: u32 = 16;

// ---- the world ----------------------------------------------------------------------------

impl World {
    /// Whose cell this actor's readings are by.
    pub(crate) fn unit_of(&self, actor: &Actor) -> usize {
        if self.scenario.clock.per_cpu { actor.cpu.get() as usize } else { 0 }
    }

    pub(crate) fn some_cpu(&self) -> u32 {
        let online = self.online.borrow();
        let online: Vec<u32> =
            (0_u32..).zip(online.iter()).filter(|(_, on)| **on).map(|(cpu, _)| cpu).collect();
        online[self.chance.borrow_mut().usize(..online.len())]
    }

    /// Never the last one.
    pub(crate) fn set_offline(&self, cpu: u32) {
        let mut online = self.online.borrow_mut();
        if online.iter().filter(|on| **on).count() > 1 {
            online[cpu as usize] = false;
        }
    }

    /// An actor was stopped, and goes on where there is a CPU for it.
    pub(crate) fn move_elsewhere(&self, actor: &Actor) {
        if actor.bound.get() && self.chance.borrow_mut().u32(..UNBOUND_ONE_IN) != 0 {
            return;
        }
        actor.cpu.set(self.some_cpu());
    }
}

impl CpuCounter for Hands {
    fn now(&self) -> Option<(u64, usize)> {
        let ticks = Counter::now(self);
        Some((ticks, self.0.me().look.get().unit))
    }

    fn now_ordered(&self) -> Option<(u64, usize)> {
        let ticks = Counter::now_ordered(self);
        Some((ticks, self.0.me().look.get().unit))
    }

    fn barrier(&self) {
        Counter::barrier(self);
    }
}

// ---- the thread ---------------------------------------------------------------------------

/// What the thread remembers of a CPU.
#[derive(Debug, Default)]
struct CpuCalibration {
    control: Option<Box<Control>>,
    due_ns: i64,
    ready_ns: i64,
}

impl Cast {
    /// The thread, which visits the CPUs by turns.
    pub(crate) fn drive_cpus(&self, hand: &Hand) {
        self.world.enter(hand);
        let mut visits: Vec<CpuCalibration> =
            self.clock.units.iter().map(|_| CpuCalibration::default()).collect();
        let interval_ns = i64::try_from(self.clock.config.interval_ns).expect("checked");
        loop {
            if self.clock.forced.take() {
                visits.iter_mut().for_each(|visit| (visit.ready_ns, visit.due_ns) = (i64::MIN, i64::MIN));
            }
            let mut next_ns = self.world.returned_ns().saturating_add(interval_ns);
            for (cpu, visit) in visits.iter_mut().enumerate() {
                if visit.ready_ns <= self.world.returned_ns() {
                    self.calibrate(cpu, visit);
                }
                next_ns = next_ns.min(visit.due_ns);
            }
            self.world.me().bound.set(false);
            let wait_ns = if self.clock.forced.get() { 0 } else { next_ns - self.world.returned_ns() };
            let wait_ns = u64::try_from(wait_ns).unwrap_or(0).max(MIN_INTERVAL_NS);
            self.world.step(Step::Sleep(wait_ns * PS + self.some_ps(200_000 * PS)));
        }
    }

    /// Iterations on `cpu`, until the next one is far enough away to leave.
    fn calibrate(&self, cpu: usize, visit: &mut CpuCalibration) {
        let interval_ns = self.clock.config.interval_ns;
        let mut outcome = None;
        for _ in 0..STAY_ITERATIONS {
            outcome = self.visit(cpu, visit);
            match outcome {
                Some(Outcome { next_in_ns, .. }) if next_in_ns <= STAY_NS.min(interval_ns >> 1) => {
                    self.world.step(Step::Sleep(next_in_ns * PS + self.some_ps(100_000 * PS)));
                }
                _ => break,
            }
            if self.clock.forced.get() {
                break;
            }
        }
        let wait_ns = outcome.map_or(interval_ns, |outcome| outcome.next_in_ns);
        let wait_ns = i64::try_from(wait_ns).expect("an interval");
        visit.due_ns = self.world.returned_ns().saturating_add(wait_ns);
        visit.ready_ns = visit.due_ns - (wait_ns >> 2);
    }

    /// An iteration on `cpu`, and a second one after a recovery. `None` if the thread could not be
    /// there all the time.
    fn visit(&self, cpu: usize, visit: &mut CpuCalibration) -> Option<Outcome> {
        let me = self.world.me();
        if !self.go_to(cpu) {
            return None;
        }
        let hands = self.hands();
        let seat = PinnedCounter::take(&hands, cpu)?;
        me.serving.set(true);
        let control = visit.control.get_or_insert_with(|| Box::new(Control::new(self.clock.config)));
        control.reschedule(Renewal::Pinned, self.clock.config.interval_ns);
        let mut outcome = self.iterate(cpu, control, &seat);
        if outcome.iteration == Iteration::Recovered {
            outcome = self.iterate(cpu, control, &seat);
        }
        me.serving.set(false);
        if seat.is_lost() {
            self.check.counts.borrow_mut().lost += 1;
            return None;
        }
        self.check.after_round(cpu, self.clock.units[cpu].cell.peek(), false);
        Some(outcome)
    }

    /// Puts the thread on `cpu`, unless that is offline. It gets there when the CPU has time for it.
    fn go_to(&self, cpu: usize) -> bool {
        let (world, me) = (&self.world, self.world.me());
        if !world.online.borrow()[cpu] {
            return false;
        }
        me.cpu.set(u32::try_from(cpu).expect("few"));
        me.bound.set(true);
        let now_ps = world.now_ps.get();
        let paused_ps = world.paused_ps[cpu].get().saturating_sub(now_ps);
        if paused_ps != 0 {
            self.check.disturbed(now_ps + paused_ps);
        }
        world.step(Step::Sleep(paused_ps + self.some_ps(100_000 * PS)));
        me.fence_ps.set(world.now_ps.get());
        true
    }

    // ---- readers --------------------------------------------------------------------------

    /// Between two readings a thread goes to another CPU now and then.
    pub(crate) fn wander(&self) {
        let actor = self.world.me();
        if self.below(4) == 0 {
            actor.cpu.set(self.world.some_cpu());
            actor.fence_ps.set(self.world.now_ps.get());
        }
    }

    /// A reading by the line of the CPU that this happens to be on.
    pub(crate) fn look_at_a_cpu(&self, kind: u64, begin: Begin, complete: impl Fn()) {
        let (units, hands, check) = (&self.clock.units, self.hands(), &self.check);
        let unit_looked_at = || self.world.me().look.get().unit;
        match kind {
            0 => {
                if let Some(ns) = per_cpu::read::<Plain>(units, &hands) {
                    complete();
                    return check.end(begin, unit_looked_at(), ns, From::Inlined, false);
                }
            }
            1 => {
                if let Some(reading) = per_cpu::read::<WithBounds>(units, &hands) {
                    complete();
                    check.end(begin, unit_looked_at(), reading.ns, From::Inlined, true);
                    return check.bounds(&reading);
                }
            }
            2 => {
                if let Some(ns) = per_cpu::read::<Unix>(units, &hands) {
                    // As for one line: nothing has happened since the second look.
                    let slack_ns = units[unit_looked_at()].cell.peek_unix_bound_ns();
                    complete();
                    return check.unix(ns, slack_ns);
                }
            }
            3 => {}
            _ => {
                if let Some(ns) = per_cpu::read::<Ordered>(units, &hands) {
                    complete();
                    return check.end(begin, unit_looked_at(), ns, From::Inlined, true);
                }
            }
        }
        let (cpu, reading) =
            self.with_helps(|| per_cpu::read_slow(units, &hands, &hands)).expect("every CPU is in the table");
        complete();
        let from = match reading.source {
            Source::Line { .. } => From::SlowPath,
            Source::Reference { .. } => From::Reference,
        };
        check.end(begin, cpu, reading.ns, from, true);
    }

    /// A point of a plot, on any CPU.
    pub(crate) fn mark_a_cpu(&self) -> Mark {
        let (units, hands) = (&self.clock.units, self.hands());
        let actor = self.world.me();
        actor.cpu.set(self.world.some_cpu());
        actor.fence_ps.set(self.world.now_ps.get());
        match per_cpu::read::<WithBounds>(units, &hands) {
            Some(reading) => self.mark(&reading),
            None => {
                let (_, reading) =
                    per_cpu::read_slow(units, &hands, &hands).expect("every CPU is in the table");
                self.mark_slow(reading)
            }
        }
    }
}

// ---- what is checked ----------------------------------------------------------------------

impl Check {
    /// A reading of `ns` used a line: that of the CPU whose counter it read, at a tick for which the
    /// line counts.
    pub(crate) fn by_own_line(&self, unit: usize, ns: i64, from: From) {
        let world = self.world();
        let (word, look) = (world.me().loaded.get(), world.me().look.get());
        assert!(look.unit == unit, "the line of CPU {unit} at the counter of CPU {}", look.unit);
        let by_word = world.units[unit].by_word.as_ref().expect("a line for each CPU").borrow();
        let Some(&(published, since_ps)) = by_word.get(&word.to_bits()) else {
            panic!("a line that CPU {unit} never had: {word:?}");
        };
        let by_line_ns = published.line.at(look.ticks);
        assert!(ns == by_line_ns, "{ns} ns on CPU {unit}, by its line it is {by_line_ns} ns");
        match from {
            // The line was published after this look: then it counts from its predecessor's end.
            From::Inlined => {
                let (at_ps, moves_ps) = (look.at_ps, self.tick_ps());
                assert!(
                    at_ps + moves_ps >= since_ps,
                    "a line of {since_ps} ps, read at {at_ps} ps: {word:?}"
                );
            }
            _ => self.in_use(&look, word),
        }
        let delta = look.ticks.wrapping_sub(word.to_bits());
        let window = match from {
            // Without twice the start granularity at its start, and as much later.
            From::Inlined => published.window_ticks + 2 * START_GRANULARITY_TICKS,
            _ => 2 * published.window_ticks,
        };
        assert!(
            word.is_published() && delta < window,
            "an expired line: {delta} ticks of {window}, {word:?}"
        );
        self.counts.borrow_mut().by_cpu += 1;
    }

    /// The word that a reading loaded was in the cell when it looked at the counter.
    pub(crate) fn in_use(&self, look: &Look, word: Word) {
        assert!(word == look.word, "a line that was not in use: {word:?}, in use was {:?}", look.word);
    }

    /// How long the counter shows the same, ps: one at another rate too.
    fn tick_ps(&self) -> u64 {
        let machine = &self.world().scenario.machine;
        2 * (machine.counter_step + 1) * PS_PER_S / machine.counter_hz
    }
}
