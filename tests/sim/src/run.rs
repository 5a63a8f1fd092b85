//! The scheduler: advances true time from step to step.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use corosensei::{Coroutine, CoroutineResult};
use tickline_core::shared::Event;
use tickline_core::state::Phase;

use crate::actors::{Context, record_thread_end};
use crate::check::TrackPoint;
use crate::counts::Counts;
use crate::machine::PS;
use crate::scenario::{Chance, Driver, Scenario, TimedFault};
use crate::world::{MAX_ACTORS, Step, StepYielder, World};

mod faults;

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunReport {
    /// Its counts.
    pub counts: Counts,
    /// The events that the clock has counted.
    pub events: Vec<(Event, u64)>,
    /// Offsets and bounds over time, if asked for.
    pub track: Vec<TrackPoint>,
}

impl RunReport {
    /// The number of times that `event` has happened.
    #[must_use]
    pub fn event_count(&self, event: Event) -> u64 {
        let of_event = self.events.iter().find(|(of, _)| *of == event);
        of_event.map_or(0, |(_, count)| *count)
    }
}

/// Runs a scenario to its end, or to the first violation.
///
/// # Errors
///
/// The invariant that did not hold, or a panic, with the number of steps and the simulated time at
/// which it happened. At step 0, what of the scenario the simulator does not support
/// ([`Scenario::assert_supported`]).
pub fn run(scenario: &Scenario) -> Result<RunReport, String> {
    run_with(scenario, None)
}

/// Runs a scenario as [`run`] does, with a reader that records the offset every `every_ns`.
///
/// # Errors
///
/// Returns the errors of [`run`].
pub fn run_tracked(scenario: &Scenario, every_ns: u64) -> Result<RunReport, String> {
    run_with(scenario, Some(every_ns))
}

/// Runs a scenario, and may record the offset every so many ns.
fn run_with(scenario: &Scenario, tracked_every_ns: Option<u64>) -> Result<RunReport, String> {
    catch_unwind(AssertUnwindSafe(|| scenario.assert_supported()))
        .map_err(|panic| format!("step 0, 0 ns: {}", text_of(&*panic)))?;
    let mut scheduler = Scheduler::new(scenario, tracked_every_ns);
    let end = catch_unwind(AssertUnwindSafe(|| scheduler.play()));
    end.map(|()| scheduler.report()).map_err(|panic| {
        let at_ns = scheduler.context.world.now_ps.get() / PS;
        let text = text_of(&*panic);
        format!("step {}, {at_ns} ns: {text}", scheduler.steps)
    })
}

fn text_of(panic: &dyn Any) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or(panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a text")
}

/// The limit of threads of the program that call the keeper, or bar the clock, at the same time.
const MAX_PROGRAM_THREADS: usize = 3;

/// The coroutine of an actor. It never ends.
type Script = Coroutine<(), Step, ()>;

/// A death that is to come, in the driver's next iteration.
struct Death {
    /// The steps until then, while the driver iterates.
    steps_left: u64,
    /// Whether the iteration has begun.
    has_begun: bool,
}

/// A thread that starts, or goes on after a stop, makes its next step within this time, ps. A
/// choice, not a measurement: 1 us, some hundreds of steps.
const RESUMES_IN_PS: u64 = 1_000_000;

/// Readers that are woken because of a stop read within this time of its beginning or its end, ps.
/// A choice, not a measurement: 2 us, as long as some tens of readings.
const AROUND_PS: u64 = 2_000_000;

/// The time that a step takes, ps. The times are a choice for a CPU of some GHz: of a load from its
/// own cache, or from the cache of another CPU; of a compare-and-swap in either; of what only
/// computes.
fn step_ps(step: Step, bracket_ns: u64, rng: &mut fastrand::Rng) -> u64 {
    let misses_cache = |rng: &mut fastrand::Rng, one_in| rng.u64(..one_in) == 0;
    let bracket_ps = bracket_ns * PS;
    match step {
        Step::Load if misses_cache(rng, 64) => rng.u64(60_000..150_000),
        Step::Load => rng.u64(200..3_000),
        Step::Swap if misses_cache(rng, 16) => rng.u64(60_000..200_000),
        Step::Swap => rng.u64(5_000..20_000),
        // Half of the bracket lies before the moment of the reference's value, and half between
        // this moment and the next read of the counter.
        Step::Reference | Step::Counter => rng.u64(bracket_ps / 4..=bracket_ps * 3 / 4),
        Step::End | Step::Published => 500,
        Step::Sleep(ps) => ps,
    }
}

