//! What the program `tickline` and a program that it serves must say.

use super::super::super::expected::Group;
use super::super::super::phase::{
    Called, Caller, Diagnosis, Finding, Health, Phase, ProgramRun, Served, Who,
};
use super::{Good, counter_on_one_cpu, guest};

fn diagnosis(phase: &mut Phase) -> &mut Diagnosis {
    phase.diagnosis.as_mut().unwrap()
}

fn exit(phase: &mut Phase, code: i32) {
    phase.program.as_mut().unwrap().exit_code = Some(code);
}

fn health(level: &str) -> Health {
    Health {
        level: level.to_owned(),
    }
}

#[test]
fn the_program_tickline_ends_as_its_output_says() {
    let good = counter_on_one_cpu();
    good.assert_fails("diagnosis.fast is false", "program", |phase| {
        diagnosis(phase).fast = false;
        exit(phase, 1);
    });
    let fault = "program.exit_code is 1, expected exactly 0";
    good.assert_fails(fault, "program", |phase| exit(phase, 1));
    let fault = "program.exit_code is 0, expected exactly 1";
    for level in ["slow", "wrong"] {
        good.assert_fails(fault, "program", |phase| {
            diagnosis(phase).health = health(level);
        });
    }
}

#[test]
fn a_program_that_says_counter_where_the_os_clock_serves_has_failed() {
    let mut guest = guest("hpet_rejected");
    guest.checks = Group::ProgramSaysOsClock.checks("program").collect();
    let program = Phase {
        program: Some(ProgramRun {
            exit_code: Some(1),
            ..ProgramRun::default()
        }),
        diagnosis: Some(Diagnosis {
            fast: false,
            health: health("slow"),
            ..Diagnosis::default()
        }),
        ..Phase::named("program")
    };
    let good = Good::new(guest, [program]);
    good.assert_fails("diagnosis.fast is true", "program", |phase| {
        diagnosis(phase).fast = true;
    });
    good.assert_fails("diagnosis.fast is missing", "program", |phase| {
        phase.diagnosis = None;
    });
}

#[test]
fn a_cleared_flag_needs_a_diagnosis_without_that_finding() {
    let mut guest = guest("chrony");
    guest.checks = Group::FlagCleared.checks("program").collect();
    let program = Phase {
        kernel_synchronised: Some(true),
        ..super::diagnosis()
    };
    let good = Good::new(guest, [program]);
    good.assert_fails("kernel_synchronised is false", "program", |phase| {
        phase.kernel_synchronised = Some(false);
    });
    good.assert_fails("diagnosis.fast is missing", "program", |phase| {
        phase.diagnosis = None;
    });
    good.assert_fails("finding.code is ntp_flag", "program", |phase| {
        phase.finding = Some(Finding {
            code: "ntp_flag".to_owned(),
            ..Finding::default()
        });
    });
}

/// A report of a guest in which a static program is served.
fn good_served() -> Good {
    let phase = |name: &str, call_ns: u64, messages: &str| Phase {
        clocksource: Some("hpet".to_owned()),
        program: Some(ProgramRun {
            exit_code: Some(0),
            errors: "tickline: /init has the clock of /run/tickline/page.v1".to_owned(),
            ..ProgramRun::default()
        }),
        called: Some(Called {
            first_ns: 20,
            last_ns: 20,
            backward: 0,
            call_ns,
        }),
        served: Some(Served {
            native_call_ns: Some(301),
            last_ns_before: Some(20),
            server: Some(messages.to_owned()),
        }),
        ..Phase::named(name)
    };
    let mut guest = guest("served");
    let phases = [
        phase("served", 100, ""),
        phase("server_killed", 300, ""),
        phase("served_again", 100, ""),
        phase("server_stopped", 300, "the leases have run out"),
        phase("os_ran_ahead", 300, ""),
    ];
    let is_own = |name: &str| phases.iter().any(|phase| phase.name == name);
    guest.checks.retain(|check| is_own(&check.phase));
    Good::new(guest, phases)
}

fn called(phase: &mut Phase) -> &mut Called {
    phase.called.as_mut().unwrap()
}

#[test]
fn a_static_program_reads_no_time_before_that_of_the_program_before() {
    let good = good_served();
    for phase in ["served", "server_stopped", "os_ran_ahead"] {
        let fault = "called.first_ns is 19, expected at least 20";
        good.assert_fails(fault, phase, |phase| called(phase).first_ns = 19);
        let fault = "called.first_ns is 20, expected a limit";
        good.assert_fails(fault, phase, |phase| {
            phase.served.as_mut().unwrap().last_ns_before = None;
        });
    }
}

#[test]
fn a_static_program_that_is_served_calls_the_clock_in_a_third_of_the_time() {
    let good = good_served();
    let fault = "called.call_ns is 101, expected at most 100";
    for phase in ["served", "served_again"] {
        good.assert_fails(fault, phase, |phase| called(phase).call_ns = 101);
    }
}

#[test]
fn a_call_must_cost_less_when_fixed() {
    let mut guest = guest("who");
    guest.checks = Group::WhoCounts.checks("who_hpet").collect();
    let phase = Phase {
        clocksource: Some("hpet".to_owned()),
        program: Some(ProgramRun {
            exit_code: Some(0),
            ..ProgramRun::default()
        }),
        who: Some(Who {
            first_is_asker: true,
            core_permille: Some(100),
            fixed_core_permille: Some(100),
            counted_permille: Some(1_000),
            ..Who::default()
        }),
        asker: Some(Caller {
            process: Some("asker".to_owned()),
            clock: "clock_gettime MONOTONIC".to_owned(),
            ..Caller::default()
        }),
        ..Phase::named("who_hpet")
    };
    let good = Good::new(guest, [phase]);
    let fault = "who.fixed_core_permille is 101, expected at most 100";
    good.assert_fails(fault, "who_hpet", |phase| {
        phase.who.as_mut().unwrap().fixed_core_permille = Some(101);
    });
    good.assert_fails("who.fixed_core_permille is missing", "who_hpet", |phase| {
        phase.who.as_mut().unwrap().fixed_core_permille = None;
    });
}

#[test]
fn a_watch_must_end_without_an_error_and_with_a_count_of_jumps() {
    let mut guest = guest("migrated");
    guest.checks = Group::WatchWorks.checks("watched").collect();
    let phase = Phase {
        program: Some(ProgramRun::default()),
        jumps: Some(0),
        ..Phase::named("watched")
    };
    let good = Good::new(guest, [phase]);
    good.assert_fails("program.errors is no counter", "watched", |phase| {
        phase.program.as_mut().unwrap().errors = "no counter".to_owned();
    });
    good.assert_fails("jumps is missing", "watched", |phase| phase.jumps = None);
}
