//! Why a server has no line on this machine.

use tickline::{Clock, ClockState, Driver, LinePerCpu, Reason};

/// The state of a clock of this process, whose gates say why a server has no line on this machine.
/// The page has no room for the server's reason, and its log is not for every user.
pub(super) fn machines_state() -> Option<ClockState> {
    let clock = Clock::builder()
        .driver(Driver::Manual)
        .line_per_cpu(LinePerCpu::Off)
        .build()
        .ok()?;
    clock.maintain();
    Some(clock.status().state)
}

/// What is known about a server without a line, where the machine gives no reason. `has_server` is
/// `None` if it is unknown whether there is one.
pub(super) const fn servers_reason(has_server: Option<bool>) -> &'static str {
    match has_server {
        Some(false) => "the server has stopped",
        Some(true) => {
            "in its first seconds a server may compare the counters of the CPUs; later its log has the \
             reason"
        }
        None => "unknown here; if a server runs, its log has the reason",
    }
}

/// The reason for this state of a clock, if it holds for each process of the machine. `None` if no
/// gate is closed, or if this process can't know the server's reason.
pub(super) const fn reason_of_machine(state: ClockState) -> Option<Reason> {
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
        assert!(servers_reason(Some(false)).starts_with("the server has stopped"));
        assert!(servers_reason(Some(true)).contains("may compare the counters"));
    }

    /// Symptom: no reason at all for a user who may not see the lock.
    #[test]
    fn a_user_who_can_not_see_the_server_does_not_know_its_reason() {
        assert!(servers_reason(None).starts_with("unknown here"));
    }

    /// Symptom: "no gate of the machine is closed", where the server's comparison had closed one.
    #[test]
    fn nothing_is_claimed_about_the_gates_that_only_the_server_knows() {
        for has_server in [Some(false), Some(true), None] {
            assert!(
                !servers_reason(has_server).contains("gate"),
                "{has_server:?}"
            );
        }
    }
}
