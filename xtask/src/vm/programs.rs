//! `cargo xtask vm --programs`: real programs on Debian in guests whose kernel keeps time with hpet
//! or acpi_pm, natively and served; and the tests for time that some of them bring along.

mod guest;
mod judge;
mod list;
mod results;
mod root;
mod source;
mod suites;
mod table;
mod units;

use std::process::ExitCode;
use std::time::Instant;

use guest::Guest;
use list::{PROGRAMS, Program};
use serde_json::Value;
use suites::Suite;

use super::image::Failure;
use crate::step;

/// The guest with systemd.
const UNITS: &str = "systemd";

/// The guest with the programs' own tests.
const SUITES: &str = "suites";

/// A guest of this name, clocksource, number of CPUs and act.
const fn guest(name: &'static str, clocksource: &'static str, cpus: u8, act: &'static str) -> Guest {
    Guest { name, clocksource, cpus, act }
}

const GUESTS: &[Guest] = &[
    guest("hpet-1", "hpet", 1, "programs"),
    guest("hpet-2", "hpet", 2, "programs"),
    guest("acpi_pm-1", "acpi_pm", 1, "programs"),
    guest("acpi_pm-2", "acpi_pm", 2, "programs"),
    guest(UNITS, "hpet", 1, "systemd"),
    guest(SUITES, "hpet", 2, "suites"),
];

/// What is to run.
struct Wanted {
    guests: Vec<&'static Guest>,
    programs: Vec<&'static Program>,
    suites: Vec<&'static Suite>,
}

impl Wanted {
    /// Guests and programs of these names, or all. A program's name is also that of its suite.
    fn new(names: &[String]) -> Result<Self, String> {
        let (guests, programs): (Vec<&str>, Vec<&str>) =
            names.iter().map(String::as_str).partition(|name| GUESTS.iter().any(|guest| guest.name == *name));
        if let Some(unknown) =
            programs.iter().find(|name| PROGRAMS.iter().all(|program| program.name != **name))
        {
            let all =
                GUESTS.iter().map(|guest| guest.name).chain(PROGRAMS.iter().map(|program| program.name));
            return Err(format!(
                "'{unknown}' is neither a guest nor a program; there are {}",
                all.collect::<Vec<_>>().join(", ")
            ));
        }
        let is_wanted = |name: &str| programs.is_empty() || programs.contains(&name);
        let suites: Vec<_> = suites::SUITES.iter().filter(|suite| is_wanted(suite.name)).collect();
        if guests.contains(&SUITES) && suites.is_empty() {
            return Err(format!("there are no suites of {}", programs.join(", ")));
        }
        let has_work = |guest: &&Guest| guest.name != SUITES || !suites.is_empty();
        let guests: Vec<_> = GUESTS
            .iter()
            .filter(|guest| guests.is_empty() || guests.contains(&guest.name))
            .filter(has_work)
            .collect();
        let (some_suites, some_programs) = (
            guests.iter().any(|guest| guest.name == SUITES),
            guests.iter().any(|guest| guest.name != SUITES),
        );
        Ok(Self {
            guests,
            programs: PROGRAMS.iter().filter(|it| some_programs && is_wanted(it.name)).collect(),
            suites: if some_suites { suites } else { Vec::new() },
        })
    }
}

/// Runs the guests and the programs of these names, or all; with `--write` and nothing else, stores
/// the table.
pub(super) fn run(names: &[String]) -> ExitCode {
    let store = names == [super::WRITE];
    let names = if store { &[] } else { names };
    let wanted = match Wanted::new(names) {
        Ok(wanted) => wanted,
        Err(what) => {
            eprintln!("xtask vm --programs: {what}");
            return ExitCode::from(2);
        }
    };
    let disks = match root::prepare(&wanted.programs, &wanted.suites) {
        Ok(disks) => disks,
        Err(Failure::Missing(what)) => {
            println!("SKIPPED all programs: {what}. Nothing was checked.");
            return ExitCode::from(step::SOME_SKIPPED);
        }
        Err(Failure::Broken(what)) => {
            println!("FAILED before the first guest: {what}");
            return ExitCode::FAILURE;
        }
    };
    let mut found = table::Found::default();
    let mut kernel = String::from("unknown");
    for guest in wanted.guests {
        if guest.name == SUITES && disks.suites.is_empty() {
            continue;
        }
        println!("\n=== {}: {} CPUs", guest.name, guest.cpus);
        let start = Instant::now();
        let run = guest::run(guest, &disks, show);
        for line in run.lines.iter().filter_map(|line| line["server"].as_str()).flat_map(str::lines) {
            println!("    {line}");
        }
        println!("    {:.0} s", start.elapsed().as_secs_f64());
        let machine = run.lines.iter().find(|line| line["phase"] == "machine");
        kernel = machine.and_then(|line| line["kernel"].as_str()).map_or(kernel, str::to_owned);
        match guest.name {
            UNITS => {
                units::show(&run);
                found.steps = units::steps(&run);
            }
            SUITES => found.suites = results::rows(&disks.suites, &run),
            _ => found.programs.extend(judge::rows(guest, &run)),
        }
    }
    table::print(&found, &disks.skipped);
    let stored = if store { table::store(&found, &kernel, &disks.skipped) } else { Ok(()) };
    if let Err(error) = stored {
        eprintln!("xtask vm: cannot store the table: {error}");
        return ExitCode::FAILURE;
    }
    match (found.has_failed(), disks.skipped.is_empty()) {
        (true, _) => ExitCode::FAILURE,
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::from(step::SOME_SKIPPED),
    }
}

/// Prints a line of a guest's report. The journal follows as a text, and of the tests
/// those that failed.
fn show(line: &Value) {
    let mut line = line.clone();
    if let Some(results) = line.get_mut("results").and_then(Value::as_object_mut) {
        results.retain(|_, result| result == "failed");
    }
    if ["program", "handover", "unit", "suite", "repeat"].iter().any(|phase| line["phase"] == *phase) {
        println!("    {line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(names: &[&str]) -> Result<[usize; 3], String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        Wanted::new(&names).map(|it| [it.guests.len(), it.programs.len(), it.suites.len()])
    }

    #[test]
    fn names_choose_guests_programs_and_suites() {
        let (guests, programs, suites) = (GUESTS.len(), PROGRAMS.len(), suites::SUITES.len());
        assert_eq!(wanted(&[]), Ok([guests, programs, suites]));
        assert_eq!(wanted(&["suites"]), Ok([1, 0, suites]), "no load is built");
        assert_eq!(wanted(&["suites", "PHP"]), Ok([1, 0, 1]));
        assert_eq!(wanted(&["hpet-1", "PHP"]), Ok([1, 1, 0]));
        assert_eq!(wanted(&["PHP"]), Ok([guests, 1, 1]));
        assert_eq!(wanted(&["Redis"]), Ok([guests - 1, 1, 0]), "it has no suite");
        assert!(wanted(&["suites", "Redis"]).is_err_and(|why| why.contains("no suites of Redis")));
        assert!(wanted(&["Rust"]).is_err_and(|why| why.contains("neither a guest nor a program")));
    }
}
