//! `--openmetrics`: writes the main figures for a monitoring system, under stable names.
//!
//! The text is valid both in OpenMetrics 1.0
//! (<https://prometheus.io/docs/specs/om/open_metrics_spec/>) and in Prometheus' older text format,
//! which node_exporter's textfile collector reads. All metrics are gauges, because the older format
//! has no `info` and no `stateset`.

use std::slice;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::document::{Document, Level};
use crate::machine::Ntp;
use crate::measure::served_by::ServedBy;
use crate::words::{UNKNOWN, split_unit};

/// The gauges. Their names, labels and units change only with the major version of the program.
const GAUGES: &str = include_str!("openmetrics_gauges.txt");

/// The document's JSON, with derived values that only the gauges need.
fn figures(document: &Document) -> Value {
    const LEVELS: [Level; 5] = [
        Level::Ok,
        Level::Unsure,
        Level::Slow,
        Level::Wrong,
        Level::Unknown,
    ];
    let level = document.health.as_ref().map(|health| health.level);
    let taken_at: Option<Timestamp> = document.taken_at.parse().ok();
    let (source, why_unknown) = (&document.clock.utc_source, &document.clock.utc_unknown);
    let mut json = json!(document);
    json["fast"] = json!(document.counter_used());
    json["levels"] = json!(
        LEVELS.map(|one| json!({ "level": one, "applies": level.map(|level| level == one) }))
    );
    // Facts that were collected without the program have neither a source nor a reason.
    if source.is_some() || why_unknown.is_some() {
        // OpenMetrics treats an empty label as an absent one.
        json["utc"] =
            json!({ "source": source, "why_unknown": why_unknown.as_deref().unwrap_or_default() });
    }
    json["taken_s"] = json!(taken_at.map(Timestamp::as_second));
    json["machine"]["version"] = document.program_version.as_str().into();
    json["machine"]["rate_ppb"] = json!(document.machine.ntp.as_ref().map(Ntp::rate_ppb));
    json["clock"]["attainable_ns"] = json!(document.attainable_ns());
    for (index, row) in document.costs.iter().enumerate() {
        json["costs"][index]["is_system_call"] =
            json!(row.served_by.map(|by| by == ServedBy::SystemCall));
    }
    for (index, row) in document.gates.iter().enumerate() {
        json["gates"][index]["is_closed"] = (!row.open).into();
    }
    json
}

/// The value of a sample: a number in the base unit, or 1 or 0 for true or false.
fn figure(element: &Value, key: &str) -> Option<f64> {
    let scale = match split_unit(key).1 {
        Some("ns" | "ppb") => 1e9,
        Some("us") => 1e6,
        _ => 1.0,
    };
    match &element[key] {
        Value::Bool(is_true) => Some((*is_true).into()),
        number => Some(number.as_f64()? / scale),
    }
}

/// A gauge's samples with known values, one line each. The gauge has one sample for an element, or
/// one for each element of a list.
fn samples(name: &str, element_or_list: &Value, labels: &str, key: &str) -> String {
    let elements = element_or_list
        .as_array()
        .map_or_else(|| slice::from_ref(element_or_list), Vec::as_slice);
    let sample = |element: &Value| {
        let figure = if key == "1" {
            element.is_object().then_some(1.0)
        } else {
            figure(element, key)
        }?;
        // The format has escapes for the backslash, the quotation mark and the line break.
        let escaped = |value: &str| {
            value
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n")
        };
        let label = |label: &str| {
            format!(
                "{label}=\"{}\"",
                escaped(element[label].as_str().unwrap_or(UNKNOWN))
            )
        };
        let labels = labels
            .split_whitespace()
            .map(label)
            .collect::<Vec<_>>()
            .join(",");
        let labels = if labels.is_empty() {
            labels
        } else {
            format!("{{{labels}}}")
        };
        Some(format!("{name}{labels} {figure}\n"))
    };
    elements.iter().filter_map(sample).collect()
}

/// The gauges that have samples, and the end marker.
pub(crate) fn text(document: &Document) -> String {
    let (figures, mut text) = (figures(document), String::new());
    for row in GAUGES.lines().skip(1) {
        // A malformed row, which the test finds, gives no gauge.
        let [name, pointer, labels, key, help] =
            row.split('|').map(str::trim).collect::<Vec<_>>()[..]
        else {
            continue;
        };
        let samples = samples(
            name,
            figures.pointer(pointer).unwrap_or_default(),
            labels,
            key,
        );
        if samples.is_empty() {
            continue;
        }
        text += &format!("# TYPE {name} gauge\n");
        if let Some(unit) = ["seconds", "hertz", "ratio"]
            .into_iter()
            .find(|unit| name.ends_with(unit))
        {
            text += &format!("# UNIT {name} {unit}\n");
        }
        text += &format!("# HELP {name} {help}\n{samples}");
    }
    text + "# EOF\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::report::example::offset_sample;

    /// Dashboards and alarms use these names and units, so a change here breaks them.
    #[test]
    fn the_openmetrics_text_is_the_stored_one() {
        let document = include_str!("../tests/data/openmetrics_document.json");
        let mut document: Document = serde_json::from_str(document).unwrap();
        document.track = Some(crate::measure::track::TrackSummary::new(vec![
            offset_sample(0.0, 12.5),
        ]));
        document.diagnose();
        assert_eq!(
            text(&document),
            include_str!("../tests/data/openmetrics_expected.txt")
        );
    }
}
