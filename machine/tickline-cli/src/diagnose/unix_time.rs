//! Findings about Unix time: whether it is known to be right, by the claim of tickline's clock, by
//! the kernel's NTP state, and by the state that an NTP daemon reports.

use std::fmt::Display;

use super::finding::Finding;
use super::steps;
use crate::document::Document;
use crate::machine::{Ntp, NtpDaemon};
use crate::measure::signed_f64;
use crate::words::{UNKNOWN, rate, source_name, time};

/// The largest lasting correction of a clock's rate, ppb: crystals are off by at most 100 ppm. A
/// larger correction is a slew by an NTP daemon, or makes up for a wrong counter frequency.
const CRYSTAL_PPB: i64 = 100_000;

/// The largest correction that NTP's loop makes (`MAXFREQ`, `include/linux/timex.h`), ppb. A larger
/// correction is a fast slew, and durations that are measured meanwhile are wrong by it.
const LOOP_PPB: i64 = 500_000;

/// The largest error that the kernel states for its clock, us (`NTP_PHASE_LIMIT`,
/// `include/linux/timex.h`). The kernel starts with this error. An NTP daemon sets a smaller error,
/// which the kernel lets grow by 500 ppm. So an error below this limit comes from a daemon, and is
/// at most some hours old.
const NTP_LIMIT_US: i64 = 16_000_000;

/// The time in which the error grows by one unit, in the same unit: `MAXFREQ` is 1 s in 2,000 s.
const GROWTH: i64 = 2_000;

/// The growth of the kernel's error in a second, us.
const GROWTH_US: i64 = 1_000_000 / GROWTH;

/// The largest error under a working daemon, ns. systemd-timesyncd sets an error of 0 at least
/// every 2,048 s (timesyncd.conf(5)), in which the error grows to 1.024 s.
const ERROR_NS: i64 = 2_000_000_000;

/// The largest offset that a working daemon leaves, ns. ntpd steps the clock if the offset is
/// larger (RFC 5905, `STEPT`).
const STEP_NS: i64 = 128_000_000;

/// A bound of Unix time's offset from UTC.
pub(crate) struct UtcBound {
    pub(crate) ns: i64,
    /// Who states it, in words.
    by: String,
    /// Whether it is the kernel's error, which grows until the daemon updates it.
    is_kernels: bool,
}

impl Document {
    /// The bound of tickline's clock. If that clock has none, as in most recorded facts, it is the
    /// daemon's claim, by the kernel or by the daemon's answer. `None` without a claim, or if the
    /// daemon that answers follows no other clock, and only the kernel claims something.
    ///
    /// Under systemd-timesyncd there is no claim: the kernel only assumes an error of 500 ppm of
    /// the time since the last update. Rules and health treat the assumption as a claim, because it
    /// shows that the daemon still updates the clock. Otherwise each machine with that daemon would
    /// be not known right, and have no fault to mend.
    pub(crate) fn utc_bound(&self) -> Option<UtcBound> {
        let bound = |ns, by, is_kernels| UtcBound { ns, by, is_kernels };
        let is_kernels = self.clock.utc_source.as_deref() == Some("kernel");
        let is_lone = self.lone_daemon().is_some();
        if let Some(error_ns) = self.clock.utc_error_ns.filter(|_| !is_lone || !is_kernels) {
            let source = self.clock.utc_source.as_deref().unwrap_or(UNKNOWN);
            let by = format!("{} claims", source_name(source));
            return Some(bound(
                i64::try_from(error_ns).unwrap_or(i64::MAX),
                by,
                is_kernels,
            ));
        }
        if is_lone {
            return None;
        }
        let error_ns = |ntp: &Ntp| {
            ntp.maximum_error_us
                .saturating_mul(1_000)
                .saturating_add(ntp.offset_ns.saturating_abs())
        };
        let daemon = self.machine.ntp_daemon.as_ref();
        let by_daemon = format!(
            "{} claims",
            daemon.map_or("an NTP daemon", |daemon| &daemon.name)
        );
        if let Some(claim) = self.kernel_claim() {
            return Some(bound(error_ns(claim), by_daemon, true));
        }
        let answer = daemon.and_then(|daemon| Some(bound(daemon.bound_ns?, by_daemon, false)));
        answer.or_else(|| {
            Some(bound(
                error_ns(self.set_ntp()?),
                "the kernel assumes".to_owned(),
                true,
            ))
        })
    }

    /// The kernel's NTP state, if a daemon has set its error.
    fn set_ntp(&self) -> Option<&Ntp> {
        self.machine
            .ntp
            .as_ref()
            .filter(|ntp| ntp.maximum_error_us < NTP_LIMIT_US)
    }

    /// The kernel's NTP state, if its error is a daemon's claim. A multiple of the growth in a
    /// second is no claim: systemd-timesyncd and OpenNTPD set the error to 0 (tickline-utc,
    /// `source/kernel.rs`).
    pub(crate) fn kernel_claim(&self) -> Option<&Ntp> {
        let is_claim =
            |ntp: &&Ntp| ntp.maximum_error_us % GROWTH_US != 0 && self.lone_daemon().is_none();
        self.set_ntp().filter(is_claim)
    }

    /// The daemon that answers, if it follows no other clock.
    fn lone_daemon(&self) -> Option<&NtpDaemon> {
        self.machine
            .ntp_daemon
            .as_ref()
            .filter(|daemon| !daemon.synchronised)
    }

