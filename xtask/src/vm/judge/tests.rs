//! Each fault of a guest is found, and no other.

use super::super::check::{at_least, figure, rule};
use super::super::guest::all;
use super::super::phase::{
    AFTER, BEFORE, Comparison, Diagnosis, END, ERROR, Finding, Health, Limited, ProgramRun,
    Readers, SET_CLOCK, Waited, Watched,
};
use super::*;

mod debian;
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

/// A report without faults.
struct Good {
    guest: Guest,
    phases: Vec<Phase>,
}

impl Good {
    fn new(guest: Guest, phases: impl Into<Vec<Phase>>) -> Self {
        let phases = phases.into();
        assert_eq!(judged(&guest, phases.clone()), "");
        Self { guest, phases }
    }

    /// Changes a phase of the report, which must then have this fault and no other.
    fn assert_fails(&self, expected: &str, phase: &str, change: impl Fn(&mut Phase)) {
        let mut phases = self.phases.clone();
        let changed = phases.iter_mut().find(|one| one.name == phase).unwrap();
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
        phases.retain(|one| one.name != phase);
        let faults = judged(&self.guest, phases);
        for fault in faults.lines() {
            assert_eq!(fault, format!("{phase}: the guest did not get there"));
        }
        assert!(!faults.is_empty(), "{phase}");
    }
}

/// A phase with a clock that the counter serves, but not always.
fn quiet(name: &str) -> Phase {
    Phase {
        clocksource: Some("tsc".to_owned()),
        watched: Some(Watched {
            state: "fast".to_owned(),
            fast_percent: 50,
            bounded_percent: 50,
            far_percent: 10,
            narrowest_bracket_ns: Some(50),
            unix_widest_bound_ns: 30,
            unix_outside_ns: 130,
            ..Watched::default()
        }),
        ..Phase::named(name)
    }
}

fn watched(phase: &mut Phase) -> &mut Watched {
    phase.watched.as_mut().unwrap()
}

/// The end of a guest with these readers.
fn end(readers: Readers) -> Phase {
    Phase {
        readers: Some(readers),
        ..Phase::named(END)
    }
}

/// The clock was set, and Unix time has followed or not.
fn set_clock(reached: bool, after_us: u64) -> Phase {
    Phase {
        waited: Some(Waited { reached, after_us }),
        ..Phase::named(SET_CLOCK)
    }
}

/// The program `tickline` says that the clock is fast, and that the machine is in order.
fn diagnosis() -> Phase {
    Phase {
        program: Some(ProgramRun {
            exit_code: Some(0),
            ..ProgramRun::default()
        }),
        diagnosis: Some(Diagnosis {
            fast: true,
            health: Health {
                level: "ok".to_owned(),
            },
            ..Diagnosis::default()
        }),
        ..Phase::named("program")
    }
}

/// The report of a guest in which the counter serves, on one CPU.
fn counter_on_one_cpu() -> Good {
    let readers = Readers {
        readings: 100_000,
        ..Readers::default()
    };
    let phases = [
        quiet(BEFORE),
        quiet(AFTER),
        set_clock(true, 50_000),
        diagnosis(),
        end(readers),
    ];
    Good::new(guest("one_cpu"), phases)
}

#[test]
fn a_counter_that_serves_keeps_its_bounds_and_the_order() {
    let good = counter_on_one_cpu();
    good.assert_fails("watched.state is fallback", BEFORE, |phase| {
        watched(phase).state = "fallback".to_owned();
    });
    good.assert_fails("watched.reason is slow", AFTER, |phase| {
        watched(phase).reason = Some("slow".to_owned());
    });
    good.assert_fails("watched.fast_percent is 49", BEFORE, |phase| {
        watched(phase).fast_percent = 49;
    });
    good.assert_fails("watched.bounded_percent is 49", BEFORE, |phase| {
        watched(phase).bounded_percent = 49;
    });
    good.assert_fails("watched.far_percent is 11", BEFORE, |phase| {
        watched(phase).far_percent = 11;
    });
    good.assert_fails("watched.bound_violated is 1", BEFORE, |phase| {
        watched(phase).bound_violated = 1;
    });
    good.assert_fails("watched.unix_bound_violated is 1", AFTER, |phase| {
        watched(phase).unix_bound_violated = 1;
    });
    let fault = "watched.unix_outside_ns is 131, expected at most 130";
    good.assert_fails(fault, BEFORE, |phase| watched(phase).unix_outside_ns = 131);
    let fault = "watched.unix_outside_ns is 130, expected a limit, which is missing";
    good.assert_fails(fault, BEFORE, |phase| {
        watched(phase).narrowest_bracket_ns = None;
    });
    let readers = |phase: &mut Phase, change: fn(&mut Readers)| {
        change(phase.readers.as_mut().unwrap());
    };
    good.assert_fails("readers.backward is 1", END, |phase| {
        readers(phase, |readers| readers.backward = 1);
    });
    good.assert_fails("readers.backward_in_thread is 1", END, |phase| {
        readers(phase, |readers| readers.backward_in_thread = 1);
    });
    good.assert_fails("readers.readings is 99999", END, |phase| {
        readers(phase, |readers| readers.readings = 99_999);
    });
    good.assert_fails("waited.reached is false", SET_CLOCK, |phase| {
        *phase = set_clock(false, 50_000);
    });
    good.assert_fails("waited.after_us is 50001", SET_CLOCK, |phase| {
        *phase = set_clock(true, 50_001);
    });
}

