//! Why a server has no line on this machine.

use tickline::{Clock, ClockState, Driver, LinePerCpu, Reason};

/// Why a server has no line on this machine, by the gates of a clock of this process. The page has
/// no room for the server's reason, and its log is not for every user. `None` if no gate is closed,
/// or if this process can't know the server's reason.
pub(super) fn machines_reason() -> Option<Reason> {
    let clock = Clock::builder()
        .driver(Driver::Manual)
        .line_per_cpu(LinePerCpu::Off)
        .start()
        .ok()?;
    clock.maintain();
    reason_of_machine(clock.status().state)
}

/// The reason for this state of a clock, if it holds for each process of the machine.
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
}