/// The time for which an actor is stopped, ps; mostly 0. Stops are `often` times as frequent as the
/// scenario says.
fn stop_ps(chance: &Chance, often: u64, rng: &mut fastrand::Rng) -> u64 {
    let happens = |rng: &mut fastrand::Rng, one_in: u64| one_in != 0 && rng.u64(..one_in) < often;
    if happens(rng, chance.stall_one_in) {
        rng.u64(..=chance.stall_ns * PS)
    } else if happens(rng, chance.preempt_one_in) {
        let shift = rng.u32(..16);
        rng.u64(..=(chance.preempt_ns * PS) >> shift)
    } else {
        0
    }
}

struct Scheduler {
    context: Context,
    scripts: [Option<Script>; MAX_ACTORS],
    /// The faults that are still to come, the latest first.
    faults: Vec<TimedFault>,
    /// The scripts of actors that were killed, or that a forked child does not have.
    left_behind: Vec<Script>,
    program_threads: Vec<usize>,
    /// The death of the driver that is to come.
    death: Option<Death>,
    /// The number of threads so far.
    threads: u32,
    /// The time of the machine's last wake-up, or of the next one while it sleeps, ps.
    awake_ps: u64,
    steps: u64,
}

impl Scheduler {
    fn new(scenario: &Scenario, tracked_every_ns: Option<u64>) -> Self {
        let mut faults = scenario.faults.clone();
        faults.sort_by_key(|timed| core::cmp::Reverse(timed.at_ns));
        let mut scheduler = Self {
            context: Context::new(World::new(scenario)),
            scripts: Default::default(),
            faults,
            left_behind: Vec::new(),
            program_threads: Vec::new(),
            death: None,
            threads: 0,
            awake_ps: 0,
            steps: 0,
        };
        if scenario.clock.driver == Driver::Thread {
            scheduler.start_driver();
        }
        for _ in 0..scenario.readers {
            scheduler.add_actor(Context::read);
        }
        if scenario.clock.bar_ns != 0 {
            for _ in 0..MAX_PROGRAM_THREADS {
                let index = scheduler.add_actor(Context::toggle_bar);
                scheduler.program_threads.push(index);
            }
        }
        if let Some(every_ns) = tracked_every_ns {
            scheduler.add_actor(move |context| context.record(every_ns * PS));
        }
        scheduler
    }

    /// Adds an actor. Returns its index.
    fn add_actor(&mut self, script: impl FnOnce(&Context) + 'static) -> usize {
        let index = self
            .scripts
            .iter()
            .position(Option::is_none)
            .expect("a free slot");
        let context = self.context.clone();
        self.scripts[index] = Some(Coroutine::new(move |yielder: &StepYielder, ()| {
            context.world.yielder.set(yielder);
            script(&context);
        }));
        let cpu = self.context.world.random_cpu();
        let actor = &self.context.world.actors[index];
        self.threads += 1;
        actor.id.set(self.threads);
        actor.is_alive.set(true);
        actor.holds_lock.set(false);
        actor.cpu.set(cpu);
        actor.is_pinned.set(false);
        actor.late_ps.set(0);
        actor.steps_left.set(u64::MAX);
        let now_ps = self.context.world.now_ps.get();
        let in_ps = self.context.world.rng.borrow_mut().u64(..RESUMES_IN_PS);
        actor.ready_ps.set(now_ps + in_ps);
        actor.fence_ps.set(now_ps);
        index
    }

    fn start_driver(&mut self) {
        let per_cpu = self.context.world.scenario.clock.per_cpu;
        let driver = self.add_actor(if per_cpu {
            Context::drive_cpus
        } else {
            Context::drive
        });
        self.context.world.driver.set(Some(driver));
    }

    fn play(&mut self) {
        let world = Rc::clone(&self.context.world);
        let max_steps = world.scenario.max_steps;
        let end_ps = world.scenario.duration_ns * PS;
        while self.steps < max_steps && !world.is_over.get() {
            let next = (0..MAX_ACTORS)
                .filter(|&index| world.actors[index].is_alive.get())
                .min_by_key(|&index| world.actors[index].ready_ps.get());
            let Some(next) = next else { return };
            let ready_ps = world.actors[next].ready_ps.get();
            let due_ps = ready_ps.min(end_ps);
            if let Some(timed) = self.faults.pop_if(|timed| timed.at_ns * PS <= due_ps) {
                // A fault that is due while the machine sleeps takes place when it wakes up.
                world
                    .now_ps
                    .set(world.now_ps.get().max(timed.at_ns * PS).max(self.awake_ps));
                self.inject(timed.fault);
                continue;
            }
            if ready_ps > end_ps {
                return;
            }
            world.now_ps.set(world.now_ps.get().max(ready_ps));
            self.steps += 1;
            if world.driver.get() == Some(next) && self.driver_is_dead() {
                continue;
            }
            world.running.set(next);
            let Some(script) = &mut self.scripts[next] else {
                continue;
            };
            if let CoroutineResult::Yield(step) = script.resume(()) {
                self.schedule(next, step);
            }
        }
    }

