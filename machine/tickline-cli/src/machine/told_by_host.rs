//! What a hypervisor tells its guest about time: by a VMClock, and by a PTP device.

use serde::{Deserialize, Serialize};

/// What a hypervisor tells its guest by a VMClock.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub(crate) struct VmClock {
    /// The device.
    pub(crate) device: String,
    /// Why this user can't read the device, in the system's words; null if the user can.
    pub(crate) unreadable: Option<String>,
    /// The number that changes when the guest was moved to another host, or restored from a
    /// snapshot.
    pub(crate) disruption_marker: Option<u64>,
    /// The state of the clock that the hypervisor tells: `synchronised`, `free_running`,
    /// `initialising`, `unreliable` or `unknown`.
    pub(crate) clock_status: Option<String>,
    /// The number that changes when the guest was restored from a snapshot; null if the hypervisor
    /// does not state it.
    pub(crate) vm_generation: Option<u64>,
}

/// The host's clock at one moment, by a PTP device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostMoment {
    pub(crate) device: String,
    pub(crate) name: String,
    /// The host's Unix time, ns.
    pub(crate) host_ns: i64,
    /// `CLOCK_MONOTONIC_RAW` before and after that, ns.
    pub(crate) raw_ns: [i64; 2],
}

/// The rate of a guest's clock against its host's, by a PTP device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub(crate) struct HostClock {
    /// The device.
    pub(crate) device: String,
    /// The clock's name, as the kernel has it.
    pub(crate) name: String,
    /// The rate of CLOCK_MONOTONIC_RAW, which nobody steers, minus that of the host's clock, ppb.
    pub(crate) raw_rate_ppb: i64,
    /// The largest error of that rate by the time that the reads took, ppb.
    pub(crate) uncertainty_ppb: i64,
    /// The time between the two reads, ns.
    pub(crate) span_ns: i64,
}

impl HostClock {
    /// The rate between two moments of one device; `None` if the host's clock did not go on.
    pub(crate) fn between(first: &HostMoment, last: &HostMoment) -> Option<Self> {
        let span_ns = last.host_ns.checked_sub(first.host_ns)?;
        if span_ns <= 0 || first.device != last.device {
            return None;
        }
        let [first_raw, last_raw] =
            [first.raw_ns, last.raw_ns].map(|raw_ns| raw_ns.map(i128::from));
        let span = i128::from(span_ns);
        // Twice the raw time, from middle to middle.
        let raw = last_raw[0] + last_raw[1] - first_raw[0] - first_raw[1];
        let widths = last_raw[1] - last_raw[0] + first_raw[1] - first_raw[0];
        let ppb = |double_ns: i128| i64::try_from(double_ns * 500_000_000 / span).ok();
        Some(Self {
            device: last.device.clone(),
            name: last.name.clone(),
            raw_rate_ppb: ppb(raw - 2 * span)?,
            uncertainty_ppb: ppb(widths)?.saturating_add(1),
            span_ns,
        })
    }
}
