//! What the program `tickline` says, and programs that read the clock.

use super::super::check::{
    Rule, at_least, at_least_that, at_most_that, equals, figure, has, is, is_false, is_not,
    is_true, rule,
};
use super::super::phase::Diagnosis;

pub(super) fn program_says_counter() -> Vec<Rule> {
    vec![
        rule("the program tickline says the same", |phase| {
            is_true(figure!(phase.diagnosis.fast))
        }),
        right_exit_code(),
    ]
}

pub(super) fn program_says_os_clock() -> Vec<Rule> {
    vec![
        rule("the program tickline says the same", |phase| {
            is_false(figure!(phase.diagnosis.fast))
        }),
        right_exit_code(),
    ]
}

fn right_exit_code() -> Rule {
    rule(
        "the exit code is 1 if a clock is slow or wrong, or the OS clock serves",
        |phase| {
            let diagnosis = phase.diagnosis.as_ref();
            let is_negative = diagnosis.is_none_or(|Diagnosis { fast, health, .. }| {
                matches!(&*health.level, "slow" | "wrong") || !fast
            });
            equals(figure!(phase.program.exit_code), i32::from(is_negative))
        },
    )
}

fn works() -> Rule {
    rule("the program does its work", |phase| {
        equals(figure!(phase.program.exit_code), 0)
    })
}

fn after_the_program_before() -> Rule {
    rule(
        "its time is not before that of the program before",
        |phase| {
            let served = phase.served.as_ref();
            let last_ns_before = served.and_then(|served| served.last_ns_before);
            at_least_that(figure!(phase.called.first_ns), last_ns_before)
        },
    )
}

/// A static program that reads the clock works, and its time is right.
pub(super) fn caller_works() -> Vec<Rule> {
    vec![
        works(),
        rule(
            "each call of the kernel's clock is a system call",
            |phase| is(figure!(phase.clocksource), "hpet"),
        ),
        rule("it has called the clock", |phase| {
            at_least(figure!(phase.called.call_ns), 1)
        }),
        rule("its time never steps back", |phase| {
            equals(figure!(phase.called.backward), 0)
        }),
        after_the_program_before(),
    ]
}

/// Each call of the kernel's clock would be a system call.
pub(super) fn caller_served() -> Vec<Rule> {
    vec![
        rule("it is served", |phase| {
            let text = "/init has the clock of /run/tickline/page.v1";
            has(figure!(phase.program.errors), text)
        }),
        rule(
            "three times as fast a call, though the host be busy",
            |phase| {
                let served = phase.served.as_ref();
                let native_ns = served.and_then(|served| served.native_call_ns);
                at_most_that(figure!(phase.called.call_ns), native_ns.map(|ns| ns / 3))
            },
        ),
    ]
}

pub(super) fn server_stopped() -> Rule {
    rule("the server ends in order", |phase| {
        has(figure!(phase.served.server), "the leases have run out")
    })
}

pub(super) fn time_stands_still() -> Vec<Rule> {
    vec![
        works(),
        rule("its time stands still where the line was ahead", |phase| {
            equals(figure!(phase.called.backward), 0)
        }),
        after_the_program_before(),
    ]
}

/// Where the OS clock jumps with the counter, the watch sees no jump.
pub(super) fn watch_works() -> Vec<Rule> {
    vec![
        rule("tickline watch has watched", |phase| {
            is(figure!(phase.program.errors), "")
        }),
        rule("and says how many jumps it has seen", |phase| {
            at_least(figure!(phase.jumps), 0)
        }),
    ]
}

pub(super) fn watch_sees_each_jump() -> Rule {
    rule("tickline watch has seen each jump", |phase| {
        equals(figure!(phase.jumps), 3)
    })
}

pub(super) fn tsc_chosen() -> Rule {
    rule(
        "doctor --fix chooses the TSC, after a comparison of the CPUs",
        |phase| is(figure!(phase.clocksource), "tsc"),
    )
}

/// The limiter gets 100 messages, half of them on each of two CPUs.
pub(super) fn limiter_lets_all_pass() -> Vec<Rule> {
    vec![
        rule("the program has run", |phase| {
            at_least(figure!(phase.limited.messages), 100)
        }),
        rule("governor lets each message pass", |phase| {
            equals(figure!(phase.limited.refused), 0)
        }),
    ]
}

pub(super) fn limiter_refuses_one_cpu() -> Vec<Rule> {
    vec![
        rule("over quanta it refuses nearly all of one CPU", |phase| {
            at_least(figure!(phase.limited.refused), 40)
        }),
        rule("because its clock steps back", |phase| {
            at_least(figure!(phase.limited.backward), 40)
        }),
    ]
}

pub(super) fn limiter_never_steps_back() -> Rule {
    rule("its clock never steps back", |phase| {
        equals(figure!(phase.limited.backward), 0)
    })
}

/// The counters differ by 2^32 ticks, less what the host takes.
pub(super) fn difference_found() -> Vec<Rule> {
    vec![
        rule(
            "a comparison finds by how much the counters differ",
            |phase| {
                let difference = figure!(phase.diagnosis.machine.counter_difference_ticks);
                at_least(difference, 4_000_000_000)
            },
        ),
        rule("the TSC must not be chosen", |phase| {
            let fix = "none: the counters are unsynchronised";
            is(figure!(phase.finding.fix), fix)
        }),
    ]
}

pub(super) fn time_confirmed() -> Rule {
    rule("a daemon confirms the time", |phase| {
        equals(figure!(phase.program.exit_code), 0)
    })
}

pub(super) fn offset_known() -> Rule {
    rule("the offset is known", |phase| {
        equals(figure!(phase.program.exit_code), 1)
    })
}

pub(super) fn flag_left() -> Rule {
    rule("chronyd leaves the flag without rtcsync", |phase| {
        is_false(figure!(phase.kernel_synchronised))
    })
}

pub(super) fn flag_cleared() -> Vec<Rule> {
    vec![
        rule("chronyd clears the flag with rtcsync", |phase| {
            is_true(figure!(phase.kernel_synchronised))
        }),
        rule(
            "the program tickline says that the counter serves",
            |phase| is_true(figure!(phase.diagnosis.fast)),
        ),
        rule("and has no finding about the flag", |phase| {
            is_not(figure!(phase.finding.code), "ntp_flag")
        }),
    ]
}
