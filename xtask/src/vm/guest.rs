//! Reads the guests of `tests/vm/guests.toml`: machine, kernel, act, and checks of the report.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::judge::holds;
use super::packages::Daemon;
use super::programs::{self, Program};
use crate::files;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    /// The default settings of guests.
    defaults: toml::Table,
    /// For each name of a processor: QEMU's `-cpu`.
    processors: BTreeMap<String, String>,
    /// For each group: its checks, which several guests have.
    groups: BTreeMap<String, Vec<String>>,
    guest: Vec<toml::Table>,
}

/// A guest: its machine, its act, and its expectations.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Guest {
    pub(super) name: String,
    pub(super) about: String,
    /// QEMU's `-cpu`; in the file, the processor's name.
    pub(super) processor: String,
    pub(super) cpus: u8,
    /// The kernel's clocksource before the act.
    clocksource: String,
    /// The kernel's command line: the kernel's own settings, and then the guest's.
    pub(super) kernel: String,
    pub(super) act: String,
    trust: String,
    awaits: String,
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
    /// Groups of checks, and the phases in which they hold.
    expect: BTreeMap<String, String>,
    #[serde(default, rename = "checks")]
    own_checks: Vec<String>,
    #[serde(skip)]
    pub(super) checks: Vec<Check>,
    /// The first finding that the program `tickline` must print in a phase: the phase, the phase's
    /// special condition, and the finding's code.
    #[serde(default)]
    pub(super) findings: Vec<[String; 3]>,
}

impl Guest {
    /// Whether the guest boots Debian, from disks, to run programs or to try the package.
    pub(super) fn is_on_debian(&self) -> bool {
        ["programs", "systemd"].contains(&self.act.as_str())
    }

    /// The steps of the act "systemd", and the programs that run during the act.
    pub(super) fn steps(&self) -> impl Iterator<Item = &str> {
        let groups = ["step", "served exchange"]
            .into_iter()
            .filter_map(|group| self.expect.get(group));
        groups.flat_map(|phases| phases.split(' '))
    }

    /// The scenarios of the act "utc".
    pub(super) fn utc(&self) -> impl Iterator<Item = &str> {
        let names = self
            .kernel
            .split(' ')
            .find_map(|word| word.strip_prefix("tickline.utc="));
        names.into_iter().flat_map(|names| names.split(','))
    }
}

/// A rule that must hold in every phase of this name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Check {
    pub(super) phase: String,
    /// Keys of the phase's JSON, separated by dots.
    pub(super) path: String,
    /// The rule in the syntax of the file.
    pub(super) rule: String,
    pub(super) why: String,
}

impl Check {
    /// Parses a line `PATH RULE # why`.
    pub(super) fn parse(phase: &str, line: &str) -> Result<Self, String> {
        let parse = || {
            let (rule, why) = line.split_once(" # ")?;
            let (path, rule) = rule.split_once(' ')?;
            // `holds` returns `None` for a text that is not a rule.
            holds(rule, &Value::Null, &Value::Null)?;
            let [phase, path, rule, why] = [phase, path, rule, why].map(str::to_owned);
            Some(Self {
                phase,
                path,
                rule,
                why,
            })
        };
        parse().ok_or_else(|| format!("guests.toml: no check: {line}"))
    }
}

/// Every guest.
pub(super) fn all() -> Result<Vec<Guest>, String> {
    let list: Result<List, _> = toml::from_str(&files::read("tests/vm/guests.toml")?);
    let list = list.map_err(|error| format!("guests.toml: {error}"))?;
    list.guest
        .iter()
        .map(|guest| parsed(&list, guest))
        .collect()
}

fn parsed(list: &List, guest: &toml::Table) -> Result<Guest, String> {
    let mut merged = list.defaults.clone();
    merged.extend(guest.clone());
    let guest: Result<Guest, _> = merged.try_into();
    let mut guest = guest.map_err(|error| format!("guests.toml: {error}"))?;
    let mut expect = Vec::new();
    for (group, phases) in &guest.expect {
        expect.extend(
            phases
                .split(' ')
                .map(|phase| (group.clone(), phase.to_owned())),
        );
    }
    for (group, phase, is_wanted) in [
        ("order", "end", !guest.out_of_order),
        // On one CPU no threads exchange readings.
        ("exchanges", "end", guest.cpus > 1),
        ("followed", "set_clock", true),
        ("prompt", "set_clock", !guest.has_own_pace),
    ] {
        if is_wanted && !guest.is_on_debian() {
            expect.push((group.to_owned(), phase.to_owned()));
        }
    }
    if guest.act == "programs" {
        guest.programs = programs::all()?;
    }
    // With acpi_pm most native calls take a sixth to a third less time (`programs.toml`).
    let share = if guest.kernel.contains("clocksource=acpi_pm") {
        0.75
    } else {
        1.0
    };
    for program in &guest.programs {
        for (phase, groups) in program.expect() {
            expect.extend(
                groups
                    .into_iter()
                    .map(|group| (group.to_owned(), phase.clone())),
            );
        }
        guest.checks.extend(program.checks(share)?);
    }
    for (group, phase) in expect {
        let lines = list
            .groups
            .get(&group)
            .ok_or_else(|| format!("guests.toml has no group {group}"))?;
        for line in lines {
            guest.checks.push(Check::parse(&phase, line)?);
        }
    }
    for line in &guest.own_checks {
        let (phase, line) = line.split_once(' ').unwrap_or_default();
        guest.checks.push(Check::parse(phase, line)?);
    }
    let phase = if guest.is_on_debian() {
        "machine"
    } else {
        "before"
    };
    let line = format!(
        "clocksource is {} # the guest is the one that was wanted",
        guest.clocksource
    );
    guest.checks.push(Check::parse(phase, &line)?);
    for [phase, _, code] in &guest.findings {
        let line = format!("finding.code is {code} # the program's first finding");
        guest.checks.push(Check::parse(phase, &line)?);
    }
    // After a panic the kernel reboots at once, and QEMU exits instead of a reboot (`-no-reboot`).
    guest.kernel = format!(
        "console=ttyS0 panic=-1 {} tickline.act={} tickline.trust={} tickline.awaits={}",
        guest.kernel, guest.act, guest.trust, guest.awaits
    );
    let processor = list.processors.get(&guest.processor).cloned();
    guest.processor =
        processor.ok_or_else(|| format!("guests.toml has no processor {}", guest.processor))?;
    Ok(guest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_every_guest_expects_something() {
        let guests = all().unwrap();
        assert!(guests.len() > 30);
        for (index, one) in guests.iter().enumerate() {
            assert!(
                guests[..index].iter().all(|other| other.name != one.name),
                "{} twice",
                one.name
            );
            if one.is_on_debian() {
                assert!(!one.checks.is_empty(), "{} expects nothing", one.name);
                continue;
            }
            let states = |phase| {
                one.checks.iter().any(|check| {
                    check.phase == phase && ["state", "reason"].contains(&check.path.as_str())
                })
            };
            assert!(
                states("before") && states("after"),
                "{} expects no state",
                one.name
            );
            assert!(
                one.checks
                    .iter()
                    .any(|check| check.path.contains("backward")),
                "{}: no order",
                one.name
            );
        }
    }

    #[test]
    fn a_line_that_is_no_check_is_refused() {
        for wrong in [
            "",
            "path",
            "path is tsc",
            "path <= x # why",
            "path about 3 # why",
            "is # why",
        ] {
            assert!(Check::parse("p", wrong).is_err(), "{wrong}");
        }
    }
}
