//! Compares the guest's report on the package under systemd with the expectations.

use serde_json::Value;

use super::judge::HANDED_OVER;
use super::{Row, Run};
use crate::vm::judge;

pub(super) const TITLES: &str = "step | command | the unit is | a page is served";

/// The steps of the package and its unit under systemd, and the programs that ran meanwhile.
pub(super) fn steps(run: &Run) -> Vec<Row> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let row = |cells: [String; 4], is_expected: bool, line: &Value| Row {
        cells: cells.into(),
        notes: Vec::new(),
        faults: if is_expected { Vec::new() } else { vec![line.to_string()] },
    };
    let mut rows = Vec::new();
    for line in &run.lines {
        if line["phase"] == "unit" {
            let cells = ["step", "command", "state", "serving"].map(|key| text(&line[key]));
            let is_expected = line["done"] == true
                && line["expected"] == serde_json::json!([line["state"], line["serving"]]);
            rows.push(row(cells, is_expected, line));
        } else if line["phase"] == "handover" {
            let calls = format!("{} calls in {} answers", line["calls"], line["answers"]);
            let cells =
                ["meanwhile".to_owned(), text(&line["program"]), calls, format!("{} back", line["backward"])];
            let is_expected = line["is_served"] == true && judge::faults(line, &HANDED_OVER).is_empty();
            rows.push(row(cells, is_expected, line));
        }
    }
    if let Some(why) = &run.broken {
        rows.push(row(["the guest", "", why, ""].map(str::to_owned), false, &Value::Null));
    }
    rows
}
