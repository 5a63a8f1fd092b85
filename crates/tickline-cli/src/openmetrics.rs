//! `--openmetrics`: the main figures for a monitoring system, under names that stay:
//! `openmetrics.json` says which, and where the document has them.
//!
//! The text format is that of OpenMetrics 1.0
//! (<https://prometheus.io/docs/specs/om/open_metrics_spec/>), as far as it agrees with Prometheus'
//! older text format, which node_exporter's textfile collector reads: gauges only, since the older
//! format has no `info` and no `stateset`.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::document::Document;
use crate::machine::Ntp;

/// A gauge. Its name, its labels and its unit change only with the major version of the program.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Gauge {
    name: String,
    /// What it says.
    help: String,
    /// The place of a list in the document, whose elements have a sample each.
    each: Option<String>,
    /// Names, and the places of their values.
    #[serde(default)]
    labels: Vec<(String, String)>,
    /// The place of the figure; without one, it is 1.
    value: Option<String>,
    /// The figure is 1 if this is there, else 0.
    is: Option<Value>,
}

impl Gauge {
    /// The figure; `None` where it is not known.
    fn figure(&self, element: &Value) -> Option<f64> {
        let Some(place) = &self.value else { return Some(1.0) };
        let yes = |is_so: bool| f64::from(u8::from(is_so));
        match (element.pointer(place)?, &self.is) {
            (Value::Null, _) => None,
            (value, Some(expected)) => Some(yes(value == expected)),
            (Value::Bool(is_so), None) => Some(yes(*is_so)),
            (value, None) => {
                const SIZES: [(&str, f64); 3] = [("_ns", 1e9), ("_us", 1e6), ("_ppb", 1e9)];
                let size = SIZES.iter().find(|(end, _)| place.ends_with(end)).map_or(1.0, |(_, size)| *size);
                Some(value.as_f64()? / size)
            }
        }
    }

    fn labelled(&self, element: &Value) -> String {
        if self.labels.is_empty() {
            return String::new();
        }
        // Backslash, quotation mark and line break have escapes.
        let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let pair = |(name, place): &(String, String)| {
            let value = element.pointer(place).and_then(Value::as_str).unwrap_or("unknown");
            format!("{name}=\"{}\"", escaped(value))
        };
        format!("{{{}}}", self.labels.iter().map(pair).collect::<Vec<_>>().join(","))
    }
}

/// The gauges that have values, and the mark of the end.
pub(crate) fn text(document: &Document) -> String {
    // A mistake in the file, which the test finds, leaves no gauges.
    let gauges: Vec<Gauge> = serde_json::from_str(include_str!("openmetrics.json")).unwrap_or_default();
    let mut text = String::new();
    let json = figures(document);
    for gauge in gauges {
        let list = gauge.each.as_ref().map(|place| json.pointer(place).and_then(Value::as_array));
        let elements = list.map_or(std::slice::from_ref(&json), |list| list.map_or(&[], Vec::as_slice));
        let known = |element| Some((gauge.labelled(element), gauge.figure(element)?));
        let samples: Vec<_> = elements.iter().filter_map(known).collect();
        let Gauge { name, help, .. } = &gauge;
        if samples.is_empty() {
            continue;
        }
        text += &format!("# TYPE {name} gauge\n");
        if let Some(unit) = ["seconds", "hertz", "ratio"].into_iter().find(|unit| name.ends_with(unit)) {
            text += &format!("# UNIT {name} {unit}\n");
        }
        text += &format!("# HELP {name} {help}\n");
        text.extend(samples.iter().map(|(labels, value)| format!("{name}{labels} {value}\n")));
    }
    text + "# EOF\n"
}

/// The document, and what is derived from it.
fn figures(document: &Document) -> Value {
    let mut json = json!(document);
    let level = json["health"]["level"].clone();
    if !level.is_null() {
        let levels = ["ok", "unsure", "slow", "wrong", "unknown"];
        json["levels"] =
            levels.map(|name| json!({ "level": name, "applies": level == name })).to_vec().into();
    }
    json["rate_ppb"] = document.machine.ntp.as_ref().map(Ntp::rate_ppb).into();
    json["ntp_daemons"] = document.machine.ntp_daemon.iter().map(|daemon| json!(daemon)).collect();
    // An empty label is an absent one.
    json["utc_unknown"] = document.clock.utc_unknown.clone().unwrap_or_default().into();
    json["attainable_ns"] = document.attainable_ns().into();
    json["taken_s"] = document.taken_at.parse().ok().map(Timestamp::as_second).into();
    json
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
