//! Each fault of a guest, a program or the package is found, and no other.

use serde_json::json;

use super::super::check::{at_least, rule};
use super::super::guest::all;
use super::super::programs::Program;
use super::*;

mod programs;

fn guest(name: &str) -> Guest {
    let guests = all().unwrap().into_iter();
    guests.into_iter().find(|guest| guest.name == name).unwrap()
}

/// The verdict on these phases, in words; empty if the guest has passed.
fn judged(guest: &Guest, phases: Vec<Phase>) -> String {
    let run = Run {
        phases,
        ..Run::default()
    };
    match judge(guest, &run) {
        Ok(()) => String::new(),
        Err(NotPassed::Skipped(why) | NotPassed::Failed(why)) => why,
    }
}

/// A guest on Debian that runs only this program.
fn guest_with(name: &str, program: &str) -> Guest {
    let mut guest = guest(name);
    let others = guest.programs.iter().filter(|other| other.name != program);
    let others: Vec<String> = others.flat_map(Program::phases).collect();
    guest.checks.retain(|check| !others.contains(&check.phase));
    guest
}

/// A report without faults.
struct Good {
    guest: Guest,
    phases: Vec<Phase>,
}

impl Good {
    fn new(guest: Guest, phases: &serde_json::Value) -> Self {
        let phases: Vec<Phase> = serde_json::from_value(phases.clone()).unwrap();
        assert_eq!(judged(&guest, phases.clone()), "");
        Self { guest, phases }
    }

    /// Changes a phase of the report, which must then have this fault and no other.
    fn assert_fails(&self, expected: &str, phase: &str, change: impl Fn(&mut Phase)) {
        let mut phases = self.phases.clone();
        let changed = phases.iter_mut().find(|one| one.phase == phase).unwrap();
        change(changed);
        let faults = judged(&self.guest, phases);
        assert!(
            faults.starts_with(&format!("{phase}: {expected}")),
            "{expected}: {faults}"
        );
        assert_eq!(faults.lines().count(), 1, "{faults}");
    }

    /// Leaves out a phase of the report.
    fn assert_needs(&self, phase: &str) {
        let mut phases = self.phases.clone();
        phases.retain(|one| one.phase != phase);
        let faults = judged(&self.guest, phases);
        for fault in faults.lines() {
            assert_eq!(fault, format!("{phase}: the guest did not get there"));
        }
        assert!(!faults.is_empty(), "{phase}");
    }
}

/// A program that calls both clocks, with hpet, where a call costs 1 us.
fn static_c() -> Good {
    let reads = |above_ns: u64| json!({ "calls": 50_000, "backward": 0, "below_os_ns": 0, "above_os_ns": above_ns });
    Good::new(
        guest_with("hpet-1", "static C"),
        &json!([
            { "phase": "machine", "clocksource": "hpet" },
            { "phase": "static C native", "exit_code": 0, "messages": "", "lead_ns": 100, "unix_lead_ns": 100,
              "counted": { "calls": 300, "served_clocks": 600 },
              "monotonic": reads(0), "realtime": reads(0), "ns": 1000 },
            { "phase": "static C run", "error": null, "exit_code": 0,
              "messages": "tickline: it has the clock of a page", "lead_ns": 100, "unix_lead_ns": 100,
              "counted": { "calls": 300, "served_clocks": 15 },
              "monotonic": reads(100), "realtime": reads(100), "ns": 125, "native": { "ns": 1000 } },
            { "phase": "static C served exchange", "answers": 9, "calls": 900, "backward": 0,
              "below_others": 0, "error": null },
            { "phase": "states", "served": [false, true, false, true, false, true] },
            { "phase": "end" },
        ]),
    )
}

