//! Programs on Debian, native and served, and the package.

use super::super::check::{
    Rule, at_least, at_least_that, at_most_that, equals, has, is_nothing, is_true, rule,
};

/// For a program in any mode: native, under `tickline run`, with the library in LD_PRELOAD.
pub(super) fn load_works() -> Vec<Rule> {
    vec![
        rule("it has made all calls", |phase| {
            is_nothing("error", phase.error.as_deref())
        }),
        rule("and has ended in order", |phase| {
            equals("exit_code", phase.exit_code, 0)
        }),
        rule("it has called the clock", |phase| {
            at_least("realtime.calls", phase.realtime.calls, 1)
        }),
        rule("its time never steps back", |phase| {
            equals("monotonic.backward", phase.monotonic.backward, 0)
        }),
        rule("its time never steps back", |phase| {
            equals("realtime.backward", phase.realtime.backward, 0)
        }),
        rule(
            "it is not below what the OS clock returned before",
            |phase| equals("monotonic.below_os_ns", phase.monotonic.below_os_ns, 0),
        ),
        rule(
            "it is not below what the OS clock returned before",
            |phase| equals("realtime.below_os_ns", phase.realtime.below_os_ns, 0),
        ),
    ]
}

pub(super) fn load_native() -> Vec<Rule> {
    vec![
        rule(
            "it is not above what the OS clock says afterwards",
            |phase| equals("monotonic.above_os_ns", phase.monotonic.above_os_ns, 0),
        ),
        rule(
            "it is not above what the OS clock says afterwards",
            |phase| equals("realtime.above_os_ns", phase.realtime.above_os_ns, 0),
        ),
        rule("strace sees its system calls", |phase| {
            let served = phase.counted.served_clocks;
            at_least_that("counted.served_clocks", served, phase.counted.calls)
        }),
    ]
}

/// A program may ask the system because of its own start of a thread, or a timer.
pub(super) fn load_served() -> Vec<Rule> {
    vec![
        rule(
            "it is above the OS clock by the stated lead at most",
            |phase| {
                at_most_that(
                    "monotonic.above_os_ns",
                    phase.monotonic.above_os_ns,
                    phase.lead_ns,
                )
            },
        ),
        rule(
            "it is above the OS clock by the stated lead at most",
            |phase| {
                at_most_that(
                    "realtime.above_os_ns",
                    phase.realtime.above_os_ns,
                    phase.unix_lead_ns,
                )
            },
        ),
        rule("at most one in 20 calls is still a system call", |phase| {
            let most = phase.counted.calls.map(|calls| calls / 20);
            at_most_that("counted.served_clocks", phase.counted.served_clocks, most)
        }),
    ]
}

/// A program also reads the monotonic clock. Servers tell only the time of day.
pub(super) fn load_reads_monotonic() -> Rule {
    rule("it has called the clock", |phase| {
        at_least("monotonic.calls", phase.monotonic.calls, 1)
    })
}

pub(super) fn load_under_run() -> Rule {
    rule("`tickline run` says that it is served", |phase| {
        has("messages", phase.messages.as_deref(), " the clock of ")
    })
}

pub(super) fn served_exchange() -> Vec<Rule> {
    vec![
        rule("it has answered to the end", |phase| {
            is_nothing("error", phase.error.as_deref())
        }),
        rule("more than once", |phase| {
            at_least("answers", phase.answers, 5)
        }),
        rule("its time never steps back", |phase| {
            equals("backward", phase.backward, 0)
        }),
        rule(
            "it is not below what another program had returned",
            |phase| equals("below_others", phase.below_others, 0),
        ),
    ]
}

pub(super) fn page_serves() -> Rule {
    rule("a page serves it", |phase| {
        is_true("is_served", phase.is_served)
    })
}

pub(super) fn page_of_living_server() -> Rule {
    rule(
        "a page is served after the server was started, continued and started, and not after it \
         was killed, stopped and ended",
        |phase| match phase.served[..] {
            [false, true, false, true, false, true] => Ok(()),
            ref found => Err(format!("served is {found:?}")),
        },
    )
}

pub(super) fn package_step() -> Vec<Rule> {
    vec![
        rule("the command does its work", |phase| {
            is_true("done", phase.done)
        }),
        rule(
            "and then the unit, and the page, are as they should be",
            |phase| is_true("reached", phase.reached),
        ),
    ]
}

/// The guest has come to its last phase; a check fails where its phase is missing.
pub(super) fn guest_complete() -> Rule {
    rule("the guest has done all", |_| Ok(()))
}

/// A program under `tickline run` is so many times as fast as natively.
pub(in crate::vm) fn ratio(least: f64) -> Rule {
    rule(format!("{least} times as fast as natively"), move |phase| {
        let limit_ns = phase.native.ns.map(|native_ns| native_ns / least);
        at_most_that("ns", phase.ns, limit_ns)
    })
}

/// The goals of the project for Postgres' own figures.
pub(in crate::vm) fn postgres() -> Vec<Rule> {
    vec![
        rule("eight times as fast as natively", |phase| {
            let native_ns = phase.native.figures.pg_test_timing_ns;
            let limit_ns = native_ns.map(|native_ns| native_ns / 8.0);
            at_most_that(
                "figures.pg_test_timing_ns",
                phase.figures.pg_test_timing_ns,
                limit_ns,
            )
        }),
        rule(
            "EXPLAIN ANALYZE takes half as long again with its timing, at most",
            |phase| {
                let limit_ms = phase.figures.explain_off_ms.map(|off_ms| 1.5 * off_ms);
                at_most_that(
                    "figures.explain_on_ms",
                    phase.figures.explain_on_ms,
                    limit_ms,
                )
            },
        ),
    ]
}
