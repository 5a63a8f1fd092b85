//! Other threads act, or the driver is gone, before each step that a driver takes.

use super::*;

/// What another thread, or a signal handler on this one, may do at any moment.
struct Act {
    name: &'static str,
    act: fn(&Process),
    /// Lets the common line be published again.
    undo: fn(&Process),
}

const ACTS: [Act; 6] = [
    Act {
        name: "disable",
        act: Process::disable,
        undo: |process| process.clock.enable(),
    },
    Act {
        name: "enable",
        act: |process| process.clock.enable(),
        undo: |_| (),
    },
    Act {
        name: "request_judgement",
        act: |process| {
            let machine = process.machine();
            process.clock.request_judgement(Some(machine), machine);
        },
        undo: |_| (),
    },
    Act {
        name: "to the CPUs' lines",
        act: |process| process.clock.set_line_kind(LineKind::PerCpu),
        undo: |process| process.clock.set_line_kind(LineKind::Common),
    },
    Act {
        name: "disable, enable",
        act: |process| {
            process.disable();
            process.clock.enable();
        },
        undo: |_| (),
    },
    Act {
        name: "to the CPUs' lines and back",
        act: |process| {
            process.clock.set_line_kind(LineKind::PerCpu);
            process.clock.set_line_kind(LineKind::Common);
        },
        undo: |_| (),
    },
];

/// Runs `work`, and runs `act` before its step number `step`. Returns whether it took that many.
fn act_at_step(
    process: &'static Process,
    step: u32,
    act: impl Fn() + 'static,
    work: impl FnOnce(),
) -> bool {
    let taken = leak(Cell::new(0));
    process.machine().hooks.set(move |_| {
        let now = taken.replace(taken.get() + 1);
        if now == step {
            act();
        }
    });
    work();
    process.machine().hooks.clear();
    taken.get() > step
}

/// The clock before its first judgement, after a judgement that another one must follow, and with a
/// line.
const BEFORE: [fn(&Process); 3] = [
    |_| (),
    |process| {
        process.run_until_published();
        process.disable();
        process.clock.enable();
    },
    Process::run_until_published,
];

/// A process whose driver is interrupted, and the last time that was read.
struct Interrupted {
    process: Process,
    last_ns: Cell<i64>,
}

impl Interrupted {
    /// Reads the time, which has not stepped back.
    fn read(&self, name: &str, step: u32) {
        let now_ns = self.process.clock.shared.slow().ns;
        assert!(
            now_ns >= self.last_ns.replace(now_ns),
            "{name}, step {step}"
        );
    }
}

