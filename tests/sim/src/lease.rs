//! Attacks on leases: several processes read a page, while the simulator delays, kills and restarts
//! the page's writers. They run the real code of `tickline_page::lease`.
//!
//! Each actor is a coroutine that yields before every step. [`search`] tries all orders of the
//! steps of a writer and two readers that have few preemptions. [`attack`] chooses orders by
//! chance, with leases of the real length and faults of the machine. In [`run_slews`] the kernel
//! slews its clock.
//!
//! In the search and the attack, [`Stops`] says whether the writer can be stopped between its last
//! read of the counter and its swap. If it can, the lines must be at or above the OS clock. If it
//! can't, the order holds wherever the OS clock is. Each half of the promise has its own runs, and
//! a run in which neither condition holds must find a step back.
//!
//! The simulator does not see weak memory, nor a stop between two loads from one slot. Loom checks
//! both.

use std::cell::{Cell, RefCell};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use tickline_core::counter::Counter;
use tickline_core::reference::Reference;
use tickline_page::lease::memory::{
    Field, LeaseCell, LeaseMemory, LeaseStore, LeaseWord, SLOT_WORDS, SlotNumber, SwapResult,
};
use tickline_page::lease::{
    Basis, LeasePhase, Line, OsBounds, PageReading, PageSource, ProcessHighWater, ReaderOs, Slope,
    Timescale, Writer, WriterAction, WriterConfig, read,
};

use crate::counts::counts;

mod attack;
mod children;
mod search;

pub use attack::{Attack, Faults, Slew, WIDTH_NS, attack, run_slews};
pub use search::{SearchReport, SmallMachine, search};

counts! {
    /// The events of a run.
    LeaseCounts;
    /// Complete readings by a line.
    by_line: u64, saturating_add;
    /// Complete readings by the OS clock.
    by_os: u64, saturating_add;
    /// First lines that were published.
    published_first: u64, saturating_add;
    /// Successors that were published.
    published_next: u64, saturating_add;
    /// First publications that the writer gave up.
    gave_up: u64, saturating_add;
    /// Lines that were doubted.
    doubted: u64, saturating_add;
    /// Leases that ran out or were ended by a reset.
    ended: u64, saturating_add;
    /// Writers that were killed.
    killed: u64, saturating_add;
    /// Forked children.
    forked: u64, saturating_add;
    /// Complete readings of forked children that were not attached.
    by_unattached: u64, saturating_add;
    /// The largest lead of a reading over the OS clock when it was complete, ns.
    ahead_ns: i64, max;
    /// The largest lag of a reading behind the OS clock when it was complete, ns.
    behind_ns: i64, max;
    /// States of a search.
    states: u64, saturating_add;
}

/// The steps at which a writer can be stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stops {
    /// Before each of its steps.
    #[default]
    Anywhere,
    /// At every step but between its last read of the counter and its swap, as in a restartable
    /// sequence (rule W2).
    NotBeforeTheSwap,
}

/// The next step of an actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Pending {
    /// An access to memory, at which the time does not matter.
    #[default]
    Memory,
    /// A swap of the word, at which the time does not matter either.
    Swap,
    /// A read of the counter, or the beginning of a writer's iteration.
    Counter,
    /// A read of the OS clock.
    Os,
    /// The writer sleeps until this tick.
    Sleep(u64),
    /// A reader that waits in a first publication has loaded this word at this tick before, and
    /// would only repeat that.
    Spin(u64, u64),
}

