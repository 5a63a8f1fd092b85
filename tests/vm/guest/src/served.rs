//! A static program under `tickline run`, in a guest in which each call of the clock is a system
//! call. The program measures the cost of a call. It is started again after each change of the
//! server, and its first reading is reported with the last one of the program before.

use std::fs;
use std::io;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;
use tickline_observe::monotonic_ns;

use crate::doctor::tickline;
use crate::lab::wait_for;
use crate::phase::{Called, Phase, Served};
use crate::{machine, report, system};

/// The argument that makes this program the caller, which only calls the clock.
pub(crate) const CALLER: &str = "caller";

/// The number of calls in a batch, and of batches. The fastest batch counts.
const CALLS: u64 = 1_000;
const BATCHES: u32 = 50;

/// The longest wait for a server to calibrate, and the time until a killed server's leases end.
const PATIENCE: Duration = Duration::from_secs(30);
const LEASES: Duration = Duration::from_millis(1_200);

/// The time for which the kernel's clock runs a tenth too fast.
const RAN_AHEAD: Duration = Duration::from_secs(1);

/// The caller: calls the clock, and prints its findings.
pub(crate) fn call() {
    let first_ns = monotonic_ns();
    let mut last_ns = first_ns;
    let mut backward = 0;
    let mut least_ns = u64::MAX;
    for _ in 0..BATCHES {
        let begin_ns = last_ns;
        for _ in 0..CALLS {
            let now_ns = monotonic_ns();
            backward += u64::from(now_ns < last_ns);
            last_ns = now_ns;
        }
        least_ns = least_ns.min(last_ns.saturating_sub(begin_ns));
    }
    let called = Called {
        first_ns,
        last_ns,
        backward,
        call_ns: least_ns / CALLS,
    };
    #[expect(clippy::print_stdout, reason = "the first process reads it")]
    {
        println!("{}", json!(called));
    }
}

/// Makes the kernel keep time with hpet, serves a page, and runs the caller in six situations:
///
/// - without tickline,
/// - under `tickline run`,
/// - after the server was killed,
/// - with the next server,
/// - when the next server has ended,
/// - after the kernel's clock has run too fast for a while.
///
/// # Errors
///
/// If a program cannot be started, or the clocksource cannot be chosen.
pub(crate) fn serve_caller() -> io::Result<()> {
    let first = machine::clocksource();
    machine::choose_clocksource("hpet")?;
    fs::create_dir_all("/run")?;
    let native = report::output("native", Command::new("/init").arg(CALLER).output());
    let native = report::parsed::<Called>(&native);
    let native_call_ns = native.as_ref().map(|called| called.call_ns);
    let mut last_ns = native.map(|called| called.last_ns);
    let mut server = serve(Stdio::piped())?;
    let mut report_next = |name: &str, messages: Option<String>| {
        let phase = report::output(
            name,
            tickline().args(["run", "--", "/init", CALLER]).output(),
        );
        let called = report::parsed::<Called>(&phase);
        let last_ns_before = last_ns;
        last_ns = called.as_ref().map(|called| called.last_ns);
        report::send(Phase {
            clocksource: Some(machine::clocksource()),
            called,
            served: Some(Served {
                native_call_ns,
                last_ns_before,
                server: messages,
            }),
            ..phase
        });
    };
    report_next("served", None);
    server.kill()?;
    server.wait()?;
    thread::sleep(LEASES);
    report_next("server_killed", None);
    let server = serve(Stdio::piped())?;
    report_next("served_again", None);
    report_next("server_stopped", Some(terminate(server)?));
    let server = serve(Stdio::piped())?;
    // A rate of 1 ms in 10 ms is far beyond the drift that a line allows for.
    set_tick_us(11_000)?;
    thread::sleep(RAN_AHEAD);
    let messages = terminate(server)?;
    set_tick_us(10_000)?;
    report_next("os_ran_ahead", Some(messages));
    machine::choose_clocksource(&first)
}

/// Starts a server, and waits until it serves.
pub(crate) fn serve(errors: Stdio) -> io::Result<Child> {
    let server = tickline().arg("serve").stderr(errors).spawn()?;
    wait_for(PATIENCE, || {
        thread::sleep(Duration::from_millis(100));
        tickline()
            .args(["serve", "status"])
            .output()
            .is_ok_and(|status| status.status.success())
    });
    Ok(server)
}

/// Sets the length of a kernel's tick, us; 10,000 is the true length.
fn set_tick_us(us: i64) -> io::Result<()> {
    system::adjust(|clock| {
        clock.modes = libc::ADJ_TICK;
        clock.tick = us;
    })
    .map(|_| ())
}

/// Ends a server as `systemctl stop` does. Returns the server's messages.
fn terminate(server: Child) -> io::Result<String> {
    system::send(&server, Signal::SIGTERM)?;
    let output = server.wait_with_output()?;
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}
