//! What guests must report. A group of rules holds in phases of several guests
//! (`tests/vm/guests.toml` names the groups and the phases). [`mod@own`] has the rules of single
//! guests.
//!
//! Each limit is stated by the clock itself (its bound, its interval), or names its source.

mod debian;
mod own;

use serde::Deserialize;

pub(super) use debian::{postgres, ratio};
pub(super) use own::checks as own;

use super::check::{
    Check, Rule, at_least, at_most, at_most_that, equals, has, is, is_nothing, is_one_of, is_true,
    lists_one_of, rule, rule_of_order,
};
use super::report::Phase;

/// A group of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Group {
    /// Readings never step back, within a thread and between threads. Every guest has this group
    /// at its end, except those whose OS clock itself steps back.
    ReadingsInOrder,
    /// Threads on several CPUs exchange readings, so that their order is tested at all.
    ThreadsExchange,
    /// Readings never step back in this phase of a guest whose OS clock steps back elsewhere.
    PhaseInOrder,
    /// Unix time follows the OS clock after the clock was set.
    UnixTimeFollows,
    /// Unix time follows within 50 ms, in guests whose clocks run as fast as the host's.
    UnixTimeFollowsPromptly,
    /// The counter serves, quietly: the OS clock and Unix time are within the stated bounds.
    CounterServes,
    /// The OS clock serves. `reason` in `guests.toml` has the reason.
    OsClockServes,
    /// The counter serves now and then, because its rate changes all the time.
    CounterServesAtTimes,
    /// At the first readings, an untested counter does not serve.
    CounterUntested,
    /// The CPUs' counters were compared, and are synchronised.
    CountersCompared,
    /// A reading by the counter is many times cheaper than the OS clock.
    CheaperThanOsClock,
    /// The kernel keeps time with another clocksource, but offers the TSC.
    TscOffered,
    /// The program `tickline` says that the counter serves.
    ProgramSaysCounter,
    /// The program `tickline` says that the OS clock serves.
    ProgramSaysOsClock,
    /// The clock notices the act of this phase within one interval.
    ActNoticed,
    /// The clock notices a change of the kernel's rate within one interval.
    RateNoticed,
    /// The act of this phase was possible in the guest.
    ActDone,
    /// The counter serves again after the act.
    CounterServesAgain,
    /// A static program that reads the clock works, and its time is right.
    CallerWorks,
    /// A page serves that program.
    CallerServed,
    /// The server has ended in order.
    ServerStopped,
    /// The program's time stands still after the OS clock has run ahead, and never steps back.
    TimeStandsStill,
    /// `tickline who` counts the calls of a program that asks for the time.
    WhoCounts,
    /// The machine has moved to a host with another counter.
    MachineMoved,
    /// `tickline watch` has watched.
    WatchWorks,
    /// The machine has resumed.
    MachineResumed,
    /// Threads have read UTC.
    UtcRead,
    /// Every interval of UTC contains the true time.
    UtcContainsTrueTime,
    /// UTC by chronyd is right, while its server keeps within its stated dispersion.
    UtcByChronyd,
    /// chronyd is the source of UTC again after a disruption.
    UtcByChronydAgain,
    /// A program on Debian works, in any mode.
    LoadWorks,
    /// A program without tickline has the kernel's clock.
    LoadNative,
    /// A program is served.
    LoadServed,
    /// A program also reads the monotonic clock. Servers tell only the time of day.
    LoadReadsMonotonic,
    /// `tickline run` says that the program is served.
    LoadUnderRun,
    /// A program runs while the server is killed, started and stopped.
    ServedExchange,
    /// A page serves a program, as the guest has seen by its page.
    PageServes,
    /// The guest finds a page only while a server lives.
    PageOfLivingServer,
    /// A step of the package, or of its unit, was done.
    PackageStep,
    /// The guest has ended in order.
    GuestComplete,
}

/// The longest time until a thread runs in a guest whose CPUs are busy. tickline promises the same
/// for Unix time after the clock was set.
const SCHEDULED_US: u64 = 50_000;

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

