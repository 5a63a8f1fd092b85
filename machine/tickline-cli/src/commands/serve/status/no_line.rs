//! Why a server has no line on this machine.

use tickline::{Clock, ClockState, Driver, LinePerCpu, Reason};

use super::PageServer;

/// Why a page has no line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::commands::serve) enum WhyNoLine {
    /// A gate is closed on this machine, for this reason.
    Machine(Reason),
    /// The machine gives no reason: what is known about the server, in words.
    Server(&'static str),
}

impl WhyNoLine {
    /// Why this server has no line.
    pub(super) fn of_server(server: &PageServer) -> Self {
        let state = machines_state();
        let reason = state.and_then(reason_of_machine);
        reason.map_or_else(
            || Self::Server(servers_reason(server, state)),
            Self::Machine,
        )
    }

    /// The reason that holds for each process of this machine.
    pub(in crate::commands::serve) const fn reason_of_machine(self) -> Option<Reason> {
        match self {
            Self::Machine(reason) => Some(reason),
            Self::Server(_) => None,
        }
    }
}

/// The state of a clock of this process, whose gates say why a server has no line on this machine.
/// The page has no room for the server's reason, and its log is not for every user.
fn machines_state() -> Option<ClockState> {
    let clock = Clock::builder()
        .driver(Driver::Manual)
        .line_per_cpu(LinePerCpu::Off)
        .build()
        .ok()?;
    clock.maintain();
    Some(clock.status().state)
}

/// What is known about a server without a line, where the machine gives no reason; `state` is that
/// of a clock of this process, which compares no counters.
const fn servers_reason(server: &PageServer, state: Option<ClockState>) -> &'static str {
    match (server, state) {
        (PageServer::None, _) => "the server has ended",
        (
            PageServer::Process(_) | PageServer::Invisible,
            Some(ClockState::Fallback(Reason::Untested)),
        ) => {
            "the server must compare the counters of the CPUs: in its first seconds it may be at \
             it; after that it could not (tickline explain untestable) and tries again, or they \
             differ; its log says which"
        }
        (PageServer::Process(_) | PageServer::Invisible, _) => {
            "at a start, after a step of the clock and in a slew this lasts seconds; if it lasts \
             longer, the server's log has the reason"
        }
        (PageServer::Unknown(_), _) => "unknown here; if a server runs, its log has the reason",
    }
}

/// The reason for this state of a clock, if it holds for each process of the machine. `None` if no
/// gate is closed, or if this process can't know the server's reason.
const fn reason_of_machine(state: ClockState) -> Option<Reason> {
    match state {
        // Every other reason may be this process's own: its environment, its rights, its view of
        // /sys, what it has not compared yet, and what it measured once.
        ClockState::Fallback(
            reason @ (Reason::NoCounter
            | Reason::NoAtomics
            | Reason::NotInvariant
            | Reason::KernelUndecided
            | Reason::KernelRejected
            | Reason::KernelUsesOther
            | Reason::HypervisorPolicy
            | Reason::CounterTooSlow
            | Reason::Unsynchronised),
        ) => Some(reason),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_of_this_process_is_no_reason_of_the_server() {
        for (state, expected) in [
            (
                ClockState::Fallback(Reason::KernelRejected),
                Some(Reason::KernelRejected),
            ),
            (ClockState::Fallback(Reason::Untested), None),
            (ClockState::Fallback(Reason::KernelUnknown), None),
            (ClockState::Fallback(Reason::DisabledByEnvironment), None),
            (ClockState::Fast, None),
        ] {
            assert_eq!(reason_of_machine(state), expected, "{state}");
        }
    }

    const NEEDS_COMPARISON: Option<ClockState> = Some(ClockState::Fallback(Reason::Untested));

    /// Symptom: "the server has stopped" read as if a signal had stopped it (state T).
    #[test]
    fn a_server_that_is_gone_is_said_to_have_ended() {
        for state in [NEEDS_COMPARISON, Some(ClockState::Fast), None] {
            let reason = servers_reason(&PageServer::None, state);
            assert_eq!(reason, "the server has ended");
        }
    }

    /// Symptom: "in its first seconds a server may compare the counters", minutes after its start
    /// on a machine that was too busy for it.
    #[test]
    fn a_server_that_must_compare_the_counters_may_have_failed_to() {
        for server in [PageServer::Process(42), PageServer::Invisible] {
            let reason = servers_reason(&server, NEEDS_COMPARISON);
            assert!(reason.contains("could not"), "{reason}");
            assert!(reason.contains("tries again"), "{reason}");
        }
    }

    #[test]
    fn a_server_with_no_need_to_compare_the_counters_is_not_said_to() {
        let reason = servers_reason(&PageServer::Process(42), Some(ClockState::Fast));
        assert!(!reason.contains("compare"), "{reason}");
    }

    /// Symptom: no reason at all for a user who may not see the lock.
    #[test]
    fn a_user_who_can_not_see_the_server_does_not_know_its_reason() {
        let unknown = PageServer::Unknown("no right".to_owned());
        assert!(servers_reason(&unknown, NEEDS_COMPARISON).starts_with("unknown here"));
    }

    /// Symptom: "no gate of the machine is closed", where the server's comparison had closed one.
    #[test]
    fn nothing_is_claimed_about_the_gates_that_only_the_server_knows() {
        let unknown = PageServer::Unknown("no right".to_owned());
        for server in [PageServer::None, PageServer::Process(42), unknown] {
            for state in [NEEDS_COMPARISON, Some(ClockState::Fast), None] {
                let reason = servers_reason(&server, state);
                assert!(!reason.contains("gate"), "{reason}");
            }
        }
    }
}
