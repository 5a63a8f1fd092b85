//! The fields of a record: values by their paths, with an error that names a missing one.

use serde_json::Value;

/// The value at a path with dots. A missing field is an error; `null` is a value.
pub(super) fn at<'a>(value: &'a Value, path: &str) -> Result<&'a Value, String> {
    path.split('.')
        .try_fold(value, |value, key| value.get(key))
        .ok_or_else(|| format!("the record has no {path}"))
}

pub(super) fn number(value: &Value, path: &str) -> Result<f64, String> {
    at(value, path)?.as_f64().ok_or_else(|| format!("{path} is not a number in the record"))
}

/// A number, or none where the record says `null`.
pub(super) fn number_if_any(value: &Value, path: &str) -> Result<Option<f64>, String> {
    if at(value, path)?.is_null() { Ok(None) } else { number(value, path).map(Some) }
}

pub(super) fn text<'a>(value: &'a Value, path: &str) -> Result<&'a str, String> {
    at(value, path)?.as_str().ok_or_else(|| format!("{path} is not a text in the record"))
}

/// A section's entry for a clock; none if the section leaves it out.
pub(super) fn of_clock<'a>(section: &'a Value, clock: &str) -> Result<Option<&'a Value>, String> {
    let clocks = at(section, "clocks")?.as_array().ok_or("clocks is not a list in the record")?;
    Ok(clocks.iter().find(|one| one["clock"] == clock))
}

/// The median of a figure of a clock's start-up, us; none if it is not tried, or not there on
/// that machine.
pub(super) fn startup_us(record: &Value, clock: &str, figure: &str) -> Result<Option<f64>, String> {
    let Some(clock) = of_clock(at(record, "startup")?, clock)? else { return Ok(None) };
    let spread = at(clock, figure)?;
    if spread.is_null() { Ok(None) } else { number(spread, "median").map(Some) }
}

/// The drift that is furthest from 0 among all processes.
pub(super) fn worst_drift_ppb(record: &Value, clock: &str) -> Result<Option<f64>, String> {
    let others = at(record, "drift_in_other_processes")?;
    let others = others.as_array().ok_or("drift_in_other_processes is not a list in the record")?;
    let mut worst: Option<f64> = None;
    for process in others.iter().chain([at(record, "drift")?]) {
        let Some(clock) = of_clock(process, clock)? else { continue };
        let Some(ppb) = number_if_any(clock, "drift_ppb")? else { continue };
        if worst.is_none_or(|worst| ppb.abs() > worst.abs()) {
            worst = Some(ppb);
        }
    }
    Ok(worst)
}
