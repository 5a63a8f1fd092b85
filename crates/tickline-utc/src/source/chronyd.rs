//! chronyd: its state ([`Tracking`]), which [`ask`] asks for (the request "tracking" of `candm.h`
//! of chrony 4), and the report in that state.
//!
//! chronyd keeps an NTP clock. The system clock is slewed towards it, and is off by the
//! correction that is left. UTC is within the root dispersion and half of the root delay of the NTP
//! clock (chronyc(1), "tracking": Root delay, Root dispersion). The dispersion grows with the skew,
//! the residual frequency, and what chronyd assumes of the oscillator itself (`maxclockerror`, 1
//! ppm; `get_root_dispersion` in `reference.c`). A larger `maxclockerror` is not in the reply.
//!
//! # The rate
//!
//! The frequency in a reply belongs to the clock that chronyd corrects, and the reply does not say
//! which clock that is. Usually chronyd steers the kernel's clock, and UTC runs at 1 - f of the
//! rate of `CLOCK_MONOTONIC_RAW`. With `chronyd -x` another program steers, and f is relative to
//! `CLOCK_REALTIME`: the rate is (1 - f) times that of the kernel's clock, as the kernel says, and
//! as it is measured from poll to poll. And where another program calls adjtime(3) beside a chronyd
//! that steers, the slew is in f. A claim has the hull of these rates until chronyd has shown that
//! it steers, and then allows for a slew (`rates.rs`). Where another program steers by 100 ppm, the first rate alone would put
//! a reading off by 100 us a second after the request. Without the hull, some of the readings that
//! the tests simulate miss UTC, and none with it (`tests/world.rs`).
//!
//! # Who answers
//!
//! chronyd is asked by its Unix socket, `/run/chrony/chronyd.sock`, where this user may use it:
//! root, usually. Those who may replace the socket can answer there: root, its user, the folder's
//! user, and the folder's group if that may write there. An answer counts if the folder and the
//! socket are root's, chronyd's user's or this process's user's, and not every user may replace the
//! socket. Else the port is asked, and the error is [`NoAnswer::Stranger`] if nobody answers there.
//!
//! Otherwise chronyd is asked at UDP port 323 of this machine: where this user may not use the
//! socket, and if the socket is silent, fails, is a stranger's, or is left out after three silent
//! requests in a row. Any program that may bind that port can answer there: any user's in a
//! container, because container engines set `net.ipv4.ip_unprivileged_port_start` to 0. An answer
//! counts if each socket that the kernel lists at the port, whatever its address, is root's,
//! chronyd's user's (`chrony`, `_chrony`), or that of this process's user. Else the error is
//! [`NoAnswer::Stranger`].
//!
//! An answer must also repeat the request's random number. If the kernel has no list, as in a
//! container that hides `/proc/net`, an answer at the port counts, and [`Answer::user`] is `None`.
//! In a container without the host's users the kernel lists the port of the host's root for user
//! 65534, and the answer does not count.
//!
//! So an answer at the port does not prove that it is chronyd's. For example, these can answer in
//! its place:
//!
//! - root in this container, or in another one that shares the host's network;
//! - a program that has shared the port with chronyd, and has closed its socket since: the list is
//!   read after the answer.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use super::{MeasurementId, Origin, Report, SourceAnswer};
use crate::deadline::Deadline;
use crate::interval::Interval;
use crate::moment::Moment;
use crate::rate::WANDER_PPB;
use crate::sys::tick_adjustment_ppb;
use crate::{Unbounded, UtcSource, UtcUnknown};

mod rates;
mod request;

pub(super) use rates::KernelSteering;
use rates::Steering;
use request::ChronydClient;
pub use request::{Answer, Channel, NoAnswer, ask};

/// The head of a request: version 6, a request, REQ_TRACKING, the first attempt. A sequence number
/// follows. A request must be as long as its reply.
const TRACKING: [u8; 8] = [6, 1, 0, 0, 0, 33, 0, 0];
const TRACKING_BYTES: usize = 104;

/// The precision of the reply's numbers, bits: a coefficient has at least 23 significant bits.
const PLACES: u32 = 22;

/// The reference of a chronyd that follows its own clock (`NTP_REFID_LOCAL` in chrony's `ntp.h`;
/// chrony.conf(5), `local`).
const LOCAL: [u8; 4] = [127, 127, 1, 1];

/// Longer than a reply of any kind.
const LONGEST_REPLY_BYTES: usize = 1_024;

/// The reply to `request` of the daemon at `port` of this machine. `socket` is new.
pub(crate) fn ask_by(
    socket: &UdpSocket,
    port: u16,
    request: &[u8],
    timeout: Duration,
) -> Option<Vec<u8>> {
    // A copy never gets the number of a standard stream that the program has closed.
    let socket = socket.try_clone().ok()?;
    socket.connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    socket.send(request).ok()?;
    let mut reply = [0; LONGEST_REPLY_BYTES];
    let set_timeout = |timeout| socket.set_read_timeout(timeout);
    let (length, sender) = Deadline::after(timeout)
        .wait(set_timeout, || socket.recv_from(&mut reply))
        .ok()?;
    // A datagram that came before `connect` may be from anyone.
    if sender != SocketAddr::from((Ipv4Addr::LOCALHOST, port)) {
        return None;
    }
    Some(reply.get(..length)?.to_vec())
}

