//! The status of tickline's clock, with the verdicts of its gates.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tickline::{Clock, ClockState, CpuStatus, EnvironmentSwitch, Status};
use tickline_utc::{UtcReading, UtcUnknown};

use crate::machine::Machine;
use crate::measure::status_when;
use crate::measure::utc::utc_now;

/// The global clock's status.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub(crate) struct ClockStatus {
    /// The counter's frequency as measured, Hz.
    pub(crate) frequency_hz: Option<u64>,
    /// The counter's frequency as the processor or the hypervisor names it, Hz.
    pub(crate) nominal_frequency_hz: Option<u64>,
    /// The present bound of a reading's offset from CLOCK_MONOTONIC, ns.
    pub(crate) bound_ns: Option<u64>,
    /// Maximum drift, ppb: the bound holds while CLOCK_MONOTONIC's rate differs from the measured
    /// rate by no more than this.
    pub(crate) max_drift_ppb: Option<u64>,
    /// Time between two recalibrations, ns; null before the first one.
    pub(crate) interval_ns: Option<u64>,
    /// The bound of Unix time's offset from UTC, ns; null if no source claims a bound.
    pub(crate) utc_error_ns: Option<u64>,
    /// The time between the earliest and the latest UTC that a reading allows, ns.
    pub(crate) utc_width_ns: Option<u64>,
    /// The source of the claim about UTC: `clock_bound`, `chronyd`, `ptp4l` or `kernel`.
    pub(crate) utc_source: Option<String>,
    /// Why UTC is unknown, as a stable code; null if UTC is known.
    pub(crate) utc_unknown: Option<String>,
    /// Why the clock has no thread, in the system's words; null if it has a thread.
    pub(crate) thread_error: Option<String>,
    /// Whether the environment variable TICKLINE has another value than on or off.
    pub(crate) environment_unrecognised: bool,
    /// The value of TICKLINE that is ignored; null if the variable is on, off or not set.
    pub(crate) environment_value: Option<String>,
    /// The count of each event.
    pub(crate) events: BTreeMap<String, u64>,
    /// The line of each CPU, if each CPU has a line of its own.
    #[serde(skip_serializing_if = "Vec::is_empty", skip_deserializing)]
    pub(crate) per_cpu: Vec<CpuRow>,
}

/// One CPU's line.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct CpuRow {
    /// The CPU's number.
    pub(crate) cpu: u32,
    /// `calibrating`, `fast`, `fallback` or `disrupted`.
    pub(crate) state: &'static str,
    /// The measured frequency of the CPU's counter, Hz.
    pub(crate) frequency_hz: Option<u64>,
    /// The line minus CLOCK_MONOTONIC at the last recalibration, before the correction, ns; null
    /// before the first one.
    pub(crate) offset_ns: Option<i64>,
    /// Time since the last recalibration, ns; null before the first one.
    pub(crate) age_ns: Option<u64>,
    /// Number of calibrations that failed.
    pub(crate) failures: u64,
}

/// The verdict of one gate.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub(crate) struct GateRow {
    /// The gate's name.
    pub(crate) gate: String,
    /// Whether the gate is open: it lets tickline use the counter.
    pub(crate) open: bool,
    /// Why the gate is closed, as a stable code.
    pub(crate) reason: Option<String>,
    /// A doubt that does not close the gate, as a stable code.
    pub(crate) warning: Option<String>,
    /// The reason or the warning, in words.
    pub(crate) text: Option<String>,
}

impl ClockStatus {
    /// The status, with the present claim about UTC.
    pub(super) fn read(status: &Status, machine: &Machine) -> Self {
        let utc = utc_now();
        let unix = Clock::global().unix_now();
        let known = utc.as_ref().ok();
        let unknown = utc.as_ref().err();
        let error_ns = |utc: &UtcReading| {
            u64::try_from(utc.largest_error_of(unix).as_nanos()).unwrap_or(u64::MAX)
        };
        let cpu_row = |cpu: &CpuStatus| CpuRow {
            cpu: cpu.cpu,
            state: cpu.state.code(),
            frequency_hz: cpu.frequency_hz,
            offset_ns: cpu.offset_ns,
            age_ns: cpu.age_ns,
            failures: cpu.failures,
        };
        let environment_unrecognised = status.environment == EnvironmentSwitch::Unrecognised;
        let environment_value = environment_unrecognised
            .then(|| std::env::var_os("TICKLINE"))
            .flatten();
        Self {
            frequency_hz: status.frequency_hz,
            nominal_frequency_hz: machine.nominal_hz(),
            bound_ns: status.bound_ns,
            max_drift_ppb: status.max_drift_ppb,
            interval_ns: status.interval_ns,
            utc_error_ns: known.map(error_ns),
            utc_width_ns: known.map(utc_width_ns),
            utc_source: known.map(|utc| utc.source().code().into()),
            utc_unknown: unknown.map(|why| why.code().into()),
            thread_error: None,
            environment_unrecognised,
            environment_value: environment_value.map(|value| value.to_string_lossy().into_owned()),
            events: status
                .events
                .iter()
                .map(|(event, count)| (event.code().to_owned(), count))
                .collect(),
            per_cpu: status.per_cpu.iter().map(cpu_row).collect(),
        }
    }
}

/// The global clock's status, because the document describes the usual state: after the clock's
/// thread has published a line and has asked for UTC, or after 0.1 s. On a busy machine the thread
/// may replace a line some ms after the line's end.
pub(super) fn usual_status() -> Status {
    let has_asked = || utc_now() != Err(UtcUnknown::NoSource);
    status_when(
        |status| status.state != ClockState::Calibrating && has_asked(),
        Duration::from_millis(100),
    )
}

/// The time between the earliest and the latest time of a reading, ns.
pub(crate) fn utc_width_ns(utc: &UtcReading) -> u64 {
    u64::try_from(utc.width().as_nanos()).unwrap_or(u64::MAX)
}

/// The verdict of each gate.
pub(super) fn gates(status: &Status) -> Vec<GateRow> {
    let gate = |verdict: &tickline::Verdict| GateRow {
        gate: verdict.gate().code().into(),
        open: verdict.closed_by().is_none(),
        reason: verdict.closed_by().map(|reason| reason.code().into()),
        warning: verdict.warning().map(|reason| reason.code().into()),
        text: verdict
            .closed_by()
            .or(verdict.warning())
            .map(|reason| reason.to_string()),
    };
    status.verdicts().iter().map(gate).collect()
}
