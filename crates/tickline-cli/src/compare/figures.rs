//! A document -> its facts and figures, by name.

use serde_json::{Value, json};

use crate::diagnose::{Health, diagnose};
use crate::document::Document;
use crate::words::{code, unit};

/// A fact in words, or a figure with its unit.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) unit: Option<&'static str>,
    pub(super) value: Value,
    /// The largest relative difference of two figures that count as equal.
    tolerance: f64,
}

/// The tolerance of measured rates: that of a steady counter differs by less.
const RATE: f64 = 100e-6;

/// Facts that differ from run to run, or from boot to boot.
const SKIPPED: [&str; 5] =
    ["kernel_log", "ntp", "counter_difference_ticks", "clock_gettime_difference_ns", "tracer_pid"];

impl Figure {
    /// A fact, or a figure that has to be the same.
    fn exact(name: impl Into<String>, value: &Value) -> Self {
        Self { name: name.into(), unit: None, value: value.clone(), tolerance: 0.0 }
    }

    /// Whether another document says the same.
    pub(super) fn equals(&self, other: &Self) -> bool {
        match (self.value.as_f64(), other.value.as_f64()) {
            (Some(first), Some(second)) => first.max(second) <= first.min(second) * (1.0 + self.tolerance),
            _ => self.value == other.value,
        }
    }

    /// What a document without this figure says: that a finding was not made is known.
    pub(super) fn absent(&self) -> Value {
        if self.name.starts_with("finding ") { "not found".into() } else { Value::Null }
    }
}

/// Every fact and figure of the document that is known. Costs are equal within `above_percent`.
/// Health and findings are by the rules of this program, whichever version wrote the document.
pub(super) fn figures(document: &Value, typed: &Document, above_percent: f64) -> Vec<Figure> {
    let findings = diagnose(typed);
    let mut figures = vec![Figure::exact("health", &json!(Health::of(typed, &findings).level))];
    figures.extend(
        findings.iter().map(|finding| {
            Figure::exact(format!("finding {}", finding.code), &code(finding.severity).into())
        }),
    );
    facts("", &document["machine"], &mut figures);
    figures.push(Figure::exact("NTP synchronised", &document["machine"]["ntp"]["synchronised"]));
    figures.push(Figure::exact("counter used", &document["fast"]));
    let elements = |list: &str| document[list].as_array().into_iter().flatten();
    for gate in elements("gates") {
        let state = if gate["open"] == true { &json!("open") } else { &gate["reason"] };
        figures.push(Figure::exact(format!("gate {}", gate["gate"].as_str().unwrap_or("?")), state));
    }
    let rate = Figure::exact("frequency", &document["clock"]["frequency_hz"]);
    figures.push(Figure { unit: Some("Hz"), tolerance: RATE, ..rate });
    for row in elements("costs") {
        let clock = row["clock"].as_str().unwrap_or("?");
        let cost = Figure::exact(format!("cost of {clock}"), &row["cost_ns"]);
        figures.push(Figure { unit: Some("ns"), tolerance: above_percent / 100.0, ..cost });
        figures.push(Figure::exact(format!("answered by, {clock}"), &row["served_by"]));
    }
    figures.retain(|figure| !figure.value.is_null());
    figures
}

/// Adds the scalars of an object, and of the objects in it, named by their keys.
fn facts(prefix: &str, object: &Value, figures: &mut Vec<Figure>) {
    let facts = object.as_object().into_iter().flatten();
    for (key, value) in facts.filter(|(key, _)| !SKIPPED.contains(&key.as_str())) {
        let (name, unit) = unit(key);
        let name = format!("{prefix}{}", name.replace('_', " "));
        match value {
            Value::Object(_) => self::facts(&format!("{name}, "), value, figures),
            Value::Array(_) => {}
            _ => figures.push(Figure { unit, ..Figure::exact(name, value) }),
        }
    }
}
