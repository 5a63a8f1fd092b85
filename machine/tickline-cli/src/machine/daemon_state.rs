//! The states of the daemons that steer the clock: an NTP daemon, and ptp4l.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Leap;
use crate::words::plain;

// The names of daemons. `NTPD` is that of any NTP daemon without a name of its own here.
pub(crate) const CHRONYD: &str = "chronyd";
pub(crate) const NTPD: &str = "ntpd";
pub(crate) const PTP4L: &str = "ptp4l";
pub(crate) const TIMESYNCD: &str = "systemd-timesyncd";

/// The state that an NTP daemon reports.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub(crate) struct NtpDaemon {
    /// `chronyd`, `systemd-timesyncd`, or `ntpd` for any other daemon that serves NTP.
    pub(crate) name: String,
    /// Whether the daemon follows another clock.
    pub(crate) synchronised: bool,
    /// The clock that the daemon follows: a name, such as PHC0 for a hardware clock, or an address.
    pub(crate) reference: Option<String>,
    /// The daemon's distance from a reference clock (NTP's stratum).
    pub(crate) stratum: Option<u16>,
    /// The offset that the daemon has still to remove, ns; null if it does not report the offset,
    /// or has never updated its clock.
    pub(crate) offset_ns: Option<i64>,
    /// The daemon's bound of Unix time's offset from UTC, ns; null if it does not report a bound,
    /// or follows no other clock.
    pub(crate) bound_ns: Option<i64>,
    /// The time since the daemon's last update of its clock, s; null if there was none.
    pub(crate) updated_s: Option<u64>,
    /// The leap second that the daemon announces; null if it does not report it.
    pub(crate) leap: Option<Leap>,
    /// The rate of Unix time without the daemon's correction minus the rate of the daemon's
    /// reference, ppb; null if it does not report it.
    pub(crate) frequency_ppb: Option<i64>,
    /// The daemon's estimate of the error of that rate, ppb; null if it does not report it.
    pub(crate) skew_ppb: Option<i64>,
    /// The round trip to the reference clock at the root, ns; null if it does not report it.
    pub(crate) root_delay_ns: Option<i64>,
    /// The error that has gathered on the way from that clock, ns; null if it does not report it.
    pub(crate) root_dispersion_ns: Option<i64>,
    /// How chronyd was asked: `socket` by its Unix socket, which nobody else can have; `udp` at its
    /// port, which another program of root or of this user may have. Null for other daemons.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(crate) channel: Option<Channel>,
    /// The number of the user who has that socket; null if it is unknown.
    pub(crate) user: Option<u32>,
}

/// How chronyd was asked. The names in lower case are its stable code in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Channel {
    Socket,
    Udp,
    /// The code of another version of the program.
    #[serde(untagged)]
    Other(String),
}

impl Channel {
    /// The place where chronyd answers, in words.
    pub(crate) fn in_words(&self) -> String {
        match self {
            Self::Socket => "chronyd's Unix socket".to_owned(),
            Self::Udp => "chronyd's UDP port".to_owned(),
            Self::Other(code) => plain(code),
        }
    }
}

impl fmt::Display for Channel {
    /// The code, as JSON has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Why an answer does not count. The names in lower case are its stable code in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum IgnoredBecause {
    /// It is not chronyd's state.
    Unreadable,
    /// The socket is not root's, chronyd's user's or this program's user's.
    Stranger,
    /// The code of another version of the program.
    #[serde(untagged)]
    Other(String),
}

impl fmt::Display for IgnoredBecause {
    /// The code, as JSON has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// An answer in chronyd's place that does not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct IgnoredAnswer {
    /// Where it came from: `socket` for chronyd's Unix socket, `udp` for its port.
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) channel: Channel,
    /// Why it does not count: `unreadable` if it is not chronyd's state, `stranger` if the socket
    /// is not root's, chronyd's user's or this program's user's.
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) reason: IgnoredBecause,
    /// The number of the user who has the socket; null if the answer is unreadable, if every user
    /// may write the socket's folder, or if the port's socket is gone.
    pub(crate) user: Option<u32>,
}

impl IgnoredAnswer {
    /// The answer, and why it does not count, in words.
    pub(crate) fn in_words(&self) -> String {
        let place = self.channel.in_words();
        let why = match (&self.reason, self.user) {
            (IgnoredBecause::Unreadable, _) => "it is not chronyd's state".to_owned(),
            (IgnoredBecause::Stranger, Some(user)) => {
                format!(
                    "the socket is user {user}'s, who is neither root nor chronyd's user nor this \
                     one"
                )
            }
            (IgnoredBecause::Stranger, None) => "it may be anybody's".to_owned(),
            (IgnoredBecause::Other(code), _) => plain(code),
        };
        format!("an answer by {place} does not count: {why}")
    }
}

/// The state of ptp4l (IEEE 1588, linuxptp), by its management socket.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub(crate) struct Ptp4l {
    /// The domain.
    pub(crate) domain: u8,
    /// The state of the port that follows a master: `slave` if the servo is locked, `uncalibrated`
    /// if it is not. If no port follows one: `master` if a port is the master of others, else
    /// `other`.
    pub(crate) port_state: String,
    /// The grandmaster's identity; null if this clock is the grandmaster.
    pub(crate) grandmaster: Option<String>,
    /// The grandmaster's class: 6 and 7 follow a primary reference.
    pub(crate) clock_class: u8,
    /// The grandmaster's accuracy, ns; null if it states none.
    pub(crate) accuracy_ns: Option<i64>,
    /// The number of boundary clocks to the grandmaster, plus 1.
    pub(crate) steps_removed: u16,
    /// The local clock minus the master's, by the last Sync, ns.
    pub(crate) offset_ns: i64,
    /// The mean delay of the path to the master, one way, ns.
    pub(crate) mean_path_delay_ns: i64,
    /// TAI minus UTC, s; null if the grandmaster does not vouch for it.
    pub(crate) utc_offset_s: Option<i16>,
    /// The bound of the local clock's offset from UTC at the last Sync, ns; null if there is none.
    pub(crate) bound_ns: Option<i64>,
    /// Why there is no bound, in words; null if there is one.
    pub(crate) unbounded: Option<String>,
    /// What the user can do about that, in words; null if there is a bound, and in files of earlier
    /// versions.
    pub(crate) remedy: Option<String>,
}
