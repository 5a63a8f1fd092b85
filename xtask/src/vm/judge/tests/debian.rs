//! Each fault of a program on Debian, or of the package, is found, and no other.

use super::super::super::agreed::Program;
use super::super::super::guest::Guest;
use super::super::super::phase::{
    Counted, END, Exchange, Figures, MACHINE, Measured, Native, Phase, Readings, STATES, Waited,
};
use super::{Good, guest};

/// A guest on Debian that runs only this program.
fn guest_with(name: &str, program: &str) -> Guest {
    let mut guest = guest(name);
    let others = guest.programs.iter().filter(|other| other.name != program);
    let others: Vec<String> = others.flat_map(Program::phases).collect();
    guest.checks.retain(|check| !others.contains(&check.phase));
    guest
}

/// The machine of a guest on Debian.
fn machine(clocksource: &str) -> Phase {
    Phase {
        clocksource: Some(clocksource.to_owned()),
        ..Phase::named(MACHINE)
    }
}

/// A page is served whenever the server is there.
fn states() -> Phase {
    Phase {
        states: Some(vec![false, true, false, true, false, true]),
        ..Phase::named(STATES)
    }
}

/// A program that calls both clocks in order, in a mode in which a call takes so long.
fn program(name: &str, served_clocks: u64, ns: f64) -> Phase {
    let readings = Readings {
        calls: 50_000,
        ..Readings::default()
    };
    Phase {
        measured: Some(Measured {
            monotonic: readings.clone(),
            realtime: readings,
            ns: Some(ns),
            exit_code: Some(0),
            lead_ns: 100,
            unix_lead_ns: 100,
            ..Measured::default()
        }),
        counted: Some(Counted {
            calls: 300,
            served_clocks,
            ..Counted::default()
        }),
        ..Phase::named(name)
    }
}

fn measured(phase: &mut Phase) -> &mut Measured {
    phase.measured.as_mut().unwrap()
}

fn count(phase: &mut Phase, served_clocks: u64) {
    phase.counted.as_mut().unwrap().served_clocks = served_clocks;
}

/// A program that has answered nine times.
fn exchange(name: &str) -> Phase {
    Phase {
        exchange: Some(Exchange {
            answers: 9,
            readings: Readings {
                calls: 4_500,
                ..Readings::default()
            },
        }),
        ..Phase::named(name)
    }
}

/// A program that calls both clocks, with hpet, where a call costs 1 us.
fn static_c() -> Good {
    let mut run = program("static C run", 15, 125.0);
    measured(&mut run).monotonic.above_os_ns = 100;
    measured(&mut run).realtime.above_os_ns = 100;
    run.messages = Some("tickline: it has the clock of a page".to_owned());
    run.native = Some(Native {
        ns: Some(1_000.0),
        ..Native::default()
    });
    Good::new(
        guest_with("hpet-1", "static C"),
        [
            machine("hpet"),
            program("static C native", 600, 1_000.0),
            run,
            exchange("static C served exchange"),
            states(),
            Phase::named(END),
        ],
    )
}

#[test]
fn a_program_whose_time_steps_back_or_leaves_the_os_clock_has_failed() {
    let good = static_c();
    let native = "static C native";
    let run = "static C run";
    good.assert_fails("measured.monotonic.backward is 1", run, |phase| {
        measured(phase).monotonic.backward = 1;
    });
    good.assert_fails("measured.realtime.backward is 1", run, |phase| {
        measured(phase).realtime.backward = 1;
    });
    good.assert_fails("measured.realtime.above_os_ns is 101", run, |phase| {
        measured(phase).realtime.above_os_ns = 101;
    });
    good.assert_fails("measured.monotonic.above_os_ns is 101", run, |phase| {
        measured(phase).monotonic.above_os_ns = 101;
    });
    good.assert_fails("measured.realtime.above_os_ns is 1", native, |phase| {
        measured(phase).realtime.above_os_ns = 1;
    });
    good.assert_fails("measured.monotonic.above_os_ns is 1", native, |phase| {
        measured(phase).monotonic.above_os_ns = 1;
    });
    good.assert_fails("measured.monotonic.below_os_ns is 99", run, |phase| {
        measured(phase).monotonic.below_os_ns = 99;
    });
    good.assert_fails("measured.realtime.below_os_ns is 99", run, |phase| {
        measured(phase).realtime.below_os_ns = 99;
    });
}

#[test]
fn a_program_that_does_not_call_the_clock_or_ends_with_an_error_has_failed() {
    let good = static_c();
    let native = "static C native";
    let run = "static C run";
    good.assert_fails("measured.realtime.calls is 0", native, |phase| {
        measured(phase).realtime.calls = 0;
    });
    good.assert_fails("measured.monotonic.calls is 0", native, |phase| {
        measured(phase).monotonic.calls = 0;
    });
    good.assert_fails("measured.exit_code is 1", run, |phase| {
        measured(phase).exit_code = Some(1);
    });
    good.assert_fails("error is no answer", run, |phase| {
        phase.error = Some("no answer".to_owned())
    });
}

