//! Other threads act, or the driver is gone, before each step that a driver takes.

use super::*;

type NamedAct = (&'static str, fn(&Process));

/// What another thread, or a signal handler on this one, may do at any moment.
const ACTS: [NamedAct; 6] = [
    ("disable", Process::disable),
    ("enable", |process| process.clock.enable()),
    ("request_judgement", |process| {
        let machine = process.machine();
        process.clock.request_judgement(Some(machine), machine);
    }),
    ("to the CPUs' lines", |process| {
        process.clock.set_line_kind(LineKind::PerCpu);
    }),
    ("disable, enable", |process| {
        process.disable();
        process.clock.enable();
    }),
    ("to the CPUs' lines and back", |process| {
        process.clock.set_line_kind(LineKind::PerCpu);
        process.clock.set_line_kind(LineKind::Common);
    }),
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
        process.until_published();
        process.disable();
        process.clock.enable();
    },
    Process::until_published,
];

/// Before any step of a judgement, of a review and of an iteration, the lock refuses a signal
/// handler, and a thread may change the keeper's word. Readings stay in order. When the driver
/// comes again, the line and the bar agree with the last change, and no line outlives a
/// `disable()`.
#[test]
fn a_change_before_any_step_of_a_driver_counts() {
    for (before, (name, act)) in BEFORE
        .into_iter()
        .flat_map(|before| ACTS.map(|act| (before, act)))
    {
        let mut step = 0;
        loop {
            let process = leak(Process::new());
            before(process);
            let last_ns = leak(Cell::new(process.clock.shared.slow().ns));
            let interrupt = move || {
                assert!(
                    matches!(process.ask(), Next::Rest(None)),
                    "a deadlock, or two drivers"
                );
                assert!(process.clock.ask_review(process.token()).is_none());
                act(process);
                let now = process.clock.shared.slow();
                assert!(now.ns >= last_ns.replace(now.ns), "{name}, step {step}");
                let is_off = process.clock.stage() == Stage::Disabled;
                assert!(!is_off || process.clock.shared.by_line().is_none());
            };
            let work = || {
                process.drive(Cadence::Scheduled);
                // The facts have changed, but the result is the same.
                if let Some(ticket) = process.clock.ask_review(process.token()) {
                    _ = process.settle(ticket);
                }
            };
            if !act_at_step(process, step, interrupt, work) {
                break;
            }
            assert!(
                process.clock.shared.slow().ns >= last_ns.get(),
                "{name}, step {step}"
            );
            match name {
                "disable" => {
                    assert!((0..20).all(|_| process.iterate() != Some(Outcome::Published)));
                    assert_eq!(process.clock.stage(), Stage::Disabled);
                    assert!(process.clock.shared.cell.load().is_barred());
                    process.clock.enable();
                }
                "to the CPUs' lines" => {
                    assert_eq!(process.drive(Cadence::Scheduled), None);
                    assert_eq!(process.clock.usable_line_kind(), Some(LineKind::PerCpu));
                    assert!(!process.clock.shared.cell.load().is_published());
                    process.clock.set_line_kind(LineKind::Common);
                }
                _ => {}
            }
            process.until_published();
            assert!(
                process.clock.shared.slow().ns >= last_ns.get(),
                "{name}, step {step}"
            );
            step += 1;
        }
        assert!(step > 20, "{name}: {step}");
    }
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
            process.until_published();
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
