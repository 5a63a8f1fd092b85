//! ptp4l of linuxptp: its state ([`PtpStatus`]), which [`ask`] asks for at the daemon's management
//! socket as `pmc -u -b 0` does, and the report in that state.
//!
//! The messages are management messages of IEEE 1588-2019, clause 15, with linuxptp's own
//! `TIME_STATUS_NP` (`struct management_msg` in `msg.h`, `struct time_status_np` in `tlv.h`, the
//! data sets in `ds.h`; `pmc_message` and `pmc_send_get_action` in `pmc_common.c`; the byte order
//! in `mgt_pre_send` of `tlv.c`).
//!
//! ptp4l steers a *local clock* to the grandmaster's: the hardware clock of a network card (PHC),
//! which shows TAI, or with software time stamps `CLOCK_REALTIME`. The daemon does not say which,
//! but it says when the last Sync came by that clock (`ingress_time`): tickline takes the clock
//! that shows this time now, or a little more. phc2sys, which steers `CLOCK_REALTIME` to the PHC,
//! is not asked: tickline reads the PHC itself, and so needs the right to open each `/dev/ptpN`.
//!
//! The socket counts if it and its folder are root's, or this process's user's, and not every user
//! may replace it. If the folder's group may write to the folder, its members are trusted as well.
//!
//! UTC then differs from the local clock, or from a PHC minus TAI - UTC, by at most the sum of
//! these:
//!
//! | part | bounds | assumes |
//! |---|---|---|
//! | the grandmaster's accuracy | its error against UTC | it states the truth; its class is 6 or 7, and its time and its offset of UTC are traceable and valid |
//! | the last offset from the master | what the servo had still to remove | |
//! | the mean path delay | the asymmetry of the path: neither direction takes less than no time | the last Sync took no more than twice the mean; transparent clocks correct what they add; no larger `delayAsymmetry` is configured |
//! | the last two once more for each boundary clock in between | that clock's own error, of which ptp4l knows nothing | it is no worse than the last part of the path |
//! | 500 ppm of the time since the last Sync | the drift of the local clock | |
//! | 4 times the last offset for each second since the last Sync | what the servo adds to the clock's rate to remove the offset (`pi.c`) | the PI servo with its default constants, and no more than 128 Syncs a second |
//! | reading the clocks, and the error that the PHC's driver states | | |
//!
//! The sum covers one ptp4l with the end-to-end delay mechanism, in one of [`DOMAINS`]. tickline
//! makes no claim
//!
//! - with peer delays (802.1AS), of which ptp4l knows only the last link;
//! - if several clocks show the time of the last Sync (`phc2sys -a`, ts2phc);
//! - if one of the hardware clocks can't be read, because that clock may show it, too;
//! - with `free_running`, which leaves the port uncalibrated.

use std::io;
use std::path::Path;
use std::time::Duration;

use tickline_core::reference::Reference;

use super::daemon_socket::user_of;
use super::phc::HardwareClock;
use super::{MeasurementId, Origin, Report, SourceAnswer, phc, unknown_rates_ppb};
use crate::deadline::Deadline;
use crate::interval::Interval;
use crate::sys::{self, ClockDevice, ManagementSocket};
use crate::unbounded::{DAY_NS, MAX_FREQUENCY_PPB};
use crate::{Unbounded, UtcSource, UtcUnknown};

mod message;
mod no_answer;

use message::{Header, half, long, parse, request};
pub use no_answer::NoAnswer;

/// The sockets of ptp4l: two for reading alone (since linuxptp 4.0, for every user), then root's
/// two. In each pair, the first path is of versions after 4.4 (`uds_ro_address` and `uds_address`
/// in `config.c`).
pub const SOCKETS: &[&str] = &[
    "/var/run/ptp/ptp4lro",
    "/var/run/ptp4lro",
    "/var/run/ptp/ptp4l",
    "/var/run/ptp4l",
];