#[test]
fn a_program_whose_time_steps_back_or_leaves_the_os_clock_has_failed() {
    let good = static_c();
    let native = "static C native";
    let run = "static C run";
    good.assert_fails("monotonic.backward is 1", run, |phase| {
        phase.monotonic.backward = Some(1)
    });
    good.assert_fails("realtime.backward is 1", run, |phase| {
        phase.realtime.backward = Some(1)
    });
    good.assert_fails("realtime.above_os_ns is 101", run, |phase| {
        phase.realtime.above_os_ns = Some(101);
    });
    good.assert_fails("monotonic.above_os_ns is 101", run, |phase| {
        phase.monotonic.above_os_ns = Some(101);
    });
    good.assert_fails("realtime.above_os_ns is 1", native, |phase| {
        phase.realtime.above_os_ns = Some(1);
    });
    good.assert_fails("monotonic.above_os_ns is 1", native, |phase| {
        phase.monotonic.above_os_ns = Some(1);
    });
    good.assert_fails("monotonic.below_os_ns is 99", run, |phase| {
        phase.monotonic.below_os_ns = Some(99);
    });
    good.assert_fails("realtime.below_os_ns is 99", run, |phase| {
        phase.realtime.below_os_ns = Some(99);
    });
}

#[test]
fn a_program_that_does_not_call_the_clock_or_ends_with_an_error_has_failed() {
    let good = static_c();
    let native = "static C native";
    let run = "static C run";
    good.assert_fails("realtime.calls is 0", native, |phase| {
        phase.realtime.calls = Some(0)
    });
    good.assert_fails("monotonic.calls is 0", native, |phase| {
        phase.monotonic.calls = Some(0)
    });
    good.assert_fails("exit_code is 1", run, |phase| phase.exit_code = Some(1));
    good.assert_fails("error is no answer", run, |phase| {
        phase.error = Some("no answer".to_owned())
    });
}

#[test]
fn a_program_that_is_not_served_or_hardly_faster_has_failed() {
    let good = static_c();
    let native = "static C native";
    let run = "static C run";
    good.assert_fails(
        "counted.served_clocks is 16, expected at most 15",
        run,
        |phase| {
            phase.counted.served_clocks = Some(16);
        },
    );
    good.assert_fails(
        "counted.served_clocks is 299, expected at least 300",
        native,
        |phase| {
            phase.counted.served_clocks = Some(299);
        },
    );
    good.assert_fails("counted.served_clocks is missing", run, |phase| {
        phase.counted.served_clocks = None;
    });
    good.assert_fails("ns is 125.1, expected at most 125", run, |phase| {
        phase.ns = Some(125.1)
    });
    good.assert_fails("messages is tickline: not served", run, |phase| {
        phase.messages = Some("tickline: not served".to_owned());
    });
}

#[test]
fn a_program_that_exchanges_readings_must_do_so_in_order_until_the_end() {
    let good = static_c();
    let exchange = "static C served exchange";
    good.assert_fails("answers is 4", exchange, |phase| phase.answers = Some(4));
    good.assert_fails("backward is 1", exchange, |phase| phase.backward = Some(1));
    good.assert_fails("below_others is 1", exchange, |phase| {
        phase.below_others = Some(1)
    });
    good.assert_fails("error is gone", exchange, |phase| {
        phase.error = Some("gone".to_owned())
    });
    good.assert_fails("served is [true", "states", |phase| phase.served[0] = true);
    good.assert_fails(
        "served is [false, true, false, true, false, false]",
        "states",
        |phase| {
            phase.served[5] = false;
        },
    );
}

#[test]
fn a_guest_with_programs_must_be_the_wanted_one_and_do_all() {
    let good = static_c();
    good.assert_fails("clocksource is tsc", "machine", |phase| {
        phase.clocksource = Some("tsc".to_owned());
    });
    for phase in [
        "machine",
        "static C native",
        "static C run",
        "static C served exchange",
        "states",
        "end",
    ] {
        good.assert_needs(phase);
    }
}

