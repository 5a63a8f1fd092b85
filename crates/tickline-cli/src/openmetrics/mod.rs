//! `--openmetrics`: the main figures for a monitoring system, under names that stay.

mod format;

use std::io::{self, Write};

use jiff::Timestamp;

use self::format::{Family, Sample};
use crate::args::Target;
use crate::diagnose::{Facts, Level};
use crate::document::Document;
use crate::measure::served_by::ServedBy;
use crate::output::{Destination, Outputs};

/// Where the figures go. It is opened before the measurement begins.
#[derive(Debug)]
pub(crate) enum Metrics {
    Nowhere,
    /// To standard output, instead of the text.
    Stdout,
    File(Destination),
}

impl Metrics {
    /// # Errors
    ///
    /// If the place cannot be written, or is that of the JSON.
    pub(crate) fn open(target: Option<&Target>, outputs: &Outputs) -> io::Result<Self> {
        let one_place = |name: &str| {
            io::Error::other(format!("--openmetrics {name} and --json: one place for two documents"))
        };
        match target {
            None => Ok(Self::Nowhere),
            Some(Target::Stdout) if matches!(outputs, Outputs::Json) => Err(one_place("-")),
            Some(Target::Stdout) => Ok(Self::Stdout),
            Some(Target::File(path)) if outputs.goes_to(path) => Err(one_place(&path.display().to_string())),
            Some(Target::File(path)) => Ok(Self::File(Destination::open(path)?)),
        }
    }

    /// Writes the figures, then the document to its outputs; `write_text` writes it as text.
    pub(crate) fn emit(
        self,
        document: &Document,
        outputs: Outputs,
        write_text: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let facts = Facts::of(document)?;
        match self {
            Self::Nowhere => outputs.emit(document, write_text),
            Self::Stdout => outputs.emit(document, |out| write(document, &facts, out)),
            Self::File(file) => {
                file.save(|out| write(document, &facts, out))?;
                outputs.emit(document, write_text)
            }
        }
    }
}

/// Writes the figures of a document.
fn write(document: &Document, facts: &Facts, out: &mut dyn Write) -> io::Result<()> {
    format::write(&families(document, facts), out)
}

/// A family. An unknown figure has no sample.
fn family(
    name: &'static str,
    unit: &'static str,
    help: &'static str,
    samples: impl IntoIterator<Item = Sample>,
) -> Family {
    Family { name, unit, help, samples: samples.into_iter().collect() }
}

/// A value without labels.
fn plain(value: Option<f64>) -> Option<Sample> {
    Some((Vec::new(), value?))
}

fn state(is_so: bool) -> f64 {
    f64::from(u8::from(is_so))
}

/// Nanoseconds as seconds.
fn seconds(ns: f64) -> f64 {
    ns / 1e9
}

#[expect(
    clippy::cast_precision_loss,
    reason = "53 bits are a hundred days in ns, and more than any frequency in Hz"
)]
fn figure(value: u64) -> f64 {
    value as f64
}

/// All families. A name, a label or a unit changes only with the major version of the program.
fn families(document: &Document, facts: &Facts) -> Vec<Family> {
    let mut families = about_machine(document);
    families.extend(about_clocks(document, facts));
    families.extend(about_tickline(document));
    let taken = document.taken_at.parse::<Timestamp>().ok();
    #[expect(clippy::cast_precision_loss, reason = "seconds since 1970")]
    let taken_s = taken.map(|time| time.as_second() as f64);
    families.push(family(
        "tickline_taken_timestamp_seconds",
        "seconds",
        "When this was measured, Unix time.",
        plain(taken_s),
    ));
    families
}

fn about_machine(document: &Document) -> Vec<Family> {
    const LEVELS: [(Level, &str); 4] =
        [(Level::Ok, "ok"), (Level::Slow, "slow"), (Level::Wrong, "wrong"), (Level::Unknown, "unknown")];
    let machine = &document.machine;
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
    let labels = vec![
        ("version", document.program_version.to_owned()),
        ("clocksource", known(&machine.clocksource)),
        ("kernel", known(&machine.kernel)),
        ("hypervisor", known(&machine.hypervisor)),
        ("cpu", known(&machine.cpu)),
    ];
    let health = document.health.iter().flat_map(|health| {
        LEVELS.map(|(level, name)| (vec![("level", name.to_owned())], state(health.level == level)))
    });
    let findings = document.findings().iter().map(|finding| {
        let labels =
            vec![("code", finding.code.to_owned()), ("severity", finding.severity.name().to_owned())];
        (labels, 1.0)
    });
    vec![
        family(
            "tickline_machine_info",
            "",
            "The program's version and the machine; always 1.",
            [(labels, 1.0)],
        ),
        family("tickline_health", "", "How the machine's clocks are: 1 at the level that applies.", health),
        family("tickline_finding", "", "A finding of tickline doctor, by its code; always 1.", findings),
        family(
            "tickline_ntp_synchronised",
            "",
            "Whether the kernel calls its clock synchronised.",
            plain(machine.ntp.as_ref().map(|ntp| state(ntp.synchronised))),
        ),
    ]
}

