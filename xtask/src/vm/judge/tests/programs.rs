//! What the program `tickline` and a program that it serves must say.

use serde_json::json;

use super::super::super::expected::Group;
use super::{Good, counter_on_one_cpu, guest};

#[test]
fn the_program_tickline_ends_as_its_output_says() {
    let good = counter_on_one_cpu();
    good.assert_fails("output.fast is false", "program", |phase| {
        phase.output.fast = Some(false);
        phase.exit_code = Some(1);
    });
    good.assert_fails("exit_code is 1, expected exactly 0", "program", |phase| {
        phase.exit_code = Some(1)
    });
    for level in ["slow", "wrong"] {
        good.assert_fails("exit_code is 0, expected exactly 1", "program", |phase| {
            phase.output.health.level = Some(level.to_owned())
        });
    }
}

#[test]
fn a_program_that_says_counter_where_the_os_clock_serves_has_failed() {
    let mut guest = guest("hpet_rejected");
    guest.checks = Group::ProgramSaysOsClock.checks("program").collect();
    let output = json!({ "fast": false, "health": { "level": "slow" } });
    let program = json!({ "phase": "program", "exit_code": 1, "output": output });
    let good = Good::new(guest, &json!([program]));
    for fast in [Some(true), None] {
        good.assert_fails("output.fast is ", "program", |phase| {
            phase.output.fast = fast
        });
    }
}

/// A report of a guest in which a static program is served.
fn served() -> Good {
    let phase = |name: &str, call_ns: u64, messages: &str| {
        json!({ "phase": name, "exit_code": 0, "clocksource": "hpet", "last_ns_before": 20,
            "errors": "tickline: /init has the clock of /run/tickline/page.v1", "server": messages,
            "output": { "first_ns": 20, "last_ns": 20, "backward": 0, "call_ns": call_ns },
            "native": { "first_ns": 10, "last_ns": 20, "backward": 0, "call_ns": 301 } })
    };
    let mut guest = guest("served");
    let phases = [
        phase("served", 100, ""),
        phase("server_killed", 300, ""),
        phase("served_again", 100, ""),
        phase("server_stopped", 300, "the leases have run out"),
        phase("os_ran_ahead", 300, ""),
    ];
    let own: Vec<_> = phases.iter().map(|phase| &phase["phase"]).collect();
    guest
        .checks
        .retain(|check| own.contains(&&json!(check.phase)));
    Good::new(guest, &json!(phases))
}

#[test]
fn a_static_program_reads_no_time_before_that_of_the_program_before() {
    let good = served();
    for phase in ["served", "server_stopped", "os_ran_ahead"] {
        good.assert_fails(
            "output.first_ns is 19, expected at least 20",
            phase,
            |phase| phase.output.first_ns = Some(19),
        );
        good.assert_fails("output.first_ns is 20, expected a limit", phase, |phase| {
            phase.last_ns_before = None
        });
    }
}

#[test]
fn a_static_program_that_is_served_calls_the_clock_in_a_third_of_the_time() {
    let good = served();
    let fault = "output.call_ns is 101, expected at most 100";
    for phase in ["served", "served_again"] {
        good.assert_fails(fault, phase, |phase| phase.output.call_ns = Some(101));
    }
}
