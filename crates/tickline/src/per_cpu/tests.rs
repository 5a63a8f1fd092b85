//! The table, and calibrations of this machine's CPUs.

use tickline_core::control::{Config, MIN_INTERVAL_NS, Renewal};
use tickline_core::counter::Counter;

use super::pass::CpuPass;
use super::*;
use crate::engine::Engine;
use crate::options::{DEFAULT_INTERVAL_NS, Driver};
use crate::sys::{ClockSetNotifier, CpuMask};
use crate::trust::compare::tests::UNSYNCHRONISED;

#[test]
fn auto_follows_the_comparison_and_the_builder_overrules_it() {
    let others = [
        Comparison::Pending,
        Comparison::Single,
        Comparison::Synchronised { cpus: 2 },
        Comparison::Impossible,
    ];
    for (comparison, auto) in others.map(|other| (other, false)).into_iter().chain([(UNSYNCHRONISED, true)]) {
        assert!(wanted(PerCpu::On, comparison) && !wanted(PerCpu::Off, comparison));
        assert_eq!(wanted(PerCpu::Auto, comparison), auto);
    }
}

/// On the real machine, with ids in the table that no CPU has: those fail alone, and the thread
/// gets its CPUs back.
#[test]
fn a_cpu_that_the_thread_cannot_reach_fails_alone() {
    use tickline_core::sample::Resolutions;
    let skip = |why: &str| eprintln!("SKIPPED: {why}");
    let (counter, ids) = match needs() {
        Ok(needs) => needs,
        Err(why) => return skip(why),
    };
    if !crate::sys::counter_readable() {
        return skip("the counter cannot be used here");
    }
    let home = CpuMask::of_this_thread().expect("where this thread may run");
    let table = Table::with_ids(counter, ids + 3);
    let absent = ids + 1;
    table.records[absent].ask();
    let config = Config {
        interval_ns: 1_000_000,
        resolutions: Resolutions { counter_ticks: 0, reference_ns: 1, resolution_ticks: 0 },
        renewal: Renewal::Pinned,
    };
    let mut pass = CpuPass::default();
    let notifier = ClockSetNotifier::new();
    let wait_ns = pass.run(&table, &config, &notifier);
    assert!((MIN_INTERVAL_NS..=config.interval_ns).contains(&wait_ns), "{wait_ns}");
    let status = table.status();
    for cpu in &status {
        // Elsewhere too, if the system numbers its CPUs otherwise than the register does.
        assert!(home.contains(cpu.cpu) || cpu.cpu == absent && cpu.failures == 1, "{cpu:?}");
    }
    assert!(status.iter().any(|cpu| cpu.cpu == absent && cpu.state == State::Calibrating));
    let after = CpuMask::of_this_thread().unwrap();
    assert!((0..ids + 3).all(|cpu| home.contains(cpu) == after.contains(cpu)), "the mask was changed");

    pass.run(&table, &config, &notifier);
    let status = table.status();
    assert!(status.iter().all(|cpu| cpu.cpu != absent), "no reader asks for it any more: {status:?}");
}

/// A counter, and a clock, that stand still at a tick and a time that nothing reaches.
pub(crate) struct Late;

impl Counter for Late {
    fn now(&self) -> u64 {
        u64::MAX >> 1
    }
    fn now_ordered(&self) -> u64 {
        self.now()
    }
    fn barrier(&self) {}
}

impl Reference for Late {
    fn monotonic_ns(&self) -> i64 {
        i64::MAX >> 1
    }
    fn realtime_ns(&self) -> i64 {
        self.monotonic_ns()
    }
}

/// Without a thread, as in a forked child: a reader whose CPU's line was ahead of the OS clock
/// stays until that has come up. Symptom: the second reading stepped back.
#[test]
fn a_reader_leaves_its_cpus_line_in_order() {
    let engine = Engine::new(Driver::Reader, DEFAULT_INTERVAL_NS);
    if engine.calibrate_cpus(&mut CpuPass::default(), &ClockSetNotifier::new()).is_none() {
        return eprintln!("SKIPPED: there can be no line for each CPU here");
    }
    let Some(home) = CpuMask::of_this_thread() else {
        return eprintln!("SKIPPED: no way to say where this thread may run");
    };
    let table = engine.per_cpu_table().expect("the gates are open");
    let cpu = table.units.iter().position(|unit| unit.cell.load().is_published()).expect("a line");
    assert!(CpuMask::only(cpu).is_some_and(|mask| mask.apply()), "the pass was there");
    // Ends the line, with the mark at the end of its validity.
    table.units[cpu].close_gate(&Late, &Late);
    table.units[cpu].open_gate(&Late, &Late);
    let (os_ns, first_ns) = (OsClock.monotonic_ns(), engine.now_ordered_ns());
    let mut last_ns = first_ns;
    while engine.per_cpu_table().is_some() {
        let now_ns = engine.now_ordered_ns();
        assert!(now_ns >= last_ns, "{now_ns} after {last_ns}");
        last_ns = now_ns;
    }
    let now_ns = engine.now_ordered_ns();
    home.restore();
    assert!(now_ns >= last_ns, "{now_ns} after {last_ns}");
    assert!(first_ns > os_ns.unsigned_abs(), "the line was ahead");
}

#[test]
fn a_cpu_without_a_line_falls_back_after_15_s() {
    assert!(!has_fallen_back(false, 0) && !has_fallen_back(false, 14_999_999_999));
    assert!(has_fallen_back(false, 15_000_000_000) && !has_fallen_back(true, i64::MAX));
}