fn about_clocks(document: &Document, facts: &Facts) -> Vec<Family> {
    let labels = |clock: &str| vec![("clock", clock.to_owned())];
    let costs = document.costs.iter().filter_map(|row| Some((labels(row.clock), seconds(row.cost_ns?))));
    let calls = document
        .costs
        .iter()
        .filter_map(|row| Some((labels(row.clock), state(row.served_by? == ServedBy::SystemCall))));
    vec![
        family(
            "tickline_clock_call_seconds",
            "seconds",
            "What a call of a clock costs, in the fastest round.",
            costs,
        ),
        family(
            "tickline_clock_system_call",
            "",
            "Whether each call of a clock is a system call, which the vDSO does not answer.",
            calls,
        ),
        family(
            "tickline_clock_attainable_seconds",
            "seconds",
            "What a call of a precise clock would cost if the vDSO read the counter.",
            plain(facts.attainable_ns().map(seconds)),
        ),
    ]
}

fn about_tickline(document: &Document) -> Vec<Family> {
    let clock = &document.clock;
    let gates = document.gates.iter().map(|gate| (vec![("gate", gate.gate.to_owned())], state(!gate.open)));
    let offset_ns = document.track.as_ref().map(|track| track.largest_offset_ns.abs());
    vec![
        family(
            "tickline_counter_used",
            "",
            "Whether tickline reads the CPU's counter.",
            plain(Some(state(document.fast))),
        ),
        family("tickline_gate_closed", "", "Whether a gate keeps tickline from the counter.", gates),
        family(
            "tickline_counter_hertz",
            "hertz",
            "The counter's frequency as measured.",
            plain(clock.frequency_hz.map(figure)),
        ),
        family(
            "tickline_offset_seconds",
            "seconds",
            "The largest offset of tickline from CLOCK_MONOTONIC that was seen, of either sign.",
            plain(offset_ns.map(seconds)),
        ),
        family(
            "tickline_bound_seconds",
            "seconds",
            "The bound that tickline states for that offset at present.",
            plain(clock.bound_ns.map(figure).map(seconds)),
        ),
        family(
            "tickline_utc_error_seconds",
            "seconds",
            "The kernel's bound of the distance of Unix time from UTC.",
            plain(clock.utc_error_ns.map(figure).map(seconds)),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written() -> String {
        let mut document = Document::new("doctor");
        document.diagnose().unwrap();
        let facts = Facts::of(&document).unwrap();
        let mut out = Vec::new();
        write(&document, &facts, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// The names that dashboards and alarms use. Removing or renaming one breaks them.
    #[test]
    fn names_stay() {
        let document = Document::new("doctor");
        let facts = Facts::of(&document).unwrap();
        let names: Vec<_> = families(&document, &facts).iter().map(|family| family.name).collect();
        let expected = [
            "tickline_machine_info",
            "tickline_health",
            "tickline_finding",
            "tickline_ntp_synchronised",
            "tickline_clock_call_seconds",
            "tickline_clock_system_call",
            "tickline_clock_attainable_seconds",
            "tickline_counter_used",
            "tickline_gate_closed",
            "tickline_counter_hertz",
            "tickline_offset_seconds",
            "tickline_bound_seconds",
            "tickline_utc_error_seconds",
            "tickline_taken_timestamp_seconds",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn one_level_of_health_applies() {
        let text = written();
        let levels: Vec<_> = text.lines().filter(|line| line.starts_with("tickline_health{")).collect();
        assert_eq!(levels.len(), 4, "{text}");
        assert_eq!(levels.iter().filter(|line| line.ends_with(" 1")).count(), 1, "{text}");
    }

    /// The rules of the format that a family can break: names, units, one type of each name, and
    /// one value of each set of labels.
    #[test]
    fn the_formats_rules_hold() {
        let document = Document::new("doctor");
        let facts = Facts::of(&document).unwrap();
        for family in families(&document, &facts) {
            let name = family.name;
            let of_name = |c: char| c.is_ascii_lowercase() || c == '_';
            assert!(name.starts_with("tickline_") && name.chars().all(of_name), "{name}");
            assert!(name.ends_with(family.unit), "{name} does not end in its unit");
            for reserved in ["_total", "_created", "_count", "_sum", "_bucket"] {
                assert!(!name.ends_with(reserved), "{name}");
            }
            assert!(family.help.ends_with('.') && !family.help.contains(['\\', '\n', '"']), "{name}");
            for (index, (labels, value)) in family.samples.iter().enumerate() {
                assert!(value.is_finite(), "{name}");
                assert!(
                    family.samples[..index].iter().all(|(others, _)| others != labels),
                    "{name}: {labels:?}"
                );
            }
        }
        let text = written();
        assert!(text.ends_with("\n# EOF\n") && text.matches("# EOF").count() == 1, "{text}");
    }
}
