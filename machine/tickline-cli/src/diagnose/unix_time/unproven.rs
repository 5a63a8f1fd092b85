//! Claims about UTC that prove nothing, by what the daemons say of their servers, ptp4l of its
//! master, and ptpd to the kernel.

use super::super::daemons;
use super::Code;
use crate::document::utc_bound::PTP_GROWTH_US;
use crate::document::{Document, Finding};
use crate::float::signed_f64;
use crate::machine::Ptp4l;
use crate::words::time;

/// The lowest stratum that stands for a clock without a reference: the default of `local` in
/// chrony.conf(5), and that of `fudge 127.127.1.0` in the examples of ntpd.
const LOCAL_STRATUM: u16 = 10;

/// The servers follow no reference clock, ptp4l bounds nothing, or the stated error is an offset.
pub(super) fn server_unproven(document: &Document) -> Option<Finding> {
    if document.lone_daemon().is_some() {
        return None;
    }
    if let Some(daemon) = &document.machine.ntp_daemon
        && let Some(stratum) = daemon.stratum
        && (LOCAL_STRATUM..16).contains(&stratum)
    {
        let name = &daemon.name;
        return Some(
            Finding::unsure(
                Code::UtcUnproven,
                format!(
                    "the servers of {name} seem to follow no reference clock (stratum {stratum}), \
                     so what it claims about UTC proves nothing"
                ),
            )
            .seen(format!(
                "{name}: stratum {stratum}, reference {}",
                daemon.reference.as_deref().unwrap_or("unknown")
            ))
            .fix(format!(
                "let {name}, or the server that it follows, follow servers with a reference clock: \
                 {}",
                daemons::server_commands(document)
            )),
        );
    }
    if let Some(unproven) = ptp4l_unproven(document) {
        return Some(unproven);
    }
    let offset_us = document.offset_as_both_errors_us()?;
    let offset = time(signed_f64(offset_us) * 1e3);
    Some(
        Finding::unsure(
            Code::UtcUnproven,
            format!(
                "the kernel's maximum error is the last offset ({offset}), as ptpd sets it, which \
                 bounds nothing"
            ),
        )
        .seen(format!(
            "adjtimex: esterror is {offset}, and maxerror has only grown from it"
        ))
        .fix(
            "see how far the time of the PTP master is from UTC (ptpd's status file); ptp4l with \
             phc2sys, or chronyd with the network card's clock, can state more",
        ),
    )
}

/// ptp4l follows a master, and says that it bounds nothing. phc2sys sets the kernel's maximum error
/// to 0 all the same, about once a second, and leaves the estimated error alone. A larger error is
/// of OpenNTPD, which does the same less often. A small one may be OpenNTPD's as well, because
/// phc2sys need not run.
fn ptp4l_unproven(document: &Document) -> Option<Finding> {
    let ptp4l = document.machine.ptp4l.as_ref()?;
    // Beside the port of a master, phc2sys may set the card's clock by the kernel's.
    let follows = matches!(ptp4l.port_state.as_str(), "slave" | "uncalibrated");
    let ntp = document.ntp_with_set_error()?;
    let errors = ntp.errors();
    let is_by_phc2sys = errors.known_estimated_us().is_none()
        && errors.is_growth_only()
        && errors.maximum_us <= PTP_GROWTH_US;
    let is_known_otherwise =
        document.machine.ntp_daemon.is_some() || document.clock.utc_error_ns.is_some();
    if !follows || ptp4l.unbounded.is_none() || !is_by_phc2sys || is_known_otherwise {
        return None;
    }
    let error = time(signed_f64(ntp.maximum_error_us) * 1e3);
    Some(
        Finding::unsure(
            Code::UtcUnproven,
            "ptp4l does not say how far its time is from UTC, so the kernel's maximum error bounds \
             nothing (phc2sys sets it, if it runs)",
        )
        .seen(seen_ptp4l(ptp4l))
        .seen(format!(
            "adjtimex: maxerror is {error}, and has only grown from 0"
        ))
        .fix(daemons::find_and_repair(document)),
    )
}

/// Why ptp4l, which runs, does not make UTC known.
pub(super) fn seen_ptp4l(ptp4l: &Ptp4l) -> String {
    match &ptp4l.unbounded {
        Some(why) => format!("ptp4l bounds nothing: {why}"),
        None => "ptp4l states a bound, but this user may read no clock that it steers (/dev/ptp*)"
            .to_owned(),
    }
}
