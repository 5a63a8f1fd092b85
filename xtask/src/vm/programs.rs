//! `cargo xtask vm --programs`: real programs on Debian in guests whose kernel keeps time with hpet
//! or acpi_pm, natively and served.

mod guest;
mod judge;
mod list;
mod root;
mod table;
mod units;

use std::process::ExitCode;
use std::time::Instant;

use guest::Guest;
use judge::Row;
use list::PROGRAMS;

use super::image::Failure;
use crate::step;

/// The guest with systemd.
const UNITS: &str = "systemd";

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
];

/// Runs the guests and the programs of these names, or all; with `--write` and nothing else, stores
/// the table.
pub(super) fn run(names: &[String]) -> ExitCode {
    let store = names == [super::WRITE];
    let names = if store { &[] } else { names };
    let (guests, programs): (Vec<&str>, Vec<&str>) =
        names.iter().map(String::as_str).partition(|name| GUESTS.iter().any(|guest| guest.name == *name));
    if let Some(unknown) = programs.iter().find(|name| PROGRAMS.iter().all(|program| program.name != **name))
    {
        let all = GUESTS.iter().map(|guest| guest.name).chain(PROGRAMS.iter().map(|program| program.name));
        eprintln!(
            "xtask vm --programs: '{unknown}' is neither a guest nor a program; there are {}",
            all.collect::<Vec<_>>().join(", ")
        );
        return ExitCode::from(2);
    }
    let disks = match root::prepare(&programs) {
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
    let wanted = |guest: &&Guest| guests.is_empty() || guests.contains(&guest.name);
    let (mut rows, mut steps): (Vec<Row>, Vec<units::Step>) = (Vec::new(), Vec::new());
    let mut kernel = String::from("unknown");
    for guest in GUESTS.iter().filter(wanted) {
        println!("\n=== {}: {} CPUs", guest.name, guest.cpus);
        let start = Instant::now();
        let run = guest::run(guest, &disks, |line| {
            // The journal follows as a text.
            if line["phase"] == "program" || line["phase"] == "handover" || line["phase"] == "unit" {
                println!("    {line}");
            }
        });
        for line in run.lines.iter().filter_map(|line| line["server"].as_str()).flat_map(str::lines) {
            println!("    {line}");
        }
        println!("    {:.0} s", start.elapsed().as_secs_f64());
        let machine = run.lines.iter().find(|line| line["phase"] == "machine");
        kernel = machine.and_then(|line| line["kernel"].as_str()).map_or(kernel, str::to_owned);
        if guest.name == UNITS {
            units::show(&run);
            steps = units::steps(&run);
        } else {
            rows.extend(judge::rows(guest, &run));
        }
    }
    table::print(&rows, &steps, &disks.skipped);
    let stored = if store { table::store(&rows, &steps, &kernel, &disks.skipped) } else { Ok(()) };
    if let Err(error) = stored {
        eprintln!("xtask vm: cannot store the table: {error}");
        return ExitCode::FAILURE;
    }
    let failed =
        rows.iter().any(|row| !row.faults.is_empty()) || steps.iter().any(|step| step.word() == "FAILED");
    match (failed, disks.skipped.is_empty()) {
        (true, _) => ExitCode::FAILURE,
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::from(step::SOME_SKIPPED),
    }
}