impl Group {
    /// The checks of the group in a phase.
    pub(super) fn checks(self, phase: &str) -> impl Iterator<Item = Check> {
        Check::all(phase, self.rules())
    }

    fn rules(self) -> Vec<Rule> {
        match self {
            Self::ReadingsInOrder => order(),
            Self::ThreadsExchange => vec![rule_of_order(
                // There are many more if two CPUs run at once, and few if the host lets them take
                // turns.
                "the readers have exchanged readings",
                |phase| at_least("readers.exchanges", phase.readers.exchanges, 10),
            )],
            Self::PhaseInOrder => never_backward(),
            Self::UnixTimeFollows => {
                vec![rule("Unix time follows a clock that was set", |phase| {
                    is_true("work.reached", phase.work.reached)
                })]
            }
            Self::UnixTimeFollowsPromptly => vec![rule("it does so within 50 ms", |phase| {
                at_most("work.after_us", phase.work.after_us, SCHEDULED_US)
            })],
            Self::CounterServes => counter(),
            Self::OsClockServes => os(),
            Self::CounterServesAtTimes => used(),
            Self::CounterUntested => vec![rule("an untested counter is not used", |phase| {
                lists_one_of("reasons", &phase.reasons, &["untested", "kernel_rejected"])
            })],
            Self::CountersCompared => vec![rule("the counters were compared", |phase| {
                let found = phase.comparison.found.as_deref();
                is_one_of("comparison.found", found, &["single", "synchronised"])
            })],
            Self::CheaperThanOsClock => vec![cheap(1_200)],
            Self::TscOffered => vec![rule("the kernel offers the TSC", |phase| {
                let offers = ["tsc hpet acpi_pm", "tsc-early hpet acpi_pm"];
                is_one_of("clocksources", phase.clocksources.as_deref(), &offers)
            })],
            Self::ProgramSaysCounter => vec![
                rule("the program tickline says the same", |phase| {
                    is("serves", phase.serves.as_deref(), "counter")
                }),
                right_exit_code(),
            ],
            Self::ProgramSaysOsClock => vec![
                rule("the program tickline says the same", |phase| {
                    equals("exit_code", phase.exit_code, 1)
                }),
                right_exit_code(),
            ],
            Self::ActNoticed => vec![
                rule("it is noticed at all", |phase| {
                    is_true("work.reached", phase.work.reached)
                }),
                rule("it is noticed within one interval", |phase| {
                    let beyond_us = phase.work.beyond_interval_us;
                    at_most("work.beyond_interval_us", beyond_us, SCHEDULED_US)
                }),
            ],
            Self::RateNoticed => rate(),
            Self::ActDone => vec![possible()],
            Self::CounterServesAgain => vec![rule("the counter is used again", |phase| {
                is_true("work.reached", phase.work.reached)
            })],
            Self::CallerWorks => caller(),
            Self::CallerServed => caller_served(),
            Self::ServerStopped => vec![rule("the server ends in order", |phase| {
                has("server", phase.server.as_deref(), "the leases have run out")
            })],
            Self::TimeStandsStill => vec![
                works(),
                rule("its time stands still where the line was ahead", |phase| {
                    equals("output.backward", phase.output.backward, 0)
                }),
                after_the_program_before(),
            ],
            Self::WhoCounts => who(),
            Self::MachineMoved => moved(),
            Self::WatchWorks => vec![rule("tickline watch has watched", |phase| {
                is("errors", phase.errors.as_deref(), "")
            })],
            Self::MachineResumed => resumed(100),
            Self::UtcRead => vec![rule("the readers have read", |phase| {
                at_least("readings", phase.readings, 10_000_000)
            })],
            Self::UtcContainsTrueTime => {
                vec![rule("every interval contains the true time", |phase| {
                    equals("missed", phase.missed, 0)
                })]
            }
            Self::UtcByChronyd => utc(),
            Self::UtcByChronydAgain => vec![rule("chronyd is the source again", |phase| {
                is_true("work.back.reached", phase.work.back.reached)
            })],
            Self::LoadWorks => debian::load(),
            Self::LoadNative => debian::load_native(),
            Self::LoadServed => debian::load_served(),
            Self::LoadReadsMonotonic => vec![rule("it has called the clock", |phase| {
                at_least("monotonic.calls", phase.monotonic.calls, 1)
            })],
            Self::LoadUnderRun => vec![rule("`tickline run` says that it is served", |phase| {
                has("messages", phase.messages.as_deref(), "has the clock of")
            })],
            Self::ServedExchange => debian::served_exchange(),
            Self::PageServes => vec![rule("a page serves it", |phase| {
                is_true("is_served", phase.is_served)
            })],
            Self::PageOfLivingServer => vec![rule(
                "a page is served after the server was started, continued and started, and not \
                 after it was killed, stopped and ended",
                |phase| match phase.served[..] {
                    [false, true, false, true, false, true] => Ok(()),
                    ref found => Err(format!("served is {found:?}")),
                },
            )],
            Self::PackageStep => vec![
                rule("the command does its work", |phase| {
                    is_true("done", phase.done)
                }),
                rule(
                    "and then the unit, and the page, are as they should be",
                    |phase| is_true("reached", phase.reached),
                ),
            ],
            Self::GuestComplete => vec![rule("the guest has done all", |_| Ok(()))],
        }
    }
}