/// The domains in which ptp4l is looked for. It answers in its own domain alone (`port_ignore` in
/// `port.c`). These are the defaults of IEEE 1588, G.8275.1 and G.8275.2.
pub const DOMAINS: &[u8] = &[0, 24, 44];

/// The values of the header's first half byte: IEEE 1588, and 802.1AS.
const TRANSPORTS: [u8; 2] = [0, 1];

const TIME_STATUS_NP: u16 = 0xC000;
const CURRENT_DATA_SET: u16 = 0x2001;
const PARENT_DATA_SET: u16 = 0x2002;
const TIME_PROPERTIES_DATA_SET: u16 = 0x2003;
const PORT_DATA_SET: u16 = 0x2004;

/// The data sets that are asked for once the domain is known.
const DATA_SETS: [u16; 4] = [
    CURRENT_DATA_SET,
    PARENT_DATA_SET,
    TIME_PROPERTIES_DATA_SET,
    PORT_DATA_SET,
];

/// The most messages that are read for one question. ptp4l sends one for each data set and port.
const MAX_MESSAGES: usize = 64;

/// The states of a port (`enum port_state` in `fsm.h`).
const MASTER: u8 = 6;
const UNCALIBRATED: u8 = 8;
const SLAVE: u8 = 9;

/// The end-to-end delay mechanism.
const END_TO_END: u8 = 1;

// Flags of the time properties (`msg.h`).
const LEAP_61: u8 = 1;
const LEAP_59: u8 = 1 << 1;
const UTC_OFFSET_VALID: u8 = 1 << 2;
const PTP_TIMESCALE: u8 = 1 << 3;
const TIME_TRACEABLE: u8 = 1 << 4;
const SYNC_UNCERTAIN: u8 = 1 << 6;

/// The longest time since the last Sync, ns. The longest usual interval is 2 s (`logSyncInterval`).
const MAX_AGE_NS: i64 = 4_000_000_000;

/// The longest time before a leap second in which a grandmaster announces it, ns (IEEE 1588-2019,
/// 9.4). An announcement at another time of the day is one of the day before: the grandmaster may
/// take two intervals of Announce messages to withdraw it, and to change its offset of UTC.
const ANNOUNCED_NS: i64 = DAY_NS / 2;

/// The largest gain of ptp4l's servo: the part of an offset that it removes in a second. The
/// default PI servo has kp + ki, 0.7 * interval^-0.3 + 0.3 * interval^0.4 with hardware time stamps
/// (`pi.c` of linuxptp): 1 with a Sync each second, 1.4 with 8, and 3.0 with 128, which is the most
/// of G.8275.2.
const SERVO_GAIN_PER_S: i128 = 4;

/// The error of a figure that was cut to ns, and of one that was scaled, ns.
const ROUNDED_NS: i64 = 2;

/// The longest wait for the answers. On the same machine they come at once, or never.
pub(super) const REPLY_TIMEOUT: Duration = Duration::from_millis(20);

tickline_core::named! {
    /// The state of a port. Of several ports, the last state in this order is ptp4l's.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
    pub enum PortState {
        /// It follows no master, and is none (LISTENING and others).
        #[default]
        Other => "other",
        /// It is the master of others (MASTER).
        Master => "master",
        /// It measures its master, but the servo is not locked (UNCALIBRATED).
        Uncalibrated => "uncalibrated",
        /// It follows a master, and the servo is locked (SLAVE).
        Slave => "slave",
    }
}

