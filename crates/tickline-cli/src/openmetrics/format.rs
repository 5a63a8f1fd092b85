//! The text format of OpenMetrics 1.0 (<https://prometheus.io/docs/specs/om/open_metrics_spec/>),
//! as far as it agrees with Prometheus' older text format, which node_exporter's textfile
//! collector reads: gauges only, since the older format has no `info` and no `stateset`.

use std::io::{self, Write};

/// A gauge: its name, what it says, and its values.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Family {
    /// Ends in the unit, if there is one.
    pub(super) name: &'static str,
    /// In the format's words, such as `seconds`; empty for states and counts.
    pub(super) unit: &'static str,
    pub(super) help: &'static str,
    pub(super) samples: Vec<Sample>,
}

/// Names and values of labels, and the value.
pub(super) type Sample = (Vec<(&'static str, String)>, f64);

/// Writes the families that have values, and the mark of the end.
pub(super) fn write(families: &[Family], out: &mut dyn Write) -> io::Result<()> {
    for family in families.iter().filter(|family| !family.samples.is_empty()) {
        let Family { name, unit, help, samples } = family;
        writeln!(out, "# TYPE {name} gauge")?;
        if !unit.is_empty() {
            writeln!(out, "# UNIT {name} {unit}")?;
        }
        writeln!(out, "# HELP {name} {help}")?;
        for (labels, value) in samples {
            writeln!(out, "{name}{} {value}", labelled(labels))?;
        }
    }
    writeln!(out, "# EOF")
}

fn labelled(labels: &[(&'static str, String)]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let pairs: Vec<String> =
        labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    format!("{{{}}}", pairs.join(","))
}

/// A label's value: backslash, quotation mark and line break have escapes.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_type_unit_help_and_samples() {
        let families = [
            Family {
                name: "a_seconds",
                unit: "seconds",
                help: "What it is.",
                samples: vec![(vec![("b", "x\"y\\z\n".to_owned()), ("c", String::new())], 1.06e-6)],
            },
            Family { name: "none", unit: "", help: "No values.", samples: Vec::new() },
            Family { name: "plain", unit: "", help: "A state.", samples: vec![(Vec::new(), 1.0)] },
        ];
        let mut out = Vec::new();
        write(&families, &mut out).unwrap();
        let expected = "\
# TYPE a_seconds gauge
# UNIT a_seconds seconds
# HELP a_seconds What it is.
a_seconds{b=\"x\\\"y\\\\z\\n\",c=\"\"} 0.00000106
# TYPE plain gauge
# HELP plain A state.
plain 1
# EOF
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
