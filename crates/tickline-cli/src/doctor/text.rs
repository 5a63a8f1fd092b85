//! The document as text for people: the verdict, the findings, then the facts.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use crate::diagnose::{Finding, Level, Severity, Steps};
use crate::document::{CpuRow, Document, TrackSummary};
use crate::machine::{Machine, Ntp};
use crate::terminal::plain;
use crate::words::{UNKNOWN, code, unit, with_unit};
use crate::wrap::{BAD, GOOD, Look, SLOW, heading};

/// Writes the document as text.
pub(super) fn write(document: &Document, look: Look, out: &mut dyn Write) -> io::Result<()> {
    first_line(document, look, out)?;
    look.say("", &document.verdict, out)?;
    document.build_note().map_or(Ok(()), |note| look.say("", note, out))?;
    findings(document, look, out)?;
    machine(document, look, out)?;
    per_cpu(&document.clock.per_cpu, look, out)?;
    clocks(document, look, out)?;
    gates(document, look, out)?;
    document.track.as_ref().map_or(Ok(()), |summary| track(document, summary, look, out))
}

/// Writes the diagnosis of a recorded machine.
pub(super) fn write_recorded(document: &Document, look: Look, out: &mut dyn Write) -> io::Result<()> {
    first_line(document, look, out)?;
    look.say("", "A recorded machine: nothing is measured here.", out)?;
    findings(document, look, out)?;
    machine(document, look, out)?;
    clocks(document, look, out)
}

/// The sentence about the machine, its level in colour.
fn first_line(document: &Document, look: Look, out: &mut dyn Write) -> io::Result<()> {
    let Some((sentence, health)) = document.headline().zip(document.health.as_ref()) else { return Ok(()) };
    let style = match health.level {
        Level::Ok => GOOD,
        Level::Unsure | Level::Slow | Level::Unknown => SLOW,
        Level::Wrong => BAD,
    };
    let level_bytes = sentence.find(':').unwrap_or(0);
    writeln!(out, "{}", look.wrap_painted("", &sentence, level_bytes, style))
}

fn findings(facts: &Document, look: Look, out: &mut dyn Write) -> io::Result<()> {
    let findings = facts.findings();
    for (place, finding) in findings.iter().enumerate() {
        let is_note = |finding: &Finding| finding.severity == Severity::Note;
        match (is_note(finding), place.checked_sub(1).map(|before| is_note(&findings[before]))) {
            (false, None) => writeln!(out, "\n{}", heading("Findings"))?,
            (true, None | Some(false)) => writeln!(out, "\n{}", heading("Worth knowing"))?,
            _ => {}
        }
        let (severity, code) = (code(finding.severity), finding.code);
        let (first, text) = (format!("  {severity:<6} "), format!("{} [{code}]", finding.what));
        let line = match finding.severity {
            Severity::Wrong => look.wrap_painted(&first, &text, first.len(), BAD),
            Severity::Slow | Severity::Unsure => look.wrap_painted(&first, &text, first.len(), SLOW),
            Severity::Note => look.wrap(&first, &text),
        };
        writeln!(out, "{line}")?;
        let label = |name: &str| format!("         {name:<5} ");
        let said = |name: &'static str, text: Option<&str>| text.map(|text| look.wrap(&label(name), text));
        let place = finding.steps.as_ref().and_then(Steps::on);
        // Commands are not wrapped, so that they can be copied.
        let commands = finding.steps.iter().flat_map(Steps::named);
        let commands = commands.map(|(name, command)| label(&format!("{name}:")) + &plain(command));
        let who = finding.who.map(|command| format!("{command} (counts the calls of each program)"));
        let fix = finding.fix_by_step();
        let fix = fix.iter().zip(std::iter::once("fix:").chain(std::iter::repeat("")));
        let fix = fix.map(|((number, step), name)| Some(look.wrap(&(label(name) + number), step)));
        let lines = finding.evidence.iter().map(|seen| said("seen:", Some(seen)));
        let lines = lines.chain(fix).chain([said("run:", place)]).chain(commands.map(Some));
        let mut lines = lines.chain([said("gain:", finding.gain().as_deref()), said("who:", who.as_deref())]);
        lines.try_for_each(|line| line.map_or(Ok(()), |line| writeln!(out, "{line}")))?;
    }
    findings.first().map_or(Ok(()), |first| {
        look.say("  ", &format!("What a code in brackets means: tickline explain {}", first.code), out)
    })
}

