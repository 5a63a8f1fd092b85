//! Asks ptp4l of this machine for its state.

use std::time::Duration;

use tickline_utc::sources::ptp4l::{self, PtpStatus};

use crate::machine::Ptp4l;

/// The longest wait for its answers. On the same machine they come at once, or never.
const REPLY_TIMEOUT: Duration = Duration::from_millis(100);

pub(super) fn read() -> Option<Ptp4l> {
    Some(of_status(&ptp4l::ask(REPLY_TIMEOUT).ok()?))
}

fn of_status(status: &PtpStatus) -> Ptp4l {
    let why_unbounded = status.why_unbounded();
    Ptp4l {
        domain: status.domain,
        port_state: status.port_state.code().to_owned(),
        grandmaster: status.has_grandmaster.then(|| name_of(status.grandmaster)),
        clock_class: status.clock_class,
        accuracy_ns: status.accuracy_ns(),
        steps_removed: status.steps_removed,
        offset_ns: status.offset_ns,
        mean_path_delay_ns: status.mean_path_delay_ns,
        utc_offset_s: status.is_utc_offset_valid().then_some(status.utc_offset_s),
        bound_ns: status.bound_ns(),
        unbounded: why_unbounded.map(|why| why.to_string()),
        remedy: why_unbounded.map(|why| why.remedy().to_owned()),
    }
}

/// A clock's identity as linuxptp's tools write it (`cid2str` in `util.c`).
fn name_of(identity: [u8; 8]) -> String {
    let mut name = String::new();
    for (index, byte) in identity.iter().enumerate() {
        if index == 3 || index == 5 {
            name.push('.');
        }
        name.push_str(&format!("{byte:02x}"));
    }
    name
}

#[cfg(test)]
mod tests {
    use tickline_utc::Unbounded;
    use tickline_utc::sources::ptp4l::PortState;

    use super::*;

    #[test]
    fn a_clock_is_named_as_by_linuxptp() {
        let identity = [0x90, 0xE2, 0xBA, 0xFF, 0xFE, 0x20, 0xC7, 0x0B];
        assert_eq!(name_of(identity), "90e2ba.fffe.20c70b");
    }

    #[test]
    fn the_state_of_the_port_is_the_servos() {
        let mut status = PtpStatus::default();
        status.port_state = PortState::Uncalibrated;
        assert_eq!(of_status(&status).port_state, "uncalibrated");
    }

    #[test]
    fn a_ptp4l_that_follows_nobody_has_no_grandmaster_no_bound_and_a_remedy() {
        let ptp4l = of_status(&PtpStatus::default());
        assert_eq!((ptp4l.grandmaster, ptp4l.bound_ns), (None, None));
        assert_eq!(ptp4l.utc_offset_s, None);
        assert!(ptp4l.unbounded.is_some());
        let remedy = Unbounded::NoMaster.remedy();
        assert_eq!(ptp4l.remedy.as_deref(), Some(remedy));
    }
}
