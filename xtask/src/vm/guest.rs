//! Reads the guests of `tests/vm/guests.toml`: machine, kernel, act, and checks of the report.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::agreed::{Act, Awaits, Program, Scenario, Trust};
use super::check::Check;
use super::expected::{self, Group};
use super::packages::Daemon;
use super::phase;
use super::programs;
use crate::files;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    /// The default settings of guests.
    defaults: toml::Table,
    /// For each name of a processor: QEMU's `-cpu`.
    processors: BTreeMap<String, String>,
    guest: Vec<toml::Table>,
}

/// A guest: its machine, its act, and its expectations. `tests/vm/guests.toml` explains the fields.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Guest {
    pub(super) name: String,
    pub(super) about: String,
    /// QEMU's `-cpu`; in the file, the processor's name.
    pub(super) processor: String,
    pub(super) cpus: u8,
    /// Whether one thread of the emulator runs all CPUs in turn. The emulator's TSC then never
    /// jumps (`tests/vm/README.md`).
    #[serde(default)]
    pub(super) is_single_threaded: bool,
    /// The kernel's clocksource before the act.
    clocksource: String,
    /// The kernel's command line: the kernel's own settings, and then the guest's.
    pub(super) kernel: String,
    pub(super) act: Act,
    trust: Trust,
    awaits: Awaits,
    /// The scenarios of the act "utc".
    #[serde(default)]
    pub(super) utc: Vec<Scenario>,
    /// Whether the guest's clocks may run at another rate than the host's. If they may not but do,
    /// the kernel has calibrated them wrong, and the guest is booted again.
    #[serde(default)]
    pub(super) has_own_pace: bool,
    /// A daemon that the guest needs.
    pub(super) daemon: Option<Daemon>,
    /// The programs on Debian that the guest runs.
    #[serde(skip)]
    pub(super) programs: Vec<Program>,
    #[serde(default)]
    out_of_order: bool,
    /// Groups of rules, and the phases in which they hold.
    expect: BTreeMap<Group, Vec<String>>,
    /// The reason for which the OS clock serves in a phase.
    #[serde(default)]
    reason: BTreeMap<String, String>,
    #[serde(default, rename = "finding")]
    pub(super) findings: Vec<ExpectedFinding>,
    #[serde(skip)]
    pub(super) checks: Vec<Check>,
}

/// The first finding that the program `tickline` must print in a phase.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExpectedFinding {
    pub(super) phase: String,
    /// The special condition in the phase.
    pub(super) about: String,
    pub(super) code: String,
    /// A part of what the program says to do.
    fix: Option<String>,
}

impl Guest {
    /// Whether the guest boots Debian, from disks, to run programs or to try the package.
    pub(super) fn is_on_debian(&self) -> bool {
        matches!(self.act, Act::Programs | Act::Systemd)
    }

    /// The steps of the act "systemd", and the programs that run during the act.
    pub(super) fn steps(&self) -> impl Iterator<Item = &str> {
        let groups = [Group::PackageStep, Group::ServedExchange];
        let phases = groups
            .into_iter()
            .filter_map(|group| self.expect.get(&group));
        phases.flatten().map(String::as_str)
    }
}

/// Every guest.
pub(super) fn all() -> Result<Vec<Guest>, String> {
    let list: Result<List, _> = toml::from_str(&files::read("tests/vm/guests.toml")?);
    let list = list.map_err(|error| format!("guests.toml: {error}"))?;
    list.guest.iter().map(|guest| parse(&list, guest)).collect()
}

fn parse(list: &List, guest: &toml::Table) -> Result<Guest, String> {
    let mut merged = list.defaults.clone();
    merged.extend(guest.clone());
    let guest: Result<Guest, _> = merged.try_into();
    let mut guest = guest.map_err(|error| format!("guests.toml: {error}"))?;
    if guest.act == Act::Programs {
        guest.programs = programs::all()?;
    }
    guest.checks = checks(&guest);
    // After a panic the kernel reboots at once, and QEMU exits instead of a reboot (`-no-reboot`).
    guest.kernel = format!(
        "console=ttyS0 panic=-1 {} tickline.act={} tickline.trust={} tickline.awaits={}",
        guest.kernel, guest.act, guest.trust, guest.awaits
    );
    if !guest.utc.is_empty() {
        let scenarios: Vec<String> = guest.utc.iter().map(Scenario::to_string).collect();
        guest.kernel += &format!(" tickline.utc={}", scenarios.join(","));
    }
    let processor = list.processors.get(&guest.processor).cloned();
    guest.processor =
        processor.ok_or_else(|| format!("guests.toml has no processor {}", guest.processor))?;
    Ok(guest)
}

