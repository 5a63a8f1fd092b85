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

use super::check::{Check, Rule, has, is, rule};

/// A group of rules. A comment says what the name does not; [`Group::rules`] has the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Group {
    // serving.rs
    ReadingsInOrder,
    ReadersHaveRead,
    ThreadsExchange,
    PhaseInOrder,
    CounterServes,
    /// The OS clock serves. `reason` in `guests.toml` has the reason.
    OsClockServes,
    CounterServesAtTimes,
    CounterUntested,
    CountersCompared,
    CheaperThanOsClock,
    CheaperThanAcpiPm,
    /// The kernel keeps time with another clocksource, but offers the TSC.
    TscOffered,
    LinesLast,
    // changes.rs
    ActDone,
    ActNoticed,
    RateNoticed,
    UnixTimeFollows,
    /// Unix time follows within 50 ms, in guests whose clocks run as fast as the host's.
    UnixTimeFollowsPromptly,
    CounterServesAgain,
    MachineMoved,
    MachineResumed,
    NoFurtherBackThanOs,
    SleptBeyondWindow,
    SleptWithinWindow,
    // program.rs
    ProgramSaysCounter,
    ProgramSaysOsClock,
    /// A static program that reads the clock works, and its time is right.
    CallerWorks,
    CallerServed,
    ServerStopped,
    TimeStandsStill,
    WatchWorks,
    WatchSeesEachJump,
    TscTaken,
    LimiterLetsAllPass,
    LimiterRefusesOneCpu,
    LimiterNeverStepsBack,
    DifferenceFound,
    TimeConfirmed,
    OffsetKnown,
    FlagLeft,
    FlagCleared,
    // who.rs
    WhoCounts,
    WhoNeedsTracefs,
    WhoNeedsRoot,
    WhoLeavesOutOthers,
    WhoSeesNoVdso,
    // debian.rs
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
    // utc.rs
    UtcRead,
    UtcContainsTrueTime,
    UtcMissesByTheLie,
    UtcByChronyd,
    /// chronyd's server states no error, so that chronyd's claims are estimates.
    UtcByChronydsEstimates,
    UtcByChronydAgain,
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
}

impl Group {
    /// The checks of the group in a phase.
    pub(super) fn checks(self, phase: &str) -> impl Iterator<Item = Check> {
        Check::all(phase, self.rules())
    }

    /// The rules of the group. This is only a table: each row names a function.
    fn rules(self) -> Vec<Rule> {
        match self {
            Self::ReadingsInOrder => serving::order(),
            Self::ReadersHaveRead => vec![serving::have_read()],
            Self::ThreadsExchange => vec![serving::threads_exchange()],
            Self::PhaseInOrder => serving::never_backward(),
            Self::CounterServes => serving::counter(),
            Self::OsClockServes => serving::os(),
            Self::CounterServesAtTimes => serving::used(),
            Self::CounterUntested => vec![serving::untested()],
            Self::CountersCompared => vec![serving::compared()],
            Self::CheaperThanOsClock => vec![serving::cheap(1_200)],
            Self::CheaperThanAcpiPm => vec![serving::cheap(900)],
            Self::TscOffered => vec![serving::tsc_offered()],
            Self::LinesLast => vec![serving::lines_last()],

            Self::ActDone => vec![changes::possible()],
            Self::ActNoticed => changes::act_noticed(),
            Self::RateNoticed => changes::rate_noticed(),
            Self::UnixTimeFollows => vec![changes::unix_time_follows()],
            Self::UnixTimeFollowsPromptly => vec![changes::unix_time_follows_promptly()],
            Self::CounterServesAgain => vec![changes::counter_serves_again()],
            Self::MachineMoved => changes::moved(),
            Self::MachineResumed => changes::resumed(100),
            Self::NoFurtherBackThanOs => vec![changes::no_further_back_than_the_os()],
            Self::SleptBeyondWindow => vec![changes::slept_beyond_window()],
            Self::SleptWithinWindow => changes::slept_within_window(),

            Self::ProgramSaysCounter => program::says_counter(),
            Self::ProgramSaysOsClock => program::says_os_clock(),
            Self::CallerWorks => program::caller(),
            Self::CallerServed => program::caller_served(),
            Self::ServerStopped => vec![program::server_stopped()],
            Self::TimeStandsStill => program::time_stands_still(),
            Self::WatchWorks => vec![program::watch_works()],
            Self::WatchSeesEachJump => vec![program::watch_sees_each_jump()],
            Self::TscTaken => vec![program::tsc_taken()],
            Self::LimiterLetsAllPass => program::limiter_lets_all_pass(),
            Self::LimiterRefusesOneCpu => program::limiter_refuses_one_cpu(),
            Self::LimiterNeverStepsBack => vec![program::limiter_never_steps_back()],
            Self::DifferenceFound => program::difference_found(),
            Self::TimeConfirmed => vec![program::time_confirmed()],
            Self::OffsetKnown => vec![program::offset_known()],
            Self::FlagLeft => vec![program::flag_left()],
            Self::FlagCleared => program::flag_cleared(),

            Self::WhoCounts => who::counts(),
            Self::WhoNeedsTracefs => who::says("mount -t tracefs"),
            Self::WhoNeedsRoot => who::says("sudo /tickline who"),
            Self::WhoLeavesOutOthers => vec![who::leaves_out_others()],
            Self::WhoSeesNoVdso => who::sees_no_vdso(),

            Self::LoadWorks => debian::load(),
            Self::LoadNative => debian::load_native(),
            Self::LoadServed => debian::load_served(),
            Self::LoadReadsMonotonic => vec![debian::load_reads_monotonic()],
            Self::LoadUnderRun => vec![debian::load_under_run()],
            Self::ServedExchange => debian::served_exchange(),
            Self::PageServes => vec![debian::page_serves()],
            Self::PageOfLivingServer => vec![debian::page_of_living_server()],
            Self::PackageStep => debian::package_step(),
            Self::GuestComplete => vec![debian::guest_complete()],

            Self::UtcRead => vec![utc::have_read()],
            Self::UtcContainsTrueTime => vec![utc::contains_true_time()],
            Self::UtcMissesByTheLie => vec![utc::misses_by_the_lie()],
            Self::UtcByChronyd => utc::by_chronyd(),
            Self::UtcByChronydsEstimates => utc::by_chronyds_estimates(),
            Self::UtcByChronydAgain => vec![utc::by_chronyd_again()],
            Self::UtcWidens => vec![utc::widens()],
            Self::UtcClaimEndsSoon => vec![utc::claim_ends_soon()],
            Self::UtcByKernelThen => vec![utc::by_the_kernel_then()],
            Self::UtcByKernel => vec![utc::by_the_kernel()],
            Self::UtcKernelSynchronised => vec![utc::kernel_synchronised()],
            Self::UtcByClockBound => utc::by_clock_bound(),
            Self::UtcAsTrueAsSource => vec![utc::as_true_as_its_source()],
            Self::UtcNoneNearLeapSecond => vec![utc::none_near_leap_second()],
            Self::UtcSuspendNoticed => vec![utc::suspend_noticed()],
            Self::UtcNarrow => vec![utc::narrow()],
            Self::UtcUnknown => vec![utc::unknown()],
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
