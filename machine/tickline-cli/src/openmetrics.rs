//! `--openmetrics`: writes the main figures for a monitoring system, under stable names.
//!
//! The text is valid both in OpenMetrics 1.0
//! (<https://prometheus.io/docs/specs/om/open_metrics_spec/>) and in Prometheus' older text format,
//! which node_exporter's textfile collector reads. All metrics are gauges, because the older format
//! has no `info` and no `stateset`.
//!
//! The gauges' names, labels and units change only with the major version of the program. A page's
//! gauges are in `commands/serve/metrics.rs`.

use jiff::Timestamp;

use crate::document::{ClockStatus, Document, Finding, GateRow, Level};
use crate::float::{as_f64, signed_f64};
use crate::machine::{Leap, Machine, Ntp, NtpDaemon};
use crate::measure::costs::CostRow;
use crate::measure::served_by::ServedBy;
use crate::words::UNKNOWN;

/// A gauge. Without a sample it is not written.
pub(crate) struct Gauge {
    /// The name. A unit at its end is one of OpenMetrics' base units.
    name: &'static str,
    help: &'static str,
    samples: Vec<Sample>,
}

/// A gauge's figure for these labels, in the gauge's unit.
pub(crate) struct Sample {
    pub(crate) labels: Vec<(&'static str, String)>,
    pub(crate) figure: f64,
}

impl Gauge {
    /// A gauge with one figure, unless that is unknown.
    pub(crate) fn figure(name: &'static str, help: &'static str, figure: Option<f64>) -> Self {
        let labels = Vec::new();
        let sample = figure.map(|figure| Sample { labels, figure });
        Self::labelled(name, help, sample)
    }

    /// A gauge that is 1 for true and 0 for false, unless that is unknown.
    pub(crate) fn yes_or_no(name: &'static str, help: &'static str, is_so: Option<bool>) -> Self {
        Self::figure(name, help, is_so.map(f64::from))
    }

    /// A gauge whose samples have labels.
    pub(crate) fn labelled(
        name: &'static str,
        help: &'static str,
        samples: impl IntoIterator<Item = Sample>,
    ) -> Self {
        let samples = samples.into_iter();
        let samples = samples.filter(|sample| sample.figure.is_finite()).collect();
        Self {
            name,
            help,
            samples,
        }
    }

