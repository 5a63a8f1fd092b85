//! Clocks with a line for each CPU: simulates moves of actors between CPUs, and the thread that
//! calibrates the CPUs.
//!
//! The code under attack is `tickline_core::per_cpu`. `drive_cpus` stands for `CpuCalibrations` of
//! `tickline` (`per_cpu/calibrations.rs`). One step reads the counter and the CPU's
//! id, as `rdtscp` does. Before every other step the scheduler may move the thread. A thread that
//! is pinned to its CPU is moved as well, though seldom, and whenever its CPU goes offline.
//!
//! The simulation leaves out the keeper (its faults do nothing), and the choice of the mode.

use tickline_core::control::MIN_INTERVAL_NS;
use tickline_core::counter::{Counter, CpuCounter, CpuRead};
use tickline_core::per_cpu::{CpuControl, Pass, Stay};

use crate::actors::{Context, MAX_LATE_PS, MAX_WAKE_UP_PS};
use crate::machine::PS;
use crate::world::{Access, Actor, Step, World};

/// One stop in this many moves a thread that is pinned to its CPU, as a change of its cpuset does.
const UNPINNED_ONE_IN: u32 = 16;

// ---- the world --------------------------------------------------------------------------------

impl World {
    /// The cell that serves this actor's readings.
    pub(crate) fn cell_of(&self, actor: &Actor) -> usize {
        if self.scenario.clock.per_cpu {
            actor.cpu.get() as usize
        } else {
            0
        }
    }

    pub(crate) fn random_cpu(&self) -> u32 {
        let online = (0..).zip(&self.cpus).filter(|(_, cpu)| cpu.is_online.get());
        let cpus: Vec<u32> = online.map(|(index, _)| index).collect();
        cpus[self.rng.borrow_mut().usize(..cpus.len())]
    }

    /// Takes a CPU offline, unless it is the last one online.
    pub(crate) fn set_offline(&self, cpu: u32) {
        if self.cpus.iter().filter(|cpu| cpu.is_online.get()).count() > 1 {
            self.cpus[cpu as usize].is_online.set(false);
        }
    }

    /// Moves a stopped actor to any CPU that is online.
    pub(crate) fn move_elsewhere(&self, actor: &Actor) {
        if !actor.is_pinned.get() || self.rng.borrow_mut().u32(..UNPINNED_ONE_IN) == 0 {
            actor.cpu.set(self.random_cpu());
        }
    }
}

impl Access {
    /// The read that has just returned `ticks`.
    fn cpu_read(&self, ticks: u64) -> CpuRead {
        let cell = self.0.me().last_read.get().cell;
        let cpu = u32::try_from(cell).expect("few");
        CpuRead { ticks, cpu }
    }
}

impl CpuCounter for Access {
    fn now(&self) -> Option<CpuRead> {
        let ticks = Counter::now(self);
        Some(self.cpu_read(ticks))
    }

    fn now_ordered(&self) -> Option<CpuRead> {
        let ticks = Counter::now_ordered(self);
        Some(self.cpu_read(ticks))
    }

    fn barrier(&self) {
        Counter::barrier(self);
    }
}

// ---- the thread -------------------------------------------------------------------------------

impl Context {
    /// The thread, which calibrates the CPUs in turn.
    pub(crate) fn drive_cpus(&self) {
        let mut cpus = Vec::new();
        let interval_ns = i64::try_from(self.clock.config.interval_ns).expect("in its range");
        loop {
            if self.clock.is_forced.take() {
                cpus.iter_mut().for_each(CpuControl::force_due);
            }
            let pass = Pass::begin(
                self.clock.resolutions,
                self.clock.config.interval_ns,
                &self.access(),
            );
            cpus.resize_with(self.clock.cpu_clocks.len(), || CpuControl::new(&pass));
            let mut next_ns = self.world.returned_ns().saturating_add(interval_ns);
            for (cpu, calibration) in (0..).zip(&mut cpus) {
                if calibration.is_ready(self.world.returned_ns()) {
                    calibration.begin(&pass);
                    self.calibrate(cpu, calibration);
                }
                next_ns = next_ns.min(calibration.due_ns());
            }
            self.world.me().is_pinned.set(false);
            let wait_ns = if self.clock.is_forced.get() {
                0
            } else {
                next_ns - self.world.returned_ns()
            };
            let wait_ns = u64::try_from(wait_ns).unwrap_or(0).max(MIN_INTERVAL_NS);
            self.world
                .step(Step::Sleep(wait_ns * PS + self.random_ps(MAX_LATE_PS)));
        }
    }

    /// Runs iterations on `cpu`, until the thread may leave it, or is woken.
    fn calibrate(&self, cpu: u32, calibration: &mut CpuControl) {
        loop {
            self.go_to(cpu);
            match self.iterate_on(cpu, calibration) {
                Stay::Again => {}
                Stay::Wait { ns } => {
                    let late_ps = self.random_ps(MAX_WAKE_UP_PS);
                    self.world.step(Step::Sleep(ns * PS + late_ps));
                    if self.clock.is_forced.get() {
                        return;
                    }
                }
                Stay::Leave => return,
            }
        }
    }

    /// Runs an iteration on `cpu`, and returns what the thread does next.
    fn iterate_on(&self, cpu: u32, calibration: &mut CpuControl) -> Stay {
        let me = self.world.me();
        let access = self.access();
        me.holds_lock.set(true);
        let done = self.run_watched(cpu as usize, || {
            let clock = &self.clock.cpu_clocks[cpu as usize];
            let done = calibration.iterate(clock, cpu, &access, &access);
            let oldest_ticks = calibration.control().oldest_sample_ticks();
            (done, done.iteration.is_some(), oldest_ticks)
        });
        me.holds_lock.set(false);
        self.world.counts.borrow_mut().lost += u64::from(done.iteration.is_none());
        if done.iteration.is_some() {
            self.check.judge_bounds();
            self.check
                .check_line_is_back(self.world.cells[cpu as usize].state.get());
        }
        done.stay
    }

    /// Moves the thread to `cpu`, unless the CPU is offline. The thread arrives when the CPU has
    /// time for it.
    fn go_to(&self, cpu: u32) {
        let world = &self.world;
        let me = self.world.me();
        if !world.cpus[cpu as usize].is_online.get() {
            return;
        }
        me.cpu.set(cpu);
        me.is_pinned.set(true);
        let now_ps = world.now_ps.get();
        let paused_ps = world.cpus[cpu as usize]
            .paused_ps
            .get()
            .saturating_sub(now_ps);
        if paused_ps != 0 {
            self.check.record_disturbance(now_ps + paused_ps);
        }
        world.step(Step::Sleep(paused_ps + self.random_ps(MAX_WAKE_UP_PS)));
        me.fence_ps.set(world.now_ps.get());
    }

    // ---- readers ------------------------------------------------------------------------------

    /// Moves the thread to another CPU between two readings.
    pub(crate) fn go_elsewhere(&self) {
        let actor = self.world.me();
        actor.cpu.set(self.world.random_cpu());
        actor.fence_ps.set(self.world.now_ps.get());
    }
}