/// The state of ptp4l: what it follows, and how well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PtpStatus {
    /// The domain in which it answers.
    pub domain: u8,
    /// The state of the port that follows a master, or of another port if none does.
    pub port_state: PortState,
    /// Whether a port in the state SLAVE measures the path end to end, not link by link.
    pub is_end_to_end: bool,
    /// Whether the grandmaster is another clock than this one.
    pub has_grandmaster: bool,
    /// The grandmaster's identity.
    pub grandmaster: [u8; 8],
    /// The grandmaster's class (IEEE 1588-2019, table 4): 6 and 7 follow a primary reference.
    pub clock_class: u8,
    /// The grandmaster's accuracy, as its code (table 5).
    pub clock_accuracy: u8,
    /// The number of boundary clocks to the grandmaster, plus 1.
    pub steps_removed: u16,
    /// The local clock minus the master's, by the last Sync, ns.
    pub offset_ns: i64,
    /// The mean delay of the path to the master, one way, ns.
    pub mean_path_delay_ns: i64,
    /// The time of the last Sync by the local clock, ns.
    pub ingress_ns: i64,
    /// TAI minus UTC, s.
    pub utc_offset_s: i16,
    /// The flags of the time properties.
    pub(crate) time_flags: u8,
}

/// Asks this machine's ptp4l for its state. Waits for at most `timeout`.
///
/// # Errors
///
/// [`NoAnswer`], of the first socket that exists: ptp4l does not run, this user may not ask it, or
/// its answers have not come in time.
///
/// ```
/// use std::time::Duration;
/// use tickline_utc::sources::ptp4l;
///
/// match ptp4l::ask(Duration::from_millis(20)) {
///     Ok(status) => println!("the local clock is off by {} ns", status.offset_ns),
///     Err(why) => println!("{why}"),
/// }
/// ```
pub fn ask(timeout: Duration) -> Result<PtpStatus, NoAnswer> {
    ask_first_of(SOCKETS, timeout)
}