/// The faults of a report in which the readers of a guest, and the clock that was set, are as bad
/// as can be.
fn faults_of_the_worst_end(name: &str) -> String {
    let readers = Readers {
        readings: 200_000,
        exchanges: 9,
        backward: 1,
        backward_in_thread: 1,
        ..Readers::default()
    };
    judged(&guest(name), vec![end(readers), set_clock(false, 50_001)])
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
    let follows = "set_clock: waited.reached is false";
    let in_time = "set_clock: waited.after_us is 50001";
    assert!(faults_of_the_worst_end("tsc").contains(follows));
    assert!(faults_of_the_worst_end("tsc").contains(in_time));
    assert!(faults_of_the_worst_end("slow_machine").contains(follows));
    assert!(!faults_of_the_worst_end("slow_machine").contains(in_time));
}

#[test]
fn a_guest_must_say_why_the_counter_does_not_serve() {
    let mut before = quiet(BEFORE);
    watched(&mut before).reason = Some("slow".to_owned());
    let faults = judged(&guest("hpet"), vec![before]);
    let fault = "before: watched.reason is slow, expected \"not_invariant\"";
    assert!(faults.contains(fault), "{faults}");
}

#[test]
fn the_program_tickline_must_say_what_is_wrong_and_what_to_do() {
    let program = Phase {
        finding: Some(Finding {
            code: "none".to_owned(),
            fix: "nothing".to_owned(),
            gain_ratio: None,
        }),
        ..Phase::named("program")
    };
    let faults = judged(&guest("hpet"), vec![program]);
    for fault in ["finding.code is none", "finding.fix is nothing"] {
        assert!(faults.contains(&format!("program: {fault}")), "{faults}");
    }
}

#[test]
fn a_guest_has_its_own_rules_too() {
    let limiter = Phase {
        limited: Some(Limited {
            messages: 100,
            refused: 1,
            backward: 0,
        }),
        ..Phase::named("limiter_before")
    };
    let faults = judged(&guest("limiter"), vec![limiter]);
    let fault = "limiter_before: limited.refused is 1";
    assert!(faults.contains(fault), "{faults}");
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
    let end = |backward: u64| {
        end(Readers {
            readings: 100_000,
            exchanges: 10,
            backward,
            ..Readers::default()
        })
    };
    assert!(matches!(verdict(&[end(0)]), Err(NotPassed::Skipped(_))));
    assert!(matches!(verdict(&[end(1)]), Err(NotPassed::Failed(_))));
    let error = Phase {
        error: Some("no clock".to_owned()),
        ..Phase::named(ERROR)
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
        broken: Some("no phase for 300 s".to_owned()),
        ..Run::default()
    };
    let verdict = judge(&good.guest, &run);
    assert!(
        matches!(verdict, Err(NotPassed::Failed(why)) if why == "the guest broke: no phase for 300 s")
    );
}

#[test]
fn a_program_that_is_not_built_excuses_no_other() {
    let checks = ["Go native", "Go preload", "Go with C native", END].map(|phase| {
        Check::new(
            phase,
            rule("it calls", |phase| {
                at_least(figure!(phase.measured.realtime.calls), 1)
            }),
        )
    });
    let missing = Phase::unavailable("not built", Some("Go".to_owned()));
    assert_eq!(
        violated(&checks, &[missing]),
        [
            "Go with C native: the guest did not get there",
            "end: the guest did not get there"
        ]
    );
}

/// A phase with a clock that has compared the counters.
fn compared(found: Found, state: &str, reason: &str) -> Phase {
    let mut phase = quiet(BEFORE);
    watched(&mut phase).state = state.to_owned();
    watched(&mut phase).reason = Some(reason.to_owned());
    phase.comparison = Some(Comparison {
        found,
        ..Comparison::default()
    });
    phase
}

#[test]
fn counters_that_could_not_be_compared_are_skipped_only_if_they_are_not_used() {
    let is_untestable =
        |found, state, reason| untestable(&[compared(found, state, reason)]).is_some();
    assert!(is_untestable(Found::Impossible, "fallback", "untestable"));
    assert!(!is_untestable(Found::Impossible, "fast", "untestable"));
    assert!(!is_untestable(Found::Impossible, "fallback", "slow"));
    assert!(!is_untestable(
        Found::Synchronised,
        "fallback",
        "untestable"
    ));
}

/// Symptom of a check that is left out: a step back on a busy machine would be skipped.
#[test]
fn readings_must_be_in_order_even_if_the_counters_could_not_be_compared() {
    let mut phases = counter_on_one_cpu().phases;
    let guest = guest("one_cpu");
    phases[0] = compared(Found::Impossible, "fallback", "untestable");
    assert!(judged(&guest, phases.clone()).contains("too busy"));
    phases[4].readers.as_mut().unwrap().backward = 1;
    assert!(judged(&guest, phases).starts_with("end: readers.backward is 1"));
}
