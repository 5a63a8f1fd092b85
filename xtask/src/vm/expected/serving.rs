//! Which clock serves, and how well: order, bounds, costs, jumps.

use super::super::check::{
    Rule, at_least, at_most, at_most_that, equals, is, is_nothing, is_true, rule, rule_of_order,
};
use super::super::report::Phase;

/// The longest time until a thread runs in a guest whose CPUs are busy. tickline promises the same
/// for Unix time after the clock was set.
pub(super) const SCHEDULED_US: u64 = 50_000;

/// The interval of the clocks, and [`SCHEDULED_US`]: a change is noticed by then.
const NOTICED_MS: u64 = 550;

/// The kernel's rate changes by 1,000 ppm (from +500 to -500), which is 1 ns a us.
const NOTICED_AT_RATE_NS: u64 = NOTICED_MS * 1_000;

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

pub(super) fn possible() -> Rule {
    rule("it could be done", |phase| {
        is_true("work.done", phase.work.done)
    })
}

/// The clock notices a change of rate within one interval of 0.5 s, and 50 ms until the thread is
/// scheduled. By then the line may be off by 1/1000 of this time.
pub(super) fn rate() -> Vec<Rule> {
    vec![
        possible(),
        rule("a change of rate is noticed within one interval", |phase| {
            at_most("ahead_ns", phase.ahead_ns, NOTICED_AT_RATE_NS)
        }),
        rule("a change of rate is noticed within one interval", |phase| {
            at_most("behind_ns", phase.behind_ns, NOTICED_AT_RATE_NS)
        }),
    ]
}

/// Readings may be ahead by the rest of the window, at most 1 s. The status says so within 100 ms.
/// After a jump within its window, a line goes on until the next iteration. This takes at most one
/// interval, and 50 ms until the thread is scheduled.
pub(super) fn moved() -> Vec<Rule> {
    let mut rules = vec![
        possible(),
        rule("ahead by what was left of the window at most", |phase| {
            at_most("ahead_ns", phase.ahead_ns, 1_000_000_000)
        }),
        rule("behind by the bound that is claimed at most", |phase| {
            let bracket_ns = phase.narrowest_bracket_ns;
            let limit_ns = bracket_ns.zip(phase.widest_bound_ns);
            let limit_ns = limit_ns.map(|(bracket_ns, bound_ns)| bracket_ns + bound_ns);
            at_most_that("behind_ns", phase.behind_ns, limit_ns)
        }),
    ];
    rules.extend(resumed(NOTICED_MS));
    rules
}

/// How soon readings are within their bounds again, or the status says that they are not. After a
/// resume the kernel wakes the clock's thread at once (`timerfd_resume`).
pub(super) fn resumed(within_ms: u64) -> Vec<Rule> {
    vec![
        rule("it is off, and does not say so", |phase| {
            at_most("work.unreported_ms", phase.work.unreported_ms, 100)
        }),
        rule("the bounds hold again", move |phase| {
            at_most("work.outside_ms", phase.work.outside_ms, within_ms)
        }),
    ]
}

/// The readings of a machine that moves to hosts whose counters are behind.
pub(super) fn no_further_back_than_the_os() -> Rule {
    rule_of_order("readings step back by no more than the OS clock", |phase| {
        let largest_ns = phase.readers.largest_backward_ns;
        let limit_ns = phase.readers.os_largest_backward_ns;
        at_most_that("readers.largest_backward_ns", largest_ns, limit_ns)
    })
}

/// Readings after a suspend within the window.
pub(super) fn slept_within_window() -> Vec<Rule> {
    vec![
        rule("the machine slept, and the kernel says so", |phase| {
            at_least("work.slept_ms", phase.work.slept_ms, 1)
        }),
        rule("readings are ahead by as much", |phase| {
            at_least("work.ahead_us", phase.work.ahead_us, 500_000)
        }),
        rule("and the clock says so until they are back", |phase| {
            at_least("work.disrupted_ms", phase.work.disrupted_ms, 1_000)
        }),
    ]
}
