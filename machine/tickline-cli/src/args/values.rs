//! The values of options: spans of time, percentages, numbers and codes.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::diagnose::explanations;

/// Parses the code of a finding.
pub(super) fn finding_code(value: &str) -> Result<String, String> {
    if explanations().iter().any(|known| known.code == value) {
        return Ok(value.to_owned());
    }
    Err("it is no code of a finding: `tickline explain` lists the codes".to_owned())
}

/// Parses how long a command measures.
pub(super) fn up_to_an_hour(value: &str) -> Result<Duration, String> {
    span_within(value, "from 1s to 1h", SECOND..=HOUR)
}

/// Parses how long `watch` runs.
pub(super) fn up_to_a_year(value: &str) -> Result<Duration, String> {
    span_within(value, "from 1s to 8760h", SECOND..=8_760 * HOUR)
}

pub(super) fn interval(value: &str) -> Result<Duration, String> {
    span_within(value, "from 50ms to 1h", Duration::from_millis(50)..=HOUR)
}

/// Parses a span of time above 0 with a unit, such as `100ms`.
pub(super) fn span(value: &str) -> Result<Duration, String> {
    let any = Duration::from_nanos(1)..=LONGEST;
    span_within(value, "above 0, such as 100ms or 2s", any)
}

/// As [`span`], in ns.
pub(super) fn span_ns(value: &str) -> Result<i64, String> {
    span(value).map(|span| i64::try_from(span.as_nanos()).unwrap_or(i64::MAX))
}

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// 292 years, which i64 has in ns.
const LONGEST: Duration = Duration::from_nanos(i64::MAX.unsigned_abs());

/// Parses a span of time with a unit. `words` names the limits.
fn span_within(
    value: &str,
    words: &str,
    limits: RangeInclusive<Duration>,
) -> Result<Duration, String> {
    let within = |text: &str| {
        let span = text.parse::<jiff::SignedDuration>().ok()?;
        let span = Duration::try_from(span).ok()?;
        limits.contains(&span).then_some(span)
    };
    if let Some(span) = within(value) {
        return Ok(span);
    }
    if value.is_empty() {
        return Err(format!("it is empty; write a span of time {words}"));
    }
    let mut with_unit = ["ms", "s"].map(|unit| format!("{value}{unit}")).to_vec();
    with_unit.retain(|text| within(text).is_some());
    if value.parse::<f64>().is_ok() && !with_unit.is_empty() {
        let with_unit = with_unit.join(" or ");
        return Err(format!(
            "{value} has no unit: write {with_unit}; it is a span of time {words}"
        ));
    }
    Err(format!("{value} is not a span of time {words}"))
}

/// Parses a percentage, with or without the sign `%`.
pub(super) fn percent(value: &str) -> Result<f64, String> {
    let number = value.strip_suffix('%').unwrap_or(value).trim_end();
    let percent = number
        .parse()
        .ok()
        .filter(|percent| (0.0..=10_000.0).contains(percent));
    percent.ok_or_else(|| format!("{value} is not a percentage from 0 to 10000"))
}

/// Parses the number of a process. The largest is that of Linux (`PID_MAX_LIMIT`).
pub(super) fn process_id(value: &str) -> Result<u32, String> {
    whole(value, 4_194_304).map_err(|_| format!("{value} is not a process id from 1 to 4194304"))
}

pub(super) fn whole(value: &str, limit: u32) -> Result<u32, String> {
    let parsed = value
        .parse()
        .ok()
        .filter(|number| (1..=limit).contains(number));
    parsed.ok_or_else(|| format!("{value} is not a whole number from 1 to {limit}"))
}

#[cfg(test)]
mod tests;