/// The clocks, the page, and the complete readings. A tick is one nanosecond.
#[derive(Default)]
struct World {
    memory: LeaseCell,
    ticks: Cell<u64>,
    /// The middle of fresh bounds of the OS clock, minus the ticks, ns.
    base_ns: Cell<i64>,
    /// The kernel's correction of the OS clock's rate, ppb; and the part of it that `base_ns` does
    /// not contain yet, 10^-9 ns.
    rate_ppb: Cell<i64>,
    rest: Cell<i64>,
    /// The age at which a new sample replaces the last one, ns; and the newest sample.
    sample_every_ns: Cell<u64>,
    sample: Cell<Sample>,
    /// The OS clock minus the middle of the bounds, ns: within their width.
    off_ns: Cell<i64>,
    width_ns: i64,
    /// The upper bound above the middle, ns.
    bound_ns: i64,
    /// The largest age of a reading of the OS clock, ns.
    stale_ns: Cell<i64>,
    /// Whether every line is at or above the OS clock, so that it matters to nobody which of them a
    /// reading returns.
    is_os_below_lines: Cell<bool>,
    rng: RefCell<fastrand::Rng>,
    /// The largest complete readings by a line and by the OS clock, ns.
    line_ns: Cell<i64>,
    os_ns: Cell<i64>,
    /// The basis of the writer's iterations in place of bounds.
    closing: Cell<Option<Basis>>,
    stops: Stops,
    pending: [Cell<Pending>; ACTORS],
    observed: [Cell<u64>; ACTORS],
    counts: RefCell<LeaseCounts>,
    violation: RefCell<Option<String>>,
}

/// A sample of the OS clock.
#[derive(Debug, Clone, Copy, Default)]
struct Sample {
    ticks: u64,
    /// [`World::base_ns`] and [`World::rate_ppb`] at the time of the sample.
    base_ns: i64,
    rate_ppb: i64,
    /// The largest difference of the rate from `rate_ppb`, ppb. As in `tickline-core`'s
    /// `stability.rs`, this is the kernel's last change of the rate, and each later sample halves
    /// it.
    uncertainty_ppb: i64,
}

const ACTORS: usize = 7;
const WRITER: usize = 0;

