//! What guests must report: groups of rules. `tests/vm/guests.toml` names the groups of each guest,
//! and the phases in which they hold.
//!
//! Each limit is stated by the clock itself (its bound, its interval), or names its source.

mod debian;
mod program;
mod serving;
mod utc;

use serde::Deserialize;

pub(super) use debian::{postgres, ratio};

use super::check::{
    Check, Rule, at_least, at_most, equals, has, is, is_false, is_one_of, is_true, lists_one_of,
    rule, rule_of_order,
};

/// A group of rules. A comment says what the words of its rules don't ([`Group::rules`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Group {
    ReadingsInOrder,
    ThreadsExchange,
    PhaseInOrder,
    UnixTimeFollows,
    /// Unix time follows within 50 ms, in guests whose clocks run as fast as the host's.
    UnixTimeFollowsPromptly,
    CounterServes,
    /// The OS clock serves. `reason` in `guests.toml` has the reason.
    OsClockServes,
    CounterServesAtTimes,
    CounterUntested,
    CountersCompared,
    CheaperThanOsClock,
    /// The kernel keeps time with another clocksource, but offers the TSC.
    TscOffered,
    ProgramSaysCounter,
    ProgramSaysOsClock,
    ActNoticed,
    RateNoticed,
    ActDone,
    CounterServesAgain,
    /// A static program that reads the clock works, and its time is right.
    CallerWorks,
    CallerServed,
    ServerStopped,
    TimeStandsStill,
    WhoCounts,
    MachineMoved,
    WatchWorks,
    MachineResumed,
    UtcRead,
    UtcContainsTrueTime,
    UtcMissesByTheLie,
    UtcByChronyd,
    UtcByChronydAgain,
    /// A program on Debian works, in any mode.
    LoadWorks,
    LoadNative,
    LoadServed,
    /// A program also reads the monotonic clock. Servers tell only the time of day.
    LoadReadsMonotonic,
    LoadUnderRun,
    ServedExchange,
    PageServes,
    PageOfLivingServer,
    PackageStep,
    GuestComplete,
    TscTaken,
    WhoNeedsTracefs,
    WhoNeedsRoot,
    WhoLeavesOutOthers,
    WhoSeesNoVdso,
    LimiterLetsAllPass,
    LimiterRefusesOneCpu,
    LimiterNeverStepsBack,
    DifferenceFound,
    TimeConfirmed,
    OffsetKnown,
    FlagLeft,
    FlagCleared,
    UtcWidens,
    UtcClaimEndsSoon,
    UtcByKernelThen,
    UtcByKernel,
    UtcKernelSynchronised,
    UtcByClockBound,
    UtcAsTrueAsSource,
    UtcNoneNearLeapSecond,
    UtcSuspendNoticed,
    UtcNarrow,
    UtcUnknown,
    CheaperThanAcpiPm,
    ReadersHaveRead,
    NoFurtherBackThanOs,
    WatchSeesEachJump,
    SleptBeyondWindow,
    SleptWithinWindow,
    LinesLast,
}

impl Group {
    /// The checks of the group in a phase.
    pub(super) fn checks(self, phase: &str) -> impl Iterator<Item = Check> {
        Check::all(phase, self.rules())
    }