/// Runs `interrupt` before any step of a judgement, of a review and of an iteration, each on a new
/// clock, and `check` when the driver has come to its end. Both get the number of the step.
fn interrupt_each_step(
    interrupt: impl Fn(&'static Interrupted, u32) + Copy + 'static,
    check: impl Fn(&'static Interrupted, u32),
) {
    for before in BEFORE {
        let mut step = 0;
        loop {
            let process = Process::new();
            before(&process);
            let last_ns = Cell::new(process.clock.shared.slow().ns);
            let interrupted = leak(Interrupted { process, last_ns });
            let process = &interrupted.process;
            let work = || {
                process.drive(Cadence::Scheduled);
                // The facts have changed, but the result is the same.
                if let Some(ticket) = process.clock.ask_review(process.token()) {
                    _ = process.settle(ticket);
                }
            };
            if !act_at_step(process, step, move || interrupt(interrupted, step), work) {
                break;
            }
            check(interrupted, step);
            step += 1;
        }
        assert!(step > 20, "{step}");
    }
}

#[test]
fn a_signal_handler_before_any_step_of_a_driver_is_refused_the_lock() {
    let interrupt = |interrupted: &Interrupted, step| {
        let process = &interrupted.process;
        let next = process.ask();
        assert!(
            matches!(next, Next::NoIteration(Obstacle::LockHeld)),
            "a deadlock, or two drivers, step {step}"
        );
        assert!(process.clock.ask_review(process.token()).is_none());
    };
    interrupt_each_step(interrupt, |interrupted, _| {
        interrupted.process.run_until_published()
    });
}

#[test]
fn readings_stay_in_order_if_a_change_comes_before_any_step_of_a_driver() {
    for Act { name, act, undo } in ACTS {
        let interrupt = move |interrupted: &Interrupted, step| {
            act(&interrupted.process);
            interrupted.read(name, step);
        };
        interrupt_each_step(interrupt, |interrupted, step| {
            interrupted.read(name, step);
            undo(&interrupted.process);
            interrupted.process.run_until_published();
            interrupted.read(name, step);
        });
    }
}

/// Readers find no line once `disable()` has returned, and none comes before `enable()`, although a
/// reader takes the slow path meanwhile.
#[test]
fn a_disable_before_any_step_of_a_driver_counts() {
    let interrupt = |interrupted: &Interrupted, step| {
        let process = &interrupted.process;
        process.disable();
        interrupted.read("disable", step);
        assert_eq!(process.clock.stage(), Stage::Disabled);
        assert!(process.clock.shared.by_line().is_none(), "step {step}");
    };
    interrupt_each_step(interrupt, |interrupted, step| {
        let process = &interrupted.process;
        assert!((0..20).all(|_| process.iterate() != Some(Outcome::Published)));
        assert_eq!(process.clock.stage(), Stage::Disabled, "step {step}");
        assert!(process.clock.shared.cell().load().is_barred());
    });
}

/// When the driver comes again, the common line has ended, and readers find the CPUs' lines,
/// although a reader has taken the slow path meanwhile.
#[test]
fn a_change_to_the_cpus_lines_before_any_step_of_a_driver_counts() {
    let interrupt = |interrupted: &Interrupted, step| {
        interrupted.process.clock.set_line_kind(LineKind::PerCpu);
        interrupted.read("to the CPUs' lines", step);
    };
    interrupt_each_step(interrupt, |interrupted, step| {
        let process = &interrupted.process;
        assert_eq!(process.drive(Cadence::Scheduled), None);
        let kind = process.clock.usable_line_kind();
        assert_eq!(kind, Some(LineKind::PerCpu), "step {step}");
        assert!(!process.clock.shared.cell().load().is_published());
    });
}

/// The end of a driver that holds the lock, and the next one.
#[derive(Debug, Clone, Copy)]
enum Gone {
    /// Another thread forks. The driver does not exist in the child, which goes on.
    Forked,
    /// The driver's thread is killed. Another thread goes on.
    Killed,
}

impl Gone {
    /// Lets the driver be gone. The next one takes the lock over, and forgets the guard: that keeps
    /// the unwinding driver from releasing the lock.
    fn strike(self, process: &Process) {
        match self {
            Self::Forked => process.number.set(2),
            Self::Killed => process.thread.set(ENDED[1]),
        }
        core::mem::forget(process.clock.lock(process.token()).expect("a takeover"));
    }

    /// Plays the release of the forgotten guard, by another takeover.
    fn release(self, process: &Process) {
        match self {
            Self::Forked => process.number.set(3),
            Self::Killed => process.thread.set(LIVING),
        }
    }
}

/// A driver is gone before any step of a judgement, of a review and of an iteration. The next one
/// takes the lock over, judges for itself, and its readings are in order.
#[test]
fn a_driver_that_is_gone_before_any_step_has_a_successor() {
    for (before, gone) in BEFORE
        .into_iter()
        .flat_map(|before| [Gone::Forked, Gone::Killed].map(|gone| (before, gone)))
    {
        let mut step = 0;
        loop {
            let process = leak(Process::new());
            before(process);
            process.thread.set(ENDED[0]);
            let judgements = process.judgements.get();
            let last_ns = process.clock.shared.slow().ns;
            let strike = move || {
                gone.strike(process);
                std::panic::resume_unwind(Box::new("the driver's stack is gone"));
            };
            let taken = leak(Cell::new(false));
            let driven = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
                taken.set(act_at_step(process, step, strike, || {
                    process.drive(Cadence::Scheduled);
                    if let Some(ticket) = process.clock.ask_review(process.token()) {
                        _ = process.settle(ticket);
                    }
                }));
            }));
            if driven.is_ok() {
                assert!(!taken.get());
                break;
            }
            process.machine().hooks.clear();
            let judged = process.judgements.get() - judgements;
            gone.release(process);
            assert!(process.clock.shared.slow().ns >= last_ns, "step {step}");
            process.run_until_published();
            assert_eq!(
                process.judgements.get() - judgements,
                judged + 1,
                "{gone:?}, step {step}"
            );
            assert!(process.clock.shared.slow().ns >= last_ns, "step {step}");
            step += 1;
        }
        assert!(step > 20, "{step}");
    }
}
