//! Acts that change a clock or the machine: what must follow, and how soon.

use super::super::agreed::INTERVAL_MS;
use super::super::check::{
    Rule, at_least, at_most, at_most_that, figure, is_true, rule, rule_of_order,
};

/// The longest time until a thread runs in a guest whose CPUs are busy. tickline promises the same
/// for Unix time after the clock was set.
pub(super) const SCHEDULED_US: u64 = 50_000;

/// A change is noticed by then.
const NOTICED_MS: u64 = INTERVAL_MS + SCHEDULED_US / 1_000;

/// The status says by then that readings are off.
const UNREPORTED_MS: u64 = 100;

/// The kernel's rate changes by 1,000 ppm (from +500 to -500), which is 1 ns a us.
const NOTICED_AT_RATE_NS: u64 = NOTICED_MS * 1_000;

pub(super) fn act_done() -> Rule {
    rule("it could be done", |phase| is_true(figure!(phase.done)))
}

pub(super) fn act_noticed() -> Vec<Rule> {
    vec![
        rule("it is noticed at all", |phase| {
            is_true(figure!(phase.waited.reached))
        }),
        rule("it is noticed within one interval", |phase| {
            at_most(figure!(phase.noticed.beyond_interval_us), SCHEDULED_US)
        }),
    ]
}

/// The clock notices a change of rate within one interval of 0.5 s, and 50 ms until the thread is
/// scheduled. By then the line may be off by 1/1000 of this time.
pub(super) fn rate_noticed() -> Vec<Rule> {
    vec![
        act_done(),
        rule(
            "ahead by what the change of rate adds in one interval at most",
            |phase| at_most(figure!(phase.watched.ahead_ns), NOTICED_AT_RATE_NS),
        ),
        rule(
            "behind by what the change of rate adds in one interval at most",
            |phase| at_most(figure!(phase.watched.behind_ns), NOTICED_AT_RATE_NS),
        ),
    ]
}

pub(super) fn unix_time_follows() -> Rule {
    rule("Unix time follows a clock that was set", |phase| {
        is_true(figure!(phase.waited.reached))
    })
}

/// Unix time follows within 50 ms, in guests whose clocks run as fast as the host's.
pub(super) fn unix_time_follows_promptly() -> Rule {
    rule("it does so within 50 ms", |phase| {
        at_most(figure!(phase.waited.after_us), SCHEDULED_US)
    })
}

pub(super) fn counter_serves_again() -> Rule {
    rule("the counter is used again", |phase| {
        is_true(figure!(phase.waited.reached))
    })
}

/// Readings may be ahead by the rest of the window, at most 1 s. The status says so within 100 ms.
/// After a jump within its window, a line goes on until the next iteration. This takes at most one
/// interval, and 50 ms until the thread is scheduled.
pub(super) fn machine_moved() -> Vec<Rule> {
    let mut rules = vec![
        act_done(),
        rule("ahead by what was left of the window at most", |phase| {
            at_most(figure!(phase.watched.ahead_ns), 1_000_000_000)
        }),
        rule("behind by the bound that is claimed at most", |phase| {
            let limit_ns = phase
                .watched
                .as_ref()
                .and_then(|watched| Some(watched.narrowest_bracket_ns? + watched.widest_bound_ns));
            at_most_that(figure!(phase.watched.behind_ns), limit_ns)
        }),
    ];
    rules.extend(resumed(NOTICED_MS));
    rules
}

/// After a resume the kernel wakes the clock's thread at once (`timerfd_resume`).
pub(super) fn machine_resumed() -> Vec<Rule> {
    resumed(UNREPORTED_MS)
}

/// How soon readings are within their bounds again, or the status says that they are not.
fn resumed(within_ms: u64) -> Vec<Rule> {
    vec![
        rule("it is off, and does not say so", |phase| {
            at_most(figure!(phase.resumed.unreported_ms), UNREPORTED_MS)
        }),
        rule("the bounds hold again", move |phase| {
            at_most(figure!(phase.resumed.outside_ms), within_ms)
        }),
    ]
}

/// The readings of a machine that moves to hosts whose counters are behind.
pub(super) fn no_further_back_than_os() -> Rule {
    rule_of_order("readings step back by no more than the OS clock", |phase| {
        let readers = phase.readers.as_ref();
        let limit_ns = readers.map(|readers| readers.os_largest_backward_ns);
        at_most_that(figure!(phase.readers.largest_backward_ns), limit_ns)
    })
}

pub(super) fn slept_beyond_window() -> Rule {
    rule("the machine slept for longer than a window", |phase| {
        at_least(figure!(phase.slept_ms), 3_000)
    })
}

/// Readings after a suspend within the window.
pub(super) fn slept_within_window() -> Vec<Rule> {
    vec![
        rule("the machine slept, and the kernel says so", |phase| {
            at_least(figure!(phase.slept_ms), 1)
        }),
        rule("readings are ahead by as much", |phase| {
            at_least(figure!(phase.resumed.ahead_us), 500_000)
        }),
        rule("and the clock says so until they are back", |phase| {
            at_least(figure!(phase.resumed.disrupted_ms), 1_000)
        }),
    ]
}
