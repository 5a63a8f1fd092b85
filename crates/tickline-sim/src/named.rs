//! Scenarios with names: what the documentation's plots show, and what tests state limits for. They
//! are in `scenarios.json`, each as what differs from the first.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::scenario::Scenario;

/// A scenario of `scenarios.json`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// What happens, and what is expected.
    pub what: String,
    /// Its title in the documentation's plot, if it is there.
    pub plot: Option<String>,
    /// What differs from the first.
    scenario: Value,
    /// What its track must keep, whatever the seed.
    #[serde(default)]
    pub limits: Vec<Limit>,
    /// Counts, and events of the clock, by their names: the least and the most of each, whatever
    /// the seed.
    #[serde(default)]
    pub counts: BTreeMap<String, [i128; 2]>,
}

/// What a part of a track must keep, or that of each CPU where each has a line of its own.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Where the part begins, ms of simulated time.
    pub from_ms: u64,
    /// Where it ends, if not with the run, ms.
    pub to_ms: Option<u64>,
    /// The most that the largest error may be, ns.
    pub error_ns: Option<i64>,
    /// The least that it must be, ns: what the scenario is about has happened.
    pub least_error_ns: Option<i64>,
    /// The largest error of a reading by a line, ns.
    pub line_error_ns: Option<i64>,
    /// The largest error of Unix time, ns.
    pub unix_error_ns: Option<i64>,
    /// The largest half-width of a bound, ns.
    pub bound_ns: Option<i64>,
    /// By how much bounds may be wrong, ns; 0 if all must hold.
    pub outside_ns: Option<i64>,
    /// The largest share of bounds that are wrong, permille.
    pub wrong_permille: Option<i64>,
    /// The least and the largest share of readings without a line, permille.
    pub slow_permille: Option<[i64; 2]>,
}

/// All of them.
///
/// # Panics
///
/// If the file has a mistake.
#[must_use]
pub fn all() -> Vec<Named> {
    serde_json::from_str(include_str!("../scenarios.json")).expect("the list of scenarios")
}

/// The scenario of a name.
///
/// # Panics
///
/// If there is none, or the file has a mistake.
#[must_use]
pub fn named(name: &str, seed: u64) -> Scenario {
    let mut all = all();
    let place = all.iter().position(|named| named.name == name).expect("a name of the list");
    let change = all[place].scenario.take();
    let mut scenario = if place == 0 { Value::Null } else { all[0].scenario.take() };
    change_to(&mut scenario, change);
    Scenario { seed, ..serde_json::from_value(scenario).expect("a scenario") }
}

fn change_to(value: &mut Value, change: Value) {
    match (value, change) {
        (Value::Object(fields), Value::Object(changes)) => {
            changes.into_iter().for_each(|(name, change)| change_to(&mut fields[&name], change));
        }
        (value, change) => *value = change,
    }
}
