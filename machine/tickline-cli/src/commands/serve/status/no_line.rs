//! Why a server has no line on this machine.

use tickline::{Clock, ClockState, Driver, LinePerCpu, Reason};

/// The state of a clock of this process, whose gates say why a server has no line on this machine.
/// The page has no room for the server's reason, and its log is not for every user.
pub(super) fn machines_state() -> Option<ClockState> {
    let clock = Clock::builder()
        .driver(Driver::Manual)
        .line_per_cpu(LinePerCpu::Off)
        .start()
        .ok()?;
    clock.maintain();
    Some(clock.status().state)
}

/// What keeps the server from a line where no gate of the machine is closed, as far as another process
/// can know it. `has_server` is `None` if it is unknown whether there is one.
pub(super) const fn servers_reason(
    state: ClockState,
    has_server: Option<bool>,
) -> Option<&'static str> {
    match (has_server, state) {
        (Some(false), _) => Some(
            "the server has stopped, or is not visible here, as in a container; to start it: \
             systemctl start tickline, or `tickline serve`",
        ),
        // This machine's counters must be compared, and this process has not done so.
        (Some(true), ClockState::Fallback(Reason::Untested)) => Some(
            "no gate of the machine is closed; after its start a server compares the counters of the \
             CPUs for some seconds, and later its log has the reason",
        ),
        _ => None,
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
    fn a_stopped_server_is_told_from_one_that_compares_the_counters() {
        let untested = ClockState::Fallback(Reason::Untested);
        let reason = |has_server| servers_reason(untested, has_server).unwrap_or_default();
        assert!(reason(Some(false)).starts_with("the server has stopped"));
        assert!(reason(Some(true)).contains("compares the counters"));
        assert_eq!(reason(None), "");
    }

    #[test]
    fn a_server_whose_counters_need_no_comparison_has_a_reason_of_its_own() {
        assert_eq!(servers_reason(ClockState::Fast, Some(true)), None);
    }
}
