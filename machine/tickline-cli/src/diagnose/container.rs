//! Fixes for a container, which has the clocks, the kernel and the firmware of the machine in which it
//! runs. Its own init may start no daemon (`ConditionVirtualization=!container` in systemd's
//! `systemd-timesyncd.service`), and its own files say nothing about that machine's boot loader.

use super::{clocksource, process, slew, unix_time};
use crate::document::{Document, Explained, Explanation, Finding};

/// The finding in a container that this program has made. Where the fault is not the container's
/// own, the fix is for the container's machine, and has no steps here.
pub(super) fn with_fix_elsewhere(
    mut finding: Finding,
    container: &str,
    document: &Document,
) -> Finding {
    if is_of_container(&finding) || (is_of_daemon(&finding) && daemon_answers(document)) {
        return finding;
    }
    let place = format!("for the machine in which this container ({container}) runs:");
    finding.fix = finding.fix.elsewhere(&place);
    finding
}

/// Whether the fix is for the container, its processes or its readers, also where there is a host.
fn is_of_container(finding: &Finding) -> bool {
    let others = [
        clocksource::Code::ClocksourceUnknown.explanation(),
        clocksource::Code::VdsoUnused.explanation(),
        unix_time::Code::LeapSecond.explanation(),
    ];
    let of_process = process::Code::ALL.iter().map(Explained::explanation);
    is_one_of(finding, others.into_iter().chain(of_process))
}

/// Whether the fix consists of commands for the NTP daemon.
fn is_of_daemon(finding: &Finding) -> bool {
    let of_daemon = [
        slew::Code::NtpSlewing.explanation(),
        unix_time::Code::NtpUnsynchronised.explanation(),
        unix_time::Code::TimeOff.explanation(),
        unix_time::Code::UtcErrorLarge.explanation(),
        unix_time::Code::UtcUnproven.explanation(),
    ];
    is_one_of(finding, of_daemon.into_iter())
}

fn is_one_of(finding: &Finding, mut explanations: impl Iterator<Item = Explanation>) -> bool {
    explanations.any(|explanation| explanation.code == finding.code)
}

/// Whether an NTP daemon has answered in the container: it runs there, or shares its network.
fn daemon_answers(document: &Document) -> bool {
    document.machine.ntp_daemon.is_some() || document.machine.ptp4l.is_some()
}