/// With acpi_pm three quarters of a ratio are enough. Postgres is a server: it need not read both
/// clocks, and has goals of its own.
#[test]
fn postgres_must_reach_its_goals() {
    let reads = json!({ "calls": 50_000, "backward": 0, "below_os_ns": 0, "above_os_ns": 0 });
    let none = json!({ "calls": 0, "backward": 0, "below_os_ns": 0, "above_os_ns": 0 });
    let phase = |mode: &str, served: u64, ns: u64| {
        json!({ "phase": format!("Postgres {mode}"), "exit_code": 0, "lead_ns": 100, "unix_lead_ns": 100,
            "counted": { "calls": 300, "served_clocks": served },
            "monotonic": none, "realtime": reads, "ns": ns })
    };
    let mut run = phase("run", 0, 1_000);
    run["native"] = json!({ "ns": 750, "figures": { "pg_test_timing_ns": 800.8 } });
    run["figures"] =
        json!({ "pg_test_timing_ns": 100.1, "explain_on_ms": 1_500.0, "explain_off_ms": 1_000.0 });
    let good = Good::new(
        guest_with("acpi_pm-1", "Postgres"),
        &json!([
            { "phase": "machine", "clocksource": "acpi_pm" },
            phase("native", 312, 750),
            run,
            phase("preload", 0, 1_000),
            { "phase": "states", "served": [false, true, false, true, false, true] },
            { "phase": "end" },
        ]),
    );
    let run = "Postgres run";
    good.assert_fails("ns is 1000.1, expected at most 1000", run, |phase| {
        phase.ns = Some(1_000.1)
    });
    good.assert_fails("figures.pg_test_timing_ns is 100.2", run, |phase| {
        phase.figures.pg_test_timing_ns = Some(100.2);
    });
    good.assert_fails("figures.explain_on_ms is 1500.1", run, |phase| {
        phase.figures.explain_on_ms = Some(1_500.1);
    });
    good.assert_fails("counted.served_clocks is 16", "Postgres preload", |phase| {
        phase.counted.served_clocks = Some(16);
    });
    good.assert_needs("Postgres preload");
}

#[test]
fn each_step_of_the_package_must_succeed() {
    let steps = [
        "booted",
        "restarted",
        "killed",
        "switched_off",
        "started_while_off",
        "switched_on",
        "started",
        "stopped",
        "started_again",
        "upgraded",
        "unpacked_over_it",
        "removed",
        "removed_from_under_preload",
        "installed_again",
    ];
    let mut phases = vec![json!({ "phase": "machine", "clocksource": "hpet" })];
    phases.extend(steps.map(|step| json!({ "phase": step, "done": true, "reached": true })));
    let callers = ["meanwhile_run", "meanwhile_preload"];
    phases.extend(callers.map(|caller| {
        json!({ "phase": caller, "answers": 9, "backward": 0, "below_others": 0, "is_served": true })
    }));
    phases.push(json!({ "phase": "end" }));
    let good = Good::new(guest("systemd"), &phases.into());
    for step in steps {
        good.assert_fails("done is false", step, |phase| phase.done = Some(false));
        good.assert_fails("reached is false", step, |phase| {
            phase.reached = Some(false)
        });
        good.assert_needs(step);
    }
    for caller in callers {
        good.assert_fails("backward is 1", caller, |phase| phase.backward = Some(1));
        good.assert_fails("is_served is false", caller, |phase| {
            phase.is_served = Some(false)
        });
        good.assert_needs(caller);
    }
}

/// The report of a guest in which the counter serves, on one CPU.
fn counter_on_one_cpu() -> Good {
    let quiet = |name: &str| {
        json!({ "phase": name, "clocksource": "tsc", "state": "fast", "reason": null,
            "fast_percent": 50, "bounded_percent": 50, "far_percent": 10, "bound_violated": 0,
            "unix_bound_violated": 0, "narrowest_bracket_ns": 50, "unix_widest_bound_ns": 30,
            "unix_outside_ns": 130 })
    };
    Good::new(
        guest("one_cpu"),
        &json!([
            quiet("before"),
            quiet("after"),
            { "phase": "set_clock", "work": { "reached": true, "after_us": 50_000 } },
            { "phase": "program", "exit_code": 0, "output": { "fast": true, "health": { "level": "ok" } } },
            { "phase": "end", "readers": { "backward": 0, "backward_in_thread": 0, "readings": 100_000 } },
        ]),
    )
}

