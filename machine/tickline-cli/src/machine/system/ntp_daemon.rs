//! Asks the NTP daemon of this machine for its state, by one request: chronyd by its Unix socket or
//! at its command port, any other daemon that serves NTP by NTP. systemd-timesyncd answers no
//! requests, but updates a file.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, SystemTime};

use tickline::backend::{OsClock, Reference as _};
use tickline_utc::sources::chronyd::{self, NoAnswer, Tracking};

use crate::machine::{
    CHRONYD, Channel, IgnoredAnswer, IgnoredBecause, Leap, NTPD, NtpDaemon, TIMESYNCD,
};

/// The length of a request and of its reply, without extensions (RFC 5905, 7.3).
const NTP_BYTES: usize = 48;

/// NTP's port.
const NTP_PORT: u16 = 123;

/// The reference of an ntpd that follows its own clock (refclock_local(5)).
const LOCAL: [u8; 4] = [127, 127, 1, 1];

/// The longest wait for a reply. On the same machine a reply comes at once, or never.
const REPLY_TIMEOUT: Duration = Duration::from_millis(100);

/// systemd-timesyncd touches this file at each update (systemd-timesyncd.service(8)).
const TIMESYNCD_FILE: &str = "/run/systemd/timesync/synchronized";

/// The daemon that answers, and an answer in chronyd's place that does not count.
pub(super) fn read() -> (Option<NtpDaemon>, Option<IgnoredAnswer>) {
    // Not by std's clock: it ends a process that may not read the counter.
    let Ok(now_ns) = u64::try_from(OsClock.unix_ns()) else {
        return (None, None);
    };
    let now_s = now_ns / 1_000_000_000;
    let ntpd = || ntp_reply(&ask_ntp(NTP_PORT, REPLY_TIMEOUT)?, now_s);
    let timesyncd = || timesyncd(Path::new(TIMESYNCD_FILE), now_s);
    match chronyd::ask(REPLY_TIMEOUT) {
        Ok(answer) => (
            Some(of_answer(
                &answer.tracking,
                answer.channel,
                answer.user,
                now_s,
            )),
            None,
        ),
        Err(why) => (ntpd().or_else(timesyncd), ignored(why)),
    }
}

/// The answer that does not count, if there was one.
fn ignored(why: NoAnswer) -> Option<IgnoredAnswer> {
    let (channel, reason, user) = match why {
        NoAnswer::Unreadable { channel, .. } => (channel, IgnoredBecause::Unreadable, None),
        NoAnswer::Stranger { channel, user } => (channel, IgnoredBecause::Stranger, user),
        _ => return None,
    };
    Some(IgnoredAnswer {
        channel: channel.into(),
        reason,
        user,
    })
}

impl From<chronyd::Channel> for Channel {
    fn from(channel: chronyd::Channel) -> Self {
        match channel {
            chronyd::Channel::Socket => Self::Socket,
            chronyd::Channel::Udp => Self::Udp,
            new => Self::Other(new.code().to_owned()),
        }
    }
}

fn of_answer(
    tracking: &Tracking,
    channel: chronyd::Channel,
    user: Option<u32>,
    now_s: u64,
) -> NtpDaemon {
    NtpDaemon {
        channel: Some(channel.into()),
        user,
        ..of_chronyd(tracking, now_s)
    }
}

fn of_chronyd(tracking: &Tracking, now_s: u64) -> NtpDaemon {
    let left_ns = tracking.correction_ns;
    let error_ns = (tracking.delay_ns / 2).saturating_add(tracking.dispersion_ns);
    let bound_ns = left_ns.saturating_abs().saturating_add(error_ns);
    let synchronised = tracking.is_synchronised();
    // Before its first update, chronyd states 0 here, and in the other figures its initial values.
    let was_updated = tracking.updated_s != 0;
    NtpDaemon {
        name: CHRONYD.to_owned(),
        synchronised,
        reference: Some(reference_name(tracking.reference)),
        stratum: Some(tracking.stratum),
        offset_ns: was_updated.then_some(left_ns),
        bound_ns: (was_updated && synchronised).then_some(bound_ns),
        updated_s: age_s(tracking.updated_s, now_s),
        leap: leap_of(tracking.leap_status),
        frequency_ppb: Some(tracking.frequency_ppb),
        skew_ppb: Some(tracking.skew_ppb),
        root_delay_ns: was_updated.then_some(tracking.delay_ns),
        root_dispersion_ns: was_updated.then_some(tracking.dispersion_ns),
        channel: None,
        user: None,
    }
}