fn never_backward() -> Vec<Rule> {
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

fn order() -> Vec<Rule> {
    let mut rules = never_backward();
    rules.push(have_read());
    rules
}

fn have_read() -> Rule {
    rule_of_order("the readers have read", |phase| {
        at_least("readers.readings", phase.readers.readings, 100_000)
    })
}

/// The emulator's counters never step back, on any CPU, so the comparison finds them synchronised.
/// A busy host makes some brackets wide, and the bounds with them: that may be seen in one of ten
/// rows of readings.
fn counter() -> Vec<Rule> {
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

fn os() -> Vec<Rule> {
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
fn used() -> Vec<Rule> {
    vec![
        no_gate_is_closed(),
        rule("the counter serves now and then", |phase| {
            at_least("fast_percent", phase.fast_percent, 10)
        }),
    ]
}

/// The guest `measured_hpet` in `guests.toml` explains the figures.
fn cheap(percent: u64) -> Rule {
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

fn right_exit_code() -> Rule {
    rule(
        "the exit code is 1 if a clock is slow or wrong, or the OS clock serves",
        |phase| is_true("exit_code_is_right", phase.exit_code_is_right),
    )
}

fn possible() -> Rule {
    rule("it could be done", |phase| {
        is_true("work.done", phase.work.done)
    })
}

/// The clock notices a change of rate within one interval of 0.5 s, and 50 ms until the thread is
/// scheduled. By then the line may be off by 1/1000 of this time.
fn rate() -> Vec<Rule> {
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

fn works() -> Rule {
    rule("the program does its work", |phase| {
        equals("exit_code", phase.exit_code, 0)
    })
}

fn after_the_program_before() -> Rule {
    rule(
        "its time is not before that of the program before",
        |phase| is_true("is_in_order", phase.is_in_order),
    )
}

fn caller() -> Vec<Rule> {
    vec![
        works(),
        rule(
            "each call of the kernel's clock is a system call",
            |phase| is("clocksource", phase.clocksource.as_deref(), "hpet"),
        ),
        rule("it has called the clock", |phase| {
            at_least("output.call_ns", phase.output.call_ns, 1)
        }),
        rule("its time never steps back", |phase| {
            equals("output.backward", phase.output.backward, 0)
        }),
        after_the_program_before(),
    ]
}

/// Each call of the kernel's clock would be a system call.
fn caller_served() -> Vec<Rule> {
    vec![
        rule("it is served", |phase| {
            let text = "/init has the clock of /run/tickline/page.v1";
            has("errors", phase.errors.as_deref(), text)
        }),
        rule(
            "three times as fast a call, though the host be busy",
            |phase| {
                at_most_that(
                    "output.call_ns",
                    phase.output.call_ns,
                    phase.native_third_ns,
                )
            },
        ),
    ]
}

/// `tickline who` must find a program that asks for the time 100,000 times a second. Such a call
/// takes at least 300 ns, so the calls take at least 30 permille of a CPU.
fn who() -> Vec<Rule> {
    vec![
        counted(),
        rule("each call is a system call", |phase| {
            is("clocksource", phase.clocksource.as_deref(), "hpet")
        }),
        rule("the program is found", |phase| {
            is_true("first_is_asker", phase.first_is_asker)
        }),
        rule("by its name", |phase| {
            is("asker.process", phase.asker.process.as_deref(), "asker")
        }),
        rule("and its clock", |phase| {
            is(
                "asker.clock",
                phase.asker.clock.as_deref(),
                "clock_gettime MONOTONIC",
            )
        }),
        rule("as often as it says itself", |phase| {
            at_least("counted_permille", phase.counted_permille, 990)
        }),
        rule("as often as it says itself", |phase| {
            at_most("counted_permille", phase.counted_permille, 1_010)
        }),
        rule("every sample had room", |phase| {
            equals("who.lost_calls", phase.who.lost_calls, 0)
        }),
        rule("the calls cost a part of a CPU", |phase| {
            at_least("core_permille", phase.core_permille, 30)
        }),
        rule("less, when fixed", |phase| {
            let fixed = phase.fixed_core_permille;
            at_most_that("fixed_core_permille", fixed, phase.core_permille)
        }),
    ]
}

fn counted() -> Rule {
    rule("calls were counted", |phase| {
        equals("exit_code", phase.exit_code, 0)
    })
}

/// Readings may be ahead by the rest of the window, at most 1 s. The status says so within 100 ms.
/// After a jump within its window, a line goes on until the next iteration. This takes at most one
/// interval, and 50 ms until the thread is scheduled.
fn moved() -> Vec<Rule> {
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
fn resumed(within_ms: u64) -> Vec<Rule> {
    vec![
        rule("it is off, and does not say so", |phase| {
            at_most("work.unreported_ms", phase.work.unreported_ms, 100)
        }),
        rule("the bounds hold again", move |phase| {
            at_most("work.outside_ms", phase.work.outside_ms, within_ms)
        }),
    ]
}

/// chronyd's server keeps within its stated dispersion, whatever happens to chronyd and to the
/// clock.
fn utc() -> Vec<Rule> {
    let mut rules = vec![
        rule("chronyd is the source", |phase| {
            is_true("work.synchronised.reached", phase.work.synchronised.reached)
        }),
        rule("the readers got intervals", |phase| {
            at_least("kinds.chronyd", phase.kinds.chronyd, 100_000)
        }),
    ];
    rules.extend(Group::UtcRead.rules());
    rules.extend(Group::UtcContainsTrueTime.rules());
    rules
}

/// The clocksource of a guest before its act.
pub(super) fn clocksource(name: String) -> Rule {
    rule("the guest is the one that was wanted", move |phase| {
        is("clocksource", phase.clocksource.as_deref(), &name)
    })
}

/// The reason for which the OS clock serves.
pub(super) fn reason(code: String) -> Rule {
    rule("why the counter does not serve", move |phase| {
        is("reason", phase.reason.as_deref(), &code)
    })
}

/// The code of the first finding that the program `tickline` prints.
pub(super) fn finding(code: String) -> Rule {
    rule("the program's first finding", move |phase| {
        is("finding.code", phase.finding_code(), &code)
    })
}

/// A part of what the program `tickline` says to do.
pub(super) fn fix(text: String) -> Rule {
    rule("what the program says to do", move |phase| {
        let fix = phase
            .finding
            .as_ref()
            .and_then(|finding| finding.fix.as_deref());
        has("finding.fix", fix, &text)
    })
}
