//! What is known about Unix time's offset from UTC: by the claim of tickline's clock, by the
//! kernel's NTP state, and by the state that an NTP daemon reports.

use tickline_utc::sources::kernel::UNSET_ERROR_US;
use tickline_utc::{UtcSource, UtcUnknown};

use super::Document;
use crate::float::signed_f64;
use crate::machine::{MAX_PHASE_NS, NTPD, Ntp, NtpDaemon};
use crate::words::{UNKNOWN, source_name, time};

/// The time in which the error grows by one unit, in the same unit: `MAXFREQ` is 1 s in 2,000 s.
pub(crate) const GROWTH: i64 = 2_000;

/// The growth of the kernel's error in a second, us.
const GROWTH_US: i64 = 1_000_000 / GROWTH;

/// The largest growth of the kernel's error since ptpd or phc2sys has set it, us: that of four
/// seconds. They set it about once a second. With a larger growth, errors of other daemons would
/// more often match by chance, and make a finding. tickline-utc has no such limit: there a match
/// only takes a claim away (`source/kernel.rs`).
pub(crate) const PTP_GROWTH_US: i64 = 4 * GROWTH_US;

/// The largest offset that a working daemon leaves, ns. ntpd steps the clock if the offset is
/// larger (RFC 5905, `STEPT`).
const STEP_NS: i64 = 128_000_000;

/// A bound of Unix time's offset from UTC.
pub(crate) struct UtcBound {
    pub(crate) ns: i64,
    /// Who states it, in words.
    pub(crate) by: String,
    /// Whether it is the kernel's error, which grows until the daemon updates it.
    pub(crate) is_kernels: bool,
}

/// A source of a figure about Unix time's offset.
#[derive(Debug, Clone, Copy)]
enum OffSource {
    /// The offset that the kernel has still to remove.
    Kernel,
    /// The offset that the daemon has still to remove.
    Daemon,
    /// The error that the daemon estimates, which has no sign.
    Estimate,
}

impl OffSource {
    const ALL: [Self; 3] = [Self::Kernel, Self::Daemon, Self::Estimate];
}

impl Document {
    /// The bound of tickline's clock. If that clock has none, as in most recorded facts, it is the
    /// daemon's claim, by the kernel or by the daemon's answer. `None` in these cases:
    ///
    /// - There is no claim.
    /// - tickline's clock refuses it.
    /// - Only the kernel has it, and the daemon follows no other clock, or answers no longer.
    ///
    /// Under systemd-timesyncd there is no claim: the kernel only assumes an error of 500 ppm of
    /// the time since the last update. Rules and health treat the assumption as a claim, because it
    /// shows that the daemon still updates the clock. Otherwise each machine with that daemon would
    /// be not known right, without a fault to fix.
    pub(crate) fn utc_bound(&self) -> Option<UtcBound> {
        let is_kernels = self.clock.utc_source.as_deref() == Some(UtcSource::Kernel.code());
        let is_lone = self.lone_daemon().is_some();
        if let Some(error_ns) = self.clock.utc_error_ns
            && !(is_lone && is_kernels)
        {
            let source = self.clock.utc_source.as_deref().unwrap_or(UNKNOWN);
            return Some(UtcBound {
                ns: i64::try_from(error_ns).unwrap_or(i64::MAX),
                by: format!("{} claims", source_name(source)),
                is_kernels,
            });
        }
        if is_lone || self.refusal().is_some() || self.orphaned_claim().is_some() {
            return None;
        }
        let daemon = self.machine.ntp_daemon.as_ref();
        let name = daemon.map_or("an NTP daemon", |daemon| &daemon.name);
        if let Some(ntp) = self.kernel_claim() {
            return Some(UtcBound {
                ns: kernel_error_ns(ntp),
                by: format!("{name} claims"),
                is_kernels: true,
            });
        }
        if let Some(bound_ns) = self.daemon_bound_ns() {
            return Some(UtcBound {
                ns: bound_ns,
                by: format!("{name} claims"),
                is_kernels: false,
            });
        }
        let ntp = self.ntp_with_set_error()?;
        // The kernel lets the error grow at the end of each second, so 0 lacks up to one growth.
        let missing_ns = if ntp.maximum_error_us == 0 {
            GROWTH_US * 1_000
        } else {
            0
        };
        Some(UtcBound {
            ns: kernel_error_ns(ntp).saturating_add(missing_ns),
            by: "the kernel assumes".to_owned(),
            is_kernels: true,
        })
    }