impl World {
    /// A world that is never freed, because actors that were killed keep references to it.
    fn new(width_ns: i64, bound_ns: i64, stops: Stops, seed: u64) -> &'static Self {
        let rng = RefCell::new(fastrand::Rng::with_seed(seed));
        let world = Box::leak(Box::new(Self {
            width_ns,
            bound_ns,
            stops,
            rng,
            ..Self::default()
        }));
        world.reset();
        world
    }

    /// Restores the world's initial state.
    fn reset(&self) {
        for slot in 0..8 {
            self.memory
                .fill(SlotNumber::from_low_bits(slot), &[0; SLOT_WORDS]);
        }
        assert!(
            self.memory
                .try_swap(self.memory.word(), LeaseWord::default()),
            "no other thread has it"
        );
        self.ticks.set(1 << 40);
        self.base_ns.set(-(1 << 40));
        self.off_ns.set(-self.width_ns);
        self.line_ns.set(i64::MIN);
        self.os_ns.set(i64::MIN);
        for observed in &self.observed {
            observed.set(0);
        }
        for pending in &self.pending {
            pending.set(Pending::Memory);
        }
        *self.counts.borrow_mut() = LeaseCounts::default();
    }

    fn os_now_ns(&self) -> i64 {
        self.ticks.get().cast_signed() + self.base_ns.get() + self.off_ns.get()
    }

    /// Lets time pass for the counter and the OS clock. The OS clock wanders within its bounds, but
    /// never goes back.
    fn pass(&self, ns: u64) {
        self.ticks.set(self.ticks.get() + ns);
        let rest = ns.cast_signed() * self.rate_ppb.get() + self.rest.get();
        self.base_ns
            .set(self.base_ns.get() + rest.div_euclid(1_000_000_000));
        self.rest.set(rest.rem_euclid(1_000_000_000));
        let least = (-self.width_ns).max(self.off_ns.get().saturating_sub_unsigned(ns));
        self.off_ns
            .set(self.rng.borrow_mut().i64(least..=self.width_ns));
    }

    fn os_bounds(&self) -> OsBounds {
        let last = self.sample.get();
        if self.ticks.get().wrapping_sub(last.ticks) >= self.sample_every_ns.get() {
            let base_ns = self.base_ns.get();
            let rate_ppb = self.rate_ppb.get();
            let uncertainty_ppb = (last.rate_ppb - rate_ppb)
                .abs()
                .max(last.uncertainty_ppb / 2);
            self.sample.set(Sample {
                ticks: self.ticks.get(),
                base_ns,
                rate_ppb,
                uncertainty_ppb,
            });
        }
        let Sample {
            ticks,
            base_ns,
            rate_ppb,
            uncertainty_ppb,
        } = self.sample.get();
        let line = |ns: i64, ppb: i64| {
            let ghz = Slope::from_hz(1_000_000_000).expect("1 GHz").bits;
            let share = i128::from(ghz) * i128::from(rate_ppb + ppb) / 1_000_000_000;
            let slope = Slope {
                bits: ghz.wrapping_add_signed(i64::try_from(share).expect("a small share")),
            };
            Line {
                start_ticks: ticks,
                base_ns: ticks.cast_signed() + base_ns + ns,
                slope,
            }
        };
        OsBounds {
            lower: line(-self.width_ns, -uncertainty_ppb),
            upper: line(self.bound_ns, uncertainty_ppb),
            unix_offset: None,
        }
    }

    /// A hash of all state on which the future depends. `search_state` is the search's part of it.
    fn hash(&self, search_state: impl Hash) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.memory.word().to_bits().hash(&mut hasher);
        for slot in 0..8 {
            for field in [
                Field::Start,
                Field::Base,
                Field::Slope,
                Field::End,
                Field::Lead,
            ] {
                self.memory
                    .field(SlotNumber::from_low_bits(slot), field)
                    .hash(&mut hasher);
            }
        }
        (
            self.ticks.get(),
            self.off_ns.get(),
            self.line_ns.get(),
            self.os_ns.get(),
            search_state,
        )
            .hash(&mut hasher);
        self.observed.each_ref().map(Cell::get).hash(&mut hasher);
        hasher.finish()
    }

    /// An actor that makes `readings` readings, one after the other. With `mark` one process makes
    /// them all. Without it each is in a process of its own, which knows nothing of earlier
    /// readings.
    fn reader(
        &'static self,
        actor: usize,
        readings: u32,
        mark: Option<&'static ProcessHighWater>,
    ) -> Script {
        Script::new(move |yielder| {
            let access = Access::new(self, yielder, actor);
            for _ in 0..readings {
                let before = (self.line_ns.get(), self.os_ns.get());
                if mark.is_some() {
                    access.observe(before);
                }
                let own = ProcessHighWater::new();
                let of_process = mark.unwrap_or(&own);
                let PageReading { ns, source } =
                    read(&access, &access, &access, of_process, Timescale::Monotonic);
                // Another thread of the process may have raised its mark to a time of the OS clock.
                // A reading at the mark is only as ordered as the OS clock.
                let is_raised = mark.is_some() && ns == of_process.ns();
                let source = if is_raised { PageSource::Os } else { source };
                self.judge(ns, source, before);
                self.record(ns, source);
                if mark.is_some() {
                    access.step(Pending::Memory);
                } else {
                    self.observed[actor].set(0);
                    access.observe(ns);
                }
            }
        })
    }

    /// Records a complete reading, with which later ones are compared.
    fn record(&self, ns: i64, source: PageSource) {
        let most = match source {
            PageSource::Line => &self.line_ns,
            PageSource::Os => &self.os_ns,
        };
        most.set(most.get().max(ns));
    }

    /// Compares a complete reading with the largest ones that were complete before it began.
    fn judge(&self, ns: i64, source: PageSource, (line_ns, os_ns): (i64, i64)) {
        let ahead_ns = ns - self.os_now_ns();
        let mut counts = self.counts.borrow_mut();
        match source {
            PageSource::Line => counts.by_line += 1,
            PageSource::Os => counts.by_os += 1,
        }
        counts.ahead_ns = counts.ahead_ns.max(ahead_ns);
        counts.behind_ns = counts.behind_ns.max(-ahead_ns);
        // Readings by an unordered OS clock are as unordered as the OS clock itself. But readings
        // by a line are ordered with all others.
        let least_ns = if source == PageSource::Os {
            os_ns.saturating_sub(self.stale_ns.get())
        } else {
            os_ns
        };
        if ns < line_ns.max(least_ns) {
            let word = self.memory.word();
            *self.violation.borrow_mut() = Some(format!(
                "{ns} by {source:?} after {line_ns} by a line and {os_ns} by the OS; tick {}, {:?} {:?}",
                self.ticks.get(),
                word.phase(),
                word.second()
            ));
        }
    }

    /// A writer that takes over the page and makes `iterations` iterations.
    fn writer(&'static self, config: WriterConfig, iterations: u32) -> Script {
        Script::new(move |yielder| {
            let access = Access::new(self, yielder, WRITER);
            let Ok(mut writer) = Writer::start(&access, config) else {
                return;
            };
            for _ in 0..iterations {
                let closing = self.closing.get();
                access.step(Pending::Counter);
                let rate_ppb = Some(self.rate_ppb.get());
                let basis = closing.unwrap_or(Basis::Bounds(self.os_bounds()));
                access.observe(self.ticks.get());
                let Ok(done) = writer.iterate(&access, &access, &access, basis, rate_ppb) else {
                    return;
                };
                match done.action {
                    WriterAction::PublishedFirst => self.counts.borrow_mut().published_first += 1,
                    WriterAction::PublishedNext => self.counts.borrow_mut().published_next += 1,
                    WriterAction::GaveUp => self.counts.borrow_mut().gave_up += 1,
                    WriterAction::Doubted => self.counts.borrow_mut().doubted += 1,
                    WriterAction::Ended => self.counts.borrow_mut().ended += 1,
                    _ => {}
                }
                if done.action == WriterAction::Waited {
                    access.step(Pending::Sleep(
                        self.ticks.get().saturating_add(done.next_in_ns),
                    ));
                }
            }
        })
    }
}

