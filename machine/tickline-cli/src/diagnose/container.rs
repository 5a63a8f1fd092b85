//! Fixes for a container, which has the clocks, the kernel, the NTP daemon and the firmware of its
//! host. Its own init may start no daemon (`ConditionVirtualization=!container` in systemd's
//! `systemd-timesyncd.service`), and its own files say nothing about the host's boot loader.

use super::{clocksource, process, unix_time};
use crate::document::{Explained, Finding};

/// The finding in a container that this program has made. Where the fault is not the container's
/// own, the fix is for the host, and has no steps here.
pub(super) fn with_fix_on_host(mut finding: Finding, container: &str) -> Finding {
    if is_of_container(&finding) {
        return finding;
    }
    let place = if finding.fix.text().starts_with("on the host") {
        format!("for the guest in which this container ({container}) runs:")
    } else {
        format!("on the host of this container ({container}):")
    };
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
    others
        .into_iter()
        .chain(of_process)
        .any(|explanation| explanation.code == finding.code)
}
