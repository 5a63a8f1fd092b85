//! The findings as JSON. Keys carry their units; a figure that is not to be had is null.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::findings::Findings;
use crate::text;

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
                "warning": verdict.warning.map(tickline::Reason::code),
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
            "hypervisor": status.hypervisor.name(),
            "counters": text::comparison(status.comparison),
        },
        "clock": {
            "frequency_hz": status.frequency_hz,
            "nominal_frequency_hz": status.nominal_hz,
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

/// Where the JSON will go. Nothing is measured for a place that cannot be written to, and a file that is there stays whole
/// until the new one is complete.
#[derive(Debug)]
pub(crate) enum Destination {
    /// A new file beside the place, to be put there when it is complete.
    Replace { place: PathBuf, file: NamedTempFile },
    /// Something that is no regular file (a device, a pipe): it is written to as it is.
    Direct { place: PathBuf, file: File },
}

impl Destination {
    /// Looks at the place. Symbolic links are followed, so that a link stays one.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let fail = |error: io::Error| naming(path, &error);
        let place = followed(path);
        match fs::metadata(&place) {
            Ok(found) if found.is_dir() => Err(fail(io::ErrorKind::IsADirectory.into())),
            Ok(found) if !found.is_file() => {
                let file = File::options().write(true).open(&place).map_err(fail)?;
                Ok(Self::Direct { place, file })
            }
            _ => {
                let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty());
                let file = tempfile::Builder::new()
                    .prefix(".tickline-")
                    .tempfile_in(folder.unwrap_or(Path::new(".")))
                    .map_err(fail)?;
                Ok(Self::Replace { place, file })
            }
        }
    }

    /// Writes the findings there.
    pub(crate) fn save(self, findings: &Findings) -> io::Result<()> {
        match self {
            Self::Direct { place, mut file } => {
                write(findings, &mut file).map_err(|error| naming(&place, &error))
            }
            Self::Replace { place, mut file } => {
                let fail = |error: io::Error| naming(&place, &error);
                write(findings, &mut file).map_err(fail)?;
                #[cfg(unix)]
                {
                    // A temporary file is private; a report is as readable as any other file would be.
                    use std::os::unix::fs::PermissionsExt;
                    let permissions = fs::Permissions::from_mode(mode_at(&place));
                    file.as_file().set_permissions(permissions).map_err(fail)?;
                }
                file.persist(&place).map_err(|error| fail(error.error))?;
                Ok(())
            }
        }
    }
}

/// The file that `path` leads to, also if it does not exist yet.
fn followed(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| match (fs::read_link(path), path.parent()) {
        (Ok(target), Some(folder)) => folder.join(target),
        _ => path.to_owned(),
    })
}

/// The error with the path it is about, in the system's words alone: those of `tempfile` name the temporary file.
fn naming(path: &Path, error: &io::Error) -> io::Error {
    let plain = error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error);
    io::Error::new(error.kind(), format!("{}: {plain}", path.display()))
}

/// The mode of the file that is replaced; for a new one, readable by everybody.
#[cfg(unix)]
fn mode_at(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).map_or(0o644, |metadata| metadata.permissions().mode() & 0o777)
}
