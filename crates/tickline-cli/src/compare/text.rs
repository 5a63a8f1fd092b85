//! The differences as text for people.

use std::io::{self, Write};

use serde_json::Value;

use super::{Comparison, Difference, Side};
use crate::terminal::plain;

/// The longest value that fits into a column, characters.
const SHORT: usize = 16;

/// Writes the comparison as text.
pub(super) fn write(found: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    let number = found.differences.len();
    let difference = if number == 1 { "difference" } else { "differences" };
    writeln!(
        out,
        "{number} {difference}, {} facts and figures are equal (costs within {} %).",
        found.equal, found.above_percent
    )?;
    side("A", &found.first, out)?;
    side("B", &found.second, out)?;
    rows("Differences", &found.differences, out)?;
    rows("Known on one side only", &found.known_once, out)
}

fn side(name: &str, side: &Side, out: &mut dyn Write) -> io::Result<()> {
    let taken = side.taken_at.as_deref().unwrap_or("at an unknown time");
    writeln!(out, "  {name}: {}, {}", plain(&side.file), plain(taken))
}

fn rows(title: &str, differences: &[Difference], out: &mut dyn Write) -> io::Result<()> {
    if differences.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{title:<43} {:>SHORT$} {:>SHORT$} {:>8}", "A", "B", "B/A")?;
    differences.iter().try_for_each(|difference| row(difference, out))
}

fn row(difference: &Difference, out: &mut dyn Write) -> io::Result<()> {
    let unit = difference.unit.map_or_else(String::new, |unit| format!(", {unit}"));
    let name = plain(&format!("{}{unit}", difference.name));
    let (first, second) = (shown(&difference.first), shown(&difference.second));
    if first.chars().count() > SHORT || second.chars().count() > SHORT {
        return writeln!(out, "  {name}\n      A: {first}\n      B: {second}");
    }
    let ratio = difference.ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
    let line = format!("  {name:<41} {first:>SHORT$} {second:>SHORT$} {ratio:>8}");
    writeln!(out, "{}", line.trim_end())
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(text) => plain(text),
        Value::Number(number) if number.is_f64() => {
            format!("{:.2}", number.as_f64().unwrap_or_default())
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_long_text_has_a_line_of_its_own() {
        let difference = |name: &str, first: Value, second: Value| Difference {
            name: name.to_owned(),
            unit: None,
            first,
            second,
            ratio: None,
        };
        let mut out = Vec::new();
        let differences = [
            difference("clocksource", json!("tsc"), json!("hp\u{1b}et")),
            difference("kernel", json!("6.1.0-56-cloud-amd64"), Value::Null),
            difference("vdso mapped", json!(true), json!(false)),
        ];
        rows("Differences", &differences, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].is_empty() && lines[1].starts_with("Differences "), "{text}");
        assert!(lines[2].contains("tsc") && lines[2].ends_with("hp\u{fffd}et"), "{text}");
        assert_eq!(lines[3..6], ["  kernel", "      A: 6.1.0-56-cloud-amd64", "      B: -"]);
        assert!(lines[6].ends_with("yes               no"), "{text}");
    }
}
