//! The findings as JSON. Keys carry their units; a figure that is not to be had is null.

use std::io::{self, Write};
use std::path::Path;

use serde_json::{Value, json};

use crate::findings::Findings;

/// Raised when a key changes its meaning or goes away.
const SCHEMA: &str = "tickline-measurement/1";

fn value(findings: &Findings) -> Value {
    let status = &findings.status;
    let gates: Vec<Value> = status
        .verdicts
        .iter()
        .map(|verdict| {
            json!({
                "gate": verdict.gate.name(),
                "open": verdict.closed.is_none(),
                "reason": verdict.closed.map(tickline::Reason::code),
            })
        })
        .collect();
    let costs: Vec<Value> = findings
        .costs
        .iter()
        .map(|cost| {
            json!({ "clock": cost.name, "cost_ns": cost.ns, "ratio_to_counter": findings.ratio(cost) })
        })
        .collect();
    let points: Vec<Value> = findings
        .track
        .points
        .iter()
        .map(|point| {
            json!({
                "at_s": point.at_s,
                "offset_ns": point.offset_ns,
                "bracket_ns": point.bracket_ns,
                "bound_before_ns": point.before_ns,
                "bound_after_ns": point.after_ns,
                "inside_bracket": point.inside,
                "bound_violated": point.violated,
            })
        })
        .collect();
    let events: serde_json::Map<String, Value> =
        status.events.iter().map(|(event, count)| (event.name().to_owned(), count.into())).collect();
    json!({
        "schema": SCHEMA,
        "program_version": env!("CARGO_PKG_VERSION"),
        "verdict": findings.verdict(),
        "fast": findings.is_fast(),
        "reason": status.reason().map(tickline::Reason::code),
        "machine": {
            "cpu": findings.machine.cpu,
            "kernel": findings.machine.kernel,
            "clocksource": findings.machine.clocksource,
            "available_clocksources": findings.machine.available_clocksources,
        },
        "clock": {
            "frequency_hz": status.frequency_hz,
            "bound_ns": status.bound_ns,
            "rho_ppb": status.rho_ppb,
            "interval_ns": status.interval_ns,
            "utc_error_ns": status.utc_error_ns,
            "environment_unrecognised": status.environment == tickline::Environment::Unrecognised,
            "events": events,
        },
        "gates": gates,
        "costs": costs,
        "track": {
            "largest_offset_ns": findings.track.largest_offset_ns(),
            "largest_bound_ns": findings.track.largest_bound_ns(),
            "outside_bracket": findings.track.outside(),
            "bound_violated": findings.track.violated(),
            "points": points,
        },
    })
}

/// Writes the findings and a line break.
pub(crate) fn write(findings: &Findings, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &value(findings))?;
    writeln!(out)?;
    out.flush()
}

/// Writes the findings to a new file beside `path`, and puts it in its place when it is complete.
pub(crate) fn save(findings: &Findings, path: &Path) -> io::Result<()> {
    let context = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".tickline-").tempfile_in(folder).map_err(context)?;
    write(findings, &mut file).map_err(context)?;
    #[cfg(unix)]
    {
        // A temporary file is private; a report is as readable as any other file would be.
        use std::os::unix::fs::PermissionsExt;
        let mode = fs_mode(path);
        file.as_file().set_permissions(std::fs::Permissions::from_mode(mode)).map_err(context)?;
    }
    file.persist(path).map_err(|error| context(error.error))?;
    Ok(())
}

/// The mode of the file that is replaced; for a new one, readable by everybody.
#[cfg(unix)]
fn fs_mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).map_or(0o644, |metadata| metadata.permissions().mode() & 0o777)
}
