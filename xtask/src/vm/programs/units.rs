//! What the guest with systemd has reported of the shipped unit.

use serde_json::Value;

use super::guest::Run;

/// A step, and what followed.
pub(super) struct Step {
    pub(super) name: String,
    pub(super) command: String,
    pub(super) state: String,
    pub(super) serving: String,
    is_expected: bool,
}

impl Step {
    pub(super) fn word(&self) -> &'static str {
        if self.is_expected { "passed" } else { "FAILED" }
    }

    fn of(line: &Value) -> Self {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Self {
            name: text(&line["step"]),
            command: text(&line["command"]),
            state: text(&line["state"]),
            serving: text(&line["serving"]),
            is_expected: line["expected"] == serde_json::json!([line["state"], line["serving"]]),
        }
    }
}

/// The steps of a run; one more for the program that ran meanwhile.
pub(super) fn steps(run: &Run) -> Vec<Step> {
    let phase = |name: &'static str| run.lines.iter().filter(move |line| line["phase"] == name);
    let mut steps: Vec<Step> = phase("unit").map(Step::of).collect();
    let seen = phase("handover").next().unwrap_or(&Value::Null);
    let is_served = seen["said"].as_str().is_some_and(|said| said.contains(" the clock of "));
    let in_order = seen["backward"] == 0 && seen["below_others"] == 0 && seen["error"].is_null();
    steps.push(Step {
        name: "meanwhile".to_owned(),
        command: "tickline run -- static-C".to_owned(),
        state: format!("{} calls in {} answers", seen["calls"], seen["answers"]),
        serving: format!("{} back", seen["backward"]),
        is_expected: is_served && in_order && seen["answers"].as_u64() >= Some(5),
    });
    if let Some(why) = &run.broken {
        steps.push(Step {
            name: "the guest".to_owned(),
            command: String::new(),
            state: why.clone(),
            serving: String::new(),
            is_expected: false,
        });
    }
    steps
}

/// Prints the journal, and what systemd says about the unit.
pub(super) fn show(run: &Run) {
    for line in &run.lines {
        for key in ["command", "said"] {
            if let (true, Some(text)) =
                (line["phase"] == "journal" || line["phase"] == "analyze", line[key].as_str())
            {
                println!("{text}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn words(serving: bool, said: &str, backward: u64) -> Vec<&'static str> {
        let unit = json!({
            "phase": "unit", "step": "booted", "command": "", "state": "active", "serving": serving,
            "expected": ["active", true],
        });
        let meanwhile = json!({
            "phase": "handover", "answers": 9, "calls": 9, "backward": backward, "below_others": 0, "said": said,
            "error": null,
        });
        let steps = steps(&Run { lines: vec![unit, meanwhile], broken: None });
        steps.iter().map(Step::word).collect()
    }

    #[test]
    fn a_step_is_judged_by_what_followed() {
        let served = "tickline: CMD has the clock of a page";
        assert_eq!(words(true, served, 0), ["passed", "passed"]);
        assert_eq!(words(false, served, 0), ["FAILED", "passed"]);
        assert_eq!(words(true, served, 1), ["passed", "FAILED"]);
        assert_eq!(words(true, "tickline: nothing serves", 0), ["passed", "FAILED"], "nothing was shown");
    }
}