/// The lines of the section Machine: for each, places in the document, and what is said of a value
/// there: where it is known, where it is unknown, and where it is false or 0. What has no words is
/// left out.
const MACHINE: &str = include_str!("machine.json");

fn machine(facts: &Document, look: Look, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n{}", heading("Machine"))?;
    let mut json = json!({ "machine": facts.machine, "clock": facts.clock });
    let hz = |key: &str| json["clock"][key].as_f64();
    let ppm = hz("frequency_hz").zip(hz("nominal_frequency_hz"));
    let ppm = ppm.map(|(measured, nominal)| format!("{:+.0}", (measured / nominal - 1.0) * 1e6));
    json["clock"]["difference_ppm"] = json!(ppm);
    if facts.machine.ntp.is_some() && facts.utc_bound_ns().is_none() {
        // The kernel's limits are no claim.
        json["machine"]["ntp"]["maximum_error_us"] = Value::Null;
        json["machine"]["ntp"]["estimated_error_us"] = Value::Null;
    }
    json["machine"]["rate_ppb"] = json!(facts.machine.ntp.as_ref().map(Ntp::rate_ppb));
    json["machine"]["counters"] = json!(facts.counters());
    json["machine"]["kernel_command_line"] = json!(parameters(&facts.machine));
    json["machine"]["kernel_log"] = json!(facts.machine.kernel_log.as_ref().map(Vec::len));
    let lines: Map<String, Value> = serde_json::from_str(MACHINE)?;
    lines.iter().try_for_each(|(name, places)| {
        let places = places.as_object().into_iter().flatten();
        let facts = places.map(|(place, texts)| said(place, json.pointer(place).unwrap_or_default(), texts));
        let facts: Vec<_> = facts.filter(|fact| !fact.is_empty()).collect();
        let text = if facts.is_empty() { UNKNOWN.to_owned() } else { facts.join(", ") };
        look.say(&format!("  {name:<13}"), &text, out)
    })
}

/// What one of these `texts` says of the value at a place; nothing if it has no words.
fn said(place: &str, value: &Value, texts: &Value) -> String {
    let text = match value {
        Value::Null => &texts[1],
        value if *value == false || (*value == 0 && texts[2].is_string()) => &texts[2],
        _ => &texts[0],
    };
    text.as_str().unwrap_or_default().replace("{}", &with_unit(value, unit(place).1))
}

/// The words of the kernel's command line that concern clocks; the JSON has the whole line.
fn parameters(machine: &Machine) -> Option<String> {
    const TOPICS: [&str; 9] =
        ["tsc", "clocksource", "hpet", "vdso", "acpi_pm", "no-kvmclock", "lpj", "nohz", "isolcpus"];
    let line = machine.kernel_command_line.as_ref()?;
    let words: Vec<&str> =
        line.split_whitespace().filter(|word| TOPICS.iter().any(|topic| word.contains(topic))).collect();
    Some(if words.is_empty() { "nothing about clocks".to_owned() } else { words.join(" ") })
}

fn per_cpu(rows: &[CpuRow], look: Look, out: &mut dyn Write) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", heading("CPUs, each with a line of its own"))?;
    const COLUMNS: [(&str, &str); 6] = [
        ("cpu", "CPU"),
        ("state", "state"),
        ("frequency_hz", "frequency Hz"),
        ("offset_ns", "offset ns"),
        ("age_ns", "age ns"),
        ("failures", "failures"),
    ];
    look.table_of(&COLUMNS, &rows, out)
}

fn clocks(facts: &Document, look: Look, out: &mut dyn Write) -> io::Result<()> {
    if facts.costs.is_empty() {
        return writeln!(out, "\nClocks: none was measured");
    }
    let title =
        "Clocks: cost of a call in the fastest round, its ratio to a counter read, resolution, who answers";
    writeln!(out, "\n{}", heading(&look.wrap("", title)))?;
    const COLUMNS: [(&str, &str); 5] = [
        ("clock", "clock"),
        ("cost_ns", "cost ns"),
        ("ratio_to_counter", "to counter"),
        ("resolution_ns", "resolution ns"),
        ("served_by", "answered by"),
    ];
    look.table_of(&COLUMNS, &facts.costs, out)?;
    match &facts.served_unknown {
        Some(reason) => look.say("  ", &format!("it is unknown who answers: {reason}"), out),
        None => Ok(()),
    }
}