/// The time since the daemon's last update; `None` if it has never updated its clock, for which
/// `updated_s` is 0.
fn age_s(updated_s: u64, now_s: u64) -> Option<u64> {
    if updated_s == 0 {
        return None;
    }
    now_s.checked_sub(updated_s)
}

/// The reply of the NTP server at `port` of this machine.
fn ask_ntp(port: u16, timeout: Duration) -> Option<[u8; NTP_BYTES]> {
    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
    socket.connect(server).ok()?;
    socket.set_read_timeout(Some(timeout)).ok()?;
    // A client's request of version 4.
    let mut request = [0; NTP_BYTES];
    request[0] = (4 << 3) | 3;
    socket.send(&request).ok()?;
    // A longer reply is not one to this request.
    let mut reply = [0; NTP_BYTES + 1];
    let (length, sender) = socket.recv_from(&mut reply).ok()?;
    // A datagram that came before `connect` may be from anyone.
    if sender != server {
        return None;
    }
    reply.get(..length)?.try_into().ok()
}

/// Parses an NTP server's reply. It does not state the offset that is still to be removed.
fn ntp_reply(reply: &[u8], now_s: u64) -> Option<NtpDaemon> {
    // NTP counts seconds from 1900.
    const UNIX_EPOCH_S: u32 = 2_208_988_800;
    let word = |at: usize| Some(u32::from_be_bytes(*reply.get(at..)?.first_chunk()?));
    let reference = *reply.get(12..)?.first_chunk()?;
    let first = reply.first()?;
    let stratum = reply.get(1)?;
    // A server that has never updated its clock sends 0.
    let updated_s = match word(16)? {
        0 => 0,
        since_1900_s => since_1900_s.wrapping_sub(UNIX_EPOCH_S),
    };
    let synchronised = first >> 6 != 3 && (1..16).contains(stratum) && reference != LOCAL;
    let is_reply = reply.len() >= NTP_BYTES && first & 7 == 4;
    // These fields have 16 binary places. BOUND: below 3 * 2^32 * 2^29.
    let [delay, dispersion] = [i64::from(word(4)?), i64::from(word(8)?)];
    let ns = |figure: i64| (figure * 500_000_000) >> 15;
    is_reply.then(|| NtpDaemon {
        name: NTPD.to_owned(),
        synchronised,
        reference: Some(reference_name(reference)),
        stratum: Some(u16::from(*stratum)),
        offset_ns: None,
        bound_ns: synchronised.then_some(((delay + 2 * dispersion) * 500_000_000) >> 16),
        updated_s: age_s(updated_s.into(), now_s),
        leap: leap_of((first >> 6).into()),
        frequency_ppb: None,
        skew_ppb: None,
        root_delay_ns: Some(ns(delay)),
        root_dispersion_ns: Some(ns(dispersion)),
        channel: None,
        user: None,
    })
}

/// The leap second that this leap indicator announces (RFC 5905, figure 9).
fn leap_of(indicator: u16) -> Option<Leap> {
    match indicator {
        0 => Some(Leap::None),
        1 => Some(Leap::Insert),
        2 => Some(Leap::Delete),
        _ => None,
    }
}

/// The state of systemd-timesyncd by the file that it touches at each update.
fn timesyncd(file: &Path, now_s: u64) -> Option<NtpDaemon> {
    let updated_s = unix_s(fs::metadata(file).ok()?.modified().ok()?)?;
    let updated_s = now_s.checked_sub(updated_s);
    Some(NtpDaemon {
        name: TIMESYNCD.to_owned(),
        synchronised: true,
        updated_s,
        ..NtpDaemon::default()
    })
}

fn unix_s(time: SystemTime) -> Option<u64> {
    Some(time.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs())
}