#[test]
fn a_counter_that_serves_keeps_its_bounds_and_the_order() {
    let good = counter_on_one_cpu();
    good.assert_fails("state is fallback", "before", |phase| {
        phase.state = Some("fallback".to_owned());
    });
    good.assert_fails("reason is slow", "after", |phase| {
        phase.reason = Some("slow".to_owned())
    });
    good.assert_fails("fast_percent is 49", "before", |phase| {
        phase.fast_percent = Some(49)
    });
    good.assert_fails("bounded_percent is 49", "before", |phase| {
        phase.bounded_percent = Some(49)
    });
    good.assert_fails("far_percent is 11", "before", |phase| {
        phase.far_percent = Some(11)
    });
    good.assert_fails("bound_violated is 1", "before", |phase| {
        phase.bound_violated = Some(1)
    });
    good.assert_fails("unix_bound_violated is 1", "after", |phase| {
        phase.unix_bound_violated = Some(1);
    });
    good.assert_fails(
        "unix_outside_ns is 131, expected at most 130",
        "before",
        |phase| {
            phase.unix_outside_ns = Some(131);
        },
    );
    good.assert_fails(
        "unix_outside_ns is 130, expected a limit, which is missing",
        "before",
        |phase| {
            phase.unix_widest_bound_ns = None;
        },
    );
    good.assert_fails("readers.backward is 1", "end", |phase| {
        phase.readers.backward = Some(1)
    });
    good.assert_fails("readers.backward_in_thread is 1", "end", |phase| {
        phase.readers.backward_in_thread = Some(1);
    });
    good.assert_fails("readers.readings is 99999", "end", |phase| {
        phase.readers.readings = Some(99_999);
    });
    good.assert_fails("work.reached is false", "set_clock", |phase| {
        phase.work.reached = Some(false)
    });
    good.assert_fails("work.after_us is 50001", "set_clock", |phase| {
        phase.work.after_us = Some(50_001);
    });
}

/// The faults of a report in which the readers of a guest, and the clock that was set, are as bad
/// as can be.
fn faults_of_the_worst_end(name: &str) -> String {
    let phases = json!([
        { "phase": "end", "readers": { "backward": 1, "backward_in_thread": 1, "readings": 200_000, "exchanges": 9 } },
        { "phase": "set_clock", "work": { "reached": false, "after_us": 50_001 } },
    ]);
    judged(&guest(name), serde_json::from_value(phases).unwrap())
}

#[test]
fn a_guest_with_several_cpus_must_have_exchanged_readings() {
    let fault = "end: readers.exchanges is 9, expected at least 10";
    assert!(faults_of_the_worst_end("tsc").contains(fault));
    assert!(!faults_of_the_worst_end("one_cpu").contains(fault));
}

#[test]
fn only_a_guest_whose_os_clock_steps_back_may_do_so_at_its_end() {
    let fault = "end: readers.backward is 1";
    assert!(faults_of_the_worst_end("tsc").contains(fault));
    assert!(!faults_of_the_worst_end("migrated").contains(fault));
}

#[test]
fn unix_time_follows_in_each_guest_and_in_time_where_its_clocks_run_as_the_hosts() {
    let follows = "set_clock: work.reached is false";
    let in_time = "set_clock: work.after_us is 50001";
    assert!(faults_of_the_worst_end("tsc").contains(follows));
    assert!(faults_of_the_worst_end("tsc").contains(in_time));
    assert!(faults_of_the_worst_end("slow_machine").contains(follows));
    assert!(!faults_of_the_worst_end("slow_machine").contains(in_time));
}

/// The faults of a report with one phase.
fn faults_of_phase(name: &str, phase: serde_json::Value) -> String {
    judged(&guest(name), vec![serde_json::from_value(phase).unwrap()])
}

#[test]
fn a_guest_must_say_why_the_counter_does_not_serve_and_what_to_do() {
    let before = json!({ "phase": "before", "state": "fallback", "reason": "slow" });
    let faults = faults_of_phase("hpet", before);
    assert!(
        faults.contains("before: reason is slow, expected \"not_invariant\""),
        "{faults}"
    );
    let program = json!({ "phase": "program", "finding": { "code": "none", "fix": "nothing" } });
    let faults = faults_of_phase("hpet", program);
    assert!(faults.contains("program: finding.code is none"), "{faults}");
    assert!(
        faults.contains("program: finding.fix is nothing"),
        "{faults}"
    );
}

