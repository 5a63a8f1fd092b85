//! Carries out the scenario's faults.

use std::rc::Rc;

use super::{Death, MAX_PROGRAM_THREADS, RESUMES_IN_PS, Scheduler};
use crate::actors::{Context, MAX_WAKE_UP_PS};
use crate::limits::valid_intervals;
use crate::machine::PS;
use crate::scenario::{Fault, Suspend};
use crate::world::{FOREVER_PS, MAX_ACTORS};

/// The most steps of an iteration before its driver is killed. Most iterations have fewer.
const MAX_STEPS_BEFORE_DEATH: u64 = 512;

impl Scheduler {
    /// Stops an actor until `until_ps`.
    fn stop(&self, index: usize, until_ps: u64) {
        let actor = &self.context.world.actors[index];
        if actor.is_alive.get() && actor.ready_ps.get() < until_ps {
            let in_ps = self.context.world.rng.borrow_mut().u64(..RESUMES_IN_PS);
            actor.ready_ps.set(until_ps + in_ps);
            self.record_interruption(index, actor.ready_ps.get());
        }
    }

    fn stop_all(&self, until_ps: u64, is_stopped: impl Fn(usize) -> bool) {
        for index in (0..MAX_ACTORS).filter(|index| is_stopped(*index)) {
            self.stop(index, until_ps);
        }
    }

    /// Carries out a fault.
    pub(super) fn inject(&mut self, fault: Fault) {
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
            driver.ready_ps.set(now_ps + MAX_WAKE_UP_PS / 2);
        }
    }

    /// Takes a CPU offline, and moves its actors to others.
    fn take_offline(&self, cpu: u32) {
        let world = &self.context.world;
        world.set_offline(cpu);
        for index in (0..MAX_ACTORS).filter(|&index| world.actors[index].cpu.get() == cpu) {
            world.actors[index].cpu.set(world.random_cpu());
            self.stop(index, world.now_ps.get() + RESUMES_IN_PS);
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
            for cell in &world.cells {
                cell.reset.set(Some((cell.state.get(), over_ps)));
            }
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
            let within_ps = world.rng.borrow_mut().u64(..MAX_WAKE_UP_PS);
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
}
