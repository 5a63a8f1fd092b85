//! Judges a guest's report by the checks of the guest.

use super::check::{Check, named};
use super::guest::Guest;
use super::phase::{self, Found, Phase};
use super::qemu::Run;
use crate::outcome::NotPassed;

/// Judges a run.
pub(super) fn judge(guest: &Guest, run: &Run) -> Result<(), NotPassed> {
    let mut faults = Vec::new();
    if let Some(broken) = &run.broken {
        faults.push(format!("the guest broke: {broken}"));
    }
    for phase in named(&run.phases, phase::ERROR) {
        let error = phase.error.as_deref().unwrap_or("unknown");
        faults.push(format!("the guest's error: {error}"));
    }
    faults.extend(violated(&guest.checks, &run.phases));
    if !faults.is_empty() {
        return Err(NotPassed::Failed(faults.join("\n")));
    }
    match requirement(&run.phases).or_else(|| untestable(&run.phases)) {
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
    let mut unavailable = phases.iter().filter_map(|phase| phase.unavailable.as_ref());
    unavailable.any(|unavailable| match &unavailable.program {
        None => true,
        Some(program) => {
            let own = check.phase.rsplit_once(' ');
            own.is_some_and(|(name, _)| name == program)
        }
    })
}

/// The requirement that this guest lacks.
fn requirement(phases: &[Phase]) -> Option<String> {
    let mut unavailable = phases.iter().filter_map(|phase| phase.unavailable.as_ref());
    Some(unavailable.next()?.what.clone())
}

/// A reason not to judge the guest: its clock reports that it could not compare the CPUs' counters.
/// On a busy machine the emulator's threads take turns, and never run at the same time. If the
/// clock uses the counter anyway, or names another reason, the guest is judged.
fn untestable(phases: &[Phase]) -> Option<String> {
    let is_untestable = |phase: &&Phase| {
        let comparison = phase.comparison.as_ref();
        let is_impossible = comparison.is_some_and(|one| one.found == Found::Impossible);
        let is_reason = phase.watched.as_ref().is_some_and(|watched| {
            watched.state == "fallback" && watched.reason.as_deref() == Some("untestable")
        });
        phase.name != phase::START && is_impossible && is_reason
    };
    let phase = phases.iter().find(is_untestable)?;
    Some(format!(
        "{}: the CPUs' counters could not be compared, on a machine that is too busy",
        phase.name
    ))
}

#[cfg(test)]
mod tests;
