//! The first process of a guest. It reads the name of an act from the kernel's command line,
//! performs the act on the kernel and on tickline, reports as JSON, and powers off. `cargo xtask
//! vm` judges the report.
//!
//! `tickline.act=NAME` names the act (`acts.rs`). `tickline.trust=kernel` or `measured` sets the
//! clock's trust, `tickline.waive=invariant` assumes an invariant counter, and
//! `tickline.interval_ms=N` sets the clock's interval. `tickline.awaits=STATE` is the state to wait
//! for before the act. `tickline.utc=NAME,NAME` names the scenarios of the act "utc".
#![cfg_attr(not(target_os = "linux"), no_main)]
#![cfg(target_os = "linux")]

mod acts;
mod brackets;
mod cost;
mod doctor;
mod lab;
mod machine;
mod migrate;
mod programs;
mod readers;
mod report;
mod resume;
mod served;
mod system;
mod utc;
mod who;

use std::io;

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some(who::ASKER) => return who::ask(),
        Some(served::CALLER) => return served::call(),
        Some(utc::STRANGER) => return utc::answer(),
        _ => {}
    }
    let act = machine::setting("tickline.act");
    if std::env::args().nth(1).as_deref() == Some(programs::units::CHECK)
        && act.as_deref() == Some("systemd")
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
    let live = || match act.as_deref() {
        // On Debian, the file systems are already mounted.
        Some("programs") => report::open().and_then(|()| programs::run()),
        Some("systemd") => report::open().and_then(|()| programs::units::boot()),
        _ => system::prepare().and_then(|()| acts::run()),
    };
    std::panic::catch_unwind(|| finish(live())).ok();
    system::power_off();
}

/// Reports the error of `outcome`, if there is one.
fn finish(outcome: io::Result<()>) {
    if let Err(error) = outcome {
        report::send_line(&serde_json::json!({ "phase": "error", "error": error.to_string() }));
    }
}
