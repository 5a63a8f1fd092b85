//! Facts task by task and in one go.

use super::*;
use crate::engine::Engine;
use crate::settings::Driver;
use crate::testing::skip;

/// The facts that two collections have in common.
fn lasting(mut facts: Facts) -> Facts {
    facts.cost = facts.cost.map(|_| Cost {
        counter_ps: 0,
        os_ps: 0,
        os_unix_ps: 0,
    });
    facts.resolution_ticks = None;
    facts
}

#[test]
fn single_tasks_collect_the_same_facts_as_one_go() {
    for probes in [Probes::Full, Probes::Minimal] {
        let collected = |mut collector: Collector| {
            let mut facts = Facts::UNKNOWN;
            facts.comparison = CounterComparison::Impossible;
            collector.finish(0, probes, &mut facts);
            assert_eq!(collector.next, 0, "the next facts are new ones");
            lasting(facts)
        };
        let at_once = collected(Collector::new());
        if probes == Probes::Minimal {
            assert_eq!(
                (at_once.cost, at_once.comparison),
                (None, CounterComparison::Pending)
            );
        }
        for tasks in 0..20 {
            let mut collector = Collector::new();
            let tasks = (0..tasks)
                .take_while(|_| !collector.run_one(0, probes, CounterComparison::Pending))
                .count();
            assert_eq!(collected(collector), at_once, "{probes:?}, {tasks} tasks");
        }
    }
}

#[test]
fn an_old_collection_begins_anew() {
    let run_one =
        |collector: &mut Collector| collector.run_one(0, Probes::Full, CounterComparison::Pending);
    let mut collector = Collector::new();
    while !run_one(&mut collector) {}
    assert!(run_one(&mut collector), "still there");
    collector.begun_ns -= COLLECTION_LASTS_NS + 1;
    assert!(!run_one(&mut collector));
    assert_eq!((collector.next, collector.cost), (1, None));
}

/// Symptom: the call that judged took 87 us on EPYC, family 26, and 105 us on an Intel Xeon, family
/// 6, model 207, under KVM.
#[test]
fn a_reader_runs_one_task_a_call() {
    if COUNTER.is_none() {
        return skip("no counter on this target");
    }
    let engine = Engine::new(Driver::Reader);
    let mut tasks = Vec::new();
    while !engine.is_judged() {
        engine.now();
        let collector = engine.collector().expect("no other thread has it");
        let next = collector.next;
        // The last two tasks measure.
        assert!(
            collector.resolution_ticks.is_none() || next > TASKS.len() - 2,
            "{next}"
        );
        assert_eq!(
            collector.cost.is_some(),
            next == TASKS.len() && may_read_counter()
        );
        if next == 1 {
            tasks = vec![0]; // the collection begins anew after a while, too
        }
        if tasks.last() != Some(&next) {
            tasks.push(next);
        }
    }
    assert_eq!(tasks, (0..=TASKS.len()).chain([0]).collect::<Vec<_>>());
}

/// The kernel's answer about the counter after the task, if it keeps time with `clocksource`.
fn acceptance(clocksource: Clocksource, probes: Probes) -> Acceptance {
    let mut collector = Collector {
        clocksource,
        ..Collector::new()
    };
    collector.run(Task::Acceptance, probes, CounterComparison::Pending);
    collector.acceptance
}

#[test]
fn a_kernel_that_keeps_time_with_something_else_is_asked_for_the_counter() {
    let acceptance = acceptance(Clocksource::Hpet, Probes::Full);
    assert_eq!(acceptance, acceptance_of_counter());
}

#[test]
fn a_kernel_that_keeps_time_with_the_counter_is_not_asked_for_it() {
    let acceptance = acceptance(HardwareCounter::CLOCKSOURCE, Probes::Full);
    assert_eq!(acceptance, Acceptance::Unknown);
}

#[test]
fn with_minimal_probes_no_kernel_is_asked_for_the_counter() {
    let acceptance = acceptance(Clocksource::Hpet, Probes::Minimal);
    assert_eq!(acceptance, Acceptance::Unknown);
}

/// The kernel's clocksource after the task.
fn found_clocksource(probes: Probes) -> Clocksource {
    let mut collector = Collector::new();
    collector.run(Task::Clocksource, probes, CounterComparison::Pending);
    collector.clocksource
}

#[test]
fn the_clocksource_comes_from_the_kernel() {
    assert_eq!(found_clocksource(Probes::Full), clocksource());
}

#[test]
fn with_minimal_probes_the_clocksource_is_unknown() {
    assert_eq!(found_clocksource(Probes::Minimal), Clocksource::Unknown);
}

const SYNCHRONISED: CounterComparison = CounterComparison::Synchronised {
    cpus: 2,
    max_difference_ticks: 400,
};

#[test]
fn with_full_probes_every_counter_may_be_measured() {
    assert!(may_measure(Probes::Full, CounterComparison::Pending));
}

#[test]
fn with_minimal_probes_only_a_counter_that_was_compared_may_be_measured() {
    assert!(may_measure(Probes::Minimal, SYNCHRONISED));
    assert!(!may_measure(Probes::Minimal, CounterComparison::Pending));
}

#[test]
fn with_minimal_probes_nobody_is_asked_whether_the_counter_may_be_read() {
    assert!(may_read(Probes::Minimal));
}

#[test]
fn with_full_probes_the_kernel_says_whether_the_counter_may_be_read() {
    assert_eq!(may_read(Probes::Full), may_read_counter());
}

#[test]
fn a_counter_that_may_not_be_measured_is_not_readable() {
    let counter = readable_counter(Probes::Minimal, CounterComparison::Pending);
    assert!(counter.is_none());
}

#[test]
fn a_counter_that_may_be_measured_is_readable() {
    let counter = readable_counter(Probes::Minimal, SYNCHRONISED);
    assert_eq!(counter.is_some(), COUNTER.is_some());
}

/// The facts of one collection, with this comparison.
fn finished(probes: Probes, comparison: CounterComparison) -> Facts {
    let mut facts = Facts::UNKNOWN;
    facts.comparison = comparison;
    Collector::new().finish(0, probes, &mut facts);
    facts
}

#[test]
fn the_facts_have_the_kernels_clocksource() {
    let facts = finished(Probes::Full, CounterComparison::Pending);
    assert_eq!(facts.clocksource, clocksource());
}

#[test]
fn with_full_probes_the_facts_have_the_comparison() {
    let facts = finished(Probes::Full, CounterComparison::Impossible);
    assert_eq!(facts.comparison, CounterComparison::Impossible);
}