/// The first answer at one of these sockets.
fn ask_first_of(sockets: &[&'static str], timeout: Duration) -> Result<PtpStatus, NoAnswer> {
    let deadline = Deadline::after(timeout);
    let mut failed = NoAnswer::NoSocket;
    for socket in sockets {
        match PtpStatus::ask_at(socket, deadline, timeout) {
            Ok(status) => return Ok(status),
            Err(why) if failed == NoAnswer::NoSocket => failed = why,
            Err(_) => {}
        }
    }
    Err(failed)
}

impl PtpStatus {
    /// The state by the socket at this path, until `deadline`, which is `timeout` after the start.
    fn ask_at(
        socket: &'static str,
        deadline: Deadline,
        timeout: Duration,
    ) -> Result<Self, NoAnswer> {
        let unusable = |error: io::Error| NoAnswer::unusable(socket, error.kind());
        let path = Path::new(socket).canonicalize().map_err(unusable)?;
        user_of(&path, may_be_ptp4l).map_err(|why| NoAnswer::not_asked(socket, why))?;
        let questions = Questions {
            socket: ManagementSocket::connect(&path, deadline).map_err(unusable)?,
        };
        let silent = NoAnswer::Silent { socket, timeout };
        let (header, status) = questions.time_status().ok_or(silent)?;
        let incomplete = NoAnswer::Incomplete { socket, timeout };
        questions.data_sets(header, status).ok_or(incomplete)
    }

    /// Whether it follows a grandmaster, and its servo is locked.
    #[must_use]
    pub fn is_synchronised(&self) -> bool {
        self.port_state == PortState::Slave && self.has_grandmaster
    }

    /// The grandmaster's accuracy, ns; `None` if it is unknown, or more than 10 s.
    #[must_use]
    pub fn accuracy_ns(&self) -> Option<i64> {
        Some(match self.clock_accuracy {
            // Codes for less than 25 ns exist since 2019.
            0x17..=0x20 => 25,
            0x21 => 100,
            0x22 => 250,
            0x23 => 1_000,
            0x24 => 2_500,
            0x25 => 10_000,
            0x26 => 25_000,
            0x27 => 100_000,
            0x28 => 250_000,
            0x29 => 1_000_000,
            0x2A => 2_500_000,
            0x2B => 10_000_000,
            0x2C => 25_000_000,
            0x2D => 100_000_000,
            0x2E => 250_000_000,
            0x2F => 1_000_000_000,
            0x30 => 10_000_000_000,
            _ => return None,
        })
    }

    /// Why the protocol's facts bound nothing; `None` if they do.
    #[must_use]
    pub fn why_unbounded(&self) -> Option<Unbounded> {
        let has = |flag: u8| self.time_flags & flag != 0;
        match (self.port_state, self.has_grandmaster) {
            (PortState::Slave, true) => {}
            (PortState::Uncalibrated, _) => return Some(Unbounded::NotLocked),
            (PortState::Master, false) => return Some(Unbounded::IsGrandmaster),
            // While it listens, it has no grandmaster either.
            _ => return Some(Unbounded::NoMaster),
        }
        if !has(PTP_TIMESCALE) {
            return Some(Unbounded::NoTai);
        }
        if !has(UTC_OFFSET_VALID) {
            return Some(Unbounded::NoUtcOffset);
        }
        if !has(TIME_TRACEABLE) || has(SYNC_UNCERTAIN) {
            return Some(Unbounded::NotTraceable);
        }
        if !matches!(self.clock_class, 6 | 7) {
            return Some(Unbounded::OtherClockClass {
                class: self.clock_class,
            });
        }
        if self.accuracy_ns().is_none() {
            return Some(Unbounded::NoAccuracyBound {
                code: self.clock_accuracy,
            });
        }
        if !self.is_end_to_end {
            return Some(Unbounded::OnlyLinkDelay);
        }
        if self.mean_path_delay_ns < 0 || self.steps_removed == 0 {
            return Some(Unbounded::NoPathDelay);
        }
        None
    }

    /// The bound of the local clock's error against UTC at the last Sync, ns, under the assumptions
    /// of the [module](self). `None` if the protocol's facts bound nothing.
    #[must_use]
    pub fn bound_ns(&self) -> Option<i64> {
        self.bound_or_cause_ns().ok()
    }

    /// That bound, ns; or why there is none.
    fn bound_or_cause_ns(&self) -> Result<i64, Unbounded> {
        if let Some(why) = self.why_unbounded() {
            return Err(why);
        }
        let hop_ns = self
            .offset_ns
            .saturating_abs()
            .saturating_add(self.mean_path_delay_ns);
        let path_ns = hop_ns.saturating_mul(self.steps_removed.into());
        let accuracy_ns = self.accuracy_ns().ok_or(Unbounded::NoAccuracyBound {
            code: self.clock_accuracy,
        })?;
        Ok(accuracy_ns
            .saturating_add(path_ns)
            .saturating_add(ROUNDED_NS))
    }

    /// Whether the grandmaster vouches for [`utc_offset_s`](Self::utc_offset_s).
    #[must_use]
    pub fn is_utc_offset_valid(&self) -> bool {
        self.time_flags & UTC_OFFSET_VALID != 0
    }

    /// Whether the UTC day ends with a leap second, as the grandmaster announces.
    #[must_use]
    pub fn leap_second_today(&self) -> bool {
        self.time_flags & (LEAP_59 | LEAP_61) != 0
    }

    /// Adds a data set, or what ptp4l says of a port. `None` if it is too short.
    fn add(&mut self, id: u16, data: &[u8]) -> Option<()> {
        match id {
            TIME_STATUS_NP => {
                self.offset_ns = long(data, 0)?;
                self.ingress_ns = long(data, 8)?;
                self.has_grandmaster = data.get(38..42)? != [0; 4];
                self.grandmaster = *data.get(42..)?.first_chunk()?;
            }
            CURRENT_DATA_SET => {
                self.steps_removed = half(data, 0)?;
                // 16 binary places.
                self.mean_path_delay_ns = long(data, 10)? >> 16;
            }
            PARENT_DATA_SET => {
                [self.clock_class, self.clock_accuracy] = *data.get(19..)?.first_chunk()?;
                // A data set of another grandmaster, which has just changed, says nothing of this
                // one.
                if data.get(24..32)? != self.grandmaster {
                    return None;
                }
            }
            TIME_PROPERTIES_DATA_SET => {
                self.utc_offset_s = half(data, 0)?.cast_signed();
                self.time_flags = *data.get(2)?;
            }
            PORT_DATA_SET => {
                let state = *data.get(10)?;
                let mechanism = *data.get(23)?;
                let port_state = match state {
                    SLAVE => PortState::Slave,
                    UNCALIBRATED => PortState::Uncalibrated,
                    MASTER => PortState::Master,
                    _ => PortState::Other,
                };
                self.port_state = self.port_state.max(port_state);
                self.is_end_to_end |= state == SLAVE && mechanism == END_TO_END;
            }
            _ => return None,
        }
        Some(())
    }
}

/// Whether this user can be ptp4l's: root, or this process's user, who could change it anyway.
fn may_be_ptp4l(user: u32) -> bool {
    user == 0 || Some(user) == sys::user()
}

/// The questions to ptp4l, by one socket.
struct Questions {
    socket: ManagementSocket,
}

impl Questions {
    /// Asks in each domain. Returns what the answer belongs to.
    fn time_status(&self) -> Option<(Header, PtpStatus)> {
        for &domain in DOMAINS {
            for transport in TRANSPORTS {
                self.send(Header { domain, transport }, TIME_STATUS_NP)?;
            }
        }
        for _ in 0..MAX_MESSAGES {
            let mut status = PtpStatus::default();
            let message = self.socket.receive()?;
            let Some((header, TIME_STATUS_NP, data)) = parse(&message, TIME_STATUS_NP) else {
                continue;
            };
            status.domain = header.domain;
            status.add(TIME_STATUS_NP, data)?;
            return Some((header, status));
        }
        None
    }

    /// Asks for the data sets, and for the state of each port. `None` unless each has come. Without
    /// a port that follows a master, this waits for one until the deadline.
    fn data_sets(&self, header: Header, mut status: PtpStatus) -> Option<PtpStatus> {
        for id in DATA_SETS {
            self.send(header, id)?;
        }
        let mut missing = DATA_SETS.to_vec();
        for _ in 0..MAX_MESSAGES {
            if missing.is_empty() && status.port_state == PortState::Slave {
                break;
            }
            let Some(message) = self.socket.receive() else {
                break;
            };
            let answer = DATA_SETS.iter().find_map(|id| parse(&message, *id));
            let Some((answered, id, data)) = answer else {
                continue;
            };
            if answered == header {
                status.add(id, data)?;
                missing.retain(|missing| *missing != id);
            }
        }
        missing.is_empty().then_some(status)
    }

    fn send(&self, header: Header, id: u16) -> Option<()> {
        self.socket.send(&request(header, id))
    }
}

/// The clock that ptp4l steers, at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LocalClock {
    /// Its time, ns.
    ns: i64,
    /// The time of UTC, if the clock is right, ns.
    utc_ns: i64,
    /// UTC minus `CLOCK_REALTIME`, if the clock is right, ns.
    offset_ns: Interval<i64>,
    /// The error that its driver states, ns.
    error_ns: i64,
}

