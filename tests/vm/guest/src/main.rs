//! The first process of a guest. It reads the name of an act from the kernel's command line,
//! performs the act on the kernel and on tickline, reports as JSON, and powers off. `cargo xtask
//! vm` judges the report.
//!
//! `settings.rs` explains the command line.
#![cfg_attr(not(target_os = "linux"), no_main)]
#![cfg(target_os = "linux")]

mod acts;
mod agreed;
mod brackets;
mod cost;
mod doctor;
mod lab;
mod machine;
mod migrate;
mod phase;
mod programs;
mod readers;
mod report;
mod resume;
mod served;
mod settings;
mod system;
mod utc;
mod who;

use std::io;

use agreed::Act;
use phase::Phase;
use settings::Settings;

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some(who::ASKER) => return who::ask(),
        Some(served::CALLER) => return served::call(),
        Some(utc::STRANGER) => return utc::answer(),
        _ => {}
    }
    if std::env::args().nth(1).as_deref() == Some(programs::units::CHECK)
        && Settings::read().is_ok_and(|settings| settings.act == Act::Systemd)
    {
        return finish(report::open().and_then(|()| programs::units::check()));
    }
    // This program sets the clock and powers off the machine, so it must run only in a guest.
    if std::process::id() != 1 {
        #[expect(clippy::print_stderr, reason = "a user has started it by hand")]
        {
            eprintln!("this is the first process of a guest; start guests with `cargo xtask vm`");
        }
        std::process::exit(2);
    }
    let live = || match Settings::read() {
        // On Debian, the file systems are already mounted.
        Ok(Settings {
            act: Act::Programs, ..
        }) => report::open().and_then(|()| programs::run()),
        Ok(Settings {
            act: Act::Systemd, ..
        }) => report::open().and_then(|()| programs::units::boot()),
        Err(wrong) if wrong.kind() == io::ErrorKind::InvalidInput => report::open().and(Err(wrong)),
        _ => system::prepare().and_then(|()| acts::run()),
    };
    std::panic::catch_unwind(|| finish(live())).ok();
    system::power_off();
}

/// Reports the error of `outcome`, if there is one.
fn finish(outcome: io::Result<()>) {
    if let Err(error) = outcome {
        report::send(Phase {
            error: Some(error.to_string()),
            ..Phase::named(phase::ERROR)
        });
    }
}