/// chronyd's state. Each number was rounded by chronyd, and here down to ns or ppb.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Tracking {
    /// The clock that chronyd follows: an IPv4 address, or the name of a clock of this machine.
    pub reference: [u8; 4],
    /// Whether the reference may be a clock of this machine, not a server with an address.
    pub(crate) is_clock: bool,
    /// The distance from a reference clock (NTP's stratum).
    pub stratum: u16,
    /// 3: not synchronised; 1 and 2: a leap second is inserted or deleted today.
    pub leap_status: u16,
    /// The Unix time of the last update, s.
    pub updated_s: u64,
    /// The NTP clock minus the system clock, ns.
    pub correction_ns: i64,
    /// The rate of the system clock against UTC, ppb: without chronyd's steering, or, with
    /// `chronyd -x`, as another program steers it.
    pub frequency_ppb: i64,
    /// The estimated error of that rate, ppb.
    pub skew_ppb: i64,
    /// The error of that rate, ppb: the skew and the residual frequency; not negative.
    pub frequency_error_ppb: i64,
    /// The root delay, ns; not negative.
    pub delay_ns: i64,
    /// The root dispersion, ns; not negative.
    pub dispersion_ns: i64,
    /// A number that changes when chronyd has measured.
    pub(crate) measurement: u64,
}

impl Tracking {
    /// The state in a reply to the request with this sequence number: a `CMD_Reply` with
    /// `RPY_Tracking`, big-endian. The data begin at byte 28.
    fn parse(reply: &[u8; TRACKING_BYTES], sequence: [u8; 4]) -> Option<Self> {
        let half = |at: usize| u16::from_be_bytes([reply[at], reply[at + 1]]);
        let word = |at: usize| {
            u32::from_be_bytes([reply[at], reply[at + 1], reply[at + 2], reply[at + 3]])
        };
        let ns = |at: usize| scaled(word(at), 1_000_000_000);
        let ppb = |at: usize| scaled(word(at), 1_000);
        // Version 6, a reply; RPY_TRACKING, STT_SUCCESS.
        let is_tracking = reply.starts_with(&[6, 2]) && half(6) == 5 && half(8) == 0;
        let is_mine = reply[16..20] == sequence;
        (is_tracking && is_mine).then(|| Self {
            reference: word(28).to_be_bytes(),
            is_clock: half(48) == 0,
            stratum: half(52),
            leap_status: half(54),
            updated_s: u64::from(word(56)) << 32 | u64::from(word(60)),
            correction_ns: ns(68),
            frequency_ppb: ppb(80),
            skew_ppb: ppb(88),
            frequency_error_ppb: ppb(84)
                .saturating_abs()
                .saturating_add(ppb(88).saturating_abs()),
            delay_ns: ns(92).max(0),
            dispersion_ns: ns(96).max(0),
            // The last offset, and the time between the last two updates: both as raw bits, because
            // any change says that chronyd has measured. The time of the reference does not serve,
            // because a step changes it, too.
            measurement: u64::from(word(72)) << 32 | u64::from(word(100)),
        })
    }

    /// Whether chronyd follows another clock than its own.
    #[must_use]
    pub fn is_synchronised(&self) -> bool {
        self.why_unbounded().is_none()
    }

    /// Why chronyd does not bound UTC; `None` if it does.
    fn why_unbounded(&self) -> Option<Unbounded> {
        if self.reference == LOCAL {
            return Some(Unbounded::FollowsItself);
        }
        if self.leap_status >= 3 || self.reference == [0; 4] {
            return Some(Unbounded::FollowsNothing);
        }
        None
    }

    /// The error of the correction, the dispersion and the delay together, ns: each was rounded
    /// twice, by chronyd and to nanoseconds.
    fn rounded_ns(&self) -> i64 {
        [self.correction_ns, self.dispersion_ns, self.delay_ns]
            .iter()
            .fold(5, |sum: i64, ns| {
                sum.saturating_add(ns.saturating_abs() >> PLACES)
            })
    }
}