impl LocalClock {
    /// The time since the last Sync, ns; `None` if this is not the clock that has stamped it.
    fn age_ns(&self, status: &PtpStatus) -> Option<i64> {
        let age_ns = self.ns.checked_sub(status.ingress_ns)?;
        (0..=MAX_AGE_NS).contains(&age_ns).then_some(age_ns)
    }
}

/// The answer of ptp4l; `None` if it does not run, or this user may not ask it. `steered_ppb` is
/// the steering of the OS clock.
pub(super) fn answer(os: &impl Reference, steered_ppb: i64) -> Option<SourceAnswer> {
    let status = ask(REPLY_TIMEOUT).ok()?;
    let clocks = local_clocks(os, &status);
    Some(report(&status, clocks.as_deref(), steered_ppb))
}

/// `CLOCK_REALTIME`, and the hardware clocks. `None` unless each of them can be read: the one that
/// cannot may be the one that ptp4l steers, and `CLOCK_REALTIME` may show the same time
/// (`phc2sys -O 0`).
fn local_clocks(os: &impl Reference, status: &PtpStatus) -> Option<Vec<LocalClock>> {
    let realtime_ns = os.unix_ns();
    let realtime = LocalClock {
        ns: realtime_ns,
        utc_ns: realtime_ns,
        offset_ns: Interval::at(0),
        error_ns: 0,
    };
    let by_device = |clock: HardwareClock| {
        let [earliest_ns, ns, latest_ns] = narrowest(&clock.device, os)?;
        let utc_ns = ns.checked_sub(i64::from(status.utc_offset_s) * 1_000_000_000)?;
        Some(LocalClock {
            ns,
            utc_ns,
            offset_ns: Interval {
                min: utc_ns.checked_sub(latest_ns)?,
                max: utc_ns.checked_sub(earliest_ns)?,
            },
            error_ns: clock.error_ns,
        })
    };
    let devices = phc::clocks()?.into_iter().map(by_device);
    devices.chain([Some(realtime)]).collect()
}

