//! The kernel's NTP state.

use serde::{Deserialize, Serialize};
use tickline_core::reference::{kernel_rate_ppb, offset_from_timex_ns, steering_from_timex_ppb};
use tickline_utc::sources::kernel::KernelErrors;

/// The kernel's NTP state, by `adjtimex(2)` with modes 0, which changes nothing.
// There is no `serde(default)`, because a missing figure must not become zero.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Ntp {
    /// Whether an NTP daemon keeps Unix time near UTC.
    pub(crate) synchronised: bool,
    /// The correction of the clock's rate, ppb, without the correction by `tick_us`.
    pub(crate) frequency_ppb: i64,
    /// The length of a hundredth of a second, us: 10,000, unless the NTP daemon slews by it.
    pub(crate) tick_us: i64,
    /// The offset that the kernel has still to slew after this second, ns. In facts of a kernel
    /// from Linux 5.1 to December 2024, a negative one may be some 4.29 s too large.
    pub(crate) offset_ns: i64,
    /// The time constant of that slew: each second the kernel removes one part in 2^(2 + constant)
    /// of the offset at the second's start. Null if it is unknown.
    pub(crate) time_constant: Option<i64>,
    /// The kernel's maximum error against UTC, us: what the NTP daemon has set, plus 500 ppm of the
    /// time since.
    pub(crate) maximum_error_us: i64,
    /// The likely error against UTC that the NTP daemon claims, us; 16,000,000, the kernel's value
    /// at its start, if no daemon has set it.
    pub(crate) estimated_error_us: i64,
    /// The names of the status bits that are set, such as `PLL` (the kernel steers the clock),
    /// `UNSYNC`, `INS` (a leap second is due).
    pub(crate) flags: Option<Vec<String>>,
    /// The kernel's leap second; null if it is unknown.
    pub(crate) leap: Option<Leap>,
    /// TAI minus UTC, s; null if no daemon has told the kernel.
    pub(crate) tai_offset_s: Option<i64>,
}

tickline_core::named! {
    /// The state of a leap second.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(test, derive(schemars::JsonSchema))]
    #[serde(rename_all = "snake_case")]
    pub(crate) enum Leap {
        /// None is due.
        None => "none",
        /// A second is inserted at the end of this UTC day.
        Insert => "insert",
        /// A second is left out at the end of this UTC day.
        Delete => "delete",
        /// The inserted second is passing.
        InProgress => "in_progress",
        /// It is over, and the daemon has not yet withdrawn its announcement.
        Done => "done",
    }
}

/// The largest offset that the kernel takes from a daemon, ns (`MAXPHASE`, `include/linux/timex.h`;
/// `ntp_update_offset` in `kernel/time/ntp.c`).
pub(crate) const MAX_PHASE_NS: i64 = 500_000_000;

/// The names of the bits of `timex.status`, from the lowest (`include/uapi/linux/timex.h`).
const FLAGS: [&str; 16] = [
    "PLL",
    "PPSFREQ",
    "PPSTIME",
    "FLL",
    "INS",
    "DEL",
    "UNSYNC",
    "FREQHOLD",
    "PPSSIGNAL",
    "PPSJITTER",
    "PPSWANDER",
    "PPSERROR",
    "CLOCKERR",
    "NANO",
    "MODE",
    "CLK",
];

/// The names of the bits that are set.
#[cfg(target_os = "linux")]
pub(super) fn flags_of(status: i32) -> Vec<String> {
    let names = FLAGS.iter().enumerate();
    names
        .filter(|(bit, _)| (status >> bit) & 1 == 1)
        .map(|(_, name)| (*name).to_owned())
        .collect()
}

impl Ntp {
    /// The status bits as one number (`timex.status`); `None` if they were not recorded.
    pub(crate) fn status(&self) -> Option<i32> {
        let flags = self.flags.as_ref()?;
        let bits = FLAGS.iter().enumerate();
        Some(
            bits.filter(|(_, name)| flags.iter().any(|flag| flag == *name))
                .map(|(bit, _)| 1 << bit)
                .sum(),
        )
    }

    /// Whether this status bit is set.
    pub(crate) fn has_flag(&self, name: &str) -> bool {
        let mut flags = self.flags.iter().flatten();
        flags.any(|flag| flag == name)
    }

    /// The kernel's leap second. A document of an older version has the status bits only.
    pub(crate) fn leap(&self) -> Option<Leap> {
        if self.leap.is_some() {
            return self.leap;
        }
        self.flags.as_ref()?;
        if self.has_flag("INS") {
            Some(Leap::Insert)
        } else if self.has_flag("DEL") {
            Some(Leap::Delete)
        } else {
            Some(Leap::None)
        }
    }

    /// The kernel's errors, as tickline-utc judges them.
    pub(crate) fn errors(&self) -> KernelErrors {
        KernelErrors {
            maximum_us: self.maximum_error_us,
            estimated_us: self.estimated_error_us,
        }
    }

    /// The likely error that a daemon has set, us; `None` if it is the kernel's value at its start.
    pub(crate) fn set_estimated_error_us(&self) -> Option<i64> {
        self.errors().known_estimated_us()
    }

    /// The offset that the kernel has still to slew, ns. `facts.sh`, and documents of older
    /// versions, have what the kernel has stated, which may be wrong ([`offset_from_timex_ns`]).
    pub(crate) fn offset_ns(&self) -> i64 {
        let is_in_us = self.flags.is_some() && !self.has_flag("NANO");
        if is_in_us && self.offset_ns > MAX_PHASE_NS {
            offset_from_timex_ns(self.offset_ns / 1_000, false)
        } else {
            self.offset_ns
        }
    }

    /// The correction of the clock's rate without the slew of `offset_ns`, ppb.
    pub(crate) fn steering_ppb(&self) -> i64 {
        steering_from_timex_ppb(self.frequency_ppb, self.tick_us)
    }

    /// The whole correction of the clock's rate, ppb. Leaves out a slew of `offset_ns` whose time
    /// constant is unknown.
    pub(crate) fn rate_ppb(&self) -> i64 {
        kernel_rate_ppb(self.steering_ppb(), self.offset_ns(), self.time_constant)
    }
}
