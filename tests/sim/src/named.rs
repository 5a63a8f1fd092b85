//! Scenarios with names. The documentation plots some of them, and tests state limits for them. The
//! file `scenarios.json` describes each by its differences from the first.

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
    /// The events, and the expected result.
    pub what: String,
    /// Its title in the documentation's plot, if the plot shows it.
    pub plot: Option<String>,
    /// Its differences from the first scenario.
    scenario: Value,
    /// The limits of its track for every seed.
    #[serde(default)]
    pub limits: Vec<Limit>,
    /// The least and the greatest number of counts and of events of the clock, by their names, for
    /// every seed.
    #[serde(default)]
    pub counts: BTreeMap<String, [i128; 2]>,
}

/// The limits of a part of a track. If each CPU has a line, they hold for each CPU's points.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// The beginning of the part, ms of simulated time.
    pub from_ms: u64,
    /// The end of the part, ms; `None` for the end of the run.
    pub to_ms: Option<u64>,
    /// The upper limit of the largest error, ns.
    pub error_ns: Option<i64>,
    /// The lower limit of the largest error, ns. It shows that the scenario's fault has happened.
    pub least_error_ns: Option<i64>,
    /// The largest error of a reading by a line, ns.
    pub line_error_ns: Option<i64>,
    /// The largest error of Unix time, ns.
    pub unix_error_ns: Option<i64>,
    /// The largest half-width of a bound, ns.
    pub bound_ns: Option<i64>,
    /// The largest distance of the reference outside the bounds, ns; 0 if all bounds must hold.
    pub outside_ns: Option<i64>,
    /// The largest share of bounds that are wrong, permille.
    pub wrong_permille: Option<i64>,
    /// The least and the largest share of readings without a line, permille.
    pub slow_permille: Option<[i64; 2]>,
}

/// All named scenarios.
///
/// # Panics
///
/// If the file is not valid.
#[must_use]
pub fn all() -> Vec<Named> {
    serde_json::from_str(include_str!("../scenarios.json")).expect("the list of scenarios")
}

/// The scenario that is called `name`, with this seed.
///
/// # Panics
///
/// If no scenario has this name, or the file is not valid.
#[must_use]
pub fn named(name: &str, seed: u64) -> Scenario {
    let mut all = all();
    let index = all
        .iter()
        .position(|named| named.name == name)
        .expect("a name of the list");
    let change = all[index].scenario.take();
    let mut scenario = all[0].scenario.take(); // null if `index` is 0
    change_to(&mut scenario, change);
    Scenario {
        seed,
        ..serde_json::from_value(scenario).expect("a scenario")
    }
}

fn change_to(value: &mut Value, change: Value) {
    match (value, change) {
        (Value::Object(fields), Value::Object(changes)) => {
            changes
                .into_iter()
                .for_each(|(name, change)| change_to(&mut fields[&name], change));
        }
        (value, change) => *value = change,
    }
}