    fn rules(self) -> Vec<Rule> {
        match self {
            Self::ReadingsInOrder => serving::order(),
            Self::ThreadsExchange => vec![rule_of_order(
                // There are many more if two CPUs run at once, and few if the host lets them take
                // turns.
                "the readers have exchanged readings",
                |phase| at_least("readers.exchanges", phase.readers.exchanges, 10),
            )],
            Self::PhaseInOrder => serving::never_backward(),
            Self::UnixTimeFollows => {
                vec![rule("Unix time follows a clock that was set", |phase| {
                    is_true("work.reached", phase.work.reached)
                })]
            }
            Self::UnixTimeFollowsPromptly => vec![rule("it does so within 50 ms", |phase| {
                at_most("work.after_us", phase.work.after_us, serving::SCHEDULED_US)
            })],
            Self::CounterServes => serving::counter(),
            Self::OsClockServes => serving::os(),
            Self::CounterServesAtTimes => serving::used(),
            Self::CounterUntested => vec![rule("an untested counter is not used", |phase| {
                lists_one_of("reasons", &phase.reasons, &["untested", "kernel_rejected"])
            })],
            Self::CountersCompared => vec![rule("the counters were compared", |phase| {
                let found = phase.comparison.found.as_deref();
                is_one_of("comparison.found", found, &["single", "synchronised"])
            })],
            Self::CheaperThanOsClock => vec![serving::cheap(1_200)],
            Self::TscOffered => vec![rule("the kernel offers the TSC", |phase| {
                let offers = ["tsc hpet acpi_pm", "tsc-early hpet acpi_pm"];
                is_one_of("clocksources", phase.clocksources.as_deref(), &offers)
            })],
            Self::ProgramSaysCounter => vec![
                rule("the program tickline says the same", |phase| {
                    is_true("output.fast", phase.output.fast)
                }),
                program::right_exit_code(),
            ],
            Self::ProgramSaysOsClock => vec![
                rule("the program tickline says the same", |phase| {
                    is_false("output.fast", phase.output.fast)
                }),
                program::right_exit_code(),
            ],
            Self::ActNoticed => vec![
                rule("it is noticed at all", |phase| {
                    is_true("work.reached", phase.work.reached)
                }),
                rule("it is noticed within one interval", |phase| {
                    let beyond_us = phase.work.beyond_interval_us;
                    at_most("work.beyond_interval_us", beyond_us, serving::SCHEDULED_US)
                }),
            ],
            Self::RateNoticed => serving::rate(),
            Self::ActDone => vec![serving::possible()],
            Self::CounterServesAgain => vec![rule("the counter is used again", |phase| {
                is_true("work.reached", phase.work.reached)
            })],
            Self::CallerWorks => program::caller(),
            Self::CallerServed => program::caller_served(),
            Self::ServerStopped => vec![rule("the server ends in order", |phase| {
                has("server", phase.server.as_deref(), "the leases have run out")
            })],
            Self::TimeStandsStill => vec![
                program::works(),
                rule("its time stands still where the line was ahead", |phase| {
                    equals("output.backward", phase.output.backward, 0)
                }),
                program::after_the_program_before(),
            ],
            Self::WhoCounts => program::who(),
            Self::MachineMoved => serving::moved(),
            Self::WatchWorks => vec![rule("tickline watch has watched", |phase| {
                is("errors", phase.errors.as_deref(), "")
            })],
            Self::MachineResumed => serving::resumed(100),
            Self::UtcRead => vec![utc::have_read()],
            Self::UtcContainsTrueTime => vec![utc::contains_true_time()],
            Self::UtcMissesByTheLie => vec![utc::misses_by_the_lie()],
            Self::UtcByChronyd => utc::by_chronyd(),
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
                has("messages", phase.messages.as_deref(), " the clock of ")
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
            Self::TscTaken => vec![rule(
                "doctor --fix takes the TSC, after a comparison of the CPUs",
                |phase| is("clocksource", phase.clocksource.as_deref(), "tsc"),
            )],
            Self::WhoNeedsTracefs => program::who_says("mount -t tracefs"),
            Self::WhoNeedsRoot => program::who_says("sudo /tickline who"),
            Self::WhoLeavesOutOthers => vec![rule("other processes are left out", |phase| {
                equals("rows", phase.rows, 1)
            })],
            Self::WhoSeesNoVdso => program::who_sees_no_vdso(),
            Self::LimiterLetsAllPass => program::limiter_lets_all_pass(),
            Self::LimiterRefusesOneCpu => program::limiter_refuses_one_cpu(),
            Self::LimiterNeverStepsBack => vec![rule("its clock never steps back", |phase| {
                equals("output.backward", phase.output.backward, 0)
            })],
            Self::DifferenceFound => program::difference_found(),
            Self::TimeConfirmed => vec![rule("a daemon confirms the time", |phase| {
                equals("exit_code", phase.exit_code, 0)
            })],
            Self::OffsetKnown => vec![rule("the offset is known", |phase| {
                equals("exit_code", phase.exit_code, 1)
            })],
            Self::FlagLeft => vec![rule("chronyd leaves the flag without rtcsync", |phase| {
                is_false("kernel_synchronised", phase.kernel_synchronised)
            })],
            Self::FlagCleared => program::flag_cleared(),
            Self::UtcWidens => vec![rule(
                "in 8 s without an answer, the interval grows by 1 ppm to both sides",
                |phase| at_least("work.grown_ns", phase.work.grown_ns, 8_000),
            )],
            Self::UtcClaimEndsSoon => vec![utc::claim_ends_soon()],
            Self::UtcByKernelThen => {
                vec![rule("the kernel makes a claim of its own then", |phase| {
                    at_least("kinds.kernel", phase.kinds.kernel, 1)
                })]
            }
            Self::UtcByKernel => vec![utc::by_the_kernel()],
            Self::UtcKernelSynchronised => vec![rule("the kernel is the source", |phase| {
                is_true("work.synchronised.reached", phase.work.synchronised.reached)
            })],
            Self::UtcByClockBound => utc::by_clock_bound(),
            Self::UtcAsTrueAsSource => {
                vec![rule("an interval is as true as its source", |phase| {
                    at_least("missed", phase.missed, 1)
                })]
            }
            Self::UtcNoneNearLeapSecond => {
                vec![rule("no interval near a leap second", |phase| {
                    at_least("kinds.leap_second", phase.kinds.leap_second, 1)
                })]
            }
            Self::UtcNarrow => vec![rule(
                "half of an interval is narrower than UTC moves in a second at 400 ppm",
                |phase| at_most("narrowest_ns", phase.narrowest_ns, 800_000),
            )],
            Self::UtcUnknown => vec![rule("no reading has an interval", |phase| {
                equals("answered", phase.answered, 0)
            })],
            Self::UtcSuspendNoticed => vec![rule("the suspend is noticed", |phase| {
                at_least("kinds.disrupted", phase.kinds.disrupted, 1)
            })],
            Self::CheaperThanAcpiPm => vec![serving::cheap(900)],
            Self::ReadersHaveRead => vec![serving::have_read()],
            Self::NoFurtherBackThanOs => vec![serving::no_further_back_than_the_os()],
            Self::WatchSeesEachJump => vec![rule("tickline watch has seen each jump", |phase| {
                equals("jumps", phase.jumps, 3)
            })],
            Self::SleptBeyondWindow => {
                vec![rule(
                    "the machine slept for longer than a window",
                    |phase| at_least("work.slept_ms", phase.work.slept_ms, 3_000),
                )]
            }
            Self::SleptWithinWindow => serving::slept_within_window(),
            Self::LinesLast => vec![rule("lines last for so long", |phase| {
                is_true("work.reached", phase.work.reached)
            })],
        }
    }
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