/// A reference id as text: a reference clock's name, such as PHC0, or four bytes of an address.
fn reference_name(reference: [u8; 4]) -> String {
    let name = reference
        .split(|byte| *byte == 0)
        .next()
        .unwrap_or_default();
    let is_name = !name.is_empty() && name.iter().all(u8::is_ascii_graphic);
    if is_name {
        String::from_utf8_lossy(name).into_owned()
    } else {
        Ipv4Addr::from(reference).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    /// Replies that chronyd 4.3 has sent, and variants of them, each with the expected result.
    #[test]
    fn replies_of_daemons_are_parsed_as_the_table_says() {
        let cases: Vec<Value> =
            serde_json::from_str(include_str!("../../../tests/data/ntp_replies.json")).unwrap();
        for case in cases {
            let hex: Vec<_> = case["reply"].as_str().unwrap().split_whitespace().collect();
            let hex = hex.concat();
            let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
            let reply: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
            let now_s = 0x6b04_326d + 60;
            assert_eq!(
                json!(ntp_reply(&reply, now_s)),
                case["ntp"],
                "{}",
                case["about"]
            );
            assert!((0..40).all(|end| ntp_reply(&reply[..end], now_s).is_none()));
            let tracking = &case["tracking"];
            let daemon = tracking
                .is_object()
                .then(|| of_chronyd(&tracking_of(tracking), now_s));
            assert_eq!(json!(daemon), case["chronyd"], "{}", case["about"]);
        }
    }

    /// chronyd's state, which tickline-utc's tests read from the reply in the table.
    fn tracking_of(fields: &Value) -> Tracking {
        fn field<T: DeserializeOwned>(fields: &Value, name: &str) -> T {
            serde_json::from_value(fields[name].clone()).unwrap()
        }
        let mut tracking = Tracking::default();
        tracking.reference = field(fields, "reference");
        tracking.stratum = field(fields, "stratum");
        tracking.leap_status = field(fields, "leap_status");
        tracking.updated_s = field(fields, "updated_s");
        tracking.correction_ns = field(fields, "correction_ns");
        tracking.frequency_ppb = field(fields, "frequency_ppb");
        tracking.skew_ppb = field(fields, "skew_ppb");
        tracking.delay_ns = field(fields, "delay_ns");
        tracking.dispersion_ns = field(fields, "dispersion_ns");
        tracking
    }

    #[test]
    fn an_ntp_server_is_asked_at_its_port_for_a_whole_reply() {
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = server.local_addr().unwrap().port();
        let replies = thread::spawn(move || {
            for length in [47, 48, 49] {
                let mut request = [0; 64];
                let (requested, from) = server.recv_from(&mut request).unwrap();
                assert_eq!((requested, request[0]), (48, 0x23));
                server.send_to(&[7; 49][..length], from).unwrap();
            }
        });
        let answers = [(); 3].map(|()| ask_ntp(port, Duration::from_secs(60)));
        assert_eq!(answers, [None, Some([7; 48]), None]);
        replies.join().unwrap();
    }

    #[test]
    fn an_answer_says_how_chronyd_was_asked() {
        for channel in chronyd::Channel::ALL {
            let daemon = of_answer(&Tracking::default(), *channel, Some(115), 60);
            assert_eq!(
                (json!(daemon.channel), daemon.user),
                (json!(channel.code()), Some(115))
            );
        }
    }

    #[test]
    fn an_answer_that_does_not_count_says_why() {
        let ignored = |why| ignored(why).map(|answer| (answer.channel, answer.reason, answer.user));
        let expected = |reason, user| Some((Channel::Udp, reason, user));
        let timeout = REPLY_TIMEOUT;
        assert_eq!(ignored(NoAnswer::Silent { timeout }), None);
        let channel = chronyd::Channel::Udp;
        let length = 28;
        assert_eq!(
            ignored(NoAnswer::Unreadable { channel, length }),
            expected(IgnoredBecause::Unreadable, None)
        );
        let stranger = NoAnswer::Stranger {
            channel,
            user: Some(65_534),
        };
        assert_eq!(
            ignored(stranger),
            expected(IgnoredBecause::Stranger, Some(65_534))
        );
    }

    #[test]
    fn timesyncd_is_synchronised_since_it_touched_its_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let touched = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        file.as_file().set_modified(touched).unwrap();
        let expected = NtpDaemon {
            name: "systemd-timesyncd".to_owned(),
            synchronised: true,
            updated_s: Some(60),
            ..NtpDaemon::default()
        };
        assert_eq!(timesyncd(file.path(), 1_700_000_060), Some(expected));
    }

    #[test]
    fn without_the_file_there_is_no_timesyncd() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(timesyncd(&folder.path().join("missing"), 60), None);
    }

    #[test]
    fn a_daemon_that_answers_here_has_a_name() {
        let (daemon, _) = read();
        assert!(daemon.is_none_or(|daemon| !daemon.name.is_empty()));
    }

    #[test]
    fn the_leap_indicator_is_none_insert_delete_or_unknown() {
        let expected = [
            Some(Leap::None),
            Some(Leap::Insert),
            Some(Leap::Delete),
            None,
        ];
        assert_eq!([0, 1, 2, 3].map(leap_of), expected);
    }
}