    /// The known offset of Unix time, ns; `None` if it is acceptable or unknown. It is the offset
    /// that the kernel or the daemon has still to remove, or the error that the daemon estimates.
    fn off_ns(&self) -> Option<i64> {
        let (ntp, daemon) = (self.machine.ntp.as_ref(), self.machine.ntp_daemon.as_ref());
        let known = [
            ntp.map(|ntp| ntp.offset_ns),
            self.set_ntp()
                .map(|ntp| ntp.estimated_error_us.saturating_mul(1_000)),
            daemon.and_then(|daemon| daemon.offset_ns),
        ];
        let most = self.max_error_ns.unwrap_or(STEP_NS);
        known
            .into_iter()
            .flatten()
            .map(i64::saturating_abs)
            .max()
            .filter(|ns| *ns > most)
    }

    /// The bound of Unix time's offset, in words.
    pub(super) fn utc(&self) -> Option<String> {
        self.utc_bound().map(|bound| {
            format!(
                "Unix time is within {} of UTC, as {}",
                span(bound.ns),
                bound.by
            )
        })
    }
}

fn span(ns: i64) -> String {
    time(signed_f64(ns))
}

/// The kernel corrects its clock's rate by more than any crystal needs.
pub(super) fn ntp_slewing(facts: &Document) -> Option<Finding> {
    let ntp = facts.machine.ntp.as_ref()?;
    let rate_ppb = ntp.rate_ppb();
    if rate_ppb.saturating_abs() <= CRYSTAL_PPB {
        return None;
    }
    let off_ns = facts.off_ns();
    let key = match off_ns {
        Some(_) => "ntp_slewing/off",
        None if rate_ppb.saturating_abs() > LOOP_PPB => "ntp_slewing/fast",
        None => "ntp_slewing",
    };
    let [rate, frequency] = [rate_ppb, ntp.frequency_ppb].map(rate);
    let [off, offset] = [off_ns.unwrap_or(0), ntp.offset_ns].map(span);
    let values: [(_, &dyn Display); 5] = [
        ("rate", &rate),
        ("frequency", &frequency),
        ("tick_us", &ntp.tick_us),
        ("offset", &offset),
        ("off", &off),
    ];
    Some(Finding::new(key, &values))
}

/// Unix time has a known offset, and no fast slew removes it.
pub(super) fn time_off(facts: &Document) -> Option<Finding> {
    let off_ns = facts.off_ns().filter(|_| ntp_slewing(facts).is_none())?;
    Some(Finding::new("time_off", &[("off", &span(off_ns))]))
}

/// Neither the kernel nor a daemon claims that Unix time is near UTC.
///
/// chronyd clears STA_UNSYNC only with `rtcsync` (chrony.conf(5); `set_sync_status` in chrony's
/// `sys_timex.c`), but it always states its error.
pub(super) fn ntp_unsynchronised(facts: &Document) -> Option<Finding> {
    let (machine, none) = (&facts.machine, || "none".to_owned());
    let (daemon, is_set) = (facts.lone_daemon(), facts.set_ntp().is_some());
    // Under WSL, Windows sets the guest's clock.
    let is_wsl = machine
        .kernel
        .as_deref()
        .is_some_and(|kernel| kernel.contains("microsoft"));
    let key = match machine.ntp.as_ref() {
        _ if daemon.is_some() => "ntp_unsynchronised/daemon",
        None => return None,
        Some(ntp) if is_set && ntp.synchronised => return None,
        Some(_) if is_set => "ntp_flag",
        Some(_) if facts.clock.utc_error_ns.is_some() => return None,
        Some(_) if is_wsl => "ntp_unsynchronised/wsl",
        Some(_) if machine.systemd == Some(true) => "ntp_unsynchronised/systemd",
        Some(_) => "ntp_unsynchronised",
    };
    let error = machine.ntp.as_ref().map_or_else(
        || UNKNOWN.to_owned(),
        |ntp| time(signed_f64(ntp.maximum_error_us) * 1e3),
    );
    let name = daemon.map_or_else(none, |daemon| daemon.name.clone());
    let reference = daemon
        .and_then(|daemon| daemon.reference.clone())
        .unwrap_or_else(none);
    let finding = Finding::new(
        key,
        &[
            ("error", &error),
            ("daemon", &name),
            ("reference", &reference),
        ],
    );
    let set = |value| format!("sudo timedatectl set-ntp {value}");
    Some(match key {
        "ntp_unsynchronised/systemd" => finding.with_steps(steps::setting(&set(true), &set(false))),
        _ => finding,
    })
}

/// The error is larger than `--max-error`, or larger than that under any working daemon.
pub(super) fn utc_error_large(facts: &Document) -> Option<Finding> {
    let UtcBound { ns, by, is_kernels } = facts.utc_bound()?;
    let most = facts.max_error_ns.unwrap_or(ERROR_NS);
    let (bound, age) = (span(ns), span(ns.saturating_mul(GROWTH)));
    let key = match facts.max_error_ns {
        Some(_) => "utc_error_large/asked",
        None if is_kernels => "utc_error_large",
        None => "utc_error_large/claimed",
    };
    (ns > most && facts.off_ns().is_none()).then(|| {
        Finding::new(
            key,
            &[
                ("bound", &bound),
                ("by", &by),
                ("age", &age),
                ("most", &span(most)),
            ],
        )
    })
}
