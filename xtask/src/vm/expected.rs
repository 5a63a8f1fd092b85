//! What guests must report: groups of rules. `tests/vm/guests.toml` names the groups of each guest,
//! and the phases in which they hold. The rules are in a file for each subject:
//!
//! - `serving.rs`: which clock serves, its order, its bounds and its costs;
//! - `changes.rs`: acts that change a clock or the machine;
//! - `program.rs`: what the program `tickline` says, and programs that read the clock;
//! - `who.rs`: `tickline who`;
//! - `debian.rs`: programs on Debian, and the package;
//! - `utc.rs`: UTC with its error.
//!
//! Each limit is stated by the clock itself (its bound, its interval), or names its source.

mod changes;
mod debian;
mod program;
mod serving;
mod utc;
mod who;

use serde::Deserialize;

pub(super) use debian::{postgres, ratio};

use super::check::{Check, Rule, figure, has, is, rule};

/// Makes the type of the groups, and the table of their rules. Each row names a group, and the
/// function of the same name that returns its rule or rules.
macro_rules! groups {
    ($($group:ident: $file:ident::$rules:ident,)*) => {
        /// A group of rules.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub(super) enum Group {
            $($group,)*
        }

        impl Group {
            /// Every group, with the name of its function.
            #[cfg(test)]
            const ALL: &[(Self, &str)] = &[$((Self::$group, stringify!($rules)),)*];

            fn rules(self) -> Vec<Rule> {
                match self {
                    $(Self::$group => $file::$rules().into(),)*
                }
            }
        }
    };
}

groups! {
    ReadingsInOrder: serving::readings_in_order,
    ReadersHaveRead: serving::readers_have_read,
    ThreadsExchange: serving::threads_exchange,
    PhaseInOrder: serving::phase_in_order,
    CounterServes: serving::counter_serves,
    OsClockServes: serving::os_clock_serves,
    CounterServesAtTimes: serving::counter_serves_at_times,
    CounterUntested: serving::counter_untested,
    CountersCompared: serving::counters_compared,
    CheaperThanOsClock: serving::cheaper_than_os_clock,
    CheaperThanAcpiPm: serving::cheaper_than_acpi_pm,
    TscOffered: serving::tsc_offered,
    LinesLast: serving::lines_last,

    ActDone: changes::act_done,
    ActNoticed: changes::act_noticed,
    RateNoticed: changes::rate_noticed,
    UnixTimeFollows: changes::unix_time_follows,
    UnixTimeFollowsPromptly: changes::unix_time_follows_promptly,
    CounterServesAgain: changes::counter_serves_again,
    MachineMoved: changes::machine_moved,
    MachineResumed: changes::machine_resumed,
    NoFurtherBackThanOs: changes::no_further_back_than_os,
    SleptBeyondWindow: changes::slept_beyond_window,
    SleptWithinWindow: changes::slept_within_window,

    ProgramSaysCounter: program::program_says_counter,
    ProgramSaysOsClock: program::program_says_os_clock,
    CallerWorks: program::caller_works,
    CallerServed: program::caller_served,
    ServerStopped: program::server_stopped,
    TimeStandsStill: program::time_stands_still,
    WatchWorks: program::watch_works,
    WatchSeesEachJump: program::watch_sees_each_jump,
    TscChosen: program::tsc_chosen,
    LimiterLetsAllPass: program::limiter_lets_all_pass,
    LimiterRefusesOneCpu: program::limiter_refuses_one_cpu,
    LimiterNeverStepsBack: program::limiter_never_steps_back,
    DifferenceFound: program::difference_found,
    TimeConfirmed: program::time_confirmed,
    OffsetKnown: program::offset_known,
    FlagLeft: program::flag_left,
    FlagCleared: program::flag_cleared,

    WhoCounts: who::who_counts,
    WhoNeedsTracefs: who::who_needs_tracefs,
    WhoNeedsRoot: who::who_needs_root,
    WhoLeavesOutOthers: who::who_leaves_out_others,
    WhoSeesNoVdso: who::who_sees_no_vdso,

    LoadWorks: debian::load_works,
    LoadNative: debian::load_native,
    LoadServed: debian::load_served,
    LoadReadsMonotonic: debian::load_reads_monotonic,
    LoadUnderRun: debian::load_under_run,
    ServedExchange: debian::served_exchange,
    PageServes: debian::page_serves,
    PageOfLivingServer: debian::page_of_living_server,
    PackageStep: debian::package_step,
    GuestComplete: debian::guest_complete,

    UtcRead: utc::utc_read,
    UtcContainsTrueTime: utc::utc_contains_true_time,
    UtcMissesByTheLie: utc::utc_misses_by_the_lie,
    UtcByChronyd: utc::utc_by_chronyd,
    UtcByChronydsEstimates: utc::utc_by_chronyds_estimates,
    UtcByChronydAgain: utc::utc_by_chronyd_again,
    UtcWidens: utc::utc_widens,
    UtcClaimEndsSoon: utc::utc_claim_ends_soon,
    UtcByKernelThen: utc::utc_by_kernel_then,
    UtcByKernel: utc::utc_by_kernel,
    UtcKernelSynchronised: utc::utc_kernel_synchronised,
    UtcByClockBound: utc::utc_by_clock_bound,
    UtcAsWrongAsSource: utc::utc_as_wrong_as_source,
    UtcNoneNearLeapSecond: utc::utc_none_near_leap_second,
    UtcSuspendNoticed: utc::utc_suspend_noticed,
    UtcNarrow: utc::utc_narrow,
    UtcUnknown: utc::utc_unknown,
}

impl Group {
    /// The checks of the group in a phase.
    pub(super) fn checks(self, phase: &str) -> impl Iterator<Item = Check> {
        Check::all(phase, self.rules())
    }
}

/// The clocksource of a guest before its act.
pub(super) fn clocksource(name: String) -> Rule {
    rule("the guest is the one that was wanted", move |phase| {
        is(figure!(phase.clocksource), &name)
    })
}

/// The reason for which the OS clock serves.
pub(super) fn reason(code: String) -> Rule {
    rule("why the counter does not serve", move |phase| {
        is(figure!(phase.watched.reason), &code)
    })
}

/// The code of the first finding that the program `tickline` prints.
pub(super) fn finding(code: String) -> Rule {
    rule("the program's first finding", move |phase| {
        is(figure!(phase.finding.code), &code)
    })
}

/// A part of what the program `tickline` says to do.
pub(super) fn fix(text: String) -> Rule {
    rule("what the program says to do", move |phase| {
        has(figure!(phase.finding.fix), &text)
    })
}

#[cfg(test)]
mod tests {
    use serde::de::value::{Error, StrDeserializer};

    use super::*;

    #[test]
    fn each_group_has_the_name_of_its_function() {
        for (group, function) in Group::ALL {
            let named = Group::deserialize(StrDeserializer::<Error>::new(function));
            assert_eq!(named.as_ref(), Ok(group));
        }
    }

    #[test]
    fn each_group_has_a_rule() {
        for (group, _) in Group::ALL {
            assert!(!group.rules().is_empty(), "{group:?}");
        }
    }
}
