//! The kernel corrects its clocks' rate, and what that does to a known offset.

use super::clock_rate::{self, LOOP_PPB, clock_rate_wrong};
use super::daemons;
use super::shared_fixes::{SHOW_ON_EACH_PROCESSOR, show_frequency};
use super::unix_time::removal_of_offset;
use crate::document::Block::Commands;
use crate::document::{Document, Explained, Explanation, Finding, Fix};
use crate::float::as_f64;
use crate::machine::Ntp;
use crate::words::rate;

/// The largest lasting correction of a clock's rate, ppb: crystals are off by at most 100 ppm. A
/// larger correction is a slew by an NTP daemon, or makes up for a wrong counter frequency.
const CRYSTAL_PPB: i64 = 100_000;

/// The kernel corrects its clock's rate by more than any crystal needs.
pub(super) fn ntp_slewing(document: &Document) -> Option<Finding> {
    let ntp = document.machine.ntp.as_ref()?;
    let rate_ppb = ntp.rate_ppb();
    if rate_ppb.saturating_abs() <= CRYSTAL_PPB {
        return None;
    }
    let correction = rate(rate_ppb);
    let seen_rate = clock_rate::seen(ntp);
    if let Some(off) = document.off_in_words() {
        return Some(slewing_with_offset(&off, ntp, document));
    }
    if clock_rate_wrong(document).is_some() {
        return None;
    }
    let finding = if rate_ppb.saturating_abs() > LOOP_PPB {
        Finding::unsure(
            Code::NtpSlewing,
            format!(
                "the kernel corrects the rate of its clocks by {correction}, and a duration that a \
                 program measures meanwhile is wrong by that share"
            ),
        )
    } else {
        Finding::note(
            Code::NtpSlewing,
            format!(
                "the kernel corrects the rate of its clocks by {correction}, more than a crystal needs"
            ),
        )
    };
    let fix = Fix::from(format!(
        "wait until the NTP daemon has removed the offset ({})",
        daemons::state_commands(document)
    ))
    .then(format!(
        "if the correction stays, check the kernel's frequency of the counter: {}",
        show_frequency(document)
    ));
    Some(finding.seen(seen_rate).fix(fix))
}

/// The finding about a large correction while Unix time is off, in the words `off`.
fn slewing_with_offset(off: &str, ntp: &Ntp, document: &Document) -> Finding {
    let correction = rate(ntp.rate_ppb());
    let slew = Slew::of(ntp, document);
    let what = match slew {
        Slew::Away => format!(
            "{off}, and the kernel's correction of the rate by {correction} \
             makes it larger"
        ),
        Slew::Back(Some(left_s)) => format!(
            "{off}, which an NTP daemon removes by a slew: the rate is \
             corrected by {correction}, and at this rate the offset is gone in about {}",
            duration(left_s)
        ),
        Slew::Back(None) => format!(
            "{off}, which an NTP daemon removes by a slew: the rate is \
             corrected by {correction}"
        ),
        Slew::Unknown => format!(
            "{off}, and the rate of the kernel's clocks is corrected by \
             {correction}"
        ),
    };
    let first = match slew {
        Slew::Away => {
            "restart the NTP daemon, and see that it steers the kernel's clock: chronyd with -x \
             does not, and a daemon that was killed leaves its correction behind"
        }
        Slew::Back(_) => "wait until the NTP daemon has removed the offset",
        Slew::Unknown => "see what the NTP daemon does about it",
    };
    Finding::wrong(Code::NtpSlewing, what)
        .seen(clock_rate::seen(ntp))
        .seen_all(document.offs_as_evidence())
        .fix(removal_of_offset(first, document))
}

/// What the correction of the rate does to a known offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slew {
    /// Removes it, in this time, s; `None` if the correction falls with the offset, as in the
    /// kernel's loop, or if its lasting part is unknown.
    Back(Option<u64>),
    /// Makes it larger.
    Away,
    /// The offset has no sign, or the whole correction may be that of the crystal.
    Unknown,
}

impl Slew {
    /// A positive offset is to be added to the clock (`offset` of adjtimex(2); chronyd's current
    /// correction), and a positive rate adds to it.
    fn of(ntp: &Ntp, document: &Document) -> Self {
        let daemon = document.machine.ntp_daemon.as_ref();
        let Some(off_ns) = document.signed_off_ns() else {
            return Self::Unknown;
        };
        // The loop's own share of the rate goes towards the offset, whatever the crystal needs. A
        // larger correction is not the loop's: another daemon may have left it.
        if ntp.offset_ns() == off_ns && ntp.steering_ppb().saturating_abs() <= LOOP_PPB {
            return Self::Back(None);
        }
        // The daemon's frequency is the clock's rate that it corrects for ever. If it is unknown,
        // it is at most the loop's frequency.
        let lasting_ppb = daemon.and_then(|daemon| daemon.frequency_ppb);
        if lasting_ppb.is_none() && ntp.steering_ppb().saturating_abs() <= LOOP_PPB {
            return Self::Unknown;
        }
        let slew_ppb = ntp.rate_ppb().saturating_add(lasting_ppb.unwrap_or(0));
        if slew_ppb.saturating_abs() <= CRYSTAL_PPB {
            return Self::Unknown;
        }
        if off_ns.signum() != slew_ppb.signum() {
            return Self::Away;
        }
        let left_s = off_ns.unsigned_abs() / slew_ppb.unsigned_abs();
        Self::Back(lasting_ppb.map(|_| left_s))
    }
}

/// A duration of a slew, in the unit that suits it.
fn duration(seconds: u64) -> String {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    match seconds {
        0..MINUTE => format!("{} s", seconds.max(1)),
        MINUTE..HOUR => format!("{} min", seconds / MINUTE),
        _ => format!("{:.1} h", as_f64(seconds) / as_f64(HOUR)),
    }
}

tickline_core::named! {
    /// The code of the finding of this file.
    #[derive(Debug, Clone, Copy)]
    pub(super) enum Code {
        NtpSlewing => "ntp_slewing",
    }
}

impl Explained for Code {
    fn explanation(&self) -> Explanation {
        let code = self.code();
        match self {
            Self::NtpSlewing => Explanation {
                code,
                summary: "The kernel corrects its clocks by more than a crystal needs (note; \
                          unsure, if the correction is large; wrong, if an offset is known).",
                text: "A crystal is off by at most 100 ppm. Usually an NTP daemon is removing an \
                       offset, and the correction ends when the offset is gone. A duration that a \
                       program measures meanwhile is wrong by the correction. If the correction \
                       stays for hours, the kernel uses a wrong frequency of the counter. If the \
                       correction makes the offset larger, no running daemon steers the clock: \
                       chronyd with -x does not, and a daemon that was killed leaves its \
                       correction behind.",
                more: &[Commands(&["chronyc tracking", SHOW_ON_EACH_PROCESSOR])],
            },
        }
    }
}