/// An actor's access to the world.
struct Access<'a> {
    world: &'a World,
    yielder: &'a Yielder<(), ()>,
    actor: usize,
    /// The word and the tick at the last read of the counter.
    last: Cell<(u64, u64)>,
    /// Whether the writer is between its read of the counter and its swap (rule W2).
    is_in_sequence: Cell<bool>,
}

impl<'a> Access<'a> {
    fn new(world: &'a World, yielder: &'a Yielder<(), ()>, actor: usize) -> Self {
        Self {
            world,
            yielder,
            actor,
            last: Cell::default(),
            is_in_sequence: Cell::default(),
        }
    }

    fn step(&self, pending: Pending) {
        self.world.pending[self.actor].set(pending);
        self.observe(1_u8);
        self.yielder.suspend(());
    }

    /// Records an observation of the actor. Its next steps depend only on its observations.
    fn observe(&self, observation: impl Hash) {
        let observed = &self.world.observed[self.actor];
        let mut hasher = DefaultHasher::new();
        (observed.get(), self.actor).hash(&mut hasher);
        observation.hash(&mut hasher);
        observed.set(hasher.finish());
    }
}

impl LeaseMemory for Access<'_> {
    fn word(&self) -> LeaseWord {
        self.step(Pending::Memory);
        let word = self.world.memory.word();
        self.observe(word.to_bits());
        word
    }
    fn field(&self, slot: SlotNumber, field: Field) -> u64 {
        let value = self.world.memory.field(slot, field);
        self.observe(value);
        value
    }
    fn is_still(&self, word: LeaseWord) -> bool {
        self.step(Pending::Memory);
        let is_still = self.world.memory.is_still(word);
        self.observe(is_still);
        is_still
    }
}

