//! The scheduler: advances true time from step to step, and carries out the scenario's faults.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use corosensei::{Coroutine, CoroutineResult};
use tickline_core::shared::Event;
use tickline_core::state::Phase;

use crate::actors::{Context, record_thread_end};
use crate::check::TrackPoint;
use crate::counts::Counts;
use crate::limits::valid_intervals;
use crate::machine::PS;
use crate::scenario::{Chance, Driver, Fault, Scenario, Suspend, TimedFault};
use crate::world::{FOREVER_PS, MAX_ACTORS, Step, StepYielder, World};

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Its counts.
    pub counts: Counts,
    /// The events that the clock has counted.
    pub events: Vec<(Event, u64)>,
    /// Offsets and bounds over time, if asked for.
    pub track: Vec<TrackPoint>,
}

impl Outcome {
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
/// which it happened.
pub fn run(scenario: &Scenario) -> Result<Outcome, String> {
    run_tracked(scenario, 0)
}

/// Runs a scenario as [`run`] does, with a reader that records the offset every `every_ns`; 0 means
/// without.
///
/// # Errors
///
/// Returns the errors of [`run`].
pub fn run_tracked(scenario: &Scenario, every_ns: u64) -> Result<Outcome, String> {
    let mut scheduler = Scheduler::new(scenario, every_ns);
    let end = catch_unwind(AssertUnwindSafe(|| scheduler.play()));
    end.map(|()| scheduler.outcome()).map_err(|panic| {
        let text = panic
            .downcast_ref::<&str>()
            .copied()
            .or(panic.downcast_ref::<String>().map(String::as_str));
        let at_ns = scheduler.context.world.now_ps.get() / PS;
        format!(
            "step {}, {at_ns} ns: {}",
            scheduler.steps,
            text.unwrap_or("a panic without a text")
        )
    })
}

/// The limit of threads of the program that call the keeper, or bar the clock, at the same time.
const MAX_PROGRAM_THREADS: usize = 3;

/// The coroutine of an actor. It never ends.
type Script = Coroutine<(), Step, ()>;

/// The most steps of an iteration before its driver is killed. Most iterations have fewer.
const MAX_STEPS_BEFORE_DEATH: u64 = 512;

/// A death that is to come, in the driver's next iteration.
struct Death {
    /// The steps until then, while the driver iterates.
    steps_left: u64,
    /// Whether the iteration has begun.
    has_begun: bool,
}

/// The time that a step takes, ps.
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
    fn new(scenario: &Scenario, every_ns: u64) -> Self {
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
        if every_ns != 0 {
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
        actor
            .ready_ps
            .set(now_ps + self.context.world.rng.borrow_mut().u64(..1_000_000));
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
        if let (Step::Load, true) = (step, actor.late_ps.get() > now_ps) {
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
                    until_ps.saturating_sub(2_000_000).max(from_ps)
                };
                actor.ready_ps.set(to_ps + rng.u64(..4_000_000));
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

    // ---- faults -------------------------------------------------------------------------------

    /// Stops an actor until `until_ps`.
    fn stop(&self, index: usize, until_ps: u64) {
        let actor = &self.context.world.actors[index];
        if actor.is_alive.get() && actor.ready_ps.get() < until_ps {
            actor
                .ready_ps
                .set(until_ps + self.context.world.rng.borrow_mut().u64(..1_000_000));
            self.record_interruption(index, actor.ready_ps.get());
        }
    }

    fn stop_all(&self, until_ps: u64, is_stopped: impl Fn(usize) -> bool) {
        (0..MAX_ACTORS)
            .filter(|index| is_stopped(*index))
            .for_each(|index| self.stop(index, until_ps));
    }

    /// Carries out a fault.
    fn inject(&mut self, fault: Fault) {
        let world = Rc::clone(&self.context.world);
        let now_ps = world.now_ps.get();
        world.counts.borrow_mut().faults += 1;
        let mut over_ps = now_ps;
        match fault {
            Fault::Rate { ppb, announced } => {
                let change_ppb = world.clocks.borrow_mut().change_rate(now_ps, ppb);
                world.clocks.borrow_mut().steering_ppb += if announced { change_ppb } else { 0 };
            }
            Fault::UnixStep { by_ns } => self.step_unix_time(by_ns),
            Fault::Jump { by_ns } => world.clocks.borrow_mut().jump(now_ps, by_ns),
            Fault::Bracket { ns } => world.bracket_ns.set(ns),
            Fault::CounterRate { ppb } => world.clocks.borrow_mut().change_counter(now_ps, ppb),
            Fault::Suspend(suspend) => over_ps = self.suspend(suspend),
            Fault::Pause { cpu, for_ns } => {
                world.cpus[cpu as usize].paused_ps.set(now_ps + for_ns * PS);
                self.stop_all(now_ps + for_ns * PS, |index| {
                    world.actors[index].cpu.get() == cpu
                });
            }
            Fault::Smi { for_ns } => self.stop_all(now_ps + for_ns * PS, |_| true),
            Fault::Offline { cpu } => self.take_offline(cpu),
            Fault::Online { cpu } => world.cpus[cpu as usize].is_online.set(true),
            Fault::Starve { for_ns } => {
                over_ps = now_ps + for_ns * PS;
                let drives = |index| {
                    world.driver.get() == Some(index) || world.actors[index].holds_lock.get()
                };
                self.stop_all(over_ps, drives);
            }
            Fault::DriverDies => {
                let mut rng = world.rng.borrow_mut();
                self.death = Some(Death {
                    steps_left: rng.u64(..MAX_STEPS_BEFORE_DEATH) >> rng.u32(..8),
                    has_begun: false,
                });
            }
            Fault::DriverStarts => self.restart_driver(),
            Fault::Fork => self.fork(),
            Fault::Disable | Fault::Enable | Fault::JudgeAgain => self.command(fault),
            Fault::Decision { decision } => {
                self.context.clock.decision.set(decision);
                self.context.check.run_act(|| {});
            }
        }
        let disturbs = match fault {
            Fault::UnixStep { .. } | Fault::Pause { .. } => false,
            // The CPU's line is as old as its last calibration.
            Fault::Online { .. } | Fault::Offline { .. } => world.scenario.clock.per_cpu,
            _ => true,
        };
        if disturbs {
            self.context.check.record_disturbance(over_ps);
        }
    }

    fn step_unix_time(&self, by_ns: i64) {
        let world = &self.context.world;
        let now_ps = world.now_ps.get();
        world.clocks.borrow_mut().unix_offset_ns += by_ns;
        self.context.check.unix_step_ps.set(now_ps);
        // The kernel wakes the thread.
        self.context.clock.is_forced.set(true);
        let driver = world.driver.get().map(|index| &world.actors[index]);
        if let Some(driver) = driver.filter(|driver| driver.is_asleep.get()) {
            driver.ready_ps.set(now_ps + 50_000 * PS);
        }
    }

    /// Takes a CPU offline, and moves its actors to others.
    fn take_offline(&self, cpu: u32) {
        let world = &self.context.world;
        world.set_offline(cpu);
        for index in (0..MAX_ACTORS).filter(|&index| world.actors[index].cpu.get() == cpu) {
            world.actors[index].cpu.set(world.random_cpu());
            self.stop(index, world.now_ps.get() + 1_000_000);
        }
    }

    /// Starts the driver, unless it lives, and is not about to die.
    fn restart_driver(&mut self) {
        if self.death.is_some() {
            self.kill_driver();
        }
        if self.context.world.driver.get().is_none() {
            self.start_driver();
            self.context.clock.readers_drive.set(false);
        }
    }

    /// Suspends the machine. Returns the time at which it runs again, ps.
    fn suspend(&mut self, suspend: Suspend) -> u64 {
        let world = Rc::clone(&self.context.world);
        let now_ps = world.now_ps.get();
        let over_ps = now_ps + suspend.for_ns * PS;
        self.awake_ps = over_ps;
        let valid_ps = valid_intervals(&world.scenario) * world.scenario.clock.interval_ns * PS;
        let starts_again = world.clocks.borrow_mut().suspend(now_ps, suspend, valid_ps);
        if starts_again {
            world
                .cells
                .iter()
                .for_each(|cell| cell.reset.set(Some((cell.state.get(), over_ps))));
        }
        let driver = world
            .driver
            .get()
            .filter(|&index| world.actors[index].is_asleep.get());
        for index in 0..MAX_ACTORS {
            let actor = &world.actors[index];
            if !suspend.reference_runs && actor.ready_ps.get() < FOREVER_PS {
                // Timers run by the reference.
                actor
                    .ready_ps
                    .set(actor.ready_ps.get() + suspend.for_ns * PS);
                self.record_interruption(index, actor.ready_ps.get());
            }
            self.stop(index, over_ps);
            actor.fence_ps.set(over_ps);
        }
        // After a suspend that it knows of, the kernel wakes the thread (Linux
        // `timerfd_resume`).
        let is_woken =
            !suspend.reference_runs && suspend.for_ns > 0 && !world.scenario.machine.hides_suspends;
        if let Some(index) = driver
            && is_woken
        {
            let within_ps = world.rng.borrow_mut().u64(..100_000 * PS);
            world.actors[index].ready_ps.set(over_ps + within_ps);
            self.context.clock.is_forced.set(true);
        }
        over_ps
    }

    /// Gives this command to the program's threads. It wakes an idle thread, or starts a new one.
    /// If there are enough threads, the first one that becomes idle takes the command.
    fn command(&mut self, command: Fault) {
        let world = Rc::clone(&self.context.world);
        if world.scenario.clock.per_cpu {
            return; // a table has no keeper of its own
        }
        self.context.clock.commands.borrow_mut().push_back(command);
        let idle = |index: &usize| world.actors[*index].ready_ps.get() >= FOREVER_PS;
        if let Some(index) = self.program_threads.iter().copied().find(idle) {
            world.actors[index].ready_ps.set(world.now_ps.get());
            world.actors[index].fence_ps.set(world.now_ps.get());
        } else if self.program_threads.len() < MAX_PROGRAM_THREADS {
            let index = self.add_actor(Context::carry_out_commands);
            self.program_threads.push(index);
        }
    }

    /// Forks the process. Only one reader survives, which is not in the middle of an iteration. The
    /// iterations of other actors stay unfinished.
    fn fork(&mut self) {
        let world = Rc::clone(&self.context.world);
        let survivor = (0..MAX_ACTORS).find(|&index| {
            world.actors[index].is_alive.get()
                && !world.actors[index].holds_lock.get()
                && !self.program_threads.contains(&index)
                && world.driver.get() != Some(index)
        });
        let Some(survivor) = survivor else { return };
        for index in (0..MAX_ACTORS).filter(|&index| index != survivor) {
            // The script is kept until the run ends, because unwinding it would release locks.
            self.left_behind.extend(self.scripts[index].take());
            self.context.world.actors[index].is_alive.set(false);
        }
        world.driver.set(None);
        let number = &self.context.clock.token_number;
        number.set(number.get().saturating_add(1));
        self.context.clock.readers_drive.set(true);
        self.program_threads.clear();
        self.context.check.record_fork();
        for _ in 0..2 {
            self.add_actor(Context::read);
        }
    }

    fn outcome(&self) -> Outcome {
        let mut counts = *self.context.world.counts.borrow();
        counts.steps = self.steps;
        counts.simulated_ns = self.context.world.now_ps.get() / PS;
        Outcome {
            counts,
            events: Event::ALL
                .iter()
                .map(|event| (*event, self.context.clock.event_count(*event)))
                .collect(),
            track: self.context.check.track.borrow().clone(),
        }
    }
}