    /// Why tickline's clock takes no source's word, although one may claim a bound: the claim is
    /// older than a disruption, or does not hold near a leap second. For any other reason of
    /// `utc_unknown`, nobody has claimed anything to that clock.
    pub(crate) fn refusal(&self) -> Option<UtcUnknown> {
        let why = self.clock.utc_unknown.as_deref()?;
        [UtcUnknown::Disrupted, UtcUnknown::LeapSecond]
            .into_iter()
            .find(|refusal| refusal.code() == why)
    }

    /// The kernel's NTP state, if a daemon has set its maximum error. The kernel starts with its
    /// limit (`NTP_PHASE_LIMIT`, `include/linux/timex.h`), and lets the error grow by 500 ppm. So
    /// an error below the limit comes from a daemon, and is at most some hours old.
    pub(crate) fn ntp_with_set_error(&self) -> Option<&Ntp> {
        let ntp = self.machine.ntp.as_ref()?;
        if ntp.maximum_error_us >= UNSET_ERROR_US {
            return None;
        }
        Some(ntp)
    }

    /// The bound that the answering daemon states, ns; `None` if it follows no other clock.
    pub(crate) fn daemon_bound_ns(&self) -> Option<i64> {
        let daemon = self.machine.ntp_daemon.as_ref()?;
        if self.lone_daemon().is_some() {
            return None;
        }
        daemon.bound_ns
    }

    /// The offset that a daemon has set as the estimated and as the maximum error, us, as ptpd does
    /// about once a second. `None` if the daemon that answers states a bound, or if the errors
    /// differ.
    pub(crate) fn offset_as_both_errors_us(&self) -> Option<i64> {
        let ntp = self.ntp_with_set_error()?;
        let offset_us = ntp.errors().offset_as_both_errors_us()?;
        let grown_us = ntp.maximum_error_us.saturating_sub(offset_us);
        if grown_us > PTP_GROWTH_US || self.daemon_bound_ns().is_some() {
            return None;
        }
        Some(offset_us)
    }

    /// The kernel's NTP state, if its error is a daemon's claim: neither its growth alone
    /// ([`is_growth_only`](tickline_utc::sources::kernel::KernelErrors::is_growth_only)), nor an
    /// offset.
    pub(crate) fn kernel_claim(&self) -> Option<&Ntp> {
        let ntp = self.ntp_with_set_error()?;
        let is_no_claim =
            ntp.errors().is_growth_only() || self.offset_as_both_errors_us().is_some();
        if is_no_claim || self.lone_daemon().is_some() {
            return None;
        }
        Some(ntp)
    }

    /// The kernel's NTP state, if its error is the claim of a daemon, and none answers this
    /// process. Only an answer shows that chronyd without `rtcsync` runs, because it leaves the
    /// kernel's flag at "unsynchronised". The daemon may run outside of this container. `None` for
    /// facts that were collected without the program: nobody asked a daemon then.
    pub(crate) fn orphaned_claim(&self) -> Option<&Ntp> {
        let is_asked = self.clock.utc_unknown.is_some();
        if !is_asked || self.machine.ntp_daemon.is_some() || self.machine.ptp4l.is_some() {
            return None;
        }
        self.kernel_claim().filter(|ntp| !ntp.synchronised)
    }

    /// The daemon that answers, if it follows no other clock.
    pub(crate) fn lone_daemon(&self) -> Option<&NtpDaemon> {
        let daemon = self.machine.ntp_daemon.as_ref()?;
        if daemon.synchronised && !follows_itself(daemon) {
            return None;
        }
        Some(daemon)
    }

    /// The known offset of Unix time, ns; `None` if it is acceptable or unknown. It is the larger
    /// of the offsets that the kernel and the daemon have still to remove, or else the error that
    /// the daemon estimates.
    pub(crate) fn off_ns(&self) -> Option<i64> {
        let (_, off_ns) = self.source_and_off_ns()?;
        Some(off_ns.saturating_abs())
    }

