//! The first process of a guest: reads from the kernel's command line what to do, does it to the kernel and to tickline,
//! reports what it saw as JSON, and powers off. It judges nothing: expectations are `cargo xtask vm`'s.
//!
//! `tickline.act=NAME` names the act (`acts.rs`), `tickline.trust=kernel` or `measured` says whose word counts,
//! `tickline.waive=invariant` does without the invariant counter, and `tickline.awaits=STATE` says which state is worth waiting
//! for before the act. `tickline.readers=sparing` has the readers leave the OS clock alone.

#[cfg(target_os = "linux")]
mod acts;
#[cfg(target_os = "linux")]
mod cost;
#[cfg(target_os = "linux")]
mod lab;
#[cfg(target_os = "linux")]
mod look;
#[cfg(target_os = "linux")]
mod machine;
#[cfg(target_os = "linux")]
mod readers;
#[cfg(target_os = "linux")]
mod report;
#[cfg(target_os = "linux")]
mod spans;
#[cfg(target_os = "linux")]
mod system;

#[cfg(target_os = "linux")]
fn main() {
    // It sets the clock and powers off. Elsewhere than in a guest of its own that would be a disaster.
    if std::process::id() != 1 {
        #[expect(clippy::print_stderr, reason = "somebody has started it by hand")]
        {
            eprintln!("this is the first process of a guest; start guests with `cargo xtask vm`");
        }
        std::process::exit(2);
    }
    let outcome = std::panic::catch_unwind(|| system::prepare().and_then(|()| acts::run()));
    if let Ok(Err(error)) = outcome {
        report::line(&serde_json::json!({ "phase": "error", "error": error.to_string() }));
    }
    system::power_off();
}

#[cfg(not(target_os = "linux"))]
fn main() {}