/// A time of the device between two of `CLOCK_REALTIME`, ns: the narrowest of some.
fn narrowest(device: &ClockDevice, os: &impl Reference) -> Option<[i64; 3]> {
    const TRIES: u32 = 4;
    let read = || Some([os.unix_ns(), device.now_ns()?, os.unix_ns()]);
    (0..TRIES)
        .filter_map(|_| read())
        .min_by_key(|[before_ns, _, after_ns]| after_ns.saturating_sub(*before_ns).unsigned_abs())
}

/// How far the local clock may have moved from UTC in the time since the last Sync, ns. The servo
/// turns the last offset into a frequency, and only the clock's largest adjustment limits it.
fn growth_ns(offset_ns: i64, age_ns: i64) -> i64 {
    // BOUND: 2^63 * 2^3, and 2^19, times 2^63 at most.
    let servo_ppb = i128::from(offset_ns).abs() * SERVO_GAIN_PER_S;
    let rate_ppb = servo_ppb + i128::from(MAX_FREQUENCY_PPB);
    let growth_ns = rate_ppb * i128::from(age_ns) / 1_000_000_000 + 1;
    i64::try_from(growth_ns).unwrap_or(i64::MAX)
}

/// The report of ptp4l, if exactly one of these clocks can be the one that it steers. `clocks` is
/// `None` if one of them can't be read.
fn report(status: &PtpStatus, clocks: Option<&[LocalClock]>, steered_ppb: i64) -> SourceAnswer {
    let unsynchronised = |why| UtcUnknown::Unsynchronised(UtcSource::Ptp4l, why);
    let bound_ns = status.bound_or_cause_ns().map_err(unsynchronised)?;
    let clocks = clocks.ok_or(unsynchronised(Unbounded::UnreadableClock))?;
    let mut stamping = clocks
        .iter()
        .filter_map(|clock| Some((clock, clock.age_ns(status)?)));
    let (clock, age_ns) = stamping
        .next()
        .ok_or(unsynchronised(Unbounded::NoClockOfLastSync))?;
    if stamping.next().is_some() {
        return Err(unsynchronised(Unbounded::SeveralClocksOfLastSync));
    }
    if status.leap_second_today() && clock.utc_ns.rem_euclid(DAY_NS) < DAY_NS - ANNOUNCED_NS {
        return Err(UtcUnknown::LeapSecond);
    }
    let growth_ns = growth_ns(status.offset_ns, age_ns);
    let bound_ns = bound_ns
        .saturating_add(growth_ns)
        .saturating_add(clock.error_ns);
    Ok(Report {
        id: MeasurementId {
            origin: Origin::Ptp4l,
            number: status.ingress_ns.cast_unsigned(),
        },
        offset_ns: clock.offset_ns.widened_by(bound_ns),
        request_ns: clock.offset_ns.width().saturating_add(growth_ns),
        rates_ppb: unknown_rates_ppb(steered_ppb),
        slew_width_ppb: 0,
        valid_ns: i64::MAX,
        leap_second_today: status.leap_second_today(),
    })
}

#[cfg(test)]
mod tests;
