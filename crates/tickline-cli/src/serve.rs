//! `tickline serve`: the process that serves a page to all others, and what can be asked of a page.
//!
//! `place` has the page's default name, `server` the loop, `status` what is printed of a page. The
//! rules are in `docs/lease.md`, the file in `tickline-page`, the writer in `tickline::page`.

mod place;
mod readers;
mod server;
mod status;

use std::io;
use std::path::Path;

pub(crate) use place::pages;
use tickline::page::LeasePhase;
use tickline_page::host::{self, PageError};

use crate::args::{self, ServeAction};
use crate::exit::Exit;
use crate::output::{self, Outputs};
use crate::terminal::plain_path;

pub(crate) fn run(args: &args::Serve) -> io::Result<Exit> {
    if args.json.target.is_some() && args.action != Some(ServeAction::Status) {
        return Err(io::Error::other("--json is for status: tickline serve status --json FILE"));
    }
    let page = &place::of(args.page.as_deref())?;
    match args.action {
        None => {
            // The folder of a page that the user names must be there.
            if args.page.is_none() {
                place::make_folder(page)?;
            }
            server::run(page)
        }
        Some(ServeAction::Status) => {
            let outputs = Outputs::open(&args.json)?;
            let status = status::Status::of(page)?;
            outputs.emit(&status, &status.text())?;
            Ok(if status.serving { Exit::Success } else { Exit::Negative })
        }
        Some(ServeAction::Off) => off(page),
        Some(ServeAction::On) => on(page),
    }
}

/// How many processes have a page mapped at the names where programs look for one. See
/// [`Machine`](crate::machine::Machine).
pub(crate) fn page_readers() -> Option<usize> {
    let counts = pages().into_iter().filter_map(|page| {
        let server = host::writer_of(&page).ok().flatten();
        Some(readers::find(&page, server).ok()?.0.len())
    });
    counts.reduce(|all, count| all + count)
}

/// What is wrong with a page, or that there is none.
fn no_page(error: PageError) -> io::Error {
    if error.is_not_found() {
        let page = error.path().display();
        return io::Error::other(format!(
            "there is no page {page}, so nothing is served there: `tickline serve` makes it"
        ));
    }
    io::Error::other(error)
}

fn off(page: &Path) -> io::Result<Exit> {
    let before = host::switch_off(page).map_err(no_page)?;
    say(
        page,
        &match before {
            LeasePhase::Off => "was off already".to_owned(),
            before => format!("off; it was {}", before.code()),
        },
    )
}

fn on(page: &Path) -> io::Result<Exit> {
    let was_off = host::switch_on(page).map_err(no_page)?;
    say(page, if was_off { "a server may serve it again; start one" } else { "was not switched off" })
}

fn say(page: &Path, what: &str) -> io::Result<Exit> {
    output::to_stdout(format!("{}: {what}\n", plain_path(page)))?;
    Ok(Exit::Success)
}