    /// The gauge's lines; none if it has no sample.
    pub(crate) fn text(&self) -> String {
        const UNITS: [&str; 3] = ["seconds", "hertz", "ratio"];
        let Self {
            name,
            help,
            samples,
        } = self;
        if samples.is_empty() {
            return String::new();
        }
        let mut text = format!("# TYPE {name} gauge\n");
        if let Some(unit) = UNITS.into_iter().find(|unit| name.ends_with(unit)) {
            text += &format!("# UNIT {name} {unit}\n");
        }
        text += &format!("# HELP {name} {help}\n");
        for sample in samples {
            text += &format!("{name}{} {}\n", sample.labels(), sample.figure);
        }
        text
    }
}

impl Sample {
    /// A sample whose information is in its labels.
    fn of_labels(labels: Vec<(&'static str, String)>) -> Self {
        let figure = 1.0;
        Self { labels, figure }
    }

    /// The labels in braces; nothing without labels.
    fn labels(&self) -> String {
        if self.labels.is_empty() {
            return String::new();
        }
        // The format has escapes for the backslash, the quotation mark and the line break.
        let escaped = |value: &str| {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"");
            value.replace('\n', "\\n")
        };
        let label = |(label, value): &(_, String)| format!("{label}=\"{}\"", escaped(value));
        let labels: Vec<String> = self.labels.iter().map(label).collect();
        format!("{{{}}}", labels.join(","))
    }
}

pub(crate) fn seconds(ns: i64) -> f64 {
    signed_f64(ns) / 1e9
}

fn seconds_unsigned(ns: u64) -> f64 {
    as_f64(ns) / 1e9
}

/// A part of one.
fn of_ppb(ppb: i64) -> f64 {
    signed_f64(ppb) / 1e9
}

fn or_unknown(text: &Option<String>) -> String {
    text.clone().unwrap_or_else(|| UNKNOWN.to_owned())
}

/// The gauges that have samples, and the end marker.
pub(crate) fn text(document: &Document) -> String {
    let machine = &document.machine;
    let clock = &document.clock;
    let taken_at: Option<Timestamp> = document.taken_at.parse().ok();
    let track = document.track.as_ref();
    let gauges = [
        info(document),
        health(document),
        findings(document.findings()),
    ]
    .into_iter()
    .chain(ntp(machine.ntp.as_ref()))
    .chain([leap(document.machine.leap())])
    .chain(ntp_daemon(machine.ntp_daemon.as_ref()))
    .chain(costs(document))
    .chain([
        Gauge::yes_or_no(
            "tickline_fast",
            "Whether tickline reads the CPU's counter.",
            document.counter_used(),
        ),
        gates(&document.gates),
        Gauge::figure(
            "tickline_frequency_hertz",
            "The counter's frequency as measured.",
            clock.frequency_hz.map(as_f64),
        ),
        Gauge::figure(
            "tickline_offset_seconds",
            "The largest offset of tickline from CLOCK_MONOTONIC that was seen, of either sign.",
            track.map(|track| track.all.largest_offset_ns / 1e9),
        ),
        Gauge::figure(
            "tickline_bound_seconds",
            "The bound that tickline states for that offset at present.",
            clock.bound_ns.map(seconds_unsigned),
        ),
    ])
    .chain(utc(clock))
    .chain([
        page_readers(machine),
        Gauge::figure(
            "tickline_taken_timestamp_seconds",
            "When this was measured, Unix time.",
            taken_at.map(|taken_at| signed_f64(taken_at.as_second())),
        ),
    ]);
    let mut text: String = gauges.map(|gauge| gauge.text()).collect();
    text += "# EOF\n";
    text
}

fn info(document: &Document) -> Gauge {
    let machine = &document.machine;
    let labels = vec![
        ("version", document.program_version.clone()),
        ("clocksource", or_unknown(&machine.clocksource)),
        ("kernel", or_unknown(&machine.kernel)),
        (
            "hypervisor",
            or_unknown(&machine.hypervisor.as_ref().map(ToString::to_string)),
        ),
        ("cpu", or_unknown(&machine.cpu)),
    ];
    Gauge::labelled(
        "tickline_machine_info",
        "The program's version and the machine; always 1.",
        [Sample::of_labels(labels)],
    )
}

fn health(document: &Document) -> Gauge {
    let samples = document.health.iter().flat_map(|health| {
        Level::ALL.iter().map(move |level| Sample {
            labels: vec![("level", level.code().to_owned())],
            figure: f64::from(*level == health.level),
        })
    });
    Gauge::labelled(
        "tickline_health",
        "How the machine's clocks are: 1 at the level that applies.",
        samples,
    )
}

fn findings(findings: &[Finding]) -> Gauge {
    let sample = |finding: &Finding| {
        Sample::of_labels(vec![
            ("code", finding.code.to_owned()),
            ("severity", finding.severity.code().to_owned()),
        ])
    };
    Gauge::labelled(
        "tickline_finding",
        "A finding of tickline doctor, by its code; always 1.",
        findings.iter().map(sample),
    )
}

/// The kernel's NTP state.
fn ntp(ntp: Option<&Ntp>) -> [Gauge; 9] {
    let microseconds = |us: i64| signed_f64(us) / 1e6;
    [
        Gauge::yes_or_no(
            "tickline_ntp_synchronised",
            "Whether the kernel calls its clock synchronised.",
            ntp.map(|ntp| ntp.synchronised),
        ),
        Gauge::figure(
            "tickline_ntp_offset_seconds",
            "The part of Unix time's offset that the kernel has still to remove.",
            ntp.map(|ntp| seconds(ntp.offset_ns)),
        ),
        Gauge::figure(
            "tickline_ntp_maximum_error_seconds",
            "The kernel's maximum error of Unix time, which grows after each update of the NTP daemon; 16 without one.",
            ntp.map(|ntp| microseconds(ntp.maximum_error_us)),
        ),
        Gauge::figure(
            "tickline_ntp_estimated_error_seconds",
            "The likely error of Unix time, if an NTP daemon has claimed one.",
            ntp.and_then(Ntp::set_estimated_error_us).map(microseconds),
        ),
        Gauge::figure(
            "tickline_ntp_rate_correction_ratio",
            "The correction of the rate of the kernel's clocks, as a part of it.",
            ntp.map(|ntp| of_ppb(ntp.rate_ppb())),
        ),
        Gauge::figure(
            "tickline_ntp_tick_seconds",
            "The length of a hundredth of a second: 0.01, unless the NTP daemon slews by it.",
            ntp.map(|ntp| microseconds(ntp.tick_us)),
        ),
        Gauge::figure(
            "tickline_ntp_loop_time_constant",
            "The time constant of the kernel's slew of the offset.",
            ntp.and_then(|ntp| ntp.time_constant).map(signed_f64),
        ),
        Gauge::figure(
            "tickline_ntp_tai_offset_seconds",
            "TAI minus UTC, if an NTP daemon has told the kernel.",
            ntp.and_then(|ntp| ntp.tai_offset_s).map(signed_f64),
        ),
        Gauge::figure(
            "tickline_ntp_status",
            "The kernel's status bits as one number (timex.status): 1 PLL, 16 INS, 32 DEL, 64 UNSYNC, and others.",
            ntp.and_then(Ntp::status).map(f64::from),
        ),
    ]
}

/// The leap second, by the kernel or the NTP daemon.
fn leap(leap: Option<Leap>) -> Gauge {
    let samples = leap.into_iter().flat_map(|leap| {
        Leap::ALL.iter().map(move |state| Sample {
            labels: vec![("state", state.code().to_owned())],
            figure: f64::from(*state == leap),
        })
    });
    Gauge::labelled(
        "tickline_ntp_leap_state",
        "The leap second at the end of this UTC day, by the kernel or the NTP daemon: 1 at the state that applies.",
        samples,
    )
}

fn ntp_daemon(daemon: Option<&NtpDaemon>) -> [Gauge; 9] {
    let info = daemon.map(|daemon| {
        Sample::of_labels(vec![
            ("name", daemon.name.clone()),
            ("reference", or_unknown(&daemon.reference)),
        ])
    });
    [
        Gauge::labelled(
            "tickline_ntp_daemon_info",
            "The NTP daemon that answers, and the clock that it follows; always 1.",
            info,
        ),
        Gauge::yes_or_no(
            "tickline_ntp_daemon_synchronised",
            "Whether the NTP daemon follows another clock.",
            daemon.map(|daemon| daemon.synchronised),
        ),
        Gauge::figure(
            "tickline_ntp_daemon_offset_seconds",
            "The part of Unix time's offset that the NTP daemon has still to remove.",
            daemon.and_then(|daemon| daemon.offset_ns).map(seconds),
        ),
        Gauge::figure(
            "tickline_ntp_daemon_bound_seconds",
            "The NTP daemon's bound of the distance of Unix time from UTC.",
            daemon.and_then(|daemon| daemon.bound_ns).map(seconds),
        ),
        Gauge::figure(
            "tickline_ntp_daemon_stratum",
            "The NTP daemon's distance from a reference clock.",
            daemon.and_then(|daemon| daemon.stratum).map(f64::from),
        ),
        Gauge::figure(
            "tickline_ntp_daemon_frequency_ratio",
            "The error of the clock's rate without the NTP daemon's correction, as a part of it.",
            daemon.and_then(|daemon| daemon.frequency_ppb).map(of_ppb),
        ),
        Gauge::figure(
            "tickline_ntp_daemon_skew_ratio",
            "The NTP daemon's estimate of the error of that figure.",
            daemon.and_then(|daemon| daemon.skew_ppb).map(of_ppb),
        ),
        Gauge::figure(
            "tickline_ntp_daemon_root_delay_seconds",
            "The round trip from the NTP daemon to the reference clock at the root.",
            daemon.and_then(|daemon| daemon.root_delay_ns).map(seconds),
        ),
        Gauge::figure(
            "tickline_ntp_daemon_root_dispersion_seconds",
            "The error that has gathered on the way from that clock.",
            daemon
                .and_then(|daemon| daemon.root_dispersion_ns)
                .map(seconds),
        ),
    ]
}

/// The costs of the clocks' calls.
fn costs(document: &Document) -> [Gauge; 3] {
    let sample = |row: &CostRow, figure: f64| Sample {
        labels: vec![("clock", row.clock.clone())],
        figure,
    };
    let cost = |row: &CostRow| Some(sample(row, row.cost_ns? / 1e9));
    let is_call = |row: &CostRow| {
        let is_call = row.served_by? == ServedBy::SystemCall;
        Some(sample(row, f64::from(is_call)))
    };
    [
        Gauge::labelled(
            "tickline_clock_call_seconds",
            "What a call of a clock costs, in the fastest round.",
            document.costs.iter().filter_map(cost),
        ),
        Gauge::labelled(
            "tickline_clock_system_call",
            "Whether each call of a clock is a system call, which the vDSO does not answer.",
            document.costs.iter().filter_map(is_call),
        ),
        Gauge::figure(
            "tickline_clock_attainable_seconds",
            "What a call of a precise clock would cost if the vDSO read the counter.",
            document.attainable_cost_ns().map(|ns| ns / 1e9),
        ),
    ]
}

fn gates(gates: &[GateRow]) -> Gauge {
    let sample = |row: &GateRow| Sample {
        labels: vec![("gate", row.gate.clone())],
        figure: f64::from(!row.open),
    };
    Gauge::labelled(
        "tickline_gate_closed",
        "Whether a gate keeps tickline from the counter.",
        gates.iter().map(sample),
    )
}

fn utc(clock: &ClockStatus) -> [Gauge; 3] {
    let source = &clock.utc_source;
    let why_unknown = &clock.utc_unknown;
    // Facts that were collected without the program have neither a source nor a reason.
    let is_asked = source.is_some() || why_unknown.is_some();
    // OpenMetrics treats an empty label as an absent one.
    let labels = vec![
        ("source", or_unknown(source)),
        ("why_unknown", why_unknown.clone().unwrap_or_default()),
    ];
    [
        Gauge::figure(
            "tickline_utc_error_seconds",
            "The bound of the distance of Unix time from UTC.",
            clock.utc_error_ns.map(seconds_unsigned),
        ),
        Gauge::figure(
            "tickline_utc_width_seconds",
            "The time between the earliest and the latest UTC of a reading.",
            clock.utc_width_ns.map(seconds_unsigned),
        ),
        Gauge::labelled(
            "tickline_utc_info",
            "Who claims to know UTC, or why it is unknown; always 1.",
            is_asked.then(|| Sample::of_labels(labels)),
        ),
    ]
}

fn page_readers(machine: &Machine) -> Gauge {
    let readers = machine.page_readers.map(|readers| as_f64(readers as u64));
    Gauge::figure(
        "tickline_page_readers",
        "Processes that have the page of tickline serve mapped.",
        readers,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::example::offset_sample;
    use crate::measure::track::TrackSummary;

    /// Dashboards and alarms use these names and units, so a change here breaks them.
    #[test]
    fn the_openmetrics_text_is_the_stored_one() {
        let document = include_str!("../tests/data/openmetrics_document.json");
        let mut document: Document = serde_json::from_str(document).unwrap();
        document.track = Some(TrackSummary::new(vec![offset_sample(0.0, 12.5)]));
        document.add_diagnosis();
        assert_eq!(
            text(&document),
            include_str!("../tests/data/openmetrics_expected.txt")
        );
    }

    #[test]
    fn a_gauge_without_a_known_figure_is_not_written() {
        let document = Document {
            program_version: "1.0".to_owned(),
            ..Document::default()
        };
        let expected = "\
# TYPE tickline_machine_info gauge
# HELP tickline_machine_info The program's version and the machine; always 1.
tickline_machine_info{version=\"1.0\",clocksource=\"unknown\",kernel=\"unknown\",hypervisor=\"unknown\",cpu=\"unknown\"} 1
# EOF
";
        assert_eq!(text(&document), expected);
    }
}
