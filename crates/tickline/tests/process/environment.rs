//! `TICKLINE`, and programs that change their environment.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use tickline::{Clock, ClockState, Driver, EnvironmentSwitch, Probes, Reason};

use crate::common::{alone, run_in_child, skip, skipped_in_an_emulator};
use tickline_observe::fork::CANNOT;

/// Readings and starts use the variable's value at the start of the process.
#[test]
fn the_environment_is_that_of_the_start() {
    run_in_child(&[("TICKLINE", "off")], || {
        // SAFETY: this process has no other thread that reads the environment.
        unsafe { std::env::set_var("TICKLINE", "on") };
        let clock = Clock::builder().driver(Driver::Manual).build().unwrap();
        clock.maintain();
        assert_eq!(clock.status().environment, EnvironmentSwitch::Off);
        assert!(
            matches!(
                clock.status().state,
                ClockState::Fallback(Reason::DisabledByEnvironment)
            ),
            "{:?}",
            clock.status()
        );
    });
}

/// With minimal probes nothing opens a file, and the thread that starts the clock asks std.
#[test]
fn minimal_probes_read_the_variable_through_std() {
    run_in_child(&[("TICKLINE", "off")], || {
        // SAFETY: the call takes numbers. Only root loses a right: that to read
        // `/proc/self/environ`.
        if unsafe { libc::setresuid(65_534, 65_534, 65_534) } == 0 {
            (0..10_000).for_each(|_| _ = std::hint::black_box(tickline::now_ns()));
        }
        let clock = Clock::builder()
            .driver(Driver::Manual)
            .probes(Probes::Minimal)
            .build()
            .unwrap();
        crate::common::read_until(Clock::global(), Clock::now, |status| {
            status.state == ClockState::Fallback(Reason::DisabledByEnvironment)
        });
        clock.maintain();
        assert_eq!(clock.status().environment, EnvironmentSwitch::Off);
    });
}

const PRIVILEGED: &str = "TICKLINE_TEST_PRIVILEGED";

/// A user can't control a set-user-id program by the variable.
#[test]
fn a_set_user_id_process_ignores_the_variable() {
    if skipped_in_an_emulator() {
        return;
    }
    if std::env::var_os(PRIVILEGED).is_some() {
        return assert_ignores_the_variable();
    }
    // SAFETY: the call has no precondition.
    if unsafe { libc::geteuid() } != 0 {
        return skip("only root can make a program that runs with another user's rights");
    }
    let folder = std::env::temp_dir().join(format!("tickline-set-user-id-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let program = folder.join("program");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
    let output = Command::new(&program)
        .args(alone(
            "environment::a_set_user_id_process_ignores_the_variable",
        ))
        .envs([(PRIVILEGED, "1"), ("TICKLINE", "off")])
        .current_dir("/")
        .uid(65_534)
        .output();
    std::fs::remove_dir_all(&folder).unwrap();
    match output {
        Err(error) => skip(format_args!(
            "nobody may not run a program of the temporary folder: {error}"
        )),
        Ok(output) if output.status.code() == Some(CANNOT) => {
            skip("set-user-id has no effect in the temporary folder");
        }
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(
                text.contains("1 passed"),
                "{text}{}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
}

fn assert_ignores_the_variable() {
    // SAFETY: the call takes a number.
    if unsafe { libc::getauxval(libc::AT_SECURE) } == 0 {
        // SAFETY: ends the process at once; set-user-id has no effect in that folder.
        unsafe { libc::_exit(CANNOT) };
    }
    assert_eq!(std::env::var("TICKLINE").as_deref(), Ok("off"));
    std::hint::black_box(tickline::now_ns());
    assert_eq!(
        Clock::global().status().environment,
        EnvironmentSwitch::Unset
    );
    let _guard = tickline::start().unwrap();
    assert_eq!(
        Clock::global().status().environment,
        EnvironmentSwitch::Unset
    );
}
