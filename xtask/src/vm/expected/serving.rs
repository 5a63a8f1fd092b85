//! Which clock serves, and how well: order, bounds, costs.

use super::super::agreed::{FAR_BRACKETS, READINGS};
use super::super::check::{
    Rule, at_least, at_most, at_most_that, equals, figure, is, is_nothing, is_one_of, is_true,
    lists_one_of, rule, rule_of_order,
};
use super::super::phase::{Found, Phase};

/// The largest share, percent, of rows with a reading far from its bracket. A busy host makes some
/// brackets wide, and the bounds with them.
const FAR_PERCENT: u64 = 10;

/// The largest distance of a reading that is not far from its bracket.
fn line_limit_ns(phase: &Phase) -> Option<u64> {
    Some(FAR_BRACKETS * phase.watched.as_ref()?.narrowest_bracket_ns?)
}

/// The difference of Unix time and monotonic time is known within the time of one read of each. So
/// the limit for Unix time is larger by its own bound.
fn unix_limit_ns(phase: &Phase) -> Option<u64> {
    Some(line_limit_ns(phase)? + phase.watched.as_ref()?.unix_widest_bound_ns)
}

pub(super) fn phase_in_order() -> Vec<Rule> {
    vec![
        rule_of_order(
            "ordered readings never step back between threads",
            |phase| equals(figure!(phase.readers.backward), 0),
        ),
        rule_of_order("readings never step back within a thread", |phase| {
            equals(figure!(phase.readers.backward_in_thread), 0)
        }),
    ]
}

pub(super) fn readings_in_order() -> Vec<Rule> {
    let mut rules = phase_in_order();
    rules.push(readers_have_read());
    rules
}

pub(super) fn readers_have_read() -> Rule {
    rule_of_order("the readers have read", |phase| {
        at_least(figure!(phase.readers.readings), READINGS)
    })
}

/// There are many more exchanges if two CPUs run at once, and few if the host lets them take turns.
pub(super) fn threads_exchange() -> Rule {
    rule_of_order("the readers have exchanged readings", |phase| {
        at_least(figure!(phase.readers.exchanges), 10)
    })
}

/// The emulator's counters never step back, on any CPU, so the comparison finds them synchronised.
pub(super) fn counter_serves() -> Vec<Rule> {
    vec![
        rule("what serves", |phase| {
            is(figure!(phase.watched.state), "fast")
        }),
        no_gate_is_closed(),
        rule("the counter serves most of the time", |phase| {
            at_least(figure!(phase.watched.fast_percent), 50)
        }),
        rule("reading() gives the line's limits", |phase| {
            at_least(figure!(phase.watched.bounded_percent), 50)
        }),
        os_within_bounds(),
        unix_within_bounds(),
        rule(
            format!(
                "readings are within {FAR_BRACKETS} brackets of the OS clock in all rows but \
                 {FAR_PERCENT} %"
            ),
            |phase| at_most(figure!(phase.watched.far_percent), FAR_PERCENT),
        ),
        unix_near_its_brackets(),
    ]
}

/// The OS clock serves. `reason` in `guests.toml` has the reason.
pub(super) fn os_clock_serves() -> Vec<Rule> {
    vec![
        rule("what serves", |phase| {
            is(figure!(phase.watched.state), "fallback")
        }),
        os_within_bounds(),
        unix_within_bounds(),
        rule(
            format!("readings are ahead of the OS clock by {FAR_BRACKETS} brackets at most"),
            |phase| at_most_that(figure!(phase.watched.ahead_ns), line_limit_ns(phase)),
        ),
        rule(
            format!("readings are behind the OS clock by {FAR_BRACKETS} brackets at most"),
            |phase| at_most_that(figure!(phase.watched.behind_ns), line_limit_ns(phase)),
        ),
        unix_near_its_brackets(),
    ]
}

fn no_gate_is_closed() -> Rule {
    rule("no gate is closed", |phase| {
        is_nothing(figure!(phase.watched.reason))
    })
}

fn os_within_bounds() -> Rule {
    rule("the OS clock is within the stated limits", |phase| {
        equals(figure!(phase.watched.bound_violated), 0)
    })
}

fn unix_within_bounds() -> Rule {
    rule("Unix time is within the stated limits", |phase| {
        equals(figure!(phase.watched.unix_bound_violated), 0)
    })
}

fn unix_near_its_brackets() -> Rule {
    rule(
        format!("Unix time is within {FAR_BRACKETS} brackets and its own bound of the OS clock"),
        |phase| at_most_that(figure!(phase.watched.unix_outside_ns), unix_limit_ns(phase)),
    )
}

/// If two CPUs read the emulator's counter, its rate against another clock changes all the time.
/// Lines then last for a fraction of a millisecond, and at some moments there is none. No further
/// check is possible.
pub(super) fn counter_serves_at_times() -> Vec<Rule> {
    vec![
        no_gate_is_closed(),
        rule("the counter serves now and then", |phase| {
            at_least(figure!(phase.watched.fast_percent), 10)
        }),
    ]
}

pub(super) fn cheaper_than_os_clock() -> Rule {
    cheaper(12)
}

pub(super) fn cheaper_than_acpi_pm() -> Rule {
    cheaper(9)
}

/// The guest `measured_hpet` in `guests.toml` explains the figures.
fn cheaper(times: u64) -> Rule {
    rule(
        format!("a reading is {times} times as fast as the OS clock"),
        move |phase| at_least(figure!(phase.cost.os_to_now_percent), times * 100),
    )
}

pub(super) fn counter_untested() -> Rule {
    rule("an untested counter is not used", |phase| {
        let reasons = ["untested", "kernel_rejected"];
        lists_one_of(figure!(phase.watched.reasons), &reasons)
    })
}

pub(super) fn counters_compared() -> Rule {
    rule("the counters were compared", |phase| {
        let good = [Found::Single, Found::Synchronised];
        is_one_of(figure!(phase.comparison.found), &good)
    })
}

/// The kernel keeps time with another clocksource, but offers the TSC.
pub(super) fn tsc_offered() -> Rule {
    rule("the kernel offers the TSC", |phase| {
        let offers = ["tsc hpet acpi_pm", "tsc-early hpet acpi_pm"];
        is_one_of(figure!(phase.machine.clocksources), &offers)
    })
}

pub(super) fn lines_last() -> Rule {
    rule(
        "lines last for three quarters of the interval that is set",
        |phase| is_true(figure!(phase.waited.reached)),
    )
}