fn gates(document: &Document, look: Look, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n{}", heading("Gates"))?;
    for gate in &document.gates {
        let text = gate.text.as_deref().unwrap_or_default();
        let line = match (gate.open, gate.reason.as_deref().or(gate.warning.as_deref())) {
            (true, None) => "open".to_owned(),
            (true, Some(code)) => format!("open, but {text} [{code}]"),
            (false, code) => format!("closed: {text} [{}]", code.unwrap_or_default()),
        };
        look.say(&format!("  {:<15} ", gate.gate), &line, out)?;
    }
    Ok(())
}

fn track(document: &Document, track: &TrackSummary, look: Look, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n{}", heading(&look.wrap("", "Offset from CLOCK_MONOTONIC, and claimed bound")))?;
    let summary = format!(
        "{} samples: largest offset {:.0} ns, largest bound {} ns, outside their bracket {}, bound violated {}",
        track.points.len(),
        track.largest_offset_ns,
        track.largest_bound_ns,
        track.outside_bracket,
        track.bound_violated
    );
    let drift = document.fast.then(|| {
        let ppb = document.clock.max_drift_ppb;
        format!("Maximum drift: the bound holds while CLOCK_MONOTONIC's rate is within {ppb} ppb of the measured one.")
    });
    let mut lines = [Some(summary), drift].into_iter().flatten();
    lines.try_for_each(|line| look.say("", &line, out))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symptom: the section showed keys of the JSON ("counter_readable no").
    #[test]
    fn the_machine_is_described_in_words() {
        let facts: Document = serde_json::from_value(json!({
            "machine": {
                "counter_readable": false,
                "vdso_mapped": true,
                "cpuid": { "invariant_tsc": true, "rdpid": false, "leaf_15h_hz": 2_600_000_000_u64 },
                "time_namespace": { "monotonic_offset_ns": 0, "boottime_offset_ns": -5_000 },
                "ntp": { "synchronised": true, "tick_us": 10_834, "frequency_ppb": -32_670, "offset_ns": 0,
                    "maximum_error_us": 923_305, "estimated_error_us": 7, "flags": ["UNSYNC", "NANO"] },
                "ntp_daemon": { "name": "chronyd", "synchronised": true, "reference": "PHC0", "stratum": 1,
                    "offset_ns": 480_000_000, "bound_ns": 506_000, "updated_s": 9_000 },
            },
            "clock": { "frequency_hz": 2_599_000_000_u64, "nominal_frequency_hz": 2_600_000_000_u64 },
        }))
        .unwrap();
        let mut out = Vec::new();
        machine(&facts, Look { columns: 200 }, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        for line in [
            "  CPU          unknown\n",
            "  counter      2,599.000000 MHz measured, -385 ppm from nominal, 2,600.000000 MHz nominal (by ",
            "  CPUID        invariant TSC, no rdpid, leaf 15h 2,600.000000 MHz\n",
            "  rights       may not read the counter (PR_SET_TSC), vDSO mapped\n",
            "  namespace    the machine's monotonic time, boot time -5,000 ns from the machine's\n",
            "  NTP          synchronised, within 923.3 ms of UTC by its claim, probably within 7 us, rate corrected by 8.3 %, flags: UNSYNC; NANO\n",
            "  NTP daemon   chronyd, synchronised, follows PHC0, stratum 1, 480 ms left to remove, within 506 us of UTC by its claim, updated 2.5 h ago\n",
        ] {
            assert!(text.contains(line), "no {line} in:\n{text}");
        }
        let json = json!({ "machine": facts.machine, "clock": facts.clock });
        let lines: Map<String, Value> = serde_json::from_str(MACHINE).unwrap();
        let places = lines.values().filter_map(Value::as_object).flat_map(Map::keys);
        let missing: Vec<_> = places.filter(|place| json.pointer(place).is_none()).collect();
        assert_eq!(missing, ["/clock/difference_ppm", "/machine/rate_ppb"], "all but what is derived");
    }
}
