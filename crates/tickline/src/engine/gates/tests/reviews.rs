//! When a review ends the line, and when closed gates are judged again.

use super::*;

/// A clock on whose line a review may act.
struct Reviewed {
    engine: CostedEngine,
    line: LineState,
}

impl Reviewed {
    /// A clock with a line. `None`, with a message, if there is none by the counter here.
    fn new() -> Option<Self> {
        let engine = engine_with_line(FAST_COUNTER)?;
        let line = engine.clock.readings().state();
        Some(Self { engine, line })
    }

    /// Changes the facts of the last judgement.
    fn change_facts(&self, change: impl FnOnce(&mut Facts)) {
        change_facts(&self.engine, change);
    }

    /// Lets the last judgement have found another clocksource than the kernel has.
    fn change_clocksource(&self) {
        self.change_facts(|facts| {
            facts.clocksource = match facts.clocksource {
                Clocksource::Hpet => Clocksource::AcpiPm,
                _ => Clocksource::Hpet,
            };
        });
    }

    /// Whether the line is still the one from before the review. No reader has retired it.
    fn has_its_line(&self) -> bool {
        self.engine.clock.readings().state() == self.line
    }
}

/// The facts have changed, but not what follows from them.
#[test]
fn a_review_that_finds_the_same_keeps_the_line() {
    let Some(clock) = Reviewed::new() else {
        return;
    };
    clock.change_facts(|facts| facts.comparison = CounterComparison::Single);
    let was_judged = clock.engine.review();
    assert!(!was_judged && clock.has_its_line());
}

#[test]
fn a_review_of_facts_that_are_current_keeps_the_line() {
    let Some(clock) = Reviewed::new() else {
        return;
    };
    let was_judged = clock.engine.review();
    assert!(!was_judged && clock.has_its_line());
}

/// The resolution of the OS clock is another one then.
#[test]
fn a_review_that_finds_another_clocksource_ends_the_line() {
    let Some(clock) = Reviewed::new() else {
        return;
    };
    clock.change_clocksource();
    let was_judged = clock.engine.review();
    assert!(was_judged && !clock.has_its_line());
}

#[test]
fn a_review_beside_a_collection_of_another_thread_keeps_the_line() {
    let Some(clock) = Reviewed::new() else {
        return;
    };
    // These facts would close a gate.
    clock.change_facts(|facts| *facts = Facts::UNKNOWN);
    let others = clock.engine.collector();
    let was_judged = clock.engine.review();
    drop(others);
    assert!(!was_judged && clock.has_its_line());
}

#[test]
fn a_review_with_minimal_probes_keeps_the_line() {
    let Some(clock) = Reviewed::new() else {
        return;
    };
    clock.change_clocksource();
    // ORDERING: Relaxed: one thread.
    let order = Ordering::Relaxed;
    clock.engine.has_minimal_probes.store(true, order);
    let was_judged = clock.engine.review();
    assert!(!was_judged && clock.has_its_line());
}

/// The time until the gates are judged again after this reason has closed one, ns, on a clock with
/// an interval of 7 ms.
fn retry_in_ns(reason: Reason) -> Option<std::ops::RangeInclusive<i64>> {
    let engine = Engine::new(Driver::Manual);
    engine.apply(&Settings {
        interval: Duration::from_millis(7),
        ..Settings::DEFAULT
    });
    let grounds = Grounds {
        closed_by: Some(reason),
        unix_closed_by: None,
        clocksource: Clocksource::Tsc,
    };
    let before_ns = OsClock.monotonic_ns();
    let Decision::Closed { retry_at_ns } = engine.decision(grounds, &Facts::UNKNOWN) else {
        panic!("{reason} closes a gate");
    };
    let after_ns = OsClock.monotonic_ns();
    retry_at_ns.map(|retry_at_ns| retry_at_ns - after_ns..=retry_at_ns - before_ns)
}

/// It decides within seconds of boot.
#[test]
fn a_kernel_that_is_undecided_is_asked_again_after_an_interval() {
    let retry_in_ns = retry_in_ns(Reason::KernelUndecided).expect("a retry");
    assert!(retry_in_ns.contains(&7_000_000), "{retry_in_ns:?}");
}

#[test]
fn the_cost_of_a_slow_counter_is_measured_again_after_five_seconds() {
    let retry_in_ns = retry_in_ns(Reason::Slow).expect("a retry");
    assert!(retry_in_ns.contains(&5_000_000_000), "{retry_in_ns:?}");
}

#[test]
fn a_gate_that_another_reason_has_closed_is_not_judged_again() {
    for reason in Reason::ALL.iter().copied() {
        if !matches!(reason, Reason::KernelUndecided | Reason::Slow) {
            assert_eq!(retry_in_ns(reason), None, "{reason}");
        }
    }
}
