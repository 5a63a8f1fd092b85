//! The form of printed results.

use std::fmt;

/// The indentation that aligns the text with criterion's columns.
pub(crate) const INDENT: &str = "                        ";

/// The largest unit in which a time is at least 1: the unit in ns, and its name.
pub(crate) fn unit(ns: f64) -> (f64, &'static str) {
    let ns = ns.abs();
    if ns < 1e3 {
        (1.0, "ns")
    } else if ns < 1e6 {
        (1e3, "us")
    } else if ns < 1e9 {
        (1e6, "ms")
    } else {
        (1e9, "s")
    }
}

/// A time in ns. Its text has the largest unit in which the time is at least 1, and more decimals
/// for shorter times: with fewer, two short times that differ would look equal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ns(pub(crate) f64);

impl fmt::Display for Ns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit_ns, unit) = unit(self.0);
        let ns = self.0.abs();
        let digits = if ns < 1.0 {
            3
        } else if (10.0..1e3).contains(&ns) {
            1
        } else {
            2
        };
        write!(
            f,
            "{} {unit}",
            without_negative_zero(format!("{:.digits$}", self.0 / unit_ns))
        )
    }
}

/// The text of a number. What has rounded to 0 has no sign.
fn without_negative_zero(text: String) -> String {
    match text.strip_prefix('-') {
        Some(zero) if zero.bytes().all(|byte| matches!(byte, b'0' | b'.')) => zero.to_owned(),
        _ => text,
    }
}

/// A value with this number of digits and its sign. What rounds to 0 has no sign.
pub(crate) fn signed(value: f64, digits: usize) -> String {
    let text = format!("{value:+.digits$}");
    let zero = format!("{:.digits$}", 0.0);
    if text[1..] == zero { zero } else { text }
}

/// A percentage with its sign, without the `%`.
pub(crate) fn signed_percent(percent: f64) -> String {
    signed(percent, 2)
}

/// `1 iteration`, `2 iterations`.
pub(crate) fn iterations(count: u64) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} iteration{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_iteration_is_no_plural() {
        assert_eq!([1, 2].map(iterations), ["1 iteration", "2 iterations"]);
    }

    #[test]
    fn what_rounds_to_zero_has_no_sign() {
        let found = [-0.0, -0.004, 0.004, -0.006, 2.0].map(signed_percent);
        assert_eq!(found, ["0.00", "0.00", "0.00", "-0.01", "+2.00"]);
    }

    #[test]
    fn a_time_is_written_in_the_unit_of_its_size() {
        for (ns, text) in [
            (0.000_4, "0.000 ns"),
            (-0.000_4, "0.000 ns"),
            (0.247, "0.247 ns"),
            (-3.214, "-3.21 ns"),
            (19.42, "19.4 ns"),
            (999.94, "999.9 ns"),
            (1_500.0, "1.50 us"),
            (2e6, "2.00 ms"),
            (3e9, "3.00 s"),
        ] {
            assert_eq!(Ns(ns).to_string(), text);
        }
    }
}
