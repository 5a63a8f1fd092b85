//! `--openmetrics`: the main figures for a monitoring system, under names that stay.
//!
//! The text format is that of OpenMetrics 1.0
//! (<https://prometheus.io/docs/specs/om/open_metrics_spec/>), as far as it agrees with Prometheus'
//! older text format, which node_exporter's textfile collector reads: gauges only, since the older
//! format has no `info` and no `stateset`.

use jiff::Timestamp;

use crate::diagnose::Level;
use crate::document::Document;
use crate::measure::served_by::ServedBy;
use crate::measure::{as_f64, signed_f64};
use crate::words::{UNKNOWN, code};

/// A gauge. Its name, its labels and its unit change only with the major version of the program.
struct Gauge {
    name: &'static str,
    /// What it says.
    help: &'static str,
    /// The samples whose figures are known, a line each.
    samples: String,
}

/// A gauge without samples.
const fn gauge(name: &'static str) -> Gauge {
    Gauge { name, help: "", samples: String::new() }
}

/// A gauge without labels. It has a sample if the figure is known.
fn figure(name: &'static str, figure: Option<f64>) -> Gauge {
    gauge(name).sample([("", ""); 0], figure)
}

/// A gauge to which each element of a list adds its sample.
fn each<T>(name: &'static str, list: impl IntoIterator<Item = T>, add: impl Fn(Gauge, T) -> Gauge) -> Gauge {
    list.into_iter().fold(gauge(name), add)
}

impl Gauge {
    fn help(self, help: &'static str) -> Self {
        Self { help, ..self }
    }