    /// Kills the driver if its time has come: it has made the steps, or its iteration is over.
    /// Returns whether it did.
    fn driver_is_dead(&mut self) -> bool {
        let (Some(driver), Some(death)) = (self.context.world.driver.get(), &mut self.death) else {
            return false;
        };
        let is_iterating = self.context.world.actors[driver].holds_lock.get();
        let goes_on = if is_iterating {
            death.steps_left > 0
        } else {
            !death.has_begun
        };
        if goes_on {
            death.steps_left -= u64::from(is_iterating);
            death.has_begun |= is_iterating;
        } else {
            self.kill_driver();
        }
        !goes_on
    }

    /// Kills the driver where it is.
    fn kill_driver(&mut self) {
        let world = Rc::clone(&self.context.world);
        self.death = None;
        let Some(driver) = world.driver.take() else {
            return;
        };
        world.actors[driver].is_alive.set(false);
        let script = self.scripts[driver].take();
        if world.scenario.clock.bar_ns == 0 {
            // The script is kept until the run ends, because unwinding it would release the lock.
            self.left_behind.extend(script);
        }
        record_thread_end(world.actors[driver].id.get());
        self.context.check.record_disturbance(world.now_ps.get());
    }

    /// Decides when the step takes place.
    fn schedule(&self, index: usize, step: Step) {
        let world = &self.context.world;
        let actor = &world.actors[index];
        let now_ps = world.now_ps.get();
        actor.is_asleep.set(matches!(step, Step::Sleep(_)));
        let mut rng = world.rng.borrow_mut();
        if step == Step::Load && actor.late_ps.get() > now_ps {
            // The CPU executes this load before the read of the counter that precedes it in the
            // program.
            actor.ready_ps.set(rng.u64(now_ps..=actor.late_ps.get()));
            return;
        }
        let takes_ps = step_ps(step, world.bracket_ns.get(), &mut rng);
        // The rules of order matter at these steps. The steps are rare, so an even chance for all
        // steps would hardly ever stop an actor there.
        let phase = world.cells[world.cell_of(actor)].state.get().phase();
        let is_critical = match step {
            Step::Swap | Step::Published => true,
            Step::Reference if phase == Phase::NoLine => true,
            _ => actor.holds_lock.get() && phase == Phase::Replacing,
        };
        // For states to recur, a thread that holds an old state must be stopped for a long time.
        // The factors are a choice, not a measurement.
        let holds_old =
            step == Step::Swap && !actor.holds_lock.get() && world.scenario.clock.bar_ns != 0;
        let often = match (holds_old, is_critical) {
            (true, _) => 256,
            (false, true) => 16,
            (false, false) => 1,
        };
        let stopped_ps = stop_ps(&world.scenario.chance, often, &mut rng);
        let from_ps = now_ps.max(actor.late_ps.get());
        let ready_ps = from_ps.saturating_add(takes_ps).saturating_add(stopped_ps);
        actor.ready_ps.set(ready_ps);
        drop(rng);
        if stopped_ps != 0 {
            world.move_elsewhere(actor);
            self.record_interruption(index, ready_ps);
            if is_critical && actor.holds_lock.get() {
                self.wake_readers(now_ps, ready_ps);
            }
        }
    }

    /// Wakes half of the sleeping actors after an actor was stopped at a critical step. They read
    /// meanwhile, or when the actor goes on.
    fn wake_readers(&self, from_ps: u64, until_ps: u64) {
        let world = &self.context.world;
        let mut rng = world.rng.borrow_mut();
        for (index, actor) in world.actors.iter().enumerate() {
            let sleeps =
                actor.is_alive.get() && actor.is_asleep.get() && actor.ready_ps.get() > until_ps;
            if sleeps
                && world.driver.get() != Some(index)
                && !self.program_threads.contains(&index)
                && rng.bool()
            {
                let to_ps = if rng.bool() {
                    from_ps
                } else {
                    until_ps.saturating_sub(AROUND_PS).max(from_ps)
                };
                actor.ready_ps.set(to_ps + rng.u64(..2 * AROUND_PS));
            }
        }
    }

    /// Records that an actor is stopped until `until_ps`.
    fn record_interruption(&self, index: usize, until_ps: u64) {
        let world = &self.context.world;
        let actor = &world.actors[index];
        actor.fence_ps.set(until_ps);
        if actor.holds_lock.get() || world.driver.get() == Some(index) {
            self.context.check.record_disturbance(until_ps);
        }
    }

    fn report(&self) -> RunReport {
        let mut counts = *self.context.world.counts.borrow();
        counts.steps = self.steps;
        counts.simulated_ns = self.context.world.now_ps.get() / PS;
        RunReport {
            counts,
            events: Event::ALL
                .iter()
                .map(|event| (*event, self.context.clock.event_count(*event)))
                .collect(),
            track: self.context.check.track.borrow().clone(),
        }
    }
}
