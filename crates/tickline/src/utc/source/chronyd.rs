//! chronyd, through its command port: the request "tracking" and its reply (`candm.h` of chrony 4).
//!
//! chronyd keeps an NTP clock. The system clock is slewed towards it, and is off by the
//! correction that is left. UTC is within the root dispersion and half of the root delay of the NTP
//! clock (chronyc(1), "tracking": Root delay, Root dispersion). The dispersion grows with the skew,
//! the residual frequency, and what chronyd assumes of the oscillator itself (`maxclockerror`, 1
//! ppm; `get_root_dispersion` in `reference.c`). A larger `maxclockerror` is not in the reply.
//!
//! UTC runs at 1 - f of the rate of `CLOCK_MONOTONIC_RAW`, where f is the frequency in the reply
//! (`current_freq_ppm` in `local.c`). This is not so with `chronyd -x` (f is then relative to
//! `CLOCK_REALTIME`), with `tempcomp` (the reply leaves its part out), and with the kernel's
//! parameter `ntp_tick_adj`. Then the next reply contradicts the claim (`claim_maker.rs`).

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use crate::utc::claim_maker::{Report, WANDER_PPB};
use crate::utc::{UtcSource, UtcUnknown};

/// The head of a request: version 6, a request, REQ_TRACKING, the first attempt, a sequence number.
/// A request must be as long as its reply.
const TRACKING: [u8; 12] = [6, 1, 0, 0, 0, 33, 0, 0, b't', b'i', b'c', b'k'];
const TRACKING_BYTES: usize = 104;

/// The precision of the reply's numbers, bits: a coefficient has at least 23 significant bits.
const PLACES: u32 = 22;

/// The largest rate of the kernel's other clocks against `CLOCK_MONOTONIC_RAW`, without steering,
/// ppb. A tick of the other clocks is a second divided by HZ (`ntp_update_frequency` in
/// `kernel/time/ntp.c`). A tick of `CLOCK_MONOTONIC_RAW` is rounded down to ns first
/// (`tk_setup_internals` in `timekeeping.c`). With HZ=300 this makes 0.1 ppm. Kernels of 2016 round
/// down once more (`raw_interval` there): up to 1 ns of a tick, and 1 ppm with HZ=1000.
const TICK_PPB: i64 = 1_000;

/// The longest wait for a reply. On the same machine a reply comes at once, or never.
const REPLY_TIMEOUT: Duration = Duration::from_millis(20);

/// The reference of a chronyd that follows its own clock (chrony.conf(5), `local`).
const LOCAL: [u8; 4] = [127, 127, 1, 1];

/// The reply of this machine's chronyd, if it runs.
pub(super) fn ask() -> Option<[u8; TRACKING_BYTES]> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
    // A copy never gets the number of a standard stream that the program has closed.
    let socket = socket.try_clone().ok()?;
    socket.connect((Ipv4Addr::LOCALHOST, 323)).ok()?;
    socket.set_read_timeout(Some(REPLY_TIMEOUT)).ok()?;
    let mut bytes = [0; TRACKING_BYTES];
    bytes[..TRACKING.len()].copy_from_slice(&TRACKING);
    socket.send(&bytes).ok()?;
    // A shorter reply is of another kind, and the rest of `bytes` would be the request's.
    (socket.recv(&mut bytes).ok()? == TRACKING_BYTES).then_some(bytes)
}

/// The report in a reply. This machine's hardware clocks have an error of up to `phc_bound_ns`. A
/// reply is a `CMD_Reply` with `RPY_Tracking`, big-endian. The data begin at byte 28.
pub(super) fn report(reply: &[u8; TRACKING_BYTES], phc_bound_ns: i64) -> Option<Result<Report, UtcUnknown>> {
    let half = |at: usize| u16::from_be_bytes([reply[at], reply[at + 1]]);
    let word = |at: usize| u32::from_be_bytes([reply[at], reply[at + 1], reply[at + 2], reply[at + 3]]);
    let ns = |at: usize| scaled(word(at), 1_000_000_000);
    let ppb = |at: usize| scaled(word(at), 1_000);
    if !reply.starts_with(&[6, 2]) || (half(6), half(8)) != (5, 0) || reply[16..20] != TRACKING[8..] {
        return None;
    }
    // 3: not synchronised; 1 and 2: a leap second is inserted or deleted today.
    let (leap_status, reference) = (half(54), &reply[28..32]);
    if leap_status >= 3 || reference == LOCAL || reference == [0; 4] {
        return Some(Err(UtcUnknown::Unsynchronised));
    }
    // The NTP clock minus the system clock.
    let correction_ns = ns(68);
    // The rate of the unsteered system clock against UTC.
    let frequency_ppb = ppb(80);
    let (residual_ppb, skew_ppb) = (ppb(84), ppb(88));
    let (delay_ns, dispersion_ns) = (ns(92).max(0), ns(96).max(0));
    // Each value was rounded twice, by chronyd and to nanoseconds.
    let rounded_ns = [correction_ns, dispersion_ns, delay_ns]
        .iter()
        .fold(5, |sum: i64, ns| sum.saturating_add(ns.saturating_abs() >> PLACES));
    // The reference may be a clock of this machine, not a server with an address.
    let is_clock = half(48) == 0;
    let request_ns = rounded_ns.saturating_add(if is_clock { phc_bound_ns } else { 0 });
    let bound_ns = dispersion_ns.saturating_add(delay_ns / 2).saturating_add(request_ns);
    let unsure_ppb = skew_ppb.saturating_abs().saturating_add(residual_ppb.saturating_abs());
    let rounded_ppb = (frequency_ppb.saturating_abs() >> PLACES) + 3;
    let (rate_ppb, drift_ppb) =
        (frequency_ppb.saturating_neg(), unsure_ppb.saturating_add(WANDER_PPB + TICK_PPB + rounded_ppb));
    Some(Ok(Report {
        source: UtcSource::Chronyd,
        offset_ns: [correction_ns.saturating_sub(bound_ns), correction_ns.saturating_add(bound_ns)],
        request_ns,
        rates_ppb: [rate_ppb.saturating_sub(drift_ppb), rate_ppb.saturating_add(drift_ppb)],
        valid_ns: i64::MAX,
        // The last offset, and the time between the last two updates: both as raw bits, because any
        // change says that chronyd has measured. The time of the reference does not serve, because
        // a step changes it, too.
        measurement: u64::from(word(72)) << 32 | u64::from(word(100)),
        leap_second_today: matches!(leap_status, 1 | 2),
    }))
}

/// `Float` of `candm.h`, an exponent of 7 bits and a coefficient of 25, both with a sign, in units
/// of 1 / `unit`, rounded down.
fn scaled(bits: u32, unit: i64) -> i64 {
    let (exponent, coefficient) = (bits.cast_signed() >> 25, bits.cast_signed() << 7 >> 7);
    // BOUND: below 2^24 * 2^30 * 2^38.
    let value = i128::from(coefficient) * i128::from(unit);
    let places = exponent - 25;
    let value = if places < 0 { value >> places.unsigned_abs() } else { value << places };
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests;