    /// Adds a sample, if its figure is known.
    fn sample<V: AsRef<str>, const N: usize>(mut self, labels: [(&str, V); N], figure: Option<f64>) -> Self {
        // Backslash, quotation mark and line break have escapes.
        let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let labels = labels.map(|(name, value)| format!("{name}=\"{}\"", escaped(value.as_ref())));
        let labels = if N == 0 { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let line = figure.map(|figure| format!("{}{labels} {figure}\n", self.name));
        self.samples.extend(line);
        self
    }

    /// Adds a sample whose figure is always 1.
    fn info<const N: usize>(self, labels: [(&str, String); N]) -> Self {
        self.sample(labels, Some(1.0))
    }
}

fn gauges(document: &Document) -> [Gauge; 25] {
    const LEVELS: [Level; 5] = [Level::Ok, Level::Unsure, Level::Slow, Level::Wrong, Level::Unknown];
    let Document { machine, clock, costs, .. } = document;
    let (ntp, daemon) = (machine.ntp.as_ref(), machine.ntp_daemon.as_ref());
    let (from_ns, from_us) = (|ns| signed_f64(ns) / 1e9, |us| signed_f64(us) / 1e6);
    let readers = machine.page_readers.and_then(|count| u32::try_from(count).ok());
    let level = document.health.as_ref().map(|health| health.level);
    let taken_at: Option<Timestamp> = document.taken_at.parse().ok();
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| UNKNOWN.to_owned());
    [
        gauge("tickline_machine_info").help("The program's version and the machine; always 1.").info([
            ("version", document.program_version.clone()),
            ("clocksource", known(&machine.clocksource)),
            ("kernel", known(&machine.kernel)),
            ("hypervisor", known(&machine.hypervisor)),
            ("cpu", known(&machine.cpu)),
        ]),
        each("tickline_health", LEVELS, |gauge, one| {
            gauge.sample([("level", code(one))], level.map(|level| (level == one).into()))
        })
        .help("How the machine's clocks are: 1 at the level that applies."),
        each("tickline_finding", document.findings(), |gauge, found| {
            gauge.info([("code", found.code.to_owned()), ("severity", code(found.severity))])
        })
        .help("A finding of tickline doctor, by its code; always 1."),
        figure("tickline_ntp_synchronised", ntp.map(|ntp| ntp.synchronised.into()))
            .help("Whether the kernel calls its clock synchronised."),
        figure("tickline_ntp_offset_seconds", ntp.map(|ntp| from_ns(ntp.offset_ns)))
            .help("The part of Unix time's offset that the kernel has still to remove."),
        figure("tickline_ntp_maximum_error_seconds", ntp.map(|ntp| from_us(ntp.maximum_error_us)))
            .help("The largest error of Unix time, by the claim of the NTP daemon; 16 without one."),
        figure("tickline_ntp_estimated_error_seconds", ntp.map(|ntp| from_us(ntp.estimated_error_us)))
            .help("The likely error of Unix time, by the claim of the NTP daemon."),
        figure("tickline_ntp_rate_correction_ratio", ntp.map(|ntp| signed_f64(ntp.rate_ppb()) / 1e9))
            .help("The correction of the rate of the kernel's clocks, as a part of it."),
        each("tickline_ntp_daemon_info", daemon, |gauge, daemon| {
            gauge.info([("name", daemon.name.clone()), ("reference", known(&daemon.reference))])
        })
        .help("The NTP daemon that answers, and the clock that it follows; always 1."),
        figure("tickline_ntp_daemon_synchronised", daemon.map(|daemon| daemon.synchronised.into()))
            .help("Whether the NTP daemon follows another clock."),
        figure("tickline_ntp_daemon_offset_seconds", daemon.and_then(|daemon| daemon.offset_ns).map(from_ns))
            .help("The part of Unix time's offset that the NTP daemon has still to remove."),
        figure("tickline_ntp_daemon_bound_seconds", daemon.and_then(|daemon| daemon.bound_ns).map(from_ns))
            .help("The NTP daemon's bound of the distance of Unix time from UTC."),
        each("tickline_clock_call_seconds", costs, |gauge, row| {
            gauge.sample([("clock", &row.clock)], row.cost_ns.map(|ns| ns / 1e9))
        })
        .help("What a call of a clock costs, in the fastest round."),
        each("tickline_clock_system_call", costs, |gauge, row| {
            gauge.sample([("clock", &row.clock)], row.served_by.map(|by| (by == ServedBy::SystemCall).into()))
        })
        .help("Whether each call of a clock is a system call, which the vDSO does not answer."),
        figure("tickline_clock_attainable_seconds", document.attainable_ns().map(|ns| ns / 1e9))
            .help("What a call of a precise clock would cost if the vDSO read the counter."),
        figure("tickline_fast", Some(document.fast.into())).help("Whether tickline reads the CPU's counter."),
        each("tickline_gate_closed", &document.gates, |gauge, row| {
            gauge.sample([("gate", &row.gate)], Some((!row.open).into()))
        })
        .help("Whether a gate keeps tickline from the counter."),
        figure("tickline_frequency_hertz", clock.frequency_hz.map(as_f64))
            .help("The counter's frequency as measured."),
        figure("tickline_offset_seconds", document.track.as_ref().map(|track| track.largest_offset_ns / 1e9))
            .help("The largest offset of tickline from CLOCK_MONOTONIC that was seen, of either sign."),
        figure("tickline_bound_seconds", clock.bound_ns.map(|ns| as_f64(ns) / 1e9))
            .help("The bound that tickline states for that offset at present."),
        figure("tickline_utc_error_seconds", clock.utc_error_ns.map(|ns| as_f64(ns) / 1e9))
            .help("The bound of the distance of Unix time from UTC."),
        figure("tickline_utc_width_seconds", clock.utc_width_ns.map(|ns| as_f64(ns) / 1e9))
            .help("The time between the earliest and the latest UTC of a reading."),
        // An empty label is an absent one.
        gauge("tickline_utc_info").help("Who claims to know UTC, or why it is unknown; always 1.").info([
            ("source", known(&clock.utc_source)),
            ("why_unknown", clock.utc_unknown.clone().unwrap_or_default()),
        ]),
        figure("tickline_page_readers", readers.map(f64::from))
            .help("Processes that have the page of tickline serve mapped."),
        figure("tickline_taken_timestamp_seconds", taken_at.map(|taken_at| signed_f64(taken_at.as_second())))
            .help("When this was measured, Unix time."),
    ]
}

/// The gauges that have samples, and the mark of the end.
pub(crate) fn text(document: &Document) -> String {
    let mut text = String::new();
    for Gauge { name, help, samples } in gauges(document) {
        if samples.is_empty() {
            continue;
        }
        text += &format!("# TYPE {name} gauge\n");
        if let Some(unit) = ["seconds", "hertz", "ratio"].into_iter().find(|unit| name.ends_with(unit)) {
            text += &format!("# UNIT {name} {unit}\n");
        }
        text += &format!("# HELP {name} {help}\n");
        text += &samples;
    }
    text + "# EOF\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::point;

    /// Names that dashboards and alarms use, with units and escapes: a change here breaks them.
    #[test]
    fn the_text_is_what_collectors_read() {
        let document = include_str!("openmetrics_document.json");
        let mut document: Document = serde_json::from_str(document).unwrap();
        document.track = Some(crate::measure::track::TrackSummary::of(vec![point(0.0, 12.5)]));
        document.diagnose();
        assert_eq!(text(&document), include_str!("openmetrics_expected.txt"));
    }
}
