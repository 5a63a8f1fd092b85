//! What `tickline who` finds out about other programs.

use super::super::check::{
    Rule, at_least, at_most, at_most_that, equals, figure, first_has, is, is_true, rule,
};

/// `tickline who` must find a program that asks for the time 100,000 times a second. Such a call
/// takes at least 300 ns, so the calls take at least 30 permille of a CPU.
pub(super) fn who_counts() -> Vec<Rule> {
    vec![
        counted(),
        rule("each call is a system call", |phase| {
            is(figure!(phase.clocksource), "hpet")
        }),
        rule("the program is found", |phase| {
            is_true(figure!(phase.who.first_is_asker))
        }),
        rule("by its name", |phase| {
            is(figure!(phase.asker.process), "asker")
        }),
        rule("and its clock", |phase| {
            is(figure!(phase.asker.clock), "clock_gettime MONOTONIC")
        }),
        rule("at least as often as it says itself, within 1 %", |phase| {
            at_least(figure!(phase.who.counted_permille), 990)
        }),
        rule("at most as often as it says itself, within 1 %", |phase| {
            at_most(figure!(phase.who.counted_permille), 1_010)
        }),
        rule("every sample had room", |phase| {
            equals(figure!(phase.who.lost_calls), 0)
        }),
        rule("the calls cost a part of a CPU", |phase| {
            at_least(figure!(phase.who.core_permille), 30)
        }),
        rule("less, when fixed", |phase| {
            let now = phase.who.as_ref().and_then(|who| who.core_permille);
            at_most_that(figure!(phase.who.fixed_core_permille), now)
        }),
    ]
}

fn counted() -> Rule {
    rule("calls were counted", |phase| {
        equals(figure!(phase.program.exit_code), 0)
    })
}

pub(super) fn who_needs_tracefs() -> Vec<Rule> {
    says("mount -t tracefs")
}

pub(super) fn who_needs_root() -> Vec<Rule> {
    says("sudo /tickline who")
}

/// `tickline who` can count nothing, and says what to do instead.
fn says(command: &'static str) -> Vec<Rule> {
    vec![
        rule("nothing can be counted", |phase| {
            equals(figure!(phase.program.exit_code), 1)
        }),
        rule("and it says what to do", move |phase| {
            first_has(figure!(phase.who.instead), command)
        }),
    ]
}

pub(super) fn who_sees_no_vdso() -> Vec<Rule> {
    vec![
        counted(),
        rule("the vDSO answers, and no tracepoint sees that", |phase| {
            equals(figure!(phase.who.asker_rows), 0)
        }),
    ]
}

pub(super) fn who_leaves_out_others() -> Rule {
    rule("other processes are left out", |phase| {
        equals(figure!(phase.who.rows), 1)
    })
}
