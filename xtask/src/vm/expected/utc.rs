//! UTC with its error.

use super::super::agreed::{NARROW_NS, NTPD_RS_LIE, TENTH_NS, UTC_READINGS};
use super::super::check::{Rule, at_least, at_most, at_most_that, equals, figure, is_true, rule};
use super::super::phase::Claims;
use super::changes::SCHEDULED_US;

/// The smallest number of readings with a range. The guest waits for more, but on a busy host
/// they take longer than it waits.
const RANGES: u64 = 100_000;

/// chronyd's server keeps within its stated dispersion, whatever happens to chronyd and to the
/// clock.
pub(super) fn utc_by_chronyd() -> Vec<Rule> {
    let mut rules = read_by_chronyd();
    rules.push(utc_contains_true_time());
    rules
}

/// chronyd's server states no error, so chronyd's claims are estimates. On a busy host, where the
/// server's replies are late, claims may miss, and so may the ranges that are made from them. On a
/// quiet host no claim misses, and no range may. Once a claim has missed, these rules no longer see
/// a wrong rate of the range.
pub(super) fn utc_by_chronyds_estimates() -> Vec<Rule> {
    let mut rules = read_by_chronyd();
    rules.push(rule("chronyd was asked for its claims", |phase| {
        at_least(figure!(phase.claims.asked), 100)
    }));
    rules.push(rule(
        "a range misses the true time by no more than chronyd's claims and rates",
        |phase| {
            let limit_ns = phase.claims.as_ref().map(claims_missed_ns);
            at_most_that(figure!(phase.utc.missed_ns), limit_ns)
        },
    ));
    rules
}

/// The largest error of a range by these claims, ns: that of a claim, and that of its rate
/// until the range ends.
fn claims_missed_ns(claims: &Claims) -> u64 {
    /// The longest time of a claim if the thread is late (`claim_maker.rs` in tickline-utc).
    const LATE_MS: u64 = 3_750;

    claims.missed_ns + claims.rate_missed_ppb * LATE_MS / 1_000
}

fn read_by_chronyd() -> Vec<Rule> {
    vec![
        rule("chronyd is the source", |phase| {
            is_true(figure!(phase.daemon.synchronised.reached))
        }),
        rule("the readers got ranges", |phase| {
            at_least(figure!(phase.utc.kinds.chronyd), RANGES)
        }),
        utc_read(),
    ]
}

pub(super) fn utc_by_chronyd_again() -> Rule {
    rule("chronyd is the source again", |phase| {
        is_true(figure!(phase.waited.reached))
    })
}

pub(super) fn utc_read() -> Rule {
    rule("the readers have read", |phase| {
        at_least(figure!(phase.utc.readings), UTC_READINGS)
    })
}

pub(super) fn utc_contains_true_time() -> Rule {
    rule("every range contains the true time", |phase| {
        equals(figure!(phase.utc.missed), 0)
    })
}

/// ntpd-rs states no bound (`docs/limits.md` of tickline-utc), so a range may miss the true
/// time.
pub(super) fn utc_misses_by_the_lie() -> Rule {
    const LIE_NS: u64 = (NTPD_RS_LIE * TENTH_NS).unsigned_abs();
    rule(
        "a range misses the true time by no more than the server lies",
        |phase| at_most(figure!(phase.utc.missed_ns), LIE_NS),
    )
}

pub(super) fn utc_widens() -> Rule {
    rule(
        "in 8 s without an answer, a range grows by 1 ppm of this time",
        |phase| at_least(figure!(phase.grown_ns), 8_000),
    )
}

/// The longest time of a claim: the second request without an answer ends it. Both come each
/// second, and later by the time until the thread is scheduled.
const LONGEST_CLAIM_MS: u64 = 2 * (1_000 + SCHEDULED_US / 1_000);

pub(super) fn utc_claim_ends_soon() -> Rule {
    rule(
        "the second request without an answer ends a claim",
        |phase| at_most(figure!(phase.utc.after_ms.chronyd), LONGEST_CLAIM_MS),
    )
}

pub(super) fn utc_by_kernel_then() -> Rule {
    rule("the kernel makes a claim of its own then", |phase| {
        at_least(figure!(phase.utc.kinds.kernel), 1)
    })
}

pub(super) fn utc_kernel_synchronised() -> Rule {
    rule("the kernel is the source", |phase| {
        is_true(figure!(phase.daemon.synchronised.reached))
    })
}

pub(super) fn utc_by_kernel() -> Rule {
    rule("the readers got ranges", |phase| {
        at_least(figure!(phase.utc.kinds.kernel), RANGES)
    })
}

pub(super) fn utc_by_clock_bound() -> Vec<Rule> {
    vec![
        rule("clock-bound's daemon is the source", |phase| {
            is_true(figure!(phase.daemon.synchronised.reached))
        }),
        rule("the readers got ranges", |phase| {
            at_least(figure!(phase.utc.kinds.clock_bound), RANGES)
        }),
    ]
}

/// The scenario has tested nothing if its source was right all the time.
pub(super) fn utc_as_wrong_as_source() -> Rule {
    rule(
        "while the source is wrong, a range misses the true time",
        |phase| at_least(figure!(phase.utc.missed), 1),
    )
}

pub(super) fn utc_none_near_leap_second() -> Rule {
    rule("no range near a leap second", |phase| {
        at_least(figure!(phase.utc.kinds.leap_second), 1)
    })
}

pub(super) fn utc_suspend_noticed() -> Rule {
    rule("the suspend is noticed", |phase| {
        at_least(figure!(phase.utc.kinds.disrupted), 1)
    })
}

pub(super) fn utc_narrow() -> Rule {
    rule(
        "half of a range is narrower than UTC moves in a second at 400 ppm",
        |phase| at_most(figure!(phase.utc.narrowest_ns), NARROW_NS),
    )
}

pub(super) fn utc_unknown() -> Rule {
    rule("no reading has a range", |phase| {
        equals(figure!(phase.utc.answered), 0)
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::check::Check;
    use super::super::super::phase::{Phase, Utc};
    use super::*;

    #[test]
    fn a_range_may_miss_as_a_claim_and_its_rate_do() {
        let claims = Claims {
            asked: 100,
            missed_ns: 500,
            rate_missed_ppb: 1_000,
        };
        assert_eq!(claims_missed_ns(&claims), 500 + 3_750);
    }

    #[test]
    fn a_range_may_not_miss_by_what_the_guest_did_not_report() {
        let phases = [Phase {
            utc: Some(Utc::default()),
            ..Phase::named("steered_20")
        }];
        let checks = Check::all("steered_20", utc_by_chronyds_estimates());
        let faults = Vec::from_iter(checks.filter_map(|check| check.fault(&phases)));
        let fault = "utc.missed_ns is 0, expected a limit, which is missing";
        assert!(faults.iter().any(|one| one.contains(fault)), "{faults:?}");
    }
}