    /// That offset with its sign, which is positive if Unix time is slow; `None` if the offsets of
    /// the kernel and the daemon have opposite signs. An estimated error has no sign. In its place
    /// stands the offset of the daemon or of the kernel that is more than half of it; `None` if
    /// neither is.
    pub(crate) fn signed_off_ns(&self) -> Option<i64> {
        let (source, off_ns) = self.source_and_off_ns()?;
        let known = [OffSource::Daemon, OffSource::Kernel].map(|source| self.off_by(source));
        let has_sign = |sign| known.iter().flatten().any(|ns| ns.signum() == sign);
        if has_sign(1) && has_sign(-1) {
            return None;
        }
        match source {
            OffSource::Kernel | OffSource::Daemon => Some(off_ns),
            OffSource::Estimate => {
                let mut known = known.into_iter().flatten();
                known.find(|ns| ns.saturating_abs() > off_ns / 2)
            }
        }
    }

    /// [`off_ns`](Self::off_ns) as the beginning of a sentence. An estimated error is no offset.
    /// The kernel takes no larger offset than `MAXPHASE`, so there may be more to remove than it
    /// says.
    pub(crate) fn off_in_words(&self) -> Option<String> {
        let (source, off_ns) = self.source_and_off_ns()?;
        let off = time(signed_f64(off_ns.saturating_abs()));
        Some(match source {
            OffSource::Estimate => format!("Unix time's estimated error is {off}"),
            OffSource::Kernel if off_ns.saturating_abs() >= MAX_PHASE_NS => {
                format!("Unix time is off by at least {off}")
            }
            OffSource::Kernel | OffSource::Daemon => format!("Unix time is off by {off}"),
        })
    }

    /// Each figure that is too large, with its source and its sign, for the evidence.
    pub(crate) fn offs_as_evidence(&self) -> Vec<String> {
        let mut seen = Vec::new();
        for source in OffSource::ALL {
            if let Some(ns) = self.too_large(source) {
                let what = match (source, &self.machine.ntp_daemon) {
                    (OffSource::Kernel, _) => "offset left to the kernel to remove".to_owned(),
                    (OffSource::Daemon, daemon) => {
                        let name = daemon.as_ref().map_or("the daemon", |daemon| &daemon.name);
                        format!("offset left to {name} to remove")
                    }
                    (OffSource::Estimate, _) => "estimated error (adjtimex: esterror)".to_owned(),
                };
                seen.push(format!("{what}: {}", time(signed_f64(ns))));
            }
        }
        seen
    }

    /// The offset or error that this source states, ns.
    fn off_by(&self, source: OffSource) -> Option<i64> {
        match source {
            OffSource::Kernel => Some(self.machine.ntp.as_ref()?.offset_ns()),
            OffSource::Daemon => self.machine.ntp_daemon.as_ref()?.offset_ns,
            OffSource::Estimate => Some(
                self.ntp_with_set_error()?
                    .set_estimated_error_us()?
                    .saturating_mul(1_000),
            ),
        }
    }

    /// As [`Self::off_by`], if that is more than is acceptable.
    fn too_large(&self, source: OffSource) -> Option<i64> {
        let ns = self.off_by(source)?;
        (ns.saturating_abs() > self.max_error_ns.unwrap_or(STEP_NS)).then_some(ns)
    }

    fn source_and_off_ns(&self) -> Option<(OffSource, i64)> {
        let of = |source| Some((source, self.too_large(source)?));
        let (kernel, daemon) = (of(OffSource::Kernel), of(OffSource::Daemon));
        let offsets = daemon.into_iter().chain(kernel);
        offsets
            .max_by_key(|(_, ns)| ns.saturating_abs())
            .or_else(|| of(OffSource::Estimate))
    }

    /// The bound of Unix time's offset, in words.
    pub(crate) fn utc_bound_in_words(&self) -> Option<String> {
        let UtcBound { ns, by, .. } = self.utc_bound()?;
        let bound = time(signed_f64(ns));
        Some(format!("Unix time is within {bound} of UTC, as {by}"))
    }
}

/// Whether the daemon's reference is its own clock: `local` of chrony.conf(5); ntpd's local clock
/// driver, and its orphan mode.
fn follows_itself(daemon: &NtpDaemon) -> bool {
    let Some(reference) = daemon.reference.as_deref() else {
        return false;
    };
    let is_orphan = reference == "127.0.0.1" && daemon.name == NTPD;
    reference.starts_with("127.127.1.") || matches!(reference, "LOCL" | "LCL") || is_orphan
}

/// The kernel's error with the offset that it has still to remove, ns.
fn kernel_error_ns(ntp: &Ntp) -> i64 {
    ntp.maximum_error_us
        .saturating_abs()
        .saturating_mul(1_000)
        .saturating_add(ntp.offset_ns().saturating_abs())
}