impl LeaseStore for Access<'_> {
    fn fill(&self, slot: SlotNumber, words: &[u64; SLOT_WORDS]) {
        self.step(Pending::Memory);
        self.world.memory.fill(slot, words);
    }
    fn try_swap(&self, from: LeaseWord, to: LeaseWord) -> bool {
        self.step(Pending::Swap);
        let is_done = self.world.memory.try_swap(from, to);
        self.observe(is_done);
        is_done
    }
    /// Runs the page's own code for this swap. `counter` is this actor's counter.
    fn try_swap_between(
        &self,
        from: LeaseWord,
        to: LeaseWord,
        counter: &impl Counter,
        ticks: Range<u64>,
    ) -> SwapResult {
        self.is_in_sequence.set(true);
        let swapped = self.world.memory.try_swap_between(from, to, counter, ticks);
        self.is_in_sequence.set(false);
        self.observe(swapped == SwapResult::Done);
        swapped
    }
}

impl Counter for Access<'_> {
    fn now(&self) -> u64 {
        let world = self.world;
        let word = world.memory.word();
        let ticks = world.ticks.get();
        let is_again = self.last.replace((word.to_bits(), ticks)) == (word.to_bits(), ticks);
        let is_waiting = self.actor != WRITER && word.phase() == LeasePhase::FirstPublication;
        self.step(if is_again && is_waiting {
            Pending::Spin(word.to_bits(), ticks)
        } else {
            Pending::Counter
        });
        let ticks = world.ticks.get();
        self.last.set((world.memory.word().to_bits(), ticks));
        self.observe(ticks);
        if self.is_in_sequence.get() && world.stops == Stops::Anywhere {
            self.step(Pending::Swap);
        }
        ticks
    }
    fn barrier(&self) {}
}

impl Reference for Access<'_> {
    fn monotonic_ns(&self) -> i64 {
        self.step(Pending::Os);
        let mut ns = self.world.os_now_ns();
        if self.world.stale_ns.get() > 0 {
            let mut rng = self.world.rng.borrow_mut();
            if rng.u8(..16) == 0 {
                ns -= rng.i64(0..=self.world.stale_ns.get());
            }
        }
        self.observe(ns);
        ns
    }
    fn unix_ns(&self) -> i64 {
        self.monotonic_ns()
    }
}

impl ReaderOs for Access<'_> {
    fn pause(&self) {
        self.step(Pending::Memory);
    }
}

thread_local! {
    /// Stacks of actors that have ended, for reuse. Mapping a new stack takes longer than a run.
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

/// An actor. Dropping it kills it at its present step. A killed process does nothing any more, so
/// its stack is not unwound: unwinding would run its code.
struct Script(Option<Coroutine<(), (), ()>>);

impl Script {
    fn new(actor: impl FnOnce(&Yielder<(), ()>) + 'static) -> Self {
        let used = STACKS.with_borrow_mut(Vec::pop);
        let stack =
            used.unwrap_or_else(|| DefaultStack::new(64 << 10).expect("memory for a stack"));
        Self(Some(Coroutine::with_stack(stack, |yielder, ()| {
            actor(yielder)
        })))
    }

    /// Lets the actor make a step. Returns whether it has further steps.
    fn resume(&mut self) -> bool {
        matches!(
            self.0.as_mut().expect("only a drop takes it").resume(()),
            CoroutineResult::Yield(())
        )
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let Some(mut script) = self.0.take() else {
            return;
        };
        if !script.done() {
            // SAFETY: no value on the coroutine's stack has a destructor, and no reference to the
            // stack is left.
            unsafe { script.force_reset() };
        }
        STACKS.with_borrow_mut(|stacks| stacks.push(script.into_stack()));
    }
}
