//! The program's threads: they bar and unbar the clock, or carry out the scenario's commands.

use super::{Context, Unguarded};
use crate::machine::PS;
use crate::scenario::Fault;
use crate::world::{FOREVER_PS, Step};

impl Context {
    /// A thread that bars and unbars the clock again and again, without the keeper's knowledge.
    pub(crate) fn toggle_bar(&self) {
        let max_ps = self.world.scenario.clock.bar_ns * PS;
        let Some(Unguarded { clock, .. }) = &self.clock.unguarded else {
            return;
        };
        loop {
            self.world.step(Step::Sleep(self.random_below(max_ps)));
            self.check.run_act(|| {
                clock.bar(&self.access(), &self.access());
                self.world.step(Step::Sleep(self.random_ps(max_ps)));
                clock.unbar(&self.access(), &self.access());
            });
            self.check.record_disturbance(self.world.now_ps.get());
        }
    }

    /// A thread of the program that carries out the scenario's commands: it switches the counter
    /// off and on, and sets policies. The scheduler wakes it.
    pub(crate) fn carry_out_commands(&self) {
        let driven = &self.clock.driven;
        let access = self.access();
        loop {
            let Some(command) = self.clock.commands.borrow_mut().pop_front() else {
                self.world.step(Step::Sleep(FOREVER_PS));
                continue;
            };
            self.check.run_act(|| {
                match command {
                    Fault::Disable => {
                        return self.check.run_disable(|| {
                            driven.disable(Some(&access), &access);
                            self.world.step(Step::End);
                        });
                    }
                    Fault::Enable => self.check.run_enable(|| {
                        driven.enable();
                        self.world.step(Step::End);
                    }),
                    _ => driven.request_judgement(Some(&access), &access),
                }
                self.check.record_disturbance(self.world.now_ps.get());
            });
        }
    }
}