#[test]
fn a_program_that_is_not_served_or_hardly_faster_has_failed() {
    let good = static_c();
    let native = "static C native";
    let run = "static C run";
    let fault = "counted.served_clocks is 16, expected at most 15";
    good.assert_fails(fault, run, |phase| count(phase, 16));
    let fault = "counted.served_clocks is 299, expected at least 300";
    good.assert_fails(fault, native, |phase| count(phase, 299));
    good.assert_fails("counted.served_clocks is missing", run, |phase| {
        phase.counted = None;
    });
    let fault = "measured.ns is 125.1, expected at most 125";
    good.assert_fails(fault, run, |phase| measured(phase).ns = Some(125.1));
    good.assert_fails("messages is tickline: not served", run, |phase| {
        phase.messages = Some("tickline: not served".to_owned());
    });
}

fn exchanged(phase: &mut Phase) -> &mut Exchange {
    phase.exchange.as_mut().unwrap()
}

#[test]
fn a_program_that_exchanges_readings_must_do_so_in_order_until_the_end() {
    let good = static_c();
    let exchange = "static C served exchange";
    good.assert_fails("exchange.answers is 4", exchange, |phase| {
        exchanged(phase).answers = 4;
    });
    good.assert_fails("exchange.readings.calls is 0", exchange, |phase| {
        exchanged(phase).readings.calls = 0;
    });
    good.assert_fails("exchange.readings.backward is 1", exchange, |phase| {
        exchanged(phase).readings.backward = 1;
    });
    good.assert_fails("exchange.readings.below_others is 1", exchange, |phase| {
        exchanged(phase).readings.below_others = 1;
    });
    good.assert_fails("error is gone", exchange, |phase| {
        phase.error = Some("gone".to_owned())
    });
    for state in 0..6 {
        good.assert_fails("states is [", STATES, |phase| {
            let is_served = &mut phase.states.as_mut().unwrap()[state];
            *is_served = !*is_served;
        });
    }
}

#[test]
fn a_guest_with_programs_must_be_the_wanted_one_and_do_all() {
    let good = static_c();
    good.assert_fails("clocksource is tsc", MACHINE, |phase| {
        phase.clocksource = Some("tsc".to_owned());
    });
    for phase in [
        MACHINE,
        "static C native",
        "static C run",
        "static C served exchange",
        STATES,
        END,
    ] {
        good.assert_needs(phase);
    }
}

/// With acpi_pm three quarters of a ratio are enough. Postgres is a server: it need not read both
/// clocks, and has goals of its own.
#[test]
fn postgres_must_reach_its_goals() {
    let postgres = |mode: &str, served_clocks, ns| {
        let mut phase = program(&format!("Postgres {mode}"), served_clocks, ns);
        measured(&mut phase).monotonic.calls = 0;
        phase
    };
    let mut run = postgres("run", 0, 1_000.0);
    measured(&mut run).figures = Figures {
        pg_test_timing_ns: Some(100.1),
        explain_on_ms: Some(1_500.0),
        explain_off_ms: Some(1_000.0),
    };
    run.native = Some(Native {
        ns: Some(750.0),
        figures: Figures {
            pg_test_timing_ns: Some(800.8),
            ..Figures::default()
        },
    });
    let good = Good::new(
        guest_with("acpi_pm-1", "Postgres"),
        [
            machine("acpi_pm"),
            postgres("native", 312, 750.0),
            run,
            postgres("preload", 0, 1_000.0),
            states(),
            Phase::named(END),
        ],
    );
    let run = "Postgres run";
    let fault = "measured.ns is 1000.1, expected at most 1000";
    good.assert_fails(fault, run, |phase| measured(phase).ns = Some(1_000.1));
    let fault = "measured.figures.pg_test_timing_ns is 100.2";
    good.assert_fails(fault, run, |phase| {
        measured(phase).figures.pg_test_timing_ns = Some(100.2);
    });
    let fault = "measured.figures.explain_on_ms is 1500.1";
    good.assert_fails(fault, run, |phase| {
        measured(phase).figures.explain_on_ms = Some(1_500.1);
    });
    good.assert_fails("counted.served_clocks is 16", "Postgres preload", |phase| {
        count(phase, 16);
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
    let callers = ["meanwhile_run", "meanwhile_preload"];
    let mut phases = vec![machine("hpet")];
    phases.extend(steps.map(|step| Phase {
        done: Some(true),
        waited: Some(Waited {
            reached: true,
            ..Waited::default()
        }),
        ..Phase::named(step)
    }));
    phases.extend(callers.map(|caller| Phase {
        is_served: Some(true),
        ..exchange(caller)
    }));
    phases.push(Phase::named(END));
    let good = Good::new(guest("systemd"), phases);
    for step in steps {
        good.assert_fails("done is false", step, |phase| phase.done = Some(false));
        good.assert_fails("waited.reached is false", step, |phase| {
            phase.waited = Some(Waited::default())
        });
        good.assert_needs(step);
    }
    for caller in callers {
        good.assert_fails("exchange.readings.backward is 1", caller, |phase| {
            exchanged(phase).readings.backward = 1;
        });
        good.assert_fails("is_served is false", caller, |phase| {
            phase.is_served = Some(false)
        });
        good.assert_needs(caller);
    }
}
