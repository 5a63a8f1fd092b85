//! `cargo xtask vm`: runs real kernels with bad clocks, in guests under QEMU's emulation. This is
//! the host's half; the guest's half, and the list of guests, are in `tests/vm/`, whose README
//! explains both and says which file to open for which change. A run goes through these files:
//!
//! 1. `guest` reads the list: machines, acts, and the groups of rules. `programs` adds programs on
//!    Debian.
//! 2. `image` builds kernel and initramfs; `packages` and `limiter` add programs to it.
//! 3. `qemu` runs one guest and collects its report; `migrate` changes a counter on the way.
//! 4. `judge` applies the rules of `expected`, which `check` makes from comparisons.
//! 5. `table` prints and stores the results.
//!
//! Two files of the guest are compiled here, too: `phase` has the phases of a report, and `agreed`
//! what else both halves know.

#[path = "../../tests/vm/guest/src/agreed.rs"]
mod agreed;
mod check;
mod expected;
mod guest;
mod image;
mod judge;
mod limiter;
mod migrate;
mod packages;
#[path = "../../tests/vm/guest/src/phase.rs"]
mod phase;
mod programs;
mod qemu;
mod table;

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;

use agreed::Act;
use guest::Guest;
pub(crate) use image::BUILD;
use image::Image;
use qemu::Run;
use table::Row;

use crate::files;
use crate::outcome::{NotPassed, SOME_SKIPPED, code, word};

/// The folder for kernel, initramfs and the guests' consoles.
fn folder() -> PathBuf {
    files::target().join("vm")
}

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Only these guests
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Runs unmodified programs on Debian in such guests, and the package under systemd
    #[arg(long)]
    programs: bool,
    /// Stores the rows of the guests in the documentation
    #[arg(long)]
    write: bool,
    /// Only fetches what guests without a disk need: compiler's target, emulator, kernel; fails if
    /// something is missing
    #[arg(long, conflicts_with_all = ["names", "programs", "write"])]
    prepare: bool,
}

/// Runs the named guests, or all; judges them and prints tables. With `--programs`, these are the
/// guests on Debian; without it, all others. Fails if a guest fails, and says so if a guest was
/// skipped. `--write` stores the rows, unless a guest that is not on Debian has failed. `--prepare`
/// only fetches the guests' requirements, so that CI can distinguish a skipped step from a passed
/// one.
pub(crate) fn run(arguments: &Arguments) -> Result<u8, String> {
    if arguments.prepare {
        return match image::fetch() {
            Ok(_) => Ok(0),
            Err(NotPassed::Skipped(reason) | NotPassed::Failed(reason)) => {
                Err(format!("no guests here: {reason}"))
            }
        };
    }
    let is_on_debian = arguments.programs;
    let names = &arguments.names;
    let mut guests = guest::all()?;
    guests.retain(|one| one.is_on_debian() == is_on_debian);
    check_names(names, &guests)?;
    let prepared = if is_on_debian {
        programs::prepare()
    } else {
        image::prepare()
    };
    let image = match prepared {
        Ok(image) => image,
        Err(NotPassed::Skipped(reason)) => {
            println!("SKIPPED all guests: {reason}. Nothing was checked.");
            return Ok(SOME_SKIPPED);
        }
        Err(NotPassed::Failed(reason)) => return Err(format!("before the first guest: {reason}")),
    };
    let start = Instant::now();
    let is_chosen = |one: &&Guest| names.is_empty() || names.contains(&one.name);
    let rows = guests.iter().filter(is_chosen);
    let rows = rows.map(|guest| run_and_judge(guest, &image));
    let rows = rows.collect::<Result<Vec<_>, String>>()?;
    table::print(&rows, start.elapsed().as_secs_f64());
    // A guest that was skipped has not passed.
    let code = code(rows.iter().map(|row| &row.verdict));
    // The row of a program that is too slow says so, so store it in spite of the failure.
    if arguments.write && (is_on_debian || code != 1) {
        table::store(&guests, &rows)?;
    }
    Ok(code)
}

/// Fails, with a list of all guests, if one of the names is no guest.
fn check_names(names: &[String], guests: &[Guest]) -> Result<(), String> {
    let is_guest = |name: &&String| guests.iter().any(|one| one.name == **name);
    let Some(name) = names.iter().find(|name| !is_guest(name)) else {
        return Ok(());
    };
    let line = |one: &Guest| format!("\n  {:<16} {}", one.name, one.about);
    let all: String = guests.iter().map(line).collect();
    Err(format!("'{name}' is no guest; there are{all}"))
}

/// Runs a guest, stores its report, and judges it. Prints its name and the verdict.
fn run_and_judge<'a>(guest: &'a Guest, image: &Image) -> Result<Row<'a>, String> {
    println!("\n=== {}: {}", guest.name, guest.about);
    let start = Instant::now();
    let run = boot(guest, image);
    files::store(folder().join(format!("{}.json", guest.name)), &run.lines)?;
    let verdict = judge::judge(guest, &run);
    if let Err(NotPassed::Skipped(why) | NotPassed::Failed(why)) = &verdict {
        for line in why.lines() {
            println!("    {}: {line}", word(&verdict));
        }
    }
    println!(
        "    {} after {:.1} s",
        word(&verdict),
        start.elapsed().as_secs_f64()
    );
    Ok(Row {
        guest,
        verdict,
        run,
    })
}

/// Boots a guest of this image, to which it may add files.
fn boot(guest: &Guest, image: &Image) -> Run {
    let daemon = guest.daemon.as_ref().map(packages::collect);
    let more = daemon.or_else(|| (guest.act == Act::Limiter).then(limiter::build));
    match more.map(|folder| image.with_files(&folder?)) {
        None => qemu::run(guest, image),
        Some(Ok(image)) => qemu::run(guest, &image),
        Some(Err(NotPassed::Skipped(reason))) => Run::unavailable(&reason),
        Some(Err(NotPassed::Failed(reason))) => Run {
            broken: Some(reason),
            ..Run::default()
        },
    }
}