/// All that a guest must report.
fn checks(guest: &Guest) -> Vec<Check> {
    let mut checks = Vec::new();
    for (group, phases) in &guest.expect {
        for phase in phases {
            checks.extend(group.checks(phase));
        }
    }
    let first_phase = if guest.is_on_debian() {
        phase::MACHINE
    } else {
        checks.extend(automatic_checks(guest));
        phase::BEFORE
    };
    checks.push(Check::new(
        first_phase,
        expected::clocksource(guest.clocksource.clone()),
    ));
    // With acpi_pm most native calls take a sixth to a third less time (`programs.toml`).
    let share = if guest.clocksource == "acpi_pm" {
        0.75
    } else {
        1.0
    };
    for program in &guest.programs {
        checks.extend(program.checks(share));
    }
    for (phase, code) in &guest.reason {
        checks.push(Check::new(phase, expected::reason(code.clone())));
    }
    for ExpectedFinding {
        phase, code, fix, ..
    } in &guest.findings
    {
        checks.push(Check::new(phase, expected::finding(code.clone())));
        if let Some(fix) = fix {
            checks.push(Check::new(phase, expected::fix(fix.clone())));
        }
    }
    checks
}

/// The checks that each guest has that is not on Debian.
fn automatic_checks(guest: &Guest) -> Vec<Check> {
    let mut checks = Vec::new();
    if !guest.out_of_order {
        checks.extend(Group::ReadingsInOrder.checks(phase::END));
    }
    // On one CPU no threads exchange readings.
    if guest.cpus > 1 {
        checks.extend(Group::ThreadsExchange.checks(phase::END));
    }
    checks.extend(Group::UnixTimeFollows.checks(phase::SET_CLOCK));
    if !guest.has_own_pace {
        checks.extend(Group::UnixTimeFollowsPromptly.checks(phase::SET_CLOCK));
    }
    checks
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::phase::Phase;
    use super::*;

    #[test]
    fn the_kernels_command_line_has_the_act_and_the_scenarios() {
        let guests = all().unwrap();
        let kernel = |name: &str| {
            let mut guests = guests.iter();
            guests
                .find(|guest| guest.name == name)
                .unwrap()
                .kernel
                .as_str()
        };
        assert_eq!(
            kernel("utc"),
            "console=ttyS0 panic=-1 tsc=reliable tickline.act=utc tickline.trust=auto \
             tickline.awaits=fast tickline.utc=lies,silent"
        );
        assert!(!kernel("tsc").contains("tickline.utc"));
    }

    #[test]
    fn no_two_guests_have_one_name() {
        let guests = all().unwrap();
        let names: BTreeSet<&str> = guests.iter().map(|guest| guest.name.as_str()).collect();
        assert!(guests.len() > 30);
        assert_eq!(names.len(), guests.len());
    }

    /// A report with all phases, in which no phase says anything, must have faults.
    #[test]
    fn every_guest_must_say_what_serves_and_whether_readings_are_in_order() {
        for guest in all().unwrap() {
            let silent = |check: &Check| Phase::named(&check.phase);
            let phases: Vec<Phase> = guest.checks.iter().map(silent).collect();
            let faults: Vec<String> = guest
                .checks
                .iter()
                .filter_map(|check| check.fault(&phases))
                .collect();
            let name = &guest.name;
            let is_demanded = |start: &str| faults.iter().any(|fault| fault.starts_with(start));
            if guest.is_on_debian() {
                assert!(is_demanded("machine: clocksource is missing"), "{name}");
                continue;
            }
            for phase in ["before", "after"] {
                let state = format!("{phase}: watched.state is missing");
                // The rate of these counters changes all the time.
                let share = format!("{phase}: watched.fast_percent is missing");
                assert!(
                    is_demanded(&state) || is_demanded(&share),
                    "{name}: {phase}"
                );
            }
            let is_ordered = faults.iter().any(|fault| fault.contains("backward"));
            assert!(is_ordered, "{name}: no order");
            assert!(is_demanded("before: clocksource is missing"), "{name}");
        }
    }

    #[test]
    fn a_group_or_a_field_that_is_unknown_is_refused() {
        let list = || {
            let text = files::read("tests/vm/guests.toml").unwrap();
            toml::from_str::<List>(&text).unwrap()
        };
        let error = |guest: &str| parse(&list(), &toml::from_str(guest).unwrap()).err();
        let head = "name = 'x'\nabout = 'y'\n";
        assert_eq!(
            error(&format!("{head}[expect]\ncounter_serves = ['before']")),
            None
        );
        for (wrong, expected) in [
            (
                "[expect]\ncuonter_serves = ['before']",
                "unknown variant `cuonter_serves`",
            ),
            ("[expect]\ncounter_serves = 'before'", "invalid type"),
            ("act = 'swich'\n[expect]", "unknown variant `swich`"),
            ("trust = 'kernal'\n[expect]", "unknown variant `kernal`"),
            ("awaits = 'fasst'\n[expect]", "unknown variant `fasst`"),
            ("utc = ['slient']\n[expect]", "unknown variant `slient`"),
            (
                "checks = ['before state is fast']\n[expect]",
                "unknown field `checks`",
            ),
            ("processor = 'fast'\n[expect]", "no processor fast"),
            (
                "[expect]\n[[finding]]\nphase = 'program'\nabout = ''",
                "missing field `code`",
            ),
        ] {
            let error = error(&format!("{head}{wrong}")).unwrap();
            assert!(error.contains(expected), "{error}");
        }
    }
}
