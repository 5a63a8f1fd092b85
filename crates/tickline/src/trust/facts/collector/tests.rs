//! Facts task by task and in one go.

use super::*;
use crate::engine::Engine;
use crate::settings::Driver;

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
        return eprintln!("SKIPPED: no counter on this target");
    }
    let engine = Engine::new(Driver::Reader);
    let mut tasks = Vec::new();
    while !engine.is_judged() {
        engine.now_ns();
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
