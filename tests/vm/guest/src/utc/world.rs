//! The true time of a guest, and an NTP server that serves it, or lies (RFC 5905, section 7.3).

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, Ordering};
use std::time::Duration;

use tickline_observe::clock_ns;

use crate::agreed::{DELAY_NS, DISPERSION_NS};

/// The rate by which the true time is faster than the guest's counter, ppm.
pub(super) const FASTER_PPM: i64 = 30;

/// The time from NTP's zero, 1900, to 1970, s.
const NTP_TO_UNIX_S: i64 = 2_208_988_800;

pub(super) const SECOND_NS: i64 = 1_000_000_000;

/// The true time: a Unix time, and the time since then by `CLOCK_MONOTONIC_RAW`, [`FASTER_PPM`]
/// faster. It never steps back, except for a leap second.
#[derive(Debug, Default)]
pub(super) struct World {
    raw_ns: i64,
    unix_ns: i64,
    /// The time that `CLOCK_MONOTONIC_RAW` has missed, in a suspend or a move.
    pub(super) missed_ns: AtomicI64,
    /// The time at which a second is inserted; 0 without a leap second.
    pub(super) leap_at_ns: AtomicI64,
    /// The lead of the server's time over the true time.
    pub(super) lie_ns: AtomicI64,
    pub(super) is_silent: AtomicBool,
    /// Whether the server states no delay and no dispersion.
    pub(super) is_exact: AtomicBool,
    /// The leap indicator: 1 announces an inserted second.
    pub(super) leap: AtomicU8,
    pub(super) is_over: AtomicBool,
}

impl World {
    /// A true time that is `unix_ns` now.
    pub(super) fn new(unix_ns: i64) -> Self {
        let raw_ns = clock_ns(libc::CLOCK_MONOTONIC_RAW).cast_signed();
        Self {
            raw_ns,
            unix_ns,
            ..Self::default()
        }
    }

    /// The true time, ns since 1970.
    pub(super) fn now_ns(&self) -> i64 {
        let raw_ns = clock_ns(libc::CLOCK_MONOTONIC_RAW).cast_signed();
        // ORDERING: Relaxed: the setting orders no memory.
        let elapsed_ns = raw_ns - self.raw_ns + self.missed_ns.load(Ordering::Relaxed);
        let now_ns = self.unix_ns + elapsed_ns + elapsed_ns / 1_000_000 * FASTER_PPM;
        // ORDERING: Relaxed: the setting orders no memory.
        let leap_at_ns = self.leap_at_ns.load(Ordering::Relaxed);
        if leap_at_ns == 0 || now_ns < leap_at_ns {
            now_ns
        } else {
            now_ns - SECOND_NS
        }
    }

    /// Answers on NTP's port until the run is over.
    ///
    /// # Errors
    ///
    /// If the port is not free.
    pub(super) fn serve(&self) -> io::Result<()> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 123))?;
        socket.set_read_timeout(Some(Duration::from_millis(100)))?;
        let mut packet = [0; 128];
        // ORDERING: Relaxed: the flag orders no memory.
        while !self.is_over.load(Ordering::Relaxed) {
            let Ok((length, from)) = socket.recv_from(&mut packet) else {
                continue;
            };
            let received = self.timestamp();
            // ORDERING: Relaxed: the flag orders no memory.
            if length < 48 || self.is_silent.load(Ordering::Relaxed) {
                continue;
            }
            let mut reply = [0; 48];
            // The version is the client's; 4 is the mode of a server.
            // ORDERING: Relaxed: the setting orders no memory.
            reply[0] = self.leap.load(Ordering::Relaxed) << 6 | packet[0] & 0o70 | 4;
            // These are stratum 1, the client's interval, and a precision of 2^-20 s.
            reply[1..4].copy_from_slice(&[1, packet[2], 0xec]);
            // ORDERING: Relaxed: the setting orders no memory.
            let [delay_ns, dispersion_ns] = if self.is_exact.load(Ordering::Relaxed) {
                [0; 2]
            } else {
                [DELAY_NS, DISPERSION_NS]
            };
            reply[4..8].copy_from_slice(&short(delay_ns));
            reply[8..12].copy_from_slice(&short(dispersion_ns));
            reply[12..16].copy_from_slice(b"TEST");
            reply[16..24].copy_from_slice(&received);
            reply[24..32].copy_from_slice(&packet[40..48]);
            reply[32..40].copy_from_slice(&received);
            reply[40..48].copy_from_slice(&self.timestamp());
            socket.send_to(&reply, from).ok();
        }
        Ok(())
    }

    /// The server's time: seconds since 1900, with 32 binary digits after the point.
    fn timestamp(&self) -> [u8; 8] {
        // ORDERING: Relaxed: the setting orders no memory.
        let now_ns = self.now_ns() + self.lie_ns.load(Ordering::Relaxed);
        let seconds = now_ns.div_euclid(SECOND_NS) + NTP_TO_UNIX_S;
        let fraction = (now_ns.rem_euclid(SECOND_NS) << 32) / SECOND_NS;
        (seconds << 32 | fraction).to_be_bytes()
    }
}

/// A duration in seconds, with 16 binary digits after the point, rounded up.
fn short(ns: i64) -> [u8; 4] {
    let value = (ns << 16) / SECOND_NS + 1;
    u32::try_from(value).unwrap_or(u32::MAX).to_be_bytes()
}
