//! Programs on Debian, native and served, and the package.

use super::super::check::{
    Rule, at_least, at_least_that, at_most_that, equals, figure, has, is_nothing, is_true, lists,
    rule,
};

/// For a program in any mode: native, under `tickline run`, with the library in LD_PRELOAD.
pub(super) fn load_works() -> Vec<Rule> {
    vec![
        rule("it has made all calls", |phase| {
            is_nothing(figure!(phase.error))
        }),
        rule("and has ended in order", |phase| {
            equals(figure!(phase.measured.exit_code), 0)
        }),
        rule("it has called the clock", |phase| {
            at_least(figure!(phase.measured.realtime.calls), 1)
        }),
        rule("its time never steps back", |phase| {
            equals(figure!(phase.measured.monotonic.backward), 0)
        }),
        rule("its time never steps back", |phase| {
            equals(figure!(phase.measured.realtime.backward), 0)
        }),
        rule(
            "it is not below what the OS clock returned before",
            |phase| equals(figure!(phase.measured.monotonic.below_os_ns), 0),
        ),
        rule(
            "it is not below what the OS clock returned before",
            |phase| equals(figure!(phase.measured.realtime.below_os_ns), 0),
        ),
    ]
}

pub(super) fn load_native() -> Vec<Rule> {
    vec![
        rule(
            "it is not above what the OS clock says afterwards",
            |phase| equals(figure!(phase.measured.monotonic.above_os_ns), 0),
        ),
        rule(
            "it is not above what the OS clock says afterwards",
            |phase| equals(figure!(phase.measured.realtime.above_os_ns), 0),
        ),
        rule("strace sees its system calls", |phase| {
            let calls = phase.counted.as_ref().map(|counted| counted.calls);
            at_least_that(figure!(phase.counted.served_clocks), calls)
        }),
    ]
}

/// A program may ask the system because of its own start of a thread, or a timer.
pub(super) fn load_served() -> Vec<Rule> {
    vec![
        rule(
            "it is above the OS clock by the stated lead at most",
            |phase| {
                let lead_ns = phase.measured.as_ref().map(|measured| measured.lead_ns);
                at_most_that(figure!(phase.measured.monotonic.above_os_ns), lead_ns)
            },
        ),
        rule(
            "it is above the OS clock by the stated lead at most",
            |phase| {
                let lead_ns = phase
                    .measured
                    .as_ref()
                    .map(|measured| measured.unix_lead_ns);
                at_most_that(figure!(phase.measured.realtime.above_os_ns), lead_ns)
            },
        ),
        rule("at most one in 20 calls is still a system call", |phase| {
            let most = phase.counted.as_ref().map(|counted| counted.calls / 20);
            at_most_that(figure!(phase.counted.served_clocks), most)
        }),
    ]
}

/// A program also reads the monotonic clock. Servers tell only the time of day.
pub(super) fn load_reads_monotonic() -> Rule {
    rule("it has called the clock", |phase| {
        at_least(figure!(phase.measured.monotonic.calls), 1)
    })
}

pub(super) fn load_under_run() -> Rule {
    rule("`tickline run` says that it is served", |phase| {
        has(figure!(phase.messages), " the clock of ")
    })
}

pub(super) fn served_exchange() -> Vec<Rule> {
    vec![
        rule("it has answered to the end", |phase| {
            is_nothing(figure!(phase.error))
        }),
        rule("more than once", |phase| {
            at_least(figure!(phase.exchange.answers), 5)
        }),
        rule("it has called the clock", |phase| {
            at_least(figure!(phase.exchange.readings.calls), 1)
        }),
        rule("its time never steps back", |phase| {
            equals(figure!(phase.exchange.readings.backward), 0)
        }),
        rule(
            "it is not below what another program had returned",
            |phase| equals(figure!(phase.exchange.readings.below_others), 0),
        ),
    ]
}

pub(super) fn page_serves() -> Rule {
    rule("a page serves it", |phase| {
        is_true(figure!(phase.is_served))
    })
}

pub(super) fn page_of_living_server() -> Rule {
    rule(
        "a page is served after the server was started, continued and started, and not after it \
         was killed, stopped and ended",
        |phase| {
            let expected = [false, true, false, true, false, true];
            lists(figure!(phase.states), &expected)
        },
    )
}

pub(super) fn package_step() -> Vec<Rule> {
    vec![
        rule("the command does its work", |phase| {
            is_true(figure!(phase.done))
        }),
        rule(
            "and then the unit, and the page, are as they should be",
            |phase| is_true(figure!(phase.waited.reached)),
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
        let native_ns = phase.native.as_ref().and_then(|native| native.ns);
        at_most_that(figure!(phase.measured.ns), native_ns.map(|ns| ns / least))
    })
}

/// The goals of the project for Postgres' own figures.
pub(in crate::vm) fn postgres() -> Vec<Rule> {
    vec![
        rule("eight times as fast as natively", |phase| {
            let native = phase.native.as_ref();
            let native_ns = native.and_then(|native| native.figures.pg_test_timing_ns);
            let limit_ns = native_ns.map(|native_ns| native_ns / 8.0);
            at_most_that(figure!(phase.measured.figures.pg_test_timing_ns), limit_ns)
        }),
        rule(
            "EXPLAIN ANALYZE takes half as long again with its timing, at most",
            |phase| {
                let measured = phase.measured.as_ref();
                let off_ms = measured.and_then(|measured| measured.figures.explain_off_ms);
                let limit_ms = off_ms.map(|off_ms| 1.5 * off_ms);
                at_most_that(figure!(phase.measured.figures.explain_on_ms), limit_ms)
            },
        ),
    ]
}
