//! What the program `tickline` says, and programs that read the clock.

use super::super::check::{
    Rule, at_least, at_least_that, at_most_that, equals, has, is, is_false, is_not, is_true, rule,
};

pub(super) fn program_says_counter() -> Vec<Rule> {
    vec![
        rule("the program tickline says the same", |phase| {
            is_true("output.fast", phase.output.fast)
        }),
        right_exit_code(),
    ]
}

pub(super) fn program_says_os_clock() -> Vec<Rule> {
    vec![
        rule("the program tickline says the same", |phase| {
            is_false("output.fast", phase.output.fast)
        }),
        right_exit_code(),
    ]
}

fn right_exit_code() -> Rule {
    rule(
        "the exit code is 1 if a clock is slow or wrong, or the OS clock serves",
        |phase| {
            let output = &phase.output;
            let is_bad = matches!(output.health.level.as_deref(), Some("slow" | "wrong"));
            let is_negative = is_bad || output.fast != Some(true);
            equals("exit_code", phase.exit_code, u64::from(is_negative))
        },
    )
}

fn works() -> Rule {
    rule("the program does its work", |phase| {
        equals("exit_code", phase.exit_code, 0)
    })
}

fn after_the_program_before() -> Rule {
    rule(
        "its time is not before that of the program before",
        |phase| {
            at_least_that(
                "output.first_ns",
                phase.output.first_ns,
                phase.last_ns_before,
            )
        },
    )
}

/// A static program that reads the clock works, and its time is right.
pub(super) fn caller_works() -> Vec<Rule> {
    vec![
        works(),
        rule(
            "each call of the kernel's clock is a system call",
            |phase| is("clocksource", phase.clocksource.as_deref(), "hpet"),
        ),
        rule("it has called the clock", |phase| {
            at_least("output.call_ns", phase.output.call_ns, 1)
        }),
        rule("its time never steps back", |phase| {
            equals("output.backward", phase.output.backward, 0)
        }),
        after_the_program_before(),
    ]
}

/// Each call of the kernel's clock would be a system call.
pub(super) fn caller_served() -> Vec<Rule> {
    vec![
        rule("it is served", |phase| {
            let text = "/init has the clock of /run/tickline/page.v1";
            has("errors", phase.errors.as_deref(), text)
        }),
        rule(
            "three times as fast a call, though the host be busy",
            |phase| {
                let third_ns = phase.native.call_ns.map(|ns| ns / 3);
                at_most_that("output.call_ns", phase.output.call_ns, third_ns)
            },
        ),
    ]
}

pub(super) fn server_stopped() -> Rule {
    rule("the server ends in order", |phase| {
        has("server", phase.server.as_deref(), "the leases have run out")
    })
}

pub(super) fn time_stands_still() -> Vec<Rule> {
    vec![
        works(),
        rule("its time stands still where the line was ahead", |phase| {
            equals("output.backward", phase.output.backward, 0)
        }),
        after_the_program_before(),
    ]
}

pub(super) fn watch_works() -> Rule {
    rule("tickline watch has watched", |phase| {
        is("errors", phase.errors.as_deref(), "")
    })
}

pub(super) fn watch_sees_each_jump() -> Rule {
    rule("tickline watch has seen each jump", |phase| {
        equals("jumps", phase.jumps, 3)
    })
}

pub(super) fn tsc_taken() -> Rule {
    rule(
        "doctor --fix takes the TSC, after a comparison of the CPUs",
        |phase| is("clocksource", phase.clocksource.as_deref(), "tsc"),
    )
}

/// The limiter gets 100 messages, half of them on each of two CPUs.
pub(super) fn limiter_lets_all_pass() -> Vec<Rule> {
    vec![
        rule("the program has run", |phase| {
            at_least("output.messages", phase.output.messages, 100)
        }),
        rule("governor lets each message pass", |phase| {
            equals("output.refused", phase.output.refused, 0)
        }),
    ]
}

pub(super) fn limiter_refuses_one_cpu() -> Vec<Rule> {
    vec![
        rule("over quanta it refuses nearly all of one CPU", |phase| {
            at_least("output.refused", phase.output.refused, 40)
        }),
        rule("because its clock steps back", |phase| {
            at_least("output.backward", phase.output.backward, 40)
        }),
    ]
}

pub(super) fn limiter_never_steps_back() -> Rule {
    rule("its clock never steps back", |phase| {
        equals("output.backward", phase.output.backward, 0)
    })
}

/// The counters differ by 2^32 ticks, less what the host takes.
pub(super) fn difference_found() -> Vec<Rule> {
    vec![
        rule(
            "a comparison finds by how much the counters differ",
            |phase| {
                let found = phase.output.machine.counter_difference_ticks;
                at_least(
                    "output.machine.counter_difference_ticks",
                    found,
                    4_000_000_000,
                )
            },
        ),
        rule("the TSC must not be chosen", |phase| {
            let fix = phase
                .finding
                .as_ref()
                .and_then(|finding| finding.fix.as_deref());
            is("finding.fix", fix, "none: the counters are unsynchronised")
        }),
    ]
}

pub(super) fn time_confirmed() -> Rule {
    rule("a daemon confirms the time", |phase| {
        equals("exit_code", phase.exit_code, 0)
    })
}

pub(super) fn offset_known() -> Rule {
    rule("the offset is known", |phase| {
        equals("exit_code", phase.exit_code, 1)
    })
}

pub(super) fn flag_left() -> Rule {
    rule("chronyd leaves the flag without rtcsync", |phase| {
        is_false("kernel_synchronised", phase.kernel_synchronised)
    })
}

pub(super) fn flag_cleared() -> Vec<Rule> {
    vec![
        rule("chronyd clears the flag with rtcsync", |phase| {
            is_true("kernel_synchronised", phase.kernel_synchronised)
        }),
        rule("there is no such finding", |phase| {
            is_not("finding.code", phase.finding_code(), "ntp_flag")
        }),
    ]
}
