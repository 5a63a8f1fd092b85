//! Asks the NTP daemon of this machine for its state, by one request: chronyd at its command port,
//! any other daemon that serves NTP by NTP. systemd-timesyncd answers no requests, but updates a
//! file.

use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, SystemTime};

use jiff::SignedDuration;

use super::NtpDaemon;

/// chronyd's request "tracking" (`candm.h`): version 6, a request, REQ_TRACKING, the first attempt,
/// and a sequence number. The request must be as long as the reply.
const TRACKING: [u8; 12] = [6, 1, 0, 0, 0, 33, 0, 0, b't', b'i', b'c', b'k'];
const TRACKING_BYTES: usize = 104;

/// A client's request of NTP version 4 (RFC 5905, 7.3).
const CLIENT: [u8; 1] = [(4 << 3) | 3];
const CLIENT_BYTES: usize = 48;

/// The reference id of a chronyd or ntpd that follows its own clock.
const LOCAL: [u8; 4] = [127, 127, 1, 1];

pub(super) fn read() -> Option<NtpDaemon> {
    let now = SystemTime::now();
    let chronyd = || chronyd_reply(&ask(323, &TRACKING, TRACKING_BYTES)?, now);
    let ntpd = || ntp_reply(&ask(123, &CLIENT, CLIENT_BYTES)?, now);
    chronyd().or_else(ntpd).or_else(|| timesyncd(now))
}

/// The reply of a daemon on this machine, at once or never. Only root may open these ports.
fn ask(port: u16, request: &[u8], length: usize) -> Option<Vec<u8>> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
    socket.connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    socket.set_read_timeout(Some(Duration::from_millis(100))).ok()?;
    let mut bytes = request.to_vec();
    bytes.resize(length, 0);
    socket.send(&bytes).ok()?;
    let received = socket.recv(&mut bytes).ok()?;
    bytes.truncate(received);
    Some(bytes)
}

/// Parses chronyd's reply (`CMD_Reply`, `RPY_Tracking` in `candm.h`): big-endian, from byte 28 on.
fn chronyd_reply(reply: &[u8], now: SystemTime) -> Option<NtpDaemon> {
    let word = |at: usize| Some(u32::from_be_bytes(*reply.get(at..)?.first_chunk()?));
    let half = |at: usize| Some(u16::from_be_bytes(*reply.get(at..)?.first_chunk()?));
    let (is_success, is_mine) = (half(6)? == 5 && half(8)? == 0, reply.get(16..20) == Some(&TRACKING[8..]));
    let seconds = |at| Some(float(word(at)?));
    let reference = *reply.get(28..)?.first_chunk()?;
    let (delay_s, dispersion_s, left_s) = (seconds(92)?, seconds(96)?, seconds(68)?);
    let updated_s = (u64::from(word(56)?) << 32) | u64::from(word(60)?);
    (reply.starts_with(&[6, 2]) && is_success && is_mine).then(|| NtpDaemon {
        name: "chronyd".to_owned(),
        // A leap status of 3 means unsynchronised.
        synchronised: half(54) != Some(3) && reference != LOCAL,
        reference: Some(reference_name(reference)),
        stratum: half(52),
        offset_ns: ns(left_s),
        bound_ns: ns(left_s.abs() + delay_s / 2.0 + dispersion_s),
        updated_s: age_s(SystemTime::UNIX_EPOCH + Duration::from_secs(updated_s), now),
    })
}

/// Parses an NTP server's reply. It does not state the offset that is still to be removed.
fn ntp_reply(reply: &[u8], now: SystemTime) -> Option<NtpDaemon> {
    // NTP counts seconds from 1900.
    const UNIX_EPOCH_S: u32 = 2_208_988_800;
    let word = |at: usize| Some(u32::from_be_bytes(*reply.get(at..)?.first_chunk()?));
    // These fields have 16 binary places.
    let seconds = |at| Some(f64::from(word(at)?) / 65_536.0);
    let reference = *reply.get(12..)?.first_chunk()?;
    let (first, stratum) = (reply.first()?, reply.get(1)?);
    let updated_s = word(16)?.wrapping_sub(UNIX_EPOCH_S);
    let is_reply = reply.len() >= CLIENT_BYTES && first & 7 == 4;
    let (delay_s, dispersion_s) = (seconds(4)?, seconds(8)?);
    is_reply.then(|| NtpDaemon {
        name: "ntpd".to_owned(),
        synchronised: first >> 6 != 3 && (1..16).contains(stratum) && reference != LOCAL,
        reference: Some(reference_name(reference)),
        stratum: Some(u16::from(*stratum)),
        offset_ns: None,
        bound_ns: ns(delay_s / 2.0 + dispersion_s),
        updated_s: age_s(SystemTime::UNIX_EPOCH + Duration::from_secs(updated_s.into()), now),
    })
}

/// systemd-timesyncd touches this file at each update (systemd-timesyncd.service(8)).
fn timesyncd(now: SystemTime) -> Option<NtpDaemon> {
    let updated = fs::metadata("/run/systemd/timesync/synchronized").ok()?.modified().ok()?;
    let name = "systemd-timesyncd".to_owned();
    Some(NtpDaemon { name, synchronised: true, updated_s: age_s(updated, now), ..NtpDaemon::default() })
}

fn age_s(then: SystemTime, now: SystemTime) -> Option<u64> {
    Some(now.duration_since(then).ok()?.as_secs())
}

fn ns(seconds: f64) -> Option<i64> {
    i64::try_from(SignedDuration::try_from_secs_f64(seconds).ok()?.as_nanos()).ok()
}

/// A `Float` of `candm.h`: a signed exponent of 7 bits, and a signed coefficient of 25 bits.
fn float(bits: u32) -> f64 {
    let (exponent, coefficient) = (bits.cast_signed() >> 25, bits.cast_signed() << 7 >> 7);
    f64::from(coefficient) * f64::from(exponent - 25).exp2()
}

/// A reference id as text: a reference clock's name, such as PHC0, or four bytes of an address.
fn reference_name(reference: [u8; 4]) -> String {
    let name = reference.split(|byte| *byte == 0).next().unwrap_or_default();
    let is_name = !name.is_empty() && name.iter().all(u8::is_ascii_graphic);
    if is_name { String::from_utf8_lossy(name).into_owned() } else { Ipv4Addr::from(reference).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// Replies that chronyd 4.3 has sent, and variants of them, each with the expected result.
    #[test]
    fn replies_are_read() {
        let cases: Vec<Value> =
            serde_json::from_str(include_str!("../../tests/data/ntp_replies.json")).unwrap();
        for case in cases {
            let hex: Vec<_> = case["reply"].as_str().unwrap().split_whitespace().collect();
            let hex = hex.concat();
            let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
            let reply: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
            let now = SystemTime::UNIX_EPOCH + Duration::from_secs(0x6b04_326d + 60);
            assert_eq!(json!(chronyd_reply(&reply, now)), case["chronyd"], "{}", case["about"]);
            assert_eq!(json!(ntp_reply(&reply, now)), case["ntp"], "{}", case["about"]);
            assert!(
                (0..40).all(|end| chronyd_reply(&reply[..end], now).is_none()
                    && ntp_reply(&reply[..end], now).is_none())
            );
        }
    }
}
