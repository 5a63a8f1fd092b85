//! Judges a guest's report by the checks of the guest.

use super::check::Check;
use super::guest::Guest;
use super::qemu::Run;
use super::report::{Phase, named};
use crate::outcome::NotPassed;

/// Judges a run.
pub(super) fn judge(guest: &Guest, run: &Run) -> Result<(), NotPassed> {
    let mut faults = Vec::new();
    if let Some(broken) = &run.broken {
        faults.push(format!("the guest broke: {broken}"));
    }
    for phase in named(&run.phases, "error") {
        let error = phase.error.as_deref().unwrap_or("unknown");
        faults.push(format!("the guest's error: {error}"));
    }
    faults.extend(violated(&guest.checks, &run.phases));
    if !faults.is_empty() {
        return Err(NotPassed::Failed(faults.join("\n")));
    }
    match unavailable(&run.phases).or_else(|| untestable(&run.phases)) {
        Some(requirement) => Err(NotPassed::Skipped(requirement)),
        None => Ok(()),
    }
}

/// The checks that a report violates, in words. If the guest lacks a requirement, the phases that
/// it did not reach are not judged.
pub(super) fn violated<'a>(
    checks: impl IntoIterator<Item = &'a Check>,
    phases: &[Phase],
) -> Vec<String> {
    let is_testable = untestable(phases).is_none();
    let mut faults = Vec::new();
    for check in checks {
        let is_judged = named(phases, &check.phase).next().is_some() || !is_excused(check, phases);
        // The checks of order hold whichever clock serves the readings.
        if is_judged && (is_testable || check.is_about_order()) {
            faults.extend(check.fault(phases));
        }
    }
    faults
}

/// Whether a phase is missing because the guest lacks a requirement. If a program is unavailable,
/// only its own phases, `PROGRAM MODE`, are excused.
fn is_excused(check: &Check, phases: &[Phase]) -> bool {
    named(phases, "unavailable").any(|phase| match &phase.program {
        None => true,
        Some(program) => {
            let own = check.phase.rsplit_once(' ');
            own.is_some_and(|(name, _)| name == program)
        }
    })
}

/// The requirement that this guest lacks.
fn unavailable(phases: &[Phase]) -> Option<String> {
    named(phases, "unavailable").find_map(|phase| phase.what.clone())
}

/// A reason not to judge the guest: its clock reports that it could not compare the CPUs' counters.
/// On a busy machine the emulator's threads take turns, and never run at the same time. If the
/// clock uses the counter anyway, or names another reason, the guest is judged.
fn untestable(phases: &[Phase]) -> Option<String> {
    let is_untestable = |phase: &&Phase| {
        phase.phase != "start"
            && phase.comparison.found.as_deref() == Some("impossible")
            && phase.state.as_deref() == Some("fallback")
            && phase.reason.as_deref() == Some("untestable")
    };
    let phase = phases.iter().find(is_untestable)?;
    Some(format!(
        "{}: the CPUs' counters could not be compared, on a machine that is too busy",
        phase.phase
    ))
}

#[cfg(test)]
mod tests;
