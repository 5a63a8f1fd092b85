//! A document -> its facts and figures, by name.

use serde_json::{Map, Value};

use crate::diagnose::{Health, diagnose};
use crate::document::Document;

/// A fact in words, or a figure with its unit.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) unit: Option<&'static str>,
    pub(super) value: Value,
    limit: Limit,
}

/// When two figures differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    /// If they are not the same.
    Exact,
    /// By more than the user's limit.
    Chosen,
    /// By more than 100 ppm: the measured rate of a steady counter differs by less.
    Rate,
}

/// The largest relative difference of two measurements of one rate.
const RATE: f64 = 100e-6;

/// Facts that differ from run to run, or from boot to boot.
const SKIPPED: [&str; 5] =
    ["kernel_log", "ntp", "counter_difference_ticks", "clock_gettime_difference_ns", "tracer_pid"];

const UNITS: [(&str, &str); 6] =
    [("_ns", "ns"), ("_hz", "Hz"), ("_khz", "kHz"), ("_mhz", "MHz"), ("_us", "us"), ("_ppb", "ppb")];

impl Figure {
    fn new(name: impl Into<String>, value: Value, limit: Limit) -> Self {
        Self { name: name.into(), unit: None, value, limit }
    }

    /// Whether another document says the same. `above_percent` is the limit for costs.
    pub(super) fn equals(&self, other: &Self, above_percent: f64) -> bool {
        let limit = match self.limit {
            Limit::Exact => return self.value == other.value,
            Limit::Chosen => above_percent / 100.0,
            Limit::Rate => RATE,
        };
        match (self.value.as_f64(), other.value.as_f64()) {
            (Some(first), Some(second)) => {
                let (small, large) = (first.min(second), first.max(second));
                large <= small * (1.0 + limit)
            }
            _ => self.value == other.value,
        }
    }
}

/// Every fact and figure of the document that is known.
pub(super) fn figures(document: &Value, typed: &Document) -> Vec<Figure> {
    let mut figures = diagnosis(typed);
    if let Some(machine) = document["machine"].as_object() {
        object("", machine, &mut figures);
    }
    let exact = |name: String, value: &Value| Figure::new(name, value.clone(), Limit::Exact);
    figures.push(exact("NTP synchronised".to_owned(), &document["machine"]["ntp"]["synchronised"]));
    figures.push(exact("counter used".to_owned(), &document["fast"]));
    for gate in elements(&document["gates"]) {
        let state = match (&gate["open"], &gate["reason"]) {
            (Value::Bool(true), _) => "open".into(),
            (_, reason) => reason.clone(),
        };
        figures.push(exact(format!("gate {}", gate["gate"].as_str().unwrap_or("?")), &state));
    }
    let rate = |key: &str| document["clock"][key].clone();
    figures.push(Figure { unit: Some("Hz"), ..Figure::new("frequency", rate("frequency_hz"), Limit::Rate) });
    for row in elements(&document["costs"]) {
        let clock = row["clock"].as_str().unwrap_or("?");
        let cost = Figure::new(format!("cost of {clock}"), row["cost_ns"].clone(), Limit::Chosen);
        figures.push(Figure { unit: Some("ns"), ..cost });
        figures.push(exact(format!("answered by, {clock}"), &row["served_by"]));
    }
    figures.retain(|figure| !figure.value.is_null());
    figures
}

/// Health and findings, by the rules of this program, whichever version wrote the document.
fn diagnosis(document: &Document) -> Vec<Figure> {
    let findings = diagnose(document);
    let health = serde_json::to_value(Health::of(document, &findings).level).unwrap_or_default();
    let mut figures = vec![Figure::new("health", health, Limit::Exact)];
    figures.extend(findings.iter().map(|finding| {
        Figure::new(format!("finding {}", finding.code), finding.severity.name().into(), Limit::Exact)
    }));
    figures
}

/// The value of a finding that a document does not have.
const NOT_FOUND: &str = "not found";

/// Adds to each side, as not found, the findings that only the other side has. They are then
/// differences, not unknown facts.
pub(super) fn level(first: &mut Vec<Figure>, second: &mut Vec<Figure>) {
    let lacks = |here: &[Figure], there: &[Figure]| -> Vec<Figure> {
        let findings = there.iter().filter(|figure| figure.name.starts_with("finding "));
        let missing = findings.filter(|figure| here.iter().all(|one| one.name != figure.name));
        missing.map(|figure| Figure { value: NOT_FOUND.into(), ..figure.clone() }).collect()
    };
    let (more, less) = (lacks(first, second), lacks(second, first));
    first.extend(more);
    second.extend(less);
}

fn elements(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Adds the scalars of an object, and of the objects in it, named by their keys.
fn object(prefix: &str, scalars: &Map<String, Value>, figures: &mut Vec<Figure>) {
    for (key, value) in scalars.iter().filter(|(key, _)| !SKIPPED.contains(&key.as_str())) {
        let unit = UNITS.iter().find(|(suffix, _)| key.ends_with(suffix));
        let name = unit.map_or(key.as_str(), |(suffix, _)| key.trim_end_matches(suffix)).replace('_', " ");
        let name = format!("{prefix}{name}");
        match value {
            Value::Object(inner) => object(&format!("{name}, "), inner, figures),
            Value::Array(_) => {}
            value => figures.push(Figure {
                unit: unit.map(|(_, unit)| *unit),
                ..Figure::new(name, value.clone(), Limit::Exact)
            }),
        }
    }
}
