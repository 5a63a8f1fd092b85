//! UTC with its error.

use super::super::check::{Rule, at_least, at_most, equals, is_true, rule};

/// chronyd's server keeps within its stated dispersion, whatever happens to chronyd and to the
/// clock.
pub(super) fn by_chronyd() -> Vec<Rule> {
    let mut rules = vec![
        rule("chronyd is the source", |phase| {
            is_true("work.synchronised.reached", phase.work.synchronised.reached)
        }),
        rule("the readers got intervals", |phase| {
            at_least("kinds.chronyd", phase.kinds.chronyd, 100_000)
        }),
    ];
    rules.extend([have_read(), contains_true_time()]);
    rules
}

pub(super) fn have_read() -> Rule {
    rule("the readers have read", |phase| {
        at_least("readings", phase.readings, 10_000_000)
    })
}

pub(super) fn contains_true_time() -> Rule {
    rule("every interval contains the true time", |phase| {
        equals("missed", phase.missed, 0)
    })
}

/// ntpd-rs states no bound (`docs/limits.md` of tickline-utc), so an interval may miss the true time.
/// In its scenario the server lies by nine tenths of the error that it states (`COVERED_NS` in the
/// guest).
pub(super) fn misses_by_the_lie() -> Rule {
    const LIE_NS: u64 = 5_175_000;
    rule(
        "an interval misses the true time by no more than the server lies",
        |phase| at_most("missed_ns", phase.missed_ns, LIE_NS),
    )
}

/// The second request without an answer ends a claim. Both come each second, and 50 ms later until
/// the thread is scheduled.
pub(super) fn claim_ends_soon() -> Rule {
    rule(
        "the second request without an answer ends a claim",
        |phase| at_most("after_ms.chronyd", phase.after_ms.chronyd, 2_100),
    )
}

pub(super) fn by_the_kernel() -> Rule {
    rule("the readers got intervals", |phase| {
        at_least("kinds.kernel", phase.kinds.kernel, 100_000)
    })
}

pub(super) fn by_clock_bound() -> Vec<Rule> {
    vec![
        rule("clock-bound's daemon is the source", |phase| {
            is_true("work.synchronised.reached", phase.work.synchronised.reached)
        }),
        rule("the readers got intervals", |phase| {
            at_least("kinds.clock_bound", phase.kinds.clock_bound, 100_000)
        }),
    ]
}