/// `Float` of `candm.h`, an exponent of 7 bits and a coefficient of 25, both with a sign, in units
/// of 1 / `unit`, rounded down.
fn scaled(bits: u32, unit: i64) -> i64 {
    let exponent = bits.cast_signed() >> 25;
    let coefficient = bits.cast_signed() << 7 >> 7;
    // BOUND: below 2^24 * 2^30 * 2^38.
    let value = i128::from(coefficient) * i128::from(unit);
    let places = exponent - 25;
    let value = if places < 0 {
        value >> places.unsigned_abs()
    } else {
        value << places
    };
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

/// The largest rate of the kernel's other clocks against `CLOCK_MONOTONIC_RAW`, without steering,
/// ppb. A tick of the other clocks is a second divided by HZ (`ntp_update_frequency` in
/// `kernel/time/ntp.c`). A tick of `CLOCK_MONOTONIC_RAW` is rounded down to ns first
/// (`tk_setup_internals` in `timekeeping.c`). With HZ=300 this makes 0.1 ppm. Kernels of 2016 round
/// down once more (`raw_interval` there): up to 1 ns of a tick, and 1 ppm with HZ=1000.
const TICK_PPB: i64 = 1_000;

/// The longest wait for a reply. On the same machine a reply comes at once, or never.
pub(super) const REPLY_TIMEOUT: Duration = Duration::from_millis(20);

/// chronyd, as the thread asks it again and again.
#[derive(Debug, Default)]
pub(crate) struct ChronydSource {
    client: ChronydClient,
    /// What the replies have shown; `None` before the first one.
    steering: Option<Steering>,
    /// How it was asked when it last answered.
    pub(crate) channel: Option<Channel>,
}

impl ChronydSource {
    /// chronyd's state; `None` if no answer counts.
    pub(super) fn ask(&mut self) -> Option<Tracking> {
        let answer = self.client.ask(REPLY_TIMEOUT).ok();
        self.channel = answer.as_ref().map(|answer| answer.channel);
        if answer.is_none() {
            self.forget();
        }
        Some(answer?.tracking)
    }

    /// Forgets what the replies have shown, because there was none.
    fn forget(&mut self) {
        if let Some(steering) = &mut self.steering {
            steering.forget();
        }
    }

    /// Records that `CLOCK_REALTIME` was set, or that the machine resumed.
    pub(crate) fn record_clock_set(&mut self) {
        if let Some(steering) = &mut self.steering {
            steering.record_clock_set();
        }
    }

    /// If claims get narrower once the slew of the kernel's clock has been measured for longer:
    /// `CLOCK_MONOTONIC_RAW` at the poll where the measurement began, ns.
    pub(crate) fn slew_awaited_since_ns(&self) -> Option<i64> {
        self.steering.as_ref()?.slew_awaited_since_ns()
    }

    /// The report in a state that was asked for between two moments, when `kernel` was how the
    /// kernel moved its clock. What was measured until a reply more than `max_gap_ns` ago does not
    /// count.
    pub(super) fn report(
        &mut self,
        tracking: &Tracking,
        phc_bound_ns: i64,
        kernel: Option<KernelSteering>,
        moments: [&Moment; 2],
        max_gap_ns: i64,
    ) -> SourceAnswer {
        let steering = self
            .steering
            .get_or_insert_with(|| Steering::new(tick_adjustment_ppb()));
        let rates_ppb = steering.rates_ppb(tracking, kernel, moments, max_gap_ns);
        let slew_width_ppb = steering.slew_width_ppb();
        let report = report(tracking, phc_bound_ns, rates_ppb);
        if report.is_err() {
            steering.forget();
        }
        report.map(|report| Report {
            slew_width_ppb,
            ..report
        })
    }
}

/// The report in chronyd's state. This machine's hardware clocks have an error of up to
/// `phc_bound_ns`. UTC has one of `rates_ppb`, if chronyd's frequency is exact.
fn report(tracking: &Tracking, phc_bound_ns: i64, rates_ppb: Interval<i64>) -> SourceAnswer {
    if let Some(why) = tracking.why_unbounded() {
        return Err(UtcUnknown::Unsynchronised(UtcSource::Chronyd, why));
    }
    let Tracking {
        correction_ns,
        frequency_ppb,
        frequency_error_ppb,
        delay_ns,
        dispersion_ns,
        ..
    } = *tracking;
    let phc_bound_ns = if tracking.is_clock { phc_bound_ns } else { 0 };
    let request_ns = tracking.rounded_ns().saturating_add(phc_bound_ns);
    let bound_ns = dispersion_ns
        .saturating_add(delay_ns / 2)
        .saturating_add(request_ns);
    let rounded_ppb = (frequency_ppb.saturating_abs() >> PLACES) + 3;
    let drift_ppb = frequency_error_ppb.saturating_add(WANDER_PPB + TICK_PPB + rounded_ppb);
    Ok(Report {
        id: MeasurementId {
            origin: Origin::Chronyd,
            number: tracking.measurement,
        },
        offset_ns: Interval::around(correction_ns, bound_ns),
        request_ns,
        rates_ppb: rates_ppb.widened_by(drift_ppb),
        slew_width_ppb: 0,
        valid_ns: i64::MAX,
        leap_second_today: matches!(tracking.leap_status, 1 | 2),
    })
}

#[cfg(test)]
pub(crate) mod tests;
