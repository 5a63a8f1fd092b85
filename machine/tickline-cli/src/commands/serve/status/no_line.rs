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
        machines_state()
            .and_then(reason_of_machine)
            .map_or_else(|| Self::Server(servers_reason(server)), Self::Machine)
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

/// What is known about a server without a line, where the machine gives no reason.
const fn servers_reason(server: &PageServer) -> &'static str {
    match server {
        PageServer::None => "the server has stopped",
        PageServer::Process(_) | PageServer::Invisible => {
            "in its first seconds a server may compare the counters of the CPUs; later its log has \
             the reason"
        }
        PageServer::Unknown(_) => "unknown here; if a server runs, its log has the reason",
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

    /// Symptom: the same text for a server that compared the counters and for one that was stopped.
    #[test]
    fn a_stopped_server_is_told_from_one_that_may_compare_the_counters() {
        assert!(servers_reason(&PageServer::None).starts_with("the server has stopped"));
        for server in [PageServer::Process(42), PageServer::Invisible] {
            assert!(servers_reason(&server).contains("may compare the counters"));
        }
    }

    /// Symptom: no reason at all for a user who may not see the lock.
    #[test]
    fn a_user_who_can_not_see_the_server_does_not_know_its_reason() {
        let unknown = PageServer::Unknown("no right".to_owned());
        assert!(servers_reason(&unknown).starts_with("unknown here"));
    }

    /// Symptom: "no gate of the machine is closed", where the server's comparison had closed one.
    #[test]
    fn nothing_is_claimed_about_the_gates_that_only_the_server_knows() {
        let unknown = PageServer::Unknown("no right".to_owned());
        for server in [PageServer::None, PageServer::Process(42), unknown] {
            assert!(!servers_reason(&server).contains("gate"), "{server:?}");
        }
    }
}
