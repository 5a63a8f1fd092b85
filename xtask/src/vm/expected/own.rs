//! The rules of single guests.

use super::super::check::{
    Check, Rule, at_least, at_most, at_most_that, equals, has, is, is_false, is_not, is_true, rule,
    rule_of_order,
};
use super::{cheap, counted, have_read};

/// The rules of one guest: the phase, and the rule.
type Own = (&'static str, fn() -> Vec<(&'static str, Rule)>);

/// The guests that have rules of their own.
const OWN: [Own; 16] = [
    ("asked", || {
        vec![(
            "program_mended",
            rule(
                "doctor --fix takes the TSC, after a comparison of the CPUs",
                |phase| is("clocksource", phase.clocksource.as_deref(), "tsc"),
            ),
        )]
    }),
    ("who", own_who),
    ("limiter", own_limiter),
    ("chrony", own_chrony),
    ("utc", || {
        vec![(
            "silent",
            rule(
                "in 8 s without an answer, the interval grows by 1 ppm to both sides",
                |phase| at_least("work.grown_ns", phase.work.grown_ns, 8_000),
            ),
        )]
    }),
    ("utc_died", own_utc_died),
    ("utc_wrong", || {
        vec![(
            "lies_beyond",
            rule("an interval is as true as its source", |phase| {
                at_least("missed", phase.missed, 1)
            }),
        )]
    }),
    ("utc_leap", || {
        vec![(
            "leap",
            rule("no interval near a leap second", |phase| {
                at_least("kinds.leap_second", phase.kinds.leap_second, 1)
            }),
        )]
    }),
    ("utc_moved", own_utc_moved),
    ("utc_bound", own_utc_bound),
    ("utc_ntpd_rs", || {
        vec![
            (
                "ntpd_rs",
                rule("the kernel is the source", |phase| {
                    is_true("work.synchronised.reached", phase.work.synchronised.reached)
                }),
            ),
            ("ntpd_rs", by_the_kernel()),
        ]
    }),
    ("measured_acpi_pm", || vec![("end", cheap(900))]),
    ("migrated", || {
        vec![
            ("end", have_read()),
            (
                "end",
                rule_of_order("readings step back by no more than the OS clock", |phase| {
                    let largest_ns = phase.readers.largest_backward_ns;
                    let limit_ns = phase.readers.os_largest_backward_ns;
                    at_most_that("readers.largest_backward_ns", largest_ns, limit_ns)
                }),
            ),
        ]
    }),
    ("migrated_hpet", || {
        vec![(
            "watched",
            rule("tickline watch has seen each jump", |phase| {
                equals("jumps", phase.jumps, 3)
            }),
        )]
    }),
    ("suspended", || {
        vec![(
            "suspend",
            rule("the machine slept for longer than a window", |phase| {
                at_least("work.slept_ms", phase.work.slept_ms, 3_000)
            }),
        )]
    }),
    ("suspended_within", own_suspended_within),
];

/// What `tickline who` says to do instead.
fn who_instead(why: &'static str, command: &'static str) -> Rule {
    rule(why, move |phase| {
        has(
            "who.instead",
            phase.who.instead.first().map(String::as_str),
            command,
        )
    })
}

fn own_who() -> Vec<(&'static str, Rule)> {
    vec![
        (
            "who_unmounted",
            rule("nothing can be counted without tracefs", |phase| {
                equals("exit_code", phase.exit_code, 1)
            }),
        ),
        (
            "who_unmounted",
            who_instead("and this makes it possible", "mount -t tracefs"),
        ),
        (
            "who_nobody",
            rule("only root may count", |phase| {
                equals("exit_code", phase.exit_code, 1)
            }),
        ),
        (
            "who_nobody",
            who_instead("and that is said", "sudo tickline who"),
        ),
        (
            "who_pid",
            rule("other processes are left out", |phase| {
                equals("rows", phase.rows, 1)
            }),
        ),
        ("who_tsc", counted()),
        (
            "who_tsc",
            rule("the vDSO answers, and no tracepoint sees that", |phase| {
                equals("asker_rows", phase.asker_rows, 0)
            }),
        ),
    ]
}

/// The limiter gets 100 messages, half of them on each of two CPUs.
fn own_limiter() -> Vec<(&'static str, Rule)> {
    let has_run = || {
        rule("the program has run", |phase| {
            at_least("output.messages", phase.output.messages, 100)
        })
    };
    let refuses_none = || {
        rule("governor lets each message pass", |phase| {
            equals("output.refused", phase.output.refused, 0)
        })
    };
    vec![
        ("limiter_before", has_run()),
        ("limiter_before", refuses_none()),
        (
            "limiter_quanta",
            rule("over quanta it refuses nearly all of one CPU", |phase| {
                at_least("output.refused", phase.output.refused, 40)
            }),
        ),
        (
            "limiter_quanta",
            rule("because its clock steps back", |phase| {
                at_least("output.backward", phase.output.backward, 40)
            }),
        ),
        ("limiter_tickline", has_run()),
        ("limiter_tickline", refuses_none()),
        (
            "limiter_tickline",
            rule("the clock of tickline-quanta never steps back", |phase| {
                equals("output.backward", phase.output.backward, 0)
            }),
        ),
        // They differ by 2^32 ticks, less what the host takes.
        (
            "program_ahead",
            rule(
                "a comparison finds by how much the counters differ",
                |phase| {
                    let found = phase.output.machine.counter_difference_ticks;
                    at_least(
                        "output.machine.counter_difference_ticks",
                        found,
                        4_000_000_000,
                    )
                },
            ),
        ),
        (
            "program_ahead",
            rule("the TSC must not be chosen", |phase| {
                let fix = phase
                    .finding
                    .as_ref()
                    .and_then(|finding| finding.fix.as_deref());
                is("finding.fix", fix, "none: the counters are unsynchronised")
            }),
        ),
    ]
}

