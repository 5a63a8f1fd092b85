//! What the program `tickline` says, and programs that read the clock.

use super::super::check::{
    Rule, at_least, at_least_that, at_most, at_most_that, equals, has, is, is_not, is_true, rule,
};

pub(super) fn right_exit_code() -> Rule {
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

pub(super) fn works() -> Rule {
    rule("the program does its work", |phase| {
        equals("exit_code", phase.exit_code, 0)
    })
}

pub(super) fn after_the_program_before() -> Rule {
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

pub(super) fn caller() -> Vec<Rule> {
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

/// `tickline who` must find a program that asks for the time 100,000 times a second. Such a call
/// takes at least 300 ns, so the calls take at least 30 permille of a CPU.
pub(super) fn who() -> Vec<Rule> {
    vec![
        counted(),
        rule("each call is a system call", |phase| {
            is("clocksource", phase.clocksource.as_deref(), "hpet")
        }),
        rule("the program is found", |phase| {
            is_true("first_is_asker", phase.first_is_asker)
        }),
        rule("by its name", |phase| {
            is("asker.process", phase.asker.process.as_deref(), "asker")
        }),
        rule("and its clock", |phase| {
            is(
                "asker.clock",
                phase.asker.clock.as_deref(),
                "clock_gettime MONOTONIC",
            )
        }),
        rule("as often as it says itself", |phase| {
            at_least("counted_permille", phase.counted_permille, 990)
        }),
        rule("as often as it says itself", |phase| {
            at_most("counted_permille", phase.counted_permille, 1_010)
        }),
        rule("every sample had room", |phase| {
            equals("who.lost_calls", phase.who.lost_calls, 0)
        }),
        rule("the calls cost a part of a CPU", |phase| {
            at_least("core_permille", phase.core_permille, 30)
        }),
        rule("less, when fixed", |phase| {
            let fixed = phase.fixed_core_permille;
            at_most_that("fixed_core_permille", fixed, phase.core_permille)
        }),
    ]
}

pub(super) fn counted() -> Rule {
    rule("calls were counted", |phase| {
        equals("exit_code", phase.exit_code, 0)
    })
}

/// `tickline who` can count nothing, and says what to do instead.
pub(super) fn who_says(command: &'static str) -> Vec<Rule> {
    vec![
        rule("nothing can be counted", |phase| {
            equals("exit_code", phase.exit_code, 1)
        }),
        rule("and it says what to do", move |phase| {
            let instead = phase.who.instead.first().map(String::as_str);
            has("who.instead", instead, command)
        }),
    ]
}

pub(super) fn who_sees_no_vdso() -> Vec<Rule> {
    vec![
        counted(),
        rule("the vDSO answers, and no tracepoint sees that", |phase| {
            equals("asker_rows", phase.asker_rows, 0)
        }),
    ]
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
