//! What `tickline who` finds out about other programs.

use super::super::check::{Rule, at_least, at_most, at_most_that, equals, has, is, is_true, rule};

/// It must find a program that asks for the time 100,000 times a second. Such a call
/// takes at least 300 ns, so the calls take at least 30 permille of a CPU.
pub(super) fn who_counts() -> Vec<Rule> {
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

fn counted() -> Rule {
    rule("calls were counted", |phase| {
        equals("exit_code", phase.exit_code, 0)
    })
}

pub(super) fn who_needs_tracefs() -> Vec<Rule> {
    says("mount -t tracefs")
}

pub(super) fn who_needs_root() -> Vec<Rule> {
    says("sudo /tickline who")
}

/// It can count nothing, and says what to do instead.
fn says(command: &'static str) -> Vec<Rule> {
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

pub(super) fn who_leaves_out_others() -> Rule {
    rule("other processes are left out", |phase| {
        equals("rows", phase.rows, 1)
    })
}