fn own_chrony() -> Vec<(&'static str, Rule)> {
    vec![
        (
            "reported_by_program",
            rule("a daemon vouches for the time, without the flag", |phase| {
                equals("exit_code", phase.exit_code, 0)
            }),
        ),
        (
            "reported_rtcsync_by_program",
            rule("and with it", |phase| {
                equals("exit_code", phase.exit_code, 0)
            }),
        ),
        (
            "reported_slewing_by_program",
            rule("the offset is known", |phase| {
                equals("exit_code", phase.exit_code, 1)
            }),
        ),
        (
            "reported_by_program",
            rule("chronyd leaves the flag without rtcsync", |phase| {
                is_false("kernel_synchronised", phase.kernel_synchronised)
            }),
        ),
        (
            "reported_rtcsync_by_program",
            rule("chronyd clears the flag with rtcsync", |phase| {
                is_true("kernel_synchronised", phase.kernel_synchronised)
            }),
        ),
        (
            "reported_rtcsync_by_program",
            rule("there is no such finding", |phase| {
                is_not("finding.code", phase.finding_code(), "ntp_flag")
            }),
        ),
    ]
}

/// The second request without an answer ends a claim. Both come each second, and 50 ms later until
/// the thread is scheduled.
fn own_utc_died() -> Vec<(&'static str, Rule)> {
    let soon = || {
        rule(
            "the second request without an answer ends a claim",
            |phase| at_most("after_ms.chronyd", phase.after_ms.chronyd, 2_100),
        )
    };
    vec![
        ("killed", soon()),
        ("killed_rtcsync", soon()),
        (
            "killed_rtcsync",
            rule("the kernel makes a claim of its own then", |phase| {
                at_least("kinds.kernel", phase.kinds.kernel, 1)
            }),
        ),
    ]
}

fn own_utc_moved() -> Vec<(&'static str, Rule)> {
    vec![
        (
            "suspended",
            rule("the suspend is noticed", |phase| {
                at_least("kinds.disrupted", phase.kinds.disrupted, 1)
            }),
        ),
        (
            "moved",
            rule(
                "a move that the host does not announce makes intervals wrong until chronyd measures",
                |phase| at_least("missed", phase.missed, 1),
            ),
        ),
    ]
}

fn by_the_kernel() -> Rule {
    rule("the readers got intervals", |phase| {
        at_least("kinds.kernel", phase.kinds.kernel, 100_000)
    })
}

fn own_utc_bound() -> Vec<(&'static str, Rule)> {
    vec![
        (
            "clock_bound",
            rule("clock-bound's daemon is the source", |phase| {
                is_true("work.synchronised.reached", phase.work.synchronised.reached)
            }),
        ),
        (
            "clock_bound",
            rule("the readers got intervals", |phase| {
                at_least("kinds.clock_bound", phase.kinds.clock_bound, 100_000)
            }),
        ),
        ("kernel", by_the_kernel()),
    ]
}

fn own_suspended_within() -> Vec<(&'static str, Rule)> {
    vec![
        (
            "grown",
            rule("lines last for so long", |phase| {
                is_true("work.reached", phase.work.reached)
            }),
        ),
        (
            "suspend",
            rule("the machine slept, and the kernel says so", |phase| {
                at_least("work.slept_ms", phase.work.slept_ms, 1)
            }),
        ),
        (
            "suspend",
            rule("readings are ahead by as much", |phase| {
                at_least("work.ahead_us", phase.work.ahead_us, 500_000)
            }),
        ),
        (
            "suspend",
            rule("and the clock says so until they are back", |phase| {
                at_least("work.disrupted_ms", phase.work.disrupted_ms, 1_000)
            }),
        ),
    ]
}

/// The checks of one guest only.
pub(in crate::vm) fn checks(guest: &str) -> impl Iterator<Item = Check> {
    let mut rules = Vec::new();
    for (name, own) in OWN {
        if name == guest {
            rules.extend(own());
        }
    }
    rules
        .into_iter()
        .map(|(phase, rule)| Check::new(phase, rule))
}

#[cfg(test)]
mod tests {
    use super::super::super::guest;
    use super::*;

    #[test]
    fn guests_with_rules_of_their_own_are_there() {
        let guests = guest::all().unwrap();
        for (name, _) in OWN {
            assert!(guests.iter().any(|guest| guest.name == name), "{name}");
        }
    }
}
