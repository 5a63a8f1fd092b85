//! Which clock serves, and how well: order, bounds, costs.

use super::super::check::{
    Rule, at_least, at_most, at_most_that, equals, is, is_nothing, is_one_of, is_true,
    lists_one_of, rule, rule_of_order,
};
use super::super::report::Phase;

/// A line that is fitted to brackets may be off by 1.5 of their width at the end of its window
/// (`control/schedule.rs`), rounded up.
fn line_limit_ns(phase: &Phase) -> Option<u64> {
    Some(2 * phase.narrowest_bracket_ns?)
}

/// The difference of Unix time and monotonic time is known within the time of one read of each, so
/// Unix time may be off by its own bound more.
fn unix_limit_ns(phase: &Phase) -> Option<u64> {
    Some(line_limit_ns(phase)? + phase.unix_widest_bound_ns?)
}

pub(super) fn never_backward() -> Vec<Rule> {
    vec![
        rule_of_order(
            "ordered readings never step back between threads",
            |phase| equals("readers.backward", phase.readers.backward, 0),
        ),
        rule_of_order("readings never step back within a thread", |phase| {
            equals(
                "readers.backward_in_thread",
                phase.readers.backward_in_thread,
                0,
            )
        }),
    ]
}

pub(super) fn order() -> Vec<Rule> {
    let mut rules = never_backward();
    rules.push(have_read());
    rules
}

pub(super) fn have_read() -> Rule {
    rule_of_order("the readers have read", |phase| {
        at_least("readers.readings", phase.readers.readings, 100_000)
    })
}

/// There are many more exchanges if two CPUs run at once, and few if the host lets them take turns.
pub(super) fn threads_exchange() -> Rule {
    rule_of_order("the readers have exchanged readings", |phase| {
        at_least("readers.exchanges", phase.readers.exchanges, 10)
    })
}

/// The emulator's counters never step back, on any CPU, so the comparison finds them synchronised.
/// A busy host makes some brackets wide, and the bounds with them: that may be seen in one of ten
/// rows of readings.
pub(super) fn counter() -> Vec<Rule> {
    vec![
        rule("what serves", |phase| {
            is("state", phase.state.as_deref(), "fast")
        }),
        no_gate_is_closed(),
        rule("the counter serves most of the time", |phase| {
            at_least("fast_percent", phase.fast_percent, 50)
        }),
        rule("reading() gives the line's limits", |phase| {
            at_least("bounded_percent", phase.bounded_percent, 50)
        }),
        os_within_bounds(),
        unix_within_bounds(),
        rule(
            "a line leaves its brackets by 1.5 of them at most",
            |phase| at_most("far_percent", phase.far_percent, 10),
        ),
        unix_near_its_brackets(),
    ]
}

pub(super) fn os() -> Vec<Rule> {
    vec![
        rule("what serves", |phase| {
            is("state", phase.state.as_deref(), "fallback")
        }),
        os_within_bounds(),
        unix_within_bounds(),
        rule(
            "a line leaves its brackets by 1.5 of them at most",
            |phase| at_most_that("ahead_ns", phase.ahead_ns, line_limit_ns(phase)),
        ),
        rule(
            "a line leaves its brackets by 1.5 of them at most",
            |phase| at_most_that("behind_ns", phase.behind_ns, line_limit_ns(phase)),
        ),
        unix_near_its_brackets(),
    ]
}

fn no_gate_is_closed() -> Rule {
    rule("no gate is closed", |phase| {
        is_nothing("reason", phase.reason.as_deref())
    })
}

fn os_within_bounds() -> Rule {
    rule("the OS clock is within the stated limits", |phase| {
        equals("bound_violated", phase.bound_violated, 0)
    })
}

fn unix_within_bounds() -> Rule {
    rule("Unix time is within the stated limits", |phase| {
        equals("unix_bound_violated", phase.unix_bound_violated, 0)
    })
}

fn unix_near_its_brackets() -> Rule {
    rule(
        "Unix time leaves its brackets by its own bound more",
        |phase| {
            at_most_that(
                "unix_outside_ns",
                phase.unix_outside_ns,
                unix_limit_ns(phase),
            )
        },
    )
}

/// If two CPUs read the emulator's counter, its rate against another clock changes all the time.
/// Lines then last for a fraction of a millisecond, and at some moments there is none. No further
/// check is possible.
pub(super) fn used() -> Vec<Rule> {
    vec![
        no_gate_is_closed(),
        rule("the counter serves now and then", |phase| {
            at_least("fast_percent", phase.fast_percent, 10)
        }),
    ]
}

/// The guest `measured_hpet` in `guests.toml` explains the figures.
pub(super) fn cheap(percent: u64) -> Rule {
    rule(
        "a reading is so much cheaper than the OS clock, percent",
        move |phase| {
            at_least(
                "cost.os_to_now_percent",
                phase.cost.os_to_now_percent,
                percent,
            )
        },
    )
}

pub(super) fn untested() -> Rule {
    rule("an untested counter is not used", |phase| {
        lists_one_of("reasons", &phase.reasons, &["untested", "kernel_rejected"])
    })
}

pub(super) fn compared() -> Rule {
    rule("the counters were compared", |phase| {
        let found = phase.comparison.found.as_deref();
        is_one_of("comparison.found", found, &["single", "synchronised"])
    })
}

pub(super) fn tsc_offered() -> Rule {
    rule("the kernel offers the TSC", |phase| {
        let offers = ["tsc hpet acpi_pm", "tsc-early hpet acpi_pm"];
        is_one_of("clocksources", phase.clocksources.as_deref(), &offers)
    })
}

pub(super) fn lines_last() -> Rule {
    rule("lines last for so long", |phase| {
        is_true("work.reached", phase.work.reached)
    })
}
