//! The first process of a guest. It reads an act from the kernel's command line, performs it on the
//! kernel and on tickline, reports as JSON, and powers off. `cargo xtask vm` judges the report.
//!
//! `tickline.act=NAME` names the act (`acts.rs`). `tickline.trust=kernel` or `measured` chooses
//! what the clock trusts, and `tickline.waive=invariant` assumes an invariant counter.
//! `tickline.awaits=STATE` is the state to wait for before the act. With `tickline.readers=sparing`
//! the readers do not read the OS clock.

#[cfg(target_os = "linux")]
mod acts;
#[cfg(target_os = "linux")]
mod brackets;
#[cfg(target_os = "linux")]
mod chrony;
#[cfg(target_os = "linux")]
mod cost;
#[cfg(target_os = "linux")]
mod lab;
#[cfg(target_os = "linux")]
mod machine;
#[cfg(target_os = "linux")]
mod migrate;
#[cfg(target_os = "linux")]
mod programs;
#[cfg(target_os = "linux")]
mod readers;
#[cfg(target_os = "linux")]
mod report;
#[cfg(target_os = "linux")]
mod served;
#[cfg(target_os = "linux")]
mod spans;
#[cfg(target_os = "linux")]
mod system;
#[cfg(target_os = "linux")]
mod who;

#[cfg(target_os = "linux")]
fn main() {
    match std::env::args().nth(1).as_deref() {
        Some(who::ASKER) => return who::ask(),
        Some(served::CALLER) => return served::call(),
        _ => {}
    }
    let act = machine::setting("tickline.act");
    if std::env::args().nth(1).as_deref() == Some(programs::units::CHECK) && act.as_deref() == Some("systemd")
    {
        let done = report::open().and_then(|()| programs::units::check());
        if let Err(error) = done {
            report::line(&serde_json::json!({ "phase": "error", "error": error.to_string() }));
        }
        return;
    }
    // It sets the clock and powers off. Elsewhere than in a guest of its own that would be a
    // disaster.
    if std::process::id() != 1 {
        #[expect(clippy::print_stderr, reason = "somebody has started it by hand")]
        {
            eprintln!("this is the first process of a guest; start guests with `cargo xtask vm`");
        }
        std::process::exit(2);
    }
    let live = || match act.as_deref() {
        // Debian has mounted its file systems.
        Some("programs") => report::open().and_then(|()| programs::run()),
        Some("suites") => report::open().and_then(|()| programs::suites::run()),
        Some("systemd") => report::open().and_then(|()| programs::units::boot()),
        _ => system::prepare().and_then(|()| acts::run()),
    };
    let outcome = std::panic::catch_unwind(live);
    if let Ok(Err(error)) = outcome {
        report::line(&serde_json::json!({ "phase": "error", "error": error.to_string() }));
    }
    system::power_off();
}

#[cfg(not(target_os = "linux"))]
fn main() {}