#[test]
fn a_guest_has_its_own_rules_too() {
    let phase = json!({ "phase": "limiter_before", "output": { "messages": 100, "refused": 1 } });
    let faults = faults_of_phase("limiter", phase);
    assert!(
        faults.contains("limiter_before: output.refused is 1"),
        "{faults}"
    );
}

/// A guest that lacks a requirement is skipped only if it violates no check.
#[test]
fn what_a_guest_lacks_hides_no_fault() {
    let suspended = guest("suspended");
    let verdict = |more: &[Phase]| {
        let mut run = Run::unavailable("no suspend");
        run.phases.extend_from_slice(more);
        judge(&suspended, &run)
    };
    assert!(
        matches!(verdict(&[]), Err(NotPassed::Skipped(requirement)) if requirement == "no suspend")
    );
    let readers = |backward: u64| {
        let phase = json!({ "phase": "end", "readers":
            { "backward": backward, "backward_in_thread": 0, "readings": 100_000, "exchanges": 10 } });
        serde_json::from_value::<Phase>(phase).unwrap()
    };
    assert!(matches!(verdict(&[readers(0)]), Err(NotPassed::Skipped(_))));
    assert!(matches!(verdict(&[readers(1)]), Err(NotPassed::Failed(_))));
    let error = Phase {
        phase: "error".to_owned(),
        error: Some("no clock".to_owned()),
        ..Phase::default()
    };
    assert!(
        matches!(verdict(&[error]), Err(NotPassed::Failed(why)) if why == "the guest's error: no clock")
    );
}

#[test]
fn a_guest_that_broke_has_failed_whatever_it_reported() {
    let good = counter_on_one_cpu();
    let run = Run {
        phases: good.phases,
        broken: Some("no word for 300 s".to_owned()),
        ..Run::default()
    };
    let verdict = judge(&good.guest, &run);
    assert!(
        matches!(verdict, Err(NotPassed::Failed(why)) if why == "the guest broke: no word for 300 s")
    );
}

#[test]
fn a_program_that_is_not_built_excuses_no_other() {
    let checks = ["Go native", "Go preload", "Go with C native", "end"].map(|phase| {
        Check::new(
            phase,
            rule("it calls", |phase| at_least("calls", phase.calls, 1)),
        )
    });
    let missing = Phase {
        program: Some("Go".to_owned()),
        ..Phase::unavailable("not built")
    };
    assert_eq!(
        violated(&checks, &[missing]),
        [
            "Go with C native: the guest did not get there",
            "end: the guest did not get there"
        ]
    );
}

#[test]
fn counters_that_could_not_be_compared_are_skipped_only_if_they_are_not_used() {
    let is_untestable = |found: &str, state: &str, reason: &str| {
        let phase = json!({ "phase": "before", "comparison": { "found": found },
            "state": state, "reason": reason });
        untestable(&[serde_json::from_value(phase).unwrap()]).is_some()
    };
    assert!(is_untestable("impossible", "fallback", "untestable"));
    assert!(!is_untestable("impossible", "fast", "untestable"));
    assert!(!is_untestable("impossible", "fallback", "slow"));
    assert!(!is_untestable("synchronised", "fallback", "untestable"));
}

/// Symptom of a check that is left out: a step back on a busy machine would be skipped.
#[test]
fn readings_must_be_in_order_even_if_the_counters_could_not_be_compared() {
    let mut phases = counter_on_one_cpu().phases;
    let guest = guest("one_cpu");
    phases[0].comparison.found = Some("impossible".to_owned());
    phases[0].state = Some("fallback".to_owned());
    phases[0].reason = Some("untestable".to_owned());
    assert!(judged(&guest, phases.clone()).contains("too busy"));
    phases[4].readers.backward = Some(1);
    assert!(judged(&guest, phases).starts_with("end: readers.backward is 1"));
}
